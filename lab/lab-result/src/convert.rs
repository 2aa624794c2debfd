//! From what the load engine brings back to the file.

mod connections;
mod seconds;

use crate::{
    Baseline, BaselineRun, Counts, Generator, Group, Pace, Plan, Provenance, Rate, ResultFile, Run,
    Second, Share, Thread, Verdict, WorkerPart, Workload,
};
use lab_load::schedule::Profile;
use lab_load::tally::{self, RATE_STEP};
use lab_load::{Config, Outcome, Spin, Stamps};
use nodens_wire::{Rcode, Type};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the engine does not know about a run.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The program.
    pub generator: Generator,
    /// Machine, route, settings.
    pub provenance: Provenance,
    /// Which queries.
    pub workload: Workload,
}

/// The file of a run.
pub fn convert(config: &Config, outcome: &Outcome, about: About) -> ResultFile {
    let tally = &outcome.tally;
    ResultFile {
        schema: crate::SCHEMA,
        generator: about.generator,
        provenance: about.provenance,
        plan: plan(config, outcome, about.workload),
        run: run(outcome),
        verdict: Verdict {
            valid: outcome.verdict.is_valid(),
            invalid_because: outcome.verdict.invalid.clone(),
            only_late: outcome.verdict.only_late,
            notes: outcome.verdict.notes.clone(),
        },
        counts: counts(&tally.counts),
        rcodes: rcodes(&tally.rcodes),
        response: tally.response.clone(),
        service: tally.service.clone(),
        lateness: tally.lateness.clone(),
        late: tally.late.clone(),
        connect: tally.connect.clone(),
        connections: connections::whole(config, &tally.connections),
        connection_fates: connections::fates(config, &tally.connections),
        by_qtype: by_qtype(tally),
        by_rcode: by_rcode(tally),
        by_transport: by_transport(outcome),
        seconds: seconds(config, tally),
        rate: Rate {
            step_ns: RATE_STEP,
            steps: tally.rate.iter().map(|step| [step.planned, step.sent]).collect(),
        },
        threads: outcome.threads.iter().map(thread).collect(),
        baseline: None,
        requirements: Vec::new(),
        server_cost: None,
        workers: Vec::new(),
    }
}

fn plan(config: &Config, outcome: &Outcome, workload: Workload) -> Plan {
    Plan {
        hash: format!("{:016x}", outcome.plan_hash),
        seed: config.seed,
        server: config.server.to_string(),
        pace: match config.pace {
            lab_load::Pace::Open { rate, arrivals } => {
                let profile = match &config.profile {
                    Profile::Constant => None,
                    changing => Some(changing.to_string()),
                };
                Pace::Open { rate, arrivals: arrivals.to_string(), profile }
            }
            lab_load::Pace::Closed { window } => Pace::Closed { window_per_client: window },
        },
        workload,
        transports: shares(config),
        duration_ns: nanos(config.duration),
        warm_up_ns: 0,
        queries: config.queries,
        timeout_ns: nanos(config.timeout),
        clients: config.clients,
        threads: outcome.threads.len(),
        cpus: config.cpus.clone(),
        idle: match config.spin {
            Spin::Auto => "auto",
            Spin::Always => "spin",
            Spin::Never => "sleep",
        }
        .to_owned(),
        stamps: Some(
            match config.stamps {
                Stamps::User => "user",
                Stamps::Kernel => "kernel",
            }
            .to_owned(),
        ),
        sources: config.sources.iter().map(ToString::to_string).collect(),
        local_port: config.local_port,
        connecting: connections::connecting(config),
        worker: config.worker.map(|it| WorkerPart { index: it.index(), of: it.of() }),
    }
}

fn run(outcome: &Outcome) -> Run {
    Run {
        started_unix_ns: unix(outcome.started),
        finished_unix_ns: unix(outcome.started + outcome.elapsed),
        active_ns: nanos(outcome.active),
        elapsed_ns: nanos(outcome.elapsed),
        interrupted: outcome.interrupted,
        clock: None,
    }
}

