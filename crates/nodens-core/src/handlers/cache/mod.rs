//! `cache`: keeps answers in wire form and serves them again, fresh and, if asked to, stale.

use crate::cache::Refresh;
use crate::cache::entry::{self, Entry, Kind, View};
use crate::cache::key::{KeyBits, KeyOctets};
use crate::cache::store::{Found, Lease};
use crate::config::{BlockBuilder, Config};
use crate::handler::{Cx, Event, Handle, Resolution, Searches, Spec, Step};
use crate::handlers::Handler;
use crate::job::Recipient;
use crate::limits::CACHE_MEMORY_DEFAULT;
use crate::shared::Shared;
use crate::time::Now;
use crate::worker::WorkerState;
use config::Options;
use intake::Fate;
use metrics::Counters;
use nodens_corefile::{Directive, Error};
use nodens_wire::edns::{self, extended_error};
use nodens_wire::{Flags, NameRef, Opcode, Rcode};
use std::sync::Arc;
use std::time::Duration;

mod classify;
mod config;
mod intake;
mod metrics;
mod query;
mod refreshes;
mod subnet;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec {
    chain_complete: Some(pass_over),
    complete: Some(set_budget),
    ..Spec::new("cache", setup)
};

/// The directive at work.
#[derive(Debug)]
pub struct Cache {
    options: Options,
    lease: Arc<Lease>,
    counters: Counters,
}

/// Reads the directive.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    if block.handlers.iter().any(|handler| matches!(handler, Handler::Cache(_))) {
        return Err(directive.invalid("this plugin can only be used once per Server Block"));
    }
    let options = config::parse(directive, &block.zones)?;
    let counters = Counters::register(block, &options.zones);
    let stale_s = options.stale.map_or(0, |stale| stale.window_s);
    let lease = block.shared.cache.lease(block.fingerprint, stale_s, counters.evictions);
    metrics::register_gauges(block, &options.zones, &lease);
    block.push(Cache { options, lease, counters });
    Ok(())
}

/// What a directive asks for as memory, if it does: for who has to know before all directives are read.
pub fn memory_in(directive: &Directive) -> Option<usize> {
    let mut lines = directive.lines().iter().filter(|line| line.name.text == "memory");
    lines.next_back().and_then(|line| config::parse_size(line.args().first()?).ok())
}

/// Passes over zones behind it whose answers change at any time.
fn pass_over(block: &mut BlockBuilder<'_>) {
    let live = &block.settings.live;
    let caches = block.handlers.iter_mut().filter(|_| !live.is_empty());
    for handler in caches {
        if let Handler::Cache(cache) = handler {
            cache.options.pass_over(live.clone());
        }
    }
}

/// Sets the budget of the cache, which all blocks share: the most that any of them asks for.
fn set_budget(config: &mut Config, shared: &Shared) {
    let handlers = config.blocks.iter().flat_map(|block| &block.handlers);
    let asked = handlers.filter_map(|handler| match handler {
        Handler::Cache(cache) => cache.options.memory,
        _ => None,
    });
    config.cache_memory = asked.max();
    shared.cache.set_budget(config.cache_memory.unwrap_or(CACHE_MEMORY_DEFAULT));
}

impl Cache {
    /// How long after its expiry an answer may be served.
    pub(crate) fn stale_window(&self) -> Duration {
        let window_s = self.options.stale.map_or(0, |stale| stale.window_s);
        Duration::from_secs(window_s.into())
    }
}

/// What the handler remembers while a question is under way.
#[derive(Debug, Default)]
pub struct State {
    phase: Phase,
    /// What may be taken from the cache and put there.
    pub(crate) reading: Reading,
    /// Where the handler is in its chain.
    position: usize,
    /// The bits of the key.
    bits: KeyBits,
    /// The client set AD, which upstreams always see set.
    client_ad: bool,
    /// What to serve if nothing better comes.
    fallback: Option<Entry>,
    /// The refresh that this resolution does.
    refresh: Option<Refresh>,
    ttls_at: Vec<u16>,
}

/// What a handler in front allows the cache to do with a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reading {
    /// What it does with any.
    #[default]
    All,
    /// Nothing that says that the name does not exist: the name is new.
    NoDenials,
    /// Nothing: the servers themselves are to be heard.
    Nothing,
}

/// Why the question went on behind the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// It did not, or the cache is not concerned.
    #[default]
    Idle,
    /// Nothing was found.
    Miss,
    /// The answer may be for this client alone.
    Unshared,
    /// Something stale was found and the upstream is asked first.
    Verify,
    /// Something popular is about to expire.
    Prefetch,
    /// Something stale was served.
    StaleRefresh,
}

