//! The rounds: two arms on the engine of `lab-experiment`. An arm is an image, set by rolling it out; a condition
//! is a load, and all of a round have the same pods.

use super::ending::Ending;
use super::load::{Loaded, Loader};
use crate::ab::plan::Metric;
use crate::term::Live;
use anyhow::{Context, Result, bail};
use lab_experiment::disturbance::{Again, Fault, Signs, Together};
use lab_experiment::{Arm, Design, Measured, Place, Record, Subject, Unit};
use lab_result::comparison::{Block, Cell, ComparisonPlan, Load, Rollout, Usage};
use lab_swap::{Api, Pod, Turns, Workload};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How often a rollout is looked at.
const LOOK: Duration = Duration::from_millis(300);

/// What is exchanged.
pub(super) struct Exchange<'a> {
    pub(super) cluster: &'a dyn Api,
    pub(super) workload: &'a Workload,
    pub(super) container: &'a str,
    /// What changes image and mark.
    pub(super) turns: &'a Turns<'a>,
    pub(super) settle: Duration,
    pub(super) rollout_max: Duration,
}

/// Both images with their marks: two each, so that the same image twice in a row has pods of its own each
/// time, and no more, because each is a ReplicaSet.
pub(super) fn pairs([a, b]: &[String; 2]) -> [(&str, &str); 4] {
    [(a, 0, 0), (a, 0, 1), (b, 1, 0), (b, 1, 1)]
        .map(|(image, at, turn)| (image.as_str(), mark(at, turn)))
}

/// The mark that belongs to the image of index `image`.
fn mark(image: usize, turn: usize) -> &'static str {
    match (image, turn % 2) {
        (0, 0) => "a1",
        (0, _) => "a2",
        (_, 0) => "b1",
        _ => "b2",
    }
}

/// All rounds of a phase.
pub(super) struct Phase {
    /// `noise` or `comparison`.
    pub(super) name: &'static str,
    /// Which of the images each arm is.
    pub(super) images: [usize; 2],
    pub(super) rounds: usize,
    pub(super) seed: u64,
    pub(super) salt: u64,
}

/// What was measured so far.
#[derive(Default)]
pub(super) struct Kept {
    /// Of both phases, in the order of time.
    pub(super) blocks: Vec<Block>,
    pub(super) usage: Vec<Usage>,
    pub(super) rollouts: Vec<Rollout>,
    pub(super) digests: [BTreeSet<String>; 2],
    pub(super) notes: BTreeSet<String>,
}

/// The rounds, for the engine.
pub(super) struct Rounds<'r, 'a> {
    pub(super) exchange: &'r Exchange<'a>,
    pub(super) loader: &'r mut Loader<'a>,
    pub(super) plan: &'r ComparisonPlan,
    pub(super) images: &'r [String; 2],
    pub(super) phase: &'r Phase,
    pub(super) retries: usize,
    pub(super) kept: &'r mut Kept,
    pub(super) live: &'r Live,
    pub(super) done: &'r mut (usize, usize),
    /// Whether to stop; an error if the run is no longer ours.
    pub(super) stop: &'r dyn Fn() -> Result<bool>,
    /// Of the arm that is measured.
    pub(super) pods: Vec<Pod>,
    /// Rollouts so far, for the marks.
    pub(super) turn: usize,
}

/// All rounds of a phase, into what is kept; ends early when it is stopped, or with the first error.
pub(super) fn run(rounds: &mut Rounds<'_, '_>) -> Result<()> {
    if rounds.phase.rounds == 0 {
        return Ok(());
    }
    let design = design(rounds.phase, rounds.plan.loads.len());
    let plan = design.plan()?;
    // A load is measured again with the same pods, not a round with new ones.
    let again = Again { retries: rounds.retries, together: Together::Held };
    let stop = rounds.stop;
    let mut ending = Ending { subject: rounds, failed: None };
    let results =
        lab_experiment::run(&design, &plan, again, &mut ending, &|| stop().unwrap_or(true))?;
    let failed = ending.failed;
    rounds.kept.blocks.extend(results.records.into_iter().map(kept));
    // The engine knows no errors of `stop`: rounds that ended for one are not all there are. What failed
    // because it was stopped has not failed.
    match failed {
        Some(error) if !stop()? => Err(error),
        _ => stop().map(|_| ()),
    }
}

