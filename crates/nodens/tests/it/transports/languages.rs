//! What programs in other languages have: dnspython, the libraries of Go and of Java.

use super::{ADDRESS, MANY, Ours};
use crate::clients::python_with;
use crate::fixture::{Folder, need, request};
use crate::pod::run;
use nodens_wire::{Message, Type};
use std::process::Command;

#[test]
fn dnspython_asks_over_tls_https_and_quic() {
    let python = python_with("dns.query, httpx, h2", "python3-dnspython python3-httpx python3-h2");
    let ours = Ours::start("python");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/encrypted.py");
    let ports = [ours.ports.tls, ours.ports.https, ours.ports.quic].map(|port| port.to_string());
    let text = run(Command::new(python).arg(script).args(ports).arg(ours.ca()));
    let each = |what: &str| format!("{what} 1 {ADDRESS}\n{what} {MANY} 198.18.0.0\n");
    let wanted = format!("{}{}{}", each("tls"), each("https"), each("https"));
    let rest = text.strip_prefix(&wanted).unwrap_or_else(|| panic!("{text}"));
    let rest =
        rest.strip_prefix("HTTP/2 HTTP/2 HTTP/2 HTTP/2\n").unwrap_or_else(|| panic!("{text}"));
    if rest == "no aioquic\n" {
        eprintln!(
            "dnspython over QUIC was not tried: {python} has no aioquic, which Debian has no package of"
        );
    } else {
        assert_eq!(rest, each("quic"));
    }
    ours.end();
}

/// What a program got, as words and a message in hexadecimal digits.
fn assert_answers(text: &str, words: &str, count: usize) {
    let bodies: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix(words)?.strip_prefix(' ')).collect();
    assert_eq!(bodies.len(), count, "{words}: {text}");
    for body in bodies {
        let octets: Result<Vec<u8>, _> = (0..body.len() / 2)
            .map(|at| u8::from_str_radix(&body[2 * at..2 * at + 2], 16))
            .collect();
        let answer = Message::parse(&octets.unwrap()).unwrap();
        assert_eq!((answer.id, &answer.answer[0].rdata[..]), (4711, &[192, 0, 2, 7][..]));
    }
}

/// The arguments of the programs.
fn arguments(ours: &Ours) -> [String; 4] {
    let query = request("a.example.", Type::A);
    let query = query.iter().map(|octet| format!("{octet:02x}")).collect();
    [ours.ports.tls.to_string(), ours.ports.https.to_string(), ours.ca().to_owned(), query]
}

#[test]
fn go_asks_over_tls_and_https() {
    need("go", "golang-go");
    let ours = Ours::start("go");
    let folder = Folder::new("transports-go-program");
    folder.write("go.mod", "module encrypted\n\ngo 1.19\n");
    folder.write("main.go", include_str!("../../clients/encrypted.go"));
    let program = folder.0.join("encrypted");
    let mut build = Command::new("go");
    build.current_dir(&folder.0).env("CGO_ENABLED", "0").args(["build", "-o"]).arg(&program);
    run(&mut build);
    let text = run(Command::new(program).args(arguments(&ours)));
    assert_eq!(text.matches(&format!("tls {ADDRESS}\n")).count(), 50, "{text}");
    assert!(text.contains(&format!("many {MANY}\n")), "{text}");
    assert_answers(&text, "HTTP/2.0 200", 100);
    ours.end();
}

#[test]
fn java_asks_over_tls_and_https() {
    need("java", "default-jdk-headless");
    let ours = Ours::start("java");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/Encrypted.java");
    // It is compiled and run at once.
    let text = run(Command::new("java").arg(source).args(arguments(&ours)));
    for version in ["TLSv1.2", "TLSv1.3"] {
        assert_answers(&text, &format!("{version} dot"), 20);
    }
    assert_answers(&text, "HTTP_2 200", 50);
    ours.end();
}
