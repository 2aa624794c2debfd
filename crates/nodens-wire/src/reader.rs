//! A cursor over the octets of a message: every read is checked, none can panic.

use crate::name::NAME_LEN_MAX;
use thiserror::Error;

/// Pointers followed while one name is read: it has at most 127 labels, and who points from pointer
/// to pointer wants to make work (miekg/dns has the same bound).
const POINTERS_MAX: usize = 126;

/// Why a message could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// The message ends before the field that was announced.
    #[error("message ends at octet {at} inside {what}")]
    Short {
        /// Where reading stopped, in octets from the start of the message.
        at: usize,
        /// The field being read.
        what: &'static str,
    },
    /// A label starts with the reserved bits 01 or 10 (RFC 1035 section 4.1.4).
    #[error("label at octet {0} has a reserved type")]
    LabelType(usize),
    /// A compression pointer does not point to earlier octets, points into the header, or is one too
    /// many.
    #[error("compression pointer at octet {0} does not point to an earlier name")]
    Pointer(usize),
    /// A name is longer than 255 octets (RFC 1035 section 2.3.4).
    #[error("name at octet {0} is longer than 255 octets")]
    NameTooLong(usize),
    /// RDATA does not have the form its type prescribes.
    #[error("RDATA at octet {0} does not fit its type")]
    Rdata(usize),
    /// Octets follow the last record that the header announced.
    #[error("{0} octets follow the last record")]
    Trailing(usize),
    /// More than one OPT record, or one that is not in the additional section (RFC 6891 6.1.1).
    #[error("OPT record at octet {0} is misplaced or repeated")]
    Opt(usize),
    /// A message would grow past 65,535 octets.
    #[error("message would be longer than 65535 octets")]
    TooLong,
}

