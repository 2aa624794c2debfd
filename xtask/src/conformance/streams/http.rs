//! DNS over HTTPS on HTTP/2 (RFC 8484), and gRPC as CoreDNS's `pb/dns.proto` has it.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{Bytes, BytesMut};
use h2::client::SendRequest;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, TE};
use http::{HeaderMap, Method, Request, Response};

use super::{Reply, Wrapping};
use crate::conformance::transports::{Certificate, Transport};
use nodens_judge::answer::Outcome;

pub(super) const MEDIA_TYPE: &str = "application/dns-message";
pub(super) const PATH: &str = "/dns-query";
/// The one method of the one service.
pub(super) const METHOD: &str = "/coredns.dns.DnsService/Query";
/// The field `msg` of `DnsPacket`: number one, octets.
const FIELD: u8 = 0x0a;

/// A request of DNS over HTTPS with what may be wrong in it.
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) content_type: Option<&'static str>,
    pub(super) body: Bytes,
}

impl Ask {
    pub(super) fn post(bytes: &[u8]) -> Self {
        let body = Bytes::copy_from_slice(bytes);
        Ask { method: Method::POST, path: PATH.to_owned(), content_type: Some(MEDIA_TYPE), body }
    }

    /// A GET of this path with its query.
    pub(super) fn get(path: String) -> Self {
        Ask { method: Method::GET, path, content_type: None, body: Bytes::new() }
    }

    pub(super) fn request(&self) -> Result<Request<()>> {
        let uri = format!("https://{}{}", Certificate::NAME, self.path);
        let request = Request::builder().method(&self.method).uri(uri).header(ACCEPT, MEDIA_TYPE);
        Ok(match self.content_type {
            Some(content_type) => request.header(CONTENT_TYPE, content_type),
            None => request,
        }
        .body(())?)
    }
}

/// The path of a GET for the message.
pub(super) fn path_of(bytes: &[u8]) -> String {
    format!("{PATH}?dns={}", URL_SAFE_NO_PAD.encode(bytes))
}

/// Asks the message.
pub(super) async fn ask(
    requests: &SendRequest<Bytes>,
    transport: Transport,
    bytes: &[u8],
) -> Reply {
    let ask = match transport {
        Transport::HttpsGet => Ask::get(path_of(bytes)),
        _ => Ask::post(bytes),
    };
    send(requests, &ask).await
}

/// Sends the request and reads the response.
pub(super) async fn send(requests: &SendRequest<Bytes>, ask: &Ask) -> Reply {
    let attempt = async {
        let (response, body, _) = exchange(requests, ask.request()?, ask.body.clone()).await?;
        Ok(reply(&response, &body))
    };
    attempt.await.unwrap_or_else(|error| failed(&error))
}

/// What a response and its body come to.
pub(super) fn reply(response: &Response<()>, body: &[u8]) -> Reply {
    let field = |name| {
        response.headers().get(name).map_or("", |value| value.to_str().unwrap_or("(no text)"))
    };
    let control = field(CACHE_CONTROL);
    let max_age = control.strip_prefix("max-age=").and_then(|age| age.parse().ok());
    let control = if max_age.is_some() { "" } else { control };
    let status = response.status().as_u16();
    let text = format!("{status} {} {control}", field(CONTENT_TYPE)).trim_end().to_owned();
    let outcome = match status {
        200 => Outcome::read(body),
        _ => Outcome::Refused(format!("status {status}")),
    };
    Reply { outcome, wrapping: Wrapping { text, max_age } }
}

/// Calls the method of gRPC with a body, its frame included.
pub(super) async fn call(requests: &SendRequest<Bytes>, body: Bytes) -> Reply {
    call_method(requests, METHOD, "application/grpc", body).await
}

/// The same with another path or type.
pub(super) async fn call_method(
    requests: &SendRequest<Bytes>,
    path: &str,
    content_type: &str,
    body: Bytes,
) -> Reply {
    let attempt = async {
        let request = Request::post(format!("https://{}{path}", Certificate::NAME));
        let request = request.header(CONTENT_TYPE, content_type).header(TE, "trailers").body(())?;
        let (response, body, trailers) = exchange(requests, request, body).await?;
        Ok(grpc_reply(&response, &body, &trailers))
    };
    attempt.await.unwrap_or_else(|error| failed(&error))
}

