//! The face of a CoreDNS process: flags, banner, exit codes, signals, endpoints, log lines.

use crate::fixture::{Folder, PATIENCE, Server, eventually, free_port, http_get, nodens, request};
use nodens_wire::{Message, Type};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};

#[test]
fn the_banner_names_zones_and_version() {
    let output = nodens().arg("-version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("Nodens-") && text.contains("linux/"), "{text}");
    assert!(output.status.success());
}

#[test]
fn the_banner_names_what_is_spoken_beside_plain_dns() {
    let server = Server::start("banner", "tls://a.test:PORT {\n bind 127.0.0.1\n whoami\n}");
    server.wait_for(&format!("tls://a.test.:{} on 127.0.0.1", server.address.port()));
}

#[test]
fn bad_command_lines_exit_as_coredns_does() {
    let code = |args: &[&str]| nodens().args(args).output().unwrap().status.code();
    assert_eq!(code(&["-bogus"]), Some(2));
    assert_eq!(code(&["-conf", "/no/such/file"]), Some(1));
    assert_eq!(code(&["-help"]), Some(0));
    assert_eq!(code(&["extra"]), Some(1));
}

#[test]
fn check_says_where_and_what() {
    let folder = Folder::new("check");
    let bad = folder.write("bad", ".:53 {\n    forwrd . 192.0.2.1\n}\n");
    let output = nodens().arg("-check").arg("-conf").arg(&bad).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    let wanted =
        format!("{}:2:5: Unknown directive 'forwrd', did you mean 'forward'?", bad.display());
    assert!(text.starts_with(&wanted), "{text}");
    assert!(text.contains("    forwrd . 192.0.2.1") && text.contains("^^^^^^"), "{text}");

    let planned = folder.write("planned", ".:53 {\n nomad\n}\n");
    let output = nodens().arg("-check").arg("-conf").arg(&planned).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("known to CoreDNS, but Nodens does not have it yet"), "{text}");

    for (name, text) in [("keyless", "{\n bogus\n}\n"), ("second", ".:53 {\n}\n{\n bogus\n}\n")] {
        let output = nodens().arg("-check").arg("-conf").arg(folder.write(name, text)).output();
        let text = String::from_utf8(output.unwrap().stderr).unwrap();
        assert!(text.contains("Unknown directive 'bogus'"), "{text}");
    }

    let good = folder.write("good", ".:53 {\n whoami\n}\n");
    let output = nodens().arg("-check").arg("-conf").arg(&good).output().unwrap();
    assert!(output.status.success());
}

