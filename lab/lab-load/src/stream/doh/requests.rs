//! The requests that carry queries (RFC 8484 section 4.1), and the responses that may carry answers.

use crate::stream::tls::TlsError;
use crate::transport::{self, Method};
use bytes::Bytes;
use http::uri::{Authority, PathAndQuery};
use http::{Request, Response, StatusCode, Uri, header};

/// The media type of RFC 8484.
const MEDIA_TYPE: &str = "application/dns-message";
/// The longest message, as anywhere in DNS.
pub(in crate::stream) const MESSAGE_LEN_MAX: usize = 65_535;

/// How requests look.
pub(in crate::stream) struct Requests {
    authority: Authority,
    path: String,
    method: Method,
}

impl Requests {
    pub(in crate::stream) fn new(doh: &transport::Doh, authority: &str) -> Result<Self, TlsError> {
        let authority = authority.parse().map_err(|_| TlsError::Name(authority.to_owned()))?;
        // A path that is none shows here and not with every query.
        let path = doh.path.clone();
        let is_path = path.starts_with('/') && !path.contains('#');
        if !is_path || path.parse::<PathAndQuery>().is_err() {
            return Err(TlsError::Path(path));
        }
        Ok(Self { authority, path, method: doh.method })
    }

    /// The request that carries `message`, and its body.
    pub(in crate::stream) fn of(
        &self,
        message: &[u8],
    ) -> Result<(Request<()>, Bytes), http::Error> {
        let (path, body) = match self.method {
            Method::Post => (self.path.clone(), Bytes::copy_from_slice(message)),
            Method::Get => {
                let mark = if self.path.contains('?') { '&' } else { '?' };
                (format!("{}{mark}dns={}", self.path, base64url(message)), Bytes::new())
            }
        };
        let uri = Uri::builder()
            .scheme("https")
            .authority(self.authority.clone())
            .path_and_query(path)
            .build()?;
        let request = Request::builder().uri(uri).header(header::ACCEPT, MEDIA_TYPE);
        let request = match self.method {
            Method::Get => request.method("GET"),
            Method::Post => request
                .method("POST")
                .header(header::CONTENT_TYPE, MEDIA_TYPE)
                .header(header::CONTENT_LENGTH, message.len()),
        };
        Ok((request.body(())?, body))
    }
}

/// Whether the body of a response is a message: its status says so, and its type, if there is one.
pub(in crate::stream) fn carries_message<T>(response: &Response<T>) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_message = |kind: &[u8]| {
        let essence = kind.split(|octet| *octet == b';').next().unwrap_or_default();
        essence.trim_ascii().eq_ignore_ascii_case(MEDIA_TYPE.as_bytes())
    };
    response.status() == StatusCode::OK && kind.is_none_or(|kind| is_message(kind.as_bytes()))
}

/// Base64 for URLs without padding (RFC 4648 section 5).
fn base64url(octets: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(octets.len().div_ceil(3) * 4);
    for chunk in octets.chunks(3) {
        let group = chunk.iter().fold(0_u32, |group, octet| group << 8 | u32::from(*octet));
        let group = group << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            let at = group >> (18 - 6 * place) & 63;
            text.push(char::from(ALPHABET[at as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64url_is_that_of_the_rfc() {
        let examples = [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg")];
        for (plain, encoded) in examples {
            assert_eq!(base64url(plain.as_bytes()), encoded);
        }
        assert_eq!(base64url(&[0xfb, 0xff, 0xbf]), "-_-_");
    }

    #[test]
    fn a_message_has_its_status_and_its_type() {
        let carries = |status: u16, kind: Option<&str>| {
            let mut response = Response::builder().status(status);
            if let Some(kind) = kind {
                response = response.header(header::CONTENT_TYPE, kind);
            }
            carries_message(&response.body(()).unwrap())
        };
        for kind in [None, Some(MEDIA_TYPE), Some("Application/DNS-Message; x=y")] {
            assert!(carries(200, kind), "{kind:?}");
            assert!(!carries(400, kind) && !carries(500, kind), "{kind:?}");
        }
        for kind in ["text/html", "", "application/dns-message-x", "application/dns-json"] {
            assert!(!carries(200, Some(kind)), "{kind}");
        }
    }

    #[test]
    fn requests_are_those_of_the_rfc() {
        // RFC 8484 section 4.1.1: www.example.com, type A.
        let message = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03com\0\0\x01\0\x01";
        let requests = |method| {
            let doh = transport::Doh { path: "/dns-query".into(), method };
            Requests::new(&doh, "dnsserver.example.net").unwrap()
        };
        let (get, body) = requests(Method::Get).of(message).unwrap();
        let uri = "https://dnsserver.example.net/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB";
        assert_eq!((get.uri().to_string().as_str(), body.len()), (uri, 0));
        let (post, body) = requests(Method::Post).of(message).unwrap();
        assert_eq!((post.method().as_str(), &body[..]), ("POST", &message[..]));
        assert_eq!(post.headers()["content-length"], "33");
        let doh = transport::Doh { path: "dns query".into(), method: Method::Get };
        assert!(Requests::new(&doh, "a.example").is_err());
    }
}
