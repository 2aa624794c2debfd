//! One query as a line of the log.

use super::Format;
use crate::transport::Transport;
use nodens_wire::{Class, Flags, Name, Opcode, Rcode, Type};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The facts of one query log line.
#[derive(Debug)]
pub struct QueryRecord {
    /// What the line says.
    pub format: Arc<Format>,
    /// Who asked.
    pub peer: SocketAddr,
    /// The address asked.
    pub local: SocketAddr,
    /// How it asked.
    pub transport: Transport,
    /// The request's identifier.
    pub id: u16,
    /// The request's OPCODE.
    pub opcode: Opcode,
    /// QNAME as asked.
    pub qname: Name,
    /// QTYPE.
    pub qtype: Type,
    /// QCLASS.
    pub qclass: Class,
    /// Octets of the request.
    pub size: usize,
    /// The DO bit of the request.
    pub dnssec_ok: bool,
    /// The largest response the client takes, in octets.
    pub bufsize: u16,
    /// RCODE and flags of the response; `None` if the question was dropped.
    pub response: Option<(Rcode, Flags)>,
    /// Octets of the response.
    pub response_size: usize,
    /// From the request's receipt to the response.
    pub took: Duration,
    /// Values of the `{/label}` placeholders, in their order.
    pub metadata: Vec<String>,
}

impl QueryRecord {
    /// The line, without level and line end.
    pub fn line(&self) -> String {
        self.format.render(self)
    }

    /// QCLASS, as a number where a type is called like it.
    pub fn class(&self) -> String {
        self.qclass.unambiguous().map_or_else(|| self.qclass.to_string(), str::to_owned)
    }

    /// `udp` or `tcp`.
    pub fn protocol(&self) -> &'static str {
        self.transport.name()
    }

    /// The name of the RCODE, or its number if it has none; `None` without a response.
    pub fn response_code(&self) -> Option<String> {
        let (rcode, _) = self.response?;
        Some(rcode.mnemonic().map_or_else(|| rcode.0.to_string(), str::to_owned))
    }
}