/// Reads a message from front to back.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at octet `at` of `message`; `at` may lie behind the end, reads then fail.
    pub fn new(message: &'a [u8], at: usize) -> Self {
        Self { message, at }
    }

    /// The position of the next octet.
    pub fn at(&self) -> usize {
        self.at
    }

    /// How many octets are left.
    pub fn left(&self) -> usize {
        self.message.len().saturating_sub(self.at)
    }

    /// The octet so far in front of the next one.
    pub(crate) fn back(&self, octets: usize) -> Option<u8> {
        self.message.get(self.at.checked_sub(octets)?).copied()
    }

    /// The next `len` octets.
    pub fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], WireError> {
        let end = self.at.checked_add(len).ok_or(WireError::Short { at: self.at, what })?;
        let bytes = self.message.get(self.at..end).ok_or(WireError::Short { at: self.at, what })?;
        self.at = end;
        Ok(bytes)
    }

    /// One octet.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, WireError> {
        let octet = self.message.get(self.at).copied();
        let octet = octet.ok_or(WireError::Short { at: self.at, what })?;
        self.at += 1;
        Ok(octet)
    }

    /// Two octets in network order.
    pub fn u16(&mut self, what: &'static str) -> Result<u16, WireError> {
        self.chunk(what).map(u16::from_be_bytes)
    }

    /// Four octets in network order.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, WireError> {
        self.chunk(what).map(u32::from_be_bytes)
    }

    fn chunk<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], WireError> {
        let chunk = self.message.get(self.at..).and_then(|rest| rest.first_chunk());
        let chunk = *chunk.ok_or(WireError::Short { at: self.at, what })?;
        self.at += N;
        Ok(chunk)
    }

    /// Passes over a name, compressed or not, without following pointers.
    ///
    /// A pointer's target is not looked at; [`Reader::name`] does that.
    pub fn skip_name(&mut self) -> Result<(), WireError> {
        let start = self.at;
        loop {
            let at = self.at;
            let len = self.u8("name")?;
            match len >> 6 {
                0 if len == 0 => return self.check_name_len(start),
                0 => {
                    self.take(usize::from(len), "label")?;
                    self.check_name_len(start)?;
                }
                3 => {
                    self.u8("compression pointer")?;
                    return self.check_name_len(start);
                }
                _ => return Err(WireError::LabelType(at)),
            }
        }
    }

    fn check_name_len(&self, start: usize) -> Result<(), WireError> {
        // 256: a name of 254 octets may be followed by a two-octet pointer to the root.
        if self.at - start > 256 { Err(WireError::NameTooLong(start)) } else { Ok(()) }
    }

    /// Passes over a name like [`Reader::skip_name`] and tells where its pointer leads, if it ends
    /// with one.
    pub fn pointer(&mut self) -> Result<Option<usize>, WireError> {
        let start = self.at;
        self.skip_name()?;
        let mut at = start;
        while let Some(&len @ 1..=63) = self.message.get(at) {
            at += 1 + usize::from(len);
        }
        let end = self.message.get(at..).and_then(<[u8]>::first_chunk::<2>);
        Ok(end
            .filter(|[high, _]| *high >= 0xc0)
            .map(|[high, low]| usize::from(high & 0x3f) << 8 | usize::from(*low)))
    }

    /// Appends the name at the cursor to `out`, decompressed, and moves behind it.
    ///
    /// Each pointer must lead to octets before the run of labels that holds it, so a chain of
    /// pointers gets shorter with every step and cannot loop. None may lead into the header: what
    /// stands there is no name, and changes when a message gets another ID.
    pub fn name(&mut self, out: &mut Vec<u8>) -> Result<(), WireError> {
        self.walk_name(|octets| out.extend_from_slice(octets))
    }

    /// Checks the name at the cursor as [`Reader::name`] does, and moves behind it.
    pub fn check_name(&mut self) -> Result<(), WireError> {
        self.walk_name(|_| ())
    }

    /// Gives the octets of the decompressed name to `emit`, piece by piece.
    fn walk_name(&mut self, mut emit: impl FnMut(&[u8])) -> Result<(), WireError> {
        let start = self.at;
        let mut octets = 0;
        let mut resume = None;
        let mut run_start = self.at;
        let mut pointers = 0;
        loop {
            let at = self.at;
            let len = self.u8("name")?;
            match len >> 6 {
                0 => {
                    let label = self.take(usize::from(len), "label")?;
                    emit(&[len]);
                    emit(label);
                    octets += 1 + label.len();
                    if octets > NAME_LEN_MAX {
                        return Err(WireError::NameTooLong(start));
                    }
                    if len == 0 {
                        self.at = resume.unwrap_or(self.at);
                        return Ok(());
                    }
                }
                3 => {
                    let low = self.u8("compression pointer")?;
                    let target = usize::from(len & 0x3f) << 8 | usize::from(low);
                    pointers += 1;
                    let is_earlier = target < run_start && target >= crate::HEADER_LEN;
                    if !is_earlier || pointers > POINTERS_MAX {
                        return Err(WireError::Pointer(at));
                    }
                    resume.get_or_insert(self.at);
                    run_start = target;
                    self.at = target;
                }
                _ => return Err(WireError::LabelType(at)),
            }
        }
    }
}

/// Whether two names in a message are the same, compressed or not; false if one cannot be read.
pub(crate) fn is_same_name(message: &[u8], one: usize, other: usize) -> bool {
    let (mut one, mut other) = (Labels::new(message, one), Labels::new(message, other));
    let mut octets = 0;
    loop {
        let (Some(label), Some(other)) = (one.next(), other.next()) else { return false };
        octets += 1 + label.len();
        if octets > NAME_LEN_MAX || !label.eq_ignore_ascii_case(other) {
            return false;
        }
        if label.is_empty() {
            return true;
        }
    }
}

/// The labels of a name, the root's at the end; the rules for pointers are those of [`Reader::name`].
struct Labels<'m> {
    reader: Reader<'m>,
    run_start: usize,
    pointers: usize,
}

