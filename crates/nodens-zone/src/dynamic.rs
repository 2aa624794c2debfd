//! Zones that are changed by messages (RFC 2136), as their users and the one who changes them share them.

use crate::data::{Data, Difference, Served};
use crate::dnssec::Signer;
use crate::journal::{Journal, Packed, Step, Steps};
use crate::limits::{JOURNAL_OCTETS, UPDATES_AT_ONCE, UPDATES_WAITING_MAX, UPDATES_WAITING_OCTETS};
use crate::serial::Serial;
use crate::table::Shown;
use crate::update::{self, Next, Policy, Size, Verdict};
use crate::zone::{Sight, Soa, Version, Zone};
use nodens_wire::{Name, Rcode};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod file;
mod known;
mod signing;

#[cfg(test)]
mod tests;

pub use file::{FileState, KnownFile, Stamp};
pub use known::Known;
pub use signing::Whole;

/// How the name of the file ends that the process has locked which writes a database.
pub const LOCK_ENDING: &str = ".lock";
/// That of a database that is written anew.
pub const NEW_ENDING: &str = ".new";
/// That of what was cut off from one, as it was not written as a whole.
pub const CUT_ENDING: &str = ".cut";

/// The name of a file beside a database.
pub fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(ending);
    PathBuf::from(name)
}

/// A zone, what it consists of, and the updates that wait.
pub struct DynamicZone {
    origin: Name,
    /// The file that it is kept in, if it is.
    database: Option<PathBuf>,
    file: FileState,
    served: Served,
    /// It is not to be shown before it is signed.
    is_unready: AtomicBool,
    /// Locked while a version is replaced, so that it is of the version that is served.
    changes: Mutex<Changes>,
    shown: Shown,
    /// Locked by the one who does updates.
    turn: Mutex<()>,
    waiting: Mutex<Waiting>,
    wake: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

/// What goes with the version that is served.
#[derive(Debug)]
struct Changes {
    journal: Journal,
    /// See [`update::size`].
    size: Size,
    /// What signed it as a whole, and signs what changes.
    signer: Option<Arc<Signer>>,
}

#[derive(Default)]
struct Waiting {
    updates: VecDeque<Update>,
    octets: usize,
}

/// An update that waits.
pub struct Update {
    /// The message, which has a verified signature and asks for this zone.
    pub message: Vec<u8>,
    /// The key of the signature.
    pub key: Name,
    /// What is allowed where it was asked for.
    pub policy: Arc<Policy>,
    /// Whether the response is still wanted: an update whose client has been told that it failed is not done.
    pub is_awaited: Box<dyn Fn() -> bool + Send>,
    /// Called with the RCODE of the response once that may be sent. Gives whether the worker has to be
    /// woken, see [`Update::worker`].
    pub reply: Box<dyn FnOnce(Rcode) -> bool + Send>,
    /// The worker that waits for it.
    pub worker: usize,
}

impl fmt::Debug for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Update({} octets, {}, worker {})", self.message.len(), self.key, self.worker)
    }
}

/// What came of the updates that were taken in one go.
#[derive(Debug, Default)]
pub struct Done {
    /// What the log has to say.
    pub errors: Vec<String>,
    /// The workers that have to be woken.
    pub wake: Vec<usize>,
}

impl Changes {
    fn new() -> Self {
        Self { journal: Journal::new(JOURNAL_OCTETS), size: Size::default(), signer: None }
    }
}

impl fmt::Debug for DynamicZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynamicZone({}, {:?})", self.origin, self.served)
    }
}

impl DynamicZone {
    /// A zone that begins with this version.
    pub fn new(origin: Name, database: Option<PathBuf>, data: Data, steps: &[Arc<Step>]) -> Self {
        let zone = Self {
            origin,
            database,
            file: FileState::default(),
            served: Served::default(),
            is_unready: AtomicBool::new(false),
            changes: Mutex::new(Changes::new()),
            shown: Shown::default(),
            turn: Mutex::default(),
            waiting: Mutex::default(),
            wake: Mutex::default(),
        };
        let size = update::size(&data);
        zone.replace(Next { data, size }, steps);
        zone
    }

