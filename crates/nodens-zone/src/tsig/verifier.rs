//! The client's side: verifies the messages of a response, one after the other (RFC 8945 sections 5.3.1
//! and 5.4).

use super::algorithm::Spelling;
use super::digest::{Digest, Mac};
use super::error_code::ErrorCode;
use super::key::{Key, Use};
use super::record::{Malformed, Signature};
use crate::limits::TSIG_UNSIGNED_MAX;
use std::fmt;

/// Why a response is not to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// See [`Malformed`].
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The first or the last message has no TSIG record.
    #[error("the first or the last message of the response has no TSIG record")]
    Unsigned,
    /// More than [`TSIG_UNSIGNED_MAX`] messages in a row have none.
    #[error("more than {TSIG_UNSIGNED_MAX} messages of the response in a row have no TSIG record")]
    TooManyUnsigned,
    /// It names another key or another algorithm than the query.
    #[error("the response is signed with another key or algorithm than the query")]
    OtherKey,
    /// The MAC is that of another message or secret, or is too short.
    #[error("the signature of the response does not verify")]
    BadSignature,
    /// It was signed too long ago, or will be in the future.
    #[error("the response was signed at {signed_s} (Unix time), more than {fudge_s} s from now")]
    BadTime {
        /// When it was signed, in seconds since the Unix epoch.
        signed_s: u64,
        /// Seconds that it allows.
        fudge_s: u16,
    },
    /// The server did not accept the query's signature.
    #[error("the server refused the signature of the query with {0}")]
    Refused(ErrorCode),
    /// The same, as it was signed too long ago for the server's clock, or in its future.
    #[error(
        "the server refused the signature of the query with BADTIME: its clock says {server_s} (Unix time), this one {own_s}"
    )]
    OtherClock {
        /// The server's time, in seconds since the Unix epoch.
        server_s: u64,
        /// The time here.
        own_s: u64,
    },
}

/// Verifies the messages of one response; [`Key::sign_query`] makes it.
pub struct Verifier {
    key: Key,
    spelling: &'static Spelling,
    /// It has digested the secret.
    keyed: Digest,
    mac_len: usize,
    /// The same behind the last MAC, and the messages without a record that followed.
    digest: Digest,
    /// How many these are.
    unsigned: usize,
    began: bool,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({:?} {} unsigned)", self.key, self.unsigned)
    }
}

impl Verifier {
    pub(super) fn new(key: Key, spelling: &'static Spelling, own: &Use, query: &Mac) -> Self {
        let (keyed, digest) = (own.digest.clone(), own.digest.behind(query));
        let mac_len = own.policy.mac_len;
        Self { key, spelling, keyed, mac_len, digest, unsigned: 0, began: false }
    }

    /// Verifies the next message, as it was received. What has no TSIG record of its own is verified
    /// with the next message that has one: nothing of the response may be used before
    /// [`Verifier::end`] says that all of it is.
    ///
    /// # Errors
    /// If it does not verify. The whole response is to be discarded then.
    pub fn accept(&mut self, message: &[u8], unix_s: u64) -> Result<(), Fault> {
        let Some(signature) = Signature::find(message)? else {
            return self.accept_unsigned(message);
        };
        let is_ours = signature.key.view() == self.key.name()
            && signature.algorithm.eq_ignore_ascii_case(self.spelling.wire);
        if !is_ours {
            return Err(Fault::OtherKey);
        }
        let variables = &signature.variables;
        if signature.mac.is_empty() && variables.error != ErrorCode::NOERROR {
            return Err(Fault::Refused(variables.error));
        }
        if !(self.mac_len..=self.spelling.mac_len).contains(&signature.mac.len()) {
            return Err(Fault::BadSignature);
        }
        let mut digest = self.digest.clone();
        digest.signed_message(message, signature.start, signature.original_id);
        match self.began {
            true => digest.timers(variables),
            false => digest.variables(self.key.name().as_wire(), self.spelling.wire, variables),
        }
        if !digest.matches(signature.mac) {
            return Err(Fault::BadSignature);
        }
        if let (ErrorCode::BADTIME, Some(server_s)) = (variables.error, time_in(variables.other)) {
            return Err(Fault::OtherClock { server_s, own_s: unix_s });
        }
        if variables.error != ErrorCode::NOERROR {
            return Err(Fault::Refused(variables.error));
        }
        if unix_s.abs_diff(variables.time_s) > u64::from(variables.fudge_s) {
            let (signed_s, fudge_s) = (variables.time_s, variables.fudge_s);
            return Err(Fault::BadTime { signed_s, fudge_s });
        }
        self.digest = self.keyed.behind(&Mac::of(signature.mac));
        self.unsigned = 0;
        self.began = true;
        Ok(())
    }

    fn accept_unsigned(&mut self, message: &[u8]) -> Result<(), Fault> {
        if !self.began {
            return Err(Fault::Unsigned);
        }
        self.unsigned += 1;
        if self.unsigned > TSIG_UNSIGNED_MAX {
            return Err(Fault::TooManyUnsigned);
        }
        self.digest.message(message);
        Ok(())
    }

    /// To be called after the last message.
    ///
    /// # Errors
    /// If the last message had no TSIG record.
    pub fn end(&self) -> Result<(), Fault> {
        if self.began && self.unsigned == 0 { Ok(()) } else { Err(Fault::Unsigned) }
    }
}

/// The server's time in the other data of a response with BADTIME (RFC 8945 section 5.2.3).
fn time_in(other: &[u8]) -> Option<u64> {
    let octets: &[u8; 6] = other.try_into().ok()?;
    Some(octets.iter().fold(0, |time, octet| (time << 8) | u64::from(*octet)))
}
