//! For how long signatures are made, and when they are made anew: the same for signed files and for zones
//! that are updated.

use super::canonical::Validity;

const HOUR_S: u32 = 3600;
const DAY_S: u32 = 24 * HOUR_S;

/// How long signatures have been valid when they are made, for clocks that are wrong.
const INCEPTION_BEFORE_S: u32 = 3 * HOUR_S;
/// How long they remain so, but for the spread.
const EXPIRATION_AFTER_S: u32 = 32 * DAY_S;
/// So that signatures that were made together are not due together, in seconds.
pub const EXPIRATION_SPREAD_S: u32 = 5 * DAY_S;
/// The time until a signature expires below which another one is made, in seconds.
pub const REMAINING_MIN_S: u32 = 7 * DAY_S;

/// Octets of RRSIG RDATA in front of the expiration, behind which the inception stands (RFC 4034 section 3.1).
const EXPIRATION_AT: usize = 8;
const INCEPTION_AT: usize = 12;

impl Validity {
    /// When a signature is valid that is made at a time in Unix seconds: `earlier_s` seconds earlier and `later_s`
    /// seconds longer than others.
    pub fn from(now_s: u64, (earlier_s, later_s): (u32, u32)) -> Self {
        let now = now_s as u32;
        Self {
            inception: now.wrapping_sub(INCEPTION_BEFORE_S + earlier_s),
            expiration: now.wrapping_add(EXPIRATION_AFTER_S + later_s),
        }
    }

    /// What the RDATA of an RRSIG record says; nothing if it is too short.
    pub fn of_signature(rdata: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            let octets = rdata.get(at..).and_then(<[u8]>::first_chunk);
            octets.copied().map(u32::from_be_bytes)
        };
        Some(Self { inception: number(INCEPTION_AT)?, expiration: number(EXPIRATION_AT)? })
    }

    /// Seconds since the inception; negative if that is to come.
    pub fn age_s(self, now_s: u64) -> i32 {
        (now_s as u32).wrapping_sub(self.inception).cast_signed()
    }

    /// Seconds until the expiration; negative if it has passed.
    pub fn remaining_s(self, now_s: u64) -> i32 {
        self.expiration.wrapping_sub(now_s as u32).cast_signed()
    }

    /// The one that expires first.
    #[must_use]
    pub fn or_earlier(self, other: Option<Self>, now_s: u64) -> Self {
        other.filter(|other| other.remaining_s(now_s) < self.remaining_s(now_s)).unwrap_or(self)
    }

    /// Seconds until another signature is to be made; 0 if that is due.
    pub fn due_in_s(self, now_s: u64) -> u32 {
        let last_s = self.remaining_s(now_s).saturating_sub(REMAINING_MIN_S.cast_signed());
        u32::try_from(last_s).unwrap_or(0)
    }

    /// Whether a signature is valid now, and for so long that no other one is to be made.
    pub fn lasts(self, now_s: u64) -> bool {
        self.age_s(now_s) >= 0 && self.remaining_s(now_s) >= REMAINING_MIN_S.cast_signed()
    }
}
