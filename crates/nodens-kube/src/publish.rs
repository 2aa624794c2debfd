//! What is known, and when the workers get to see it.

use crate::events::{self, Of, Seen};
use crate::form::Form;
use crate::limits::{PUBLISH_GAP, PUBLISH_ROW, SERIAL_GAP};
use crate::metrics::Metrics;
use nodens_core::cluster::{Editor, Feed, Key, Kind, ServiceKind, Snapshot};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;

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
    /// Changes of endpoints since the last publication: whose, and when they began.
    triggers: Vec<(Key, SystemTime)>,
}

impl Known {
    /// Nothing yet; `kinds` are to come.
    pub(crate) fn new(feed: Arc<Feed>, kinds: impl IntoIterator<Item = Kind>) -> Self {
        let inner = Inner {
            editor: Editor::default(),
            missing: kinds.into_iter().collect(),
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
        self.lock().editor.begin_list(kind);
    }

    /// A list of `kind` is whole. Gives whether that was the last one that was missing.
    pub(crate) fn end_list(&self, kind: Kind) -> bool {
        let mut inner = self.lock();
        inner.editor.end_list(kind);
        let completes = inner.missing.remove(&kind) && inner.missing.is_empty();
        drop(inner);
        self.changed.notify_one();
        completes
    }

    /// Applies an event of a watch. Changes in a list say nothing about how long they took.
    pub(crate) fn event(&self, (kind, form): (Kind, Form), octets: &[u8], in_list: bool) -> Seen {
        let mut inner = self.lock();
        let mut seen = events::event(self.of(kind, form), octets, &mut inner.editor);
        if let Seen::Change { trigger, .. } = &mut seen
            && let Some((service, at)) = trigger.take().filter(|_| !in_list)
            && let Ok(at) = at.parse::<jiff::Timestamp>()
        {
            inner.triggers.push((service, at.into()));
        }
        drop(inner);
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
        let done = events::item(self.of(kind, form), octets, &mut self.lock().editor);
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
            let wait = pace.take(Instant::now());
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            self.publish_now(metrics);
        }
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