/// Both arms of each round have all loads, one after the other, on the pods of one rollout.
fn design(phase: &Phase, loads: usize) -> Design {
    Design {
        group_blocks: phase.rounds,
        conditions: loads,
        stages: vec![loads],
        ..crate::ab::plan::design(phase.rounds, phase.seed)
    }
}

/// A block as the result file has it. It knows its own faults: those of the engine lack late queries.
fn kept(record: Record<Block>) -> Block {
    let Record { arm, block, turn, attempt, used, value, .. } = record;
    Block { pair: block, first: turn == 0, side: arm, attempt, used, ..value }
}

impl Subject for Rounds<'_, '_> {
    type Value = Block;
    type Error = anyhow::Error;

    fn start(&mut self, _: &Arm, _: usize) -> Result<()> {
        Ok(())
    }

    fn set(&mut self, place: &Place<'_>) -> Result<()> {
        let image = *self.phase.images.get(place.index).context("there is no such arm")?;
        let name = self.images.get(image).context("there is no such image")?;
        let begun = Instant::now();
        self.turn += 1;
        let mark = mark(image, self.turn);
        self.pods = match roll_out(self.exchange, name, mark, self.stop)? {
            Some(pods) => pods,
            // The measurement sees the same and ends.
            None => return Ok(()),
        };
        if let Some(digests) = self.kept.digests.get_mut(image) {
            let of = self.pods.iter().map(|pod| pod.image_id.clone());
            digests.extend(of.filter(|id| !id.is_empty()));
        }
        self.kept.rollouts.push(Rollout {
            phase: self.phase.name.to_owned(),
            pair: 0,
            side: String::new(),
            pods: self.pods.len(),
            elapsed_ns: u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX),
        });
        let settled = Instant::now() + self.exchange.settle;
        while Instant::now() < settled && !(self.stop)()? {
            std::thread::sleep(LOOK.min(self.exchange.settle));
        }
        Ok(())
    }

    fn measure(&mut self, place: &Place<'_>) -> Result<Option<Measured<Block>>> {
        if (self.stop)()? {
            return Ok(None);
        }
        if let Some(rollout) = self.kept.rollouts.last_mut() {
            (rollout.pair, rollout.side) = (place.unit.block.index, place.arm.name.clone());
        }
        let load = self.plan.loads.get(place.unit.condition).context("there is no such load")?;
        self.measured(load, place)
    }

    /// The next arm takes the place of this one; [`super::run`] puts the workload back after the last.
    fn restore(&mut self, _: &Place<'_>) -> Result<()> {
        Ok(())
    }

    fn passed(&mut self, unit: &Unit<'_>) {
        if unit.condition + 1 < self.plan.loads.len() {
            return;
        }
        self.done.0 += 1;
        let (done, all) = *self.done;
        let text = format!("{}: round {done} of {all}", self.phase.name);
        self.live.show(done as f64, all as f64, &text);
    }
}