impl Phase {
    /// Whether there is something stale.
    fn follows_expiry(self) -> bool {
        matches!(self, Self::Verify | Self::StaleRefresh)
    }
}

impl State {
    /// Forgets everything but buffers.
    #[inline]
    pub fn clear(&mut self) {
        self.phase = Phase::Idle;
        self.reading = Reading::All;
        if self.fallback.is_some() || self.refresh.is_some() {
            self.let_go();
        }
    }

    #[cold]
    fn let_go(&mut self) {
        (self.fallback, self.refresh) = (None, None);
    }

    /// Octets of memory that its buffer has.
    pub(crate) fn octets(&self) -> usize {
        self.ttls_at.capacity() * size_of::<u16>()
    }

    /// Whether a client that has waited long enough can be given something.
    pub(crate) fn has_fallback(&self) -> bool {
        self.phase == Phase::Verify && self.fallback.is_some()
    }

    /// Where the handler is in its chain.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// The state for the client's part of a resolution that goes on without it.
    pub(crate) fn part(&mut self) -> Self {
        self.phase = Phase::StaleRefresh;
        Self {
            bits: self.bits,
            client_ad: self.client_ad,
            fallback: self.fallback.take(),
            ..Self::default()
        }
    }
}

impl Handle for Cache {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let q = &mut cx.job.current;
        let reading = q.state.cache.reading;
        if q.flags.opcode() != Opcode::QUERY
            || !self.options.serves(q.qname.view())
            || reading == Reading::Nothing
        {
            return Step::Next;
        }
        if !self.options.forward_subnet {
            subnet::strip(cx.job);
        }
        let is_shared = !query::says_more(cx.job);
        let q = &mut cx.job.current;
        q.state.cache.bits = KeyBits::new(q.dnssec_ok(), q.flags);
        let Some(octets) = KeyOctets::new(q.qname.view(), subnet::of(&q.edns)) else {
            return Step::Next;
        };
        cx.worker.cells.add(self.counters.requests, 1);
        if !is_shared {
            cx.worker.cells.add(self.counters.misses, 1);
            return pass_on(&mut cx.job.current, Phase::Unshared);
        }
        let key = octets.key(q.qtype, q.qclass, q.state.cache.bits);
        let (store, scope) = (&cx.worker.shared.cache, self.lease.scope());
        let hash = store.hash(scope, &key);
        match store.find(scope, &key, hash, self.enough(), |view| self.rank(view, reading, cx.now)) {
            Some(found) => self.hit(cx, &found),
            None => {
                cx.worker.cells.add(self.counters.misses, 1);
                pass_on_shared(cx, Phase::Miss)
            }
        }
    }

    fn searches(&self, name: NameRef<'_>) -> Searches {
        if self.options.serves(name) { Searches::Cached } else { Searches::Nothing }
    }

    /// The client has waited long enough for something newer.
    fn resumed(&self, cx: &mut Cx<'_>, _event: Event<'_>) -> Step {
        let Some(entry) = cx.job.current.state.cache.fallback.take() else {
            return Step::Fail(Rcode::SERVFAIL);
        };
        let q = &mut cx.job.current;
        q.flags = q.flags.with(Flags::AD, q.state.cache.client_ad);
        self.serve(q, entry::view(&entry), cx.now, cx.worker);
        Step::Answered
    }

    fn amend(&self, cx: &mut Cx<'_>) {
        // A client that waits for datagrams asks again over TCP for what is truncated.
        let takes_cut = match cx.job.recipient {
            Recipient::Client(client) => client.transport.is_datagram(),
            Recipient::Nobody(_) => false,
        };
        let q = &mut cx.job.current;
        let phase = std::mem::take(&mut q.state.cache.phase);
        if phase == Phase::Idle {
            return;
        }
        q.flags = q.flags.with(Flags::AD, q.state.cache.client_ad);
        let (refresh, fallback) = (q.state.cache.refresh.take(), q.state.cache.fallback.take());
        let hits = refresh.as_ref().map_or(0, Refresh::hits);
        let fate = if q.response.written {
            self.take_in(q, phase, takes_cut, hits, cx.now, cx.worker)
        } else {
            if phase == Phase::Miss && cx.job.abandoned.is_none() {
                self.note_failure(q, cx.now, cx.worker);
            }
            Fate::Dropped
        };
        let old = refresh.as_ref().and_then(Refresh::entry).or(fallback.as_ref());
        if let (true, Fate::Accepted, Some(old)) = (phase.follows_expiry(), fate, old) {
            // It is still there if what came is nothing to keep.
            cx.worker.shared.cache.discard(old);
        }
        if let Some(refresh) = refresh {
            // Where the entry is still there after it was prefetched, nothing came to keep.
            refresh.finish(cx.now, fate != Fate::Dropped && phase != Phase::Prefetch);
        }
        if let (Phase::Verify, Fate::Dropped, Some(entry)) = (phase, fate, fallback) {
            q.response.options.clear();
            self.serve(q, entry::view(&entry), cx.now, cx.worker);
            cx.job.error.clear();
        }
    }
}

