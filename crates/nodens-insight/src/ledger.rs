//! Counts of all workers together, which fade.

use crate::limits::{FADE, FORGOTTEN, HISTORY, KEYS_MAX};
use crate::report::Moment;
use nodens_core::seeing::{LATENCIES, RCODES, Row, Sketch, Table, Tally};
use std::collections::{HashMap, VecDeque};

/// Seconds after which a longest wait is that of the window before, and forgotten after as many more.
const WINDOW: f64 = 60.0;

/// What is known of a key; sums over the past in which a second counts less the longer ago it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    /// Queries at the most: with those of keys that had the place before. The weights of many
    /// rare keys add up to what they have together.
    pub(crate) weight: f64,
    /// Queries at the least; the others are parts of these.
    pub(crate) questions: f64,
    pub(crate) denied: f64,
    pub(crate) failed: f64,
    pub(crate) waited: f64,
    pub(crate) a: f64,
    pub(crate) aaaa: f64,
    pub(crate) wait_us: f64,
    /// Of this window, and of the one before: see [`WINDOW`].
    wait_max_us: [f64; 2],
}

/// Sums by key, the rarest of which are forgotten.
#[derive(Debug, Default)]
pub(crate) struct Keys(HashMap<Box<[u8]>, Sums>);

/// Everything that is remembered.
#[derive(Debug)]
pub struct Ledger {
    pub(crate) clients: Keys,
    pub(crate) names: Keys,
    pub(crate) slow: Keys,
    pub(crate) troubles: Keys,
    pub(crate) rcodes: [f64; RCODES + 1],
    pub(crate) latencies: [f64; LATENCIES],
    pub(crate) history: VecDeque<Moment>,
    /// The sum of what each past second counts now, so that a sum divided by it is a rate.
    pub(crate) span: f64,
    /// Since counting began.
    pub(crate) seconds: f64,
    /// How long the window of the longest waits has lasted, in seconds.
    window: f64,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            clients: Keys::default(),
            names: Keys::default(),
            slow: Keys::default(),
            troubles: Keys::default(),
            rcodes: [0.0; RCODES + 1],
            latencies: [0.0; LATENCIES],
            history: VecDeque::new(),
            span: 0.0,
            seconds: 0.0,
            window: 0.0,
        }
    }
}

impl Ledger {
    /// Takes up what the workers counted in the last `seconds`.
    pub fn take_up(&mut self, seconds: f64, show: impl FnOnce(&mut dyn FnMut(&Sketch))) {
        let seconds = seconds.clamp(0.1, 10.0);
        let fade = FADE.powf(seconds);
        self.span = self.span * fade + seconds;
        self.seconds += seconds;
        self.window += seconds;
        if self.window >= WINDOW {
            self.window = 0.0;
            for keys in [&mut self.clients, &mut self.names, &mut self.slow, &mut self.troubles] {
                keys.next_window();
            }
        }
        for keys in [&mut self.clients, &mut self.names, &mut self.slow, &mut self.troubles] {
            keys.fade(fade);
        }
        self.rcodes.iter_mut().chain(&mut self.latencies).for_each(|count| *count *= fade);
        let mut moment = Moment::default();
        show(&mut |sketch| {
            let totals = &sketch.totals;
            self.clients.add_all(&sketch.clients);
            self.names.add_all(&sketch.names);
            self.slow.add_all(&sketch.slow);
            self.troubles.add_all(&sketch.troubles);
            add(&mut self.rcodes, &totals.rcodes);
            add(&mut self.latencies, &totals.latencies);
            let [good, _, _, denied, ..] = totals.rcodes;
            let (questions, missed) = (totals.questions as f64, totals.missed as f64);
            moment.questions += (questions + missed) / seconds;
            moment.upstream += totals.waited as f64 / seconds;
            moment.denied += denied as f64 / seconds;
            moment.failed += (questions - good as f64 - denied as f64) / seconds;
        });
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(moment);
        for keys in [&mut self.clients, &mut self.names, &mut self.troubles] {
            keys.shrink(|sums| sums.questions);
        }
        self.slow.shrink(|sums| sums.wait_us);
    }

    /// A sum as a rate per second.
    pub(crate) fn rate(&self, sum: f64) -> f64 {
        if self.span > 0.0 { sum / self.span } else { 0.0 }
    }
}

fn add(sums: &mut [f64], counts: &[u64]) {
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += *count as f64);
}

impl Keys {
    /// Every key, those with most of `what` first.
    pub(crate) fn by(&self, what: fn(&Sums) -> f64) -> Vec<(&[u8], &Sums)> {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_by(|a, b| what(b.1).total_cmp(&what(a.1)).then_with(|| a.0.cmp(b.0)));
        all
    }

