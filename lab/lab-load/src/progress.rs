//! What a run brings while it continues: each second as it ends, and again when it is final.

use crate::SECOND;
use crate::session::Session;
use crate::tally::{Cohort, Counts};
use std::sync::mpsc;
use std::time::SystemTime;

/// What one second brought, while the run continues.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The second, counted from 0.
    pub second: u64,
    /// What was counted during this second.
    pub counts: Counts,
    /// Queries in flight at its end.
    pub in_flight: u64,
    /// The queries intended for this second, as far as known: answers may still come.
    pub cohort: Cohort,
    /// Seconds that became final since the last report, with their numbers.
    pub finals: Vec<(u64, Cohort)>,
}

/// Who watches a run, on the thread that called it.
pub trait Observer {
    /// Connections are being opened before the schedule begins: so many of `all` are there.
    fn opening(&mut self, _opened: u64, _all: u64) {}

    /// All threads are ready; the schedule begins shortly after this returns.
    fn ready(&mut self) {}

    /// Asked after [`Observer::ready`]: when the schedule begins, by this machine's wall clock; at once
    /// if it does not matter. What is wrong ends the run before it begins.
    fn start(&mut self) -> Result<Option<SystemTime>, String> {
        Ok(None)
    }

    /// A second is over.
    fn second(&mut self, progress: &Progress);

    /// The last query has its outcome.
    fn over(&mut self) {}
}

impl Observer for () {
    fn second(&mut self, _: &Progress) {}
}

/// Who wants to know the seconds only.
pub(crate) struct Seconds<F>(pub(crate) F);

impl<F: FnMut(&Progress)> Observer for Seconds<F> {
    fn second(&mut self, progress: &Progress) {
        (self.0)(progress);
    }
}

/// Sends second by second what a session has counted.
pub(crate) struct Ticker {
    second: u64,
    next_final: u64,
    last: Counts,
}

impl Ticker {
    pub(crate) fn new() -> Self {
        Self { second: 0, next_final: 0, last: Counts::default() }
    }

    /// Reports every second that is over `now`.
    pub(crate) fn turn(&mut self, ticks: &mpsc::Sender<Progress>, session: &Session<'_>, now: u64) {
        while now >= (self.second + 1) * SECOND {
            let counts = session.tally.counts;
            let cohort = session.tally.cohorts.get(self.second as usize).cloned();
            let progress = Progress {
                second: self.second,
                counts: counts.since(&self.last),
                in_flight: counts.in_flight(),
                cohort: cohort.unwrap_or_default(),
                finals: self.finals(session, now),
            };
            // The receiver only goes away when the run is over.
            _ = ticks.send(progress);
            self.last = counts;
            self.second += 1;
        }
    }

    fn finals(&mut self, session: &Session<'_>, now: u64) -> Vec<(u64, Cohort)> {
        let mut finals = Vec::new();
        while let Some(cohort) = session.final_cohort(self.next_final, now) {
            finals.push((self.next_final, cohort));
            self.next_final += 1;
        }
        finals
    }
}

/// Adds up the reports of all threads and passes on the seconds that all of them have reported.
pub(crate) fn gather(
    ticks: &mpsc::Receiver<Progress>,
    threads: usize,
    report: &mut impl FnMut(&Progress),
) {
    let mut open: Parts<Progress> = Parts::new(threads);
    let mut open_finals: Parts<Cohort> = Parts::new(threads);
    let mut finals = Vec::new();
    for mut tick in ticks {
        for (second, cohort) in tick.finals.drain(..) {
            finals.extend(open_finals.add(second, cohort, Cohort::merge));
        }
        let second = tick.second;
        if let Some((_, mut whole)) = open.add(second, tick, add_progress) {
            whole.finals = std::mem::take(&mut finals);
            report(&whole);
        }
    }
}

fn add_progress(into: &mut Progress, from: &Progress) {
    into.counts.add(&from.counts);
    into.in_flight += from.in_flight;
    into.cohort.merge(&from.cohort);
}

/// Sums by second until every thread has given its part.
struct Parts<T> {
    threads: usize,
    open: Vec<(u64, usize, T)>,
}

impl<T> Parts<T> {
    fn new(threads: usize) -> Self {
        Self { threads, open: Vec::new() }
    }

    /// Adds a thread's part; the whole, once it is.
    fn add(&mut self, second: u64, part: T, add: impl Fn(&mut T, &T)) -> Option<(u64, T)> {
        let found = self.open.iter().position(|entry| entry.0 == second);
        let at = found.unwrap_or(self.open.len());
        match self.open.get_mut(at) {
            Some((_, parts, sum)) => {
                *parts += 1;
                add(sum, &part);
            }
            None => self.open.push((second, 1, part)),
        }
        let whole = self.open.get(at).is_some_and(|entry| entry.1 == self.threads);
        whole.then(|| self.open.remove(at)).map(|(second, _, sum)| (second, sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_reported_when_all_threads_have_and_final_when_all_say_so() {
        let (sender, receiver) = mpsc::channel();
        let tick = |second, finals: &[u64]| Progress {
            second,
            counts: Counts { sent: 1, ..Counts::default() },
            finals: finals
                .iter()
                .map(|second| (*second, Cohort { sent: 1, is_final: true, ..Cohort::default() }))
                .collect(),
            ..Progress::default()
        };
        for progress in
            [tick(0, &[]), tick(1, &[0]), tick(0, &[]), tick(2, &[1]), tick(1, &[]), tick(2, &[0])]
        {
            sender.send(progress).unwrap();
        }
        drop(sender);
        let mut seen = Vec::new();
        gather(&receiver, 2, &mut |progress| {
            let finals: Vec<_> = progress.finals.iter().map(|f| (f.0, f.1.sent)).collect();
            assert!(progress.finals.iter().all(|(_, cohort)| cohort.is_final));
            seen.push((progress.second, progress.counts.sent, finals));
        });
        assert_eq!(seen, [(0, 2, vec![]), (1, 2, vec![]), (2, 2, vec![(0, 2)])]);
    }
}
