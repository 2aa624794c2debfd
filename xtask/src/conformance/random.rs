//! Numbers that a seed determines, so that each run draws the same.

/// A sequence of numbers that a seed determines (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(text: &str) -> Self {
        // FNV-1a, so that the seed does not change with the compiler.
        let seed = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Random(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        // invariant: the remainder is below a usize.
        usize::try_from(self.next() % bound as u64).unwrap_or(0)
    }

    pub(super) fn one_of<'a, T>(&mut self, values: &'a [T]) -> &'a T {
        &values[self.below(values.len())]
    }
}
