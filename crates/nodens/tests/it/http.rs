//! Real clients of DNS over HTTPS and gRPC: curl with each version of HTTP, kdig, dig, and CoreDNS.

use crate::fixture::{Folder, Server, free_port, need};
use crate::pod::run;
use nodens_wire::{Class, Message, Type};
use std::path::PathBuf;
use std::process::{Child, Command};

/// A folder with a certificate for `dns.example` and 127.0.0.1.
fn certificate(name: &str) -> Folder {
    let folder = Folder::new(name);
    let names = ["dns.example", "127.0.0.1"].map(str::to_owned).to_vec();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    folder.write("cert.pem", &made.cert.pem());
    folder.write("key.pem", &made.signing_key.serialize_pem());
    folder
}

fn server(name: &str, scheme: &str, folder: Option<&Folder>) -> Server {
    let file = |name: &str| folder.map(|folder| folder.0.join(name).display().to_string());
    let tls = file("cert.pem").zip(file("key.pem"));
    let tls = tls.map(|(cert, key)| format!("tls {cert} {key}")).unwrap_or_default();
    let hosts = "hosts {\n  192.0.2.80 www.example.org\n  ttl 77\n }";
    let corefile = format!("{scheme}://.:PORT {{\n bind 127.0.0.1\n {tls}\n {hosts}\n}}\n");
    Server::start(name, &corefile)
}

fn query() -> Vec<u8> {
    let mut wire = Vec::new();
    let name = nodens_wire::Name::parse("www.example.org.").unwrap();
    nodens_wire::Builder::new(&mut wire, 0, nodens_wire::Flags(0x0100)).question(
        name.view(),
        Type::A,
        Class::IN,
    );
    wire
}

/// Asks with curl; gives the version of HTTP, and checks the response.
fn curl(server: &Server, folder: &Folder, arguments: &[&str], is_post: bool) -> String {
    let (out, head) = (folder.0.join("out"), folder.0.join("head"));
    let scheme = if arguments.contains(&"--cacert") { "https" } else { "http" };
    let base = format!("{scheme}://127.0.0.1:{}/dns-query", server.address.port());
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "20", "-w", "%{http_version} %{http_code}"]);
    command.args(arguments).arg("-o").arg(&out).arg("-D").arg(&head);
    if is_post {
        let message = folder.0.join("query");
        std::fs::write(&message, query()).unwrap();
        command.args(["-H", "content-type: application/dns-message"]);
        command.arg("--data-binary").arg(format!("@{}", message.display())).arg(base);
    } else {
        // The query in Base64.
        command.arg(format!("{base}?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA29yZwAAAQAB"));
    }
    let printed = run(&mut command);
    let (version, status) = printed.split_once(' ').unwrap();
    assert_eq!(status, "200", "{arguments:?}");
    let answer = Message::parse(&std::fs::read(&out).unwrap()).unwrap();
    assert_eq!(answer.answer[0].rdata, [192, 0, 2, 80]);
    let head = std::fs::read_to_string(&head).unwrap().to_ascii_lowercase();
    assert!(head.contains("cache-control: max-age=77\r\n"), "{head}");
    assert!(head.contains("content-type: application/dns-message\r\n"), "{head}");
    version.to_owned()
}

#[test]
fn curl_with_each_version() {
    need("curl", "curl");
    let folder = certificate("curl-tls");
    let ca = folder.0.join("cert.pem").display().to_string();
    let encrypted = server("curl-https", "https", Some(&folder));
    let plain = server("curl-http", "https", None);
    for is_post in [false, true] {
        let of = |server, arguments: &[&str]| curl(server, &folder, arguments, is_post);
        assert_eq!(of(&encrypted, &["--cacert", &ca, "--http2"]), "2");
        assert_eq!(of(&encrypted, &["--cacert", &ca, "--http1.1"]), "1.1");
        assert_eq!(of(&encrypted, &["--cacert", &ca, "--no-alpn"]), "1.1");
        assert_eq!(of(&plain, &["--http2-prior-knowledge"]), "2");
        assert_eq!(of(&plain, &["--http1.1"]), "1.1");
        assert_eq!(of(&plain, &["--http1.0"]), "1");
        // Nobody upgrades: the response is in the version of the request.
        assert_eq!(of(&plain, &["--http2"]), "1.1");
    }
}

#[test]
fn kdig_and_dig() {
    need("dig", "dnsutils");
    need("kdig", "knot-dnsutils");
    let folder = certificate("kdig-tls");
    let encrypted = server("kdig-https", "https", Some(&folder));
    let plain = server("dig-http", "https", None);
    let ask = |tool: &str, server: &Server, arguments: &[&str]| {
        let port = server.address.port().to_string();
        let mut command = Command::new(tool);
        command.args(["@127.0.0.1", "-p", &port, "+short"]).args(arguments);
        let text = run(command.args(["www.example.org", "A"]));
        assert_eq!(text.trim(), "192.0.2.80", "{tool} {arguments:?}");
    };
    let ca = format!("+tls-ca={}", folder.0.join("cert.pem").display());
    for method in ["+nohttps-get", "+https-get"] {
        ask("kdig", &encrypted, &["+https", method, &ca, "+tls-hostname=dns.example"]);
    }
    let ca = format!("+tls-ca={}", folder.0.join("cert.pem").display());
    for query in ["+https", "+https-get"] {
        ask("dig", &encrypted, &[query, &ca, "+tls-hostname=dns.example"]);
    }
    for query in ["+http-plain", "+http-plain-get"] {
        ask("dig", &plain, &[query]);
    }
}

/// A CoreDNS that ends with the value.
struct CoreDns(Child);

impl Drop for CoreDns {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// The one that `cargo xtask peers` builds, if it did.
fn coredns() -> Option<PathBuf> {
    let cache = std::env::var_os("NODENS_PEERS_CACHE").map(PathBuf::from);
    let own = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../.cache/peers");
    Some(cache.unwrap_or_else(own).join("bin/coredns")).filter(|path| path.exists())
}

#[test]
fn coredns_asks_over_grpc() {
    need("dig", "dnsutils");
    let Some(program) = coredns() else {
        eprintln!("no CoreDNS: `cargo xtask peers` builds it");
        return;
    };
    let folder = certificate("coredns-grpc");
    let ca = folder.0.join("cert.pem").display().to_string();
    for tls in [None, Some(&folder)] {
        let server = server("grpc", "grpc", tls);
        let (own, upstream) = (free_port(), server.address.port());
        let line = tls.map(|_| format!("tls {ca}\n  tls_servername dns.example"));
        let corefile = folder.write(
            "coredns",
            &format!(
                ".:{own} {{\n bind 127.0.0.1\n grpc . 127.0.0.1:{upstream} {{\n  {}\n }}\n}}\n",
                line.unwrap_or_default()
            ),
        );
        let mut command = Command::new(&program);
        let child = command.arg("-conf").arg(corefile).stdout(std::process::Stdio::null()).spawn();
        let _coredns = CoreDns(child.unwrap());
        let port = own.to_string();
        let mut dig = Command::new("dig");
        dig.args(["@127.0.0.1", "-p", &port, "+tries=20", "+time=1", "+retry=20", "+short"]);
        dig.args(["www.example.org", "A"]);
        crate::fixture::eventually("an answer through CoreDNS", || {
            let output = dig.output().unwrap();
            String::from_utf8_lossy(&output.stdout).trim() == "192.0.2.80"
        });
    }
}
