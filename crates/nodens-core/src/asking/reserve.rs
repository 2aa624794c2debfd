//! Retries for clients that have had few: one that asks for much that is never answered must not take those of all others.

use crate::limits::{RETRIES_PER_CLIENT, RETRIES_RESERVED, RETRY_WINDOW_S};
use crate::time::Now;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// At most [`RETRIES_RESERVED`] in each [`RETRY_WINDOW_S`] seconds, [`RETRIES_PER_CLIENT`] of them for one client. Only a
/// retry for which there is nothing in any other budget comes here.
#[derive(Debug, Default)]
pub(crate) struct Reserve {
    /// No retry is left for any client before this time, in monotonic nanoseconds. The many queries that wait see that
    /// without the lock.
    empty_until_ns: AtomicU64,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    until_ns: u64,
    all: u32,
    by_client: HashMap<IpAddr, u32>,
}

impl Reserve {
    /// Takes one for a client, if there is one.
    pub(crate) fn take(&self, now: Now, client: IpAddr) -> bool {
        if now.mono_ns < self.empty_until_ns.load(Ordering::Relaxed) {
            return false;
        }
        let mut taken = self.lock();
        if taken.until_ns <= now.mono_ns {
            let until_ns = now.plus(Duration::from_secs(RETRY_WINDOW_S as u64));
            *taken = Taken { until_ns, ..Taken::default() };
        }
        if taken.all >= RETRIES_RESERVED {
            self.empty_until_ns.store(taken.until_ns, Ordering::Relaxed);
            return false;
        }
        let own = taken.by_client.entry(client).or_default();
        if *own >= RETRIES_PER_CLIENT {
            return false;
        }
        *own += 1;
        taken.all += 1;
        true
    }

    /// One that was taken was not used.
    pub(crate) fn give_back(&self, client: IpAddr) {
        let mut taken = self.lock();
        if let Some(own) = taken.by_client.get_mut(&client).filter(|own| **own > 0) {
            *own -= 1;
            taken.all = taken.all.saturating_sub(1);
            self.empty_until_ns.store(0, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        Now { mono_ns: seconds * 1_000_000_000, unix_s: 0 }
    }

    #[test]
    fn one_client_has_a_part_and_all_have_no_more_than_there_are() {
        let reserve = Reserve::default();
        let client = |n: u32| IpAddr::from(n.to_be_bytes());
        let take_all = |now, n| (0..1000).filter(|_| reserve.take(now, client(n))).count() as u32;
        for window in [100, 110] {
            assert_eq!(take_all(at(window), 0), RETRIES_PER_CLIENT);
            reserve.give_back(client(0));
            assert_eq!(take_all(at(window), 0), 1);
            let others: u32 = (1..1000).map(|n| take_all(at(window + 9), n)).sum();
            assert_eq!(others, RETRIES_RESERVED - RETRIES_PER_CLIENT);
            // A client that has taken none gives none back.
            reserve.give_back(client(2000));
            assert!(!reserve.take(at(window + 9), client(2000)));
        }
    }
}
