//! The options that say how queries travel.

use crate::server::Server;
use anyhow::{Result, bail};
use clap::ValueEnum;
use lab_load::life::Life;
use lab_load::transport::{Doh, Method, Share, Streams, Tls, Transport, Trust};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Options of transports and connections.
#[derive(clap::Args)]
#[command(next_help_heading = "Transport")]
pub(crate) struct TransportArgs {
    /// Transport: udp, tcp, dot, doh (HTTP/2), doq or doh3 (HTTP/3).
    #[arg(short, long, default_value = "udp", conflicts_with = "mix")]
    mode: Transport,
    /// Port of the server, if --server has none [default: 53, with TLS 853, doh and doh3 443].
    #[arg(short, long, value_parser = crate::server::port)]
    port: Option<u16>,
    /// Several transports at once, each with its part of the clients: udp=80,tcp=15,dot=5. A port
    /// of its own goes behind a colon: dot:8853=5.
    #[arg(long, value_name = "NAME[:PORT]=WEIGHT,…")]
    mix: Option<Mix>,
    /// When a client leaves a connection for a new one: queries=N,time=D,idle=D, any of them, each
    /// fixed or as exp:MEAN or uniform:LOW-HIGH; queries=1 is a connection for every query.
    #[arg(long, value_name = "LIFE", default_value = "persistent")]
    conn_life: Life,
    /// Queries in flight on one connection; others wait for their turn.
    #[arg(long, value_name = "DEPTH")]
    pipelining: Option<NonZeroUsize>,
    /// Open the first connection of each client before the schedule starts; none is opened any more after the handshake timeout [default: where connections persist]; `--connect-first=false` opens them as it starts.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    connect_first: Option<bool>,
    /// How long setting up a connection may take, handshake included, as 3s; a bare number is seconds
    /// [default: the timeout].
    #[arg(long, value_name = "TIME", value_parser = lab_units::seconds)]
    handshake_timeout: Option<u64>,
    /// PEM file with the authority that must have signed the server's [default: the system's].
    #[arg(long, value_name = "FILE", conflicts_with = "tls_insecure")]
    tls_ca: Option<PathBuf>,
    /// Accept any certificate.
    #[arg(long)]
    tls_insecure: bool,
    /// The server's name in its certificate and in SNI [default: as --server has it].
    #[arg(long, value_name = "NAME")]
    tls_sni: Option<String>,
    /// Start every connection with a full handshake, even with a ticket from an earlier one.
    #[arg(long)]
    no_resumption: bool,
    /// Send queries before the handshake is over where a ticket allows it (0-RTT, doq and doh3).
    #[arg(long)]
    early_data: bool,
    /// Path of DNS over HTTPS [default: /dns-query].
    #[arg(long, value_name = "PATH")]
    doh_path: Option<String>,
    /// How DNS over HTTPS carries queries.
    #[arg(long, value_enum, default_value = "get")]
    doh_method: DohMethod,
}

#[derive(Clone, Copy, ValueEnum)]
enum DohMethod {
    Get,
    Post,
}

/// Transports with their ports, if they have ones of their own, and weights.
#[derive(Clone, Debug, PartialEq)]
struct Mix(Vec<(Transport, Option<u16>, u32)>);

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut mix: Vec<(Transport, Option<u16>, u32)> = Vec::new();
        for part in text.split(',') {
            let expected = || {
                format!(
                    "`{part}` is not a part of a mix, expected TRANSPORT=WEIGHT, such as tcp=15"
                )
            };
            let (name, weight) = part.split_once('=').ok_or_else(expected)?;
            let (name, port) = match name.split_once(':') {
                Some((name, port)) => (name, Some(crate::server::port(port)?)),
                None => (name, None),
            };
            let transport = name.parse()?;
            let weight = weight.parse().ok().filter(|weight| *weight > 0).ok_or_else(expected)?;
            if mix.iter().any(|known| known.0 == transport) {
                return Err(format!("{transport} is given twice"));
            }
            mix.push((transport, port, weight));
        }
        Ok(Self(mix))
    }
}

impl TransportArgs {
    /// The transport, where the server takes it, the mix, and what connections are like.
    pub(super) fn read(
        &self,
        server: &Server,
    ) -> Result<(Transport, SocketAddr, Vec<Share>, Streams)> {
        self.check()?;
        let given = match (server.port, self.port) {
            (Some(one), Some(other)) if one != other => {
                bail!(
                    "--server has port {one} and --port says {other}, expected the same port or only one of them"
                )
            }
            (one, other) => one.or(other),
        };
        let ip = server.find_and_tell(given.unwrap_or(self.mode.port()))?;
        let at = |port| {
            let mut at = ip;
            at.set_port(port);
            at
        };
        let mix = self.mix.iter().flat_map(|mix| &mix.0).map(|&(transport, own, weight)| {
            // One port cannot be right for all, so `--port` is that of the plain ones.
            let plain = given.filter(|_| !transport.is_encrypted());
            let port = own.or(plain).unwrap_or(transport.port());
            Share { transport, weight, server: at(port) }
        });
        let mix: Vec<_> = mix.collect();
        let (transport, address) = match mix.first() {
            Some(first) => (first.transport, first.server),
            None => (self.mode, at(given.unwrap_or(self.mode.port()))),
        };
        Ok((transport, address, mix, self.streams(server)?))
    }

