//! The response of a resolution: one owner of the octets.

use crate::stream::Stream;
use nodens_wire::reader::WireError;
use nodens_wire::shape::Traits;
use nodens_wire::{Flags, Message, Rcode, Record, edns, header};

/// What a zone of this server says by a response that cannot be seen in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Known {
    /// No more than the message has.
    #[default]
    Nothing,
    /// Another zone begins at a name: that of the servers in the authority section, or the qname, which has
    /// no DS records. So many seconds may be kept that there are none.
    Cut(u32),
    /// The name that has no such records has a DNAME record.
    Dname,
    /// The SOA record is that of the zone which has the alias, and says nothing of what the alias leads to.
    OtherSoa,
}

/// What the allocator adds to each allocation.
const ALLOCATION_OCTETS: usize = 16;

/// A response in wire form, and what goes into its OPT record.
///
/// Handlers write it once ([`crate::job::Resolution::reply`], or a copy of an upstream's or cached
/// message) and may change it on the way back, in place or through [`Response::edit`]. ID, the
/// case of the question, OPT, size and TC are the server's business, at the very end.
#[derive(Debug, Default)]
pub struct Response {
    /// The message; empty until something is written.
    pub wire: Vec<u8>,
    /// The whole RCODE; the header holds its lower four bits.
    pub rcode: Rcode,
    /// Whether a handler wrote the response; otherwise the server answers with `rcode` alone.
    pub written: bool,
    /// Whether nothing is sent, on purpose.
    pub dropped: bool,
    /// The directive that answered, by [`crate::handlers::Handler::index`], for metrics.
    pub answered_by: Option<usize>,
    /// Octets at the end of the qname below which a wildcard or a DNAME record stands for it; 0 otherwise.
    pub below_wildcard: u8,
    /// What the zone of this server that has answered knows beyond the message.
    pub known: Known,
    /// What is known of the message for its last step.
    pub traits: Traits,
    /// It follows something that changes at any time and costs nothing to ask again, or a failure that says nothing of
    /// the question, so `cache` does not keep it.
    pub live: bool,
    /// An upstream's answer that another job received and handed on to this one, after its own
    /// handlers had seen it.
    pub handed_on: bool,
    /// EDNS options to send, as they stand in RDATA (NSID, EDE, cookie, …).
    pub options: Vec<u8>,
    /// The messages that follow `wire`, of an answer that has several.
    pub rest: Option<Box<Stream>>,
}

impl Response {
    /// Forgets everything but the buffers.
    pub fn clear(&mut self) {
        self.wire.clear();
        self.options.clear();
        self.rest = None;
        self.rcode = Rcode::NOERROR;
        self.written = false;
        self.dropped = false;
        self.live = false;
        self.below_wildcard = 0;
        self.known = Known::Nothing;
        self.traits = Traits::default();
        self.handed_on = false;
        self.answered_by = None;
    }

    /// Octets of memory that its buffers have.
    pub(crate) fn octets(&self) -> usize {
        self.wire.capacity() + self.options.capacity()
    }

    /// The flags of the message.
    pub fn flags(&self) -> Flags {
        header::flags(&self.wire)
    }

    /// Replaces the flags.
    pub fn set_flags(&mut self, flags: Flags) {
        nodens_wire::header::set_flags(&mut self.wire, flags);
    }

    /// Takes an upstream's message as the response.
    pub fn adopt(&mut self, message: &[u8]) {
        self.wire.clear();
        self.wire.extend_from_slice(message);
        self.rcode = self.flags().rcode();
        self.written = true;
        self.traits = Traits::default();
        self.handed_on = false;
    }

    /// Takes the message apart, lets `change` edit it, and writes it again.
    ///
    /// Not for the hot path: it allocates per record.
    pub fn edit(&mut self, change: impl FnOnce(&mut Message)) -> Result<(), WireError> {
        (self.traits.without_opt, self.traits.gain_max) = (false, None);
        let mut message = Message::parse(&self.wire)?;
        change(&mut message);
        message.write(&mut self.wire)
    }

    /// The messages that follow `first`, this response as it is sent, if there are any.
    pub(crate) fn take_rest(&mut self, first: &[u8]) -> Option<Box<Stream>> {
        let mut rest = self.rest.take()?;
        rest.continue_like(first);
        (!rest.is_done()).then_some(rest)
    }

    /// Adds an extended DNS error (RFC 8914), sent if the client speaks EDNS.
    pub fn extended_error(&mut self, info_code: u16, extra_text: &str) {
        edns::push_extended_error(&mut self.options, info_code, extra_text);
    }
}

/// Octets of memory that records take which wait to become a part of a response.
pub(crate) fn octets_of(records: &Vec<Record>) -> usize {
    records.capacity() * size_of::<Record>() + records.iter().map(record_octets).sum::<usize>()
}

/// The same of one, beside its own place.
pub(crate) fn record_octets(record: &Record) -> usize {
    2 * ALLOCATION_OCTETS + record.owner.as_wire().len() + record.rdata.capacity()
}
