//! Whether RDATA has the form that its type prescribes, to the last octet.
//!
//! For messages of others, before they are handed on: who reads a record of a known type field by
//! field must find every field, and nothing behind the last. Values are not judged, nor are types
//! that are not known here (RFC 3597 section 3).

use crate::edns::Options;
use crate::name::NAME_LEN_MAX;
use crate::reader::{Reader, WireError};
use crate::record::RecordView;
use crate::types::Type;
use Field::{
    Anything, Apl, Gateway, Hip, Name, Octets, OptOptions, Params, PlainName, Text, Texts, Types,
};

/// A field of RDATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// A fixed number of octets.
    Octets(usize),
    /// A name that may be compressed (RFC 3597 section 4).
    Name,
    /// A name that must not be.
    PlainName,
    /// One character-string (RFC 1035 section 3.3), or other octets with their length in front.
    Text,
    /// Character-strings to the end. RFC 1035 (section 3.3.14) wants at least one, but there are servers
    /// that write an empty text without any.
    Texts,
    /// Whatever octets are left.
    Anything,
    /// Types as a map of bits, to the end (RFC 4034 section 4.1.2).
    Types,
    /// Parameters with key and length, to the end (RFC 9460 section 2.2).
    Params,
    /// EDNS options, to the end (RFC 6891 section 6.1.2).
    OptOptions,
    /// Address prefixes, to the end (RFC 3123 section 4).
    Apl,
    /// Host identity, key and servers (RFC 8005 section 5).
    Hip,
    /// A gateway or relay, of a kind that stands so many octets in front of it, in the bits of the
    /// mask (RFC 4025 section 2, RFC 8777 section 4.2).
    Gateway(usize, u8),
}

/// The fields of a type's RDATA.
fn fields(rtype: Type) -> &'static [Field] {
    match rtype {
        Type::A | Type::UID | Type::GID => &[Octets(4)],
        Type::AAAA | Type::LOC => &[Octets(16)],
        Type::NS | Type::CNAME | Type::PTR | Type::DNAME => &[Name],
        Type::MB | Type::MD | Type::MF | Type::MG | Type::MR => &[Name],
        Type::SOA => &[Name, Name, Octets(20)],
        Type::MX | Type::AFSDB | Type::RT | Type::KX => &[Octets(2), Name],
        Type::SRV => &[Octets(6), Name],
        Type::TXT | Type::SPF | Type::AVC | Type::NINFO | Type::RESINFO => &[Texts],
        Type::ISDN => &[Texts],
        Type::MINFO | Type::RP => &[Name, Name],
        Type::PX => &[Octets(2), Name, Name],
        Type::NAPTR => &[Octets(4), Text, Text, Text, Name],
        Type::NXT => &[Name, Anything],
        Type::SIG => &[Octets(18), Name, Anything],
        Type::HINFO => &[Text, Text],
        Type::X25 | Type::UINFO => &[Text],
        Type::GPOS => &[Text, Text, Text],
        Type::NSAP_PTR => &[PlainName],
        Type::TALINK => &[PlainName, PlainName],
        Type::LP => &[Octets(2), PlainName],
        Type::CAA => &[Octets(1), Text, Anything],
        Type::URI => &[Octets(4), Anything],
        Type::TLSA | Type::SMIMEA => &[Octets(3), Anything],
        Type::SSHFP => &[Octets(2), Anything],
        Type::CERT => &[Octets(5), Anything],
        Type::DS | Type::CDS | Type::DLV | Type::TA => &[Octets(4), Anything],
        Type::DNSKEY | Type::CDNSKEY | Type::KEY | Type::RKEY => &[Octets(4), Anything],
        Type::RRSIG => &[Octets(18), PlainName, Anything],
        Type::NSEC => &[PlainName, Types],
        Type::NSEC3 => &[Octets(4), Text, Text, Types],
        Type::NSEC3PARAM => &[Octets(4), Text],
        Type::CSYNC => &[Octets(6), Types],
        Type::ZONEMD => &[Octets(6), Anything],
        Type::EUI48 | Type::L32 => &[Octets(6)],
        Type::EUI64 => &[Octets(8)],
        Type::NID | Type::L64 => &[Octets(10)],
        Type::SVCB | Type::HTTPS => &[Octets(2), PlainName, Params],
        Type::OPT => &[OptOptions],
        Type::APL => &[Apl],
        Type::HIP => &[Hip],
        Type::IPSECKEY => &[Octets(3), Gateway(2, 0xff), Anything],
        Type::AMTRELAY => &[Octets(2), Gateway(1, 0x7f)],
        _ => &[Anything],
    }
}

