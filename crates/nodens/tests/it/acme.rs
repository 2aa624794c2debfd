//! Certificates of a real ACME server: Pebble, which Let's Encrypt tests its own clients with.

use crate::fixture::{Folder, Server, eventually, free_port};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// How long certificates are valid, in seconds: renewed after twenty.
const LIFE: u32 = 30;
const PATIENCE: Duration = Duration::from_secs(60);

struct Pebble {
    child: Child,
    folder: Folder,
    port: u16,
    management: u16,
}

impl Drop for Pebble {
    fn drop(&mut self) {
        self.end();
    }
}

impl Pebble {
    /// An ACME server that asks the DNS server at port `dns` and issues certificates for so many seconds,
    /// if the program is there.
    fn start(name: &str, dns: u16, life: u32) -> Option<Self> {
        let program = pebble()?;
        let folder = Folder::new(&format!("pebble-{name}"));
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        folder.write("ca.pem", &issuer.pem());
        let certificate = folder.write("cert.pem", &certificate.pem());
        let key = folder.write("key.pem", &key.serialize_pem());
        let (port, management) = (free_port(), free_port());
        let config = format!(
            r#"{{"pebble": {{"listenAddress": "127.0.0.1:{port}", "managementListenAddress": "127.0.0.1:{management}",
            "certificate": {certificate:?}, "privateKey": {key:?}, "httpPort": 1, "tlsPort": 1,
            "retryAfter": {{"authz": 1, "order": 1}},
            "profiles": {{"default": {{"description": "short", "validityPeriod": {life}}}}}}}}}"#
        );
        let config = folder.write("pebble.json", &config);
        let mut command = Command::new(program);
        command.arg("-config").arg(config).arg("-dnsserver").arg(format!("127.0.0.1:{dns}"));
        command.env("PEBBLE_VA_NOSLEEP", "1").stdin(Stdio::null());
        let log = std::fs::File::create(folder.0.join("pebble.log")).unwrap();
        let child = command.stdout(log).stderr(Stdio::null()).spawn().unwrap();
        let there = SocketAddr::from(([127, 0, 0, 1], management));
        eventually("the ACME server", || TcpStream::connect(there).is_ok());
        Some(Self { child, folder, port, management })
    }

    fn end(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }

    /// The authority of the certificates, new with each process.
    fn root(&self) -> Vec<u8> {
        let url = format!("https://127.0.0.1:{}/roots/0", self.management);
        let output = Command::new("curl").args(["-sk", &url]).output().unwrap();
        assert!(output.status.success());
        output.stdout
    }

    /// `tls` with this server.
    fn tls(&self, storage: &Path, domains: &str) -> String {
        let ca_root = self.folder.0.join("ca.pem");
        let (port, storage, ca_root) = (self.port, storage.display(), ca_root.display());
        format!(
            "tls {{\n acme {domains}\n email a@dns.example\n ca https://127.0.0.1:{port}/dir\n \
             storage {storage}\n ca_root {ca_root}\n }}"
        )
    }
}

/// Where `make setup` builds it. Without it, which `make setup` reports, the tests that need it do nothing.
fn pebble() -> Option<PathBuf> {
    let cache = match std::env::var_os("NODENS_PEERS_CACHE") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.cache/peers")),
    };
    let path = Some(cache.join("bin/pebble")).filter(|path| path.exists());
    if path.is_none() {
        eprintln!("`pebble` is missing: cargo xtask peers pebble (or `make setup`)");
    }
    path
}

/// The certificate that a client which believes `root` gets at `port`; `None` if the handshake fails.
fn shown(root: &[u8], port: u16, name: &str) -> Option<CertificateDer<'static>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(root).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    while client.is_handshaking() {
        client.complete_io(&mut stream).ok()?;
    }
    client.peer_certificates()?.first().map(|leaf| leaf.clone().into_owned())
}

fn corefile(dot: u16, tls: &str) -> String {
    format!(
        ".:PORT {{\n bind 127.0.0.1\n template IN ANY . {{\n rcode NXDOMAIN\n }}\n}}\n\
         tls://.:{dot} {{\n bind 127.0.0.1\n {tls}\n whoami\n}}\n"
    )
}

