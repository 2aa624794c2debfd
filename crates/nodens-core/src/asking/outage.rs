//! What is said of upstreams as such: that none answers any more, that one does again, that one
//! answers with what is no message.

use super::attempts::{Answered, bit};
use super::{Asking, Parts, Query, State};
use crate::limits::MALFORMED_SAID_EVERY;
use crate::log::Level;
use crate::time::Now;
use crate::upstream::{Carrier, Upstream};
use nodens_wire::{Name, Type, WireError};
use std::time::Duration;

/// When something was said last that must not be said for every question.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    said_at_ns: u64,
}

impl Pause {
    /// Whether it may be said now; it counts as said then.
    fn is_over(&mut self, now: Now, every: Duration) -> bool {
        let over = now.since(self.said_at_ns) >= every;
        if over {
            self.said_at_ns = now.mono_ns;
        }
        over
    }
}

impl State {
    /// Whether asking an upstream, once more perhaps, may bring an answer.
    pub(crate) fn is_useful(&self, member: usize) -> bool {
        self.malformed & bit(member) == 0
    }

    /// An upstream's reply was malformed. That says something of the query, not of the upstream.
    pub(crate) fn note_malformed(&mut self, member: usize) {
        self.failures += 1;
        self.malformed |= bit(member);
    }
}

impl Asking {
    /// All upstreams are down: says so, unless that was said already, by another [`Asking`] perhaps that
    /// asks the same.
    pub(crate) fn note_outage(&self, worker: &Parts, now: Now, carrier: Carrier) {
        let mut new = false;
        for upstream in &self.upstreams {
            new |= upstream.path(carrier).say_down(now.mono_ns);
        }
        if !new {
            return;
        }
        let upstreams: Vec<&str> = self.upstreams.iter().map(|one| one.name.as_str()).collect();
        let (zones, upstreams) = (&self.zones, upstreams.join(", "));
        let mut over: Vec<_> =
            self.upstreams.iter().map(|one| one.carrier(carrier).proto()).collect();
        over.sort_unstable();
        over.dedup();
        let over = over.join(", ");
        let text = format!(
            "all upstreams for {zones} are down over {over}: {upstreams}; answering SERVFAIL for uncached names until one recovers"
        );
        worker.sink.line(Level::Error, self.origin, text);
    }

    /// An upstream answered the query of this question with a malformed message: counts it, and says so
    /// now and then.
    pub(crate) fn note_malformed(
        &self,
        q: &mut Query<'_>,
        (qname, qtype): (&Name, Type),
        answered: &Answered,
        error: WireError,
    ) {
        let upstream = &answered.upstream;
        let name = &upstream.name;
        *q.error = format!("reply from {name} is malformed: {error}");
        q.state.note_malformed(answered.member);
        let worker = &mut *q.worker;
        worker.cells.add(upstream.series.malformed(), 1);
        if !worker.malformed.is_over(q.now, MALFORMED_SAID_EVERY) {
            return;
        }
        let text =
            format!("upstream {name} failed: reply to {qname} {qtype} is malformed: {error}");
        worker.sink.line(Level::Warning, self.origin, text);
    }

    /// This upstream is not down: says so if it was said to be.
    pub(crate) fn note_recovery(
        &self,
        worker: &Parts,
        now: Now,
        upstream: &Upstream,
        carrier: Carrier,
    ) {
        let Some(since) = upstream.path(carrier).say_up() else { return };
        let (name, took) = (&upstream.name, now.since(since));
        let carrier = upstream.carrier(carrier).proto();
        let text = format!("upstream {name} has recovered over {carrier} after {took:.1?}");
        worker.sink.line(Level::Info, self.origin, text);
    }
}