fn counts(from: &tally::Counts) -> Counts {
    Counts {
        scheduled: from.scheduled,
        skipped: from.skipped,
        overdue: from.overdue,
        send_errors: from.send_errors,
        sent: from.sent,
        answered: from.answered,
        timed_out: from.timed_out,
        refused: from.refused,
        connection_failed: from.connection_failed,
        interrupted: from.interrupted,
        received: from.received,
        late: from.late,
        duplicate: from.duplicate,
        mismatched: from.mismatched,
        unknown: from.unknown,
        malformed: from.malformed,
        truncated: from.truncated,
        answer_octets: from.answer_octets,
        question_octets: from.question_octets,
    }
}

fn shares(config: &Config) -> Vec<Share> {
    let shares = config.shares();
    let all: f64 = shares.iter().map(|share| f64::from(share.weight)).sum();
    let shares = shares.iter().map(|share| Share {
        transport: share.transport.name().to_owned(),
        share: f64::from(share.weight) / all.max(1.0),
        server: Some(share.server.to_string()),
    });
    shares.collect()
}

fn by_transport(outcome: &Outcome) -> Vec<Group> {
    let groups = outcome.by_transport.iter().map(|(transport, tally)| Group {
        name: transport.name().to_owned(),
        sent: tally.counts.sent,
        answered: tally.counts.answered,
        lost: tally.counts.lost(),
        response: tally.response.clone(),
    });
    groups.collect()
}

fn seconds(config: &Config, tally: &tally::Tally) -> Vec<Second> {
    let cohorts = (0..).zip(&tally.cohorts);
    let mut seconds: Vec<_> = cohorts.map(|(at, cohort)| second(at, cohort)).collect();
    connections::by_second(config, &tally.connections, &mut seconds);
    seconds::bound(&mut seconds, seconds::ROOM);
    seconds
}

fn second(second: u64, cohort: &tally::Cohort) -> Second {
    Second {
        second,
        is_final: cohort.is_final,
        sent: cohort.sent,
        answered: cohort.answered,
        lost: cohort.lost(),
        timed_out: cohort.timed_out,
        refused: cohort.refused,
        connection_failed: cohort.connection_failed,
        interrupted: cohort.interrupted,
        unsent: cohort.skipped + cohort.send_errors,
        rcodes: rcodes(&cohort.rcodes),
        response: cohort.response.clone(),
        service: cohort.service.clone(),
        lateness: cohort.lateness.clone(),
        connect: cohort.connect.clone(),
        ..Second::default()
    }
}

fn thread(from: &lab_load::run::ThreadReport) -> Thread {
    Thread {
        cpu_ns: nanos(from.cpu),
        waited_ns: nanos(from.waited),
        wall_ns: nanos(from.wall),
        spun: from.spun,
        dropped: from.dropped,
        blocked: from.blocked,
    }
}

fn rcodes(counts: &tally::Rcodes) -> BTreeMap<String, u64> {
    counts.iter().map(|(rcode, count)| (Rcode(rcode).to_string(), count)).collect()
}

fn by_qtype(tally: &tally::Tally) -> Vec<Group> {
    let groups = tally.by_qtype.iter().map(|(qtype, group)| Group {
        name: Type(qtype).to_string(),
        sent: group.sent,
        answered: group.answered,
        lost: group.lost,
        response: group.response.clone(),
    });
    groups.collect()
}

/// A query without an answer has no RCODE, so all that were sent are answered.
fn by_rcode(tally: &tally::Tally) -> Vec<Group> {
    let groups = tally.by_rcode.iter().map(|(rcode, times)| Group {
        name: Rcode(rcode).to_string(),
        sent: times.recorded(),
        answered: times.recorded(),
        lost: 0,
        response: times.clone(),
    });
    groups.collect()
}

impl From<&lab_load::baseline::Baseline> for Baseline {
    fn from(from: &lab_load::baseline::Baseline) -> Self {
        let run = |when: &str, run: &Outcome| BaselineRun {
            when: when.to_owned(),
            started_unix_ns: unix(run.started),
            sent: run.tally.counts.sent,
            lost: run.tally.counts.lost(),
            response: run.tally.response.clone(),
        };
        let mut runs = vec![run("before", &from.before), run("after", &from.after)];
        runs.extend(from.headroom.as_ref().map(|outcome| run("headroom", outcome)));
        Self { runs }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn unix(time: SystemTime) -> u64 {
    nanos(time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
}
