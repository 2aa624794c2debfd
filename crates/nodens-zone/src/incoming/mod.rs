//! A zone on its way in: the messages of a response to AXFR (RFC 5936) or IXFR (RFC 1995) become a
//! version of the zone.
//!
//! [`Incoming`] is a state machine: octets of messages in, a [`Data`] out at the end. Until then nothing of
//! it is served, and a transfer that is cut or wrong leaves nothing behind. Records are put into the new
//! version while messages arrive; of the messages themselves nothing is kept but, for differences, the
//! records that this server hands on as differences in its turn.

mod error;
mod stages;

use crate::data::Data;
use crate::journal::Step;
use crate::limits::{
    INCOMING_EMPTY_MAX, INCOMING_MESSAGES_MAX, INCOMING_OCTETS_MAX, INCOMING_RECORDS_MAX,
};
use crate::serial::Serial;
use crate::zone::Soa;
use nodens_wire::{
    Builder, Class, Flags, HEADER_LEN, Header, Opcode, Rcode, Reader, Records, Section, SharedName,
    Type,
};
use std::fmt;
use std::sync::Arc;

pub use error::IncomingError;
use stages::{Differences, Stage};

#[cfg(test)]
mod tests;

/// Checks the messages of a transfer before they are read: that they are signed (RFC 8945).
pub trait Verify: Send + fmt::Debug {
    /// Checks the next message.
    ///
    /// # Errors
    /// With what is wrong with its signature.
    fn message(&mut self, message: &[u8]) -> Result<(), String>;

    /// The message checked last was that with the last record.
    ///
    /// # Errors
    /// If it was not signed.
    fn end(&mut self) -> Result<(), String>;
}

/// How much one transfer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Octets of all messages.
    pub octets: u64,
    /// Records.
    pub records: u64,
    /// Messages.
    pub messages: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            octets: INCOMING_OCTETS_MAX,
            records: INCOMING_RECORDS_MAX,
            messages: INCOMING_MESSAGES_MAX,
        }
    }
}

/// What came of a transfer.
#[derive(Debug)]
pub enum Received {
    /// The primary has no later version than the one that is here, but this one.
    UpToDate(Serial),
    /// The whole zone.
    Whole(Data),
    /// The version that differences led to, and these; none if they are more than are kept of a zone.
    Changed(Data, Vec<Arc<Step>>),
}

/// What has arrived so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Octets of messages.
    pub octets: u64,
    /// Messages.
    pub messages: u64,
    /// Records, those that are not in the zone among them.
    pub records: u64,
    /// Records that are not in the zone, which are ignored, as BIND and Knot DNS do.
    pub outside: u64,
    /// Messages without a record.
    empty: u64,
}

/// A transfer to this server.
#[derive(Debug)]
pub struct Incoming {
    zone: SharedName,
    qtype: Type,
    id: u16,
    /// The version that is here.
    base: Option<Data>,
    limits: Limits,
    verify: Option<Box<dyn Verify>>,
    stage: Stage,
    /// The SOA record that the response began with.
    latest: Option<Soa>,
    differences: Differences,
    counts: Counts,
    /// Room for a name and for RDATA.
    scratch: (Vec<u8>, Vec<u8>),
}

impl Incoming {
    /// The differences to `base`, or the whole zone if the primary does not have these.
    pub fn ixfr(zone: impl Into<SharedName>, id: u16, base: Data) -> Self {
        Self::new(zone.into(), id, Type::IXFR, Some(base))
    }

    /// The whole zone; `base` is what is here, of which a later version is wanted.
    pub fn axfr(zone: impl Into<SharedName>, id: u16, base: Option<Data>) -> Self {
        Self::new(zone.into(), id, Type::AXFR, base)
    }

    fn new(zone: SharedName, id: u16, qtype: Type, base: Option<Data>) -> Self {
        Self {
            zone,
            qtype,
            id,
            base,
            limits: Limits::default(),
            verify: None,
            stage: Stage::First,
            latest: None,
            differences: Differences::default(),
            counts: Counts::default(),
            scratch: (Vec::with_capacity(256), Vec::with_capacity(512)),
        }
    }

