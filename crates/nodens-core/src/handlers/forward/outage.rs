//! What is said of upstreams as such: that none answers any more, that one does again, that one
//! answers with what is no message.

use super::attempts::bit;
use super::{Forward, State};
use crate::config::ServerBlock;
use crate::handler::Cx;
use crate::limits::{MALFORMED_SAID_EVERY, ZONES_NAMED_MAX};
use crate::log::Level;
use crate::time::Now;
use crate::upstream::{Carrier, Upstream};
use crate::worker::WorkerState;
use nodens_wire::WireError;
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
    pub(super) fn is_useful(&self, member: usize) -> bool {
        self.malformed & bit(member) == 0
    }

    /// An upstream's reply was malformed. That says something of the query, not of the upstream.
    pub(super) fn note_malformed(&mut self, member: usize) {
        self.failures += 1;
        self.malformed |= bit(member);
    }
}

impl Forward {
    /// All upstreams are down: says so, unless that was said already, by another `forward` perhaps that
    /// asks the same.
    pub(super) fn note_outage(
        &self,
        worker: &WorkerState,
        now: Now,
        block: &ServerBlock,
        carrier: Carrier,
    ) {
        let mut new = false;
        for upstream in &self.upstreams {
            new |= upstream.path(carrier).say_down(now.mono_ns);
        }
        if !new {
            return;
        }
        let upstreams: Vec<&str> = self.upstreams.iter().map(|one| one.name.as_str()).collect();
        let (zones, upstreams) = (self.zones(block), upstreams.join(", "));
        let text = format!(
            "all upstreams for {zones} are down over {}: {upstreams}; answering SERVFAIL for uncached names until one recovers",
            carrier.name()
        );
        worker.sink.line(Level::Error, "forward", text);
    }

    /// An upstream answered with a malformed message: counts it, and says so now and then.
    pub(super) fn note_malformed(&self, cx: &mut Cx<'_>, upstream: &Upstream, error: WireError) {
        let name = &upstream.name;
        cx.job.error = format!("reply from {name} is malformed: {error}");
        let worker = &mut *cx.worker;
        worker.cells.add(upstream.series.malformed(), 1);
        if !worker.own.malformed.is_over(cx.now, MALFORMED_SAID_EVERY) {
            return;
        }
        let q = &cx.job.current;
        let text = format!("upstream {name} failed: reply to {} {} is malformed: {error}", q.qname, q.qtype);
        worker.sink.line(Level::Warning, "forward", text);
    }

    /// This upstream is not down: says so if it was said to be.
    pub(super) fn note_recovery(
        worker: &WorkerState,
        now: Now,
        upstream: &Upstream,
        carrier: Carrier,
    ) {
        let Some(since) = upstream.path(carrier).say_up() else { return };
        let (name, carrier, took) = (&upstream.name, carrier.name(), now.since(since));
        let text = format!("upstream {name} has recovered over {carrier} after {took:.1?}");
        worker.sink.line(Level::Info, "forward", text);
    }

    /// The zones whose questions are passed on, as far as they have room in a line.
    fn zones(&self, block: &ServerBlock) -> String {
        if !self.from.view().is_root() {
            return self.from.to_string();
        }
        let named = block.zones.iter().take(ZONES_NAMED_MAX);
        let mut text = named.map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if block.zones.len() > ZONES_NAMED_MAX {
            text += " and others";
        }
        text
    }
}
