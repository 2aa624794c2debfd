//! The tail of a secondary's response times while members of its catalog come, go and change, over the
//! tail of the same server while nothing does.

use super::loads::{self, Loaded};
use super::primary::Primary;
use super::probe::{PAUSE, Probe, Sweep, stopped};
use super::servers::{Peer, Role, Setup};
use super::sheet::{Part, Sheet, Unit};
use super::zones::{Which, Zones, www};
use super::{Lab, Progress, experiment};
use crate::child::{Server, free_address};
use crate::term;
use anyhow::{Context, Result, bail};
use lab_histogram::{Histogram, Quantile};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Times a second at which the catalog changes.
const STEPS_PER_SECOND: u32 = 10;
/// Until a server is as quiet as it gets.
const REST: Duration = Duration::from_secs(5);

pub(super) fn run(lab: &Lab<'_>) -> Result<Sheet> {
    let columns = [
        ("rate", "QPS", Unit::Count),
        ("static_p50", "static p50", Unit::Nanos),
        ("static_p99", "static p99", Unit::Nanos),
        ("static_p999", "static p99.9", Unit::Nanos),
        ("p50", "changing p50", Unit::Nanos),
        ("p99", "changing p99", Unit::Nanos),
        ("p999", "changing p99.9", Unit::Nanos),
        ("ratio", "p99.9 over static", Unit::Times),
        ("max", "max", Unit::Nanos),
        ("lost", "lost", Unit::Count),
        ("behind", "last change served after", Unit::Seconds),
    ];
    let (zones, changes) = (lab.args.zones, lab.args.changes);
    let title = format!(
        "A catalog of {} zones, {changes} members a second added, {changes} removed and {changes} changed, at {} of the highest rate",
        term::count(zones.into()),
        term::percent(lab.args.load)
    );
    let mut sheet = Sheet::new("members-change", title, &columns);
    let peers = lab.peers.iter().filter(|peer| peer.has_catalogs()).collect();
    experiment::run(lab, peers, &mut sheet, one)?;
    sheet.notes.push(format!(
        "static is the mean of two loads, one before the changes and one after, each half as long as the {} s with changes; names that are asked for belong to members that stay, half of which change",
        lab.args.seconds
    ));
    Ok(sheet)
}

/// What is asked for, and at which rate.
struct Plan {
    workload: lab_load::Workload,
    rate: f64,
    address: SocketAddr,
}

impl Plan {
    fn load(&self, lab: &Lab<'_>, seconds: f64, about: &str) -> Result<Loaded> {
        loads::at_rate(lab, self.address, (&self.workload, about), self.rate, seconds)
    }
}

fn one(lab: &Lab<'_>, peer: &Peer, part: &mut Part) -> Result<()> {
    let progress = Progress::new(peer.name);
    let primary = Primary::start(Zones::new(lab.args.zones, 0, 0), &lab.cpus.load)?;
    let setup = Setup {
        role: Role::Members,
        address: free_address()?,
        primary: primary.address,
        folder: lab.scratch.folder(&format!("members-{}", peer.name))?,
        threads: lab.cpus.subject.len(),
        members: lab.args.zones,
        file: lab.scratch.path().join("none"),
        secondaries: Vec::new(),
    };
    let mut server = started(lab, peer, &setup, &progress)?;
    let workload = loads::workload((0..lab.args.zones / 2).map(www), lab.args.seed)?;
    let rate = loads::maximum(lab, setup.address, &workload)? * lab.args.load;
    let plan = Plan { workload, rate, address: setup.address };
    let half = (lab.args.seconds / 2.0).max(1.0);
    progress.say(&format!("static, {} QPS", term::rate(rate)));
    let first = plan.load(lab, half, &format!("{}, static", peer.name))?;
    progress.say("members change");
    let (changing, changer) = changing(lab, &plan, &primary, peer)?;
    progress.say("waits for the last change");
    let behind = behind(lab, &mut server, &setup, &changer)?;
    std::thread::sleep(REST);
    progress.say("static again");
    let second = plan.load(lab, half, &format!("{}, static again", peer.name))?;
    note(peer, part, [&first, &changing, &second], behind, rate);
    drop(server);
    _ = std::fs::remove_dir_all(&setup.folder);
    Ok(())
}

/// Starts a secondary and waits until it serves all members.
fn started(lab: &Lab<'_>, peer: &Peer, setup: &Setup, progress: &Progress) -> Result<Server> {
    let names = (0..setup.members).map(www).collect::<Result<_>>()?;
    let mut sweep = Sweep::new(setup.address, names, lab.args.seed)?;
    let begin = Instant::now();
    let mut server = peer.start(setup, &lab.cpus.subject)?;
    sweep.finish(|left| {
        stopped(lab.stop)?;
        server.check()?;
        progress.show(&format!("{left} zones are not served yet"));
        if begin.elapsed() > lab.patience() {
            bail!("{left} zones were not served within {:.0} s", begin.elapsed().as_secs_f64());
        }
        Ok(())
    })?;
    std::thread::sleep(REST);
    Ok(server)
}

/// Changes zones at the primary, evenly over time.
struct Changer {
    added: VecDeque<u32>,
    next_new: u32,
    next_removed: u32,
    next_changed: u32,
    /// The last member that was changed, and its serial.
    last_changed: Option<(u32, u32)>,
    steps: u64,
    /// Steps that came later than a tenth of a second after their time.
    late: u64,
}

