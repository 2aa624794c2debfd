//! Whether a response is what was recorded: RCODE, flags, and the records of the answer section without their
//! order and TTL.

use nodens_wire::record::{RdataPart, Records, rdata_layout};
use nodens_wire::{Flags, Header, Rcode, Reader, Section, Type, WireError};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The flags that are the server's, and their names.
const FLAGS: [(u16, &str); 4] =
    [(Flags::AA, "aa"), (Flags::TC, "tc"), (Flags::RA, "ra"), (Flags::AD, "ad")];
/// Records that a difference names.
const RECORDS_NAMED: usize = 4;

/// How the responses of a replay compare with the recorded ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The same RCODE, flags and answers.
    pub same: u64,
    /// Another RCODE, whatever else differs.
    pub other_rcode: u64,
    /// The same RCODE, but other flags of those that a server sets: AA, TC, RA, AD.
    pub other_flags: u64,
    /// The same RCODE and flags, but other records in the answer section.
    pub other_records: u64,
    /// No response in time, where one was recorded.
    pub missing: u64,
    /// A response where none was recorded; these are not compared.
    pub not_recorded: u64,
    /// The recorded response, or the one that came, cannot be read.
    pub unreadable: u64,
    /// The first differences, each with its packet.
    pub named: Vec<String>,
    /// Differences to name.
    named_max: usize,
}

impl Comparison {
    /// A comparison that names the first `named_max` differences.
    pub fn new(named_max: usize) -> Self {
        Self { named_max, ..Self::default() }
    }

    /// Responses that were compared, and queries whose response is missing.
    pub fn compared(&self) -> u64 {
        self.same
            + self.other_rcode
            + self.other_flags
            + self.other_records
            + self.missing
            + self.unreadable
    }

    /// Counts the response to the query in packet `number`.
    pub(crate) fn answered(&mut self, number: u64, recorded: Option<&[u8]>, came: &[u8]) {
        let Some(recorded) = recorded else {
            self.not_recorded += 1;
            return;
        };
        // All but the ID.
        if recorded.get(2..) == came.get(2..) {
            self.same += 1;
            return;
        }
        let difference = match (Answer::read(recorded), Answer::read(came)) {
            (Ok(recorded), Ok(came)) => recorded.difference(&came),
            (Err(error), _) => Some((Kind::Unreadable, format!("the recorded response: {error}"))),
            (_, Err(error)) => Some((Kind::Unreadable, format!("the response: {error}"))),
        };
        let Some((kind, text)) = difference else {
            self.same += 1;
            return;
        };
        *match kind {
            Kind::Rcode => &mut self.other_rcode,
            Kind::Flags => &mut self.other_flags,
            Kind::Records => &mut self.other_records,
            Kind::Unreadable => &mut self.unreadable,
        } += 1;
        self.name(number, recorded, &text);
    }

    /// Counts a query without a response in time; `why` is its loss.
    pub(crate) fn lost(&mut self, number: u64, recorded: Option<&[u8]>, why: &str) {
        let Some(recorded) = recorded else { return };
        self.missing += 1;
        if self.named.len() >= self.named_max {
            return;
        }
        let rcode = Header::read(recorded).map_or(Rcode::NOERROR, |header| header.flags.rcode());
        self.name(number, recorded, &format!("recorded {rcode}, no response: {why}"));
    }

    fn name(&mut self, number: u64, recorded: &[u8], text: &str) {
        if self.named.len() < self.named_max {
            let question = question(recorded).unwrap_or_default();
            self.named.push(format!("packet {number}{question}: {text}"));
        }
    }
}

/// Name and type of what a message asks.
fn question(message: &[u8]) -> Option<String> {
    let mut reader = Reader::new(message, nodens_wire::HEADER_LEN);
    let mut wire = Vec::new();
    reader.name(&mut wire).ok()?;
    let name = nodens_wire::Name::from_wire(&wire).ok()?;
    Some(format!(", {name} {}", Type(reader.u16("QTYPE").ok()?)))
}

enum Kind {
    Rcode,
    Flags,
    Records,
    Unreadable,
}

/// What of a response is compared.
struct Answer {
    rcode: u16,
    flags: u16,
    /// Owner, type, class and RDATA, names in lower case, in their order.
    records: Vec<Held>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    owner: Vec<u8>,
    rtype: u16,
    class: u16,
    rdata: Vec<u8>,
}