    /// The transports of the load.
    fn used(&self) -> Vec<Transport> {
        match &self.mix {
            Some(mix) => mix.0.iter().map(|(transport, ..)| *transport).collect(),
            None => vec![self.mode],
        }
    }

    /// Refuses an option that only datagrams have.
    pub(super) fn expect_udp(&self, flag: &str) -> Result<()> {
        let used = self.used();
        if !used.contains(&Transport::Udp) {
            bail!("{}", no_effect(flag, &used, "udp"));
        }
        Ok(())
    }

    /// Refuses what no transport of the load has: the numbers would be those of another load than was meant.
    fn check(&self) -> Result<()> {
        let used = self.used();
        let has = |is: fn(Transport) -> bool| used.iter().any(|transport| is(*transport));
        let connected = (has(|one| one != Transport::Udp), "a transport with connections, as tcp");
        let encrypted = (has(Transport::is_encrypted), "an encrypted transport, as dot");
        let https = (has(|one| matches!(one, Transport::Doh | Transport::Doh3)), "doh or doh3");
        let quic = (has(|one| matches!(one, Transport::Doq | Transport::Doh3)), "doq or doh3");
        for (flag, is_given, (is_used, of)) in [
            ("--conn-life", self.conn_life != Life::default(), connected),
            ("--pipelining", self.pipelining.is_some(), connected),
            ("--connect-first", self.connect_first == Some(true), connected),
            ("--handshake-timeout", self.handshake_timeout.is_some(), connected),
            ("--tls-ca", self.tls_ca.is_some(), encrypted),
            ("--tls-insecure", self.tls_insecure, encrypted),
            ("--tls-sni", self.tls_sni.is_some(), encrypted),
            ("--no-resumption", self.no_resumption, encrypted),
            ("--early-data", self.early_data, quic),
            ("--doh-path", self.doh_path.is_some(), https),
            ("--doh-method", matches!(self.doh_method, DohMethod::Post), https),
        ] {
            if is_given && !is_used {
                bail!("{}", no_effect(flag, &used, of));
            }
        }
        Ok(())
    }

    fn streams(&self, server: &Server) -> Result<Streams> {
        if self.handshake_timeout == Some(0) {
            bail!("--handshake-timeout: expected a time above 0");
        }
        let trust = match &self.tls_ca {
            Some(path) => Trust::File(path.clone()),
            None if self.tls_insecure => Trust::Anyone,
            None => Trust::System,
        };
        Ok(Streams {
            life: self.conn_life,
            pipelining: self.pipelining,
            connect_first: self.connect_first,
            set_up_timeout: self.handshake_timeout.map(Duration::from_nanos),
            tls: Tls {
                trust,
                name: self.tls_sni.clone().or_else(|| server.name().map(str::to_owned)),
                no_resumption: self.no_resumption,
                early_data: self.early_data,
            },
            doh: Doh {
                path: self.doh_path.clone().unwrap_or_else(|| Doh::default().path),
                method: match self.doh_method {
                    DohMethod::Get => Method::Get,
                    DohMethod::Post => Method::Post,
                },
            },
        })
    }
}

/// Why an option is refused.
fn no_effect(flag: &str, used: &[Transport], expected: &str) -> String {
    let names: Vec<String> = used.iter().map(ToString::to_string).collect();
    let names = names.join(" and ");
    format!("{flag} has no effect on {names}, expected -m or --mix with {expected}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_has_names_ports_and_weights() {
        let mix: Mix = "udp=80,tcp=15,dot:8853=5".parse().unwrap();
        let dot = (Transport::Dot, Some(8_853), 5);
        assert_eq!(mix.0, [(Transport::Udp, None, 80), (Transport::Tcp, None, 15), dot]);
        for (text, word) in [
            ("udp", "`udp`"),
            ("udp=0", "`udp=0`"),
            ("sctp=3", "expected udp, tcp"),
            ("udp=1,udp=2", "twice"),
            ("dot:x=1", "`x` is not a port"),
            ("dot:0=1", "`0` is not a port"),
            ("", "tcp=15"),
        ] {
            let error = text.parse::<Mix>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
