//! The benchmark as an experiment: servers are its arms, cells its conditions, arrangements its stages and
//! repeats its blocks.

use super::cells::{Arrangement, Cell};
use super::configs::Setup;
use super::peers::Peer;
use super::sample::Sample;
use super::{Bench, STARTS};
use crate::child::Server;
use crate::term::Live;
use anyhow::{Context, Result, bail};
use lab_experiment::disturbance::{Again, Machine, Together};
use lab_experiment::{Arm, Design, Measured, Place, Results, Subject};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// A server that runs in an arrangement; ends with the value.
pub(super) struct Running {
    pub(super) name: &'static str,
    pub(super) server: Server,
    /// The upstream, if it is a process of its own.
    pub(super) upstream: Option<Server>,
    pub(super) setup: Setup,
}

/// What a measurement is to be, beside its cell.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub(super) repeat: usize,
    /// How often it was measured before.
    pub(super) attempt: usize,
    /// Half of the highest QPS that this server answered, as far as is known by now.
    pub(super) half: f64,
}

struct Experiment<'b> {
    bench: &'b Bench<'b>,
    /// In the order of the arms.
    peers: Vec<&'b Peer>,
    /// In the order of the conditions.
    cells: Vec<Cell>,
    running: Option<Running>,
    /// The last rate of each server in [`Cell::ManyNames`].
    highest: HashMap<&'static str, f64>,
    live: Live,
    /// Servers started so far and in all, for the line of progress.
    starts: (usize, usize),
}

/// Measures what was asked for; samples are in the order of repeats, servers and cells.
pub(super) fn measure(bench: &Bench<'_>, peers: &[Peer]) -> Result<Vec<Sample>> {
    let fitting = |peer: &Peer| -> Vec<Cell> {
        Arrangement::ALL.into_iter().flat_map(|of| bench.cells(peer, of)).collect()
    };
    let fitting: Vec<(&Peer, Vec<Cell>)> = peers.iter().map(|it| (it, fitting(it))).collect();
    let fitting: Vec<_> = fitting.into_iter().filter(|(_, cells)| !cells.is_empty()).collect();
    if fitting.is_empty() {
        return Ok(Vec::new());
    }
    let named: Vec<_> = fitting.iter().map(|(peer, cells)| (peer.name, &cells[..])).collect();
    let (cells, design) = design(&named, bench.args.repeats, bench.args.seed);
    let mut experiment = Experiment {
        bench,
        peers: fitting.iter().map(|(peer, _)| *peer).collect(),
        cells,
        running: None,
        highest: HashMap::new(),
        live: Live::new(),
        starts: (0, starts(&design)),
    };
    let again = Again { retries: bench.args.retries, together: Together::Held };
    let stop = || bench.stop.load(Ordering::Relaxed);
    let results = lab_experiment::run(&design, &design.plan()?, again, &mut experiment, &stop)?;
    if results.interrupted {
        bail!("interrupted");
    }
    Ok(samples(results, &experiment))
}

/// The cells of any server, and the experiment that measures each server in its own ones.
fn design(servers: &[(&str, &[Cell])], repeats: usize, seed: u64) -> (Vec<Cell>, Design) {
    let wanted = |cell: &Cell| servers.iter().any(|(_, cells)| cells.contains(cell));
    let of = |arrangement| move |cell: &Cell| cell.arrangement() == arrangement;
    let all = Arrangement::ALL.into_iter();
    let cells = all.flat_map(|it| Cell::ALL.into_iter().filter(of(it))).filter(wanted);
    let cells: Vec<Cell> = cells.collect();
    let stages = cells.chunk_by(|one, next| one.arrangement() == next.arrangement());
    let arm = |(name, own): &(&str, &[Cell])| {
        let others = cells.iter().enumerate().filter(|(_, cell)| !own.contains(cell));
        Arm { left_out: others.map(|(at, _)| at).collect(), ..Arm::new(name) }
    };
    let design = Design {
        arms: servers.iter().map(arm).collect(),
        conditions: cells.len(),
        stages: stages.map(<[Cell]>::len).collect(),
        ..Design::of_arms(&[], repeats, seed)
    };
    (cells, design)
}

/// How often servers are started in all.
fn starts(design: &Design) -> usize {
    let stages = design.stages();
    let of = |arm: &Arm| {
        let is_started = |stage: &&std::ops::Range<usize>| {
            (*stage).clone().any(|condition| arm.is_measured(condition))
        };
        stages.iter().filter(is_started).count()
    };
    design.blocks * design.arms.iter().map(of).sum::<usize>()
}

/// What counts, in the order of repeats, servers and cells, whatever the order of time was.
fn samples(results: Results<Sample>, experiment: &Experiment<'_>) -> Vec<Sample> {
    let mut tries = HashMap::<_, usize>::new();
    for record in &results.records {
        *tries.entry((record.arm.clone(), record.block, record.condition)).or_default() += 1;
    }
    let used = results.records.into_iter().filter(|record| record.used);
    let kept = used.map(|record| {
        let place = (record.arm, record.block, record.condition);
        let tries = tries.get(&place).copied().unwrap_or(1);
        Sample { tries, faults: record.faults, ..record.value }
    });
    let mut samples: Vec<Sample> = kept.collect();
    let server = |name| experiment.peers.iter().position(|peer| peer.name == name);
    let cell = |cell| experiment.cells.iter().position(|it| *it == cell);
    samples.sort_by_key(|it| (it.repeat, server(it.server), cell(it.cell)));
    samples
}

