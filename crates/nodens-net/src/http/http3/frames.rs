//! Frames of HTTP/3: type, length and what is in them (RFC 9114 section 7.1).

/// Reads a number (RFC 9000 section 16), and gives what is behind it; none if it is not whole.
pub(super) fn number(octets: &[u8]) -> Option<(u64, &[u8])> {
    let (first, mut rest) = octets.split_first()?;
    let mut number = u64::from(first & 0x3f);
    for _ in 1..1 << (first >> 6) {
        let (octet, behind) = rest.split_first()?;
        number = number << 8 | u64::from(*octet);
        rest = behind;
    }
    Some((number, rest))
}

/// Writes a number.
pub(super) fn put_number(number: u64, into: &mut Vec<u8>) {
    match number {
        0..=0x3f => into.push(number as u8),
        0x40..=0x3fff => into.extend((number as u16 | 1 << 14).to_be_bytes()),
        0x4000..=0x3fff_ffff => into.extend((number as u32 | 2 << 30).to_be_bytes()),
        _ => into.extend((number | 3 << 62).to_be_bytes()),
    }
}

/// Writes a frame.
pub(super) fn put(kind: u64, content: &[u8], into: &mut Vec<u8>) {
    put_number(kind, into);
    put_number(content.len() as u64, into);
    into.extend_from_slice(content);
}

/// Where a stream of frames is.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Type and length of the next frame, each of at most eight octets, as far as they have come.
    head: [u8; 16],
    filled: u8,
    /// The type of the frame that has begun, and how many octets of it are to come.
    open: Option<(u64, u64)>,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'o> {
    /// A frame of this type and length begins.
    Begin(u64, u64),
    /// Octets of a frame of this type.
    Content(u64, &'o [u8]),
    /// A frame of this type is whole.
    End(u64),
}

impl Frames {
    /// Takes the next part off `octets`; none if there is no more.
    pub(super) fn next<'o>(&mut self, octets: &mut &'o [u8]) -> Option<Part<'o>> {
        if let Some((kind, left)) = self.open {
            if left == 0 {
                self.open = None;
                return Some(Part::End(kind));
            }
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(octets.len());
            let (content, rest) = octets.split_at_checked(len).filter(|_| len > 0)?;
            *octets = rest;
            self.open = Some((kind, left - len as u64));
            return Some(Part::Content(kind, content));
        }
        loop {
            let (octet, rest) = octets.split_first()?;
            *octets = rest;
            *self.head.get_mut(usize::from(self.filled))? = *octet;
            self.filled += 1;
            let head = self.head.get(..usize::from(self.filled))?;
            let Some((kind, behind)) = number(head) else { continue };
            let Some((len, _)) = number(behind) else { continue };
            self.filled = 0;
            self.open = Some((kind, len));
            return Some(Part::Begin(kind, len));
        }
    }

    /// Whether no frame has begun that is not whole.
    pub(super) fn is_between(&self) -> bool {
        self.filled == 0 && self.open.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_and_read_in_every_length() {
        let cases: [(u64, &[u8]); 7] = [
            (0, &[0]),
            (63, &[0x3f]),
            (64, &[0x40, 0x40]),
            (15_293, &[0x7b, 0xbd]),
            (494_878_333, &[0x9d, 0x7f, 0x3e, 0x7d]),
            (1 << 30, &[0xc0, 0, 0, 0, 0x40, 0, 0, 0]),
            (151_288_809_941_952_652, &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]),
        ];
        for (value, octets) in cases {
            let mut written = Vec::new();
            put_number(value, &mut written);
            assert_eq!(written, octets);
            for len in 0..octets.len() {
                assert_eq!(number(&octets[..len]), None);
            }
            written.push(9);
            assert_eq!(number(&written), Some((value, &[9][..])));
        }
        // A longer form of the same.
        assert_eq!(number(&[0x40, 0x25]), Some((37, &[][..])));
    }

    #[test]
    fn frames_are_the_same_in_whatever_pieces_they_come() {
        let mut octets = Vec::new();
        put(0x21, &[], &mut octets);
        put(0, b"abc", &mut octets);
        put(70_000, &[7; 100], &mut octets);
        for size in 1..octets.len() {
            let (mut frames, mut seen) = (Frames::default(), Vec::new());
            for mut piece in octets.chunks(size) {
                while let Some(part) = frames.next(&mut piece) {
                    match part {
                        Part::Begin(kind, len) => seen.push((kind, len, Vec::new(), false)),
                        Part::Content(_, more) => seen.last_mut().unwrap().2.extend(more),
                        Part::End(_) => seen.last_mut().unwrap().3 = true,
                    }
                }
            }
            assert!(frames.is_between());
            let wanted = [(0x21, vec![]), (0, b"abc".to_vec()), (70_000, vec![7; 100])];
            let wanted = wanted.map(|(kind, content)| (kind, content.len() as u64, content, true));
            assert_eq!(seen, wanted, "pieces of {size}");
        }
    }
}
