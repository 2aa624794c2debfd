//! Comparison by capacity: each block is a search for the highest rate that meets an objective.
//!
//! Both searches of a pair start at the same rate and draw the queries of their probes from the same
//! seeds. A search that did not run into a limit of its server has no number: at most a bound.

use super::ask::{Asker, Generator};
use super::failed;
use super::measure::{Bench, Phase, nanos, unix};
use super::plan::{CAPACITY, Set};
use super::side::{Instance, Spec};
use crate::{probing, term};
use anyhow::{Context, Result, bail};
use lab_experiment::disturbance::{Fault, Machine, Signs};
use lab_experiment::limit::{Bounds, Search};
use lab_experiment::{Measured, Place};
use lab_load::objective::Objective;
use lab_load::{Config, Outcome};
use lab_result::comparison::{Block, Capacity, CapacityPlan, ComparisonPlan, Known, Load};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

/// Where the first search starts.
const START: f64 = 1_000.0;
/// How many times as many probes the first search has, which starts far away.
const FIRST: usize = 2;
/// A limit that is known no better than within this part is not known well enough for a comparison.
const WIDE: f64 = 0.25;
/// The part of the rate at which the searches start, as the load before.
const WARM: f64 = 0.5;

/// Arguments of a comparison by capacity.
#[derive(clap::Args)]
#[command(next_help_heading = "Comparison by capacity")]
pub(crate) struct CapacityArgs {
    /// Compare the highest rates that meet this objective: p99<5ms,loss<0.1% (also p50, p99.9, max, and
    /// `<=`). Each block is then a search, and its value the rate that it finds.
    #[arg(long, value_name = "LIMITS", conflicts_with_all = ["loads", "rates", "primary", "block", "duet", "self_test"])]
    capacity: Option<Objective>,
    /// End each search after this many probes, even if its interval is not as narrow as
    /// --capacity-precision says.
    #[arg(long, value_name = "N", default_value_t = 20, requires = "capacity")]
    capacity_probes: usize,
    /// How long each probe sends.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = lab_units::seconds, requires = "capacity")]
    capacity_probe: u64,
    /// The lowest rate to try.
    #[arg(long, value_name = "RATE", default_value = "100", value_parser = lab_units::rate, requires = "capacity")]
    capacity_floor: f64,
    /// The highest rate to try.
    #[arg(long, value_name = "RATE", default_value = "10M", value_parser = lab_units::rate, requires = "capacity")]
    capacity_ceiling: f64,
    /// How wide the interval that has a limit with 95 % probability may be.
    #[arg(long, value_name = "PART", default_value = "3%", value_parser = lab_units::part, requires = "capacity")]
    capacity_precision: f64,
}

impl CapacityArgs {
    /// What the parser cannot see.
    pub(super) fn check(&self) -> Result<()> {
        self.plan().map(drop)
    }

    /// The searches, if capacities are compared.
    pub(super) fn plan(&self) -> Result<Option<CapacityPlan>> {
        let Some(objective) = &self.capacity else { return Ok(None) };
        let plan = CapacityPlan {
            objective: objective.to_string(),
            probes: self.capacity_probes,
            probe_ns: self.capacity_probe,
            floor: self.capacity_floor,
            ceiling: self.capacity_ceiling,
            precision: self.capacity_precision,
        };
        let CapacityPlan { floor, ceiling, precision, .. } = plan;
        let sound = floor >= 1.0 && ceiling >= floor && ceiling.is_finite();
        if !sound || plan.probes < 2 || plan.probe_ns < 100_000_000 || precision < 0.005 {
            bail!(
                "expected --capacity-floor of at least 1, --capacity-ceiling not below it, at least 2 \
                 --capacity-probes, --capacity-probe of at least 100ms, --capacity-precision of at least 0.5%"
            );
        }
        Ok(Some(plan))
    }
}

/// What is fixed of the searches, in words.
pub(super) fn rules(plan: &CapacityPlan) -> Vec<String> {
    let CapacityPlan { objective, probes, probe_ns, .. } = plan;
    vec![
        format!(
            "each block is a search for the highest rate that meets {objective}: at most {probes} probes of {}, for \
             both servers of a pair from the same rate and with the same queries",
            term::nanos(*probe_ns as f64)
        ),
        "a search that the generator or the highest rate ended says `at least`, one that missed the objective at \
         the lowest rate `at most`, and neither is a number"
            .to_owned(),
        format!(
            "a pair is also measured again if a search found no limit, or none within {:.0} %; without a limit it is \
             left out",
            WIDE * 100.0
        ),
    ]
}

/// How long a search takes if half of its probes lose queries, for which answers are awaited and a
/// backlog is given time.
pub(super) fn length(plan: &CapacityPlan, timeout: u64) -> u64 {
    let each = plan.probe_ns.saturating_add(nanos(probing::PAUSE));
    let lossy = plan.probe_ns.saturating_add(timeout) / 2;
    each.saturating_add(lossy).saturating_mul(plan.probes as u64)
}

