//! A question that was sent, and which message answers it.

use nodens_core::Now;
use nodens_core::upstream::Ask;
use nodens_core::worker::Ticket;
use nodens_wire::{Flags, HEADER_LEN, Header, Rcode, Reader};
use std::borrow::Cow;

/// A question that was sent to an upstream.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) ticket: Ticket,
    pub(crate) attempt: u32,
    /// When it was handed to the socket, monotonic nanoseconds.
    pub(crate) sent_at: u64,
    /// Nobody waits for it any more; its ID stays in use, so that a late answer is not taken for
    /// that of another question.
    pub(crate) forgotten: bool,
    /// The question section as sent.
    question: Vec<u8>,
}

/// Octets of QTYPE and QCLASS.
const TYPE_AND_CLASS: usize = 4;

impl Waiting {
    /// For `message`, which `ask` is about; `None` if it has no question. `buffer` is for the
    /// question; [`Waiting::into_buffer`] gives it back.
    pub(crate) fn new(ask: &Ask, message: &[u8], now: Now, buffer: Vec<u8>) -> Option<Self> {
        let mut question = buffer;
        question.clear();
        question.extend_from_slice(question_of(message)?);
        let (ticket, attempt) = (ask.ticket, ask.attempt);
        Some(Self { ticket, attempt, sent_at: now.mono_ns, forgotten: false, question })
    }

    /// The buffer that [`Waiting::new`] was given.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.question
    }

    /// `message` as the answer to this question, if it is one.
    ///
    /// Letters compare without case: upstreams may change it (RFC 1035 section 2.3.3). A server
    /// that could not read the question answers with a header alone (RFC 6895 section 2); such an answer gets
    /// the question it is about.
    pub(crate) fn answer<'m>(&self, message: &'m [u8]) -> Option<Cow<'m, [u8]>> {
        let header = Header::read(message).ok()?;
        if !header.flags.has(Flags::QR) {
            return None;
        }
        match header.counts {
            [1, ..] => self.is_question(question_of(message)?).then_some(Cow::Borrowed(message)),
            [0, 0, 0, 0] if is_complaint(header.flags.rcode()) => {
                let header = Header { counts: [1, 0, 0, 0], ..header };
                Some(Cow::Owned([&header.to_bytes()[..], &self.question].concat()))
            }
            _ => None,
        }
    }

    fn is_question(&self, other: &[u8]) -> bool {
        let own = self.question.split_last_chunk::<TYPE_AND_CLASS>();
        let other = other.split_last_chunk::<TYPE_AND_CLASS>();
        let (Some((name, rest)), Some((other_name, other_rest))) = (own, other) else {
            return false;
        };
        // Lengths of labels are below the letters, so the whole name can be compared at once.
        rest == other_rest && name.eq_ignore_ascii_case(other_name)
    }
}

fn is_complaint(rcode: Rcode) -> bool {
    matches!(rcode, Rcode::FORMERR | Rcode::SERVFAIL | Rcode::NOTIMP | Rcode::REFUSED)
}

fn question_of(message: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(message, HEADER_LEN);
    reader.skip_name().ok()?;
    message.get(HEADER_LEN..reader.at() + TYPE_AND_CLASS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(question: &[u8]) -> Waiting {
        let ticket = Ticket { slot: 0, serial: 0 };
        let question = question.to_vec();
        Waiting { ticket, attempt: 1, sent_at: 0, forgotten: false, question }
    }

    fn message(flags: u16, counts: [u16; 4], rest: &[u8]) -> Vec<u8> {
        let header = Header { id: 7, flags: Flags(flags), counts };
        [&header.to_bytes()[..], rest].concat()
    }

    #[test]
    fn only_an_answer_to_the_same_question_counts() {
        // QTYPE 65 and 97 differ like an upper and a lower case letter.
        let own = waiting(b"\x03Foo\x04test\x00\x00\x41\x00\x01");
        let answers =
            |flags, counts, rest: &[u8]| own.answer(&message(flags, counts, rest)).is_some();
        assert!(answers(0x8180, [1, 0, 0, 0], b"\x03fOO\x04TEST\x00\x00\x41\x00\x01"));
        assert!(!answers(0x8180, [1, 0, 0, 0], b"\x03foo\x04test\x00\x00\x61\x00\x01"));
        assert!(!answers(0x8180, [1, 0, 0, 0], b"\x03fop\x04test\x00\x00\x41\x00\x01"));
        assert!(!answers(0x0100, [1, 0, 0, 0], b"\x03foo\x04test\x00\x00\x41\x00\x01"));
        assert!(!answers(0x8180, [2, 0, 0, 0], b"\x03foo\x04test\x00\x00\x41\x00\x01"));
        assert!(!answers(0x8180, [1, 0, 0, 0], b"\x03foo\x04test\x00\x00\x41"));
        assert!(!answers(0x8180, [1, 0, 0, 0], b""));
    }

    #[test]
    fn a_header_alone_is_an_answer_only_if_it_complains() {
        let own = waiting(b"\x03foo\x00\x00\x01\x00\x01");
        assert!(own.answer(&message(0x8180, [0; 4], b"")).is_none());
        let refused = own.answer(&message(0x8185, [0; 4], b"")).unwrap().into_owned();
        assert_eq!(refused, message(0x8185, [1, 0, 0, 0], b"\x03foo\x00\x00\x01\x00\x01"));
    }
}
