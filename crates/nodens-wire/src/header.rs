//! The fixed header of a message (RFC 1035 section 4.1.1, AD and CD from RFC 4035 section 3).

use crate::reader::WireError;
use crate::types::{Opcode, Rcode};

/// The 16 bits between ID and the counts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags(pub u16);

impl Flags {
    /// Response.
    pub const QR: u16 = 0x8000;
    /// Authoritative answer.
    pub const AA: u16 = 0x0400;
    /// Truncated.
    pub const TC: u16 = 0x0200;
    /// Recursion desired.
    pub const RD: u16 = 0x0100;
    /// Recursion available.
    pub const RA: u16 = 0x0080;
    /// Reserved, must be zero.
    pub const Z: u16 = 0x0040;
    /// Authentic data.
    pub const AD: u16 = 0x0020;
    /// Checking disabled.
    pub const CD: u16 = 0x0010;
    const OPCODE: u16 = 0x7800;
    const RCODE: u16 = 0x000f;

    /// Whether every bit of `mask` is set.
    pub fn has(self, mask: u16) -> bool {
        self.0 & mask == mask
    }

    /// The same flags with the bits of `mask` set or cleared.
    #[must_use]
    pub fn with(self, mask: u16, on: bool) -> Self {
        Self(if on { self.0 | mask } else { self.0 & !mask })
    }

    /// The OPCODE.
    pub fn opcode(self) -> Opcode {
        Opcode(((self.0 & Self::OPCODE) >> 11) as u8)
    }

    /// The lower four bits of the RCODE.
    pub fn rcode(self) -> Rcode {
        Rcode(self.0 & Self::RCODE)
    }

    /// The same flags with the lower four bits of `rcode`.
    #[must_use]
    pub fn with_rcode(self, rcode: Rcode) -> Self {
        Self(self.0 & !Self::RCODE | rcode.0 & Self::RCODE)
    }

    /// The same flags with `opcode`.
    #[must_use]
    pub fn with_opcode(self, opcode: Opcode) -> Self {
        Self(self.0 & !Self::OPCODE | (u16::from(opcode.0) << 11) & Self::OPCODE)
    }

    /// The flags of a response to a request with these flags: QR set, OPCODE kept, and RD and CD
    /// of a query, for other opcodes give them no meaning.
    #[must_use]
    pub fn reply(self) -> Self {
        let kept = if self.opcode() == Opcode::QUERY { Self::RD | Self::CD } else { 0 };
        Self(self.0 & (Self::OPCODE | kept) | Self::QR)
    }
}

/// The header as values.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Header {
    /// Identifier chosen by whoever asked.
    pub id: u16,
    /// QR, OPCODE, AA, TC, RD, RA, Z, AD, CD, RCODE.
    pub flags: Flags,
    /// QDCOUNT, ANCOUNT, NSCOUNT, ARCOUNT.
    pub counts: [u16; 4],
}

impl Header {
    /// Reads the header of `message`.
    pub fn read(message: &[u8]) -> Result<Self, WireError> {
        let Some([a, b, c, d, e, f, g, h, i, j, k, l]) = message.first_chunk() else {
            // The first of the six fields that is not there.
            return Err(WireError::Short { at: message.len() & !1, what: "header" });
        };
        let word = |high: &u8, low: &u8| u16::from_be_bytes([*high, *low]);
        let counts = [word(e, f), word(g, h), word(i, j), word(k, l)];
        Ok(Self { id: word(a, b), flags: Flags(word(c, d)), counts })
    }

    /// The 12 octets.
    pub fn to_bytes(self) -> [u8; crate::HEADER_LEN] {
        let mut bytes = [0; crate::HEADER_LEN];
        let words = [self.id, self.flags.0].into_iter().chain(self.counts);
        for (chunk, word) in bytes.chunks_exact_mut(2).zip(words) {
            chunk.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// Overwrites the header of `message`; a message shorter than a header is left alone.
    pub fn write_to(self, message: &mut [u8]) {
        if let Some(head) = message.first_chunk_mut::<{ crate::HEADER_LEN }>() {
            *head = self.to_bytes();
        }
    }
}

/// The flags of `message`; none if it is too short to have any.
pub fn flags(message: &[u8]) -> Flags {
    match message.first_chunk() {
        Some([_, _, high, low]) => Flags(u16::from_be_bytes([*high, *low])),
        None => Flags::default(),
    }
}

/// Overwrites the ID of `message`, if it has one.
pub fn set_id(message: &mut [u8], id: u16) {
    if let Some(head) = message.first_chunk_mut::<2>() {
        *head = id.to_be_bytes();
    }
}

/// Overwrites the flags of `message`, if it has them.
pub fn set_flags(message: &mut [u8], flags: Flags) {
    if let Some([_, _, high, low, ..]) = message.first_chunk_mut::<4>() {
        [*high, *low] = flags.0.to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_opcode_and_rcode_can_be_set_over_every_other() {
        for old in 0..16 {
            for new in 0..16 {
                let flags = Flags(0xffff).with_opcode(Opcode(old)).with_opcode(Opcode(new));
                assert_eq!(flags.opcode(), Opcode(new));
                assert_eq!(flags.with_opcode(Opcode(15)), Flags(0xffff));
                let flags = Flags(0).with_rcode(Rcode(old.into())).with_rcode(Rcode(new.into()));
                assert_eq!(flags.rcode(), Rcode(new.into()));
            }
        }
    }

    #[test]
    fn a_header_survives_both_ways() {
        let header = Header { id: 0x1234, flags: Flags(0x8583), counts: [1, 2, 3, 4] };
        assert_eq!(Header::read(&header.to_bytes()), Ok(header));
        assert!(Header::read(&[0; 11]).is_err());
    }
}