    /// With other limits than those of [`limits`](crate::limits).
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Has all messages checked by `verify` first.
    pub fn verified_by(self, verify: Box<dyn Verify>) -> Self {
        Self { verify: Some(verify), ..self }
    }

    /// The query, not signed.
    pub fn request(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        let mut builder = Builder::new(&mut out, self.id, Flags(0));
        builder.question(self.zone.view(), self.qtype, Class::IN);
        if let Some(base) = self.base.as_ref().filter(|_| self.qtype == Type::IXFR) {
            let fits = builder.push(Section::Authority, base.soa().record());
            debug_assert!(fits.is_ok(), "one record fits any message");
        }
        out
    }

    /// AXFR or IXFR.
    pub fn qtype(&self) -> Type {
        self.qtype
    }

    /// What has arrived so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes the next message of the response; gives what came of the transfer once it is whole.
    ///
    /// # Errors
    /// If the transfer is of no use; no other message may follow then.
    pub fn message(&mut self, message: &[u8]) -> Result<Option<Received>, IncomingError> {
        self.counts.octets += message.len() as u64;
        self.counts.messages += 1;
        if self.counts.octets > self.limits.octets {
            return Err(IncomingError::TooMany("octets"));
        }
        if self.counts.messages > self.limits.messages {
            return Err(IncomingError::TooMany("messages"));
        }
        if let Some(verify) = &mut self.verify {
            verify.message(message).map_err(IncomingError::Signature)?;
        }
        self.check_header(message)?;
        let before = self.counts.records;
        let mut received = None;
        for view in Records::of(message)? {
            let view = view?;
            if view.section != Section::Answer {
                break;
            }
            match received {
                // Whatever follows is of no interest.
                Some(Received::UpToDate(_)) => break,
                Some(_) => return Err(IncomingError::AfterEnd),
                None => received = self.take(message, &view)?,
            }
        }
        if self.counts.records == before {
            self.counts.empty += 1;
            if self.counts.empty > INCOMING_EMPTY_MAX {
                return Err(IncomingError::TooMany("messages without records"));
            }
        }
        if received.is_none() && self.is_one_soa() {
            received = self.up_to_date();
        }
        if let (Some(_), Some(verify)) = (&received, &mut self.verify) {
            verify.end().map_err(IncomingError::Signature)?;
        }
        Ok(received)
    }

    fn check_header(&self, message: &[u8]) -> Result<(), IncomingError> {
        let header = Header::read(message)?;
        let flags = header.flags;
        if header.id != self.id || !flags.has(Flags::QR) || flags.opcode() != Opcode::QUERY {
            return Err(IncomingError::Stray);
        }
        if header.counts[0] > 0 && !self.is_asked(message) {
            return Err(IncomingError::Stray);
        }
        if flags.rcode() != Rcode::NOERROR {
            return Err(IncomingError::Rcode(flags.rcode()));
        }
        if flags.has(Flags::TC) {
            return Err(IncomingError::Truncated);
        }
        // AA should be set in all messages (RFC 5936 section 2.2.1). Knot DNS never sets it.
        if matches!(self.stage, Stage::Done) {
            return Err(IncomingError::AfterEnd);
        }
        Ok(())
    }

    /// Whether the question in the message is the one that was asked.
    fn is_asked(&self, message: &[u8]) -> bool {
        let (mut reader, mut qname) = (Reader::new(message, HEADER_LEN), Vec::new());
        reader.name(&mut qname).is_ok()
            && qname.eq_ignore_ascii_case(self.zone.as_wire())
            && reader.u16("QTYPE") == Ok(self.qtype.0)
            && reader.u16("QCLASS") == Ok(Class::IN.0)
    }

    /// Whether all that has arrived is one SOA record, which may be the whole response to IXFR.
    fn is_one_soa(&self) -> bool {
        matches!(self.stage, Stage::Second)
    }

    /// The end of a transfer that brings no later version than the one that is here.
    fn up_to_date(&mut self) -> Option<Received> {
        let theirs = self.latest.as_ref()?.serial();
        let ours = self.base.as_ref()?.soa().serial();
        if theirs > ours {
            return None;
        }
        self.stage = Stage::Done;
        Some(Received::UpToDate(theirs))
    }
}
