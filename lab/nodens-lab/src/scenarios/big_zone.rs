//! The tail of response times while a large zone is transferred in, transferred out, and read again from
//! its file, over the tail of the same server while nothing happens.

use super::loads::{self, Loaded};
use super::memory;
use super::servers::{Peer, Role, Setup};
use super::sheet::{Part, Sheet, Unit};
use super::started::{Secondary, await_address};
use super::zones::{LARGE, Which, Zones, name_of_large};
use super::{Lab, Progress, experiment};
use crate::child::{Server, free_address};
use crate::term;
use anyhow::{Context, Result};
use lab_histogram::Quantile;
use nodens_wire::{Builder, Class, Flags, Name, Records, Type, framing};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Names that are asked for.
const NAMES: u32 = 100_000;
/// Between two disturbances, after the end of one.
const PAUSE: Duration = Duration::from_secs(3);
/// Until a server is as quiet as it gets.
const REST: Duration = Duration::from_secs(5);
const SILENCE_MAX: Duration = Duration::from_secs(30);

pub(super) fn run(lab: &Lab<'_>) -> Result<Sheet> {
    let columns = [
        ("rate", "QPS", Unit::Count),
        ("quiet", "quiet p99.9", Unit::Nanos),
        ("in", "transferred in", Unit::Nanos),
        ("in_ratio", "over quiet", Unit::Times),
        ("out", "transferred out", Unit::Nanos),
        ("out_ratio", "over quiet", Unit::Times),
        ("file_quiet", "file, quiet", Unit::Nanos),
        ("file", "file read again", Unit::Nanos),
        ("file_ratio", "over quiet", Unit::Times),
        ("lost", "lost", Unit::Count),
    ];
    let title = format!(
        "p99.9 while a zone of {} records changes, at {} of the highest rate",
        term::count(lab.args.records.into()),
        term::percent(lab.args.load)
    );
    let mut sheet = Sheet::new("big-zone-change", title, &columns);
    experiment::run(lab, lab.peers.iter().collect(), &mut sheet, one)?;
    sheet.notes.push(format!(
        "each load takes {} s; a transfer, or the next version of the file, begins {} s after the end of the one before it",
        lab.args.seconds,
        PAUSE.as_secs()
    ));
    Ok(sheet)
}

struct Plan {
    workload: lab_load::Workload,
    rate: f64,
    address: SocketAddr,
}

impl Plan {
    fn new(lab: &Lab<'_>, address: SocketAddr) -> Result<Self> {
        let names = (0..lab.args.records.min(NAMES)).map(name_of_large);
        let workload = loads::workload(names, lab.args.seed)?;
        let rate = loads::maximum(lab, address, &workload)? * lab.args.load;
        std::thread::sleep(REST);
        Ok(Self { workload, rate, address })
    }

    fn load(&self, lab: &Lab<'_>) -> Result<Loaded> {
        let load = (&self.workload, "names of the large zone");
        loads::at_rate(lab, self.address, load, self.rate, lab.args.seconds)
    }

    /// A load while `disturb` is done over and over; how often it was.
    fn disturbed(
        &self,
        lab: &Lab<'_>,
        mut disturb: impl FnMut() -> Result<()> + Send,
    ) -> Result<(Loaded, u32)> {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let disturbance = scope.spawn(|| -> Result<u32> {
                loads::stand_back(&lab.cpus.load);
                let mut count = 0;
                while !over.load(Ordering::Relaxed) {
                    disturb()?;
                    count += 1;
                    std::thread::sleep(PAUSE);
                }
                Ok(count)
            });
            let loaded = self.load(lab);
            over.store(true, Ordering::Relaxed);
            let count =
                disturbance.join().map_err(|_| anyhow::anyhow!("a disturbance panicked"))?;
            Ok((loaded?, count?))
        })
    }
}

fn tail(of: &Loaded) -> Option<f64> {
    match of.outcome.tally.response.quantile(0.999) {
        Quantile::Value(nanos) | Quantile::AtLeast(nanos) => Some(nanos as f64),
        Quantile::Empty => None,
    }
}

/// What of the tails is the load's own: how late it sent.
fn lateness(loads: [&Loaded; 5]) -> String {
    loads.map(|of| term::quantile(of.outcome.tally.lateness.quantile(0.999))).join(", ")
}

