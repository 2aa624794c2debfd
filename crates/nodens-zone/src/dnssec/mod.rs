//! Signatures over records (DNSSEC, RFC 4034): keys from the files of BIND's tools, RRSIG records over
//! RRsets in canonical form, NSEC, NSEC3 and DS records.
//!
//! What is deliberately absent: the clock and files. When a signature is valid is an argument, and what
//! files hold is text.

mod algorithm;
mod canonical;
mod ds;
mod key;
mod key_file;
mod links;
mod nsec;
mod nsec3;
mod resign;
mod signer;
mod sweep;
mod times;
mod zone;

#[cfg(test)]
mod tests;

pub use algorithm::Algorithm;
pub use canonical::{Canonical, Validity};
pub use ds::{DigestType, ds_rdata};
pub use key::{SignError, SigningKey};
pub use key_file::{KeyError, in_file_name};
pub use nsec::{nsec_rdata, successor};
pub use signer::{Signer, is_made};
pub use sweep::{Due, Sweep};
pub use times::{EXPIRATION_SPREAD_S, REMAINING_MIN_S};
pub use zone::{Denial, SignZoneError, SignedZone, sign_zone};
