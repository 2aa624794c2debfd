//! Every transport against CoreDNS, the only server here that speaks DNS over QUIC and over HTTP/3.
//!
//! Not part of `cargo test`, because CoreDNS must be built first: `make conformance` runs it after
//! `cargo xtask peers coredns`.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// CoreDNS with a port for each transport, killed with the value.
struct CoreDns {
    child: Child,
    /// Plain, TLS, HTTPS, QUIC, HTTP/3.
    ports: [u16; 5],
    certificate: PathBuf,
    _folder: tempfile::TempDir,
}

impl Drop for CoreDns {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn program() -> PathBuf {
    let cache = std::env::var_os("NODENS_PEERS_CACHE").map(PathBuf::from);
    let kept = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/peers");
    let program = cache.unwrap_or_else(kept).join("bin/coredns");
    assert!(program.is_file(), "no {}: `cargo xtask peers coredns` builds it", program.display());
    program
}

fn start() -> CoreDns {
    let folder = tempfile::tempdir().unwrap();
    let made =
        rcgen::generate_simple_self_signed(["localhost".into(), "127.0.0.1".into()]).unwrap();
    let certificate = folder.path().join("cert.pem");
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    // Another process may take a port between our asking and CoreDNS's.
    for _ in 0..5 {
        let ports: [u16; 5] = std::array::from_fn(|_| {
            TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
        });
        let block = |(scheme, port): (&str, &u16)| {
            let tls = if scheme == "dns" { "" } else { "tls cert.pem key.pem" };
            format!("{scheme}://.:{port} {{\n bind 127.0.0.1\n {tls}\n whoami\n}}\n")
        };
        let blocks: String =
            ["dns", "tls", "https", "quic", "https3"].into_iter().zip(&ports).map(block).collect();
        std::fs::write(folder.path().join("Corefile"), blocks).unwrap();
        let mut child = Command::new(program())
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begin = Instant::now();
        while child.try_wait().unwrap().is_none() && begin.elapsed() < Duration::from_secs(60) {
            if ports[..3].iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok()) {
                return CoreDns { child, ports, certificate, _folder: folder };
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        _ = child.kill();
        _ = child.wait();
    }
    panic!("CoreDNS does not start");
}

fn load(server: &CoreDns, arguments: &[&str]) -> Value {
    let authority = ["--tls-ca", server.certificate.to_str().unwrap()];
    // The option is refused where nothing is encrypted.
    let encrypted = !arguments.contains(&"udp") && !arguments.contains(&"tcp");
    let output = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
        .args(["load", "-Q", "200", "-l", "1", "-t", "20", "-c", "8", "--json", "--no-version"])
        .args(authority.iter().filter(|_| encrypted))
        .args(arguments)
        .output()
        .unwrap();
    let result: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"));
    assert_eq!(result["counts"]["answered"], result["counts"]["sent"], "{arguments:?}: {result:#}");
    assert_eq!(result["rcodes"]["NOERROR"], result["counts"]["sent"]);
    assert!(result["counts"]["sent"].as_u64() > Some(100));
    result
}

#[test]
fn coredns_answers_every_query_on_every_transport() {
    let server = start();
    let [plain, tls, https, quic, https3] = server.ports.map(|port| port.to_string());
    let ways = [
        ("udp", &plain),
        ("tcp", &plain),
        ("dot", &tls),
        ("doh", &https),
        ("doq", &quic),
        ("doh3", &https3),
    ];
    for (mode, port) in ways {
        let result = load(&server, &["-m", mode, "-p", port]);
        assert_eq!(result["plan"]["transports"][0]["transport"], mode);
    }
    let mix: Vec<_> = ways.iter().map(|(mode, port)| format!("{mode}:{port}=1")).collect();
    let mixed = load(&server, &["--mix", &mix.join(",")]);
    assert_eq!(mixed["by_transport"].as_array().map(Vec::len), Some(6));
}

#[test]
fn coredns_answers_gets_and_posts_over_http_3_and_refuses_other_paths() {
    let server = start();
    let https3 = server.ports[4].to_string();
    for method in ["get", "post"] {
        for life in ["persistent", "queries=4"] {
            let way = ["-m", "doh3", "-p", &https3, "--doh-method", method, "--conn-life", life];
            let result = load(&server, &way);
            assert_eq!(result["connection_fates"]["http"]["200"], result["counts"]["sent"]);
            assert_eq!(result["connection_fates"]["broken"], 0, "{method} {life}: {result:#}");
        }
    }
    let output = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
        .args(["load", "-m", "doh3", "-p", &https3, "-n", "20", "-l", "0.5", "-t", "20", "--json"])
        .args(["--doh-path", "/other", "--tls-insecure", "--no-version"])
        .output()
        .unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["counts"]["connection_failed"], 20, "{result:#}");
    assert_eq!(result["connection_fates"]["http"]["404"], 20, "{result:#}");
    // The port of DNS over QUIC is none of HTTP/3.
    let output = Command::new(env!("CARGO_BIN_EXE_nodens-lab"))
        .args(["load", "-m", "doh3", "-p", &server.ports[3].to_string(), "-n", "20", "-l", "0.5"])
        .args(["--tls-insecure", "--no-version"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("no ALPN h3"), "{text}");
}

#[test]
fn sessions_with_coredns_are_resumed_and_queries_sent_early() {
    let server = start();
    let [_, tls, https, quic, https3] = server.ports.map(|port| port.to_string());
    for (mode, port) in [("dot", &tls), ("doh", &https)] {
        let result = load(&server, &["-m", mode, "-p", port, "--conn-life", "queries=4"]);
        assert!(result["connections"]["resumed"].as_u64() > Some(0), "{mode}: {result:#}");
    }
    for (mode, port) in [("doq", &quic), ("doh3", &https3)] {
        let life = ["-m", mode, "-p", port, "--conn-life", "queries=4"];
        let late = load(&server, &life);
        assert_eq!(late["connection_fates"]["early_offered"], 0);
        // Whether early data is taken is the server's choice; every query is answered all the same.
        let early = load(&server, &[&life[..], &["--early-data"]].concat());
        assert!(early["connection_fates"]["early_offered"].as_u64() > Some(0), "{early:#}");
        assert_eq!(
            early["connections"]["resumed"], early["connection_fates"]["early_accepted"],
            "{early:#}"
        );
    }
}

/// The line of a child's standard error that says where it listens.
fn place(child: &mut Child) -> (String, impl BufRead + use<>) {
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    let place = line.strip_prefix("waiting at ").and_then(|line| line.split(' ').next());
    (place.unwrap_or_else(|| panic!("{line}")).to_owned(), errors)
}

/// Records what `program` writes as dnstap while it is loaded; the messages sent, and those in the file.
fn tapped(program: &Path, is_unix: bool) -> (u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (socket, out) = (path("tap.sock"), path("tap.fstrm"));
    let listen = if is_unix { &*socket } else { "127.0.0.1:0" };
    let lab = || Command::new(env!("CARGO_BIN_EXE_nodens-lab"));
    let mut tap = lab()
        .args(["tap", "--listen", listen, "-o", &out])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (place, _errors) = place(&mut tap);
    let to = if is_unix { format!("unix://{place}") } else { format!("tcp://{place}") };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let corefile = path("Corefile");
    let text = format!(".:{port} {{\n bind 127.0.0.1\n whoami\n dnstap {to} full\n}}\n");
    std::fs::write(&corefile, text).unwrap();
    let mut server = Command::new(program)
        .args(["-conf", &corefile])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while TcpStream::connect(("127.0.0.1", port.parse::<u16>().unwrap())).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} does not start", program.display());
        std::thread::sleep(Duration::from_millis(50));
    }
    let load =
        ["load", "-p", &port, "-Q", "200", "-n", "200", "-t", "20", "--no-version", "--json"];
    let load: Value = serde_json::from_slice(&lab().args(load).output().unwrap().stdout).unwrap();
    // CoreDNS sends what it has gathered once a second.
    std::thread::sleep(Duration::from_secs(2));
    for program in [&mut server, &mut tap] {
        Command::new("kill").args(["-INT", &program.id().to_string()]).status().unwrap();
        program.wait().unwrap();
    }
    let found = lab().args(["search", "--capture", &out, "--json"]).output().unwrap();
    let errors = String::from_utf8_lossy(&found.stderr);
    assert!(found.status.success() && errors.is_empty(), "{}: {errors}", program.display());
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    let of_each_kind = ["queries", "repeated", "others"].map(|name| number(&found[name]));
    (number(&load["counts"]["sent"]), of_each_kind.iter().sum())
}

#[test]
fn what_coredns_and_nodens_write_as_dnstap_is_recorded() {
    let beside = Path::new(env!("CARGO_BIN_EXE_nodens-lab")).with_file_name("nodens");
    assert!(beside.is_file(), "no {}: `cargo build -p nodens` makes it", beside.display());
    for program in [program(), beside] {
        for is_unix in [true, false] {
            let (sent, recorded) = tapped(&program, is_unix);
            assert!(sent > 0);
            assert_eq!(recorded, sent, "{} unix: {is_unix}", program.display());
        }
    }
}
