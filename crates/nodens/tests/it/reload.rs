//! Reload: by signal, by file event; all or nothing; sockets kept.

use crate::fixture::{Server, alone, ask_udp, eventually, free_port};
use crate::load::{Load, SOCKET_HOLDS};
use nodens_wire::{Rcode, Type};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

const OLD: &str = ".:PORT {\n bind 127.0.0.1\n reload 2s 1s\n whoami\n}\n";

fn answers_with(server: &Server, additional: usize) -> bool {
    server.ask("example.org", Type::A).additional.len() == additional
}

/// A Corefile whose answers have no additional section.
fn new_corefile(server: &Server) -> String {
    let port = server.address.port();
    format!(".:{port} {{\n bind 127.0.0.1\n reload 2s 1s\n minimal\n whoami\n}}\n")
}

#[test]
fn sigusr1_takes_up_a_new_corefile() {
    let server = Server::start("usr1", OLD);
    assert!(answers_with(&server, 2));
    std::fs::write(&server.conf, new_corefile(&server)).unwrap();
    server.signal("-USR1");
    eventually("the new chain answers", || answers_with(&server, 0));
}

#[test]
fn a_file_event_is_enough() {
    let server = Server::start("event", OLD);
    server.wait_for("Running configuration SHA512 = ");
    // As a ConfigMap changes: a new folder, and a link renamed over the old one.
    let staged = server.folder.write("staged", &new_corefile(&server));
    std::fs::rename(staged, &server.conf).unwrap();
    server.wait_for("[INFO] Reloading");
    server.wait_for("[INFO] Reloading complete");
    assert!(answers_with(&server, 0));
}

#[test]
fn a_bad_corefile_changes_nothing() {
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().port();
    let server = Server::start("bad", OLD);
    let good = std::fs::read_to_string(&server.conf).unwrap();
    let busy = format!(
        "{good}\n.:{} {{\n bind 127.0.0.1\n prometheus 127.0.0.1:{taken}\n whoami\n}}\n",
        free_port()
    );
    for broken in ["", ".:53 {\n whoami", ".:53 {\n whoamy\n}", busy.as_str()] {
        std::fs::write(&server.conf, broken).unwrap();
        server.signal("-USR1");
        server.wait_for("[ERROR]");
        assert!(answers_with(&server, 2), "after {broken:?}");
    }
    std::fs::write(&server.conf, new_corefile(&server)).unwrap();
    eventually("the mended file is taken up", || answers_with(&server, 0));
}

#[test]
fn a_hundred_reloads_half_of_them_broken_lose_no_question() {
    let _alone = alone();
    let server = Server::start("hundred", OLD);
    let good = [std::fs::read_to_string(&server.conf).unwrap(), new_corefile(&server)];
    let load =
        Load::start(server.address, (5000, SOCKET_HOLDS), |n| format!("n{}.example.org", n % 100));
    for n in 0..100 {
        let text = if n % 2 == 0 { good[n / 2 % 2].as_str() } else { "broken {\n whoami" };
        std::fs::write(&server.conf, text).unwrap();
        server.signal("-USR1");
        let text = if n % 2 == 0 { "Reloading complete" } else { "[ERROR]" };
        server.wait_long_for(text, Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
    let tally = load.finish();
    eprintln!("{} questions, p99 {:?}", tally.sent, tally.percentile(99.0));
    assert_eq!((tally.lost, tally.wrong), (0, 0), "of {}", tally.sent);
}

#[test]
fn a_signal_that_comes_while_a_reload_waits_leads_to_another_reload() {
    let server = Server::start("usr1-twice", OLD);
    // Whoever connects to it waits for ever.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let cluster = format!(
        "kubernetes cluster.local {{\n endpoint http://{}\n startup_timeout 3s\n }}",
        silent.local_addr().unwrap()
    );
    let port = server.address.port();
    let waits = format!(".:{port} {{\n bind 127.0.0.1\n whoami\n {cluster}\n}}\n");
    // Without `reload` in it nobody looks at the file but for a signal.
    std::fs::write(&server.conf, waits).unwrap();
    server.signal("-USR1");
    server.wait_for("waiting for Kubernetes API");
    let last = format!(".:{port} {{\n bind 127.0.0.1\n minimal\n whoami\n}}\n");
    std::fs::write(&server.conf, last).unwrap();
    server.signal("-USR1");
    eventually("what was asked for last answers", || answers_with(&server, 0));
}

/// An API server of a cluster without objects.
fn serve_no_objects(listener: TcpListener) {
    let answer = |mut stream: TcpStream| -> std::io::Result<TcpStream> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut octet = [0];
            stream.read_exact(&mut octet)?;
            head.extend(octet);
        }
        let end = r#"{"type":"BOOKMARK","object":{"kind":"Any","metadata":{"resourceVersion":"1","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}},"spec":{}}}"#;
        let piece = format!("{end}\n");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        write!(stream, "{head}{:x}\r\n{piece}\r\n", piece.len())?;
        Ok(stream)
    };
    std::thread::spawn(move || {
        // The watches go on.
        let mut held = Vec::new();
        for stream in listener.incoming().flatten() {
            held.extend(answer(stream));
        }
    });
}