/// A server with `corefile` at the port that the ACME server asks.
fn start(folder: &str, corefile: &str, port: u16) -> Server {
    let folder = Folder::new(folder);
    let conf = folder.write("Corefile", &corefile.replace("PORT", &port.to_string()));
    let mut command = crate::fixture::nodens();
    command.arg("-conf").arg(conf);
    Server::run(command, folder, SocketAddr::from(([127, 0, 0, 1], port)))
}

#[test]
fn certificates_are_obtained_renewed_and_kept() {
    let (dns, dot) = (free_port(), free_port());
    let Some(pebble) = Pebble::start("renewal", dns, LIFE) else { return };
    let kept = Folder::new("acme-renewal-storage");
    let text = corefile(dot, &pebble.tls(&kept.0, "dns.example *.wild.example"));
    let server = start("acme-renewal", &text, dns);
    let root = pebble.root();
    server.wait_long_for("ACME certificate of dns.example obtained", PATIENCE);
    // At once: it is renewed in seconds, which the other one may take.
    let first = shown(&root, dot, "dns.example").unwrap();
    server.wait_long_for("ACME certificate of *.wild.example obtained", PATIENCE);
    assert!(shown(&root, dot, "one.wild.example").is_some());
    assert!(shown(&root, dot, "other.example").is_none());
    server.wait_long_for("ACME certificate of dns.example renewed", PATIENCE);
    let second = shown(&root, dot, "dns.example").unwrap();
    assert_ne!(first, second);
    assert!(server.end("-TERM").success());
    let folder = format!("certificates/127.0.0.1-{}-dir/dns.example", pebble.port);
    let key = kept.0.join(folder).join("dns.example.key");
    let mode = std::fs::metadata(&key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    // Of the wildcard only half is left, as after a crash of the machine.
    let half = kept.0.join(format!("certificates/127.0.0.1-{}-dir", pebble.port));
    let half = half.join("wildcard_.wild.example/wildcard_.wild.example.crt");
    let octets = std::fs::read(&half).unwrap();
    std::fs::write(&half, &octets[..octets.len() / 3]).unwrap();
    let server = start("acme-again", &text, dns);
    server.wait_for("Others could read");
    server.wait_for("ACME certificate of dns.example loaded");
    server.wait_for("ACME certificate of *.wild.example failed to load, a new one is obtained");
    server.wait_long_for("ACME certificate of *.wild.example obtained", PATIENCE);
    assert!(shown(&root, dot, "one.wild.example").is_some());
}

#[test]
fn what_is_kept_serves_at_once_without_the_acme_server() {
    let (dns, dot) = (free_port(), free_port());
    let Some(mut pebble) = Pebble::start("restart", dns, 90 * 24 * 3600) else { return };
    let kept = Folder::new("acme-restart-storage");
    let text = corefile(dot, &pebble.tls(&kept.0, "dns.example"));
    let server = start("acme-first", &text, dns);
    server.wait_long_for("ACME certificate of dns.example obtained", PATIENCE);
    let root = pebble.root();
    let first = shown(&root, dot, "dns.example").unwrap();
    assert!(server.end("-TERM").success());
    pebble.end();
    let server = start("acme-second", &text, dns);
    server.wait_for("ACME certificate of dns.example loaded");
    assert_eq!(shown(&root, dot, "dns.example"), Some(first));
    assert_eq!(server.count_seen("failed"), 0, "nothing had to be asked");
}

#[test]
fn a_server_that_cannot_be_reached_is_said_and_plain_dns_goes_on() {
    let (dns, dot) = (free_port(), free_port());
    let kept = Folder::new("acme-unreachable-storage");
    let tls = format!(
        "tls {{\n acme dns.example\n ca http://127.0.0.1:{}/dir\n storage {}\n }}",
        free_port(),
        kept.0.display()
    );
    let server = start("acme-unreachable", &corefile(dot, &tls), dns);
    let line = server.wait_for("ACME certificate of dns.example failed to obtain, next attempt in");
    assert!(line.contains("refused"), "{line}");
    assert!(server.ask("www.example.", nodens_wire::Type::A).answer.is_empty());
    let any = rcgen::generate_simple_self_signed(["dns.example".to_owned()]).unwrap();
    assert!(shown(any.cert.pem().as_bytes(), dot, "dns.example").is_none());
    assert!(server.end("-TERM").success());
}
