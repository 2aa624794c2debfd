//! Random numbers that nobody outside can foresee: the kernel's, taken in larger pieces.

use rustix::rand::{GetRandomFlags, getrandom};

const LEN: usize = 1024;

/// A supply of random octets.
pub(crate) struct Random {
    octets: [u8; LEN],
    /// Octets from here on are unused.
    at: usize,
}

impl Random {
    pub(crate) fn new() -> Self {
        Self { octets: [0; LEN], at: LEN }
    }

    /// `N` random octets.
    pub(crate) fn octets<const N: usize>(&mut self) -> [u8; N] {
        if LEN - self.at < N {
            self.refill();
        }
        let mut taken = [0; N];
        if let Some(unused) = self.octets.get_mut(self.at..self.at + N) {
            taken.copy_from_slice(unused);
            unused.fill(0);
        }
        self.at += N;
        taken
    }

    /// # Panics
    /// If the kernel gives no random numbers, which it always does once it is up: to go on with
    /// IDs that can be foreseen would be worse.
    fn refill(&mut self) {
        let mut filled = 0;
        while let Some(rest) = self.octets.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match getrandom(rest, GetRandomFlags::empty()) {
                Ok(n) => filled += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("the kernel gives no random numbers: {error}"),
            }
        }
        self.at = 0;
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.octets())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.octets())
    }

    /// A number below `bound`, or 0 if that is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // The bias of a remainder is below 2^-32 for the small bounds used here.
        usize::try_from(self.u64() % (bound.max(1) as u64)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_across_refills() {
        let mut random = Random::new();
        let drawn: std::collections::HashSet<u64> = (0..1000).map(|_| random.u64()).collect();
        assert_eq!(drawn.len(), 1000);
        assert!((0..1000).all(|_| random.below(7) < 7));
        assert_eq!(random.below(0), 0);
    }
}
