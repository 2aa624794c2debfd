//! What is known, and when the workers get to see it.

use crate::events::{self, Of, Seen, Trigger};
use crate::form::Form;
use crate::limits::{PUBLISH_GAP, PUBLISH_ROW, SERIAL_GAP, TURN_OBJECTS, TURN_PAUSE};
use crate::metrics::Metrics;
use nodens_core::cluster::{Editor, Feed, Key, Kind, ServiceKind, Snapshot};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;

/// After so many turns of all tasks, what had arrived is read: one sees that it has, in the next
/// it is decrypted, cut into events and applied.
const ROUNDS: usize = 2;

/// What all loops of one watch change.
#[derive(Debug)]
pub(crate) struct Known {
    feed: Arc<Feed>,
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug)]
struct Inner {
    editor: Editor,
    /// Kinds of which no whole list has come yet.
    missing: HashSet<Kind>,
    /// Kinds of which a list is under way.
    listing: HashSet<Kind>,
    /// How many objects were applied since the thread paused.
    turn: u32,
    /// Whether somebody waits to clear up after the lists.
    clearing_up: bool,
    /// Changes of endpoints since the last publication: whose, and when they began.
    triggers: Vec<(Key, SystemTime)>,
}

impl Inner {
    /// Endpoints have changed, which began at `at`.
    fn note(&mut self, (service, at): Trigger) {
        // All of the first list is new to us, and its age is not how long it took.
        if let Ok(at) = at.parse::<jiff::Timestamp>()
            && !self.missing.contains(&Kind::Slices)
        {
            self.triggers.push((service, at.into()));
        }
    }
}

impl Known {
    /// Nothing yet; `kinds` are to come.
    pub(crate) fn new(feed: Arc<Feed>, kinds: impl IntoIterator<Item = Kind>) -> Self {
        let inner = Inner {
            editor: Editor::default(),
            missing: kinds.into_iter().collect(),
            listing: HashSet::new(),
            turn: 0,
            clearing_up: false,
            triggers: Vec::new(),
        };
        Self { feed, inner: Mutex::new(inner), changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, kind: Kind, form: Form) -> Of<'_> {
        Of { kind, form, source: self.feed.source() }
    }

    /// A list of `kind` begins.
    pub(crate) fn begin_list(&self, kind: Kind) {
        let mut inner = self.lock();
        inner.listing.insert(kind);
        inner.editor.begin_list(kind);
    }

    /// A list of `kind` is whole. Gives whether that was the last one that was missing.
    pub(crate) fn end_list(&self, kind: Kind) -> bool {
        let mut inner = self.lock();
        inner.editor.end_list(kind);
        inner.listing.remove(&kind);
        let completes = inner.missing.remove(&kind) && inner.missing.is_empty();
        drop(inner);
        self.changed.notify_one();
        completes
    }

    /// Applies an event of a watch. What a list tells of is a change if it says something new.
    pub(crate) fn event(&self, (kind, form): (Kind, Form), octets: &[u8], in_list: bool) -> Seen {
        let mut inner = self.lock();
        let mut seen = events::event(self.of(kind, form), octets, &mut inner.editor);
        if let Seen::Change { trigger, is_new, .. } = &mut seen
            && let Some(trigger) = trigger.take().filter(|_| *is_new || !in_list)
        {
            inner.note(trigger);
        }
        give_way(inner);
        if matches!(seen, Seen::Change { .. } | Seen::Unreadable { .. }) {
            self.changed.notify_one();
        }
        seen
    }

    /// Applies an object of a list.
    ///
    /// # Errors
    /// What is to be said of it if it cannot be used.
    pub(crate) fn item(&self, kind: Kind, form: Form, octets: &[u8]) -> Result<(), String> {
        let mut inner = self.lock();
        let done = events::item(self.of(kind, form), octets, &mut inner.editor).map(|trigger| {
            if let Some(trigger) = trigger {
                inner.note(trigger);
            }
        });
        give_way(inner);
        self.changed.notify_one();
        done
    }

    /// Publishes what changes, for ever: a few changes each at once, many together.
    pub(crate) async fn publish(&self, metrics: &Metrics) {
        let mut pace = Pace::new(Instant::now());
        loop {
            let changed = self.changed.notified();
            // Secondaries must learn of what was published with the serial of the change before.
            let owes = self.lock().editor.owes_serial();
            match owes {
                true => _ = tokio::time::timeout(SERIAL_GAP, changed).await,
                false => changed.await,
            }
            // What has arrived with it is read first.
            for _ in 0..ROUNDS {
                tokio::task::yield_now().await;
            }
            self.publish_now(metrics);
            self.rest(pace.take(Instant::now())).await;
        }
    }

    /// Lets changes gather.
    async fn rest(&self, wait: Duration) {
        if wait.is_zero() {
            return;
        }
        if self.is_reading_lists() {
            return tokio::time::sleep(wait).await;
        }
        self.lock().turn = 0;
        // The thread itself sleeps, so that what arrives meanwhile does not wake it for each
        // change: that would cost as much as the change. It does nothing but watch.
        std::thread::sleep(wait);
    }

    /// Whether the caller is the one to clear up after the lists, which must call
    /// [`Known::end_clearing_up`].
    pub(crate) fn begin_clearing_up(&self) -> bool {
        !std::mem::replace(&mut self.lock().clearing_up, true)
    }

