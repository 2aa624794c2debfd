//! How much a worker may sign: queries behind wait meanwhile.

use crate::limits::{SIGNING_APEX_SHARE, SIGNING_BURST, SIGNING_PER_SECOND};
use crate::signatures::Sort;
use nodens_zone::dnssec::{Algorithm, SigningKey};

/// What one unit counts, in nanoseconds.
const UNIT_NS: u64 = 1_000_000_000 / SIGNING_PER_SECOND;
/// What may have been signed at once, in nanoseconds.
const BURST_NS: u64 = SIGNING_BURST * UNIT_NS;

/// What a worker has signed of late.
#[derive(Debug, Default)]
pub struct Meter {
    /// Until when it counts, monotonic nanoseconds.
    until_ns: u64,
    /// The same of what is signed of apexes alone.
    apex_until_ns: u64,
}

impl Meter {
    /// Whether a signature may be made that costs so many units. What is made for questions leaves half of
    /// the room to others, and what denies types of names, apexes included, a quarter. What else apexes have gets room
    /// of its own besides: without their signatures, no response of the zone validates.
    pub(super) fn takes(&mut self, now_ns: u64, units: u64, sort: Sort) -> bool {
        let cost = units.saturating_mul(UNIT_NS);
        if sort == Sort::Apex {
            let cost = cost.saturating_mul(SIGNING_APEX_SHARE);
            if counts(&mut self.apex_until_ns, now_ns, cost, BURST_NS) {
                return true;
            }
        }
        let room = match sort {
            Sort::Apex | Sort::Found => BURST_NS,
            Sort::Denied | Sort::ApexDenied => BURST_NS / 4 * 3,
            Sort::Made => BURST_NS / 2,
        };
        counts(&mut self.until_ns, now_ns, cost, room)
    }
}

/// Counts `cost`, unless there is no more room.
fn counts(until_ns: &mut u64, now_ns: u64, cost: u64, room: u64) -> bool {
    let has_room = until_ns.saturating_sub(now_ns) < room;
    if has_room {
        *until_ns = now_ns.max(*until_ns).saturating_add(cost);
    }
    has_room
}

/// What a signature with a key costs, in units of about 20 µs.
pub(super) fn units(key: &SigningKey) -> u64 {
    match key.algorithm() {
        Algorithm::EcdsaP256Sha256 | Algorithm::Ed25519 => 1,
        Algorithm::EcdsaP384Sha384 => 15,
        // The time grows with the third power of the length: 50 units with 2048 bits.
        Algorithm::RsaSha256 | Algorithm::RsaSha512 => {
            let octets = key.signature_len() as u64;
            (50 * octets.pow(3)).div_ceil(256_u64.pow(3))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_much_is_signed_at_once_and_so_much_each_second() {
        let mut meter = Meter::default();
        let mut now_ns = 5_000_000_000;
        let mut count = |now_ns, sort| (0..).take_while(|_| meter.takes(now_ns, 1, sort)).count() as u64;
        assert_eq!(count(now_ns, Sort::Made), SIGNING_BURST / 2);
        assert_eq!(count(now_ns, Sort::ApexDenied), SIGNING_BURST / 4);
        assert_eq!(count(now_ns, Sort::Denied), 0);
        assert_eq!(count(now_ns, Sort::Found), SIGNING_BURST / 4);
        assert_eq!(count(now_ns, Sort::Apex), SIGNING_BURST / SIGNING_APEX_SHARE);
        let mut total = 0;
        for _ in 0..1000 {
            now_ns += 1_000_000;
            assert_eq!((count(now_ns, Sort::Made), count(now_ns, Sort::Denied)), (0, 0));
            total += count(now_ns, Sort::Found);
            assert_eq!(count(now_ns, Sort::Apex), SIGNING_PER_SECOND / 1000 / SIGNING_APEX_SHARE);
        }
        assert_eq!(total, SIGNING_PER_SECOND);
        assert_eq!(count(now_ns + 3600 * 1_000_000_000, Sort::Found), SIGNING_BURST);
        // What costs more than there is room for is done, and counts.
        let mut meter = Meter::default();
        assert!(meter.takes(0, 10 * SIGNING_BURST, Sort::Made));
        assert!(!meter.takes(9 * BURST_NS, 1, Sort::Found) && meter.takes(10 * BURST_NS, 1, Sort::Made));
    }
}
