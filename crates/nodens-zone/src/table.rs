//! The set of zones: found by name, changed while others read it.
//!
//! Readers see an immutable [`Zones`], replaced as one pointer. Two of them share what they have in
//! common, so a change costs little however many zones there are. A table tells its
//! listeners which names have changed, and does nothing about a zone that does not change.

use crate::zone::Zone;
use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Name, NameRef, SharedName};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::ptr;
use std::sync::atomic::{self, AtomicBool};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

mod ahead;
#[cfg(test)]
mod tests;

/// Zones by folded name.
type ByName = imbl::GenericHashMap<
    SharedName,
    Arc<dyn Zone>,
    RandomState,
    imbl::shared_ptr::DefaultSharedPtr,
>;

/// The zones at one time.
#[derive(Clone)]
pub struct Zones {
    by_name: ByName,
    /// How many zones have so many labels, the root label not counted.
    by_labels: [u32; LABELS_MAX + 1],
}

/// The most labels of a name, the root label not counted.
const LABELS_MAX: usize = NAME_LEN_MAX / 2;

impl Default for Zones {
    fn default() -> Self {
        Self { by_name: ByName::default(), by_labels: [0; LABELS_MAX + 1] }
    }
}

impl fmt::Debug for Zones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zones({})", self.len())
    }
}

impl Zones {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// All of them with their names, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&SharedName, &Arc<dyn Zone>)> {
        self.by_name.iter()
    }

    /// The zone called `name`.
    pub fn get(&self, name: NameRef<'_>) -> Option<&Arc<dyn Zone>> {
        let mut buffer = [0; NAME_LEN_MAX];
        self.by_name.get(name.fold(&mut buffer))
    }

    /// The longest zone that `name` lies in, and its name in lower case. Costs a lookup in a hash
    /// table for each number of labels that zones around it may have, whatever their number.
    pub fn find(&self, name: NameRef<'_>) -> Option<(NameRef<'_>, &Arc<dyn Zone>)> {
        self.search(name, &mut 0)
    }

    /// See [`Zones::find`]; counts the lookups in the hash table.
    fn search(
        &self,
        name: NameRef<'_>,
        lookups: &mut usize,
    ) -> Option<(NameRef<'_>, &Arc<dyn Zone>)> {
        let mut buffer = [0; NAME_LEN_MAX];
        let mut rest = name.fold(&mut buffer);
        let mut labels = name.label_count();
        while let Some((len, tail)) = rest.split_first() {
            if self.by_labels.get(labels).is_some_and(|zones| *zones > 0) {
                *lookups += 1;
                if let Some((key, zone)) = self.by_name.get_key_value(rest) {
                    return Some((key.view(), zone));
                }
            }
            rest = tail.get(usize::from(*len)..).unwrap_or_default();
            labels = labels.saturating_sub(1);
        }
        None
    }

    fn count(&mut self, name: NameRef<'_>) -> Option<&mut u32> {
        self.by_labels.get_mut(name.label_count())
    }
}

/// A set of zones that changes.
#[derive(Debug, Default)]
pub struct ZoneTable {
    now: ArcSwap<Zones>,
    /// Those who listen, with the numbers they gave this table. Locked while the table is changed.
    listeners: Mutex<Vec<(Weak<Changes>, u32)>>,
    is_incomplete: AtomicBool,
}

impl ZoneTable {
    /// Whether all zones that should be here can be: false while their source cannot be read, as a folder on a
    /// disk that is not there.
    pub fn is_complete(&self) -> bool {
        !self.is_incomplete.load(atomic::Ordering::Acquire)
    }

    /// From now on they can, or cannot. Tells nobody.
    pub fn set_complete(&self, is_complete: bool) {
        self.is_incomplete.store(!is_complete, atomic::Ordering::Release);
    }

    /// The zones that there are now. Takes no lock.
    pub fn load(&self) -> arc_swap::Guard<Arc<Zones>> {
        self.now.load()
    }

    /// Makes changes that readers see all at once.
    pub fn update(&self, change: impl FnOnce(&mut Update)) {
        let mut listeners = lock(&self.listeners);
        let mut update = Update { zones: Zones::clone(&self.now.load()), changed: Vec::new() };
        change(&mut update);
        self.now.store(Arc::new(update.zones));
        tell(&mut listeners, &update.changed);
    }

    /// Says that a zone has another SOA record than before. The owner of a zone's data calls this
    /// after each change of them.
    pub fn announce(&self, name: NameRef<'_>) {
        tell(&mut lock(&self.listeners), &[SharedName::of(name)]);
    }

