//! Datagrams without a header that follow one with a header, from the same address of a proxy.

use super::Proxied;
use crate::limits::{PROXY_SESSION_TLVS_MAX, PROXY_SESSIONS_DEFAULT, PROXY_SESSIONS_MAX};
use lru::LruCache;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The sessions of a server, for all workers: which of them reads a datagram is the kernel's choice.
#[derive(Debug)]
pub(super) struct Sessions {
    /// How long one lasts after its last datagram.
    time: Duration,
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    /// By the proxy's address.
    sessions: LruCache<SocketAddr, Session>,
    /// Octets of all their TLVs.
    tlvs: usize,
}

#[derive(Debug)]
struct Session {
    proxied: Proxied,
    until_ns: u64,
}

impl Session {
    fn tlvs(&self) -> usize {
        self.proxied.tlvs.as_ref().map_or(0, |tlvs| tlvs.len())
    }
}

impl Kept {
    /// Drops sessions whose time is over until there is room for so many octets of TLVs.
    fn make_room_for(&mut self, tlvs: usize, now_ns: u64) {
        let is_over = |session: &Session| session.until_ns <= now_ns;
        while self.tlvs + tlvs > PROXY_SESSION_TLVS_MAX
            && self.sessions.peek_lru().is_some_and(|(_, session)| is_over(session))
            && let Some((_, old)) = self.sessions.pop_lru()
        {
            self.tlvs -= old.tlvs();
        }
    }
}

impl Sessions {
    pub(super) fn new(time: Duration, max: Option<usize>) -> Self {
        let max = max.unwrap_or(PROXY_SESSIONS_DEFAULT).min(PROXY_SESSIONS_MAX);
        let max = NonZeroUsize::new(max).unwrap_or(NonZeroUsize::MIN);
        // The table grows with what is in it.
        let mut sessions = LruCache::unbounded();
        sessions.resize(max);
        Self { time, kept: Mutex::new(Kept { sessions, tlvs: 0 }) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn until(&self, now_ns: u64) -> u64 {
        now_ns.saturating_add(u64::try_from(self.time.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Datagrams from `peer` are the client's of `proxied` from now on.
    pub(super) fn keep(&self, now_ns: u64, peer: SocketAddr, proxied: Proxied) {
        let mut session = Session { proxied, until_ns: self.until(now_ns) };
        let mut kept = self.kept();
        kept.make_room_for(session.tlvs(), now_ns);
        if kept.tlvs + session.tlvs() > PROXY_SESSION_TLVS_MAX {
            // Without its addresses its datagrams would be the proxy's own.
            session.proxied.tlvs = None;
        }
        kept.tlvs += session.tlvs();
        // What it takes the place of: that of the same address, or the one not used for longest.
        if let Some((_, old)) = kept.sessions.push(peer, session) {
            kept.tlvs -= old.tlvs();
        }
    }

    /// Whose datagrams come from `peer`; the session lasts anew.
    pub(super) fn find(&self, now_ns: u64, peer: SocketAddr) -> Option<Proxied> {
        let until_ns = self.until(now_ns);
        let mut kept = self.kept();
        let session = kept.sessions.get_mut(&peer)?;
        if session.until_ns <= now_ns {
            let old = kept.sessions.pop(&peer)?;
            kept.tlvs -= old.tlvs();
            return None;
        }
        session.until_ns = until_ns;
        Some(session.proxied.clone())
    }

    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        let kept = self.kept();
        let tlvs = kept.sessions.iter().map(|(_, session)| session.tlvs()).sum();
        assert_eq!(kept.tlvs, tlvs);
        (kept.sessions.len(), tlvs)
    }
}
