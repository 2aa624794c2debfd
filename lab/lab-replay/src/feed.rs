//! A recording as steps, each with the time at which it is to be taken, read on a thread of its own.

use crate::limits::BATCH;
use crate::matching::{Matched, Matching};
use crate::replay::Open;
use crate::survey::Survey;
use crate::{Over, ReplayError, Sample};
use lab_workload::plan::PlanHash;
use lab_workload::recorded::{Carrier, Content};
use std::net::SocketAddr;
use std::sync::mpsc::SyncSender;

/// What is done at a time.
pub(crate) struct Step {
    /// The packet or frame in the recording.
    pub(crate) number: u64,
    /// Nanoseconds from the start.
    pub(crate) intended: u64,
    /// How often the recording was gone through before.
    pub(crate) round: u64,
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
    pub(crate) carrier: Carrier,
    pub(crate) action: Action,
}

pub(crate) enum Action {
    Open,
    Ask {
        message: Vec<u8>,
        /// The response that was recorded.
        recorded: Option<Vec<u8>>,
    },
    End,
}

/// When steps are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// The first query of the recording, in its own time.
    first: u64,
    speed: f64,
    /// Nanoseconds from one round to the next.
    round: u64,
    pub(crate) rounds: u64,
    /// From the first query of the first round to the last of the last.
    pub(crate) whole: u64,
}

impl Timing {
    /// The recording so many times as fast, so many times; between the last query of one round and the first of the
    /// next is the mean gap.
    pub(crate) fn of(survey: &Survey, speed: f64, rounds: u64) -> Self {
        let first = survey.span.map_or(0, |(first, _)| first.time);
        let length = survey.length() as f64 / speed;
        let gaps = survey.queries().saturating_sub(1).max(1);
        let round = (length + length / gaps as f64) as u64;
        let whole = round.saturating_mul(rounds.saturating_sub(1)).saturating_add(length as u64);
        Self { first, speed, round, rounds, whole }
    }

    fn at(&self, round: u64, time: u64) -> u64 {
        let since = time.saturating_sub(self.first) as f64 / self.speed;
        self.round.saturating_mul(round).saturating_add(since as u64)
    }
}

/// What was found out while reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Read {
    /// Names queries, clients and times.
    pub(crate) plan_hash: u64,
    /// Queries that stand so far behind later ones in the recording that they could not be put in order.
    pub(crate) disorder: u64,
}

/// Sends all steps until the receiver has gone.
pub(crate) fn feed(
    open: &Open<'_>,
    (sample, over): (Sample, Option<Over>),
    timing: Timing,
    steps: &SyncSender<Vec<Step>>,
) -> Result<Read, ReplayError> {
    let (mut read, mut hash, mut last) = (Read::default(), PlanHash::default(), 0);
    let mut batch = Vec::with_capacity(BATCH);
    for round in 0..timing.rounds {
        for matched in Matching::new(open()?, sample) {
            let Some(mut step) = step(matched, over, round, &timing) else { continue };
            if step.intended < last {
                read.disorder += u64::from(matches!(step.action, Action::Ask { .. }));
                step.intended = last;
            }
            last = step.intended;
            if let Action::Ask { message, .. } = &step.action {
                hash.write(&step.intended.to_be_bytes());
                hash.write(step.client.to_string().as_bytes());
                hash.write(message.get(2..).unwrap_or_default());
            }
            batch.push(step);
            if batch.len() == BATCH {
                let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
                if steps.send(full).is_err() {
                    return Ok(read);
                }
            }
        }
    }
    // Whoever has stopped does not need the rest.
    _ = steps.send(batch);
    read.plan_hash = hash.finish();
    Ok(read)
}

fn step(matched: Matched, over: Option<Over>, round: u64, timing: &Timing) -> Option<Step> {
    let Matched { record, response, .. } = matched;
    let recorded = (record.client, record.carrier);
    let (client, carrier) = over.map_or(recorded, |over| over.place(recorded.0, recorded.1));
    let action = match (record.content, carrier) {
        (Content::Query(message), _) => Action::Ask { message, recorded: response },
        (Content::Opened, Carrier::Tcp) => Action::Open,
        (Content::Ended, Carrier::Tcp) => Action::End,
        _ => return None,
    };
    Some(Step {
        number: record.number,
        intended: timing.at(round, record.time),
        round,
        client,
        server: record.server,
        carrier,
        action,
    })
}
