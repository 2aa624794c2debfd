//! The messages of a zone transfer (RFC 5936 section 2.2).

use crate::limits::{MESSAGE_LEN, STEPS_PER_MESSAGE};
use crate::pack::{Names, Packer};
use crate::serial::Serial;
use crate::zone::{Advance, Cursor, RecordRef, Soa, Version};
use nodens_wire::{
    Class, Flags, Header, MESSAGE_LEN_MAX, Name, RecordView, Records, Section, Type, WireError,
};
use std::fmt;

#[cfg(test)]
mod tests;

/// What was asked, and the flags of the answers.
#[derive(Clone, Debug)]
pub struct Question {
    /// Identifier chosen by the client.
    pub id: u16,
    /// Flags of all messages, with QR and AA.
    pub flags: Flags,
    /// The zone as it was asked for, letter by letter.
    pub qname: Name,
    /// AXFR or IXFR.
    pub qtype: Type,
    /// QCLASS.
    pub qclass: Class,
}

/// What [`Transfer::next_message`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It wrote a message, and there are more.
    Message,
    /// It wrote the last message.
    Last,
    /// It wrote nothing yet, and has done enough for one time.
    Nothing,
}

/// Why a transfer cannot go on: the messages so far are no whole zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// A record that fits no message.
    #[error("a record does not fit a message")]
    TooLong,
}

/// Where a transfer stands: what has to be written next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    First,
    Body,
    /// The cursor stands at a record that did not fit the last message.
    Held,
    Last,
    Done,
}

/// A transfer on its way: one version of a zone as messages, written when they are wanted.
///
/// Only the first message has the question, as BIND, Knot and NSD do it; it is also the one that
/// has an OPT record, which whoever sends it adds (sections 2.2.1 and 2.2.5).
pub struct Transfer {
    question: Question,
    soa: Soa,
    body: Option<Box<dyn Cursor>>,
    stage: Stage,
    names: Names,
    records: u64,
    messages: u64,
    /// Octets that each message is to leave free.
    reserve: usize,
    is_incremental: bool,
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transfer({} {:?}, {} records)", self.question.qname, self.stage, self.records)
    }
}

impl Transfer {
    /// A whole zone: the answer to AXFR, and to IXFR where differences are not known (RFC 1995
    /// section 4).
    pub fn whole(question: Question, version: Version) -> Self {
        Self::new(question, version.soa, Some(version.records))
    }

    /// The differences that [`Zone::since`](crate::Zone::since) gives: the answer to IXFR.
    pub fn differences(question: Question, differences: Version) -> Self {
        let Version { soa, records } = differences;
        Self { is_incremental: true, ..Self::new(question, soa, Some(records)) }
    }

    /// One SOA record: the answer to IXFR when the client has this serial or a newer one, and
    /// over UDP, where it makes the client ask over TCP (RFC 1995 section 2).
    pub fn soa_alone(question: Question, soa: Soa) -> Self {
        Self::new(question, soa, None)
    }

    fn new(question: Question, soa: Soa, body: Option<Box<dyn Cursor>>) -> Self {
        let (names, stage) = (Names::default(), Stage::First);
        let (records, messages, reserve, is_incremental) = (0, 0, 0, false);
        Self { question, soa, body, stage, names, records, messages, reserve, is_incremental }
    }

    /// Leaves room for so many octets in each message: those of its TSIG record.
    pub fn reserve(&mut self, octets: usize) {
        self.reserve = octets;
    }

    /// The zone as it was asked for.
    pub fn zone(&self) -> &Name {
        &self.question.qname
    }

    /// The serial number of the version.
    pub fn serial(&self) -> Serial {
        self.soa.serial()
    }

    /// Whether the answer is one SOA record.
    pub fn is_soa_alone(&self) -> bool {
        self.body.is_none()
    }

    /// Whether the answer is differences.
    pub fn is_incremental(&self) -> bool {
        self.is_incremental
    }

    /// Records written so far, both SOA records among them.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Messages written so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Whether everything is written.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Gives the messages to come the ID and the flags of `first`, the first one as it is sent.
    pub fn continue_like(&mut self, first: &[u8]) {
        if let Ok(header) = Header::read(first) {
            self.question.id = header.id;
            self.question.flags = header.flags;
        }
    }

    /// Writes the next message into `out`, which it clears. The work is bounded, see
    /// [`MESSAGE_LEN`] and [`STEPS_PER_MESSAGE`]; only the first message is there at the first try
    /// in any case. Must not be called again after [`Next::Last`].
    pub fn next_message(&mut self, out: &mut Vec<u8>) -> Result<Next, TransferError> {
        let Self { question, soa, body, stage, names, records, messages, reserve, .. } = self;
        let len_max = MESSAGE_LEN_MAX.saturating_sub(*reserve);
        let mut packer = Packer::new(out, names, question.id, question.flags);
        let mut push = |packer: &mut Packer<'_>, record: RecordRef<'_>| {
            // A record that is alone in its message may be as long as any.
            let limit = if packer.answers() == 0 { len_max } else { MESSAGE_LEN };
            let fits = packer.push(record, limit);
            *records += u64::from(fits);
            fits
        };
        if *stage == Stage::First {
            let [qtype, qclass] = [question.qtype.0, question.qclass.0].map(u16::to_be_bytes);
            packer.question(question.qname.view(), qtype, qclass);
            if !push(&mut packer, soa.record().into()) {
                return Err(TransferError::TooLong);
            }
            *stage = if body.is_some() { Stage::Body } else { Stage::Done };
        }
        for _ in 0..STEPS_PER_MESSAGE {
            let Some(body) = body.as_mut().filter(|_| *stage != Stage::Done) else { break };
            let step = match *stage {
                Stage::Held => Advance::Record,
                Stage::Last => Advance::End,
                _ => body.advance(),
            };
            let record = match step {
                Advance::Nothing => continue,
                Advance::Record => body.record(),
                Advance::End => Some(soa.record().into()),
            };
            let Some(record) = record else { continue };
            let last = step == Advance::End;
            if push(&mut packer, record) {
                *stage = if last { Stage::Done } else { Stage::Body };
            } else if packer.answers() == 0 {
                return Err(TransferError::TooLong);
            } else {
                *stage = if last { Stage::Last } else { Stage::Held };
                break;
            }
        }
        if packer.answers() == 0 {
            return Ok(Next::Nothing);
        }
        *messages += 1;
        Ok(if *stage == Stage::Done { Next::Last } else { Next::Message })
    }
}

/// The serial number the client has, from an IXFR question (RFC 1995 section 3): that of the one
/// SOA record in the authority section. Nothing if there is none.
pub fn requested_serial(request: &[u8]) -> Result<Option<Serial>, WireError> {
    let of_zone = |view: &RecordView| (view.section, view.rtype) == (Section::Authority, Type::SOA);
    for view in Records::of(request)? {
        let view = view?;
        if of_zone(&view) {
            let soa = view.to_record(request)?;
            return Ok(Soa::new(soa).ok().map(|soa| soa.serial()));
        }
    }
    Ok(None)
}
