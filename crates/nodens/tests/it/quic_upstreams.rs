//! Upstreams over QUIC: other servers, and this one.

use crate::encrypted::{Files, Upstream, coredns};
use crate::fixture::{Server, ask_udp, eventually, free_port, nodens};
use nodens_wire::{Rcode, Type};
use std::net::SocketAddr;
use std::process::Command;

/// A server over QUIC at this port, where `www.example.` is 192.0.2.7.
fn serving(files: &Files, port: u16) -> String {
    let Files { certificate, key, .. } = files;
    format!(
        "quic://.:{port} {{\n bind 127.0.0.1\n tls {certificate} {key}\n template IN A example {{\n answer \"{{{{ .Name }}}} 60 IN A 192.0.2.7\"\n }}\n}}\n"
    )
}

/// A server that forwards to this port.
fn asking(files: &Files, (at, port): (&str, u16), name: &str) -> String {
    let ca = &files.ca;
    format!(
        ".:{at} {{\n bind 127.0.0.1\n errors\n forward . quic://127.0.0.1:{port} {{\n tls {ca}\n tls_servername {name}\n }}\n}}\n"
    )
}

/// Many queries at the same time are all answered through this port, and none with the name of another.
fn asks(name: &str, files: &Files, port: u16) {
    let server = Server::start(name, &asking(files, ("PORT", port), "dns.example"));
    let address = server.address;
    eventually("an answer", || server.ask("www.example.", Type::A).flags.rcode() == Rcode::NOERROR);
    let clients: Vec<_> = (0..8)
        .map(|client| {
            std::thread::spawn(move || {
                for n in 0..50 {
                    // Names of their own: queries for the same one would be coalesced.
                    let name = format!("n{n}.c{client}.www.example.");
                    let answer = ask_udp(address, &name, Type::A).unwrap();
                    let first = answer.answer.first().map(|record| &record.rdata[..]);
                    assert_eq!(first, Some(&[192, 0, 2, 7][..]), "{answer:?}");
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert!(server.end("-TERM").success());
    let corefile = asking(files, ("PORT", port), "other.example");
    let server = Server::start(&format!("{name}-wrong"), &corefile);
    assert_eq!(server.ask("www.example.", Type::A).flags.rcode(), Rcode::SERVFAIL);
    server.wait_for("x509: certificate is valid for dns.example, not other.example");
    assert!(server.end("-TERM").success());
}

fn start(mut command: Command, files: &Files, name: &str, text: &str) -> Upstream {
    command.arg("-conf").arg(files.write(name, text));
    Upstream::start(command)
}

#[test]
fn nodens_is_asked_over_quic() {
    let (files, port) = (Files::new("quic-nodens"), free_port());
    let _upstream = start(nodens(), &files, "Corefile", &serving(&files, port));
    asks("quic-nodens", &files, port);
}

/// CoreDNS, where `cargo xtask peers` has built it; in both directions.
#[test]
fn coredns_is_asked_over_quic_and_asks() {
    let Some(coredns) = coredns() else { return };
    let (files, port) = (Files::new("quic-coredns"), free_port());
    let text = serving(&files, port);
    let upstream = start(Command::new(&coredns), &files, "Corefile", &text);
    asks("quic-coredns", &files, port);
    drop(upstream);
    // The same file for Nodens, which CoreDNS asks.
    let _upstream = start(nodens(), &files, "Corefile", &text);
    let at = free_port();
    let text = asking(&files, (&at.to_string(), port), "dns.example");
    let _asking = start(Command::new(&coredns), &files, "Corefile.asking", &text);
    let address = SocketAddr::from(([127, 0, 0, 1], at));
    eventually("an answer", || {
        let answer = ask_udp(address, "www.example.", Type::A);
        answer.is_some_and(|answer| answer.flags.rcode() == Rcode::NOERROR)
    });
}
