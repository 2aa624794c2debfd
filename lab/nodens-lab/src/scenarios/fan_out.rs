//! From a change at the primary until every one of many secondaries has it.

use super::probe::stopped;
use super::readers::Readers;
use super::servers::Peer;
use super::sheet::{Part, Sheet, Unit};
use super::started::Secondary;
use super::zones::{LARGE, Which, Zones};
use super::{Lab, Progress, experiment};
use crate::child::free_address;
use crate::term;
use anyhow::{Result, bail};
use nodens_wire::Name;
use std::time::{Duration, Instant};

/// Records that each change takes away and gives.
const CHANGES: u32 = 5;
const ROUNDS: usize = 5;
/// Between two changes: Nodens notifies at most once in five seconds.
const PAUSE: Duration = Duration::from_secs(7);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(1);

pub(super) fn run(lab: &Lab<'_>) -> Result<Sheet> {
    let columns = [
        ("median", "until all have it, median", Unit::Nanos),
        ("best", "best", Unit::Nanos),
        ("worst", "worst", Unit::Nanos),
    ];
    let (records, count) = (lab.args.records, lab.args.secondaries);
    let title = format!(
        "One change in a zone of {} records until each of {count} secondaries has it",
        term::count(records.into())
    );
    let mut sheet = Sheet::new("fan-out", title, &columns);
    experiment::run(lab, lab.peers.iter().collect(), &mut sheet, one)?;
    sheet.notes.push("the lab notifies the server, which transfers the differences and notifies the secondaries; these are parts of the lab, ask for the differences at once and keep no records".to_owned());
    Ok(sheet)
}

fn one(lab: &Lab<'_>, peer: &Peer, part: &mut Part) -> Result<()> {
    let progress = Progress::new(peer.name);
    let address = free_address()?;
    let readers = Readers::start(lab.args.secondaries, address, &Name::parse(LARGE)?, 1)?;
    let zones = Zones::new(0, lab.args.records, CHANGES);
    let place = (address, readers.addresses.clone());
    let mut all = Secondary::start(lab, peer, zones, place, &progress)?;
    let mut times = Vec::new();
    for round in 1..=ROUNDS {
        std::thread::sleep(PAUSE);
        let begin = Instant::now();
        let serial = all.primary.change(Zones::change_large);
        all.primary.notify(Which::Large, address)?;
        let had = loop {
            if let Some(had) = readers.all_have(serial) {
                break had;
            }
            stopped(lab.stop)?;
            all.server.check()?;
            progress.show(&format!("change {round}: {} have it", readers.count(serial)));
            if begin.elapsed() > lab.patience() {
                bail!("only {} secondaries had a change in time", readers.count(serial));
            }
            std::thread::sleep(LOOK);
        };
        times.push(had.saturating_duration_since(begin));
    }
    times.sort();
    let nanos = |time: Option<&Duration>| time.map(|time| time.as_nanos() as f64);
    let (median, best, worst) = (times.get(ROUNDS / 2), times.first(), times.last());
    part.values = [median, best, worst].map(nanos).to_vec();
    part.notes.push(format!("{}: {}", peer.name, peer.version));
    Ok(())
}
