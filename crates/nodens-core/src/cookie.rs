//! DNS cookies (RFC 7873): a client that shows a cookie of ours has received an answer of ours at
//! its address before. A cookie is given, never asked for; `rrl` lets those who show one pass.

use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::net::IpAddr;

/// Octets of a client's cookie (RFC 7873 section 4.1).
pub const CLIENT_LEN: usize = 8;
/// Octets of our cookie (RFC 9018 section 4).
pub const SERVER_LEN: usize = 16;
/// Octets a server's cookie may have (RFC 7873 section 4.2).
const SERVER_LENS: std::ops::RangeInclusive<usize> = 8..=32;
/// Of version 1, with the reserved octets behind it.
const VERSION: [u8; 4] = [1, 0, 0, 0];
/// Seconds after which a cookie is replaced (RFC 9018 section 4.3).
const RENEW: u32 = 30 * 60;
/// Seconds by which a cookie may come from the future.
const AHEAD: u32 = 5 * 60;

/// What makes cookies ours. Anycast servers would have to share it.
#[derive(Clone, Copy)]
pub struct Secret([u8; 16]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// Whether the data of a COOKIE option has a length a request may have.
pub fn is_well_formed(option: &[u8]) -> bool {
    let server = option.len().checked_sub(CLIENT_LEN);
    server.is_some_and(|len| len == 0 || SERVER_LENS.contains(&len))
}

impl Secret {
    /// `secret` must be random, and nobody's business.
    pub fn new(secret: [u8; 16]) -> Self {
        Self(secret)
    }

    /// The COOKIE option that answers `option` from `client`; `None` if that is malformed.
    pub fn answer(
        &self,
        option: &[u8],
        client: IpAddr,
        unix_s: u64,
    ) -> Option<[u8; CLIENT_LEN + SERVER_LEN]> {
        let (own, shown) = option.split_first_chunk::<CLIENT_LEN>()?;
        // The time is a serial number (RFC 1982): its wrapping in 2106 does no harm.
        let now = unix_s as u32;
        let server =
            self.kept(own, shown, client, now).unwrap_or_else(|| self.make(own, client, now));
        let mut answer = [0; CLIENT_LEN + SERVER_LEN];
        let (front, back) = answer.split_at_mut(CLIENT_LEN);
        front.copy_from_slice(own);
        back.copy_from_slice(&server);
        Some(answer)
    }

    /// Whether `option` shows a cookie of ours that `client` was given and that is not too old.
    pub fn vouches(&self, option: &[u8], client: IpAddr, unix_s: u64) -> bool {
        let parts = option.split_first_chunk::<CLIENT_LEN>();
        parts.is_some_and(|(own, shown)| self.kept(own, shown, client, unix_s as u32).is_some())
    }

    /// The cookie that was shown, if it is ours and young enough to be kept.
    fn kept(
        &self,
        own: &[u8; CLIENT_LEN],
        shown: &[u8],
        client: IpAddr,
        now: u32,
    ) -> Option<[u8; SERVER_LEN]> {
        let shown: [u8; SERVER_LEN] = shown.try_into().ok()?;
        let (_, rest) = shown.split_first_chunk::<{ VERSION.len() }>()?;
        let made = u32::from_be_bytes(*rest.first_chunk()?);
        let age = now.wrapping_sub(made);
        let ahead = made.wrapping_sub(now);
        let kept = age <= RENEW || (1..=AHEAD).contains(&ahead);
        (kept && same(&self.make(own, client, made), &shown)).then_some(shown)
    }

    /// The cookie for a client at a time (RFC 9018 sections 4 and 5).
    fn make(&self, own: &[u8; CLIENT_LEN], client: IpAddr, at: u32) -> [u8; SERVER_LEN] {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(own);
        hasher.write(&VERSION);
        hasher.write(&at.to_be_bytes());
        match client {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()),
        }
        let mut cookie = [0; SERVER_LEN];
        let parts = [&VERSION[..], &at.to_be_bytes(), &hasher.finish().to_le_bytes()];
        for (place, octet) in cookie.iter_mut().zip(parts.into_iter().flatten()) {
            *place = *octet;
        }
        cookie
    }
}

/// Compares without telling by the time taken where the first difference is.
fn same(a: &[u8; SERVER_LEN], b: &[u8; SERVER_LEN]) -> bool {
    a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn octets(hex: &str) -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2);
        digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    fn secret() -> Secret {
        Secret::new(octets("e5e973e5a6b2a43f48e7dc849e37bfcf").try_into().unwrap())
    }

    /// RFC 9018 appendices A.1 and A.2.
    #[test]
    fn the_test_vectors_of_the_rfc_are_met() {
        let client: IpAddr = [198, 51, 100, 100].into();
        let learned = secret().answer(&octets("2464c4abcf10c957"), client, 1_559_731_985).unwrap();
        let expected = "2464c4abcf10c957010000005cf79f111f8130c3eee29480";
        assert_eq!(learned.to_vec(), octets(expected));
        let renewed = secret().answer(&learned, client, 1_559_734_385).unwrap();
        let expected = "2464c4abcf10c957010000005cf7a871d4a564a1442aca77";
        assert_eq!(renewed.to_vec(), octets(expected));
    }

    #[test]
    fn a_young_cookie_of_ours_is_kept_and_any_other_replaced() {
        let client: IpAddr = "2001:db8::1".parse().unwrap();
        let first = secret().answer(&[7; 8], client, 1_000_000).unwrap();
        let at = |option: &[u8], client, now| secret().answer(option, client, now).unwrap();
        assert_eq!(at(&first, client, 1_001_800), first);
        assert_eq!(at(&first, client, 999_700), first);
        for (option, client, now) in [
            (first.to_vec(), client, 1_001_801),
            (first.to_vec(), client, 999_699),
            (first.to_vec(), "2001:db8::2".parse().unwrap(), 1_000_001),
            ([&first[..23], &[first[23] ^ 1]].concat(), client, 1_000_001),
            (first[..16].to_vec(), client, 1_000_001),
        ] {
            assert_ne!(at(&option, client, now), first);
        }
    }

    #[test]
    fn lengths_are_checked() {
        let good: Vec<usize> = (0..50).filter(|len| is_well_formed(&vec![0; *len])).collect();
        let expected: Vec<usize> = std::iter::once(8).chain(16..=40).collect();
        assert_eq!(good, expected);
        assert_eq!(secret().answer(&[0; 7], [192, 0, 2, 1].into(), 0), None);
    }
}
