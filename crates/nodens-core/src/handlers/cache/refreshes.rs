//! Asking again for what is cached, before a stale answer is served or behind the client's back.

use super::config::Stale;
use super::{Cache, Phase, query};
use crate::cache::{Refresh, entry};
use crate::cache::store::Found;
use crate::handler::{Cx, Job, Resolution};
use crate::job::Transport;
use crate::limits::{PREFETCH_PAUSE_MIN, PREFETCH_PAUSE_SHARE};
use crate::worker::Background;
use nodens_wire::Flags;
use std::time::Duration;

impl Cache {
    /// Prepares to ask the upstream before something stale is served; false if another question
    /// does so already or it is too early after a failure.
    pub(super) fn verify(&self, cx: &mut Cx<'_>, found: &Found, stale: Stale) -> bool {
        let Some(entry) = found.keep() else { return false };
        if !stale.recheck.is_zero() || !stale.timeout.is_zero() {
            match Refresh::begin(entry.clone(), cx.now, stale.recheck) {
                Some(refresh) => cx.job.current.state.cache.refresh = Some(refresh),
                None => return false,
            }
        }
        cx.job.current.state.cache.fallback = Some(entry);
        if !stale.timeout.is_zero() {
            cx.worker.set_client_timer(cx.job, cx.now.plus(stale.timeout));
        }
        true
    }

    /// Asks again behind the client's back, unless that is being done.
    pub(super) fn refresh(&self, cx: &mut Cx<'_>, found: &Found, phase: Phase) {
        let Some(entry) = found.keep() else { return };
        let recheck = match (phase, self.options.stale) {
            (Phase::Prefetch, _) => pause(entry::view(&entry).remaining_s(cx.now)),
            (_, Some(stale)) => stale.recheck,
            (_, None) => Duration::ZERO,
        };
        let Some(refresh) = Refresh::begin(entry, cx.now, recheck) else { return };
        cx.worker.cells.add(self.counters.prefetches, 1);
        query::say_the_same(cx.job, cx.block.settings.udp_size_max);
        cx.worker.background.push(background(cx.job, phase, refresh));
    }
}

/// How long not to prefetch again what has `left_s` seconds left, if that brought nothing new: the more popular an
/// answer is, the more queries an upstream that fails would get for it.
fn pause(left_s: u32) -> Duration {
    PREFETCH_PAUSE_MIN.max(Duration::from_secs(left_s.into()) / PREFETCH_PAUSE_SHARE)
}

/// The question of `job` once more, from here on. It is asked over UDP whatever the client uses, as not every upstream
/// takes TCP; `forward` asks again over TCP for what is truncated.
fn background(job: &Job, phase: Phase, refresh: Refresh) -> Background {
    let q = &job.current;
    let mut resolution = Resolution::default();
    let flags = q.flags.with(Flags::AD, true);
    resolution.begin(q.qname.view(), q.qtype, q.qclass, flags);
    resolution.edns.clone_from(&q.edns);
    query::clear_unshared_bits(&mut resolution);
    (resolution.block, resolution.zone) = (q.block, q.zone);
    resolution.position = q.position;
    resolution.state.cache.phase = phase;
    resolution.state.cache.bits = q.state.cache.bits;
    resolution.state.cache.client_ad = true;
    resolution.state.cache.refresh = Some(refresh);
    let mut client = *job.client();
    client.transport = Transport::Udp;
    Background { client, request: job.request.clone(), query: job.query.clone(), resolution }
}
