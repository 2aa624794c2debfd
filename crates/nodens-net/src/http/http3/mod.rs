//! HTTP/3 (RFC 9114): what came on the streams of a connection in, queries out, and responses as octets.
//! Knows neither QUIC nor sockets. Fields are never kept: of a request its method and path are, and its
//! fields are not compressed by what came before (there is no dynamic table, RFC 9204 section 3.2.3).

mod control;
mod fields;
mod fixed;
mod frames;
mod huffman;
mod order;
mod request;
mod side;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(test)]
mod tests;

use super::Counted;
use super::requests::Dialect;
pub(crate) use super::requests::Response;
use crate::limits::HTTP_HEAD_LEN_MAX;
use http::HeaderMap;
use nodens_core::Now;
pub(crate) use request::{Progress, Request};
pub(crate) use side::{Side, Want};

/// Codes of errors (RFC 9114 section 8.1, RFC 9204 section 6).
pub(crate) mod code {
    /// There is no error to signal.
    pub(crate) const NO_ERROR: u32 = 0x100;
    /// What came breaks a rule that has no code of its own.
    pub(crate) const GENERAL_PROTOCOL_ERROR: u32 = 0x101;
    /// The server cannot go on.
    pub(crate) const INTERNAL_ERROR: u32 = 0x102;
    /// A stream that must not be.
    pub(crate) const STREAM_CREATION_ERROR: u32 = 0x103;
    /// A stream ended that the connection needs.
    pub(crate) const CLOSED_CRITICAL_STREAM: u32 = 0x104;
    /// A frame that must not be where it is.
    pub(crate) const FRAME_UNEXPECTED: u32 = 0x105;
    /// A frame that is not as it has to be.
    pub(crate) const FRAME_ERROR: u32 = 0x106;
    /// The client takes more than it may.
    pub(crate) const EXCESSIVE_LOAD: u32 = 0x107;
    /// A number that cannot be.
    pub(crate) const ID_ERROR: u32 = 0x108;
    /// Settings that must not be.
    pub(crate) const SETTINGS_ERROR: u32 = 0x109;
    /// The control stream begins with another frame.
    pub(crate) const MISSING_SETTINGS: u32 = 0x10a;
    /// Nobody has looked at the request.
    pub(crate) const REQUEST_REJECTED: u32 = 0x10b;
    /// The request or its response is not wanted any more.
    pub(crate) const REQUEST_CANCELLED: u32 = 0x10c;
    /// The stream ended before the request was whole.
    pub(crate) const REQUEST_INCOMPLETE: u32 = 0x10d;
    /// The request is malformed.
    pub(crate) const MESSAGE_ERROR: u32 = 0x10e;
    /// Fields that cannot be read.
    pub(crate) const DECOMPRESSION_FAILED: u32 = 0x200;
    /// An instruction for a table that there is not.
    pub(crate) const ENCODER_STREAM_ERROR: u32 = 0x201;
    /// An instruction about fields that were never sent.
    pub(crate) const DECODER_STREAM_ERROR: u32 = 0x202;
}

/// What a client did wrong, with its code, and what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection.
    Connection(u32),
    /// This stream.
    Stream(u32),
}

/// Types of frames (RFC 9114 section 7.2).
mod kind {
    pub(super) const DATA: u64 = 0;
    pub(super) const HEADERS: u64 = 1;
    pub(super) const CANCEL_PUSH: u64 = 3;
    pub(super) const SETTINGS: u64 = 4;
    pub(super) const PUSH_PROMISE: u64 = 5;
    pub(super) const GOAWAY: u64 = 7;
    /// MAX_PUSH_ID.
    pub(super) const PUSHES: u64 = 0xd;

    /// Whether it stands for a frame of HTTP/2, which must not come (section 7.2.8).
    pub(super) const fn is_of_two(kind: u64) -> bool {
        matches!(kind, 2 | 6 | 8 | 9)
    }
}

/// `SETTINGS_MAX_FIELD_SECTION_SIZE`.
const FIELDS_LEN: u64 = 6;

/// What the server's control stream begins with: its type, and the settings. Those of QPACK that are
/// missing say that there is no dynamic table.
pub(crate) fn greeting() -> Vec<u8> {
    let mut settings = Vec::new();
    frames::put_number(FIELDS_LEN, &mut settings);
    frames::put_number(HTTP_HEAD_LEN_MAX as u64, &mut settings);
    let mut octets = vec![0];
    frames::put(kind::SETTINGS, &settings, &mut octets);
    octets
}

/// Says on the control stream that requests from this stream on are not looked at (RFC 9114 section 5.2).
pub(crate) fn goaway(stream: u64) -> Vec<u8> {
    let (mut number, mut octets) = (Vec::new(), Vec::new());
    frames::put_number(stream, &mut number);
    frames::put(kind::GOAWAY, &number, &mut octets);
    octets
}

/// The response with a DNS message, or to a query that has no response.
pub(crate) fn answer(message: Option<&[u8]>, now: Now, counted: &mut Counted) -> Box<Response> {
    Dialect::Doh.answer(message, now, counted)
}

/// Writes a response as it stands on its stream.
pub(crate) fn write(response: &Response, into: &mut Vec<u8>) {
    let status = response.head.status();
    let mut block = Vec::new();
    fields::begin(status.as_str(), &mut block);
    write_fields(response.head.headers(), &mut block);
    frames::put(kind::HEADERS, &block, into);
    if !response.body.is_empty() {
        frames::put(kind::DATA, &response.body, into);
    }
}

fn write_fields(own: &HeaderMap, into: &mut Vec<u8>) {
    for (name, value) in own {
        fields::put(name.as_str(), value.as_bytes(), into);
    }
}