/// The rate of the load before a search.
pub(super) fn warm_rate(plan: &ComparisonPlan, load: &Load) -> f64 {
    if plan.capacity.is_some() { load.rate * WARM } else { load.rate }
}

/// What the two first searches found, with the names of their servers.
type First<'a> = [(&'a str, Capacity); 2];

/// Where searches start: between what the first ones have found.
fn between(plan: &CapacityPlan, found: &First<'_>) -> Result<f64> {
    let [(a, of_a), (b, of_b)] = found;
    let objective = &plan.objective;
    // Of one of them, a disturbance; of both, the pairs would find nothing either, and each takes minutes.
    let is_limit = |found: &Capacity| matches!(found.known(), Some(Known::Is(_)));
    if let Some((server, lost)) = found.iter().find(|(_, found)| found.known().is_none())
        && !found.iter().any(|(_, found)| is_limit(found))
    {
        let why = why_not(lost);
        bail!("capacities cannot be compared: the first search of {server} found none: {why}");
    }
    match (of_a.known(), of_b.known()) {
        (Some(Known::AtLeast(rate)), Some(Known::AtLeast(other))) => bail!(
            "capacities cannot be compared: {objective} is still met at {}/s by {a} and at {}/s by {b}, and the \
             generator, or --capacity-ceiling, goes no higher: more --threads, or a stricter objective",
            term::rate(rate),
            term::rate(other)
        ),
        (Some(Known::AtMost(rate)), Some(Known::AtMost(_))) => bail!(
            "capacities cannot be compared: neither {a} nor {b} meets {objective} at {}/s, the lowest rate tried",
            term::rate(rate)
        ),
        _ => Ok((rate(of_a) * rate(of_b)).sqrt().round()),
    }
}

/// The limit or its bound; without them the highest rate that met the objective.
fn rate(found: &Capacity) -> f64 {
    match found.known() {
        Some(Known::Is(rate) | Known::AtLeast(rate) | Known::AtMost(rate)) => rate,
        None => found.limit.unwrap_or(START),
    }
}

/// A limit for people.
fn told(found: &Capacity) -> String {
    let rate = term::rate(rate(found));
    match found.known() {
        Some(Known::Is(_)) => format!("{rate}/s"),
        Some(Known::AtLeast(_)) => format!("at least {rate}/s"),
        Some(Known::AtMost(_)) => format!("at most {rate}/s"),
        None => format!("an unknown rate ({})", why_not(found)),
    }
}

impl Bench<'_> {
    /// The load of a set: its rate is where all searches start, between what a first search of each server
    /// finds.
    pub(super) fn search_load(
        &mut self,
        plan: &CapacityPlan,
        specs: &[Spec; 2],
        set: &Set,
    ) -> Result<Load> {
        let load = Load { name: plan.objective.clone(), set: set.name.clone(), rate: START };
        let first = CapacityPlan { probes: plan.probes * FIRST, ..plan.clone() };
        let mut found = Vec::new();
        for spec in specs {
            let server = self.starter.start(spec)?;
            found.push((spec.name.as_str(), self.first(&first, &load, server.address)?));
        }
        let found = <First<'_>>::try_from(found).ok().context("expected two servers")?;
        let start = between(plan, &found)?;
        let [(a, of_a), (b, of_b)] = &found;
        let (of_a, of_b, objective) = (told(of_a), told(of_b), &plan.objective);
        term::out(&format!(
            "{}: by a first search {a} meets {objective} up to {of_a}, {b} up to {of_b}; the searches start between",
            set.name
        ));
        Ok(Load { rate: start.clamp(plan.floor, plan.ceiling), ..load })
    }

    /// The first search of a server; again, as often as a pair, if the generator ended it, which may have
    /// been disturbed.
    fn first(&self, plan: &CapacityPlan, load: &Load, server: SocketAddr) -> Result<Capacity> {
        let seed = lab_random::at(self.generator.seed, 43);
        let mut tries = 0;
        loop {
            let found = self.asker().search(plan, load, server, seed)?;
            let found = found.context("interrupted")?.capacity;
            if matches!(&*found.limited_by, "server" | "ceiling") || tries >= self.retries {
                return Ok(found);
            }
            tries += 1;
        }
    }
}

/// What a search brought.
struct Searched {
    capacity: Capacity,
    /// RCODEs of answers that failed, of all probes.
    failures: BTreeMap<String, u64>,
}

impl Generator {
    /// The load of a probe, by its number in a search: at the same rate it is the same for every server.
    fn probe(
        &self,
        server: SocketAddr,
        rate: f64,
        length: Duration,
        (seed, number): (u64, usize),
    ) -> Config {
        let seed = lab_random::at(seed, number as u64);
        self.config(server, rate, length, seed)
    }
}

