//! What all workers and all configurations of the process share.

use crate::cookie::Secret;
use crate::log::Sink;
use crate::metrics::{Counter, Registry};
use crate::upstream::Upstreams;
use crate::worker::Ticket;
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
    pub cache: crate::handlers::cache::Store,
    /// Questions under way, for those who ask the same meanwhile.
    pub flights: crate::handlers::forward::Flights,
    /// Counts panics that were contained.
    pub panics: Counter,
    /// The secret of DNS cookies, set by whoever has random numbers; without it none are given.
    pub cookies: OnceLock<Secret>,
    mailboxes: Vec<Mutex<Vec<Mail>>>,
}

/// A shared answer for a job of another worker.
#[derive(Debug)]
pub struct Mail {
    /// The waiting job.
    pub ticket: Ticket,
    /// The flight it waited for. By the time this arrives, the job may wait for something else, or
    /// have made place for another.
    pub flight: u64,
    /// The upstream's message; `None` if there is none to be had.
    pub message: Option<Arc<[u8]>>,
}

impl Shared {
    /// For `workers` workers; one more writer of metrics is for everything else.
    pub fn new(workers: usize, sink: Sink) -> Self {
        let registry = Registry::new(workers + 1);
        let help = "Faults of the program that were contained.";
        let panics = registry.counter("coredns_panics_total", help, &[]);
        Self {
            registry,
            sink,
            panics,
            cookies: OnceLock::new(),
            upstreams: Upstreams::default(),
            cache: crate::handlers::cache::Store::default(),
            flights: crate::handlers::forward::Flights::default(),
            mailboxes: (0..workers).map(|_| Mutex::default()).collect(),
        }
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.mailboxes.len()
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
