//! Zones rebuilt from the recorded responses of authoritative servers, as a recursive resolver got them.
//!
//! - [`trace`]: recordings in; each different response is kept once, so memory grows with what is different;
//! - [`rebuild`]: which zones there are and who serves them, their records, what is filled in, and a comparison of
//!   the zones with all that was recorded;
//! - [`Validation`]: how far a resolver that validates gets in them;
//! - [`report`]: what was done and what differs, as a file;
//! - [`text`], [`output`]: master files, a Corefile for all of them, root hints, addresses.
//!
//! Data belong to the deepest zone that contains their owner, or to the zone that signed them; they are taken from a
//! server only if it is one of that zone's: it answered with the zone's SOA or NS records or a signature, or its
//! address is one of those of the zone's NS records. What a server says of others' zones, behind a CNAME record for
//! example, is left out, as a resolver leaves it out.
//!
//! What is deliberately absent: sockets, the clock, files, and the Internet: what was not recorded is not looked up.

#![forbid(unsafe_code)]

mod build;
mod check;
mod cuts;
mod denial;
mod fill;
pub mod notes;
pub mod output;
mod parts;
pub mod report;
mod response;
pub mod text;
pub mod trace;
mod validation;
mod zone;

pub use check::{Check, Differing};
pub use parts::Rule;
pub use response::LeftOut;
pub use trace::{TooMany, Trace};
pub use validation::Validation;
pub use zone::{Rrset, Zone};

use nodens_wire::{Name, Type};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Rebuilt zones, and what is to be said of them.
#[derive(Debug)]
pub struct Rebuilt {
    /// By name.
    pub zones: BTreeMap<Name, Zone>,
    /// What was done beside copying.
    pub notes: notes::Notes,
    /// The zones beside the recording.
    pub check: Check,
    /// How far a resolver that validates gets.
    pub validation: Validation,
    /// RRsets that were left out because the server has not their zone.
    pub foreign: u64,
    /// Different responses that say something about a zone, and responses of all kinds.
    pub distinct: usize,
    /// Responses.
    pub responses: u64,
    /// Responses that were left out.
    pub left_out: BTreeMap<LeftOut, u64>,
    /// Responses to other resolvers than those named.
    pub others: u64,
    /// Questions that a server refused or failed to answer.
    pub failures: Vec<(IpAddr, Name, Type, LeftOut)>,
}

/// Rebuilds the zones of which `trace` has responses.
pub fn rebuild(trace: &Trace, rule: Rule) -> Rebuilt {
    let is_of_resolver = |(response, _): &(&_, _)| trace.is_of_resolver(response);
    let (own, ordered): (Vec<_>, Vec<_>) = trace.ordered().into_iter().partition(is_of_resolver);
    let responses: Vec<_> = ordered.iter().map(|(response, _)| *response).collect();
    let cuts = cuts::Cuts::of(&responses);
    let parts = parts::Parts::of(&ordered, &cuts);
    let mut notes = notes::Notes::default();
    let mut zones = build::zones(&parts, &cuts, rule, &mut notes);
    fill::fill(&mut zones, &parts, &cuts, &mut notes);
    build::check_denials(&parts, &zones, &mut notes);
    let is_wrong = |(response, _): &(&_, _)| cuts.is_wrong(response);
    let (wrong, right): (Vec<_>, Vec<_>) = ordered.iter().copied().partition(is_wrong);
    let check = check::check(&right, &zones);
    let validation = validation::validation(&zones);
    notes.sort();
    let mut left_out = trace.left_out.clone();
    for (why, which) in [(LeftOut::WrongReferral, wrong), (LeftOut::Resolver, own)] {
        let count: u64 = which.iter().map(|(_, tally)| tally.count).sum();
        if count > 0 {
            *left_out.entry(why).or_default() += count;
        }
    }
    Rebuilt {
        zones,
        notes,
        check,
        validation,
        foreign: parts.foreign,
        distinct: ordered.len(),
        responses: trace.responses,
        left_out,
        others: trace.others,
        failures: trace.failures.iter().cloned().collect(),
    }
}

#[cfg(test)]
mod tests;
