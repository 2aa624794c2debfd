//! The way of snapshots from whoever watches to the workers.

use super::{Pod, Snapshot, Source};
use arc_swap::{ArcSwap, Guard};
use nodens_zone::Shown;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The newest snapshot of one source.
#[derive(Debug)]
pub struct Feed {
    source: Source,
    newest: ArcSwap<Snapshot>,
    /// Snapshots that were replaced while somebody read them.
    replaced: Mutex<Vec<Arc<Snapshot>>>,
    synced: AtomicBool,
    connected: AtomicBool,
    link: ArcSwap<Link>,
    /// The zones that show what is known.
    pub(crate) shown: Shown,
}

/// How it stands between the watch and the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// Nothing has been heard yet.
    #[default]
    Connecting,
    /// What is known is what is there.
    Connected,
    /// The API server cannot be asked; what is known ages.
    Lost {
        /// When it was last known to be right, in seconds since 1970.
        since_unix_s: u64,
        /// What went wrong.
        reason: String,
    },
}

impl Feed {
    fn new(source: Source) -> Self {
        Self {
            source,
            newest: ArcSwap::default(),
            replaced: Mutex::default(),
            synced: AtomicBool::new(false),
            connected: AtomicBool::new(false),
            link: ArcSwap::default(),
            shown: Shown::default(),
        }
    }

    /// What is fetched.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The newest snapshot. Takes no lock.
    pub fn load(&self) -> Guard<Arc<Snapshot>> {
        self.newest.load()
    }

    /// Makes `snapshot` what workers see from their next question on.
    ///
    /// What nobody reads any more is freed here: to give back what only an old snapshot had takes
    /// longer than an answer, so whoever answers should not be the last to hold one.
    pub fn publish(&self, snapshot: Snapshot) {
        let serials = snapshot.serials;
        let old = self.newest.swap(Arc::new(snapshot));
        if old.serials != serials {
            self.shown.announce();
        }
        let mut replaced = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        replaced.push(old);
        replaced.retain(|old| Arc::strong_count(old) > 1);
    }

    /// Whether every kind of object has been listed whole once.
    pub fn synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Says that what has been published is whole.
    pub fn set_synced(&self) {
        self.synced.store(true, Ordering::Release);
        // Zones have a SOA record from now on.
        self.shown.announce();
    }

    /// How it stands with the API server.
    pub fn link(&self) -> Arc<Link> {
        self.link.load_full()
    }

    /// Whether what is known is whole and, as far as anybody can tell, what is there. Takes no lock
    /// and writes no memory.
    pub fn is_current(&self) -> bool {
        self.connected.load(Ordering::Acquire) && self.synced()
    }

    /// Says how it stands with the API server.
    pub fn set_link(&self, link: Link) {
        self.connected.store(link == Link::Connected, Ordering::Release);
        self.link.store(Arc::new(link));
    }
}

/// The feeds of the process, by source. A feed lives as long as a configuration or its watch uses
/// it, so a reload that asks for the same keeps what is known.
#[derive(Debug, Default)]
pub struct Clusters {
    feeds: Mutex<Vec<Weak<Feed>>>,
}

impl Clusters {
    /// The pod with `address`, as far as any watch knows it; `None` also if several share it.
    pub fn pod_at(&self, address: IpAddr) -> Option<Arc<Pod>> {
        let feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        feeds.iter().filter_map(Weak::upgrade).find_map(|feed| match feed.load().pods_at(address) {
            [pod] => Some(pod.clone()),
            _ => None,
        })
    }

    /// The feed of `source`; a new and empty one if nobody has asked for it yet.
    pub fn feed(&self, source: &Source) -> Arc<Feed> {
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        feeds.retain(|feed| feed.strong_count() > 0);
        let known = feeds.iter().filter_map(Weak::upgrade).find(|feed| feed.source == *source);
        known.unwrap_or_else(|| {
            let feed = Arc::new(Feed::new(source.clone()));
            feeds.push(Arc::downgrade(&feed));
            feed
        })
    }
}
