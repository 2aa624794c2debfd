//! Signs the messages of a response, one after the other; and a query, which is the first of its kind.

use super::FUDGE_S;
use super::algorithm::Spelling;
use super::digest::{Digest, Mac};
use super::error_code::ErrorCode;
use super::key::Use;
use super::record::{self, Draft, Signature, Variables, time_octets};
use nodens_wire::{Header, Name, NameRef};
use std::fmt;

/// The message has no room for a TSIG record, or no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message has no room for a TSIG record")]
pub struct TooLong;

/// Signs the messages of one response.
#[derive(Clone)]
pub struct Signer {
    /// As the query has it, letter by letter.
    key: Name,
    /// The algorithm's name in wire format, as the query has it.
    algorithm: Vec<u8>,
    /// With the secret; nothing if the record is to have no MAC.
    digest: Option<Digest>,
    mac_len: usize,
    /// The MAC of the message before: the query's at first.
    before: Mac,
    /// Whether a message has been signed, so that only its timers are digested with the next.
    began: bool,
    error: ErrorCode,
    /// The client's time, and the server's where they differ too much.
    times: Option<(u64, [u8; 6])>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({} {})", self.key, self.error)
    }
}

impl Signer {
    pub(super) fn new(key: Name, spelling: &Spelling, own: &Use, before: Mac) -> Self {
        Self {
            key,
            algorithm: spelling.wire.to_vec(),
            digest: Some(own.digest.clone()),
            mac_len: own.policy.mac_len.min(spelling.mac_len),
            before,
            began: false,
            error: ErrorCode::NOERROR,
            times: None,
        }
    }

    /// For a query that is not authenticated: its response has no MAC (RFC 8945 section 5.3.2).
    pub(super) fn unsigned(query: &Signature<'_>, error: ErrorCode) -> Self {
        Self {
            key: query.key.clone(),
            algorithm: query.algorithm.to_vec(),
            digest: None,
            mac_len: 0,
            before: Mac::NONE,
            began: false,
            error,
            times: None,
        }
    }

    pub(super) fn with_mac_len(self, mac_len: usize) -> Self {
        Self { mac_len, ..self }
    }

    pub(super) fn with_error(self, error: ErrorCode) -> Self {
        Self { error, ..self }
    }

    /// The record of a response with BADTIME: the client's time, and the server's in its other data
    /// (RFC 8945 section 5.2.3).
    pub(super) fn with_times(self, client_s: u64, server_s: u64) -> Self {
        Self { times: Some((client_s, time_octets(server_s))), error: ErrorCode::BADTIME, ..self }
    }

    /// The name of the key, as the query has it.
    pub fn key_name(&self) -> NameRef<'_> {
        self.key.view()
    }

    /// What the record says: NOERROR, or why the query is not authenticated.
    pub fn error(&self) -> ErrorCode {
        self.error
    }

    /// Whether the query was authenticated.
    pub fn is_verified(&self) -> bool {
        self.error == ErrorCode::NOERROR
    }

    /// Octets that the record adds to a message.
    pub fn record_len(&self) -> usize {
        let other = if self.times.is_some() { 6 } else { 0 };
        record::len(self.key.view(), &self.algorithm, self.mac_len, other)
    }

    /// Appends the TSIG record to the next message, which is otherwise as it will be sent.
    ///
    /// # Errors
    /// If the message has no room for it; it is unchanged then.
    pub fn sign_next(&mut self, message: &mut Vec<u8>, unix_s: u64) -> Result<(), TooLong> {
        self.sign(message, unix_s).map(|_| ())
    }

    /// As [`Signer::sign_next`]; gives the MAC.
    pub(super) fn sign(&mut self, message: &mut Vec<u8>, unix_s: u64) -> Result<Mac, TooLong> {
        let original_id = Header::read(message).map_err(|_| TooLong)?.id;
        let (time_s, other) = match &self.times {
            Some((client_s, server)) => (*client_s, &server[..]),
            // Without a MAC too: BIND's clients look at the time before they look at the error.
            None => (unix_s, &[][..]),
        };
        let variables = Variables { time_s, fudge_s: FUDGE_S, error: self.error, other };
        let mac = match &self.digest {
            None => Mac::NONE,
            Some(digest) => {
                let mut digest = digest.behind(&self.before);
                digest.message(message);
                match self.began {
                    true => digest.timers(&variables),
                    false => {
                        let key = self.key.as_wire().to_ascii_lowercase();
                        digest.variables(&key, &self.algorithm, &variables);
                    }
                }
                digest.mac().cut_to(self.mac_len)
            }
        };
        let (key, algorithm) = (self.key.view(), &self.algorithm);
        Draft { key, algorithm, variables, mac: mac.as_slice(), original_id }.append(message)?;
        self.before = mac;
        self.began = true;
        Ok(mac)
    }
}
