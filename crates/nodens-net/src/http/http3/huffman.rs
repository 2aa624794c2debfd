//! Texts in the Huffman code of HPACK (RFC 7541 appendix B), which QPACK shares. The code is canonical: the
//! codes of one length follow each other, so that their counts and the order of octets say all.

/// How many octets have a code of so many bits.
const COUNTS: [u16; 31] = [
    0, 0, 0, 0, 0, 10, 26, 32, 6, 0, 5, 3, 2, 6, 2, 3, 0, 0, 0, 3, 8, 13, 26, 29, 12, 4, 15, 19,
    29, 0, 3,
];
/// Octets in the order of their codes.
const OCTETS: [u8; 256] = [
    48, 49, 50, 97, 99, 101, 105, 111, 115, 116, 32, 37, 45, 46, 47, 51, 52, 53, 54, 55, 56, 57,
    61, 65, 95, 98, 100, 102, 103, 104, 108, 109, 110, 112, 114, 117, 58, 66, 67, 68, 69, 70, 71,
    72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 89, 106, 107, 113, 118, 119,
    120, 121, 122, 38, 42, 44, 59, 88, 90, 33, 34, 40, 41, 63, 39, 43, 124, 35, 62, 0, 36, 64, 91,
    93, 126, 94, 125, 60, 96, 123, 92, 195, 208, 128, 130, 131, 162, 184, 194, 224, 226, 153, 161,
    167, 172, 176, 177, 179, 209, 216, 217, 227, 229, 230, 129, 132, 133, 134, 136, 146, 154, 156,
    160, 163, 164, 169, 170, 173, 178, 181, 185, 186, 187, 189, 190, 196, 198, 228, 232, 233, 1,
    135, 137, 138, 139, 140, 141, 143, 147, 149, 150, 151, 152, 155, 157, 158, 165, 166, 168, 174,
    175, 180, 182, 183, 188, 191, 197, 231, 239, 9, 142, 144, 145, 148, 159, 171, 206, 215, 225,
    236, 237, 199, 207, 234, 235, 192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242,
    243, 255, 203, 204, 211, 212, 214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252,
    253, 254, 2, 3, 4, 5, 6, 7, 8, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28,
    29, 30, 31, 127, 220, 249, 10, 13, 22,
];

/// Reads a text of at most `most` octets; none if it is longer, or no text.
pub(super) fn read(coded: &[u8], most: usize) -> Option<Vec<u8>> {
    // No code is shorter than five bits.
    let mut text = Vec::with_capacity((coded.len() * 8 / 5).min(most));
    let mut symbol = Symbol::default();
    for octet in coded {
        for shift in (0..8).rev() {
            if let Some(octet) = symbol.push(octet >> shift & 1)? {
                if text.len() == most {
                    return None;
                }
                text.push(octet);
                symbol = Symbol::default();
            }
        }
    }
    // What is left of the last octet is ones.
    (symbol.len < 8 && symbol.is_ones).then_some(text)
}

/// A code of which so many bits are known.
struct Symbol {
    /// The bits, less the first code of their number.
    place: u32,
    /// How many octets have a shorter code.
    shorter: u32,
    len: usize,
    is_ones: bool,
}

impl Default for Symbol {
    fn default() -> Self {
        Self { place: 0, shorter: 0, len: 0, is_ones: true }
    }
}

impl Symbol {
    /// Adds a bit: none if there is no such code, or the octet if the code is whole.
    fn push(&mut self, bit: u8) -> Option<Option<u8>> {
        self.len += 1;
        self.is_ones &= bit == 1;
        self.place = self.place << 1 | u32::from(bit);
        let count = u32::from(*COUNTS.get(self.len)?);
        if self.place < count {
            let octet = OCTETS.get((self.shorter + self.place) as usize)?;
            return Some(Some(*octet));
        }
        self.place -= count;
        self.shorter += count;
        Some(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_standard_are_read() {
        let cases: [(&[u8], &str); 4] = [
            (b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff", "www.example.com"),
            (b"\xa8\xeb\x10\x64\x9c\xbf", "no-cache"),
            (b"\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f", "custom-key"),
            (b"", ""),
        ];
        for (coded, text) in cases {
            assert_eq!(read(coded, 100).as_deref(), Some(text.as_bytes()));
        }
        assert_eq!(read(cases[0].0, 14), None);
    }

    #[test]
    fn what_is_no_text_is_refused() {
        // The end of a text inside, padding with zeros, padding of a whole octet, codes that do not exist.
        for coded in [&[0xff; 4][..], &[0x18], &[0x1f, 0xff], &[0xff, 0xff, 0xff, 0xfc]] {
            assert_eq!(read(coded, 100), None, "{coded:?}");
        }
    }

    #[test]
    fn every_octet_has_its_code() {
        let mut seen = OCTETS;
        seen.sort_unstable();
        assert!((0..=255).eq(seen));
        assert_eq!(COUNTS.iter().sum::<u16>(), 256);
    }
}
