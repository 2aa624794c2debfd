//! What kind of response a message is, for logs and caches.

use nodens_wire::{Header, Opcode, Rcode, Records, Section, Type};

/// Kinds of responses, told apart by RCODE and sections (RFC 2308 section 2 for the negative
/// ones).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// NOERROR with an answer, or with nothing at all.
    NoError,
    /// NXDOMAIN without an answer.
    NameError,
    /// NOERROR without an answer, SOA in the authority section.
    NoData,
    /// NOERROR without an answer, NS and no SOA in the authority section.
    Delegation,
    /// SERVFAIL or NOTIMP.
    ServerError,
    /// NOTIFY, UPDATE or a zone transfer.
    Meta,
    /// Anything else; also NXDOMAIN with an answer, and what is malformed.
    OtherError,
}

/// The four classes that `log` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseClass {
    /// NOERROR with data, or a referral.
    Success,
    /// NXDOMAIN or NODATA.
    Denial,
    /// Everything else.
    Error,
}

impl Kind {
    /// The class `log` files it under.
    pub fn class(self) -> ResponseClass {
        match self {
            Self::NoError | Self::Delegation => ResponseClass::Success,
            Self::NameError | Self::NoData => ResponseClass::Denial,
            Self::ServerError | Self::Meta | Self::OtherError => ResponseClass::Error,
        }
    }
}

/// The kind of the response `wire` whose whole RCODE is `rcode`.
pub fn kind_of(wire: &[u8], rcode: Rcode, qtype: Type) -> Kind {
    let Ok(header) = Header::read(wire) else { return Kind::OtherError };
    let is_other = matches!(header.flags.opcode(), Opcode::NOTIFY | Opcode::UPDATE);
    if is_other || matches!(qtype, Type::AXFR | Type::IXFR) {
        return Kind::Meta;
    }
    let [_, answers, authority, _] = header.counts;
    match rcode {
        Rcode::NOERROR if answers > 0 => Kind::NoError,
        Rcode::NOERROR if authority == 0 => Kind::NoError,
        Rcode::NOERROR => without_answer(wire),
        Rcode::NXDOMAIN if answers > 0 => Kind::OtherError,
        Rcode::NXDOMAIN => Kind::NameError,
        Rcode::SERVFAIL | Rcode::NOTIMP => Kind::ServerError,
        _ => Kind::OtherError,
    }
}

fn without_answer(wire: &[u8]) -> Kind {
    let Ok(records) = Records::of(wire) else { return Kind::OtherError };
    let mut kind = Kind::NoError;
    for record in records {
        match record {
            Ok(record) if record.section != Section::Authority => {}
            Ok(record) if record.rtype == Type::SOA => return Kind::NoData,
            Ok(record) if record.rtype == Type::NS => kind = Kind::Delegation,
            Ok(_) => {}
            Err(_) => return Kind::OtherError,
        }
    }
    kind
}
