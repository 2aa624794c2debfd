//! DNS over QUIC with clients that others wrote.

use crate::fixture::{Server, need};
use std::process::Command;

/// Starts a server whose certificate is for `dns.example`.
fn start(name: &str, more: &str) -> Server {
    let folder = std::env::temp_dir().join(format!("nodens-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let made = rcgen::generate_simple_self_signed(["dns.example".to_owned()]).unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let at = |file: &str| folder.join(file).display().to_string();
    let tls = format!("tls {} {}", at("cert.pem"), at("key.pem"));
    Server::start(name, &format!("quic://.:PORT {{\n bind 127.0.0.1\n {tls}\n {more}\n}}"))
}

fn kdig(server: &Server, arguments: &[&str]) -> String {
    let mut command = Command::new("kdig");
    command.args(["@127.0.0.1", "-p", &server.address.port().to_string()]);
    command.arg(format!("+tls-ca={}", server.folder.0.join("cert.pem").display()));
    // The last one of these decides what is spoken.
    command.args(["+tls-hostname=dns.example", "+quic", "+retry=0"]).args(arguments);
    let output = command.output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn kdig_asks_over_quic_again_and_again() {
    need("kdig", "knot-dnsutils");
    let server = start("quic", "whoami");
    server.wait_for(&format!("quic://.:{} on 127.0.0.1", server.address.port()));
    let text = kdig(&server, &["+keepopen", "a.test", "A", "b.test", "AAAA", "c.test", "A"]);
    assert_eq!(text.matches("status: NOERROR; id: 0").count(), 3, "{text}");
    assert!(text.contains("QUIC session (QUICv1)-(TLS1.3)"), "{text}");
    assert_eq!(text.matches("A\t127.0.0.1").count(), 3, "{text}");
}

#[test]
fn kdig_gets_a_long_response_whole_and_no_zone() {
    need("kdig", "knot-dnsutils");
    let hosts: String = (0..2000)
        .map(|number| format!(" 192.0.{}.{} many.test\n", number / 250, number % 250))
        .collect();
    let server = start("quic-long", &format!("transfer {{\n to *\n }}\n hosts {{\n{hosts} }}"));
    let text = kdig(&server, &["+noedns", "many.test", "A"]);
    assert!(text.contains("ANSWER: 2000;"), "{}", text.get(..600).unwrap_or(&text));
    let text = kdig(&server, &["many.test", "AXFR"]);
    assert!(!text.contains("SOA"), "{text}");
}