    /// Tells `changes` of all zones that there are, and from now on of those that change; `table`
    /// is how this table is called there.
    pub fn listen(&self, changes: &Arc<Changes>, table: u32) {
        let mut listeners = lock(&self.listeners);
        changes.note(table, self.load().by_name.keys());
        listeners.push((Arc::downgrade(changes), table));
    }
}

fn tell(listeners: &mut Vec<(Weak<Changes>, u32)>, changed: &[SharedName]) {
    listeners.retain(|(changes, table)| {
        let changes = changes.upgrade();
        if let Some(changes) = &changes {
            changes.note(*table, changed);
        }
        changes.is_some()
    });
}

/// A change of a table that is being made.
#[derive(Debug)]
pub struct Update {
    zones: Zones,
    changed: Vec<SharedName>,
}

impl Update {
    /// Adds a zone, unless there is one of that name: false then.
    pub fn add(&mut self, name: impl Into<SharedName>, zone: Arc<dyn Zone>) -> bool {
        let name = name.into();
        let is_new = !self.zones.by_name.contains_key(&name);
        if is_new {
            self.replace(name, zone);
        }
        is_new
    }

    /// Adds a zone in the place of the one of that name, if there is one. A shared name is not copied.
    pub fn replace(&mut self, name: impl Into<SharedName>, zone: Arc<dyn Zone>) {
        let name = name.into();
        let is_new = self.zones.by_name.insert(name.clone(), zone).is_none();
        let count = is_new.then(|| self.zones.count(name.view())).flatten();
        count.into_iter().for_each(|count| *count += 1);
        self.changed.push(name);
    }

    /// Takes a zone out if it is this very one; false if not.
    pub fn remove_own(&mut self, name: NameRef<'_>, zone: &Arc<impl Zone>) -> bool {
        let is_own = |known: &Arc<dyn Zone>| ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(zone));
        self.zones.get(name).is_some_and(is_own) && self.remove(name)
    }

    /// Takes a zone out; false if there is none of that name.
    pub fn remove(&mut self, name: NameRef<'_>) -> bool {
        let key = SharedName::of(name);
        if self.zones.by_name.remove(&key).is_none() {
            return false;
        }
        if let Some(count) = self.zones.count(name) {
            *count = count.saturating_sub(1);
        }
        self.changed.push(key);
        true
    }
}

/// A name whose order is that of its octets: to find that of names takes four times as long.
#[derive(Debug, PartialEq, Eq)]
struct ByOctets(SharedName);

impl Ord for ByOctets {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.as_wire().cmp(other.0.as_wire())
    }
}

impl PartialOrd for ByOctets {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Names of zones that have changed and were not looked at since, each once.
pub struct Changes {
    names: Mutex<BTreeSet<(u32, ByOctets)>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Changes({})", lock(&self.names).len())
    }
}

impl Changes {
    /// None yet; `wake` is called when there is something to [`take`](Changes::take).
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { names: Mutex::default(), wake: Box::new(wake) }
    }

    fn note<'k>(&self, table: u32, changed: impl IntoIterator<Item = &'k SharedName>) {
        let mut names = lock(&self.names);
        let had_some = !names.is_empty();
        names.extend(changed.into_iter().map(|key| (table, ByOctets(key.clone()))));
        let has_some = !names.is_empty();
        drop(names);
        if has_some && !had_some {
            (self.wake)();
        }
    }

    /// Takes the changes, each as the number of a table and a name in lower case.
    pub fn take(&self) -> impl Iterator<Item = (u32, Name)> + use<> {
        let names = std::mem::take(&mut *lock(&self.names)).into_iter();
        names.map(|(table, ByOctets(key))| (table, key.to_name()))
    }
}

/// The zones in tables that show some data: when these change, the zones do.
#[derive(Debug, Default)]
pub struct Shown {
    places: Mutex<Vec<(Weak<ZoneTable>, Name)>>,
}

impl Shown {
    /// The zone `name` of `table` shows the data.
    pub fn add(&self, table: &Arc<ZoneTable>, name: Name) {
        let mut places = lock(&self.places);
        places.retain(|(table, _)| table.strong_count() > 0);
        places.push((Arc::downgrade(table), name));
    }

    /// The data have changed.
    pub fn announce(&self) {
        for (table, name) in lock(&self.places).iter() {
            if let Some(table) = table.upgrade() {
                table.announce(name.view());
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
