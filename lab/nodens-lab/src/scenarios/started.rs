//! A server of a scenario with the large zone, from its start until it answers for that.

use super::primary::Primary;
use super::probe::{PAUSE, Probe, stopped};
use super::servers::{Peer, Role, Setup};
use super::zones::{Zones, name_of_large};
use super::{Lab, Progress};
use crate::child::Server;
use anyhow::{Result, bail};
use nodens_wire::Name;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

/// A server that has the large zone from the lab's primary.
pub(super) struct Secondary {
    pub(super) primary: Primary,
    pub(super) server: Server,
    pub(super) setup: Setup,
}

impl Secondary {
    /// Starts it with these zones of the primary's, and waits for the large one.
    pub(super) fn start(
        lab: &Lab<'_>,
        peer: &Peer,
        zones: Zones,
        (address, secondaries): (SocketAddr, Vec<SocketAddr>),
        progress: &Progress,
    ) -> Result<Self> {
        let primary = Primary::start(zones, &lab.cpus.load)?;
        let setup = Setup {
            role: Role::Secondary,
            address,
            primary: primary.address,
            folder: lab.scratch.folder(&format!("secondary-{}", peer.name))?,
            threads: lab.cpus.subject.len(),
            members: 0,
            file: PathBuf::new(),
            secondaries,
        };
        let mut server = peer.start(&setup, &lab.cpus.subject)?;
        let last = name_of_large(lab.args.records.saturating_sub(1))?;
        progress.say("transfers the zone");
        await_address(lab, &mut server, setup.address, (&last, None), progress)?;
        Ok(Self { primary, server, setup })
    }
}

impl Drop for Secondary {
    fn drop(&mut self) {
        // The zone takes room that the next server needs.
        _ = std::fs::remove_dir_all(&self.setup.folder);
    }
}

/// Waits until `name` has an address, that with these last two octets if some are given.
pub(super) fn await_address(
    lab: &Lab<'_>,
    server: &mut Server,
    address: SocketAddr,
    (name, octets): (&Name, Option<u16>),
    progress: &Progress,
) -> Result<()> {
    let mut probe = Probe::new(address)?;
    let begin = Instant::now();
    while !probe.has(name, |last| octets.is_none_or(|octets| octets == last)) {
        stopped(lab.stop)?;
        server.check()?;
        let took = begin.elapsed();
        progress.show(&format!("{name} is not as it will be after {:.1} s", took.as_secs_f64()));
        if took > lab.patience() {
            bail!("{name} was not served within {:.0} s", took.as_secs_f64());
        }
        std::thread::sleep(PAUSE / 10);
    }
    Ok(())
}
