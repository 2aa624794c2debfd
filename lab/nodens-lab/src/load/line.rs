//! The options of `load` as one word of another command: `--load '-m tcp -Q 5000'`.

use super::questions::{Questions, Run};
use super::transport::TransportArgs;
use super::{CLIENTS, clients_needed, transports};
use crate::server::Server;
use crate::term;
use anyhow::{Context, Result, bail};
use clap::Parser;
use lab_load::schedule::Arrivals;
use lab_load::{Config, Pace, Workload};
use std::net::SocketAddr;
use std::time::Duration;

/// What another command can choose of a load: everything but its server, its length and its output.
#[derive(Parser)]
#[command(
    name = "load",
    no_binary_name = true,
    disable_help_flag = true,
    disable_version_flag = true
)]
#[command(allow_negative_numbers = true)]
struct Line {
    #[arg(short = 'Q', long, default_value = "1000", value_parser = lab_units::rate)]
    rate: f64,
    #[arg(long, default_value = "poisson", conflicts_with = "closed_loop")]
    arrivals: Arrivals,
    #[arg(short = 'q', long, conflicts_with = "rate")]
    closed_loop: Option<usize>,
    #[arg(short, long, default_value = "2s", value_parser = lab_units::seconds)]
    timeout: u64,
    #[arg(short, long)]
    clients: Option<usize>,
    #[arg(short = 'T', long, default_value_t = 1)]
    threads: usize,
    #[command(flatten)]
    questions: Questions,
    #[command(flatten)]
    transport: TransportArgs,
}

/// A load without a server.
pub(crate) struct Load {
    /// Everything but the server, the length and the seed.
    pub(crate) config: Config,
    pub(crate) workload: Workload,
    /// It in words.
    pub(crate) described: String,
}

impl Load {
    /// Reads the options in `line`, which are separated by spaces.
    pub(crate) fn read(line: &str, seed: u64) -> Result<Self> {
        let read = Line::try_parse_from(line.split_ascii_whitespace());
        let line = read.map_err(|error| {
            let text = error.to_string();
            anyhow::anyhow!("{}", text.trim_start_matches("error: ").trim_end())
        })?;
        if line.questions.needs_a_run() {
            bail!("--original-timing and --warm-up are for a load of its own");
        }
        let nowhere: Server = "127.0.0.1".parse().context("no address")?;
        let (transport, server, mix, streams) = line.transport.read(&nowhere)?;
        if !mix.is_empty() {
            bail!("--mix is for a load of its own");
        }
        let pace = match line.closed_loop {
            Some(window) => Pace::Closed { window },
            None => Pace::Open { rate: line.rate, arrivals: line.arrivals },
        };
        let timeout = Duration::from_nanos(line.timeout);
        let config =
            Config { transport, streams, pace, timeout, seed, ..Config::new(server, line.rate) };
        let needed = clients_needed(config.peak_rate(), timeout);
        let clients = line.clients.unwrap_or_else(|| CLIENTS.max(needed));
        let config = Config { clients, threads: line.threads, ..config };
        let run = Run { seed, clients, wanted: 100_000.0 };
        let workload = line.questions.workload(&run)?;
        let described = described(&config, &line.questions.source());
        Ok(Self { config, workload, described })
    }

    /// The load on a server.
    pub(crate) fn on(&self, server: SocketAddr, duration: Duration, seed: u64) -> Config {
        Config { server, duration, seed, ..self.config.clone() }
    }

    /// Whether it is a closed loop.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.config.pace, Pace::Closed { .. })
    }
}

fn described(config: &Config, source: &str) -> String {
    let pace = match config.pace {
        Pace::Open { rate, arrivals } => format!("{}/s {arrivals}", term::rate(rate)),
        Pace::Closed { window } => format!("{window} in flight per client"),
    };
    format!("{} {pace}, {} clients, {source}", transports(config), config.clients)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_options_of_load_and_no_others() {
        let load = Load::read("-m tcp --conn-life queries=1 -Q 4k -c 16 -w uniform --count 10", 1)
            .unwrap();
        assert!(load.described.starts_with("tcp (queries=1) "), "{}", load.described);
        assert!(load.described.contains("4.00k/s poisson, 16 clients"), "{}", load.described);
        assert!(!load.is_closed() && Load::read("-q 4", 1).unwrap().is_closed());
        let at = "198.18.54.1:5300".parse().unwrap();
        let config = load.on(at, Duration::from_secs(3), 9);
        assert_eq!((config.server, config.seed, config.duration.as_secs()), (at, 9, 3));
        for (line, word) in [
            ("-s 127.0.0.1", "'-s'"),
            ("-l 10s", "'-l'"),
            ("--slo p99<1ms", "'--slo'"),
            ("-Q 1 -q 2", "cannot be used with"),
            ("--warm-up", "a load of its own"),
            ("--mix udp=1,tcp=1", "a load of its own"),
            ("-m sctp", "`sctp` is not a transport"),
        ] {
            let error =
                Load::read(line, 1).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(word), "{line}: {error}");
        }
    }
}
