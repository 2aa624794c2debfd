//! The servers that zones are transferred from.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{AddrParseError, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

/// What is spoken with a primary, and whom it has to be: for whoever makes connections to it. Here it only
/// tells two primaries with one address from each other.
pub trait Identity: Any + fmt::Debug + Send + Sync {
    /// Whether the other one is asked in the same way, and has to be the same server.
    fn is_same(&self, other: &dyn Identity) -> bool;

    /// What stands in front of the address in the Corefile: `tls` or `quic`.
    fn scheme(&self) -> &'static str;
}

/// A server that a zone is transferred from.
#[derive(Clone, Debug)]
pub struct Primary {
    /// Where it is.
    pub address: SocketAddr,
    /// Whom it has to be, if queries to it are encrypted (RFC 9103); over TCP otherwise.
    pub identity: Option<Arc<dyn Identity>>,
}

impl From<SocketAddr> for Primary {
    fn from(address: SocketAddr) -> Self {
        Self { address, identity: None }
    }
}

/// An address with a port.
impl FromStr for Primary {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, AddrParseError> {
        text.parse().map(|address: SocketAddr| address.into())
    }
}

impl PartialEq for Primary {
    fn eq(&self, other: &Self) -> bool {
        let is_same = match (&self.identity, &other.identity) {
            (None, None) => true,
            (Some(own), Some(other)) => own.is_same(&**other),
            _ => false,
        };
        is_same && self.address == other.address
    }
}

impl Eq for Primary {}

impl Hash for Primary {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address.hash(state);
    }
}

/// As the Corefile has it: `192.0.2.1:53`, `tls://192.0.2.1:853`.
impl fmt::Display for Primary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.identity {
            Some(identity) => write!(f, "{}://{}", identity.scheme(), self.address),
            None => self.address.fmt(f),
        }
    }
}
