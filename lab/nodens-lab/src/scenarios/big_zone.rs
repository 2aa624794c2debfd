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
use lab_histogram::Histogram;
use lab_load::Outcome;
use nodens_wire::{Builder, Class, Flags, Name, Records, Type, framing};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The tail that is looked at.
const TAIL: f64 = 0.999;
/// Names that are asked for.
const NAMES: u32 = 100_000;
/// Between two disturbances, after the end of one.
const PAUSE: Duration = Duration::from_secs(3);
/// Until a server is as quiet as it gets.
const REST: Duration = Duration::from_secs(3);
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Loads without and with what disturbs, in turn: the machine is another one from minute to minute, and has to be
/// so for both.
const ROUNDS: u32 = 4;

pub(super) fn run(lab: &Lab<'_>) -> Result<Sheet> {
    let columns = [
        ("rate", "QPS", Unit::Count),
        ("in_quiet", "quiet p99.9", Unit::Nanos),
        ("in", "transferred in", Unit::Nanos),
        ("in_ratio", "over quiet", Unit::Times),
        ("out_quiet", "quiet p99.9", Unit::Nanos),
        ("out", "transferred out", Unit::Nanos),
        ("out_ratio", "over quiet", Unit::Times),
        ("file_quiet", "quiet p99.9", Unit::Nanos),
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
        "each of these takes {} s, half of it quiet, in {ROUNDS} rounds; a transfer, or the next version of the file, begins {} s after the end of the one before it; times are those from sending until the response is in the client's socket",
        2.0 * lab.args.seconds,
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

    /// One load of a round.
    fn load(&self, lab: &Lab<'_>) -> Result<Loaded> {
        let load = (&self.workload, "names of the large zone");
        loads::at_rate(lab, self.address, load, self.rate, lab.args.seconds / f64::from(ROUNDS))
    }

    /// A load while `disturb` is done over and over; how often it was.
    fn disturbed(
        &self,
        lab: &Lab<'_>,
        disturb: &mut (impl FnMut() -> Result<()> + Send),
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

    /// Loads without and with `disturb` in turn, the first of a round once the one and once the other.
    fn compare(
        &self,
        lab: &Lab<'_>,
        name: &'static str,
        mut disturb: impl FnMut() -> Result<()> + Send,
    ) -> Result<Compared> {
        let mut compared =
            Compared { name, quiet: Tail::default(), busy: Tail::default(), times: 0 };
        for round in 0..ROUNDS {
            for is_quiet in [round % 2 == 0, round % 2 != 0] {
                std::thread::sleep(REST);
                if is_quiet {
                    compared.quiet.add(&self.load(lab)?);
                } else {
                    let (loaded, times) = self.disturbed(lab, &mut disturb)?;
                    compared.busy.add(&loaded);
                    compared.times += times;
                }
            }
        }
        Ok(compared)
    }
}

/// Loads of one kind together.
#[derive(Default)]
struct Tail {
    service: Histogram,
    lateness: Histogram,
    lost: u64,
    /// Why the generator calls its own work INVALID.
    invalid: Vec<String>,
}

impl Tail {
    fn add(&mut self, loaded: &Loaded) {
        let Outcome { tally, verdict, .. } = &loaded.outcome;
        self.service.merge(&tally.service);
        self.lateness.merge(&tally.lateness);
        self.lost += loaded.lost();
        self.invalid.extend(verdict.invalid.iter().map(ToString::to_string));
    }

    /// p99.9; that of lost queries is the timeout.
    fn nanos(&self) -> Option<f64> {
        self.service.quantile(TAIL).nanos().map(|nanos| nanos as f64)
    }
}

/// The same server without and with one kind of disturbance.
struct Compared {
    name: &'static str,
    quiet: Tail,
    busy: Tail,
    /// How often it was disturbed.
    times: u32,
}

impl Compared {
    /// p99.9 of both, and the ratio.
    fn values(&self) -> [Option<f64>; 3] {
        let (quiet, busy) = (self.quiet.nanos(), self.busy.nanos());
        [quiet, busy, busy.zip(quiet).map(|(busy, quiet)| busy / quiet)]
    }

    /// What disturbed the generator, with and without the disturbance of the server.
    fn invalid(&self) -> impl Iterator<Item = String> {
        let of = |tail: &Tail, name: String| {
            let reasons = tail.invalid.clone().into_iter();
            reasons.map(move |reason| format!("{name}: the generator was disturbed: {reason}"))
        };
        of(&self.quiet, format!("{}, quiet", self.name)).chain(of(&self.busy, self.name.to_owned()))
    }

    /// How often, and how late queries were sent, which is no part of the times.
    fn note(&self) -> String {
        let late = |tail: &Tail| term::quantile(tail.lateness.quantile(TAIL));
        let (quiet, busy) = (late(&self.quiet), late(&self.busy));
        format!(
            "{} {} times, p99.9 of how late queries were sent {quiet} and {busy}",
            self.name, self.times
        )
    }
}

fn one(lab: &Lab<'_>, peer: &Peer, part: &mut Part) -> Result<()> {
    let progress = Progress::new(peer.name);
    let zones = Zones::new(0, lab.args.records, 1).whole_only();
    let place = (free_address()?, Vec::new());
    let mut all = Secondary::start(lab, peer, zones, place, &progress)?;
    let plan = Plan::new(lab, all.setup.address)?;
    progress.say("transfers in");
    let coming = plan.compare(lab, "transferred in", || transfer_in(lab, &mut all, &progress))?;
    progress.say("transfers out");
    let going = plan.compare(lab, "transferred out", || transfer_out(plan.address))?;
    drop(all);
    let file = from_file(lab, peer, &progress)?;
    let compared = [&coming, &going, &file];
    part.invalid.extend(compared.iter().flat_map(|compared| compared.invalid()));
    let lost: u64 = compared.iter().map(|compared| compared.quiet.lost + compared.busy.lost).sum();
    part.values = vec![Some(plan.rate)];
    part.values.extend(compared.iter().flat_map(|compared| compared.values()));
    part.values.push(Some(lost as f64));
    let notes = compared.map(Compared::note).join("; ");
    part.notes.push(format!("{}: {}; {notes}", peer.name, peer.version));
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
fn from_file(lab: &Lab<'_>, peer: &Peer, progress: &Progress) -> Result<Compared> {
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
    progress.say("reads the file again");
    let mut serial = 1;
    let compared = plan.compare(lab, "file read again", || {
        serial += 1;
        next_version(lab, peer, &server, &file, serial)
    })?;
    drop(server);
    _ = std::fs::remove_dir_all(&setup.folder);
    Ok(compared)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(nanos: u64, lost: u64) -> Tail {
        let mut tail = Tail { lost, ..Tail::default() };
        tail.service.record_n(nanos, 10_000);
        (0..lost).for_each(|_| tail.service.record_censored(2_000_000_000));
        tail
    }

    #[test]
    fn what_disturbs_is_told_apart_from_what_is_quiet_and_lost_queries_are_as_slow_as_the_timeout()
    {
        let of = |quiet, busy| Compared { name: "transferred in", quiet, busy, times: 3 }.values();
        let [quiet, busy, ratio] = of(tail(1 << 20, 0), tail(3 << 20, 0));
        let near = |value: Option<f64>, wanted: f64| (value.unwrap() / wanted - 1.0).abs() < 0.01;
        assert!(near(quiet, 1048576.0) && near(busy, 3145728.0) && near(ratio, 3.0));
        let [_, busy, ratio] = of(tail(1 << 20, 0), tail(1 << 20, 20));
        assert!(near(busy, 2e9) && ratio > Some(1_000.0));
        assert_eq!(of(Tail::default(), tail(1, 0))[2], None);
    }

    #[test]
    fn what_disturbed_the_generator_says_in_which_loads() {
        let disturbed = Tail { invalid: vec!["late".to_owned()], ..Tail::default() };
        let quiet = Tail { invalid: vec!["busy".to_owned()], ..Tail::default() };
        let compared = Compared { name: "file read again", quiet, busy: disturbed, times: 1 };
        let told: Vec<_> = compared.invalid().collect();
        assert_eq!(
            told,
            [
                "file read again, quiet: the generator was disturbed: busy",
                "file read again: the generator was disturbed: late"
            ]
        );
    }
}
