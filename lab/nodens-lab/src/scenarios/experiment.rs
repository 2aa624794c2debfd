//! A scenario as an experiment: servers are its arms, and there is one block.

use super::Lab;
use super::servers::Peer;
use super::sheet::{Part, Sheet};
use anyhow::{Context, Result, bail};
use lab_experiment::disturbance::{Again, Machine, Signs, Together};
use lab_experiment::{Arm, Design, Measured, Place, Results, Subject};
use lab_result::ResultFile;
use std::sync::atomic::Ordering;

/// The measurement of one server, from its start to its end.
pub(super) trait One: FnMut(&Lab<'_>, &Peer, &mut Part) -> Result<()> {}

impl<F: FnMut(&Lab<'_>, &Peer, &mut Part) -> Result<()>> One for F {}

struct Servers<'l, F> {
    lab: &'l Lab<'l>,
    peers: Vec<&'l Peer>,
    one: F,
    /// Of servers that failed: what was noted until then, and why.
    failed: Vec<(&'static str, Part)>,
}

/// Measures every server and puts what counts into the sheet, in the order of the servers. One that
/// fails has an empty row and a note.
pub(super) fn run(
    lab: &Lab<'_>,
    peers: Vec<&Peer>,
    sheet: &mut Sheet,
    one: impl One,
) -> Result<()> {
    if peers.is_empty() {
        return Ok(());
    }
    let names: Vec<&'static str> = peers.iter().map(|peer| peer.name).collect();
    let design = Design::of_arms(&names, 1, lab.args.seed);
    let again = Again { retries: lab.args.retries, together: Together::Single };
    let stop = || lab.stop.load(Ordering::Relaxed);
    let mut servers = Servers { lab, peers, one, failed: Vec::new() };
    let plan = design.plan()?;
    let results = lab_experiment::run(&design, &plan, again, &mut servers, &stop)?;
    let is_interrupted = results.interrupted || stop();
    let failed = servers.failed;
    for (name, part) in in_order(&names, results, failed) {
        write(lab, &format!("{}-{name}", sheet.scenario()), &part.results)?;
        sheet.take(name, part);
    }
    if is_interrupted {
        // What was measured until then may have taken minutes.
        if sheet.has_values() {
            sheet.print();
        }
        bail!("interrupted");
    }
    Ok(())
}

/// Writes the results of the loads of a server, and one page of them.
fn write(lab: &Lab<'_>, prefix: &str, results: &[(&str, ResultFile)]) -> Result<()> {
    if results.is_empty() {
        return Ok(());
    }
    std::fs::create_dir_all(&lab.args.out)?;
    let mut sources = Vec::new();
    for (name, result) in results {
        let path = lab.args.out.join(format!("{prefix}-{name}.json"));
        lab_result::write(&path, result)?;
        sources.push(lab_report::read(&path)?);
    }
    crate::report::write(&lab.args.out.join(format!("{prefix}.html")), &sources, None)
}

/// What counts of each server, with the reasons why it is disturbed.
fn in_order(
    servers: &[&'static str],
    results: Results<Part>,
    failed: Vec<(&'static str, Part)>,
) -> Vec<(&'static str, Part)> {
    let used = results.records.into_iter().filter(|record| record.used);
    let mut parts: Vec<(usize, Part)> = Vec::new();
    let at = |name: &str| servers.iter().position(|it| *it == name).unwrap_or(servers.len());
    for record in used {
        let mut part = record.value;
        let noted = record.faults.iter().map(|fault| format!("{}, {fault}", record.arm));
        part.notes.extend(noted);
        parts.push((at(&record.arm), part));
    }
    for (name, part) in failed {
        // One that failed when it was measured again has a row already.
        match parts.iter_mut().find(|(of, _)| *of == at(name)) {
            Some((_, kept)) => kept.notes.extend(part.notes),
            None => parts.push((at(name), part)),
        }
    }
    parts.sort_by_key(|(at, _)| *at);
    let named = |(at, part): (usize, Part)| servers.get(at).map(|name| (*name, part));
    parts.into_iter().filter_map(named).collect()
}

impl<F: One> Subject for Servers<'_, F> {
    type Value = Part;
    type Error = anyhow::Error;

    /// Servers have the same CPUs: each is started for its turn alone, for that is what some scenarios measure.
    fn start(&mut self, _: &Arm, _: usize) -> Result<()> {
        Ok(())
    }

    fn set(&mut self, _: &Place<'_>) -> Result<()> {
        Ok(())
    }

    fn measure(&mut self, place: &Place<'_>) -> Result<Option<Measured<Part>>> {
        let peer = *self.peers.get(place.index).context("there is no such server")?;
        let (mut part, machine) = (Part::default(), Machine::read());
        if let Err(error) = (self.one)(self.lab, peer, &mut part) {
            let notes = std::mem::take(&mut part.notes);
            self.failed.push((peer.name, Part { notes, ..Part::default() }));
            return Err(error);
        }
        let stolen = machine.stolen_until(Machine::read());
        let faults = Signs { stolen, robbed: 0.0, invalid: part.invalid.clone() }.faults();
        Ok(Some(Measured { value: part, faults }))
    }

    fn restore(&mut self, _: &Place<'_>) -> Result<()> {
        Ok(())
    }

    fn failed(&mut self, arm: &Arm, error: anyhow::Error) -> Result<()> {
        // Also when it was interrupted: what was measured of the others counts.
        if let Some((_, part)) = self.failed.last_mut() {
            part.notes.push(format!("{}: {error:#}", arm.name));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Scratch;
    use crate::scenarios::probe::stopped;
    use crate::scenarios::sheet::Unit;
    use crate::scenarios::{Args, servers};
    use clap::Parser;
    use lab_experiment::Record;
    use lab_experiment::disturbance::Fault;
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    fn record(arm: &str, turn: usize, faults: Vec<Fault>) -> Record<Part> {
        let value = Part { notes: vec![format!("{arm} ran")], ..Part::default() };
        let (block, condition, attempt, used) = (0, Some(0), 0, true);
        Record { arm: arm.to_owned(), block, condition, turn, attempt, used, faults, value }
    }

    fn failed(name: &'static str) -> (&'static str, Part) {
        (name, Part { notes: vec![format!("{name}: gone")], ..Part::default() })
    }

    #[test]
    fn servers_are_in_their_order_with_what_disturbed_them_and_each_once() {
        let disturbed = vec![Fault::invalid("late")];
        let records = vec![record("nsd", 0, disturbed), record("bind", 1, Vec::new())];
        let results = Results { records, interrupted: false, enough: false };
        let failures = vec![failed("bind"), failed("knot")];
        let parts = in_order(&["bind", "knot", "nsd"], results, failures);
        let told: Vec<_> =
            parts.iter().map(|(name, part)| (*name, part.notes.join("; "))).collect();
        let told: Vec<_> = told.iter().map(|(name, notes)| (*name, notes.as_str())).collect();
        let expected = [
            ("bind", "bind ran; bind: gone"),
            ("knot", "knot: gone"),
            ("nsd", "nsd ran; nsd, late"),
        ];
        assert_eq!(told, expected);
    }

    /// Runs a scenario on two servers and interrupts it during the second: why it ended, and what it has of each.
    fn interrupted(then: impl Fn(&Lab<'_>) -> Result<()>) -> (String, Vec<Option<f64>>) {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            args: Args,
        }
        let Cli { args } = Cli::parse_from(["lab", "catalog-start"]);
        let nodens = || servers::find(&["nodens".to_owned()], Some(Path::new("/bin/true")));
        let (mut peers, (others, _)) = (nodens().unwrap().0, nodens().unwrap());
        peers.extend(others);
        peers.last_mut().unwrap().name = "knot";
        let (stop, cpus, scratch) =
            (AtomicBool::new(false), super::super::cpus().unwrap(), Scratch::new().unwrap());
        let lab = Lab { args: &args, stop: &stop, cpus, peers: &peers, scratch };
        let mut sheet = Sheet::new("catalog-start", String::new(), &[("n", "n", Unit::Count)]);
        let one = |lab: &Lab<'_>, peer: &Peer, part: &mut Part| {
            part.values = vec![Some(1.0)];
            if peer.name == "knot" {
                lab.stop.store(true, Ordering::Relaxed);
                then(lab)?;
            }
            Ok(())
        };
        let error = run(&lab, peers.iter().collect(), &mut sheet, one).unwrap_err();
        assert!(sheet.has_values());
        (error.to_string(), sheet.column(0))
    }

    #[test]
    fn what_was_measured_before_an_interrupt_is_told() {
        let told = interrupted(|lab| stopped(lab.stop));
        assert_eq!(told, ("interrupted".to_owned(), vec![Some(1.0), None]));
        // It may come with the end of the last one.
        let told = interrupted(|_| Ok(()));
        assert_eq!(told, ("interrupted".to_owned(), vec![Some(1.0), Some(1.0)]));
    }
}
