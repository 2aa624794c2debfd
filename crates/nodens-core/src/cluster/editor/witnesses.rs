//! Services whose addresses show which cluster a server speaks for.

use super::{Editor, Kind};
use crate::cluster::Key;
use std::net::IpAddr;

impl Editor {
    /// There is a Service of [`Kind::ApiService`] or [`Kind::SystemServices`] with these cluster
    /// addresses; one without any shows nothing.
    pub fn set_witness(&mut self, key: &Key, cluster_ips: &[IpAddr]) {
        self.note(witness_kind(key), key.as_wire());
        match cluster_ips {
            [] => _ = self.snapshot.witnesses.remove(key),
            ips => _ = self.snapshot.witnesses.insert(key.clone(), ips.into()),
        }
    }

    /// Such a Service is gone.
    pub fn remove_witness(&mut self, key: &Key) {
        self.snapshot.witnesses.remove(key);
    }
}

/// By which list a Service is known.
pub(super) fn witness_kind(key: &Key) -> Kind {
    if key.namespace() == b"default" { Kind::ApiService } else { Kind::SystemServices }
}