impl RecordView {
    /// Checks that the owner is a name and that RDATA has the form of its type, to the last octet.
    /// Stricter than [`RecordView::check`], for what is handed on to others.
    ///
    /// # Errors
    /// [`WireError::Rdata`] with the place of the RDATA, or what is wrong with a name.
    pub fn validate(&self, message: &[u8]) -> Result<(), WireError> {
        Reader::new(message, self.owner_at).check_name()?;
        let fault = WireError::Rdata(self.rdata.start);
        // Names may point to what is in front of the record, but nothing reaches behind it.
        let octets = message.get(..self.rdata.end).ok_or(fault)?;
        let mut reader = Reader::new(octets, self.rdata.start);
        for field in fields(self.rtype) {
            read(*field, &mut reader).ok_or(fault)?;
        }
        if reader.left() == 0 { Ok(()) } else { Err(fault) }
    }
}

/// Passes over a field; `None` if it is not there or not whole. The reader ends with the RDATA.
fn read(field: Field, reader: &mut Reader<'_>) -> Option<()> {
    match field {
        Octets(len) => take(reader, len),
        Name => reader.check_name().ok(),
        PlainName => plain_name(reader),
        Text => text(reader),
        Texts => texts(reader),
        Anything => take(reader, reader.left()),
        Types => types(reader),
        Params => params(reader),
        OptOptions => {
            let octets = reader.take(reader.left(), "options").ok()?;
            Options::check(octets).ok()
        }
        Apl => prefixes(reader),
        Hip => host_identity(reader),
        Gateway(behind, mask) => {
            let kind = reader.back(behind)? & mask;
            gateway(kind, reader)
        }
    }
}

fn take(reader: &mut Reader<'_>, len: usize) -> Option<()> {
    reader.take(len, "RDATA").ok().map(drop)
}

fn short(reader: &mut Reader<'_>) -> Option<usize> {
    reader.u16("RDATA").ok().map(usize::from)
}

fn octet(reader: &mut Reader<'_>) -> Option<usize> {
    reader.u8("RDATA").ok().map(usize::from)
}

fn text(reader: &mut Reader<'_>) -> Option<()> {
    let len = octet(reader)?;
    take(reader, len)
}

fn texts(reader: &mut Reader<'_>) -> Option<()> {
    while reader.left() > 0 {
        text(reader)?;
    }
    Some(())
}

fn plain_name(reader: &mut Reader<'_>) -> Option<()> {
    let start = reader.at();
    loop {
        match octet(reader)? {
            0 => break,
            len @ 1..=63 => take(reader, len)?,
            _ => return None,
        }
    }
    (reader.at() - start <= NAME_LEN_MAX).then_some(())
}

/// Blocks of a number, a length of 1 to 32 and so many octets, with growing numbers.
fn types(reader: &mut Reader<'_>) -> Option<()> {
    let mut last = None;
    while reader.left() > 0 {
        let (window, len) = (octet(reader)?, octet(reader)?);
        if !matches!(len, 1..=32) || last.is_some_and(|last| window <= last) {
            return None;
        }
        last = Some(window);
        take(reader, len)?;
    }
    Some(())
}

fn params(reader: &mut Reader<'_>) -> Option<()> {
    while reader.left() > 0 {
        short(reader)?;
        let len = short(reader)?;
        take(reader, len)?;
    }
    Some(())
}

fn prefixes(reader: &mut Reader<'_>) -> Option<()> {
    while reader.left() > 0 {
        take(reader, 3)?;
        let len = octet(reader)? & 0x7f;
        take(reader, len)?;
    }
    Some(())
}

fn host_identity(reader: &mut Reader<'_>) -> Option<()> {
    let identity_len = octet(reader)?;
    take(reader, 1)?;
    let key_len = short(reader)?;
    take(reader, identity_len + key_len)?;
    while reader.left() > 0 {
        plain_name(reader)?;
    }
    Some(())
}

/// None, an IPv4 address, an IPv6 address, a name, or what nobody has defined.
fn gateway(kind: u8, reader: &mut Reader<'_>) -> Option<()> {
    match kind {
        0 => Some(()),
        1 => take(reader, 4),
        2 => take(reader, 16),
        3 => plain_name(reader),
        _ => take(reader, reader.left()),
    }
}

#[cfg(test)]
#[path = "rdata_tests.rs"]
mod tests;
