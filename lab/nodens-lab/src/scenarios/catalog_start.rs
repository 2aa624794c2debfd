//! From the start of a secondary with a catalog to the answer for its last member: from the network, and
//! after a restart from disk.

use super::primary::Primary;
use super::probe::{Sweep, stopped};
use super::servers::{Peer, Role, Setup};
use super::sheet::{Part, Sheet, Unit};
use super::zones::{RECORDS_OF_MEMBER, Zones, www};
use super::{Lab, Progress, experiment};
use crate::child::{Server, free_address};
use crate::term;
use anyhow::{Context, Result, bail};
use std::time::{Duration, Instant};

/// A server that used no more of a CPU than this for [`QUIET`] has nothing left to do.
const IDLE: f64 = 0.02;
const QUIET: Duration = Duration::from_secs(3);
/// NSD writes zones to disk every five seconds.
const SETTLE_MIN: Duration = Duration::from_secs(6);

/// What one start was like.
struct Start {
    took: Duration,
    /// Of one CPU, by the server.
    cpu: Duration,
    memory: Option<u64>,
    peak: Option<u64>,
}

pub(super) fn run(lab: &Lab<'_>) -> Result<Sheet> {
    let columns = [
        ("network", "from network", Unit::Seconds),
        ("network_cpu", "CPU", Unit::Seconds),
        ("disk", "from disk", Unit::Seconds),
        ("disk_cpu", "CPU", Unit::Seconds),
        ("ratio", "network / disk", Unit::Times),
        ("memory", "memory", Unit::Octets),
        ("peak", "peak", Unit::Octets),
    ];
    let zones = lab.args.zones;
    let title = format!(
        "{} zones of {RECORDS_OF_MEMBER} records by catalog: from start to the last one served",
        term::count(zones.into())
    );
    let mut sheet = Sheet::new("catalog-start", title, &columns);
    experiment::run(lab, lab.peers.iter().collect(), &mut sheet, one)?;
    if lab.peers.iter().any(|peer| !peer.has_catalogs()) {
        sheet.notes.push(
            "nsd has no catalogs in this version: it reads the same members from its zone list"
                .to_owned(),
        );
    }
    sheet.notes.push("CPU is that of the server; memory is its proportional set size after the start from the network, peak the highest resident set of one process".to_owned());
    Ok(sheet)
}

fn one(lab: &Lab<'_>, peer: &Peer, part: &mut Part) -> Result<()> {
    let progress = Progress::new(peer.name);
    let primary = Primary::start(Zones::new(lab.args.zones, 0, 0), &lab.cpus.load)?;
    let setup = Setup {
        role: Role::Members,
        address: free_address()?,
        primary: primary.address,
        folder: lab.scratch.folder(&format!("catalog-{}", peer.name))?,
        threads: lab.cpus.subject.len(),
        members: lab.args.zones,
        file: lab.scratch.path().join("none"),
        secondaries: Vec::new(),
    };
    let (mut server, network) = start(lab, peer, &setup, &progress)?;
    let (transfers, octets) = primary.transfers();
    let busy = primary.account().ran;
    part.notes.push(format!(
        "{}: {}; {} transfers of {} octets from the primary, which used {:.1} s of its CPU",
        peer.name,
        peer.version,
        term::count(transfers),
        term::count(octets),
        busy.as_secs_f64()
    ));
    progress.say("waits until all is on disk");
    settle(lab, &mut server)?;
    let ended = server.end(lab.patience()).context("before the start from disk")?;
    let (server, disk) = start(lab, peer, &setup, &progress)?;
    drop(server);
    let seconds = |time: Duration| Some(time.as_secs_f64());
    part.values = vec![
        seconds(network.took),
        seconds(network.cpu),
        seconds(disk.took),
        seconds(disk.cpu),
        Some(network.took.as_secs_f64() / disk.took.as_secs_f64().max(1e-3)),
        network.memory.map(|octets| octets as f64),
        network.peak.map(|octets| octets as f64),
    ];
    if ended > QUIET {
        part.notes.push(format!("{}: took {:.1} s to end", peer.name, ended.as_secs_f64()));
    }
    // What it wrote stays until the end of the run: before ext4 makes a file it passes one by one over the inodes of 100,000
    // files that have just been removed, and the next server would take twice as long.
    Ok(())
}

/// Starts a server and asks until all members were answered for once.
fn start(
    lab: &Lab<'_>,
    peer: &Peer,
    setup: &Setup,
    progress: &Progress,
) -> Result<(Server, Start)> {
    let names = (0..setup.members).map(www).collect::<Result<_>>()?;
    let mut sweep = Sweep::new(setup.address, names, lab.args.seed)?;
    let begin = Instant::now();
    let mut server = peer.start(setup, &lab.cpus.subject)?;
    sweep.finish(|left| {
        stopped(lab.stop)?;
        server.check()?;
        let took = begin.elapsed();
        progress.show(&format!("{left} zones are not served after {:.1} s", took.as_secs_f64()));
        if took > lab.patience() {
            bail!("{left} zones were not served within {:.0} s", took.as_secs_f64());
        }
        Ok(())
    })?;
    let took = begin.elapsed();
    let cpu = server.account()?.ran;
    let (memory, peak) = (server.proportional(), server.peak());
    Ok((server, Start { took, cpu, memory, peak }))
}

/// Waits until the server has nothing left to do.
fn settle(lab: &Lab<'_>, server: &mut Server) -> Result<()> {
    let begin = Instant::now();
    loop {
        let before = server.account()?.ran;
        std::thread::sleep(QUIET);
        stopped(lab.stop)?;
        server.check()?;
        let used = server.account()?.ran.saturating_sub(before);
        let is_idle = used.as_secs_f64() < IDLE * QUIET.as_secs_f64();
        if (is_idle && begin.elapsed() > SETTLE_MIN) || begin.elapsed() > lab.patience() {
            return Ok(());
        }
    }
}
