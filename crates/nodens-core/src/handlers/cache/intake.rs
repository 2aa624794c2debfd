//! What becomes of a response on its way back through the cache.

use super::classify::{Question, Reply, assess, is_dnssec_ok};
use crate::cache::entry::{self, Facts, Kind, View};
use crate::cache::key::{Key, KeyOctets};
use crate::cache::store::Scope;
use super::{Cache, Phase, Reading, subnet};
use crate::handler::Resolution;
use crate::kind::Kind as ResponseKind;
use crate::time::Now;
use crate::worker::WorkerState;
use nodens_wire::shape::shape;
use nodens_wire::{Flags, MESSAGE_LEN_MAX, NameRef, Rcode};

/// The TTL of responses that have none of their own: those without records, and referrals.
const TTL_DEFAULT_S: u32 = 5;

/// What becomes of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// A stale answer is better, and is served in its place.
    Dropped,
    /// The client gets it, and what is stale stays.
    PassedOn,
    /// It takes the place of what is stale.
    Accepted,
}

impl Cache {
    /// Looks at what was answered behind the cache: gives all its records the TTL that the cache
    /// gives them, and stores it. With `takes_cut`, the client has a use for a truncated response.
    pub(super) fn take_in(
        &self,
        q: &mut Resolution,
        phase: Phase,
        takes_cut: bool,
        hits: u64,
        now: Now,
        worker: &mut WorkerState,
    ) -> Fate {
        let rcode = q.response.rcode;
        let signed = q.state.cache.bits.dnssec_ok() && is_dnssec_ok(&q.response.wire);
        let signed_until = signed.then_some(now.unix_s);
        let question =
            Question { qname: q.qname.view(), qtype: q.qtype, qclass: q.qclass };
        let reply = shape(&mut q.response.wire, rcode, None, MESSAGE_LEN_MAX).and_then(|()| {
            assess(&q.response.wire, rcode, question, signed_until, &mut q.state.cache.ttls_at)
        });
        let Ok(reply) = reply else {
            worker.cells.add(self.counters.drops, 1);
            return Fate::Dropped;
        };
        let ttl_s = self.ttl_s(&reply);
        set_ttls(&mut q.response.wire, &q.state.cache.ttls_at, ttl_s);
        let accepted = self.is_acceptable(&reply, rcode, phase);
        let is_unwanted = q.state.cache.reading == Reading::NoDenials && rcode == Rcode::NXDOMAIN;
        let is_kept = phase != Phase::Unshared && !is_unwanted;
        if reply.is_cacheable && ttl_s > 0 && !q.response.live && is_kept {
            if !reply.is_matching {
                worker.cells.add(self.counters.drops, 1);
            } else if accepted || self.options.prefers_positive() {
                // What is there when something is refreshed may be what is to be replaced.
                q.response.handed_on &= phase == Phase::Miss;
                self.store(q, &reply, ttl_s, if accepted { hits } else { 0 }, now, worker);
            }
        }
        if !q.state.cache.bits.dnssec_ok() && !q.state.cache.client_ad {
            let flags = q.response.flags();
            q.response.set_flags(flags.with(Flags::AD, false));
        }
        match accepted {
            // What `is_unwanted` is not believed.
            true if !is_unwanted => Fate::Accepted,
            true => Fate::PassedOn,
            false if takes_cut && is_cut_answer(&reply, rcode) => Fate::PassedOn,
            false => Fate::Dropped,
        }
    }

    /// How long the reply may be kept.
    fn ttl_s(&self, reply: &Reply) -> u32 {
        let [success, denial] = &self.options.classes;
        let (class, own) = match reply.kind {
            ResponseKind::ServerError => {
                return u32::try_from(self.options.failure_ttl.as_secs()).unwrap_or(u32::MAX);
            }
            // The lesser of the SOA record's TTL and its MINIMUM counts (RFC 2308 section 5).
            ResponseKind::NameError | ResponseKind::NoData => {
                (denial, reply.ttl_min_s.map(|ttl_s| ttl_s.min(reply.soa_minimum_s)))
            }
            ResponseKind::NoError => (success, reply.ttl_min_s),
            _ => (success, None),
        };
        own.unwrap_or(TTL_DEFAULT_S).max(class.ttl_min_s).min(class.ttl_max_s)
    }