impl Rounds<'_, '_> {
    /// One load on the pods of an arm; `None` if it was stopped.
    fn measured(&mut self, load: &Load, place: &Place<'_>) -> Result<Option<Measured<Block>>> {
        let pair = place.unit.block.index;
        let seed = lab_random::at(self.plan.seed ^ self.phase.salt, pair as u64);
        let stop = || (self.stop)().unwrap_or(true);
        match present(self.exchange, &self.pods, self.stop)? {
            Some(pods) => self.pods = pods,
            None => return Ok(None),
        }
        let Some(loaded) = self.loader.run(load, seed, &self.pods, &stop)? else {
            (self.stop)()?;
            return Ok(None);
        };
        let restarts = restarts(&self.pods, &pods(self.exchange)?);
        let mut usage = usage(&loaded, &self.pods);
        (usage.phase, usage.pair, usage.side) =
            (self.phase.name.to_owned(), pair, place.arm.name.clone());
        (usage.set, usage.load) = (load.set.clone(), load.name.clone());
        (usage.attempt, usage.restarts) = (place.attempt, restarts);
        self.notes(&loaded, &usage);
        let is_blind = is_blind(&self.plan.primary, load, &usage);
        let Loaded { result, .. } = loaded;
        let own = faults_of_pods(restarts, is_blind);
        // What left late is no reason to measure again: CPU and memory are all the same.
        let only_late = result.verdict.only_late && own.is_empty();
        let invalid = result.verdict.invalid_because.into_iter().chain(own).collect();
        let faults = Signs { invalid, ..Signs::default() }.faults();
        let counts = &result.counts;
        let elapsed = result.run.active_ns;
        let block = Block {
            phase: self.phase.name.to_owned(),
            set: load.set.clone(),
            load: load.name.clone(),
            rate: load.rate,
            faults: faults.iter().map(Fault::to_string).collect(),
            only_late,
            started_unix_ns: result.run.started_unix_ns,
            elapsed_ns: elapsed,
            sent: counts.sent,
            answered: counts.answered,
            lost: counts.timed_out + counts.refused + counts.connection_failed,
            failures: crate::ab::failed::of(result.rcodes.into_iter()),
            plan: result.plan.hash.clone(),
            response: result.response,
            cpu_ns: usage.millicores.map(|milli| (milli * 1e-3 * elapsed as f64) as u64),
            memory: usage.rss.filter(|octets| *octets > 0),
            incarnation: self.turn,
            ..Block::default()
        };
        self.kept.usage.push(usage);
        let faults = if only_late { Vec::new() } else { faults };
        Ok(Some(Measured { value: block, faults }))
    }

    fn notes(&mut self, loaded: &Loaded, usage: &Usage) {
        for silent in &loaded.silent {
            self.kept.notes.insert(format!("the kubelet of {silent}"));
        }
        if usage.millicores.is_none() && loaded.silent.is_empty() {
            let text = "a load had fewer than two readings of a kubelet within it: a longer --length has more";
            self.kept.notes.insert(text.to_owned());
        }
    }
}

/// Whether what decides was not measured. A kubelet that could not be asked once is no excuse.
fn is_blind(primary: &Cell, load: &Load, usage: &Usage) -> bool {
    needs_counters(primary, load) && usage.millicores.is_none()
}

/// Whether what decides is measured at this load, by counters of containers.
fn needs_counters(primary: &Cell, load: &Load) -> bool {
    let by_counters = matches!(Metric::of(&primary.metric), Some(Metric::Cpu | Metric::Memory));
    by_counters && primary.set == load.set && primary.load == load.name
}

/// Why a load says nothing about the pods that it was sent to.
fn faults_of_pods(restarts: u64, is_blind: bool) -> Vec<String> {
    let started =
        (restarts > 0).then(|| format!("{restarts} containers were started again during the load"));
    let text =
        "fewer than two readings of a kubelet lie within the load: a longer --length has more";
    started.into_iter().chain(is_blind.then(|| text.to_owned())).collect()
}

/// What the containers used within the load.
fn usage(loaded: &Loaded, pods: &[Pod]) -> Usage {
    let run = &loaded.result.run;
    let from = (run.started_unix_ns / 1_000_000) as i64;
    let to = ((run.started_unix_ns + run.active_ns) / 1_000_000) as i64;
    let containers: Vec<&str> = pods.iter().map(|pod| pod.container.as_str()).collect();
    let Some(used) = loaded.readings.used(&containers, from, to) else {
        return Usage::default();
    };
    Usage {
        millicores: Some(used.cpu * 1e3),
        throttled_ms: Some(used.throttled * 1e3),
        throttled_periods: Some(used.throttled_periods),
        rss: Some(used.rss),
        working_set: Some(used.working_set),
        readings: used.readings,
        seconds: used.seconds,
        ..Usage::default()
    }
}

