//! The story of seed 000 with the real program: a name that exists nowhere, looked for through five
//! search domains, is seen first, with who asks for it, and gone after the command that is shown.

use crate::fixture::{Folder, PATIENCE, Server, eventually, free_port, http_get, nodens, request};
use nodens_wire::{Message, Rcode, Type};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

const DOMAINS: [&str; 5] =
    ["shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.test", "node.test"];
const BAD: &str = "db.bad.invalid";
const CENTRAL: &str = ".:PORT {
    bind 127.0.0.1
    log . \"{name}\"
    template IN ANY good.test {
        answer \"{{ .Name }} 5 IN A 192.0.2.1\"
    }
    template ANY ANY {
        rcode NXDOMAIN
    }
}";
const NODE: &str = "cluster.local:PORT {
    bind 127.0.0.1
    forward . CENTRAL
}
.:PORT {
    bind 127.0.0.1
    forward . CENTRAL
    prometheus 127.0.0.1:METRICS
}";

/// A client at an address of its own.
struct Client<'s>(UdpSocket, &'s Server);

impl<'s> Client<'s> {
    fn at(address: &str, server: &'s Server) -> Self {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket, server)
    }

    fn ask(&self, qname: &str, qtype: Type) -> Rcode {
        let mut reply = [0; 4096];
        self.0.send_to(&request(qname, qtype), self.1.address).unwrap();
        let len = self.0.recv(&mut reply).unwrap();
        Message::parse(&reply[..len]).unwrap().flags.rcode()
    }

    /// As a stub resolver with `ndots:5` does.
    fn look_up(&self, name: &str) {
        let domains = DOMAINS.map(|domain| format!("{name}.{domain}"));
        for qname in domains.iter().map(String::as_str).chain([name]) {
            let rcodes = [Type::A, Type::AAAA].map(|qtype| self.ask(qname, qtype));
            if rcodes.contains(&Rcode::NOERROR) {
                return;
            }
        }
    }
}

fn report(socket: &Path) -> Value {
    let output = nodens().args(["top", "-json", "-socket"]).arg(socket).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

fn is_listed(list: &Value, name: &str) -> bool {
    list.as_array().is_some_and(|all| all.iter().any(|leak| leak["name"] == name))
}

#[test]
fn a_leak_is_seen_first_within_ten_seconds_and_gone_after_the_command() {
    let folder = Folder::new("insight-socket");
    let socket = folder.0.join("top");
    let metrics = free_port();
    let central = Server::start("insight-central", CENTRAL);
    let corefile = NODE
        .replace("CENTRAL", &central.address.to_string())
        .replace("METRICS", &metrics.to_string());
    let options = ["-top", "-top-http", "-top-socket", socket.to_str().unwrap()];
    let node = Server::start_with("insight-node", &corefile, &options);
    let pod = Client::at("127.0.0.77", &node);
    let others = ["127.0.0.78", "127.0.0.79"].map(|address| Client::at(address, &node));
    let live = || {
        for n in 0..20 {
            others.iter().for_each(|client| _ = client.ask(&format!("www{n}.good.test"), Type::A));
        }
        others[0].look_up("api.good.test");
        pod.look_up(BAD);
        pod.look_up(BAD);
        std::thread::sleep(Duration::from_millis(100));
    };
    // Rounds, each of which takes a tenth of a second and a little: a busy machine takes longer.
    let (mut rounds, mut seen) = (0, Value::Null);
    eventually("the leak is first", || {
        live();
        rounds += 1;
        seen = report(&socket)["leaks"][0].clone();
        seen["name"] == "db.bad.invalid."
            && seen["domains"].as_array().is_some_and(|d| d.len() == 5)
    });
    assert!(rounds <= 60, "{rounds} rounds");
    assert_eq!(seen["sources"][0]["address"], "127.0.0.77", "{seen}");
    let amplification = seen["amplification"].as_f64().unwrap();
    assert!((10.0..=14.0).contains(&amplification), "{seen}");
    shows_the_page(metrics);

    let command = seen["command"].as_str().unwrap();
    let output = nodens()
        .args(command.split(' ').skip(1))
        .arg("-conf")
        .arg(&node.conf)
        .arg("-write")
        .output()
        .unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    node.signal("-USR1");
    node.wait_for("Reloading complete");
    eventually("the leak is gone", || {
        live();
        let report = report(&socket);
        !is_listed(&report["leaks"], "db.bad.invalid.")
            && is_listed(&report["stopped"], "db.bad.invalid.")
    });
    // And the central server is not asked any more.
    others[0].ask("before.good.test", Type::A);
    central.wait_for("before.good.test");
    let before = central.count_seen(BAD);
    live();
    assert_eq!(pod.ask(BAD, Type::A), Rcode::NXDOMAIN);
    others[0].ask("after.good.test", Type::A);
    central.wait_for("after.good.test");
    assert!(before > 0);
    assert_eq!(central.count_seen(BAD), before);
}

/// To this host, and not to what a foreign page leads a browser to.
fn shows_the_page(port: u16) {
    let (status, page) = http_get(port, "/debug/dns").unwrap();
    assert!(status.contains("200") && page.contains("db.bad.invalid."), "{status}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET /debug/dns HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let head = response.split("\r\n\r\n").next().unwrap().to_lowercase();
    assert!(head.contains("content-security-policy: default-src 'none';"), "{head}");
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET /debug/dns HTTP/1.0\r\nHost: evil.example:{port}\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.contains(" 403 ") && !response.contains("db.bad.invalid"), "{response}");
}

#[test]
fn a_port_shows_nothing_of_clients_unless_it_is_asked_to() {
    let folder = Folder::new("insight-port");
    let socket = folder.0.join("top");
    let metrics = free_port();
    let central = Server::start("insight-port-central", CENTRAL);
    let corefile = NODE
        .replace("CENTRAL", &central.address.to_string())
        .replace("METRICS", &metrics.to_string());
    let options = ["-top", "-top-socket", socket.to_str().unwrap()];
    let node = Server::start_with("insight-port-node", &corefile, &options);
    Client::at("127.0.0.77", &node).look_up(BAD);
    eventually("a report", || report(&socket)["leaks"][0]["name"] == "db.bad.invalid.");
    for path in ["/debug/dns", "/debug/dns.json"] {
        let (status, text) = http_get(metrics, path).unwrap();
        assert!(status.contains("403") && text.contains("-top-http"), "{status} {text}");
        assert!(!text.contains("db.bad.invalid"), "{text}");
    }
    assert!(http_get(metrics, "/metrics").unwrap().0.contains("200"));
}

/// Status line of the response to `request` at `socket`, and the rest.
fn respond(socket: &Path, request: &str) -> (String, String) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{request} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (status, rest) = response.split_once("\r\n").unwrap();
    (status.to_owned(), rest.to_owned())
}

