//! Questions in a stream: where one ends, and which are too long to be one.

use crate::limits::REQUEST_LEN_MAX;
use nodens_wire::framing::{LENGTH_LEN, first_length, first_message};
use nodens_wire::{Flags, HEADER_LEN, Header, Opcode, Rcode};

/// What a stream begins with, as soon as enough of it has arrived. In which pieces it came makes no
/// difference.
pub(crate) enum Frame<'o> {
    /// A whole message, and where the next one starts.
    Message(&'o [u8], usize),
    /// A message longer than any question, of which at least the header is there.
    TooLong(Header),
}

pub(crate) fn first_frame(stream: &[u8]) -> Option<Frame<'_>> {
    first_frame_of(stream, false)
}

/// The same where `updates` may be as long as messages can be: only those have many records (RFC 2136).
pub(crate) fn first_frame_of(stream: &[u8], updates: bool) -> Option<Frame<'_>> {
    if first_length(stream)? > REQUEST_LEN_MAX {
        let header = Header::read(stream.get(LENGTH_LEN..)?).ok()?;
        let is_update = header.flags.opcode() == Opcode::UPDATE && !header.flags.has(Flags::QR);
        if !(updates && is_update) {
            return Some(Frame::TooLong(header));
        }
    }
    first_message(stream).map(|(message, len)| Frame::Message(message, len))
}

/// FORMERR for a message of which only the header is known.
pub(crate) fn refusal(header: Header) -> Option<[u8; HEADER_LEN]> {
    let flags = header.flags.reply().with_rcode(Rcode::FORMERR);
    let is_request = !header.flags.has(Flags::QR);
    is_request.then(|| Header { flags, counts: [0; 4], ..header }.to_bytes())
}
