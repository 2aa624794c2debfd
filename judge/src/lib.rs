//! Compares the answers of two DNS servers, and knows which differences are on purpose.
//!
//! For the checks that ask Nodens and CoreDNS the same questions. It shares no code with the server: what judges must
//! not depend on the judged.

#![forbid(unsafe_code)]

pub mod answer;
pub mod differences;
pub mod question;
pub mod signature;
pub mod transport;
