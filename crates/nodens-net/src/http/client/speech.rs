//! What is said to an upstream in requests.

use crate::http::doh;
use crate::http::grpc::{self, packet};
use crate::http::requests::Dialect;
use base64::engine::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use nodens_core::ListenerKind;
use nodens_core::upstream::Peer;
use nodens_tls::rustls::pki_types::ServerName;
use std::net::SocketAddr;

/// The media type of DNS messages (RFC 8484 section 6).
pub(super) const MEDIA_TYPE: &str = "application/dns-message";

/// How an upstream is spoken to.
#[derive(Clone, Debug)]
pub(crate) struct Speech {
    dialect: Dialect,
    /// Where queries go that are the body of their request.
    target: Uri,
    fields: HeaderMap,
}

impl Speech {
    /// With the server at this address, which is the `peer` where there is encryption; none if it does not speak HTTP/2.
    pub(crate) fn of(kind: ListenerKind, address: SocketAddr, peer: Option<&Peer>) -> Option<Self> {
        let (dialect, path) = match kind {
            ListenerKind::Https => (Dialect::Doh, doh::PATH),
            ListenerKind::Grpc => (Dialect::Grpc, grpc::PATH),
            _ => return None,
        };
        let scheme = if peer.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
        let builder = Uri::builder().scheme(scheme).authority(authority(address, peer)?);
        let target = builder.path_and_query(path).build().ok()?;
        Some(Self { dialect, target, fields: fields(dialect) })
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The request for a query, whose ID is 0 on the way, and its body; with GET if it is to stand `in_target`.
    pub(super) fn request(&self, message: &[u8], in_target: bool) -> Option<(Request<()>, Bytes)> {
        let mut request = Request::new(());
        let body = match self.dialect {
            Dialect::Doh if in_target => {
                *request.uri_mut() = self.with_query(message)?;
                Bytes::new()
            }
            Dialect::Doh => Bytes::copy_from_slice(message),
            Dialect::Grpc => packet::around(message),
        };
        request.headers_mut().clone_from(&self.fields);
        if !body.is_empty() {
            *request.method_mut() = Method::POST;
            request.uri_mut().clone_from(&self.target);
        }
        if self.dialect == Dialect::Doh && !body.is_empty() {
            let length = HeaderValue::from(body.len());
            request.headers_mut().insert(header::CONTENT_LENGTH, length);
        }
        Some((request, body))
    }

    fn with_query(&self, message: &[u8]) -> Option<Uri> {
        let mut parts = self.target.clone().into_parts();
        let text = format!("{}?dns={}", doh::PATH, URL_SAFE_NO_PAD.encode(message));
        parts.path_and_query = Some(text.try_into().ok()?);
        Uri::from_parts(parts).ok()
    }
}

/// The name of a server that has one in its certificate, else its address and port: as Go's clients say it.
fn authority(address: SocketAddr, peer: Option<&Peer>) -> Option<Authority> {
    match peer.map(Peer::name) {
        Some(ServerName::DnsName(name)) => name.as_ref().parse().ok(),
        _ => address.to_string().parse().ok(),
    }
}

/// The fields that all requests have. There is none that would tell one user from another (RFC 8484 section 8).
fn fields(dialect: Dialect) -> HeaderMap {
    let mut fields = HeaderMap::new();
    match dialect {
        Dialect::Doh => {
            let media_type = HeaderValue::from_static(MEDIA_TYPE);
            fields.insert(header::CONTENT_TYPE, media_type.clone());
            fields.insert(header::ACCEPT, media_type);
        }
        Dialect::Grpc => {
            fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(grpc::MEDIA_TYPE));
            fields.insert(header::TE, HeaderValue::from_static("trailers"));
        }
    }
    fields
}
