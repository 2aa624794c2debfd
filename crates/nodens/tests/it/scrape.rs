//! `/metrics` as those read it who did not write it.

use crate::clients::python_with;
use crate::fixture::{Server, ask_udp, eventually, free_port};
use nodens_wire::Type;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

fn scraped(python: &str, port: u16, kind: &str) -> BTreeSet<String> {
    let mut command = Command::new(python);
    command.args(["-c", include_str!("scrape.py"), &port.to_string(), kind]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{kind}: {text}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn all_formats_say_the_same_to_the_parsers_of_others() {
    let python = python_with("prometheus_client", "python3-prometheus-client");
    let protobuf = python_with("google.protobuf", "python3-protobuf");
    let port = free_port();
    let server = Server::start(
        "scrape",
        &format!(
            ". {{\n bind 127.0.0.1\n prometheus 127.0.0.1:{port}\n cache\n errors\n whoami\n template IN TXT {{\n rcode NXDOMAIN\n }}\n}}"
        ),
    );
    for qtype in [Type::A, Type::TXT, Type::AAAA] {
        ask_udp(server.address, "www.example.org", qtype).unwrap();
    }
    let text = scraped(python, port, "text");
    let counted = "coredns_dns_responses_total";
    assert!(
        text.iter().any(|line| line.starts_with(counted) && line.ends_with(" 2.0")),
        "{text:#?}"
    );
    for name in [
        "process_cpu_seconds_total",
        "process_max_fds",
        "process_network_receive_bytes_total",
        "process_network_transmit_bytes_total",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
        "process_virtual_memory_bytes",
        "process_virtual_memory_max_bytes",
    ] {
        assert!(text.contains(&format!("{name}  ")), "{name}");
    }
    assert_eq!(scraped(python, port, "open"), text);
    assert_eq!(scraped(protobuf, port, "protobuf"), text);
}

#[test]
fn those_who_read_nothing_do_not_keep_metrics_from_others() {
    let port = free_port();
    let server = Server::start(
        "unread",
        &format!(". {{\n bind 127.0.0.1\n prometheus 127.0.0.1:{port}\n whoami\n}}"),
    );
    ask_udp(server.address, "www.example.org", Type::A).unwrap();
    let pid = server.pid();
    let memory = || {
        let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
        let pages = text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap();
        pages * rustix::param::page_size()
    };
    let before = memory();
    // Each asks for more than the kernel keeps for it.
    let unread: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(200);
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    let (status, body) = server.get(port, "/metrics");
    assert!(status.contains("200") && body.contains("coredns_dns_responses_total"), "{status}");
    let grown = memory().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} octets for {} connections", unread.len());
    // The oldest had to make room.
    eventually("a connection that reads nothing ends", || {
        unread.iter().any(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            let mut octets = Vec::new();
            let read = Read::by_ref(&mut stream).take(8 << 20).read_to_end(&mut octets);
            read.is_ok() || read.is_err_and(|error| error.raw_os_error() == Some(104))
        })
    });
}
