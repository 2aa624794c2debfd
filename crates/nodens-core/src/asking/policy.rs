//! In which order upstreams are asked.

use crate::limits::UPSTREAMS_PER_FORWARD_MAX;
use crate::upstream::{Carrier, Upstream};
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// One question in this many goes to a random upstream first under [`Policy::Rtt`], so that an
/// upstream that got faster is noticed.
const EXPLORE_EVERY: u32 = 32;
/// What is believed of an upstream that was never asked: fast, so that it gets asked.
const UNKNOWN: Duration = Duration::ZERO;

/// `policy`.
#[derive(Debug)]
pub enum Policy {
    /// Any order, anew for each question.
    Random,
    /// Each question begins one further.
    RoundRobin(AtomicUsize),
    /// Always as in the Corefile.
    Sequential,
    /// The fastest first, as far as its answer times and questions under way tell.
    Rtt,
}

/// Indexes of upstreams in the order in which to ask them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    members: [u8; UPSTREAMS_PER_FORWARD_MAX],
    len: usize,
}

impl Default for Order {
    fn default() -> Self {
        Self { members: [0; UPSTREAMS_PER_FORWARD_MAX], len: 0 }
    }
}

impl Order {
    /// The `n`-th to ask; begins again after the last. `None` only if there are none at all.
    pub fn get(&self, n: usize) -> Option<usize> {
        self.as_slice().get(n.checked_rem(self.len)?).map(|member| usize::from(*member))
    }

    /// In order.
    pub fn as_slice(&self) -> &[u8] {
        self.members.get(..self.len).unwrap_or_default()
    }

    fn as_mut(&mut self) -> &mut [u8] {
        self.members.get_mut(..self.len).unwrap_or_default()
    }
}

impl Policy {
    /// The order for one question. If `wary`, suspect upstreams come last; under [`Policy::Sequential`] those that have
    /// failed, as one that is only late is to answer before others are asked.
    pub fn order(
        &self,
        upstreams: &[Arc<Upstream>],
        carrier: Carrier,
        wary: bool,
        rng: &mut Rng,
    ) -> Order {
        let len = upstreams.len().min(UPSTREAMS_PER_FORWARD_MAX);
        let mut order = Order { members: std::array::from_fn(|n| n as u8), len };
        if len < 2 {
            return order;
        }
        match self {
            Self::Sequential => {}
            Self::Random => rng.shuffle(order.as_mut()),
            Self::RoundRobin(turn) => {
                // CoreDNS begins with the second, and keeps the others in their order.
                let first = turn.fetch_add(1, Ordering::Relaxed).wrapping_add(1) % len;
                if let Some(head) = order.as_mut().get_mut(..=first) {
                    head.rotate_right(1);
                }
            }
            Self::Rtt => by_rtt(&mut order, upstreams, carrier, rng),
        }
        if wary {
            let is_last = |member: &u8| {
                let path = upstreams.get(usize::from(*member)).map(|own| own.path(carrier));
                path.is_some_and(|path| match self {
                    Self::Sequential => path.has_failed(),
                    _ => path.is_suspect(),
                })
            };
            order.as_mut().sort_by_key(is_last);
        }
        order
    }
}

fn by_rtt(order: &mut Order, upstreams: &[Arc<Upstream>], carrier: Carrier, rng: &mut Rng) {
    // Ties, such as several that were never asked, are broken at random.
    rng.shuffle(order.as_mut());
    if rng.u32(..EXPLORE_EVERY) == 0 {
        return;
    }
    order.as_mut().sort_by_key(|member| {
        let path = upstreams.get(usize::from(*member)).map(|upstream| upstream.path(carrier));
        path.map(|path| {
            // 64 questions under way count as much as the answer time once more.
            path.smoothed().unwrap_or(UNKNOWN) * (64 + path.in_flight().min(1024)) / 64
        })
    });
}