fn grpc_reply(response: &Response<()>, body: &[u8], trailers: &HeaderMap) -> Reply {
    let headers = response.headers();
    // A response without a message has its status in the head.
    let status = trailers.get("grpc-status").or_else(|| headers.get("grpc-status"));
    let status = status.map_or("none", |status| status.to_str().unwrap_or("(no text)"));
    let content_type = headers.get(CONTENT_TYPE).map_or("", |text| text.to_str().unwrap_or(""));
    let text = format!("{} {content_type} grpc-status {status}", response.status().as_u16());
    let outcome = match message_of(body) {
        Some(message) if status == "0" => Outcome::read(message),
        None if status == "0" => Outcome::Unreadable("no field of a message".to_owned()),
        _ => Outcome::Refused(format!("grpc-status {status}")),
    };
    Reply { outcome, wrapping: Wrapping { text, max_age: None } }
}

/// A message as the body of a call: no compression, its length, one field.
pub(super) fn grpc_frame(bytes: &[u8]) -> Bytes {
    let mut field = vec![FIELD];
    let mut rest = bytes.len();
    while rest >= 0x80 {
        // invariant: seven bits fit.
        field.push(u8::try_from(rest & 0x7f).unwrap_or(0) | 0x80);
        rest >>= 7;
    }
    field.push(u8::try_from(rest).unwrap_or(0));
    field.extend(bytes);
    with_head(0, &field)
}

/// A body of gRPC: the flag of compression and the length before `octets`.
pub(super) fn with_head(compressed: u8, octets: &[u8]) -> Bytes {
    let length = u32::try_from(octets.len()).unwrap_or(u32::MAX);
    Bytes::from([&[compressed][..], &length.to_be_bytes(), octets].concat())
}

/// The DNS message in the body of a reply.
fn message_of(body: &[u8]) -> Option<&[u8]> {
    let field = body.get(5..)?.strip_prefix(&[FIELD])?;
    let (mut length, mut shift) = (0usize, 0);
    for (index, octet) in field.iter().enumerate().take(4) {
        length |= usize::from(octet & 0x7f) << shift;
        shift += 7;
        if octet & 0x80 == 0 {
            return field.get(index + 1..index + 1 + length);
        }
    }
    None
}

/// Sends a request with its body; the response, its body and its trailers.
async fn exchange(
    requests: &SendRequest<Bytes>,
    request: Request<()>,
    body: Bytes,
) -> Result<(Response<()>, Vec<u8>, HeaderMap)> {
    let mut requests = requests.clone().ready().await?;
    let (response, mut sending) = requests.send_request(request, body.is_empty())?;
    if !body.is_empty() {
        sending.send_data(body, true)?;
    }
    let (head, mut stream) = response.await?.into_parts();
    let mut octets = BytesMut::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        octets.extend_from_slice(&data);
    }
    let trailers = stream.trailers().await.context("trailers")?.unwrap_or_default();
    Ok((Response::from_parts(head, ()), octets.to_vec(), trailers))
}

/// A request without a response: by the code of HTTP/2 if there was one.
fn failed(error: &anyhow::Error) -> Reply {
    let reason = error.downcast_ref::<h2::Error>().and_then(h2::Error::reason);
    Reply::bare(match reason {
        Some(h2::Reason::NO_ERROR) | None => Outcome::Closed,
        Some(reason) => Outcome::Refused(format!("HTTP/2 error {}", u32::from(reason))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_grpc_holds_the_message() {
        for length in [0, 12, 127, 128, 300, 16_384, 65_535] {
            let message = vec![7; length];
            let frame = grpc_frame(&message);
            assert_eq!(message_of(&frame), Some(&message[..]), "{length}");
            assert!(length == 0 || message_of(&frame[..frame.len() - 1]).is_none());
        }
    }

    #[test]
    fn responses_are_told_by_status_type_and_age() {
        let response = |status: u16, control: &str| {
            let response = Response::builder().status(status).header(CACHE_CONTROL, control);
            response.header(CONTENT_TYPE, MEDIA_TYPE).body(()).unwrap()
        };
        let found = reply(&response(200, "max-age=7"), &[0; 12]);
        assert_eq!(found.wrapping.max_age, Some(7));
        assert_eq!(found.wrapping.text, "200 application/dns-message");
        assert!(matches!(found.outcome, Outcome::Answer(_)));
        let found = reply(&response(404, "no-store"), b"");
        assert_eq!(found.wrapping.text, "404 application/dns-message no-store");
        assert_eq!(found.outcome, Outcome::Refused("status 404".to_owned()));
    }
}
