//! What can be wrong with a transfer.

use crate::serial::Serial;
use nodens_wire::{Name, Rcode, Type, WireError};

/// Why a transfer is of no use. What was there before stays as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IncomingError {
    /// A message cannot be read.
    #[error("malformed message: {0}")]
    Malformed(#[from] WireError),
    /// A message is not a response, or one to another query.
    #[error("a message that does not respond to the query")]
    Stray,
    /// The primary refuses, or fails.
    #[error("rcode {0}")]
    Rcode(Rcode),
    /// A message says that it is cut (TC), which no message of a stream is.
    #[error("a truncated message")]
    Truncated,
    /// The response with the SOA record lacks AA: the server is no authority for the zone.
    #[error("the server is not authoritative for the zone")]
    NotAuthoritative,
    /// The first record is not the SOA record of the zone (RFC 5936 section 2.2).
    #[error("it does not begin with the SOA record of the zone")]
    NoSoa,
    /// A record of another class than the zone's.
    #[error("a record of another class, for {0}")]
    Class(Name),
    /// A record whose RDATA is not that of its type: clients could not read a response with it.
    #[error("RDATA of {0} {1} does not fit its type")]
    Rdata(Name, Type),
    /// A SOA record within the zone that is not that of the apex.
    #[error("a SOA record for {0} within the zone")]
    SoaBelow(Name),
    /// The last SOA record is not the first one: the zone changed on the way.
    #[error("it ends with serial {last}, and began with {first}")]
    OtherEnd {
        /// The serial number in the first record.
        first: u32,
        /// The serial number in the last record.
        last: u32,
    },
    /// The differences do not lead from one version to the next (RFC 1995 section 4).
    #[error("a difference from serial {found} follows where {wanted} was reached")]
    Order {
        /// The version that the differences before it led to.
        wanted: u32,
        /// The version that this one begins with.
        found: u32,
    },
    /// A difference removes a record that the version before it does not have.
    #[error("a difference removes a record that is not there: {0} {1}")]
    NotThere(Name, Type),
    /// A difference that leads back, or nowhere.
    #[error("a difference leads from serial {from} to {to}, which is no later one")]
    Backwards {
        /// Where it begins.
        from: u32,
        /// Where it ends.
        to: u32,
    },
    /// A message follows the last SOA record, or records do.
    #[error("records follow the last SOA record")]
    AfterEnd,
    /// More of something than one transfer may have, see [`limits`](crate::limits).
    #[error("more {0} than a transfer may have")]
    TooMany(&'static str),
    /// The signature of a message is missing, or wrong (RFC 8945).
    #[error("{0}")]
    Signature(String),
    /// Zones may not take more memory ([`room`](crate::data::room)).
    #[error("{}", crate::data::Refused::NoRoom)]
    NoRoom,
    /// The zone cannot have one of the records.
    #[error("{0}")]
    Refused(String),
    /// The records are no zone.
    #[error("{0}")]
    Incomplete(String),
}

impl IncomingError {
    /// Whether the whole zone (AXFR) may be had from a server with whose response to IXFR this was wrong.
    /// Who did not sign what it should have signed is not asked again, and the whole zone takes more room.
    pub fn whole_may_help(&self) -> bool {
        !matches!(self, Self::Signature(_) | Self::TooMany(_) | Self::NoRoom)
    }

    /// Whether it is likely to be the same for a while: the primary will not give the zone, or there is no room for it.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Rcode(_) | Self::NotAuthoritative | Self::NoRoom)
    }

    /// Whether the whole zone will be wrong the next time as well, until it is changed.
    pub fn is_lasting(&self) -> bool {
        matches!(self, Self::Rdata(..) | Self::TooMany(_) | Self::Refused(_) | Self::Incomplete(_))
    }
}

impl From<(Serial, Serial)> for IncomingError {
    fn from((from, to): (Serial, Serial)) -> Self {
        Self::Backwards { from: from.0, to: to.0 }
    }
}
