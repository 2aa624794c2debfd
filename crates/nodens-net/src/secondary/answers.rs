//! What a primary answers, message by message.

use crate::clock;
use nodens_wire::{
    Flags, HEADER_LEN, Header, Opcode, Rcode, Reader, Records, Section, SharedName, Type,
};
use nodens_zone::incoming::IncomingError;
use nodens_zone::tsig::{Fault, Verifier};
use nodens_zone::{Serial, Soa};

/// Verifies the next message of a response, if it has to be signed.
pub(super) fn verify(verifier: Option<&mut Verifier>, message: &[u8]) -> Result<(), IncomingError> {
    let Some(verifier) = verifier else { return Ok(()) };
    let rcode = Header::read(message)?.flags.rcode();
    verifier.accept(message, clock::now().unix_s).map_err(|fault| match fault {
        // A server that refuses need not sign it, and what it says is more use than that it did not.
        Fault::Unsigned if rcode != Rcode::NOERROR => IncomingError::Rcode(rcode),
        fault => IncomingError::Signature(fault.to_string()),
    })
}

/// The serial number in the response to a query for the SOA record.
pub(super) fn serial(message: &[u8], id: u16, zone: &SharedName) -> Result<Serial, IncomingError> {
    let Header { id: theirs, flags, counts: [questions, ..] } = Header::read(message)?;
    if theirs != id || !flags.has(Flags::QR) || flags.opcode() != Opcode::QUERY {
        return Err(IncomingError::Stray);
    }
    let (mut reader, mut qname) = (Reader::new(message, HEADER_LEN), Vec::new());
    let is_asked = |reader: &mut Reader<'_>, qname: &mut Vec<u8>| {
        reader.name(qname).is_ok()
            && qname.eq_ignore_ascii_case(zone.as_wire())
            && reader.u16("QTYPE") == Ok(Type::SOA.0)
    };
    if questions > 0 && !is_asked(&mut reader, &mut qname) {
        return Err(IncomingError::Stray);
    }
    if flags.rcode() != Rcode::NOERROR {
        return Err(IncomingError::Rcode(flags.rcode()));
    }
    if !flags.has(Flags::AA) {
        return Err(IncomingError::NotAuthoritative);
    }
    for view in Records::of(message)? {
        let view = view?;
        if (view.section, view.rtype) == (Section::Answer, Type::SOA) {
            let record = view.to_record(message)?;
            if *zone == record.owner {
                let soa = Soa::new(record).map_err(|_| IncomingError::NoSoa)?;
                return Ok(soa.serial());
            }
        }
    }
    Err(IncomingError::NoSoa)
}