#[test]
fn the_local_socket_can_be_read_and_nothing_else() {
    let folder = Folder::new("insight-local");
    let socket = folder.0.join("top");
    let corefile = ".:PORT {\n bind 127.0.0.1\n whoami\n}";
    let options = ["-top", "-top-socket", socket.to_str().unwrap()];
    let server = Server::start_with("insight-local-server", corefile, &options);
    eventually("a report", || !report(&socket).is_null());
    assert!(respond(&socket, "GET /debug/dns.json").0.contains(" 200 "));
    for path in ["/", "/metrics", "/health", "/debug/dns.json/", "/debug/pprof/"] {
        assert!(respond(&socket, &format!("GET {path}")).0.contains(" 404 "), "{path}");
    }
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"] {
        let (status, rest) = respond(&socket, &format!("{method} /debug/dns.json"));
        assert!(status.contains(" 405 ") && !rest.contains("leaks"), "{method}: {status} {rest}");
    }
    // Readers that stay without reading take no more than a few descriptors.
    let files = || std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    let before = files();
    let idle: Vec<_> = (0..100).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    assert!(!report(&socket).is_null());
    eventually("the oldest connections end", || files() < before + 20);
    drop(idle);
    assert!(server.end("-TERM").success());
}

#[test]
fn what_is_no_report_is_neither_kept_nor_printed() {
    let folder = Folder::new("insight-strange");
    let head = "HTTP/1.0 200 OK\r\n\r\n";
    let endless = format!("{head}\"{}", "x".repeat(64 << 20));
    for (name, response) in [("endless", &*endless), ("escapes", &format!("{head}\x1b[2J{{}}"))] {
        let socket = folder.0.join(name);
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::scope(|scope| {
            let strange = scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = Vec::new();
                while !asked.ends_with(b"\r\n\r\n") {
                    let mut octet = [0];
                    stream.read_exact(&mut octet).unwrap();
                    asked.extend(octet);
                }
                // It hangs up when it has seen enough.
                _ = stream.write_all(response.as_bytes());
            });
            let output = nodens().args(["top", "-json", "-socket"]).arg(&socket).output().unwrap();
            let errors = String::from_utf8(output.stderr).unwrap();
            assert!(!output.status.success() && output.stdout.is_empty(), "{name}");
            assert!(errors.contains("no report") && !errors.contains('\x1b'), "{errors}");
            strange.join().unwrap();
        });
    }
}

