//! Before the start: whether the local ports suffice for the connections that clients will open.
//!
//! The side that closes a TCP connection first keeps its port in TIME_WAIT for a minute (RFC 9293 section
//! 3.6.1; 60 s on Linux), so clients that leave their connections use up ports.

use crate::run::{Config, Pace};
use crate::transport::Transport;
use std::net::SocketAddr;
use std::time::Duration;

/// How long Linux keeps a port in TIME_WAIT.
const TIME_WAIT: Duration = Duration::from_secs(60);
/// How long it keeps it if it may be reused (`tcp_tw_reuse`).
const REUSE_AFTER: Duration = Duration::from_secs(1);
/// The part of the ports that a run may use: others need some, and the last ones are slow to find.
const USABLE: f64 = 0.9;

/// More connections than local ports.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{rate:.0} new connections a second to {server}, each keeping its port for {rest:?} after it, \
     need {needed} local ports; this system has {usable} to use (net.ipv4.ip_local_port_range). Keep \
     connections longer (--conn-life), lower the rate, or set net.ipv4.tcp_tw_reuse=1"
)]
pub struct TooFewPorts {
    /// New connections a second.
    pub rate: f64,
    /// Where to.
    pub server: SocketAddr,
    /// How long a port rests.
    pub rest: Duration,
    /// Ports in use at once.
    pub needed: usize,
    /// Ports that may be used, on all source addresses.
    pub usable: usize,
}

/// What the kernel does with ports.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    /// Local ports.
    ports: usize,
    /// `tcp_tw_reuse`: 0 never, 1 always, 2 on loopback.
    reuse: u8,
}

impl Kernel {
    fn read() -> Self {
        let read = |name: &str| {
            std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default()
        };
        Self::parse(&read("ip_local_port_range"), &read("tcp_tw_reuse"))
    }

    fn parse(range: &str, reuse: &str) -> Self {
        let mut ends = range.split_whitespace().filter_map(|text| text.parse::<usize>().ok());
        // Linux's own, should it not tell.
        let (low, high) = (ends.next().unwrap_or(32_768), ends.next().unwrap_or(60_999));
        let ports = (high + 1).saturating_sub(low);
        Self { ports, reuse: reuse.trim().parse().unwrap_or(0) }
    }
}

/// Local ports that sockets of one address get, unless they ask for one.
pub fn local_ports() -> usize {
    Kernel::read().ports
}

pub(crate) fn check(config: &Config) -> Result<(), TooFewPorts> {
    check_with(config, Kernel::read())
}

fn check_with(config: &Config, kernel: Kernel) -> Result<(), TooFewPorts> {
    let shares = config.shares();
    let weights: f64 = shares.iter().map(|share| f64::from(share.weight)).sum();
    for share in shares {
        if matches!(share.transport, Transport::Udp) {
            continue;
        }
        let part = f64::from(share.weight) / weights.max(1.0);
        let clients = (config.own_clients() as f64 * part).ceil();
        let workers = config.worker.map_or(1.0, |worker| worker.of() as f64);
        let rate = match config.pace {
            Pace::Open { rate, .. } => rate * part / workers,
            // As fast as the server allows: not known.
            Pace::Closed { .. } => 0.0,
        };
        let rate = config.streams.life.connection_rate(rate, clients as usize);
        let server = share.server;
        let reuse = kernel.reuse == 1 || kernel.reuse == 2 && server.ip().is_loopback();
        let rest = match share.transport {
            // A QUIC client's socket is free as soon as it is closed.
            Transport::Doq | Transport::Doh3 => Duration::ZERO,
            _ if reuse => REUSE_AFTER,
            _ => TIME_WAIT,
        };
        let resting = rate * rest.min(config.duration).as_secs_f64();
        let needed = (resting + clients).ceil() as usize;
        let sources = config.sources.len().max(1);
        let usable = (kernel.ports as f64 * USABLE) as usize * sources;
        if needed > usable {
            return Err(TooFewPorts { rate, server, rest, needed, usable });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(transport: Transport, life: &str, rate: f64) -> Config {
        let server = SocketAddr::from(([192, 0, 2, 1], 53));
        let mut config = Config { transport, ..Config::new(server, rate) };
        config.streams.life = life.parse().unwrap();
        config
    }

    #[test]
    fn churn_needs_ports_and_persistent_connections_do_not() {
        let kernel = Kernel::parse("32768\t60999\n", "2\n");
        assert_eq!((kernel.ports, kernel.reuse), (28_232, 2));
        let check = |config: &Config| check_with(config, kernel);
        let mut churn = config(Transport::Tcp, "queries=1", 10_000.0);
        let error = check(&churn).unwrap_err();
        assert_eq!((error.needed, error.usable), (100_032, 25_408), "ten seconds of ports");
        assert!(error.to_string().contains("tcp_tw_reuse"), "{error}");
        churn.duration = Duration::from_secs(2);
        check(&churn).unwrap();
        churn.duration = Duration::from_secs(10);
        churn.server = SocketAddr::from(([127, 0, 0, 1], 53));
        check(&churn).unwrap();
        check_with(&churn, Kernel { reuse: 0, ..kernel }).unwrap_err();
        check(&config(Transport::Tcp, "queries=10", 10_000.0)).unwrap();
        check(&config(Transport::Dot, "persistent", 1e6)).unwrap();
        check(&config(Transport::Udp, "queries=1", 1e6)).unwrap();
    }
}
