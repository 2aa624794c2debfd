//! The error field of a TSIG record (RFC 8945 section 3).

use std::fmt;

/// Why a query is not authenticated. The numbers are of the registry of RCODEs, where 16 has a second
/// meaning (BADVERS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u16);

impl ErrorCode {
    /// Nothing is wrong.
    pub const NOERROR: Self = Self(0);
    /// The MAC is not that of the message.
    pub const BADSIG: Self = Self(16);
    /// No such key, or not for this algorithm.
    pub const BADKEY: Self = Self(17);
    /// Signed too long ago, or in the future.
    pub const BADTIME: Self = Self(18);
    /// The MAC is shorter than the server accepts.
    pub const BADTRUNC: Self = Self(22);
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NOERROR => f.write_str("NOERROR"),
            Self::BADSIG => f.write_str("BADSIG"),
            Self::BADKEY => f.write_str("BADKEY"),
            Self::BADTIME => f.write_str("BADTIME"),
            Self::BADTRUNC => f.write_str("BADTRUNC"),
            Self(code) => write!(f, "error {code}"),
        }
    }
}