impl<'b> Experiment<'b> {
    fn at(&self, place: &Place<'_>) -> Result<(&'b Peer, Cell)> {
        let peer = *self.peers.get(place.index).context("there is no such server")?;
        let cell = self.cells.get(place.unit.condition).context("there is no such cell")?;
        Ok((peer, *cell))
    }

    /// Where it is, for people.
    fn told(&self, place: &Place<'_>) -> Result<String> {
        let (peer, cell) = self.at(place)?;
        let (repeat, all) = (place.unit.block.index + 1, self.bench.args.repeats);
        Ok(format!("repeat {repeat} of {all}: {}, {:?}", peer.name, cell.arrangement()))
    }

    /// Starts a server in an arrangement, with caches that are full where they are to be.
    fn start(&self, peer: &Peer, arrangement: Arrangement) -> Result<Running> {
        let mut started = self.bench.started(peer, arrangement);
        // Another program may have taken a port in the meantime: a run of an hour shall not end for it.
        for _ in 1..STARTS {
            if started.is_ok() || self.bench.stop.load(Ordering::Relaxed) {
                break;
            }
            started = self.bench.started(peer, arrangement);
        }
        let mut running = started?;
        self.bench.warm(arrangement, &mut running)?;
        Ok(running)
    }

    fn end(&mut self) {
        if let Some(Running { server, setup, .. }) = self.running.take() {
            drop(server);
            // Some caches are files as large as they may ever get.
            _ = std::fs::remove_dir_all(&setup.folder);
        }
    }
}

impl Subject for Experiment<'_> {
    type Value = Sample;
    type Error = anyhow::Error;

    /// Servers share their CPUs: each is started for its turn alone.
    fn start(&mut self, _: &Arm, _: usize) -> Result<()> {
        Ok(())
    }

    fn set(&mut self, place: &Place<'_>) -> Result<()> {
        let (peer, cell) = self.at(place)?;
        let told = self.told(place)?;
        self.live.show(self.starts.0 as f64, self.starts.1 as f64, &told);
        self.running = Some(Experiment::start(self, peer, cell.arrangement()).context(told)?);
        Ok(())
    }

    fn measure(&mut self, place: &Place<'_>) -> Result<Option<Measured<Sample>>> {
        let (peer, cell) = self.at(place)?;
        let context = format!("{}: {}", self.told(place)?, cell.name());
        if place.attempt > 0 && cell.fills() {
            Experiment::end(self);
            let again = Experiment::start(self, peer, cell.arrangement());
            self.running = Some(again.with_context(|| context.clone())?);
        }
        let running = self.running.as_ref().context("the server was not started")?;
        let highest = self.highest.get(running.name);
        let half = highest.map_or(self.bench.args.rate, |rate| rate / 2.0);
        let turn = Turn { repeat: place.unit.block.index, attempt: place.attempt, half };
        let machine = Machine::read();
        let sample = self.bench.sample(running, cell, turn).context(context)?;
        let faults = sample.signs(machine.stolen_until(Machine::read())).faults();
        // Of several attempts a good one decides, and if there is none the first.
        if cell == Cell::ManyNames && (place.attempt == 0 || faults.is_empty()) {
            self.highest.insert(sample.server, sample.rate());
        }
        Ok(Some(Measured { value: sample, faults }))
    }

    fn restore(&mut self, _: &Place<'_>) -> Result<()> {
        Experiment::end(self);
        self.starts.0 += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_started_once_for_the_cells_of_an_arrangement_and_only_for_its_own() {
        let all = [Cell::Memory, Cell::ManyNames, Cell::OneName, Cell::Misses];
        let own = [Cell::ManyNames];
        let (cells, design) = design(&[("cache", &all), ("echo", &own)], 3, 1);
        let expected = [Cell::OneName, Cell::ManyNames, Cell::Misses, Cell::Memory];
        assert_eq!(cells, expected);
        assert_eq!((&*design.stages, design.conditions), (&[3, 1][..], 4));
        assert!(design.arms[0].left_out.is_empty());
        assert_eq!(design.arms[1].left_out, [0, 2, 3]);
        assert_eq!(design.plan().unwrap().blocks.len(), 3);
        assert_eq!(starts(&design), 3 * (2 + 1));
    }

    #[test]
    fn every_cell_is_a_condition_of_one_stage() {
        let (cells, design) = design(&[("all", &Cell::ALL)], 1, 1);
        assert_eq!(cells.len(), Cell::ALL.len());
        assert_eq!(design.stages.len(), Arrangement::ALL.len());
        assert!(design.plan().is_ok());
    }
}