impl Changer {
    fn new(zones: u32) -> Self {
        Self {
            added: VecDeque::new(),
            next_new: zones,
            next_removed: zones / 2,
            next_changed: zones / 4,
            last_changed: None,
            steps: 0,
            late: 0,
        }
    }

    /// One change of the catalog, and as many of members.
    fn step(&mut self, primary: &Primary, count: u32, zones: u32, to: SocketAddr) -> Result<()> {
        let added: Vec<_> = (0..count).map(|n| self.next_new + n).collect();
        self.next_new += count;
        // Those of the beginning first, then those that were added.
        let removed = (0..count).filter_map(|_| {
            if self.next_removed < zones {
                self.next_removed += 1;
                return Some(self.next_removed - 1);
            }
            self.added.pop_front()
        });
        let removed: Vec<_> = removed.collect();
        self.added.extend(&added);
        primary.change(|zones| zones.change_catalog(added, removed));
        primary.notify(Which::Catalog, to)?;
        for _ in 0..count {
            let number = self.next_changed;
            self.next_changed += 1;
            if self.next_changed >= zones / 2 {
                self.next_changed = zones / 4;
            }
            let serial = primary.change(|zones| zones.change_member(number));
            self.last_changed = Some((number, serial));
            primary.notify(Which::Member(number), to)?;
        }
        self.steps += 1;
        Ok(())
    }

    fn work(
        mut self,
        lab: &Lab<'_>,
        primary: &Primary,
        to: SocketAddr,
        over: &AtomicBool,
    ) -> Result<Self> {
        let every = Duration::from_secs(1) / STEPS_PER_SECOND;
        let count = lab.args.changes.div_ceil(STEPS_PER_SECOND);
        let mut due = Instant::now();
        while !over.load(Ordering::Relaxed) {
            self.step(primary, count, lab.args.zones, to)?;
            due += every;
            let now = Instant::now();
            self.late += u64::from(now > due + every);
            std::thread::sleep(due.saturating_duration_since(now));
        }
        Ok(self)
    }
}

/// A load while members change.
fn changing(
    lab: &Lab<'_>,
    plan: &Plan,
    primary: &Primary,
    peer: &Peer,
) -> Result<(Loaded, Changer)> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changer = Changer::new(lab.args.zones);
        let changer = scope.spawn(|| changer.work(lab, primary, plan.address, &over));
        let loaded = plan.load(lab, lab.args.seconds, &format!("{}, members change", peer.name));
        over.store(true, Ordering::Relaxed);
        let changer = changer.join().map_err(|_| anyhow::anyhow!("the changes panicked"))??;
        Ok((loaded?, changer))
    })
}

/// How long after the end of the changes the last of them is served.
fn behind(
    lab: &Lab<'_>,
    server: &mut Server,
    setup: &Setup,
    changer: &Changer,
) -> Result<Duration> {
    let begin = Instant::now();
    let mut probe = Probe::new(setup.address)?;
    let newest = www(changer.next_new.saturating_sub(1))?;
    let (number, serial) = changer.last_changed.context("nothing was changed")?;
    let changed = www(number)?;
    let low = serial as u16;
    loop {
        let has_newest = probe.has(&newest, |_| true);
        let has_changed = probe.has(&changed, |address| address == low);
        if has_newest && has_changed {
            break;
        }
        stopped(lab.stop)?;
        server.check()?;
        if begin.elapsed() > lab.patience() {
            let what = if has_newest { &changed } else { &newest };
            bail!(
                "{what} was not as it is at the primary within {:.0} s",
                begin.elapsed().as_secs_f64()
            );
        }
        std::thread::sleep(PAUSE);
    }
    Ok(begin.elapsed())
}

fn note(
    peer: &Peer,
    part: &mut Part,
    [first, changing, second]: [&Loaded; 3],
    behind: Duration,
    rate: f64,
) {
    let mut quiet = first.outcome.tally.response.clone();
    quiet.merge(&second.outcome.tally.response);
    let busy = &changing.outcome.tally.response;
    let at = |of: &Histogram, part| match of.quantile(part) {
        Quantile::Value(nanos) | Quantile::AtLeast(nanos) => Some(nanos as f64),
        Quantile::Empty => None,
    };
    let ratio = at(busy, 0.999).zip(at(&quiet, 0.999)).map(|(busy, quiet)| busy / quiet);
    let lost = first.lost() + changing.lost() + second.lost();
    part.values = vec![
        Some(rate),
        at(&quiet, 0.5),
        at(&quiet, 0.99),
        at(&quiet, 0.999),
        at(busy, 0.5),
        at(busy, 0.99),
        at(busy, 0.999),
        ratio,
        at(busy, 1.0),
        Some(lost as f64),
        Some(behind.as_secs_f64()),
    ];
    let halves = [first, second].map(|of| at(&of.outcome.tally.response, 0.999).unwrap_or(0.0));
    let [before, after] = halves.map(term::nanos);
    part.notes.push(format!(
        "{}: {}; static p99.9 {before} before and {after} after",
        peer.name, peer.version
    ));
    for (name, of) in [("static", first), ("changing", changing)] {
        part.results.push((name, of.result.clone()));
        let reasons = of.outcome.verdict.invalid.iter();
        part.invalid
            .extend(reasons.map(|reason| format!("{name}: the generator was disturbed: {reason}")));
    }
}
