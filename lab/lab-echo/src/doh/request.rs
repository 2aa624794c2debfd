//! Requests that carry queries (RFC 8484 section 4.1).

use super::refuse;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Method, StatusCode, header};
use std::task::{Context, Poll};

/// The media type of RFC 8484.
pub(crate) const MEDIA_TYPE: &str = "application/dns-message";
/// The longest message, as anywhere in DNS.
pub(crate) const MESSAGE_LEN_MAX: usize = 65_535;

/// A query of which a part has come.
pub(super) struct Request {
    pub(super) message: Vec<u8>,
    pub(super) respond: SendResponse<Bytes>,
    /// What brings the rest.
    body: RecvStream,
}

impl Request {
    /// A request that may carry a query; others are refused.
    pub(super) fn new(
        request: http::Request<RecvStream>,
        respond: SendResponse<Bytes>,
    ) -> Option<Self> {
        match question(&request) {
            Ok(message) => Some(Self { message, respond, body: request.into_body() }),
            Err(status) => {
                refuse(respond, status);
                None
            }
        }
    }

    /// Reads on; ready when the query is whole (true) or will never be (false).
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        loop {
            match self.body.poll_data(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(true),
                Poll::Ready(Some(Err(_))) => return Poll::Ready(false),
                Poll::Ready(Some(Ok(data))) => {
                    self.message.extend_from_slice(&data);
                    _ = self.body.flow_control().release_capacity(data.len());
                    if self.message.len() > MESSAGE_LEN_MAX {
                        return Poll::Ready(false);
                    }
                }
            }
        }
    }
}

/// The query in the head of a request: all of it with GET, nothing yet with POST. Every path is the
/// right one.
pub(crate) fn question<T>(request: &http::Request<T>) -> Result<Vec<u8>, StatusCode> {
    match *request.method() {
        Method::GET => {
            let query = request.uri().query().unwrap_or_default();
            let text = query.split('&').find_map(|pair| pair.strip_prefix("dns="));
            let octets = text.and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
            octets.ok_or(StatusCode::BAD_REQUEST)
        }
        Method::POST => {
            let kind = request.headers().get(header::CONTENT_TYPE);
            let known = kind.is_some_and(|kind| kind == MEDIA_TYPE);
            if known { Ok(Vec::new()) } else { Err(StatusCode::UNSUPPORTED_MEDIA_TYPE) }
        }
        _ => Err(StatusCode::METHOD_NOT_ALLOWED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_in_the_path_or_in_a_body_of_its_type() {
        let asked = |method: &str, uri: &str, kind: &str| {
            let request = http::Request::builder().method(method).uri(uri);
            question(&request.header(header::CONTENT_TYPE, kind).body(()).unwrap())
        };
        // The example of RFC 8484 section 4.1.1 begins so.
        let get = asked("GET", "https://a.example/dns-query?x=1&dns=AAABAAAB", "");
        assert_eq!(get, Ok(vec![0, 0, 1, 0, 0, 1]));
        assert_eq!(asked("POST", "/dns-query", MEDIA_TYPE), Ok(Vec::new()));
        for (method, uri, kind, status) in [
            ("GET", "/dns-query?dns=A~", "", 400),
            ("GET", "/dns-query", "", 400),
            ("POST", "/dns-query", "text/plain", 415),
            ("PUT", "/dns-query", MEDIA_TYPE, 405),
        ] {
            assert_eq!(asked(method, uri, kind).unwrap_err().as_u16(), status, "{method} {uri}");
        }
    }
}
