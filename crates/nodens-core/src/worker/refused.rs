//! Queries and clients that are refused, and what the log says of them: how many, from time to time.

use super::{Ticket, Worker};
use crate::config::ShedCounters;
use crate::handler::Event;
use crate::job::{Abandoned, Recipient};
use crate::limits::{MALFORMED_SAID_EVERY, REFUSALS_SAID_EVERY, UNTRUSTED_SAID_EVERY};
use crate::log::Level;
use crate::proxy::ProxyRefusal;
use crate::time::Now;
use nodens_tls::Untrusted;
use nodens_wire::Rcode;
use nodens_wire::edns::extended_error;
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How many were refused since that was last said.
#[derive(Debug, Default)]
pub(super) struct Refused {
    unsaid: u64,
    said_at_ns: Option<u64>,
}

impl Refused {
    /// Counts one; gives how many there are to be said now, if it is time for that again.
    pub(super) fn add(&mut self, now: Now, every: Duration) -> Option<u64> {
        self.unsaid += 1;
        if self.said_at_ns.is_some_and(|at_ns| now.since(at_ns) < every) {
            return None;
        }
        self.said_at_ns = Some(now.mono_ns);
        Some(std::mem::take(&mut self.unsaid))
    }
}

impl Worker {
    /// Ends questions until those that wait take no more places than there are. The last of them that takes
    /// more than before is `newcomer`.
    #[inline]
    pub(super) fn make_room(&mut self, now: Now, newcomer: Ticket) {
        while self.jobs.places() > self.state.shared.pending_max() {
            let victim = self.jobs.victim(newcomer, &mut self.state.rng);
            if !victim.is_some_and(|ticket| self.shed(now, ticket)) {
                break;
            }
        }
    }

    /// Ends a question because too many wait: with SERVFAIL, or in silence where `shed` says so. It goes
    /// back through its chain, so that it is logged and counted like any other. False if it is at work.
    fn shed(&mut self, now: Now, ticket: Ticket) -> bool {
        let silent = self.sheds(ticket);
        let Some(job) = self.jobs.get(ticket) else { return false };
        if let Some(counters) = silent {
            job.abandon(Abandoned::Dropped);
            self.state.cells.add(counters.queries, 1);
        } else {
            job.abandon(Abandoned::Failed(Rcode::SERVFAIL));
            let response = &mut job.outer.first_mut().unwrap_or(&mut job.current).response;
            response.extended_error(extended_error::OTHER, "too many queries are waiting");
        }
        self.jobs.note_loss(ticket);
        self.state.cells.add(self.state.shared.shed, 1);
        if let Some(count) = self.refused.add(now, REFUSALS_SAID_EVERY) {
            let text = format!("{count} queries refused: too many are waiting for upstreams");
            self.state.sink.line(Level::Warning, "", text);
        }
        self.resume(now, ticket, Event::Timer);
        true
    }

    /// What counts this question if it is to be dropped in silence: one over UDP, of a block with
    /// `shed`.
    fn sheds(&mut self, ticket: Ticket) -> Option<ShedCounters> {
        let job = self.jobs.get(ticket)?;
        let Recipient::Client(client) = job.recipient else { return None };
        let block = job.outer.first().unwrap_or(&job.current).block;
        let block = job.config.as_ref()?.blocks.get(block)?;
        block.settings.shed.filter(|_| client.transport.is_datagram())
    }

    /// The requests from now on came with these TLVs in their PROXY protocol header, or without any.
    pub fn announce(&mut self, tlvs: Option<&Arc<[u8]>>) {
        if tlvs.is_some() || self.tlvs.is_some() {
            self.tlvs = tlvs.cloned();
        }
    }

    /// A connection or datagram from `peer` was refused for its PROXY protocol header: says so, but not
    /// each time.
    pub fn note_refusal(&mut self, now: Now, peer: SocketAddr, refusal: ProxyRefusal) {
        if let Some(count) = self.misproxied.add(now, MALFORMED_SAID_EVERY) {
            self.state.sink.line(Level::Warning, "proxyproto", text_of(count, peer, &refusal));
        }
    }

    /// A connection from `peer` was refused for the client's certificate: says so, but not each time.
    pub fn note_untrusted(&mut self, now: Now, peer: SocketAddr, untrusted: &Untrusted) {
        let Some(refused) = self.untrusted.get_mut(untrusted.kind as usize) else { return };
        if let Some(count) = refused.add(now, UNTRUSTED_SAID_EVERY) {
            self.state.sink.line(Level::Warning, "tls", text_of(count, peer, &untrusted.text));
        }
    }
}

fn text_of(count: u64, peer: SocketAddr, reason: &dyn Display) -> String {
    match count {
        1 => format!("{peer} refused: {reason}"),
        _ => format!("{peer} and {} more before it refused: {reason}", count - 1),
    }
}
