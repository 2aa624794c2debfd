//! Services of which only the names are known ([`crate::cluster::Scope::Names`]).

use super::{Editor, Kind};
use crate::cluster::{Key, Snapshot};

impl From<Snapshot> for Editor {
    /// Goes on from a snapshot with names alone; what else it has is not tracked.
    fn from(snapshot: Snapshot) -> Self {
        Self { has_services: snapshot.names() != [0, 0], snapshot, ..Self::default() }
    }
}

impl Editor {
    /// There is a service, of which nothing but its name is to be kept.
    pub fn set_name(&mut self, key: &Key) {
        self.note(Kind::Services, key.as_wire());
        if self.snapshot.names.contains_key(key) {
            return;
        }
        self.snapshot.names.insert(key.clone(), 0);
        if self.has_services {
            self.new_names.push(key.clone());
        }
    }

    /// Says since when new names are known.
    pub(super) fn date_names(&mut self, now_unix_s: u64) {
        if self.has_services && self.snapshot.names_since == 0 {
            self.snapshot.names_since = now_unix_s;
        }
        for key in self.new_names.drain(..) {
            if let Some(since) = self.snapshot.names.get_mut(&key) {
                *since = now_unix_s;
            }
        }
    }

    pub(super) fn forget_service(&mut self, key: &[u8]) {
        self.snapshot.names.remove(key);
        self.replace_service(key, None);
    }
}
