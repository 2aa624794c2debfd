//! Calls of `coredns.dns.DnsService/Query`: one message in, one message out, each in a frame of gRPC and in a
//! field of Protocol Buffers.

use super::doh;
use super::requests::Response;
use crate::limits::{GRPC_AROUND, REQUEST_LEN_MAX};
use bytes::{BufMut, Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// The one call there is.
const PATH: &str = "/coredns.dns.DnsService/Query";
/// The service.
const SERVICE: &str = "coredns.dns.DnsService";
const MEDIA_TYPE: &str = "application/grpc";
/// What stands in front of a message: whether it is compressed, and its length.
const FRAME_LEN: usize = 5;
/// The key of the field with the DNS message, and the most octets of its length.
const FIELD: u8 = 1 << 3 | 2;
const FIELD_LEN: usize = 4;
/// What `grpc-message` has as it is.
const QUOTED: &AsciiSet = &CONTROLS.add(b'%');

/// A status of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Ok = 0,
    Unknown = 2,
    InvalidArgument = 3,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
}

/// Why there is no response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    status: StatusCode,
    code: Code,
    text: String,
}

impl Failure {
    fn new(code: Code, text: impl Into<String>) -> Self {
        Self { status: StatusCode::OK, code, text: text.into() }
    }

    /// A body that is longer than any query.
    pub(super) fn too_long() -> Self {
        let text = format!("grpc: received message larger than max ({REQUEST_LEN_MAX})");
        Self::new(Code::ResourceExhausted, text)
    }

    /// A query that gets no response.
    pub(super) fn no_response() -> Self {
        Self::new(Code::Unknown, "no response")
    }

    /// What the client gets: fields alone.
    pub(super) fn into_response(self) -> Box<Response> {
        let mut head = head(self.status);
        head.headers_mut().extend(trailers(self.code, &self.text));
        Box::new(Response { head, body: Bytes::new(), trailers: None })
    }
}

/// Looks at the head of a call.
pub(super) fn begin(head: &Parts) -> Result<(), Failure> {
    let media_type = head.headers.get(header::CONTENT_TYPE);
    let media_type = media_type.map(HeaderValue::as_bytes).unwrap_or_default();
    if !is_grpc(media_type) {
        let media_type = String::from_utf8_lossy(media_type);
        let text = format!("invalid gRPC request content-type {media_type:?}");
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Failure { status, ..Failure::new(Code::InvalidArgument, text) });
    }
    if head.method != Method::POST {
        let text = format!(
            "Received a HEADERS frame with :method \"{}\" which should be POST",
            head.method
        );
        let status = StatusCode::METHOD_NOT_ALLOWED;
        return Err(Failure { status, ..Failure::new(Code::Internal, text) });
    }
    if head.uri.path() == PATH {
        return encoding(head);
    }
    let path = head.uri.path().strip_prefix('/').unwrap_or(head.uri.path());
    let text = match path.rsplit_once('/') {
        None => format!("malformed method name: \"/{path}\""),
        Some((SERVICE, method)) => format!("unknown method {method} for service {SERVICE}"),
        Some((service, _)) => format!("unknown service {service}"),
    };
    Err(Failure::new(Code::Unimplemented, text))
}

/// Refuses compression: a query is too short to gain from it.
fn encoding(head: &Parts) -> Result<(), Failure> {
    let encoding = head.headers.get("grpc-encoding").map(HeaderValue::as_bytes);
    if matches!(encoding, None | Some(b"" | b"identity")) {
        return Ok(());
    }
    let encoding = String::from_utf8_lossy(encoding.unwrap_or_default());
    let text = format!("grpc: Decompressor is not installed for grpc-encoding {encoding:?}");
    Err(Failure::new(Code::Unimplemented, text))
}

fn is_grpc(media_type: &[u8]) -> bool {
    let rest = media_type.to_ascii_lowercase();
    let rest = rest.strip_prefix(MEDIA_TYPE.as_bytes());
    rest.is_some_and(|rest| matches!(rest, [] | [b'+' | b';', ..]))
}

