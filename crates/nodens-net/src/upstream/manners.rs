//! What a worker has learned of how upstreams treat connections.

use crate::limits::{HANDSHAKE_PAUSE_MAX, HANDSHAKE_PAUSE_MIN, UPSTREAM_ANSWERS_KEPT};
use foldhash::fast::RandomState;
use nodens_core::Now;
use nodens_core::upstream::{Fault, Upstream};
use std::collections::HashMap;
use std::time::Duration;

/// Upstreams by their numbers, as far as there is something to remember.
#[derive(Default)]
pub(super) struct Manners(HashMap<u32, Known, RandomState>);

#[derive(Default)]
struct Known {
    /// How many queries were answered on a connection that was closed then, although more waited there, and
    /// until when that counts.
    answers: Option<(u32, u64)>,
    pause: Option<Pause>,
}

/// No handshake begins after one that failed: each costs both sides far more than a query.
struct Pause {
    length: Duration,
    since: u64,
    until: u64,
    /// How the last one failed.
    text: String,
}

impl Manners {
    /// How many queries may be put on one connection; none if there is no bound.
    pub(super) fn queries_max(&self, upstream: u32, now: Now) -> Option<u32> {
        let (answers, until) = self.0.get(&upstream)?.answers?;
        (now.mono_ns < until).then_some(answers)
    }

    /// The upstream closed a connection on which queries waited, after so many answers.
    pub(super) fn closed(&mut self, upstream: u32, answers: u32, now: Now) {
        let known = self.0.entry(upstream).or_default();
        known.answers = Some((answers, now.plus(UPSTREAM_ANSWERS_KEPT)));
    }

    /// What a query hears that would need another handshake now. As soon as another worker has made a connection
    /// nothing speaks against one more.
    pub(super) fn refusal(&self, upstream: &Upstream, now: Now) -> Option<Fault> {
        let pause = self.0.get(&upstream.id)?.pause.as_ref()?;
        let holds = now.mono_ns < pause.until && !upstream.was_made_since(pause.since);
        holds.then(|| Fault::Connect(pause.text.clone()))
    }

    /// A handshake failed. Of several at the same time the first counts.
    pub(super) fn handshake_failed(&mut self, upstream: u32, text: &str, now: Now) {
        let pause = &mut self.0.entry(upstream).or_default().pause;
        let length = pause.as_ref().map_or(HANDSHAKE_PAUSE_MIN, |last| match last.until {
            until if now.mono_ns < until => last.length,
            _ => (last.length * 2).min(HANDSHAKE_PAUSE_MAX),
        });
        let running = pause.as_ref().map(|last| last.until).filter(|until| now.mono_ns < *until);
        let until = running.unwrap_or_else(|| now.plus(length));
        *pause = Some(Pause { length, since: now.mono_ns, until, text: text.to_owned() });
    }

    /// A connection was made.
    pub(super) fn made(&mut self, upstream: &Upstream, now: Now) {
        upstream.made(now);
        if let Some(known) = self.0.get_mut(&upstream.id) {
            known.pause = None;
        }
    }

    /// Forgets what is too old to count.
    pub(super) fn sweep(&mut self, now: Now) {
        self.0.retain(|_, known| {
            known.answers = known.answers.filter(|(_, until)| now.mono_ns < *until);
            // The length of the next one depends on it for a while.
            let counts = |pause: &Pause| {
                now.mono_ns < pause.until || now.since(pause.until) < HANDSHAKE_PAUSE_MAX * 4
            };
            known.pause = known.pause.take().filter(counts);
            known.answers.is_some() || known.pause.is_some()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_core::ListenerKind;
    use nodens_core::metrics::Registry;
    use nodens_core::upstream::{Key, Settings, Upstreams};
    use std::sync::Arc;

    fn at(ms: u64) -> Now {
        Now { mono_ns: 1_000_000_000 + ms * 1_000_000, ..Now::default() }
    }

    fn upstreams() -> [Arc<Upstream>; 2] {
        let (known, registry) = (Upstreams::default(), Registry::new(1));
        ["192.0.2.1:853", "192.0.2.2:853"].map(|address| {
            let (address, settings) = (address.parse().unwrap(), Settings::default());
            let key = Key { address, kind: ListenerKind::Tls, source: None, tls: None, settings };
            known.get(key, &registry)
        })
    }

    #[test]
    fn pauses_between_handshakes_grow_until_one_succeeds() {
        let ([one, other], mut manners) = (upstreams(), Manners::default());
        let (mut ms, mut pauses) = (0, Vec::new());
        for _ in 0..7 {
            manners.handshake_failed(one.id, "no", at(ms));
            // One that failed at the same time makes it no longer.
            manners.handshake_failed(one.id, "no!", at(ms));
            let until = (ms..).find(|ms| manners.refusal(&one, at(*ms)).is_none()).unwrap();
            assert_eq!(manners.refusal(&one, at(ms)), Some(Fault::Connect("no!".to_owned())));
            assert_eq!(manners.refusal(&other, at(ms)), None);
            pauses.push(until - ms);
            manners.sweep(at(until));
            ms = until;
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1000, 1000]);
        manners.handshake_failed(one.id, "no", at(ms));
        manners.made(&one, at(ms));
        assert_eq!(manners.refusal(&one, at(ms)), None);
        manners.sweep(at(ms));
        assert!(manners.0.is_empty());
    }

    #[test]
    fn a_pause_ends_when_another_worker_has_made_a_connection() {
        let [upstream, _] = upstreams();
        let mut workers = [Manners::default(), Manners::default()];
        workers[0].made(&upstream, at(0));
        workers[1].handshake_failed(upstream.id, "refused", at(1));
        assert!(workers[1].refusal(&upstream, at(10)).is_some());
        workers[0].made(&upstream, at(10));
        assert_eq!(workers[1].refusal(&upstream, at(11)), None);
        // A handshake that fails after it says that there was no use in it.
        workers[1].handshake_failed(upstream.id, "refused", at(12));
        assert!(workers[1].refusal(&upstream, at(13)).is_some());
    }

    #[test]
    fn the_last_close_counts_and_is_forgotten_in_time() {
        let mut manners = Manners::default();
        manners.closed(1, 1, at(0));
        manners.closed(1, 9, at(1));
        assert_eq!(manners.queries_max(1, at(2)), Some(9));
        assert_eq!(manners.queries_max(2, at(2)), None);
        let later = UPSTREAM_ANSWERS_KEPT.as_millis() as u64 + 1;
        assert_eq!(manners.queries_max(1, at(later)), None);
        manners.sweep(at(later));
        assert!(manners.0.is_empty());
    }
}