/// Rolls an image out and waits until it is all there is; `None` if it was stopped.
fn roll_out(
    exchange: &Exchange<'_>,
    image: &str,
    mark: &str,
    stop: &dyn Fn() -> Result<bool>,
) -> Result<Option<Vec<Pod>>> {
    if stop()? {
        return Ok(None);
    }
    exchange.turns.next(exchange.cluster, image, mark)?;
    complete(exchange, stop)
}

/// Waits until all pods are those of the last turn; `None` if it was stopped.
fn complete(exchange: &Exchange<'_>, stop: &dyn Fn() -> Result<bool>) -> Result<Option<Vec<Pod>>> {
    let Exchange { cluster, workload, container, .. } = exchange;
    // Admission may have changed the image.
    let [image, mark] = exchange.turns.last();
    let until = Instant::now() + exchange.rollout_max;
    loop {
        if stop()? {
            return Ok(None);
        }
        let object = workload.get(*cluster)?;
        exchange.turns.check(&object)?;
        let pods = workload.pods(*cluster, &object, container, (&image, &mark))?;
        let Some(missing) = workload.missing(&object, &pods) else { return Ok(Some(pods)) };
        if Instant::now() > until {
            let limit = exchange.rollout_max.as_secs();
            bail!("{image} was not rolled out within {limit} s: {missing}");
        }
        std::thread::sleep(LOOK);
    }
}

/// The pods before a load: `last` ones, or if a container was started again or a pod has gone or come since, those
/// that there are when all are ready. `None` if it was stopped.
fn present(
    exchange: &Exchange<'_>,
    last: &[Pod],
    stop: &dyn Fn() -> Result<bool>,
) -> Result<Option<Vec<Pod>>> {
    let now = pods(exchange)?;
    let is_same = now.len() == last.len() && now.iter().all(|pod| last.contains(pod));
    if is_same { Ok(Some(now)) } else { complete(exchange, stop) }
}

/// The pods of now. That another program has changed image or mark is an error.
fn pods(exchange: &Exchange<'_>) -> Result<Vec<Pod>> {
    let Exchange { cluster, workload, container, .. } = exchange;
    let object = workload.get(*cluster)?;
    exchange.turns.check(&object)?;
    let [image, mark] = exchange.turns.last();
    Ok(workload.pods(*cluster, &object, container, (&image, &mark))?)
}

