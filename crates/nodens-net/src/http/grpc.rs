//! Calls of `coredns.dns.DnsService/Query`: one message in, one message out, each in a frame of gRPC and in a
//! field of Protocol Buffers.

pub(super) mod packet;

use super::doh;
use super::requests::Response;
use crate::limits::REQUEST_LEN_MAX;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use packet::Flaw;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// The one call there is.
pub(super) const PATH: &str = "/coredns.dns.DnsService/Query";
/// The service.
const SERVICE: &str = "coredns.dns.DnsService";
pub(super) const MEDIA_TYPE: &str = "application/grpc";
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

pub(super) fn is_grpc(media_type: &[u8]) -> bool {
    let rest = media_type.to_ascii_lowercase();
    let rest = rest.strip_prefix(MEDIA_TYPE.as_bytes());
    rest.is_some_and(|rest| matches!(rest, [] | [b'+' | b';', ..]))
}

/// The query in the body of a call.
pub(super) fn query(body: &[u8]) -> Result<Vec<u8>, Failure> {
    let message = packet::message(body, REQUEST_LEN_MAX)?;
    if !doh::is_query(message) {
        return Err(Failure::new(Code::Unknown, "dns request rejected"));
    }
    Ok(message.to_vec())
}

impl From<Flaw> for Failure {
    fn from(flaw: Flaw) -> Self {
        match flaw {
            Flaw::TooLong => Self::too_long(),
            Flaw::TwoMessages => {
                Self::new(Code::Internal, "received more than one message for a unary call")
            }
            Flaw::Malformed => {
                let text = format!("grpc: error unmarshalling request: {flaw}");
                Self::new(Code::Internal, text)
            }
            _ => Self::new(Code::Internal, flaw.to_string()),
        }
    }
}

/// The response with a DNS message.
pub(super) fn response(message: &[u8]) -> Box<Response> {
    let trailers = Some(trailers(Code::Ok, ""));
    Box::new(Response { head: head(StatusCode::OK), body: packet::around(message), trailers })
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
