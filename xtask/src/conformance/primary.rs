//! The server that the zones of `secondary` are transferred from: Nodens, for both servers under test.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::adapt::adapt;
use super::case::Case;
use super::client::Client;
use super::run::Bench;
use super::server::{Server, Started};
use super::transports::Transport;
use nodens_judge::question::Question;

/// How long transfers may take. CoreDNS makes its first attempt at its start and others after pauses that double.
const TRANSFERS_MAX: Duration = Duration::from_secs(40);

const SOA: u16 = 6;

/// A primary that runs until this is dropped.
pub(super) struct Primary {
    pub(super) port: u16,
    _server: Server,
}

impl Primary {
    /// Starts one with the zones of the case, whose files are in `dir`; none if it has no such zones.
    pub(super) fn start(bench: &Bench, case: &Case, dir: &Path) -> Result<Option<Self>> {
        let zones = &case.settings.primary;
        if zones.is_empty() {
            return Ok(None);
        }
        let mut text = String::new();
        for (zone, file) in zones {
            text +=
                &format!("{zone} {{\n    file {file}\n    transfer {{\n        to *\n    }}\n}}\n");
        }
        let adapted = adapt(&text, &bench.upstreams, || bench.ports.take());
        let port = adapted.dns_port;
        match Server::start(&bench.nodens, "primary", dir, adapted)? {
            Started::Running(server) => Ok(Some(Self { port, _server: server })),
            Started::Rejected(log) => bail!("the primary does not start: {log}"),
        }
    }
}

/// Waits until both servers have these zones.
pub(super) fn until_transferred(client: &mut Client<'_>, zones: &[String]) -> Result<()> {
    let began = Instant::now();
    let mut waiting: BTreeSet<&String> = zones.iter().collect();
    while !waiting.is_empty() {
        for zone in waiting.clone() {
            let question = Question::new(IpAddr::V4(Ipv4Addr::LOCALHOST), &format!("{zone}."), SOA);
            let replies = client.ask(&question, Transport::Tcp)?;
            if replies.iter().all(|reply| reply.outcome.has_answers()) {
                waiting.remove(zone);
            }
        }
        if began.elapsed() > TRANSFERS_MAX {
            bail!("not transferred in time: {waiting:?}");
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
