//! Differences of a large zone (RFC 1995): octets and time of each at a secondary, and what very many of
//! them leave in its memory.

use super::probe::stopped;
use super::servers::Peer;
use super::sheet::{Part, Sheet, Unit};
use super::started::{Secondary, await_address};
use super::zones::{Which, Zones, name_of_large};
use super::{Lab, Progress, experiment};
use crate::child::free_address;
use crate::term;
use anyhow::Result;
use std::time::{Duration, Instant};

/// Records that each change takes away and gives.
const CHANGES: u32 = 5;
/// Changes that are timed one by one.
const TIMED: u32 = 10;
/// Between two of them: some secondaries ask at most once in two seconds.
const PAUSE: Duration = Duration::from_millis(2_500);
/// Between two changes where only what they leave counts.
const QUICK: Duration = Duration::from_millis(20);

pub(super) fn run(lab: &Lab<'_>) -> Result<Sheet> {
    let columns = [
        ("whole", "AXFR", Unit::Octets),
        ("ixfr", "IXFR", Unit::Octets),
        ("time", "until served, median", Unit::Nanos),
        ("worst", "worst", Unit::Nanos),
        ("cpu", "CPU of one, mean", Unit::Nanos),
        ("before", "memory", Unit::Octets),
        ("after", "memory afterwards", Unit::Octets),
    ];
    let (records, count) = (lab.args.records, lab.args.differences);
    let title = format!(
        "IXFR of {} changes in a zone of {} records, and memory after {} of them",
        2 * CHANGES,
        term::count(records.into()),
        term::count(count.into())
    );
    let mut sheet = Sheet::new("ixfr", title, &columns);
    experiment::run(lab, lab.peers.iter().collect(), &mut sheet, one)?;
    sheet.notes.push("octets are those that the primary sent, without TCP; the time is from the change, which is notified at once, to the first answer with it".to_owned());
    Ok(sheet)
}

fn one(lab: &Lab<'_>, peer: &Peer, part: &mut Part) -> Result<()> {
    let progress = Progress::new(peer.name);
    let zones = Zones::new(0, lab.args.records, CHANGES);
    let place = (free_address()?, Vec::new());
    let mut all = Secondary::start(lab, peer, zones, place, &progress)?;
    let (_, whole) = all.primary.transfers();
    std::thread::sleep(PAUSE);
    let (begun, cpu) = (all.primary.transfers(), all.server.account()?.ran);
    let mut times = Vec::new();
    progress.say("gets one difference after the other");
    for _ in 0..TIMED {
        times.push(changed(lab, &mut all, &progress)?);
        std::thread::sleep(PAUSE);
    }
    let (ended, cpu) = (all.primary.transfers(), all.server.account()?.ran.saturating_sub(cpu));
    let transfers = ended.0.saturating_sub(begun.0).max(1);
    let octets = ended.1.saturating_sub(begun.1) / transfers;
    let before = all.server.proportional();
    progress.say("gets many differences");
    for _ in 0..lab.args.differences {
        stopped(lab.stop)?;
        all.primary.change(Zones::change_large);
        all.primary.notify(Which::Large, all.setup.address)?;
        std::thread::sleep(QUICK);
    }
    changed(lab, &mut all, &progress)?;
    std::thread::sleep(PAUSE);
    let after = all.server.proportional();
    let many = all.primary.transfers().0.saturating_sub(ended.0);
    times.sort();
    let number = |value: Option<u64>| value.map(|value| value as f64);
    let nanos = |time: Option<&Duration>| time.map(|time| time.as_nanos() as f64);
    part.values = vec![
        Some(whole as f64),
        Some(octets as f64),
        nanos(times.get(times.len() / 2)),
        nanos(times.last()),
        nanos(Some(&(cpu / TIMED))),
        number(before),
        number(after),
    ];
    part.notes.push(format!(
        "{}: {}; {transfers} transfers for {TIMED} changes, {} for the others",
        peer.name,
        peer.version,
        term::count(many)
    ));
    Ok(())
}

/// Changes the zone, says so, and waits until the secondary answers with that.
fn changed(lab: &Lab<'_>, all: &mut Secondary, progress: &Progress) -> Result<Duration> {
    let begin = Instant::now();
    let serial = all.primary.change(Zones::change_large);
    all.primary.notify(Which::Large, all.setup.address)?;
    let name = name_of_large(0)?;
    let wanted = (&name, Some(serial as u16));
    await_address(lab, &mut all.server, all.setup.address, wanted, progress)?;
    Ok(begin.elapsed())
}
