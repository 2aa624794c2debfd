//! Upstreams: the servers questions are forwarded to, one pool for the process.

use crate::worker::Ticket;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// How an upstream is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// A datagram from a fresh port.
    Udp,
    /// A stream shared by many questions (RFC 7766).
    Tcp,
}

/// What makes two upstreams the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Where it listens.
    pub address: SocketAddr,
    /// The name its certificate must have; `None` without TLS.
    pub tls_name: Option<String>,
}

/// One upstream. Everything that changes is atomic: all workers share it.
#[derive(Debug)]
pub struct Upstream {
    /// A small number, unique for the life of the process.
    pub id: u32,
    /// Identity.
    pub key: Key,
}

/// A question to send.
#[derive(Debug)]
pub struct Ask {
    /// The job that waits.
    pub ticket: Ticket,
    /// Which attempt of the job this is; comes back with the reply.
    pub attempt: u32,
    /// Whom to ask.
    pub upstream: Arc<Upstream>,
    /// How to ask.
    pub carrier: Carrier,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// No connection could be made.
    #[error("{0}")]
    Connect(String),
    /// The connection broke or the port is closed.
    #[error("{0}")]
    Broken(String),
    /// The question could not be sent.
    #[error("{0}")]
    Send(String),
}

/// All upstreams by identity.
#[derive(Debug, Default)]
pub struct Upstreams {
    known: Mutex<HashMap<Key, Arc<Upstream>>>,
}

impl Upstreams {
    /// The upstream with this identity, made if there is none yet.
    pub fn get(&self, key: Key) -> Arc<Upstream> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let id = u32::try_from(known.len()).unwrap_or(u32::MAX);
        known.entry(key.clone()).or_insert_with(|| Arc::new(Upstream { id, key })).clone()
    }
}