/// On the way down; `refreshes.rs` asks again, `intake.rs` is the way back.
impl Cache {
    /// Which of the entries for a question is served: what can be served at all, good answers
    /// before failures. There is a success beside a denial only under `prefer_positive`.
    fn rank(&self, view: View<'_>, reading: Reading, now: Now) -> u8 {
        match view.kind() {
            _ if !view.is_servable(now) => 0,
            _ if reading == Reading::NoDenials && view.flags().rcode() == Rcode::NXDOMAIN => 0,
            Kind::Success => 4,
            Kind::Denial => 3,
            Kind::Hollow => 2,
            Kind::Failure => 1,
        }
    }

    /// The rank above which nothing better is to be expected.
    fn enough(&self) -> u8 {
        if self.options.prefers_positive() { 4 } else { 3 }
    }

    fn hit(&self, cx: &mut Cx<'_>, found: &Found) -> Step {
        let Some(view) = found.view() else { return Step::Next };
        cx.worker.cells.add(self.counters.hits(view.kind()), 1);
        view.visit();
        match self.options.stale {
            Some(stale) if view.is_expired(cx.now) => {
                if stale.verify && self.verify(cx, found, stale) {
                    return pass_on_shared(cx, Phase::Verify);
                }
                if !stale.verify {
                    self.refresh(cx, found, Phase::StaleRefresh);
                }
            }
            _ if self.is_due(view, cx.now) => self.refresh(cx, found, Phase::Prefetch),
            _ => {}
        }
        self.serve(&mut cx.job.current, view, cx.now, cx.worker);
        Step::Answered
    }

    /// Whether a fresh entry is popular and near its end. Counts the question.
    fn is_due(&self, view: View<'_>, now: Now) -> bool {
        let Some(prefetch) = self.options.prefetch else { return false };
        let hits = view.count(now, prefetch.gap, prefetch.amount);
        let threshold = (u64::from(prefetch.percentage) * u64::from(view.ttl_s())).div_ceil(100);
        hits >= prefetch.amount && u64::from(view.remaining_s(now)) <= threshold
    }

    /// Writes the response from an entry.
    fn serve(&self, q: &mut Resolution, view: View<'_>, now: Now, worker: &WorkerState) {
        let expired = view.is_expired(now);
        let stale_ttl_s = self.options.stale.map_or(0, |stale| stale.ttl_s);
        let ttl_s = match (expired, self.options.keep_ttl) {
            (true, _) if stale_ttl_s > 0 => stale_ttl_s,
            (_, true) => view.ttl_s(),
            (_, false) => view.remaining_s(now),
        };
        let wants_ad = q.state.cache.bits.dnssec_ok() || q.flags.has(Flags::AD);
        let flags = Flags(q.flags.reply().0 | view.flags().0);
        let flags = flags.with(Flags::AD, flags.has(Flags::AD) && wants_ad);
        view.write(q.qname.as_wire(), flags, ttl_s, &mut q.response.wire);
        q.response.rcode = flags.rcode();
        q.response.traits = view.traits();
        q.response.written = true;
        if expired {
            worker.cells.add(self.counters.served_stale, 1);
            let info = match flags.rcode() {
                Rcode::NXDOMAIN => extended_error::STALE_NXDOMAIN,
                _ => extended_error::STALE_ANSWER,
            };
            let options = &mut q.response.options;
            edns::push_option(options, edns::code::EXTENDED_ERROR, &info.to_be_bytes());
        }
    }
}

/// Lets the next handler answer a question whose response may be stored.
fn pass_on_shared(cx: &mut Cx<'_>, phase: Phase) -> Step {
    query::say_the_same(cx.job, cx.block.settings.udp_size_max);
    pass_on(&mut cx.job.current, phase)
}

/// Lets the next handler answer; AD asks the upstream for the AD bit (RFC 6840 section 5.7).
fn pass_on(q: &mut Resolution, phase: Phase) -> Step {
    q.state.cache.phase = phase;
    q.state.cache.position = q.position;
    q.state.cache.client_ad = q.flags.has(Flags::AD);
    query::clear_unshared_bits(q);
    q.flags = q.flags.with(Flags::AD, true);
    Step::Next
}
