//! What the workers count together: connections, and queries that wait.

use crate::limits::{QUIC_HALF_OPEN_CLIENT, QUIC_HALF_OPEN_MAX, QUIC_HALF_OPEN_NETWORK};
use crate::tcp::{Entry, Few, Open, Quota};
use nodens_core::Shared;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The counts of all listeners, by their number for good.
#[derive(Debug)]
pub(crate) struct Books {
    listeners: Mutex<HashMap<u32, Arc<Counts>>>,
    open: Arc<AtomicUsize>,
    /// Connections whose handshake is not over, with those that wait for its beginning.
    pub(super) half_open: Arc<Quota>,
    /// Open connections, by their clients.
    pub(super) clients: Arc<Quota>,
}

/// What one listener has.
#[derive(Debug, Default)]
pub(super) struct Counts {
    places: Arc<Open>,
    in_flight: AtomicUsize,
    /// Those of all listeners.
    open: Arc<AtomicUsize>,
}

impl Books {
    /// For so many connections in all, of each client and of each network.
    pub(crate) fn new(max: usize, each_open: (usize, usize)) -> Self {
        let each = (QUIC_HALF_OPEN_CLIENT, QUIC_HALF_OPEN_NETWORK);
        let half_open = Arc::new(Quota::new(QUIC_HALF_OPEN_MAX, each, 0));
        let clients = Arc::new(Quota::new(max, each_open, 0));
        Self { listeners: Mutex::default(), open: Arc::default(), half_open, clients }
    }

    /// The counts of a listener. Those of listeners that nobody has any more are forgotten.
    pub(super) fn of(&self, listener: u32) -> Arc<Counts> {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|id, own| *id == listener || Arc::strong_count(own) > 1);
        let new = || Arc::new(Counts { open: self.open.clone(), ..Counts::default() });
        listeners.entry(listener).or_insert_with(new).clone()
    }
}

impl Counts {
    /// Its connections, of which there may be so many; 0 stands for no bound.
    pub(super) fn few(&self, max: usize) -> Few {
        Few::of(self.places.clone(), max)
    }

    /// Whether no more queries may wait.
    pub(super) fn is_busy(&self, max: usize) -> bool {
        self.in_flight.load(Ordering::Relaxed) >= max
    }

    /// So many queries more wait.
    pub(super) fn begin(&self, count: usize) {
        self.in_flight.fetch_add(count, Ordering::Relaxed);
    }

    /// So many queries wait no more.
    pub(super) fn end(&self, count: usize) {
        self.in_flight.fetch_sub(count, Ordering::Relaxed);
    }
}

/// The place of an open connection; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Seat {
    /// Among those of its listener.
    _entry: Entry,
    counts: Arc<Counts>,
}

impl Seat {
    /// A place for this client, if there is one.
    pub(super) fn take(counts: &Arc<Counts>, max: usize, client: IpAddr) -> Option<Self> {
        let entry = counts.few(max).enter(client)?;
        counts.open.fetch_add(1, Ordering::Relaxed);
        Some(Self { _entry: entry, counts: counts.clone() })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.counts.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Registers the gauge.
pub(crate) fn register_gauges(shared: &Shared, books: &Books) {
    let open = books.open.clone();
    let read = Arc::new(move || open.load(Ordering::Relaxed) as f64);
    let help = "Gauge of open client connections over QUIC.";
    shared.registry.gauge("nodens_quic_connections", help, &[], read);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_back_and_workers_share_them() {
        let books = Books::new(9, (9, 9));
        let (one, other) = (books.of(1), books.of(1));
        let client = [192, 0, 2, 1].into();
        let seats = [Seat::take(&one, 2, client), Seat::take(&other, 2, client)];
        assert!(seats.iter().all(Option::is_some) && one.few(2).is_full() && !one.few(0).is_full());
        assert!(Seat::take(&one, 2, client).is_none());
        assert!(!books.of(2).few(1).is_full());
        assert_eq!(books.open.load(Ordering::Relaxed), 2);
        drop(seats);
        assert!(!other.few(1).is_full());
        assert_eq!(books.open.load(Ordering::Relaxed), 0);
        // Nobody has the second listener any more.
        drop(books.of(3));
        assert_eq!(books.listeners.lock().unwrap().len(), 2);
    }
}