/// How many containers of the pods `before` were started again until they were those of `now`; a pod that is
/// gone counts as one.
fn restarts(before: &[Pod], now: &[Pod]) -> u64 {
    let of = |pod: &Pod| {
        let found = now.iter().find(|one| one.name == pod.name);
        found.map_or(1, |one| {
            let more = one.restarts.saturating_sub(pod.restarts);
            more.max(u64::from(one.container != pod.container))
        })
    };
    before.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::sync::atomic::{AtomicUsize, Ordering};
    /// Counts rollouts and loads; of the loads, by their number, some are disturbed, and one fails.
    #[derive(Default)]
    struct Pods {
        rollouts: usize,
        loads: usize,
        disturbed: Vec<usize>,
        fails_at: Option<usize>,
        load_fails_at: usize,
    }

    impl Subject for Pods {
        type Value = Block;
        type Error = &'static str;

        fn start(&mut self, _: &Arm, _: usize) -> Result<(), &'static str> {
            Ok(())
        }

        fn set(&mut self, _: &Place<'_>) -> Result<(), &'static str> {
            if self.fails_at == Some(self.rollouts) {
                return Err("gone");
            }
            self.rollouts += 1;
            Ok(())
        }

        fn measure(&mut self, place: &Place<'_>) -> Result<Option<Measured<Block>>, &'static str> {
            if self.load_fails_at > 0 && self.load_fails_at == self.loads && self.fails_at.is_none()
            {
                return Err("gone");
            }
            let is_disturbed = self.disturbed.contains(&self.loads);
            self.loads += 1;
            let faults = is_disturbed.then(|| Fault::invalid("a container was started again"));
            let value = Block { load: place.unit.condition.to_string(), ..Block::default() };
            Ok(Some(Measured { value, faults: faults.into_iter().collect() }))
        }

        fn restore(&mut self, _: &Place<'_>) -> Result<(), &'static str> {
            Ok(())
        }
    }

    #[test]
    fn a_load_without_readings_of_what_decides_is_disturbed() {
        let load = |set: &str| Load { name: "10/s".into(), set: set.into(), rate: 10.0 };
        let primary = |metric: &str| Cell {
            set: "internal".into(),
            load: "10/s".into(),
            metric: metric.into(),
        };
        for (metric, set, needs) in [
            ("cpu", "internal", true),
            ("memory", "internal", true),
            ("cpu", "external", false),
            ("p99", "internal", false),
        ] {
            assert_eq!(needs_counters(&primary(metric), &load(set)), needs, "{metric} {set}");
            // Whether a page of a kubelet has failed does not count.
            assert_eq!(
                is_blind(&primary(metric), &load(set), &Usage::default()),
                needs,
                "{metric} {set}"
            );
        }
        assert_eq!(faults_of_pods(0, false), Vec::<String>::new());
        assert!(faults_of_pods(0, true)[0].contains("a longer --length"));
        assert_eq!(faults_of_pods(2, true).len(), 2);
    }

    /// A workload of one pod, with the mark `b1`; its container is started again while it is looked at.
    struct Restarting(AtomicUsize);

    impl Api for Restarting {
        fn get(&self, path: &str) -> Result<Option<Value>, lab_swap::Error> {
            if !path.contains("/pods") {
                let template = json!({
                    "metadata": {"annotations": {lab_swap::MARK: "b1"}},
                    "spec": {"containers": [{"name": "dns", "image": "new"}]},
                });
                return Ok(Some(json!({
                    "spec": {"replicas": 1, "template": template},
                    "status": {"updatedReplicas": 1, "availableReplicas": 1},
                })));
            }
            let asked = self.0.fetch_add(1, Ordering::Relaxed);
            let pod = |id: &str, is_ready: bool, restarts: usize| {
                json!({"items": [{
                    "metadata": {"name": "p", "annotations": {lab_swap::MARK: "b1"}},
                    "spec": {"containers": [{"name": "dns", "image": "new"}]},
                    "status": {"containerStatuses": [{
                        "name": "dns",
                        "containerID": id,
                        "ready": is_ready,
                        "restartCount": restarts,
                    }]},
                }]})
            };
            Ok(Some(match asked {
                0 => pod("containerd://1", true, 0),
                1 => pod("containerd://1", false, 0),
                2 => pod("containerd://2", false, 1),
                _ => pod("containerd://2", true, 1),
            }))
        }

        fn text(&self, path: &str) -> Result<String, lab_swap::Error> {
            Err(lab_swap::Error::new(path, "none"))
        }

        fn create(&self, _: &str, object: &Value) -> Result<Value, lab_swap::Error> {
            Ok(object.clone())
        }

        fn patch(&self, _: &str, _: &Value) -> Result<Value, lab_swap::Error> {
            Ok(Value::Null)
        }

        fn delete(&self, _: &str, _: Option<&str>) -> Result<(), lab_swap::Error> {
            Ok(())
        }
    }

    #[test]
    fn a_load_has_the_containers_that_there_are_when_it_begins() {
        let api = Restarting(AtomicUsize::new(0));
        let workload: Workload = "a/deployment/b".parse().unwrap();
        let object = workload.get(&api).unwrap();
        let changes = workload.changes(&object, (0, "dns"), &[("new", "b1")]);
        let record = lab_swap::Record::new("r", &workload, changes);
        let claim = lab_swap::Claim::make(&api, "me", &record).unwrap();
        let turns = Turns::new(&claim).unwrap();
        let exchange = Exchange {
            cluster: &api,
            workload: &workload,
            container: "dns",
            turns: &turns,
            settle: Duration::ZERO,
            rollout_max: Duration::from_secs(20),
        };
        let ids = |pods: &[Pod]| -> Vec<String> {
            pods.iter().map(|pod| pod.container.clone()).collect()
        };
        let first = complete(&exchange, &|| Ok(false)).unwrap().unwrap();
        assert_eq!(ids(&first), ["1"]);
        let second = present(&exchange, &first, &|| Ok(false)).unwrap().unwrap();
        assert_eq!((ids(&second), second[0].is_wanted), (vec!["2".to_owned()], true));
        assert_eq!(present(&exchange, &second, &|| Ok(true)).unwrap(), Some(second));
    }

    fn pod(name: &str, container: &str, restarts: u64) -> Pod {
        Pod {
            name: name.to_owned(),
            node: "n".to_owned(),
            container: container.to_owned(),
            image_id: String::new(),
            restarts,
            is_wanted: true,
        }
    }

    #[test]
    fn a_restart_counts_in_the_attempt_in_which_it_was() {
        let at_rollout = [pod("a", "1", 0), pod("b", "2", 0)];
        let later = [pod("a", "1", 0), pod("b", "3", 1)];
        assert_eq!(restarts(&at_rollout, &later), 1);
        assert_eq!(restarts(&later, &later), 0, "the next attempt");
        assert_eq!(restarts(&later, &[pod("a", "1", 0)]), 1, "a pod is gone");
        assert_eq!(restarts(&later, &[later[1].clone(), pod("a", "9", 0)]), 1, "another container");
    }

    #[test]
    fn rounds_before_an_error_are_kept() {
        let phase = Phase { name: "comparison", images: [0, 1], rounds: 6, seed: 1, salt: 0 };
        let design = design(&phase, 2);
        let plan = design.plan().unwrap();
        let again = Again { retries: 1, together: Together::Held };
        // A rollout, and the second load of a round.
        for (fails_at, whole) in [(Some(6), 3), (None, 2)] {
            let mut pods = Pods { fails_at, load_fails_at: 9, ..Pods::default() };
            let mut ending = Ending { subject: &mut pods, failed: None };
            let results =
                lab_experiment::run(&design, &plan, again, &mut ending, &|| false).unwrap();
            assert_eq!(ending.failed, Some("gone"));
            let rounds = |side| {
                let mine = results.records.iter().filter(|one| one.arm == side);
                mine.count() / 2
            };
            let both = rounds("a").min(rounds("b"));
            assert_eq!((both, results.interrupted), (whole, true));
        }
    }

    #[test]
    fn a_disturbed_load_is_measured_again_with_the_same_pods() {
        let phase = Phase { name: "comparison", images: [0, 1], rounds: 6, seed: 1, salt: 0 };
        let design = design(&phase, 2);
        // The second load of the arm that comes first: in round 0 once, in round 1 in both attempts.
        let mut pods = Pods { disturbed: vec![1, 6, 7], ..Pods::default() };
        let again = Again { retries: 1, together: Together::Held };
        let plan = design.plan().unwrap();
        let results = lab_experiment::run(&design, &plan, again, &mut pods, &|| false).unwrap();
        assert_eq!((pods.rollouts, pods.loads), (12, 24 + 2));
        let blocks: Vec<Block> = results.records.into_iter().map(kept).collect();
        let of = |pair: usize| -> Vec<_> {
            let mine = blocks.iter().filter(|block| block.pair == pair && block.first);
            mine.map(|block| (&*block.load, block.attempt, block.used)).collect()
        };
        let expected = [("0", 0, true), ("1", 0, false), ("1", 1, true)];
        assert_eq!(of(0), expected);
        assert_eq!(of(1), expected, "of equals the last one counts");
        for side in crate::ab::plan::ARMS {
            let used = blocks.iter().filter(|block| block.used && block.side == side);
            assert_eq!(used.count(), 12, "every load once in each round");
        }
    }
}