    /// Whether the reply may take the place of what is stale (RFC 8767 section 4): a failure may
    /// not. Where nothing is stale, everything may.
    fn is_acceptable(&self, reply: &Reply, rcode: Rcode, phase: Phase) -> bool {
        if !phase.follows_expiry() {
            return true;
        }
        let whole = reply.is_matching && !reply.is_truncated;
        if self.options.prefers_positive() {
            return whole && reply.kind == ResponseKind::NoError && reply.is_answering;
        }
        // NXDOMAIN with an alias says that its target does not exist (RFC 2308 section 2.1).
        let is_error = match reply.kind {
            ResponseKind::OtherError => !reply.denies_target,
            kind => kind == ResponseKind::Meta,
        };
        whole && is_definite(rcode) && !is_error
    }

    fn store(
        &self,
        q: &mut Resolution,
        reply: &Reply,
        ttl_s: u32,
        hits: u64,
        now: Now,
        worker: &mut WorkerState,
    ) {
        let kind = match reply.kind {
            ResponseKind::NameError | ResponseKind::NoData => Kind::Denial,
            ResponseKind::ServerError => Kind::Failure,
            _ if self.options.prefers_positive() && !reply.is_answering => Kind::Hollow,
            _ => Kind::Success,
        };
        let flags = q.response.flags();
        let facts = Facts {
            message: &q.response.wire,
            records_at: reply.records_at,
            counts: reply.counts,
            ttls_at: &q.state.cache.ttls_at,
            flags,
            optional_extras: q.response.traits.optional_extras,
            kind,
            ttl_s,
            hits,
        };
        let (bits, qname) = (q.state.cache.bits, q.qname.view());
        let subnet = subnet::of(&q.edns);
        let Some(octets) = KeyOctets::new(qname, subnet) else { return };
        let key = octets.key(q.qtype, q.qclass, bits);
        if q.response.handed_on && self.has(&key, kind, now, worker) {
            return;
        }
        self.insert(qname, &key, &facts, now, worker);
    }

    /// Whether there is a fresh entry of `kind` for `key`.
    fn has(&self, key: &Key<'_>, kind: Kind, now: Now, worker: &WorkerState) -> bool {
        let (store, scope) = (&worker.shared.cache, self.lease.scope());
        let rank = |view: View<'_>| u8::from(view.kind() == kind && !view.is_expired(now));
        store.find(scope, key, store.hash(scope, key), 1, rank).is_some()
    }

    /// Remembers for a short time that there was no response at all.
    pub(super) fn note_failure(&self, q: &mut Resolution, now: Now, worker: &mut WorkerState) {
        let ttl_s = u32::try_from(self.options.failure_ttl.as_secs()).unwrap_or(u32::MAX);
        if q.response.rcode != Rcode::SERVFAIL || ttl_s == 0 || q.response.live {
            return;
        }
        let facts = Facts {
            message: &[],
            records_at: 0,
            counts: [0; 3],
            ttls_at: &[],
            flags: Flags::default().with_rcode(Rcode::SERVFAIL),
            optional_extras: false,
            kind: Kind::Failure,
            ttl_s,
            hits: 0,
        };
        let qname = q.qname.view();
        let Some(octets) = KeyOctets::new(qname, subnet::of(&q.edns)) else { return };
        let key = octets.key(q.qtype, q.qclass, q.state.cache.bits);
        self.insert(qname, &key, &facts, now, worker);
    }

    fn insert(
        &self,
        qname: NameRef<'_>,
        key: &Key<'_>,
        facts: &Facts<'_>,
        now: Now,
        worker: &mut WorkerState,
    ) {
        let kind = facts.kind;
        let class = self.options.class(kind.class());
        if !class.keeps(qname) {
            return;
        }
        let entry = entry::make(self.lease.scope(), key, facts, now, &mut worker.scratch);
        let keeps_positive = self.options.prefers_positive();
        let replaces = |old: Kind| match kind {
            Kind::Success => true,
            Kind::Denial | Kind::Hollow => old != Kind::Success || !keeps_positive,
            Kind::Failure => false,
        };
        let mut evicted = |scope: &Scope, class: usize| {
            if let Some(counter) = scope.evictions.get(class) {
                worker.cells.add(*counter, 1);
            }
        };
        worker.shared.cache.insert(entry, now, replaces, class.capacity, &mut evicted);
    }
}

/// The RCODEs of answers that may replace what is stale (RFC 8767 section 4).
fn is_definite(rcode: Rcode) -> bool {
    matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN)
}

/// Whether it would replace what is stale, most likely, if it were whole.
fn is_cut_answer(reply: &Reply, rcode: Rcode) -> bool {
    reply.is_truncated && reply.is_matching && is_definite(rcode)
}

fn set_ttls(wire: &mut [u8], ttls_at: &[u16], ttl_s: u32) {
    for at in ttls_at {
        let at = usize::from(*at);
        if let Some(ttl) = wire.get_mut(at..at + 4) {
            ttl.copy_from_slice(&ttl_s.to_be_bytes());
        }
    }
}