#[test]
fn lines_that_stop_a_leak_are_printed_and_nothing_is_changed() {
    let folder = Folder::new("insight-blackhole");
    let corefile =
        NODE.replace("PORT", "5300").replace("CENTRAL", "192.0.2.1").replace("METRICS", "9");
    let conf = folder.write("Corefile", &corefile);
    let run = |arguments: &[&str]| {
        let output = nodens().arg("blackhole").args(arguments).arg("-conf").arg(&conf).output();
        let output = output.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let (done, lines, errors) = run(&["Db.bad.invalid", "-search", "svc.cluster.local"]);
    assert!(done, "{errors}");
    for expected in [
        "server block `cluster.local:5300`, before line 2",
        "match ^db[.]bad[.]invalid[.]svc[.]cluster[.]local[.]$",
        "server block `.:5300`, before line 6",
        "match ^db[.]bad[.]invalid[.]$",
        "rcode NXDOMAIN",
    ] {
        assert!(lines.contains(expected), "no {expected:?} in {lines}");
    }
    assert_eq!(std::fs::read_to_string(&conf).unwrap(), corefile);
    let (_, lines, _) = run(&["*.attack.example"]);
    assert!(lines.contains("match [.]attack[.]example[.]$"), "{lines}");
    let (_, lines, _) = run(&["good.test", "-search-only", "corp.test"]);
    assert!(!lines.contains("match ^good[.]test[.]$"), "{lines}");
    for (wrong, expected) in [
        (&["."][..], "every name"),
        (&[], "expected one NAME"),
        (&["a..b"], "not a domain name"),
        (&["a", "-nope"], "not defined"),
    ] {
        let (done, _, errors) = run(wrong);
        assert!(!done && errors.contains(expected), "{wrong:?}: {errors}");
    }
    // The lines go in front of a template that would answer otherwise.
    let first = ".:5300 {\n    template IN ANY {\n        match ^db[.]\n        answer \"{{ .Name }} \
        IN A 192.0.2.1\"\n        fallthrough\n    }\n}\n";
    folder.write("Corefile", first);
    assert!(run(&["db.bad.invalid"]).0, "lines go in front of others");
}

#[test]
fn lines_that_stop_a_leak_stand_in_their_block_and_in_no_snippet() {
    let folder = Folder::new("insight-snippets");
    let corefile = "(inner) {\n    errors\n}\n(shared) {\n    import inner\n}\n\
                    bad.invalid:5300 {\n    import shared\n    whoami\n}\n\
                    .:5300 {\n    import shared\n    whoami\n}\n";
    let conf = folder.write("Corefile", corefile);
    let run = || {
        let mut command = nodens();
        command.args(["blackhole", "db.bad.invalid", "-write", "-conf"]).arg(&conf);
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(), (true, String::new()));
    let written = std::fs::read_to_string(&conf).unwrap();
    let (before, after) =
        corefile.split_at(corefile.find("    import shared\n    whoami").unwrap());
    assert!(written.starts_with(before) && written.ends_with(after), "{written}");
    assert_eq!(written.matches("template").count(), 1, "{written}");
    // A block that stands in a snippet whole has no line of its own.
    let hidden = "(blocks) {\n .:5300 {\n  whoami\n }\n}\nimport blocks\n";
    std::fs::write(&conf, hidden).unwrap();
    let (done, errors) = run();
    assert!(!done && !errors.is_empty());
    assert_eq!(std::fs::read_to_string(&conf).unwrap(), hidden);
}

#[test]
fn the_program_that_draws_is_started_from_path_and_is_named_where_it_is_missing() {
    let folder = Folder::new("insight-screen");
    let alone = folder.0.join("nodens");
    std::fs::copy(nodens().get_program(), &alone).unwrap();
    let run = || {
        let mut command = std::process::Command::new(&alone);
        command.args(["top", "-once", "-socket", "@some"]).env("PATH", &folder.0);
        // A process that another test has just begun may still have the file open as it was written.
        let is_busy =
            |error: &std::io::Error| error.kind() == std::io::ErrorKind::ExecutableFileBusy;
        let output = loop {
            match command.output() {
                Err(error) if is_busy(&error) => std::thread::sleep(Duration::from_millis(5)),
                output => break output.unwrap(),
            }
        };
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, _, error) = run();
    assert_eq!(code, Some(1));
    assert!(error.contains("nodens-top not found") && error.contains("-json"), "{error}");
    let script = folder.0.join("nodens-top");
    std::fs::write(&script, "#!/bin/sh\necho drawn with \"$@\"\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    assert_eq!(run(), (Some(0), "drawn with -once -socket @some\n".to_owned(), String::new()));
}
