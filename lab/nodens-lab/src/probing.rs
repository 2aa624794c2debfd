//! Probes of a search for the highest rate that meets an objective: what each said, and when the next
//! may begin.

use anyhow::Result;
use lab_experiment::limit::{Above, Said, Search};
use lab_histogram::Quantile;
use lab_load::Outcome;
use lab_load::objective::{Lost, Objective};
use lab_load::run::RunError;
use lab_result::search::Probe;
use std::time::Duration;

/// Between probes: what the last one left in queues must not hit the next.
pub(crate) const PAUSE: Duration = Duration::from_millis(300);

/// What a load at `rate` says about the objective. Too few sockets for a rate are an answer too.
pub(crate) fn probe(
    objective: &Objective,
    rate: f64,
    load: Result<Outcome, RunError>,
) -> Result<(Said, Probe)> {
    let outcome = match load {
        Ok(outcome) => outcome,
        Err(error @ (RunError::TooFewClients { .. } | RunError::TooManyClients { .. })) => {
            let said = word(Said::Invalid).to_owned();
            let because = vec![error.to_string()];
            return Ok((
                Said::Invalid,
                Probe { search: 1, rate, said, because, ..Probe::default() },
            ));
        }
        Err(error) => return Err(error.into()),
    };
    let counts = &outcome.tally.counts;
    let lost = Lost { lost: counts.lost(), sent: counts.sent };
    let checks = objective.check(&outcome.tally.response, lost);
    let missed: Vec<_> =
        checks.into_iter().filter(|check| !check.met).map(|check| check.found).collect();
    let (said, because) = if !outcome.verdict.is_valid() {
        (Said::Invalid, outcome.verdict.invalid.clone())
    } else if missed.is_empty() {
        (Said::Met, missed)
    } else {
        (Said::Missed, missed)
    };
    Ok((said, kept(rate, said, because, &outcome)))
}

/// A probe as a file has it.
fn kept(rate: f64, said: Said, because: Vec<String>, outcome: &Outcome) -> Probe {
    let quantile = |part| outcome.tally.response.quantile(part);
    let response = |part| quantile(part).nanos();
    let names = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
    let bounds = names.iter().filter(|(_, part)| matches!(quantile(*part), Quantile::AtLeast(_)));
    Probe {
        search: 1,
        rate,
        said: word(said).to_owned(),
        because,
        answered_per_second: outcome.answer_rate(),
        sent: outcome.tally.counts.sent,
        loss: outcome.loss().unwrap_or(0.0),
        p50: response(0.5),
        p99: response(0.99),
        p999: response(0.999),
        at_least: bounds.map(|(name, _)| (*name).to_owned()).collect(),
        plan: format!("{:016x}", outcome.plan_hash),
    }
}

/// Tells `search` what the probe said, and keeps it.
pub(crate) fn take(search: &mut Search, said: Said, probe: Probe, probes: &mut Vec<Probe>) {
    // Without a plan nothing was sent: no other probe of that rate could be.
    if probe.plan.is_empty() {
        search.give_up();
    } else {
        search.take(said);
    }
    probes.push(probe);
}

/// Waits until the next probe, of `length` as the last one was, may begin.
pub(crate) fn pause(last: Option<&Probe>, length: Duration) {
    // A server that was given up to twice what it can do may still be at work on what timed out.
    let is_backlog = last.is_some_and(|probe| probe.loss > 0.0);
    // What a short probe leaves is less.
    let pause = PAUSE.min(length / 2);
    std::thread::sleep(pause + if is_backlog { length } else { Duration::ZERO });
}

fn word(said: Said) -> &'static str {
    match said {
        Said::Met => "met",
        Said::Missed => "missed",
        Said::Invalid => "invalid",
    }
}

/// What a search ran into, as files have it.
pub(crate) fn limited_by(why: Above) -> &'static str {
    match why {
        Above::Server => "server",
        Above::Between => "between",
        Above::Generator => "generator",
        Above::Ceiling => "ceiling",
        Above::Probes => "probes",
    }
}