#[test]
fn a_corefile_on_standard_input_may_have_what_a_file_may_have() {
    let folder = Folder::new("octets");
    let conf = folder.write("Corefile", "");
    std::fs::write(&conf, b"# M\xfcller\n.:53 {\n whoami\n}\n").unwrap();
    for name in [conf.as_os_str(), "stdin".as_ref()] {
        let input = std::fs::File::open(&conf).unwrap();
        let output = nodens().arg("-check").arg("-conf").arg(name).stdin(input).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn effective_shows_the_order_of_action_and_the_origin() {
    let folder = Folder::new("effective");
    let common = folder.write("common", "errors\n");
    let text = format!(
        "(obs) {{\n log\n}}\n.:53 {{\n whoami\n import obs\n import {}\n}}\n",
        common.display()
    );
    let conf = folder.write("Corefile", &text);
    let output = nodens().arg("-print-effective").arg("-conf").arg(&conf).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("no {word} in {text}"));
    assert!(at("    errors") < at("    log") && at("    log") < at("    whoami"), "{text}");
    assert!(text.contains("imported at"), "{text}");
    assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    let again = folder.write("again", &text);
    let output = nodens().arg("-print-effective").arg("-conf").arg(&again).output().unwrap();
    assert!(output.status.success(), "what is printed is a Corefile: {text}");
}

/// What acts without being written is shown, and what is written and does not act.
#[test]
fn effective_shows_what_search_does_by_itself() {
    let folder = Folder::new("effective-search");
    let zone =
        |name: &str, more: &str| format!("{name}:53 {{\n{more} cache\n forward . 192.0.2.1\n}}\n");
    let text = zone("cluster.local", "") + &zone("b.local", " search\n") + &zone(".", "");
    let conf = folder.write("Corefile", &text);
    let print = |node: bool, args: &[&str], variable: &str| {
        let mut command = nodens();
        command.arg("-print-effective").arg("-conf").arg(&conf).args(args);
        if node {
            let base = folder.0.join("no-template");
            command.args(["-localip", "127.0.0.1", "-basecorefile"]).arg(base);
        }
        let output = command.env("NODENS_SEARCH", variable).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let by_itself = "# search, by itself in the node role: ";
    let text = print(true, &[], "");
    assert_eq!(text.matches(&format!("{by_itself}on")).count(), 1, "{text}");
    assert!(text.find(by_itself) < text.find("b.local:53 {"), "{text}");
    assert!(!print(false, &[], "").contains(by_itself));
    let text = print(true, &["-search=dry-run"], "off");
    assert!(text.contains(&format!("{by_itself}dry run")), "{text}");
    assert!(text.contains("# search is written and in a dry run"), "{text}");
    let text = print(true, &[], "off");
    assert!(text.contains("# search is written and switched off"), "{text}");
    assert!(!text.contains(by_itself), "{text}");
    let again = folder.write("again", &text);
    let output = nodens().arg("-check").arg("-conf").arg(&again).output().unwrap();
    assert!(output.status.success(), "what is printed is a Corefile: {text}");
}

#[test]
fn health_ready_and_metrics_answer_where_the_corefile_says() {
    let [health, ready, metrics] = [free_port(), free_port(), free_port()];
    let corefile = format!(
        ".:PORT {{\n bind 127.0.0.1\n health 127.0.0.1:{health}\n ready 127.0.0.1:{ready}\n prometheus 127.0.0.1:{metrics}\n whoami\n}}\n"
    );
    let server = Server::start("endpoints", &corefile);
    assert_eq!(server.get(health, "/health"), ("HTTP/1.0 200 OK".into(), "OK".into()));
    assert_eq!(server.get(ready, "/ready"), ("HTTP/1.0 200 OK".into(), "OK".into()));
    assert!(server.get(health, "/metrics").0.contains("404"));
    server.ask("example.org", Type::A);
    let (_, text) = server.get(metrics, "/metrics");
    for wanted in [
        "coredns_build_info{",
        "coredns_dns_requests_total{server=\"dns://127.0.0.1:",
        "process_resident_memory_bytes ",
        "process_cpu_seconds_total ",
        "coredns_plugin_enabled{",
        "coredns_panics_total 0",
    ] {
        assert!(text.contains(wanted), "no {wanted} in\n{text}");
    }
}

#[test]
fn sigterm_ends_with_lameduck_and_exit_code_0() {
    let health = free_port();
    let corefile = format!(
        ".:PORT {{\n bind 127.0.0.1\n health 127.0.0.1:{health} {{\n lameduck 300ms\n }}\n whoami\n}}\n"
    );
    let server = Server::start("sigterm", &corefile);
    server.signal("-TERM");
    server.wait_for("[INFO] SIGTERM: Shutting down servers then terminating");
    server.wait_for("[INFO] plugin/health: Going into lameduck mode for 300ms");
    // Lameduck means: still alive, still answering.
    assert_eq!(http_get(health, "/health").unwrap().1, "OK");
    server.ask("example.org", Type::A);
    eventually("the endpoint closes", || http_get(health, "/health").is_err());
    assert_eq!(server.end("-0").code(), Some(0));
}

#[test]
fn the_query_log_is_that_of_coredns() {
    let server = Server::start("log", ".:PORT {\n bind 127.0.0.1\n log\n whoami\n}\n");
    server.ask("Example.org", Type::A);
    let line = server.wait_for("example.org.");
    let (head, tail) = line.split_once(" - 4711 ").unwrap();
    assert!(head.starts_with("[INFO] 127.0.0.1:"), "{line}");
    let facts = "\"A IN example.org. udp 29 false 512\" NOERROR qr,aa,rd ";
    assert!(tail.starts_with(facts) && tail.ends_with('s'), "{line}");
}

#[test]
fn the_pidfile_comes_and_goes() {
    let folder = Folder::new("pid");
    let port = free_port();
    let corefile = format!(".:{port} {{\n bind 127.0.0.1\n whoami\n}}\n");
    let conf = folder.write("Corefile", &corefile);
    let pidfile = folder.0.join("pid");
    let mut child = nodens()
        .arg("-quiet")
        .arg("-conf")
        .arg(&conf)
        .arg("-pidfile")
        .arg(&pidfile)
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    eventually("a pidfile with the pid", || {
        std::fs::read_to_string(&pidfile).is_ok_and(|text| text.trim() == pid)
    });
    // The file is there before the signals are watched.
    eventually("an answer", || {
        crate::fixture::ask_udp(([127, 0, 0, 1], port).into(), "a", Type::A).is_some()
    });
    std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!pidfile.exists());
}

#[test]
fn an_empty_corefile_is_the_built_in_one() {
    let server = Server::start("empty", "# nothing for port PORT\n");
    let answer = server.ask("example.org", Type::A);
    assert_eq!(answer.additional.len(), 2);
    server.wait_for("\"A IN example.org. udp");
}

#[test]
fn all_addresses_are_those_of_both_families() {
    let metrics = free_port();
    for bind in ["0.0.0.0", "::"] {
        let corefile =
            format!(".:PORT {{\n bind {bind}\n prometheus 0.0.0.0:{metrics}\n whoami\n}}\n");
        let server = Server::start("families", &corefile);
        let port = server.address.port();
        for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            let asked = SocketAddr::new(ip, port);
            let socket = UdpSocket::bind((ip, 0)).unwrap();
            socket.connect(asked).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.send(&request("example.org", Type::A)).unwrap();
            let mut reply = [0; 512];
            let len = socket.recv(&mut reply).unwrap();
            let from = Message::parse(&reply[..len]).unwrap().additional.first().unwrap().rtype;
            assert_eq!(from, if ip.is_ipv4() { Type::A } else { Type::AAAA }, "{bind} {ip}");
            TcpStream::connect(asked).unwrap();
            TcpStream::connect((ip, metrics)).unwrap();
        }
        assert_eq!(server.end("-TERM").code(), Some(0));
    }
}
