//! The order in which messages are used.

use super::{Order, Workload, stream};
use crate::types::TypeMix;
use lab_random as rng;
use nodens_wire::Type;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// One step of a scripted order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index of the message.
    pub message: u32,
    /// Which client asks; clients beyond those of the run wrap around.
    pub client: u32,
}

/// How often, on average, each place of a client that has several comes up before an order repeats: so
/// often that it is no matter if some come up once more.
const TURNS_MIN: usize = 64;
/// More places than a process has descriptors for on any common system: such a run is refused, and a
/// script for it would fill the memory before.
const PLACES_MAX: u64 = 1 << 20;

impl Workload {
    /// Uses the messages in a scripted order.
    pub fn script(&mut self, steps: Vec<Step>) {
        self.order = if steps.is_empty() { Order::InTurn } else { Order::Steps(steps) };
    }

    /// Uses the messages as drawn from a uniform distribution; the order repeats after `length`.
    pub fn shuffle(&mut self, length: usize) {
        self.shuffle_groups(length, &TypeMix::only(Type::A));
    }

    /// Uses the messages as drawn by Zipf's law, the first most often; repeats after `length`.
    pub fn zipf(&mut self, exponent: f64, length: usize) {
        self.zipf_groups(exponent, length, &TypeMix::only(Type::A));
    }

    /// As [`Workload::shuffle`], where each name has a message for each of `types`, one after the other.
    pub fn shuffle_groups(&mut self, length: usize, types: &TypeMix) {
        let groups = self.spans.len() / types.types().len().max(1);
        let mut stream = rng::Stream::new(self.seed, stream::SHUFFLE);
        self.draw(length, types, |_| stream.below(groups));
    }

    /// As [`Workload::zipf`], where each name has a message for each of `types`, one after the other.
    pub fn zipf_groups(&mut self, exponent: f64, length: usize, types: &TypeMix) {
        let zipf = rng::Zipf::new(self.spans.len() / types.types().len().max(1), exponent);
        let mut stream = rng::Stream::new(self.seed, stream::ZIPF);
        self.draw(length, types, |_| zipf.draw(&mut stream));
    }

    /// QPS of the client that asks most, if all `clients` together ask `rate`; in its
    /// busiest second if items have times.
    pub fn busiest_client(&self, clients: usize, rate: f64) -> f64 {
        let even = rate / clients.max(1) as f64;
        let Order::Steps(steps) = &self.order else { return even };
        let clients = known(steps).min(clients);
        rates(steps, &self.times, clients, rate).into_iter().fold(0.0, f64::max)
    }

    /// If a client of the script asks more than `most` QPS when all of them together
    /// ask `rate`: gives each of `clients`, among which those of the script wrap around, as many
    /// places as it takes to ask less from each. It asks from them in turn. Returns how many of the
    /// run's clients the script uses then.
    pub fn split_clients(&mut self, clients: usize, rate: f64, most: f64) -> usize {
        let Order::Steps(steps) = &mut self.order else { return 0 };
        let known = known(steps);
        let used = known.min(clients.max(1));
        let places = |clients: usize| -> Vec<u64> {
            let rates = rates(steps, &self.times, clients, rate);
            rates.iter().map(|rate| (rate / most).ceil().max(1.0) as u64).collect()
        };
        if places(known).iter().all(|places| *places == 1) {
            return used;
        }
        let places = places(used);
        let total = places.iter().fold(0_u64, |sum, places| sum.saturating_add(*places));
        let total_places = usize::try_from(total).unwrap_or(usize::MAX);
        if total > PLACES_MAX {
            return total_places;
        }
        if self.times.is_empty() {
            // Each time a short script begins again, it continues with other places.
            let steps_needed = TURNS_MIN * total_places;
            *steps = steps.repeat(steps_needed.div_ceil(steps.len().max(1)));
        }
        let (mut first, mut next) = (0, Vec::with_capacity(used));
        for places in &places {
            next.push((first, 0));
            first += places;
        }
        for step in steps {
            let client = step.client as usize % used.max(1);
            if let (Some((first, turn)), Some(places)) = (next.get_mut(client), places.get(client))
            {
                step.client = u32::try_from(*first + *turn).unwrap_or(u32::MAX);
                *turn = (*turn + 1) % places;
            }
        }
        total_places
    }

    /// The items of the busiest `length` nanoseconds of the recording, `speed` times as fast and with
    /// times from their first. Without times it is all of it.
    #[must_use]
    pub fn busiest_part(&self, length: u64, speed: f64) -> Self {
        let mut part = self.clone();
        let (first, last) = busiest(&self.times, length);
        let (Order::Steps(steps), Some(start)) = (&self.order, self.times.get(first)) else {
            return part;
        };
        let times = self.times.iter().take(last).skip(first);
        part.times = times.map(|time| ((time - start) as f64 / speed) as u64).collect();
        part.script(steps.iter().take(last).skip(first).copied().collect());
        part
    }

    fn draw(&mut self, length: usize, types: &TypeMix, mut group: impl FnMut(usize) -> usize) {
        let (seed, count) = (rng::at(self.seed, stream::TYPES), types.types().len());
        let steps = (0..length).map(|at| {
            let message = group(at) * count + types.draw_index(seed, at as u64);
            let client = u32::try_from(at).unwrap_or(u32::MAX);
            Step { message: u32::try_from(message).unwrap_or(0), client }
        });
        self.script(steps.collect());
    }
}

/// How many clients a script has.
fn known(steps: &[Step]) -> usize {
    steps.iter().map(|step| step.client as usize + 1).max().unwrap_or(0)
}

/// QPS of each client, if all together ask `rate`; in its busiest second if items have
/// times.
fn rates(steps: &[Step], times: &[u64], clients: usize, rate: f64) -> Vec<f64> {
    let clients = clients.max(1);
    let client = |step: &Step| step.client as usize % clients;
    let mut counts = vec![0_u64; clients];
    if times.is_empty() {
        steps.iter().for_each(|step| counts[client(step)] += 1);
        let all = steps.len().max(1) as f64;
        return counts.iter().map(|count| *count as f64 * rate / all).collect();
    }
    let mut most = counts.clone();
    let mut gone = times.iter().zip(steps).peekable();
    for (time, step) in times.iter().zip(steps) {
        while let Some((_, before)) = gone.next_if(|(before, _)| *before + SECOND <= *time) {
            counts[client(before)] -= 1;
        }
        let at = client(step);
        counts[at] += 1;
        most[at] = most[at].max(counts[at]);
    }
    most.iter().map(|count| *count as f64).collect()
}

/// The first item of the `length` nanoseconds with most items, and the one behind the last.
fn busiest(times: &[u64], length: u64) -> (usize, usize) {
    let (mut first, mut best) = (0, (0, 0));
    for (at, time) in times.iter().enumerate() {
        while times.get(first).is_some_and(|start| time - start >= length.max(1)) {
            first += 1;
        }
        if at + 1 - first > best.1 - best.0 {
            best = (first, at + 1);
        }
    }
    best
}

/// The step of item `n`.
pub(super) fn step(steps: &[Step], n: u64) -> Option<&Step> {
    steps.get((n % (steps.len() as u64).max(1)) as usize)
}
