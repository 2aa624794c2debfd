//! The comparison as an experiment: generators are its arms, cells on a route its conditions, and repeats
//! its blocks.

use super::{Bench, Cell, Route, Sample, Tool};
use crate::term::Live;
use anyhow::{Context, Result, bail};
use lab_experiment::disturbance::{Again, Machine, STOLEN_MAX, Signs, Together};
use lab_experiment::{Arm, Design, Measured, Place, Subject, Unit};
use std::sync::atomic::Ordering;

/// Decides the order, which is the same in each run.
const SEED: u64 = 1;
const CELLS: [Cell; 3] = [Cell::Maximum, Cell::Pacing, Cell::Floor];

struct Generators<'b> {
    bench: &'b Bench<'b>,
    tools: &'b [Tool],
    conditions: Vec<(Route, Cell)>,
    notes: &'b mut Vec<String>,
    live: Live,
    /// Repeats of conditions that are done, and all.
    done: (usize, usize),
}

/// Measures every generator where it can be; one that fails is left out from then on, with a note.
pub(super) fn measure(
    bench: &Bench<'_>,
    tools: &[Tool],
    notes: &mut Vec<String>,
) -> Result<Vec<Sample>> {
    let routes: &[Route] = match bench.network {
        Some(_) => &[Route::Loopback, Route::Veth],
        None => &[Route::Loopback],
    };
    let (conditions, design) = design(tools, routes, bench.args.repeats);
    let again = Again { retries: bench.args.retries, together: Together::Single };
    let done = (0, design.blocks * design.conditions);
    let live = Live::new();
    let mut generators = Generators { bench, tools, conditions, notes, live, done };
    let stop = || bench.stop.load(Ordering::Relaxed);
    let plan = design.plan()?;
    let results = lab_experiment::run(&design, &plan, again, &mut generators, &stop)?;
    if results.interrupted {
        bail!("interrupted");
    }
    let disturbed = results.disturbed().count();
    let used: Vec<_> = results.records.into_iter().filter(|record| record.used).collect();
    if disturbed > 0 {
        let (all, most) = (used.len(), STOLEN_MAX * 100.0);
        notes.push(format!(
            "in {disturbed} of {all} measurements the hypervisor took more than {most:.0} % of the CPU time"
        ));
    }
    Ok(used.into_iter().map(|record| record.value).collect())
}

/// The cells of each route, and the experiment that measures each generator where it can be.
fn design(tools: &[Tool], routes: &[Route], repeats: usize) -> (Vec<(Route, Cell)>, Design) {
    let on = |route: &Route| CELLS.map(|cell| (*route, cell));
    let conditions: Vec<(Route, Cell)> = routes.iter().flat_map(on).collect();
    let arm = |tool: &Tool| {
        let all = conditions.iter().enumerate();
        let cannot = all.filter(|(_, (route, cell))| !tool.can(*cell, *route));
        Arm { left_out: cannot.map(|(at, _)| at).collect(), ..Arm::new(tool.name) }
    };
    let arms = tools.iter().map(arm).collect();
    let of_arms = Design::of_arms(&[], repeats, SEED);
    let design = Design { arms, conditions: conditions.len(), ..of_arms };
    (conditions, design)
}

impl Subject for Generators<'_> {
    type Value = Sample;
    type Error = anyhow::Error;

    /// Generators run for a measurement each, and so do the echoes that count for them.
    fn start(&mut self, _: &Arm, _: usize) -> Result<()> {
        Ok(())
    }

    fn set(&mut self, _: &Place<'_>) -> Result<()> {
        Ok(())
    }

    fn measure(&mut self, place: &Place<'_>) -> Result<Option<Measured<Sample>>> {
        let tool = self.tools.get(place.index).context("there is no such generator")?;
        let condition = self.conditions.get(place.unit.condition);
        let (route, cell) = *condition.context("there is no such cell")?;
        let text = format!("{}, {route:?}, {cell:?}", tool.name);
        self.live.show(self.done.0 as f64, self.done.1 as f64, &text);
        let machine = Machine::read();
        let sample = self.bench.sample(tool, route, cell)?;
        // What a generator says of its own work is no sign: most say nothing.
        let stolen = machine.stolen_until(Machine::read());
        let faults = Signs { stolen, ..Signs::default() }.faults();
        Ok(Some(Measured { value: sample, faults }))
    }

    fn restore(&mut self, _: &Place<'_>) -> Result<()> {
        Ok(())
    }

    fn failed(&mut self, arm: &Arm, error: anyhow::Error) -> Result<()> {
        if self.bench.stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        self.notes.push(format!("{} failed: {error:#}", arm.name));
        Ok(())
    }

    fn passed(&mut self, _: &Unit<'_>) {
        self.done.0 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_generator_is_measured_where_it_can_be_and_nowhere_else() {
        let (tools, _) = super::super::tools::find(false);
        let routes = [Route::Loopback, Route::Veth];
        let (conditions, design) = design(&tools, &routes, 2);
        assert_eq!(conditions.len(), 6);
        assert_eq!(conditions[3], (Route::Veth, Cell::Maximum));
        let of = |name: &str| design.arms.iter().find(|arm| arm.name == name).unwrap();
        assert!(of("nodens-lab").left_out.is_empty());
        // Asleep or not is no question at the highest rate.
        assert_eq!(of("nodens-lab --idle sleep").left_out, [0, 3]);
        assert_eq!(design.plan().unwrap().blocks.len(), 2);
    }
}
