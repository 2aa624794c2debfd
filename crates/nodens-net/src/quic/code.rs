//! Codes of RFC 9250 section 4.3.

use quinn_proto::VarInt;

/// There is no error to signal.
pub(crate) const NO_ERROR: VarInt = VarInt::from_u32(0);
/// The server cannot pursue the query.
pub(crate) const INTERNAL_ERROR: VarInt = VarInt::from_u32(1);
/// What came was no query of DNS over QUIC.
pub(crate) const PROTOCOL_ERROR: VarInt = VarInt::from_u32(2);
/// The client does not want the response any more.
pub(crate) const REQUEST_CANCELLED: VarInt = VarInt::from_u32(3);
/// The client takes more than it may.
pub(crate) const EXCESSIVE_LOAD: VarInt = VarInt::from_u32(4);