impl Asker<'_> {
    /// A search; `None` if it was stopped meanwhile.
    fn search(
        &self,
        plan: &CapacityPlan,
        load: &Load,
        server: SocketAddr,
        seed: u64,
    ) -> Result<Option<Searched>> {
        let objective: Objective = plan.objective.parse()?;
        let workload = self.workload(load)?;
        let length = Duration::from_nanos(plan.probe_ns);
        let CapacityPlan { floor, ceiling, precision, .. } = *plan;
        let bounds = Bounds { floor, ceiling, precision, probes_max: plan.probes };
        let mut search = Search::new(bounds, load.rate);
        let (mut probes, mut failures) = (Vec::new(), BTreeMap::<String, u64>::new());
        while let Some(rate) = search.rate() {
            let config = self.generator.probe(server, rate, length, (seed, probes.len()));
            let outcome = lab_load::run(&config, workload, self.stop, |_| {});
            if self.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            if outcome.as_ref().is_ok_and(Outcome::nothing_listens) {
                bail!("nothing listens at {server}: the search ends here");
            }
            for (rcode, count) in outcome.iter().flat_map(failed::of_load) {
                *failures.entry(rcode).or_default() += count;
            }
            let (said, probe) = probing::probe(&objective, rate, outcome)?;
            probing::take(&mut search, said, probe, &mut probes);
            probing::pause(probes.last(), length);
        }
        let found = search.found();
        let capacity = Capacity {
            limit: found.rate,
            interval: found.interval.map(|interval| [interval.low, interval.high]),
            limited_by: probing::limited_by(found.why).to_owned(),
            floor,
            probes,
        };
        Ok(Some(Searched { capacity, failures }))
    }

    /// A search as a block; `None` if it was stopped meanwhile.
    pub(super) fn search_block(
        &self,
        plan: &ComparisonPlan,
        phase: &Phase<'_>,
        place: &Place<'_>,
        server: &mut Instance,
    ) -> Result<Option<Measured<Block>>> {
        let searches = plan.capacity.as_ref().context("the plan has no searches")?;
        let load = plan.loads.get(place.unit.condition).context("there is no such load")?;
        let seed = self.seed(phase, place);
        let (machine, begin, started) = (Machine::read(), Instant::now(), SystemTime::now());
        let found = self.search(searches, load, server.address, seed)?;
        let Some(Searched { capacity: found, failures }) = found else {
            return Ok(None);
        };
        let stolen = machine.stolen_until(Machine::read());
        let invalid = unknown(&found).into_iter().collect();
        let faults: Vec<Fault> = Signs { stolen, invalid, robbed: 0.0 }.faults();
        let lost_of = |sent: u64, part: f64| (sent as f64 * part).round() as u64;
        let sent = found.probes.iter().map(|probe| probe.sent).sum();
        let lost = found.probes.iter().map(|probe| lost_of(probe.sent, probe.loss)).sum();
        server.answers += sent - lost;
        let value = Block {
            phase: phase.name.to_owned(),
            pair: place.unit.block.index,
            set: load.set.clone(),
            load: load.name.clone(),
            rate: load.rate,
            started_unix_ns: unix(started),
            elapsed_ns: nanos(begin.elapsed()),
            sent,
            answered: sent - lost,
            lost,
            failures,
            answers_so_far: server.answers,
            incarnation: server.incarnation,
            capacity: Some(found),
            ..Block::default()
        };
        Ok(Some(Measured { value, faults }))
    }
}

/// Why a search says too little for a comparison, if so.
fn unknown(found: &Capacity) -> Option<String> {
    let Some(known) = found.known() else { return Some(why_not(found)) };
    let [low, high] = found.interval.filter(|_| matches!(known, Known::Is(_)))?;
    let wide = high / low > 1.0 + WIDE;
    wide.then(|| {
        let (low, high, probes) = (term::rate(low), term::rate(high), found.probes.len());
        let probes = term::of(probes, "probe");
        format!("{probes} did not enclose the limit, which is between {low}/s and {high}/s: more --capacity-probes")
    })
}

/// Why a search has no limit and no bound.
fn why_not(found: &Capacity) -> String {
    let invalid = found.probes.iter().rev().find(|probe| probe.said == "invalid");
    let reason = invalid.and_then(|probe| probe.because.first()).map(String::as_str);
    match (&*found.limited_by, reason) {
        ("probes", None) => format!(
            "all {} were taken before the {CAPACITY} was enclosed: more --capacity-probes",
            term::of(found.probes.len(), "probe")
        ),
        (_, reason) => {
            format!(
                "the search found no limit, probes were INVALID: {}",
                reason.unwrap_or("unknown")
            )
        }
    }
}

#[cfg(test)]
mod tests;
