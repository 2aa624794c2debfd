//! Upstreams within TLS: other servers, as they are installed, and this one.

use crate::fixture::{Folder, Server, eventually, free_port, need, nodens};
use nodens_wire::{Message, Rcode, Type};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A server that ends with the value.
pub(crate) struct Upstream(Child);

impl Drop for Upstream {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

impl Upstream {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

/// An authority, and a server's certificate and key, in files.
pub(crate) struct Files {
    pub(crate) folder: Folder,
    pub(crate) ca: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Files {
    pub(crate) fn new(name: &str) -> Self {
        let folder = Folder::new(&format!("encrypted-{name}"));
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // One that is called as the certificate would be taken for its own authority.
        params.distinguished_name.push(DnType::CommonName, "authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["dns.example".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let write = |name: &str, text: &str| folder.write(name, text).display().to_string();
        let ca = write("ca.pem", &issuer.pem());
        let (certificate, key) =
            (write("cert.pem", &certificate.pem()), write("key.pem", &key.serialize_pem()));
        Self { folder, ca, certificate, key }
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        self.folder.write(name, text)
    }
}

/// A server that forwards to 127.0.0.1 at this port, where `www.example.` is 192.0.2.7.
fn asks(name: &str, files: &Files, port: u16) {
    asks_by(name, files, port, &format!("forward . tls://127.0.0.1:{port}"), "");
}

/// The same by another directive, and with more lines in its body.
pub(crate) fn asks_by(name: &str, files: &Files, port: u16, directive: &str, more: &str) {
    let corefile = |name: &str| {
        let ca = &files.ca;
        format!(
            ".:PORT {{\n bind 127.0.0.1\n errors\n {directive} {{\n tls {ca}\n tls_servername {name}\n {more}\n }}\n}}\n"
        )
    };
    let there = SocketAddr::from(([127, 0, 0, 1], port));
    eventually("the upstream", || TcpStream::connect(there).is_ok());
    let server = Server::start(&format!("{name}-forward"), &corefile("dns.example"));
    let mut answer: Option<Message> = None;
    eventually("an answer", || {
        let found = server.ask("www.example.", Type::A);
        let is_good = found.flags.rcode() == Rcode::NOERROR;
        answer = Some(found);
        is_good
    });
    let answer = answer.unwrap();
    assert_eq!(answer.answer[0].rdata, [192, 0, 2, 7], "{answer:?}");
    // Some close a connection after each query, after a second, or answer out of order.
    let address = server.address;
    let clients: Vec<_> = (0..8)
        .map(|client| {
            std::thread::spawn(move || {
                for n in 0..50 {
                    // Names of their own: queries for the same one would be coalesced.
                    let name = format!("n{n}.c{client}.www.example.");
                    let answer = crate::fixture::ask_udp(address, &name, Type::A).unwrap();
                    assert_eq!(answer.answer[0].rdata, [192, 0, 2, 7], "{answer:?}");
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert!(server.end("-TERM").success());
    let server = Server::start(&format!("{name}-wrong"), &corefile("other.example"));
    assert_eq!(server.ask("www.example.", Type::A).flags.rcode(), Rcode::SERVFAIL);
    server.wait_for("x509: certificate is valid for dns.example, not other.example");
    assert!(server.end("-TERM").success());
}

#[test]
fn unbound_is_asked_within_tls() {
    need("unbound", "unbound");
    let (files, port) = (Files::new("unbound"), free_port());
    let Files { certificate, key, .. } = &files;
    let text = format!(
        "server:\n interface: 127.0.0.1@{port}\n tls-port: {port}\n tls-service-pem: {certificate}\n tls-service-key: {key}\n \
         do-daemonize: no\n username: \"\"\n chroot: \"\"\n pidfile: \"\"\n use-syslog: no\n \
         module-config: iterator\n local-zone: \"www.example.\" redirect\n local-data: \"www.example. A 192.0.2.7\"\nremote-control:\n control-enable: no\n"
    );
    let mut command = Command::new("unbound");
    command.arg("-d").arg("-c").arg(files.write("unbound.conf", &text));
    let _upstream = Upstream::start(command);
    asks("unbound", &files, port);
}

#[test]
fn dnsdist_is_asked_within_tls() {
    need("dnsdist", "dnsdist");
    let (files, port) = (Files::new("dnsdist"), free_port());
    let Files { certificate, key, .. } = &files;
    let text = format!(
        "setSecurityPollSuffix(\"\")\nsetLocal(\"127.0.0.1:{}\")\n\
         addTLSLocal(\"127.0.0.1:{port}\", \"{certificate}\", \"{key}\")\n\
         addAction(AllRule(), SpoofAction(\"192.0.2.7\"))\n",
        free_port()
    );
    let mut command = Command::new("dnsdist");
    command
        .args(["--supervised", "--disable-syslog", "-C"])
        .arg(files.write("dnsdist.conf", &text));
    let _upstream = Upstream::start(command);
    asks("dnsdist", &files, port);
}

#[test]
fn knot_resolver_is_asked_within_tls() {
    need("kresd", "knot-resolver");
    let (files, port) = (Files::new("kresd"), free_port());
    let Files { certificate, key, .. } = &files;
    let text = format!(
        "net.listen('127.0.0.1', {port}, {{ kind = 'tls' }})\nnet.tls('{certificate}', '{key}')\n\
         modules.unload('detect_time_skew')\nmodules.unload('ta_update')\nmodules.unload('priming')\n\
         trust_anchors.remove('.')\ncache.size = 10 * MB\n\
         policy.add(policy.all(policy.ANSWER({{ [kres.type.A] = {{ rdata = kres.str2ip('192.0.2.7') }} }})))\n"
    );
    let mut command = Command::new("kresd");
    command.arg("-n").arg("-c").arg(files.write("kresd.conf", &text)).arg(&files.folder.0);
    let _upstream = Upstream::start(command);
    asks("kresd", &files, port);
}

#[test]
fn bind_is_asked_within_tls() {
    need("named", "bind9");
    let (files, port) = (Files::new("named"), free_port());
    let Files { certificate, key, .. } = &files;
    let zone = files.write(
        "zone",
        "$TTL 60\n@ SOA . . 1 1 1 1 1\n@ NS .\nwww A 192.0.2.7\n*.www A 192.0.2.7\n",
    );
    let (zone, folder) = (zone.display(), files.folder.0.display());
    let text = format!(
        "tls own {{ cert-file \"{certificate}\"; key-file \"{key}\"; }};\n\
         options {{ directory \"{folder}\"; pid-file none; session-keyfile none; recursion no;\n \
         listen-on port {port} tls own {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; }};\n\
         controls {{ }};\nzone \"example\" {{ type primary; file \"{zone}\"; }};\n"
    );
    let mut command = Command::new("named");
    command.arg("-g").arg("-c").arg(files.write("named.conf", &text));
    let _upstream = Upstream::start(command);
    asks("named", &files, port);
}

#[test]
fn nodens_is_asked_within_tls() {
    let (files, port) = (Files::new("nodens"), free_port());
    let Files { certificate, key, .. } = &files;
    let text = format!(
        "tls://.:{port} {{\n bind 127.0.0.1\n tls {certificate} {key}\n template IN A example {{\n answer \"{{{{ .Name }}}} 60 IN A 192.0.2.7\"\n }}\n}}\n"
    );
    let mut command = nodens();
    command.arg("-conf").arg(files.write("Corefile", &text));
    let _upstream = Upstream::start(command);
    asks("nodens", &files, port);
}

/// CoreDNS, where `cargo xtask peers` has built it; in both directions.
#[test]
fn coredns_is_asked_within_tls_and_asks() {
    let Some(coredns) = coredns() else { return };
    let (files, port) = (Files::new("coredns"), free_port());
    let Files { certificate, key, ca, .. } = &files;
    let text = format!(
        "tls://.:{port} {{\n bind 127.0.0.1\n tls {certificate} {key}\n template IN A example {{\n answer \"{{{{ .Name }}}} 60 IN A 192.0.2.7\"\n }}\n}}\n"
    );
    let mut command = Command::new(&coredns);
    command.arg("-conf").arg(files.write("Corefile", &text));
    let upstream = Upstream::start(command);
    asks("coredns", &files, port);
    drop(upstream);
    // The same file for Nodens, which CoreDNS asks.
    let mut command = nodens();
    command.arg("-conf").arg(files.write("Corefile", &text));
    let _upstream = Upstream::start(command);
    let at = free_port();
    let asking = format!(
        ".:{at} {{\n bind 127.0.0.1\n forward . tls://127.0.0.1:{port} {{\n tls {ca}\n tls_servername dns.example\n }}\n}}\n"
    );
    let mut command = Command::new(&coredns);
    command.arg("-conf").arg(files.write("Corefile.asking", &asking));
    let _asking = Upstream::start(command);
    let address = SocketAddr::from(([127, 0, 0, 1], at));
    eventually("an answer", || {
        let answer = crate::fixture::ask_udp(address, "www.example.", Type::A);
        answer.is_some_and(|answer| answer.flags.rcode() == Rcode::NOERROR)
    });
}

pub(crate) fn coredns() -> Option<PathBuf> {
    let cache = match std::env::var_os("NODENS_PEERS_CACHE") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.cache/peers")),
    };
    Some(cache.join("bin/coredns")).filter(|path| path.exists())
}
