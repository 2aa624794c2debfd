//! What responses say about names.

use super::{Event, Says};
use crate::search::Found;
use nodens_wire::record::{Records, Section};
use nodens_wire::{Flags, Header, Rcode, Type};
use std::collections::HashMap;

/// Octets of an SOA record behind its names: five numbers, of which the last is for denials.
const SOA_NUMBERS_LEN: usize = 20;

/// What a response to a question for addresses says, and for how long.
pub(super) fn says(message: &[u8], is_aaaa: bool) -> Says {
    let Ok(header) = Header::read(message) else { return Says::Failed };
    if header.flags.has(Flags::TC) {
        return Says::Truncated;
    }
    let found = match header.flags.rcode() {
        Rcode::NOERROR => Found::NoData,
        Rcode::NXDOMAIN => Found::NoName,
        _ => return Says::Failed,
    };
    let qtype = if is_aaaa { Type::AAAA } else { Type::A };
    let (mut has_address, mut ttl, mut denial) = (false, u32::MAX, u32::MAX);
    for record in Records::of(message).into_iter().flatten().map_while(Result::ok) {
        match record.section {
            Section::Answer => {
                has_address |= record.rtype == qtype;
                ttl = ttl.min(record.ttl);
            }
            Section::Authority if record.rtype == Type::SOA => {
                denial = denial.min(record.ttl).min(minimum(message, &record.rdata));
            }
            _ => {}
        }
    }
    if has_address && found == Found::NoData {
        return Says::Found(Found::Addresses, ttl);
    }
    // Without SOA record a denial is not kept (RFC 2308 section 5).
    Says::Found(found, if denial == u32::MAX { 0 } else { denial })
}

/// How long an SOA record has denials kept (RFC 2308 section 4).
fn minimum(message: &[u8], rdata: &std::ops::Range<usize>) -> u32 {
    let long_enough = rdata.len() > SOA_NUMBERS_LEN;
    let last = message.get(rdata.clone()).and_then(<[u8]>::last_chunk).filter(|_| long_enough);
    last.map_or(0, |octets| u32::from_be_bytes(*octets))
}

/// What each name turned out to be: addresses of any type before no data before no name before failures.
pub(super) fn found(events: &[Event]) -> HashMap<u32, Found> {
    let rank = |found| match found {
        Found::Addresses => 3,
        Found::NoData => 2,
        Found::NoName => 1,
        Found::Failed => 0,
    };
    let mut all: HashMap<u32, Found> = HashMap::new();
    for event in events {
        let found = match event.says {
            Some(Says::Found(found, _)) => found,
            Some(Says::Failed) => Found::Failed,
            Some(Says::Truncated) | None => continue,
        };
        let known = all.entry(event.name).or_insert(found);
        if rank(found) > rank(*known) {
            *known = found;
        }
    }
    all
}
