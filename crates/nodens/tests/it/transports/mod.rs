//! Clients and servers that others wrote, over every encrypted transport; certificates that change and processes that
//! hand over, under load.

mod forwarders;
mod handover;
mod languages;
mod load;
mod refusals;
mod rotation;
mod tools;

use crate::fixture::{Folder, Server, eventually, free_port, nodens};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Whom the certificates are for, beside 127.0.0.1.
const NAME: &str = "dns.example";
/// What the servers answer to every query for A below `example.`.
const ADDRESS: &str = "192.0.2.7";
/// Directives that do so.
const ANSWERS: &str =
    "errors\n template IN A example {\n  answer \"{{ .Name }} 60 IN A 192.0.2.7\"\n }\n";
/// The same with clients that have to wait for the CPU.
const PATIENT: &str = "timeouts {\n  read 60s\n  write 60s\n  idle 60s\n }";
/// As many addresses as `many.test.` has.
const MANY: usize = 300;

/// Who signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key in PEM format.
struct Signed {
    certificate: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate for self-signed whose names of issuer and subject are the same.
        params.distinguished_name.push(DnType::CommonName, "authority");
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A new one each time.
    fn sign(&self) -> Signed {
        let key = KeyPair::generate().unwrap();
        let names = [NAME.to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, NAME);
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Signed { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// Where each transport is spoken.
#[derive(Clone, Copy)]
struct Ports {
    tls: u16,
    https: u16,
    quic: u16,
    grpc: u16,
    /// HTTP without TLS.
    http: u16,
}

impl Ports {
    fn new() -> Self {
        let (tls, https, quic) = (free_port(), free_port(), free_port());
        Self { tls, https, quic, grpc: free_port(), http: free_port() }
    }

    /// Server blocks for all of them, and for plain DNS at `PORT`, with these directives in each.
    fn corefile(self, folder: &Path, directives: &str) -> String {
        let Self { tls, https, quic, grpc, http } = self;
        let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        let tls_directive = format!("tls {} {}", cert.display(), key.display());
        let block = format!("bind 127.0.0.1\n {directives}");
        format!(
            ".:PORT https://.:{http} {{\n {block}\n}}\n\
             tls://.:{tls} https://.:{https} quic://.:{quic} grpc://.:{grpc} {{\n {tls_directive}\n {block}\n}}\n"
        )
    }
}

/// A server that speaks everything.
struct Ours {
    server: Server,
    ports: Ports,
    /// The file of the authority of its certificate.
    ca: PathBuf,
}

impl Ours {
    /// One that answers by itself.
    fn start(name: &str) -> Self {
        let hosts: String = (0..MANY)
            .map(|number| format!("  198.18.{}.{} many.test\n", number / 250, number % 250))
            .collect();
        let directives = format!("{ANSWERS} hosts {{\n{hosts} }}");
        Self::start_by(name, &Authority::new(), &directives, &[])
    }

    /// One with a certificate of `authority`, with these directives in each block, started with these arguments.
    fn start_by(name: &str, authority: &Authority, directives: &str, arguments: &[&str]) -> Self {
        let folder = Folder::new(&format!("transports-{name}"));
        authority.sign().write(&folder.0);
        let ca = folder.write("ca.pem", &authority.0.pem());
        let (ports, port) = (Ports::new(), free_port());
        let corefile = ports.corefile(&folder.0, directives).replace("PORT", &port.to_string());
        let conf = folder.write("Corefile", &corefile);
        let mut command = nodens();
        command.args(["-p", &port.to_string()]).arg("-conf").arg(conf).args(arguments);
        let server = Server::run(command, folder, SocketAddr::from(([127, 0, 0, 1], port)));
        server.wait_for("Nodens-");
        Self { server, ports, ca }
    }

    fn ca(&self) -> &str {
        self.ca.to_str().unwrap()
    }

    fn end(self) {
        assert!(self.server.end("-TERM").success());
    }
}

impl Signed {
    /// Puts them beside each other, each in one step.
    fn write(&self, folder: &Path) {
        for (name, text) in [("cert.pem", &self.certificate), ("key.pem", &self.key)] {
            let new = folder.join(format!("{name}.new"));
            std::fs::write(&new, text).unwrap();
            std::fs::rename(new, folder.join(name)).unwrap();
        }
    }
}

/// A program that ends with the value.
struct Program(Child);

impl Program {
    fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// As [`Program::start`], once it listens at this port.
    fn start_at(command: &mut Command, port: u16) -> Self {
        let program = Self::start(command);
        let there = SocketAddr::from(([127, 0, 0, 1], port));
        eventually(&format!("{command:?}"), || TcpStream::connect(there).is_ok());
        program
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
