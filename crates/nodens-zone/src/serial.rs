//! Serial numbers of zones, which wrap (RFC 1982).

use std::cmp::Ordering;

/// A serial number. Of two that are 2^31 apart neither is the newer one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Serial(pub u32);

impl PartialOrd for Serial {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        const HALF: u32 = 1 << 31;
        match self.0.wrapping_sub(other.0) {
            0 => Some(Ordering::Equal),
            1..HALF => Some(Ordering::Greater),
            HALF => None,
            _ => Some(Ordering::Less),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_as_in_section_5_of_the_rfc() {
        let newer = |a: u32, b: u32| Serial(a) > Serial(b) && Serial(b) < Serial(a);
        assert!(newer(1, 0) && newer(44, 0) && newer(100, 44) && newer(200, 100));
        assert!(newer(0, u32::MAX) && newer(5, u32::MAX - 100));
        assert!(newer(1 << 31, 1) && !newer(1 << 31, 0) && !newer(0, 1 << 31));
        assert!(Serial(7) >= Serial(7));
    }
}
