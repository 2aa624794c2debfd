//! The transports of an echo: which, where, and with which certificate.

use anyhow::{Context, Result, bail};
use lab_echo::Injection;
use lab_echo::identity::Identity;
use lab_echo::udp::{Echo, Report};
use lab_echo::{doh, doh3, quic, stream, udp};
use lab_load::Transport;
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Ports that are tried where any will do.
const PORTS_TRIED: usize = 16;

/// Options of transports.
#[derive(clap::Args)]
pub(super) struct TransportArgs {
    /// Transports: udp, tcp, dot, doh (HTTP/2), doq, doh3 (HTTP/3), several with commas.
    #[arg(short, long, value_delimiter = ',', default_value = "udp")]
    mode: Vec<Transport>,
    /// Address and port for dot, doh, doq and doh3 [default: the next port; for doh beside dot and for
    /// doh3 beside doq, the one behind].
    #[arg(long, value_name = "ADDRESS:PORT")]
    tls_listen: Option<SocketAddr>,
    /// PEM file with the certificate to present [default: a new one].
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file with its key.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Where to write the authority of the made certificate, for clients [default: a file in the
    /// folder for temporary files, for as long as the echo runs].
    #[arg(long, value_name = "FILE", conflicts_with = "tls_cert")]
    tls_ca_out: Option<PathBuf>,
    /// Names in the made certificate, besides localhost and the address.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "tls_cert")]
    tls_names: Vec<String>,
    /// Close each connection after this many answers (tcp, dot, doh and doh3).
    #[arg(long, value_name = "ANSWERS")]
    close_after: Option<u64>,
}

/// Servers of one or several transports.
pub(super) struct Echoes {
    servers: Vec<(Transport, Echo)>,
    authority: Option<Authority>,
}

/// The file with the authority of a made certificate.
struct Authority {
    path: PathBuf,
    /// The user did not name it, so it is deleted with the echo.
    passing: bool,
}

impl Drop for Authority {
    fn drop(&mut self) {
        if self.passing {
            _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Echoes {
    /// `127.0.0.1:5300/udp 127.0.0.1:5301/dot`.
    pub(super) fn addresses(&self) -> String {
        let all = self.servers.iter().map(|(name, echo)| format!("{}/{name}", echo.address));
        all.collect::<Vec<_>>().join(" ")
    }

    /// What clients need to know.
    pub(super) fn hints(&self) -> impl Iterator<Item = String> + '_ {
        self.authority
            .iter()
            .map(|file| format!("clients trust it with --tls-ca {}", file.path.display()))
    }

    pub(super) fn have_failed(&self) -> bool {
        self.servers.iter().any(|(_, echo)| echo.has_failed())
    }

    /// Ends all and says what they did together.
    pub(super) fn stop(self) -> io::Result<Report> {
        let mut report = Report::default();
        for (_, echo) in self.servers {
            report.merge(echo.stop()?);
        }
        Ok(report)
    }
}

impl TransportArgs {
    /// Refuses what no transport of the echo does: a test with it would not test what it was meant to.
    /// `of_udp` is what only UDP does, and whether that was asked for.
    pub(super) fn check(&self, of_udp: &[(&str, bool)]) -> Result<()> {
        let has = |is: fn(Transport) -> bool| self.mode.iter().any(|transport| is(*transport));
        let closes = |one| !matches!(one, Transport::Udp | Transport::Doq);
        let encrypted = (has(Transport::is_encrypted), "an encrypted transport, as dot");
        let closing = (has(closes), "tcp, dot, doh or doh3");
        let udp = (has(|one| one == Transport::Udp), "udp");
        let of_udp = of_udp.iter().map(|(flag, is_given)| (*flag, *is_given, udp));
        let others = [
            ("--tls-listen", self.tls_listen.is_some(), encrypted),
            ("--tls-cert", self.tls_cert.is_some(), encrypted),
            ("--tls-ca-out", self.tls_ca_out.is_some(), encrypted),
            ("--tls-names", !self.tls_names.is_empty(), encrypted),
            ("--close-after", self.close_after.is_some(), closing),
        ];
        for (flag, is_given, (is_used, of)) in of_udp.chain(others) {
            if is_given && !is_used {
                let names: Vec<String> = self.mode.iter().map(ToString::to_string).collect();
                bail!("{flag} has no effect on {}, expected -m with {of}", names.join(" and "));
            }
        }
        Ok(())
    }

    /// Starts a server for each transport.
    ///
    /// With port 0, UDP and TCP share a free one. A port that is free for the first of them may be
    /// taken for the second, so others are tried.
    pub(super) fn start(&self, listen: SocketAddr, options: &udp::Options) -> Result<Echoes> {
        let address = self.tls_address(listen);
        let identity = match self.mode.iter().any(|transport| transport.is_encrypted()) {
            true => Some(self.identity(address.ip())?),
            false => None,
        };
        let authority = match &identity {
            Some(identity) => self.publish(identity)?,
            None => None,
        };
        let tries = if listen.port() == 0 { PORTS_TRIED } else { 1 };
        let servers =
            first_free(tries, || self.listen((listen, address), identity.as_ref(), options))?;
        Ok(Echoes { servers, authority })
    }

    fn listen(
        &self,
        (mut plain, encrypted): (SocketAddr, SocketAddr),
        identity: Option<&Identity>,
        options: &udp::Options,
    ) -> Result<Vec<(Transport, Echo)>> {
        let mut servers = Vec::new();
        for transport in &self.mode {
            let place = if transport.is_encrypted() { encrypted } else { plain };
            let udp::Options { injection, threads, .. } = options.clone();
            let echo = match (transport, identity) {
                (Transport::Udp, _) => Echo::start(place, options.clone()),
                (Transport::Tcp, _) => stream::start(place, self.options(injection, threads)),
                (Transport::Dot, Some(identity)) => {
                    let tls = Some(identity.config("dot")?);
                    let options = self.options(injection, threads);
                    stream::start(place, stream::Options { tls, ..options })
                }
                (Transport::Doh, Some(identity)) => {
                    let tls = Some(identity.config("h2")?);
                    let options = self.options(injection, threads);
                    doh::start(
                        self.beside(Transport::Dot, place),
                        stream::Options { tls, ..options },
                    )
                }
                (Transport::Doq, Some(identity)) => {
                    let tls = identity.quic_config("doq")?;
                    let options = quic::Options::new(tls);
                    quic::start(place, quic::Options { injection, threads, ..options })
                }
                (Transport::Doh3, Some(identity)) => {
                    let tls = identity.quic_config("h3")?;
                    let (close_after, options) = (self.close_after, quic::Options::new(tls));
                    let options = quic::Options { injection, threads, close_after, ..options };
                    doh3::start(self.beside(Transport::Doq, place), options)
                }
                (transport, None) => bail!("there is no certificate for {transport}"),
            };
            let echo = echo.with_context(|| format!("cannot listen on {place}/{transport}"))?;
            if !transport.is_encrypted() {
                plain.set_port(echo.address.port());
            }
            servers.push((*transport, echo));
        }
        Ok(servers)
    }

    fn options(&self, injection: Injection, threads: usize) -> stream::Options {
        let close_after = self.close_after;
        stream::Options { injection, threads, close_after, ..stream::Options::default() }
    }

    /// Where DNS over HTTPS is. It shares TCP with DNS over TLS or UDP with DNS over QUIC, and so no port.
    fn beside(&self, other: Transport, place: SocketAddr) -> SocketAddr {
        match self.mode.contains(&other) {
            true if place.port() > 0 => {
                SocketAddr::new(place.ip(), place.port().checked_add(1).unwrap_or(0))
            }
            _ => place,
        }
    }

    fn tls_address(&self, listen: SocketAddr) -> SocketAddr {
        let port = match listen.port() {
            0 => 0,
            port => port.checked_add(1).unwrap_or(0),
        };
        self.tls_listen.unwrap_or(SocketAddr::new(listen.ip(), port))
    }

    fn identity(&self, address: IpAddr) -> Result<Identity> {
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            return Ok(Identity::read(certificate, key)?);
        }
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        names.push(address.to_string());
        names.extend(self.tls_names.iter().cloned());
        names.sort();
        names.dedup();
        Ok(Identity::make(&names)?)
    }

    /// Writes the authority of a made certificate to a file.
    fn publish(&self, identity: &Identity) -> Result<Option<Authority>> {
        let Some(pem) = &identity.authority else { return Ok(None) };
        let (path, file) = match &self.tls_ca_out {
            Some(path) => (path.clone(), File::create(path)),
            // Everybody may write there, so nothing that exists is opened.
            None => {
                let name = format!("nodens-lab-echo-{}.pem", std::process::id());
                let path = std::env::temp_dir().join(name);
                (path.clone(), File::create_new(path))
            }
        };
        let cannot = || format!("cannot write {}", path.display());
        let mut file = file.with_context(cannot)?;
        file.write_all(pem.as_bytes()).with_context(cannot)?;
        Ok(Some(Authority { path, passing: self.tls_ca_out.is_none() }))
    }
}

/// Tries again while addresses are in use, so often in all.
fn first_free<T>(tries: usize, mut listen: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..tries {
        match listen() {
            Err(error) if is_taken(&error) => {}
            done => return done,
        }
    }
    listen()
}

fn is_taken(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_port_that_is_taken_is_no_reason_to_give_up() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = taken.local_addr().map(|address| (taken, address)).unwrap();
        let mut tried = 0;
        let mut listen = |free_at: usize| {
            tried += 1;
            let address = if tried < free_at { taken.1 } else { "127.0.0.1:0".parse()? };
            TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))
        };
        assert!(first_free(3, || listen(3)).is_ok());
        assert!(first_free(1, || listen(9)).is_err());
        assert_eq!(tried, 4);
    }

    #[test]
    fn other_errors_are_said_at_once() {
        let mut tried = 0;
        let error = first_free::<()>(16, || {
            tried += 1;
            bail!("no such transport")
        });
        assert_eq!((error.unwrap_err().to_string(), tried), ("no such transport".to_owned(), 1));
    }
}
