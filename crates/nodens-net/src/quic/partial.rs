//! What has come of queries that are not whole.

use crate::http::http3::Request;
use crate::limits::HTTP3_PIECE_COST;

/// A query that is not whole yet.
pub(super) struct Partial {
    pub(super) kept: Kept,
    /// When it has to be.
    pub(super) deadline: u64,
}

/// What is kept of a query that is not whole.
pub(super) enum Kept {
    /// Octets of its stream.
    Octets(Vec<u8>),
    /// A request of HTTP/3.
    Request(Box<Request>),
    /// The rest of one that has its response.
    Rest(Rest),
}

/// What was dropped of a stream.
#[derive(Clone, Copy, Default)]
pub(super) struct Rest {
    pub(super) octets: usize,
    /// In so many pieces, whose places QUIC keeps.
    pub(super) pieces: usize,
}

impl Kept {
    /// Octets of memory.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Octets(octets) => octets.capacity(),
            Self::Request(request) => request.cost(),
            Self::Rest(rest) => rest.pieces * HTTP3_PIECE_COST,
        }
    }
}