    /// Every key, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Sums)> {
        self.0.iter().map(|(key, sums)| (&**key, sums))
    }

    fn add_all<const KEY: usize>(&mut self, table: &Table<KEY>) {
        for row in table.rows() {
            match self.0.get_mut(row.key) {
                Some(sums) => sums.add(&row),
                None => {
                    let mut sums = Sums::default();
                    sums.add(&row);
                    self.0.insert(row.key.into(), sums);
                }
            }
        }
    }

    fn fade(&mut self, by: f64) {
        self.0.retain(|_, sums| {
            sums.fade(by);
            sums.weight >= FORGOTTEN
        });
    }

    fn next_window(&mut self) {
        for sums in self.0.values_mut() {
            let [newest, _] = sums.wait_max_us;
            sums.wait_max_us = [0.0, newest];
        }
    }

    /// Forgets those with least of `what`, if there are too many.
    fn shrink(&mut self, what: fn(&Sums) -> f64) {
        if self.0.len() <= KEYS_MAX {
            return;
        }
        let mut most: Vec<_> = self.0.values().map(what).collect();
        most.sort_by(|a, b| b.total_cmp(a));
        let least = most.get(KEYS_MAX - 1).copied().unwrap_or_default();
        let above = most.iter().filter(|sum| **sum > least).count();
        let mut equal = KEYS_MAX - above.min(KEYS_MAX);
        self.0.retain(|_, sums| {
            let sum = what(sums);
            let stays = sum > least || (sum == least && equal > 0);
            equal -= usize::from(stays && sum == least);
            stays
        });
    }
}

impl Sums {
    /// A tally begins when its key takes a place, so it is what the key certainly has; the count
    /// has in it what the place counted before.
    fn add(&mut self, row: &Row<'_>) {
        let Tally { questions, denied, failed, waited, a, aaaa, wait_us, wait_max_us } = *row.tally;
        self.weight += f64::from(row.count);
        self.questions += f64::from(questions);
        self.denied += f64::from(denied);
        self.failed += f64::from(failed);
        self.waited += f64::from(waited);
        self.a += f64::from(a);
        self.aaaa += f64::from(aaaa);
        self.wait_us += wait_us as f64;
        let [newest, _] = &mut self.wait_max_us;
        *newest = newest.max(f64::from(wait_max_us));
    }

    /// The longest wait of the last one or two windows, in microseconds.
    pub(crate) fn longest_us(&self) -> f64 {
        let [newest, earlier] = self.wait_max_us;
        newest.max(earlier)
    }

    /// Adds what another key counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.weight += other.weight;
        self.questions += other.questions;
        self.denied += other.denied;
        self.failed += other.failed;
        self.waited += other.waited;
        self.a += other.a;
        self.aaaa += other.aaaa;
        self.wait_us += other.wait_us;
        for (longest, other) in self.wait_max_us.iter_mut().zip(other.wait_max_us) {
            *longest = longest.max(other);
        }
    }

    fn fade(&mut self, by: f64) {
        let Self { weight, questions, denied, failed, waited, a, aaaa, wait_us, .. } = self;
        for sum in [weight, questions, denied, failed, waited, a, aaaa, wait_us] {
            *sum *= by;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_core::seeing::Asked;
    use nodens_wire::{Rcode, Type};

    /// A second in which a name is waited for.
    fn second(ledger: &mut Ledger, waited_us: u32) {
        let mut sketch = Box::<Sketch>::default();
        sketch.record(&Asked {
            client: [192, 0, 2, 1].into(),
            qname: b"\x01a\x00",
            qtype: Type::A,
            rcode: Rcode::NOERROR,
            waited_us: Some(waited_us),
            weight: 1,
        });
        ledger.take_up(1.0, |see| see(&sketch));
    }

    #[test]
    fn a_longest_wait_is_that_of_the_last_minutes_however_often_the_name_is_asked_for() {
        let mut ledger = Ledger::default();
        let longest = |ledger: &Ledger| ledger.slow.iter().map(|(_, s)| s.longest_us()).sum();
        second(&mut ledger, 900_000);
        (0..55).for_each(|_| second(&mut ledger, 1000));
        let kept: f64 = longest(&ledger);
        assert!((kept - 900_000.0).abs() < 1.0, "{kept}");
        (0..66).for_each(|_| second(&mut ledger, 1000));
        let left: f64 = longest(&ledger);
        assert!((left - 1000.0).abs() < 1.0, "{left}");
        assert!((ledger.seconds - 122.0).abs() < 0.1);
    }
}
