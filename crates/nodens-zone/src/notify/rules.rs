//! Who is told of a zone.

use crate::counts::Notified;
use nodens_wire::NameRef;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Says who is told of a zone.
pub trait NotifyRules: Send + Sync + fmt::Debug {
    /// The secondaries of a zone, if it has any.
    fn secondaries(&self, zone: NameRef<'_>) -> Option<Arc<Secondaries>>;

    /// Where what becomes of NOTIFY is counted, if it is.
    fn counts(&self) -> Option<Arc<Notified>> {
        None
    }
}

/// Servers that are told of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secondaries {
    /// Where they are.
    pub servers: Vec<SocketAddr>,
    /// The address to tell them from, for those of its family.
    pub from: Option<IpAddr>,
}

impl Secondaries {
    /// The address from which `server` is told; nothing for any.
    pub(super) fn source_for(&self, server: SocketAddr) -> Option<IpAddr> {
        self.from.filter(|from| from.is_ipv4() == server.is_ipv4())
    }
}
