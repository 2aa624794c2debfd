//! Signatures of messages with a shared secret (TSIG, RFC 8945): queries, responses, and responses of
//! many messages, on both sides.
//!
//! - A server looks for the record with [`Signature::find`], gives it to [`check()`] with its [`Keys`],
//!   and signs the response with the [`Signer`] that it gets: each message of it, the first to the last.
//! - A client signs its query with [`Key::sign_query`] and gives every message of the response to the
//!   [`Verifier`] that it gets; [`Verifier::end`] after the last one.
//!
//! Time is an argument, in seconds since the Unix epoch. MACs are compared in a time that does not
//! depend on their octets.

mod algorithm;
mod check;
mod digest;
mod error_code;
mod key;
pub mod key_file;
mod record;
mod signer;
mod verifier;

#[cfg(test)]
mod tests;

pub use algorithm::{Algorithm, Policy, UnknownAlgorithm};
pub use check::{Check, check};
pub use error_code::ErrorCode;
pub use key::{Key, KeyError, Keys};
pub use key_file::KeyFileError;
pub use record::{Malformed, Signature};
pub use signer::{Signer, TooLong};
pub use verifier::{Fault, Verifier};

/// Seconds that the clock of who verifies may differ (the value that RFC 8945 section 10 recommends).
pub const FUDGE_S: u16 = 300;