#[test]
fn a_reload_does_not_lose_a_cluster_whose_api_server_cannot_be_reached() {
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (first, second) = (listen(), listen());
    let corefile = |port: &str, api: &TcpListener| {
        let api = api.local_addr().unwrap();
        format!(
            ".:{port} {{\n bind 127.0.0.1\n reload 2s 1s\n kubernetes cluster.local {{\n  endpoint http://{api}\n  \
             startup_timeout 200ms\n }}\n}}\n"
        )
    };
    let text = corefile("PORT", &first);
    serve_no_objects(first);
    let server = Server::start("reload-cluster", &text);
    let rcode = || {
        let response = ask_udp(server.address, "x.default.svc.cluster.local", Type::A);
        response.expect("an answer").flags.rcode()
    };
    eventually("the cluster is known", || rcode() == Rcode::NXDOMAIN);
    std::fs::write(&server.conf, corefile(&server.address.port().to_string(), &second)).unwrap();
    let line = server.wait_long_for("reload failed", Duration::from_secs(60));
    assert!(line.contains("timed out waiting for the Kubernetes API"), "{line}");
    assert_eq!(rcode(), Rcode::NXDOMAIN);
    // It is tried again.
    serve_no_objects(second);
    server.wait_long_for("Reloading complete", Duration::from_secs(60));
    assert_eq!(rcode(), Rcode::NXDOMAIN);
}

#[test]
fn a_corefile_that_does_not_parse_counts_as_a_failed_reload() {
    for how in ["a signal", "a file event"] {
        let metrics = free_port();
        let directives = format!("prometheus 127.0.0.1:{metrics}\n whoami");
        let server = Server::start("uncounted", &OLD.replace("whoami", &directives));
        server.wait_for("Running configuration SHA512 = ");
        let failed = || {
            let (_, text) = server.get(metrics, "/metrics");
            let line =
                text.lines().find_map(|line| line.strip_prefix("coredns_reload_failed_total "));
            line.map(|count| count.parse::<f64>().unwrap())
        };
        assert_eq!(failed(), Some(0.0));
        if how == "a signal" {
            // Without `reload` in it nobody looks at the file but for a signal.
            let text = std::fs::read_to_string(&server.conf).unwrap();
            std::fs::write(&server.conf, text.replace("reload 2s 1s", "")).unwrap();
            server.signal("-USR1");
            server.wait_for("Reloading complete");
        }
        std::fs::write(&server.conf, "broken {\n whoami").unwrap();
        if how == "a signal" {
            server.signal("-USR1");
        }
        eventually(how, || failed().is_some_and(|count| count >= 1.0));
    }
}
