//! Primaries of zones that are asked within TLS or QUIC.

use super::Peer;
use crate::transport::ListenerKind;
use nodens_zone::secondary::{Identity, Primary};
use std::any::Any;
use std::sync::Arc;

/// Whom a primary has to be, and what is spoken with it (RFC 9103; over QUIC, RFC 9250).
#[derive(Debug, PartialEq, Eq)]
pub struct PrimaryPeer {
    /// [`ListenerKind::Tls`] or [`ListenerKind::Quic`].
    pub kind: ListenerKind,
    /// Whom it has to be, and what is shown to it.
    pub peer: Arc<Peer>,
}

impl PrimaryPeer {
    /// That of `primary`; none if queries to it are not encrypted.
    pub fn of(primary: &Primary) -> Option<&Self> {
        let identity: &dyn Any = &**primary.identity.as_ref()?;
        identity.downcast_ref()
    }
}

impl Identity for PrimaryPeer {
    fn is_same(&self, other: &dyn Identity) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref() == Some(self)
    }

    fn scheme(&self) -> &'static str {
        self.kind.scheme().name()
    }
}
