//! `tsig`: verifies signed queries, has responses to them signed, and refuses queries that have to be
//! signed and are not (RFC 8945).
//!
//! The response is signed where it gets its final form ([`crate::finish`]), and the messages that follow
//! it where they are made ([`crate::stream`]).

mod config;

use crate::handler::{Cx, Handle, Spec, Step};
use crate::log::Level;
use crate::metrics::Counter;
use crate::zones::Zones;
use nodens_wire::{Opcode, Rcode, Type};
use nodens_zone::tsig::{Check, Keys, Signature, check};
use std::sync::Arc;

use config::{setup, share};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec { complete: Some(share), ..Spec::new("tsig", setup) };

/// The directive at work.
#[derive(Debug)]
pub struct Tsig {
    zones: Zones,
    /// Those of all blocks of the server.
    keys: Arc<Keys>,
    types: Required<Type>,
    opcodes: Required<Opcode>,
    refused: Counter,
}

/// What has to be signed.
#[derive(Debug)]
struct Required<T> {
    all: bool,
    some: Vec<T>,
}

impl<T> Default for Required<T> {
    fn default() -> Self {
        Self { all: false, some: Vec::new() }
    }
}

impl<T: PartialEq> Required<T> {
    fn has(&self, one: T) -> bool {
        self.all || self.some.contains(&one)
    }
}

impl Tsig {
    fn refuse(&self, cx: &mut Cx<'_>, rcode: Rcode, reason: &str) -> Step {
        cx.worker.cells.add(self.refused, 1);
        if cx.block.settings.debug {
            let (client, qtype) = (cx.job.client().peer, cx.job.current.qtype);
            let text = format!("TSIG validation failed: {qtype} from {client}: {reason}");
            cx.worker.sink.line(Level::Debug, SPEC.name, text);
        }
        cx.q().reply(rcode, false);
        Step::Answered
    }
}

impl Handle for Tsig {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let q = &cx.job.current;
        let required = self.types.has(q.qtype) || self.opcodes.has(q.flags.opcode());
        if !q.is_clients() {
            // The client of a handler's lookup is known already, or is not.
            let is_verified = cx.job.verified_key().is_some();
            return match required && !is_verified && self.zones.contains(q.qname.view()) {
                true => self.refuse(cx, Rcode::REFUSED, "a lookup for an unsigned query"),
                false => Step::Next,
            };
        }
        let in_zone = self.zones.contains(q.qname.view());
        let request = std::mem::take(&mut cx.job.request);
        let step = match Signature::find(&request) {
            Err(error) => self.refuse(cx, Rcode::FORMERR, &error.to_string()),
            Ok(None) if required && in_zone => self.refuse(cx, Rcode::REFUSED, "no TSIG record"),
            Ok(Some(signature)) if in_zone => self.verify(cx, &request, &signature),
            Ok(_) => Step::Next,
        };
        cx.job.request = request;
        step
    }
}

impl Tsig {
    fn verify(&self, cx: &mut Cx<'_>, request: &[u8], signature: &Signature<'_>) -> Step {
        match check(&self.keys, request, signature, cx.job.received.unix_s) {
            Check::Verified(signer) => {
                cx.job.signer = Some(Box::new(signer));
                Step::Next
            }
            Check::Refused(signer) => {
                let reason = format!("{} with key {}", signer.error(), signature.key_name());
                cx.job.signer = Some(Box::new(signer));
                self.refuse(cx, Rcode::NOTAUTH, &reason)
            }
            Check::Malformed => self.refuse(cx, Rcode::FORMERR, "a MAC of no valid length"),
        }
    }
}