fn one(lab: &Lab<'_>, peer: &Peer, part: &mut Part) -> Result<()> {
    let progress = Progress::new(peer.name);
    let zones = Zones::new(0, lab.args.records, 1).whole_only();
    let place = (free_address()?, Vec::new());
    let mut all = Secondary::start(lab, peer, zones, place, &progress)?;
    let plan = Plan::new(lab, all.setup.address)?;
    progress.say("quiet");
    let quiet = plan.load(lab)?;
    progress.say("transfers in");
    let (coming, count_in) = plan.disturbed(lab, || transfer_in(lab, &mut all, &progress))?;
    std::thread::sleep(REST);
    progress.say("transfers out");
    let (going, count_out) = plan.disturbed(lab, || transfer_out(plan.address))?;
    drop(all);
    let (file_quiet, file, count_file) = from_file(lab, peer, &progress)?;
    let over =
        |of: &Loaded, quiet: &Loaded| tail(of).zip(tail(quiet)).map(|(of, quiet)| of / quiet);
    let loads = [&quiet, &coming, &going, &file_quiet, &file];
    let lost: u64 = loads.into_iter().map(Loaded::lost).sum();
    let names = ["quiet", "transferred in", "transferred out", "file, quiet", "file read again"];
    for (name, of) in names.into_iter().zip(loads) {
        let reasons = of.outcome.verdict.invalid.iter();
        part.invalid
            .extend(reasons.map(|reason| format!("{name}: the generator was disturbed: {reason}")));
    }
    part.values = vec![
        Some(plan.rate),
        tail(&quiet),
        tail(&coming),
        over(&coming, &quiet),
        tail(&going),
        over(&going, &quiet),
        tail(&file_quiet),
        tail(&file),
        over(&file, &file_quiet),
        Some(lost as f64),
    ];
    part.notes.push(format!(
        "{}: {}; {count_in} transfers in, {count_out} out, {count_file} versions of the file; p99.9 of how late queries were sent: {}",
        peer.name,
        peer.version,
        lateness(loads)
    ));
    Ok(())
}

/// Another version of the zone, as a whole.
fn transfer_in(lab: &Lab<'_>, all: &mut Secondary, progress: &Progress) -> Result<()> {
    let serial = all.primary.change(Zones::change_large);
    all.primary.notify(Which::Large, all.setup.address)?;
    let name = name_of_large(0)?;
    let wanted = (&name, Some(serial as u16));
    await_address(lab, &mut all.server, all.setup.address, wanted, progress)
}

/// Reads the whole zone over TCP.
fn transfer_out(server: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let mut out = Vec::new();
    let zone = Name::parse(LARGE)?;
    Builder::new(&mut out, 0x4e6f, Flags::default()).question(zone.view(), Type::AXFR, Class::IN);
    stream.write_all(&framing::framed(&out))?;
    let mut soas = 0;
    while soas < 2 {
        let message = framing::read_message(&mut stream).context("a transfer was cut")?;
        let mut records = 0;
        for view in Records::of(&message)? {
            soas += u32::from(view?.rtype == Type::SOA);
            records += 1;
        }
        anyhow::ensure!(records > 0, "a transfer was refused");
    }
    Ok(())
}

/// The same for a server that has the zone in a file.
fn from_file(lab: &Lab<'_>, peer: &Peer, progress: &Progress) -> Result<(Loaded, Loaded, u32)> {
    let file = memory::file(lab, lab.args.records)?;
    let setup = Setup {
        role: Role::File,
        address: free_address()?,
        primary: free_address()?,
        folder: lab.scratch.folder(&format!("big-{}", peer.name))?,
        threads: lab.cpus.subject.len(),
        members: 0,
        file: file.clone(),
        secondaries: Vec::new(),
    };
    let mut server = peer.start(&setup, &lab.cpus.subject)?;
    let last = name_of_large(lab.args.records.saturating_sub(1))?;
    progress.say("reads the file");
    await_address(lab, &mut server, setup.address, (&last, None), progress)?;
    let plan = Plan::new(lab, setup.address)?;
    progress.say("quiet, with a file");
    let quiet = plan.load(lab)?;
    progress.say("reads the file again");
    let mut serial = 1;
    let (busy, count) = plan.disturbed(lab, || {
        serial += 1;
        next_version(lab, peer, &server, &file, serial)
    })?;
    drop(server);
    _ = std::fs::remove_dir_all(&setup.folder);
    Ok((quiet, busy, count))
}

fn next_version(
    lab: &Lab<'_>,
    peer: &Peer,
    server: &Server,
    file: &Path,
    serial: u32,
) -> Result<()> {
    memory::write(file, lab.args.records, serial)?;
    if peer.needs_signal() {
        let process = i32::try_from(server.pid()).ok().and_then(rustix::process::Pid::from_raw);
        let process = process.context("the server has no number")?;
        rustix::process::kill_process(process, rustix::process::Signal::HUP)?;
    }
    Ok(())
}