    /// Its name.
    pub fn origin(&self) -> &Name {
        &self.origin
    }

    /// The file that it is kept in, if it is.
    pub fn database(&self) -> Option<&Path> {
        self.database.as_deref()
    }

    /// What is known of that file.
    pub fn file(&self) -> &FileState {
        &self.file
    }

    /// What is served, but for a zone that [is not ready](DynamicZone::is_unready).
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// Where it can be transferred.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    /// The version that is served, and its [size](update::size).
    pub fn data(&self) -> Option<(Data, Size)> {
        let changes = lock(&self.changes);
        Some((self.served.load().as_deref().cloned()?, changes.size))
    }

    /// Has `wake` called when there is something to do.
    pub fn on_update(&self, wake: impl Fn() + Send + Sync + 'static) {
        *lock(&self.wake) = Some(Box::new(wake));
    }

    /// Has an update done soon.
    ///
    /// # Errors
    /// Gives it back if too many wait.
    pub fn push(&self, update: Update) -> Result<(), Update> {
        {
            let mut waiting = lock(&self.waiting);
            let octets = waiting.octets + update.message.len();
            if waiting.updates.len() >= UPDATES_WAITING_MAX || octets > UPDATES_WAITING_OCTETS {
                return Err(update);
            }
            waiting.octets = octets;
            waiting.updates.push_back(update);
        }
        if let Some(wake) = lock(&self.wake).as_ref() {
            wake();
        }
        Ok(())
    }

    /// Whether updates wait.
    pub fn has_updates(&self) -> bool {
        !lock(&self.waiting).updates.is_empty()
    }

    /// Takes the updates that have waited longest, in their order.
    pub fn take(&self) -> VecDeque<Update> {
        let mut waiting = lock(&self.waiting);
        let count = waiting.updates.len().min(UPDATES_AT_ONCE);
        let taken: VecDeque<_> = waiting.updates.drain(..count).collect();
        waiting.octets -= taken.iter().map(|update| update.message.len()).sum::<usize>();
        taken
    }

    /// Does the first updates of `left` one after the other, which make one version together: as many as one can
    /// have, and no more once `takes_more` says no. Before that version is served, and before any of them is answered,
    /// `save` keeps it, given with what leads to it; where that fails, they are not done. One at a time does this.
    /// `now_s`, in Unix seconds, is when signatures are made.
    pub fn perform(
        &self,
        left: &mut VecDeque<Update>,
        now_s: u64,
        mut takes_more: impl FnMut() -> bool,
        save: impl FnOnce(&Data, &Arc<Step>) -> Result<(), String>,
    ) -> Done {
        let _alone = lock(&self.turn);
        let mut done = Done::default();
        let Some((before, size)) = self.data() else {
            fail(left.drain(..), &mut done);
            return done;
        };
        let signer = self.signer();
        let mut next: Option<Next> = None;
        let mut answers = Vec::with_capacity(left.len());
        while let Some(update) = left.pop_front() {
            if !(update.is_awaited)() {
                continue;
            }
            let present = next.as_ref().map_or((&before, size), |own| (&own.data, own.size));
            let Update { message, key, policy, .. } = &update;
            let verdict = update::update(present, policy, key.view(), message);
            let verdict = signing::signed(verdict, present.0, signer.as_deref(), now_s);
            let Verdict { rcode, next: later, reason } = verdict;
            let is_later = |own: &Next| own.data.soa().serial() > before.soa().serial();
            if next.is_some() && !later.as_ref().is_none_or(is_later) {
                // Who has the version before these updates would take the one after them for an earlier one
                // (RFC 1982 section 3.2).
                left.push_front(update);
                break;
            }
            let failed = |reason| format!("UPDATE for {} failed: {reason}", self.origin);
            done.errors.extend(reason.map(failed));
            next = later.or(next);
            // What was looked at may not be so after all, if it is not kept.
            let depends = next.is_some();
            answers.push(Answer { update, rcode, depends });
            if !takes_more() {
                break;
            }
        }
        // Where all have been told meanwhile that they failed, nothing of it is to happen.
        let next = next.filter(|_| answers.iter().any(Answer::is_awaited));
        let kept = next.is_some_and(|next| self.keep(&before, next, save, &mut done));
        answers.into_iter().for_each(|answer| answer.give(kept, &mut done));
        done
    }

