//! DNS over QUIC with clients that others wrote.

use crate::fixture::{Folder, Server, need};
use std::process::Command;

/// Starts a server whose certificate is for `dns.example`, and returns the folder with that.
fn start(name: &str, more: &str) -> (Server, Folder) {
    let files = Folder::new(name);
    let made = rcgen::generate_simple_self_signed(["dns.example".to_owned()]).unwrap();
    let certificate = files.write("cert.pem", &made.cert.pem());
    let key = files.write("key.pem", &made.signing_key.serialize_pem());
    let tls = format!("tls {} {}", certificate.display(), key.display());
    let corefile = format!("quic://.:PORT {{\n bind 127.0.0.1\n {tls}\n {more}\n}}");
    (Server::start(name, &corefile), files)
}

/// What `kdig` prints, errors included.
fn kdig((server, files): &(Server, Folder), arguments: &[&str]) -> String {
    let mut command = Command::new("kdig");
    command.args(["@127.0.0.1", "-p", &server.address.port().to_string()]);
    command.arg(format!("+tls-ca={}", files.0.join("cert.pem").display()));
    // The last one of these decides what is spoken.
    command.args(["+tls-hostname=dns.example", "+quic", "+retry=0"]).args(arguments);
    let output = command.output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn kdig_asks_over_quic_again_and_again() {
    need("kdig", "knot-dnsutils");
    let server = start("quic", "whoami");
    let address = server.0.address;
    server.0.wait_for(&format!("quic://.:{} on 127.0.0.1", address.port()));
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
    assert!(text.contains("isn't SOA"), "{text}");
}
