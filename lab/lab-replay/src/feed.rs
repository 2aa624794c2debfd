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

    /// A connection may end long after the last query. Steps are taken one after the other, so that this must not be
    /// later than the start of the next round.
    fn at(&self, round: u64, time: u64) -> u64 {
        let since = time.saturating_sub(self.first) as f64 / self.speed;
        let at = self.round.saturating_mul(round).saturating_add(since as u64);
        let next = round.saturating_add(1);
        if next < self.rounds { at.min(self.round.saturating_mul(next)) } else { at }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Addresses;
    use crate::chosen::Chosen;
    use crate::survey::survey;
    use lab_workload::recorded::Record;

    const SECOND: u64 = 1_000_000_000;

    fn record(number: u64, time: u64, content: Content) -> Record {
        let client = "10.0.0.1:4000".parse().unwrap();
        let server = "10.0.9.53:53".parse().unwrap();
        Record { number, time, client, server, carrier: Carrier::Tcp, content }
    }

    /// A connection that ends 10 s after the last of its ten queries.
    fn records() -> Vec<Record> {
        let query = |n| record(n + 2, n * SECOND / 10, Content::Query(vec![0; 12]));
        let mut records = vec![record(1, 0, Content::Opened)];
        records.extend((0..10).map(query));
        records.push(record(12, 11 * SECOND, Content::Ended));
        records
    }

    #[test]
    fn the_end_of_a_connection_does_not_delay_the_next_round() {
        let open = || Ok::<crate::Recording, _>(Box::new(records().into_iter().map(Ok)));
        let all = Sample { part: 1.0, seed: 0 };
        let survey = survey(Chosen::new(open().unwrap(), &[]), (all, None), &Addresses::default());
        let timing = Timing::of(&survey, 1.0, 2);
        let (sender, steps) = std::sync::mpsc::sync_channel(10);
        let read = feed(&open, (all, None), timing, &sender).unwrap();
        drop(sender);
        assert_eq!(read.disorder, 0);
        let steps: Vec<_> = steps.into_iter().flatten().collect();
        assert!(steps.is_sorted_by_key(|step| step.intended));
        let asked = |round| {
            let of_round = steps.iter().filter(move |step| step.round == round);
            let asked = of_round.filter(|step| matches!(step.action, Action::Ask { .. }));
            asked.map(|step| step.intended).collect::<Vec<_>>()
        };
        let later: Vec<_> = asked(0).iter().map(|time| time + timing.round).collect();
        assert_eq!((asked(1).len(), asked(1)), (10, later));
        assert_eq!(steps.last().unwrap().intended, timing.round + 11 * SECOND);
    }
}
