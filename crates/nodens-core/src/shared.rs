//! What all workers and all configurations of the process share.

use crate::coalescing::InFlight;
pub use crate::coalescing::Mail;
use crate::cookie::Secret;
use crate::limits::{PENDING_OCTETS, PENDING_PER_WORKER_MAX, PENDING_PER_WORKER_MIN};
use crate::log::Sink;
use crate::metrics::{Counter, Registry};
use crate::seeing::Seeing;
use crate::stream::Transfers;
use crate::upstream::Upstreams;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Lives as long as the process; a reload builds a new [`crate::Config`] over the same one.
#[derive(Debug)]
pub struct Shared {
    /// Every metric series.
    pub registry: Registry,
    /// Where log records go.
    pub sink: Sink,
    /// The one pool of upstreams, whichever server blocks use them.
    pub upstreams: Upstreams,
    /// Answers kept for all server blocks.
    pub cache: crate::cache::Store,
    /// What is known of Kubernetes clusters.
    pub clusters: crate::cluster::Clusters,
    /// What others keep for the next configuration, by type.
    known: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// Zones that are transferred from primaries, for the next configuration.
    pub secondaries: nodens_zone::secondary::Known,
    /// Zones that are kept in databases, for the next configuration.
    pub dynamic: nodens_zone::dynamic::Known,
    /// Signatures that `dnssec` has made, for all servers of a block and the next configuration.
    pub signatures: crate::signatures::Known,
    /// Catalogs of the zones of this server, for the next configuration.
    pub catalogs: nodens_zone::catalog::KnownCatalogs,
    /// What is counted of NOTIFY to other servers.
    pub notified: Arc<nodens_zone::counts::Notified>,
    /// Zone transfers under way, and what is counted of those that have ended.
    pub transfers: Arc<Transfers>,
    /// Questions under way, for those who ask the same meanwhile.
    pub in_flight: InFlight,
    /// Counts panics that were contained.
    pub panics: Counter,
    /// The secret of DNS cookies, set by whoever has random numbers; without it none are given.
    pub cookies: OnceLock<Secret>,
    /// Counts questions that were refused because too many waited.
    pub shed: Counter,
    /// What workers count of what they are asked, if anybody wants to see it.
    pub seeing: Seeing,
    pending_max: AtomicUsize,
    /// A worker has freed much memory.
    has_freed: AtomicBool,
    mailboxes: Vec<Mutex<Vec<Mail>>>,
}

impl Shared {
    /// For `workers` workers; one more writer of metrics is for watches of clusters, and one for
    /// everything else.
    pub fn new(workers: usize, sink: Sink) -> Self {
        let registry = Registry::new(workers + 2);
        let help = "Faults of the program that were contained.";
        let panics = registry.counter("coredns_panics_total", help, &[]);
        let help = "Queries refused because too many were waiting.";
        let shed = registry.counter("nodens_questions_shed_total", help, &[]);
        Self {
            registry,
            sink,
            panics,
            shed,
            seeing: Seeing::default(),
            pending_max: AtomicUsize::new(PENDING_PER_WORKER_MAX),
            has_freed: AtomicBool::new(false),
            cookies: OnceLock::new(),
            upstreams: Upstreams::default(),
            cache: crate::cache::Store::default(),
            clusters: crate::cluster::Clusters::default(),
            known: Mutex::default(),
            secondaries: nodens_zone::secondary::Known::default(),
            dynamic: nodens_zone::dynamic::Known::default(),
            signatures: crate::signatures::Known::default(),
            catalogs: nodens_zone::catalog::KnownCatalogs::default(),
            notified: Arc::default(),
            transfers: Arc::default(),
            in_flight: InFlight::default(),
            mailboxes: (0..workers).map(|_| Mutex::default()).collect(),
        }
    }

    /// The one value of a type, which is there for the next configuration, too.
    pub(crate) fn known<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let value = known.entry(TypeId::of::<T>()).or_insert_with(|| Arc::<T>::default());
        value.clone().downcast().unwrap_or_default()
    }

    /// How many places a worker has for questions that wait.
    pub fn pending_max(&self) -> usize {
        self.pending_max.load(Ordering::Relaxed)
    }

    /// Lets the questions that wait take `octets` in all workers together, within the limits of
    /// [`PENDING_PER_WORKER_MIN`] and [`PENDING_PER_WORKER_MAX`].
    pub fn set_pending_memory(&self, octets: usize) {
        let each = octets / PENDING_OCTETS / self.workers().max(1);
        let each = each.clamp(PENDING_PER_WORKER_MIN, PENDING_PER_WORKER_MAX);
        self.pending_max.store(each, Ordering::Relaxed);
    }

    /// Notes that a worker has freed much memory, which the allocator may keep.
    pub(crate) fn note_freed(&self) {
        self.has_freed.store(true, Ordering::Relaxed);
    }

    /// Whether a worker has freed much memory since the last call.
    pub fn take_freed(&self) -> bool {
        self.has_freed.load(Ordering::Relaxed) && self.has_freed.swap(false, Ordering::Relaxed)
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.mailboxes.len()
    }

    /// The writer of metrics that the one thread of watches is.
    pub fn watch_writer(&self) -> usize {
        self.workers() + 1
    }

    /// Leaves mail for a worker; true if its box was empty, so it has to be woken.
    pub fn post(&self, worker: usize, mail: Mail) -> bool {
        let Some(mailbox) = self.mailboxes.get(worker) else { return false };
        let mut mails = mailbox.lock().unwrap_or_else(PoisonError::into_inner);
        mails.push(mail);
        mails.len() == 1
    }

    /// Takes a worker's mail.
    pub fn collect(&self, worker: usize) -> Vec<Mail> {
        let Some(mailbox) = self.mailboxes.get(worker) else { return Vec::new() };
        std::mem::take(&mut *mailbox.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