impl Answer {
    fn read(message: &[u8]) -> Result<Self, WireError> {
        let header = Header::read(message)?;
        let mut answer = Self {
            rcode: header.flags.rcode().0,
            flags: FLAGS.iter().fold(0, |sum, (flag, _)| sum | header.flags.0 & flag),
            records: Vec::with_capacity(usize::from(header.counts[1]).min(64)),
        };
        for record in Records::of(message)? {
            let record = record?;
            if record.section == Section::Answer {
                let record = record.to_record(message)?;
                let mut rdata = record.rdata;
                fold_names(record.rtype, &mut rdata);
                answer.records.push(Held {
                    owner: record.owner.to_folded().as_wire().to_vec(),
                    rtype: record.rtype.0,
                    class: record.class.0,
                    rdata,
                });
            } else if record.rtype == Type::OPT {
                // The upper bits of the RCODE (RFC 6891 section 6.1.3).
                answer.rcode |= u16::try_from(record.ttl >> 24).unwrap_or(0) << 4;
            }
        }
        answer.records.sort_unstable();
        Ok(answer)
    }

    fn difference(&self, came: &Self) -> Option<(Kind, String)> {
        if self.rcode != came.rcode {
            let text = format!("recorded {}, got {}", Rcode(self.rcode), Rcode(came.rcode));
            return Some((Kind::Rcode, text));
        }
        if self.flags != came.flags {
            let text = format!("recorded flags {}, got {}", flags(self.flags), flags(came.flags));
            return Some((Kind::Flags, text));
        }
        (self.records != came.records).then(|| (Kind::Records, self.records_text(came)))
    }

    fn records_text(&self, came: &Self) -> String {
        let (gone, new) =
            (without(&self.records, &came.records), without(&came.records, &self.records));
        let list = |records: &[&Held]| {
            let mut text = String::new();
            for record in records.iter().take(RECORDS_NAMED) {
                // Writing to a string cannot fail.
                _ = write!(text, "{}{}", if text.is_empty() { "" } else { ", " }, record.text());
            }
            let more = records.len().saturating_sub(RECORDS_NAMED);
            if more > 0 {
                _ = write!(text, " and {more} more");
            }
            if text.is_empty() { "nothing else".to_owned() } else { text }
        };
        format!("recorded {}, got {}", list(&gone), list(&new))
    }
}

/// What of `records` is not among `others`; both are in order.
fn without<'r>(records: &'r [Held], others: &[Held]) -> Vec<&'r Held> {
    let mut others = others.iter().peekable();
    let mut left = Vec::new();
    for record in records {
        while others.next_if(|other| *other < record).is_some() {}
        if others.next_if(|other| *other == record).is_none() {
            left.push(record);
        }
    }
    left
}

impl Held {
    fn text(&self) -> String {
        let rtype = Type(self.rtype);
        if let (Type::A, Ok(octets)) = (rtype, <[u8; 4]>::try_from(&*self.rdata)) {
            return format!("A {}", Ipv4Addr::from(octets));
        }
        if let (Type::AAAA, Ok(octets)) = (rtype, <[u8; 16]>::try_from(&*self.rdata)) {
            return format!("AAAA {}", Ipv6Addr::from(octets));
        }
        let named = [Type::CNAME, Type::NS, Type::PTR, Type::DNAME].contains(&rtype);
        match nodens_wire::Name::from_wire(&self.rdata) {
            Ok(name) if named => format!("{rtype} {name}"),
            _ => format!("{rtype} of {} octets", self.rdata.len()),
        }
    }
}

fn flags(flags: u16) -> String {
    let names: Vec<_> =
        FLAGS.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, name)| *name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(" ") }
}

/// Turns the names in uncompressed RDATA into lower case.
fn fold_names(rtype: Type, rdata: &mut [u8]) {
    let mut at = 0;
    for part in rdata_layout(rtype) {
        let start = at;
        let mut reader = Reader::new(rdata, at);
        let passed = match part {
            RdataPart::Octets(len) => reader.take(*len, "RDATA").map(drop),
            RdataPart::CharacterString => reader
                .u8("character-string")
                .and_then(|len| reader.take(usize::from(len), "character-string").map(drop)),
            RdataPart::Name => reader.skip_name(),
        };
        if passed.is_err() {
            return;
        }
        at = reader.at();
        if matches!(part, RdataPart::Name)
            && let Some(name) = rdata.get_mut(start..at)
        {
            // Lengths of labels are no letters.
            name.make_ascii_lowercase();
        }
    }
}