impl<'m> Labels<'m> {
    fn new(message: &'m [u8], at: usize) -> Self {
        Self { reader: Reader::new(message, at), run_start: at, pointers: 0 }
    }

    fn next(&mut self) -> Option<&'m [u8]> {
        loop {
            let len = self.reader.u8("name").ok()?;
            match len >> 6 {
                0 => return self.reader.take(usize::from(len), "label").ok(),
                3 => {
                    let low = self.reader.u8("compression pointer").ok()?;
                    let target = usize::from(len & 0x3f) << 8 | usize::from(low);
                    self.pointers += 1;
                    let is_earlier = target < self.run_start && target >= crate::HEADER_LEN;
                    if !is_earlier || self.pointers > POINTERS_MAX {
                        return None;
                    }
                    (self.run_start, self.reader.at) = (target, target);
                }
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_with_a_pointer_is_decompressed() {
        let message =
            b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03org\x00\x07example\xc0\x0c\xff";
        let mut reader = Reader::new(message, 17);
        let mut out = Vec::new();
        reader.name(&mut out).unwrap();
        assert_eq!(out, b"\x07example\x03org\x00");
        assert_eq!(reader.at(), 27);
    }

    #[test]
    fn pointers_that_do_not_point_backwards_are_refused() {
        for tail in
            [&b"\xc0\x0c"[..], b"\x01a\xc0\x0c", b"\xc0\x0e\xc0\x0c", b"\xc0\x00", b"\xc0\x0b"]
        {
            let message = &[&[0; crate::HEADER_LEN], tail].concat();
            let mut out = Vec::new();
            let error = Reader::new(message, crate::HEADER_LEN).name(&mut out).unwrap_err();
            assert!(matches!(error, WireError::Pointer(_)), "{message:?}: {error}");
        }
    }

    #[test]
    fn a_name_may_have_so_many_pointers_and_no_more() {
        for (pointers, fits) in [(POINTERS_MAX, true), (POINTERS_MAX + 1, false)] {
            let mut message = [0; crate::HEADER_LEN + 1].to_vec();
            for step in 0..pointers {
                let before = message.len() - if step == 0 { 1 } else { 2 };
                message.extend((0xc000 | before as u16).to_be_bytes());
            }
            let mut reader = Reader::new(&message, message.len() - 2);
            assert_eq!(reader.check_name().is_ok(), fits, "{pointers}");
            let end = message.len() - 2;
            assert_eq!(is_same_name(&message, end, end), fits, "{pointers}");
        }
    }

    proptest! {
        /// Octets that are often lengths, pointers and letters.
        #[test]
        fn names_are_the_same_if_they_are_when_decompressed(
            octets in prop::collection::vec(
                prop_oneof![Just(0_u8), Just(0xc0), 0_u8..4, 10_u8..40, Just(b'a'), Just(b'A')], 20..60),
            one in 12_usize..40,
            other in 12_usize..40,
        ) {
            let name = |at| {
                let mut name = Vec::new();
                Reader::new(&octets, at).name(&mut name).ok()?;
                name.make_ascii_lowercase();
                Some(name)
            };
            let expected = name(one).is_some() && name(one) == name(other);
            prop_assert_eq!(is_same_name(&octets, one, other), expected);
        }
    }

    #[test]
    fn a_short_message_is_an_error_everywhere() {
        let message = b"\x03www\x07example\x00\x00\x01";
        for len in 0..message.len() - 2 {
            let mut reader = Reader::new(&message[..len], 0);
            assert!(reader.skip_name().is_err(), "{len}");
        }
    }

    #[test]
    fn a_name_of_256_octets_is_refused() {
        let mut message = Vec::new();
        for _ in 0..4 {
            message.push(63);
            message.extend([b'a'; 63]);
        }
        message.push(0);
        let mut out = Vec::new();
        assert!(Reader::new(&message, 0).name(&mut out).is_err());
        assert!(!is_same_name(&message, 0, 0));
    }
}
