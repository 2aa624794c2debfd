//! The order in which messages are used.

use super::{Order, Workload, stream};
use crate::types::TypeMix;
use lab_random as rng;
use nodens_wire::Type;

/// One step of a scripted order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index of the message.
    pub message: u32,
    /// Which client asks; clients beyond those of the run wrap around.
    pub client: u32,
}

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

/// The step of item `n`.
pub(super) fn step(steps: &[Step], n: u64) -> Option<&Step> {
    steps.get((n % (steps.len() as u64).max(1)) as usize)
}
