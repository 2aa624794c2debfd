//! What an entry keeps of a response's flags.

use nodens_wire::Flags;

/// AA, RA, AD and the RCODE of a response, which are all of its flags that are kept, and whether its
/// extras are optional, in one octet.
#[derive(Clone, Copy)]
pub(super) struct KeptFlags(pub(super) u8);

impl KeptFlags {
    /// AD, RA and the RCODE stand in the low octet of a header's flags and stay where they are.
    const LOW: u16 = Flags::RA | Flags::AD | 0x000f;
    /// Where AA goes: the place of Z, which is not kept.
    const AA: u8 = 0x40;
    /// Where that goes: the place of CD, which is not kept.
    const OPTIONAL_EXTRAS: u8 = 0x10;

    pub(super) fn of(flags: Flags, optional_extras: bool) -> Self {
        let aa = if flags.has(Flags::AA) { Self::AA } else { 0 };
        let extras = if optional_extras { Self::OPTIONAL_EXTRAS } else { 0 };
        Self((flags.0 & Self::LOW) as u8 | aa | extras)
    }

    pub(super) fn unpack(self) -> Flags {
        let aa = if self.0 & Self::AA == 0 { 0 } else { Flags::AA };
        Flags(u16::from(self.0) & Self::LOW | aa)
    }

    pub(super) fn has_optional_extras(self) -> bool {
        self.0 & Self::OPTIONAL_EXTRAS != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_the_flags_comes_back() {
        let kept = Flags::AA | Flags::RA | Flags::AD | 0x000f;
        for flags in 0..=u16::MAX {
            for optional_extras in [false, true] {
                let packed = KeptFlags::of(Flags(flags), optional_extras);
                let unpacked = (packed.unpack(), packed.has_optional_extras());
                assert_eq!(unpacked, (Flags(flags & kept), optional_extras));
            }
        }
    }
}
