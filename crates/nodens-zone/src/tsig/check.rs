//! What a server makes of a signed query (RFC 8945 section 5.2).

use super::digest::Mac;
use super::error_code::ErrorCode;
use super::key::Keys;
use super::record::Signature;
use super::signer::Signer;

/// The verdict over a signed query. The signer is for the response.
#[derive(Debug)]
pub enum Check {
    /// The query comes from one who has the key.
    Verified(Signer),
    /// Answer NOTAUTH; [`Signer::error`] has the reason.
    Refused(Signer),
    /// Answer FORMERR: the MAC is longer than the algorithm makes them, or shorter than any may be.
    Malformed,
}

/// Checks `signature`, the one of `query`, in the order that the RFC prescribes: key, MAC, time, and the
/// length of the MAC.
pub fn check(keys: &Keys, query: &[u8], signature: &Signature<'_>, unix_s: u64) -> Check {
    let used = keys.get(&signature.key).and_then(|key| key.used_with(signature.algorithm));
    let Some((spelling, own)) = used else {
        return Check::Refused(Signer::unsigned(signature, ErrorCode::BADKEY));
    };
    let mac_len = signature.mac.len();
    let least = spelling.algorithm.mac_len_min().min(spelling.mac_len);
    if !(least..=spelling.mac_len).contains(&mac_len) {
        return Check::Malformed;
    }
    let mut digest = own.digest.behind(&Mac::NONE);
    digest.signed_message(query, signature.start, signature.original_id);
    let key = signature.key.as_wire().to_ascii_lowercase();
    digest.variables(&key, spelling.wire, &signature.variables);
    if !digest.matches(signature.mac) {
        return Check::Refused(Signer::unsigned(signature, ErrorCode::BADSIG));
    }
    let before = Mac::of(signature.mac);
    let signer = Signer::new(signature.key.clone(), spelling, own, before);
    let time_s = signature.variables.time_s;
    if unix_s.abs_diff(time_s) > u64::from(signature.variables.fudge_s) {
        return Check::Refused(signer.with_times(time_s, unix_s));
    }
    if mac_len < own.policy.mac_len {
        return Check::Refused(signer.with_error(ErrorCode::BADTRUNC));
    }
    Check::Verified(signer.with_mac_len(mac_len))
}