    fn keep(
        &self,
        before: &Data,
        next: Next,
        save: impl FnOnce(&Data, &Arc<Step>) -> Result<(), String>,
        done: &mut Done,
    ) -> bool {
        let Difference { from, to, removed, added } = Difference::between(before, &next.data);
        let [removed, added] = [removed, added].map(|records| {
            let mut packed = Packed::default();
            records.iter().for_each(|record| packed.push(record.into()));
            packed
        });
        let step = Arc::new(Step { from, to, removed, added });
        if let Err(reason) = save(&next.data, &step) {
            done.errors.push(format!("UPDATE for {} failed: {reason}", self.origin));
            return false;
        }
        self.replace(next, &[step]);
        self.shown.announce();
        true
    }

    /// Serves another version, which these steps lead to from the one before it; none where that is not
    /// known. The caller announces it ([`DynamicZone::shown`]).
    pub fn replace(&self, next: Next, steps: &[Arc<Step>]) {
        // Held, so that the version before is not freed while others may wait for the lock.
        let before = self.served.load_full();
        {
            let Next { data, size } = next;
            let mut changes = lock(&self.changes);
            if steps.is_empty() {
                changes.journal.forget();
            }
            steps.iter().for_each(|step| changes.journal.push(step.clone()));
            // More than the zone has is never handed on.
            changes.journal.trim(data.records());
            changes.size = size;
            self.served.store(data);
        }
        drop(before);
        self.served.sweep();
    }
}

/// An update that was looked at, and what is to be said of it.
struct Answer {
    update: Update,
    rcode: Rcode,
    /// Whether that is so only if the version is kept that was made so far.
    depends: bool,
}

impl Answer {
    fn is_awaited(&self) -> bool {
        (self.update.is_awaited)()
    }

    fn give(self, kept: bool, done: &mut Done) {
        let Update { reply, worker, .. } = self.update;
        if reply(if self.depends && !kept { Rcode::SERVFAIL } else { self.rcode }) {
            done.wake.push(worker);
        }
    }
}

/// Answers updates that cannot be done.
fn fail(updates: impl IntoIterator<Item = Update>, done: &mut Done) {
    for Update { reply, worker, .. } in updates {
        if reply(Rcode::SERVFAIL) {
            done.wake.push(worker);
        }
    }
}

impl Done {
    /// Answers updates with SERVFAIL, as they cannot be done.
    pub fn failed(updates: VecDeque<Update>) -> Self {
        let mut done = Self::default();
        fail(updates, &mut done);
        done
    }
}

impl Zone for DynamicZone {
    fn soa(&self) -> Option<Soa> {
        if self.is_unready() { None } else { self.served.soa() }
    }

    fn version(&self) -> Option<Version> {
        if self.is_unready() { None } else { self.served.version() }
    }

    fn since(&self, serial: Serial) -> Option<Version> {
        if self.is_unready() {
            return None;
        }
        let (steps, data) = {
            let changes = lock(&self.changes);
            (changes.journal.since(serial)?, self.served.load_full()?)
        };
        let records: u64 = steps.iter().map(|step| step.records()).sum();
        // Less than the zone is wanted.
        let fits = steps.last()?.to.serial() == data.soa().serial() && records < data.records();
        fits.then(|| Version { soa: data.soa().clone(), records: Box::new(Steps::new(steps)) })
    }

    fn sight(&self) -> Option<Sight> {
        Some(Sight {
            source: "dynupdate",
            data: self.served.load_full(),
            journal: lock(&self.changes).journal.octets(),
            ..Sight::default()
        })
    }

    fn comes_from(&self) -> String {
        self.database().map(|path| path.display().to_string()).unwrap_or_default()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