    /// Whether there is anything to clear up after: not while lists are read.
    pub(crate) fn end_clearing_up(&self) -> bool {
        self.lock().clearing_up = false;
        !self.is_reading_lists()
    }

    /// Whether a list is under way, or is still to come.
    fn is_reading_lists(&self) -> bool {
        let inner = self.lock();
        !inner.missing.is_empty() || !inner.listing.is_empty()
    }

    fn publish_now(&self, metrics: &Metrics) {
        let mut inner = self.lock();
        // Half a cluster is not to be answered from. A watch that took over from another leaves
        // what that one knew until it knows as much.
        if !inner.missing.is_empty() {
            return;
        }
        let now = SystemTime::now();
        let unix = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let snapshot = inner.editor.snapshot(unix.as_secs());
        let triggers = std::mem::take(&mut inner.triggers);
        drop(inner);
        for (service, at) in triggers {
            if let Some(headless) = is_headless(&snapshot, &service) {
                let taken = now.duration_since(at).unwrap_or(Duration::ZERO);
                metrics.programmed(headless, taken);
            }
        }
        self.feed.publish(snapshot);
        if !self.feed.synced() {
            self.feed.set_synced();
        }
        metrics.published();
    }
}

/// Ends the thread's turn when it was long enough. A worker on the same CPU goes first when it wakes
/// up, but where the kernel sees that it had more than its share of late it waits for the end of the
/// other's turn, which may last for a tick (4 ms) if many changes have come together. Before
/// anything can be answered there is nobody to give way to.
fn give_way(mut inner: MutexGuard<'_, Inner>) {
    inner.turn += 1;
    if inner.turn < TURN_OBJECTS || !inner.missing.is_empty() {
        return;
    }
    inner.turn = 0;
    drop(inner);
    std::thread::sleep(TURN_PAUSE);
}

/// When the next publication may be: a creation makes a few changes in a row, which should not
/// wait for each other, and a thousand changes a second should not be as many publications.
#[derive(Debug)]
struct Pace {
    /// When the row of publications that went before is paid off.
    paid: Instant,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self { paid: now }
    }

    /// How long the next publication has to wait.
    fn take(&mut self, now: Instant) -> Duration {
        self.paid = self.paid.max(now) + PUBLISH_GAP;
        let ahead = self.paid.saturating_duration_since(now);
        ahead.saturating_sub(PUBLISH_GAP * PUBLISH_ROW)
    }
}

/// Whether the service is headless; `None` if it is not known.
fn is_headless(snapshot: &Snapshot, service: &Key) -> Option<bool> {
    let service = snapshot.service(service.as_wire())?.service.as_ref()?;
    Some(service.kind == ServiceKind::Headless)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_core::cluster::{Clusters, Source};
    use std::sync::atomic::{AtomicU32, Ordering};

    fn known(kinds: &[Kind]) -> Known {
        let feed = Clusters::default().feed(&Source::default());
        Known::new(feed, kinds.iter().copied())
    }

    /// Whether another task of the thread gets to work while changes gather.
    fn others_work_during_a_rest(known: &Known) -> bool {
        let turns = Arc::new(AtomicU32::new(0));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let other = turns.clone();
        runtime.spawn(async move { other.fetch_add(1, Ordering::Relaxed) });
        runtime.block_on(known.rest(Duration::from_millis(1)));
        turns.load(Ordering::Relaxed) > 0
    }

    #[test]
    fn the_thread_sleeps_while_changes_gather_but_not_while_lists_are_read() {
        let known = known(&[Kind::Slices]);
        assert!(others_work_during_a_rest(&known), "nothing is known yet");
        known.begin_list(Kind::Slices);
        assert!(known.end_list(Kind::Slices));
        assert!(!others_work_during_a_rest(&known));
        known.begin_list(Kind::Slices);
        assert!(others_work_during_a_rest(&known), "a list is under way");
        known.end_list(Kind::Slices);
        assert!(!others_work_during_a_rest(&known));
    }

    #[test]
    fn a_turn_ends_after_some_objects_once_there_is_something_to_answer_from() {
        let known = known(&[Kind::Slices]);
        let turns = || {
            (0..2 * TURN_OBJECTS).map(|_| {
                // What cannot be used takes time too.
                _ = known.item(Kind::Slices, Form::Json, b"{}");
                known.lock().turn
            })
        };
        assert_eq!(turns().last(), Some(2 * TURN_OBJECTS), "nothing is answered yet");
        known.lock().turn = 0;
        known.begin_list(Kind::Slices);
        known.end_list(Kind::Slices);
        let row = (1..TURN_OBJECTS).chain([0]);
        assert_eq!(turns().collect::<Vec<_>>(), row.clone().chain(row).collect::<Vec<_>>());
    }

    #[test]
    fn a_few_changes_are_published_at_once_and_many_together() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let waits: Vec<_> = (0..PUBLISH_ROW + 2).map(|_| pace.take(start)).collect();
        let (row, more) = waits.split_at(PUBLISH_ROW as usize);
        assert!(row.iter().all(Duration::is_zero), "{waits:?}");
        assert_eq!(more, [PUBLISH_GAP, 2 * PUBLISH_GAP]);
        let later = start + PUBLISH_GAP * (PUBLISH_ROW + 2);
        assert_eq!(pace.take(later), Duration::ZERO);
    }
}