/// The query in the body of a call.
pub(super) fn query(body: &[u8]) -> Result<Vec<u8>, Failure> {
    let internal = |text: &str| Err(Failure::new(Code::Internal, text));
    let Some((frame, rest)) = body.split_first_chunk::<FRAME_LEN>() else {
        return internal("unexpected EOF");
    };
    let [is_compressed, len @ ..] = *frame;
    match is_compressed {
        0 => {}
        1 => return internal("grpc: compressed flag set with identity or empty encoding"),
        _ => return internal("grpc: received unexpected payload format"),
    }
    let len = usize::try_from(u32::from_be_bytes(len)).unwrap_or(usize::MAX);
    if len > REQUEST_LEN_MAX + GRPC_AROUND - FRAME_LEN {
        return Err(Failure::too_long());
    }
    let Some(packet) = rest.get(..len) else { return internal("unexpected EOF") };
    if rest.len() > len {
        return internal("received more than one message for a unary call");
    }
    let Some(message) = field(packet) else {
        return internal(
            "grpc: error unmarshalling request: proto: cannot parse invalid wire-format data",
        );
    };
    if !doh::is_query(message) {
        return Err(Failure::new(Code::Unknown, "dns request rejected"));
    }
    Ok(message.to_vec())
}

/// The octets of the field of a packet; the last one counts, and what is unknown is passed over.
fn field(mut packet: &[u8]) -> Option<&[u8]> {
    let mut message: &[u8] = &[];
    while !packet.is_empty() {
        let (key, rest) = varint(packet)?;
        let (number, kind) = (key >> 3, key & 7);
        if number == 0 || number > (1 << 29) - 1 {
            return None;
        }
        let (len, rest) = match kind {
            0 => (rest.len() - varint(rest)?.1.len(), rest),
            1 => (8, rest),
            2 => {
                let (len, rest) = varint(rest)?;
                (usize::try_from(len).ok()?, rest)
            }
            5 => (4, rest),
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(len)?;
        if key == u64::from(FIELD) {
            message = value;
        }
        packet = rest;
    }
    Some(message)
}

/// A number of seven bits in each octet, the least first; and what follows it.
fn varint(octets: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (place, octet) in octets.iter().enumerate().take(10) {
        let bits = u64::from(octet & 0x7f);
        let shift = 7 * place as u32;
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if octet & 0x80 == 0 {
            return Some((number, octets.get(place + 1..)?));
        }
    }
    None
}

/// The response with a DNS message.
pub(super) fn response(message: &[u8]) -> Box<Response> {
    let mut packet = BytesMut::with_capacity(FRAME_LEN + FIELD_LEN + message.len());
    let mut field = Vec::with_capacity(FIELD_LEN);
    field.push(FIELD);
    let mut len = message.len();
    while len >= 0x80 {
        field.push(len as u8 | 0x80);
        len >>= 7;
    }
    field.push(len as u8);
    packet.put_u8(0);
    packet.put_u32(u32::try_from(field.len() + message.len()).unwrap_or(u32::MAX));
    packet.put_slice(&field);
    packet.put_slice(message);
    let head = head(StatusCode::OK);
    let trailers = Some(trailers(Code::Ok, ""));
    Box::new(Response { head, body: packet.freeze(), trailers })
}

fn head(status: StatusCode) -> http::Response<()> {
    let mut head = http::Response::new(());
    *head.status_mut() = status;
    head.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    head
}

fn trailers(code: Code, text: &str) -> HeaderMap {
    let mut fields = HeaderMap::with_capacity(2);
    fields.insert("grpc-status", HeaderValue::from(code as u16));
    let text = utf8_percent_encode(text, QUOTED).to_string();
    if let Ok(text) = HeaderValue::from_str(&text) {
        fields.insert("grpc-message", text);
    }
    fields
}

#[cfg(test)]
mod tests;
