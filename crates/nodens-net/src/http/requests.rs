//! What requests of HTTP/2 mean: DNS over HTTPS, or gRPC.

use super::Counted;
use super::doh::{self, Place};
use super::grpc::{self, Failure};
use crate::limits::{GRPC_AROUND, REQUEST_LEN_MAX};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use nodens_core::Now;
use nodens_core::config::HttpStatus;

/// What is spoken in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// RFC 8484.
    Doh,
    /// Calls of gRPC.
    Grpc,
}

/// What the head of a request says.
pub(super) enum Begun {
    /// All there is to ask.
    Query(Vec<u8>),
    /// The query is in the body.
    Body,
    /// There is none.
    Refused(Box<Response>),
}

/// A response.
pub(crate) struct Response {
    pub(super) head: http::Response<()>,
    pub(super) body: Bytes,
    pub(super) trailers: Option<HeaderMap>,
}

impl Response {
    /// To a request with more fields than any client sends.
    pub(super) fn too_many_fields() -> Box<Self> {
        let mut head = http::Response::new(());
        *head.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        Box::new(Self { head, body: Bytes::new(), trailers: None })
    }
}

impl Dialect {
    /// The most octets of the body of a request.
    pub(super) fn len_max(self) -> usize {
        match self {
            Self::Doh => REQUEST_LEN_MAX,
            Self::Grpc => REQUEST_LEN_MAX + GRPC_AROUND,
        }
    }

    /// Looks at the head of a request.
    pub(super) fn begin(self, head: &Parts, now: Now, counted: &mut Counted) -> Begun {
        match self {
            Self::Grpc => match grpc::begin(head) {
                Ok(()) => Begun::Body,
                Err(failure) => Begun::Refused(failure.into_response()),
            },
            Self::Doh => match doh::place(&head.method, &head.uri) {
                Ok(Place::Body) => Begun::Body,
                Ok(Place::Target(message)) if doh::is_query(&message) => Begun::Query(message),
                Ok(Place::Target(_)) => {
                    Begun::Refused(doh_response(HttpStatus::BadRequest, None, now, counted))
                }
                Err(status) => {
                    let mut response = doh_response(status, None, now, counted);
                    if head.method == Method::HEAD {
                        response.body = Bytes::new();
                    }
                    Begun::Refused(response)
                }
            },
        }
    }

    /// The query in a body that is whole.
    pub(super) fn query(
        self,
        content: Vec<u8>,
        now: Now,
        counted: &mut Counted,
    ) -> Result<Vec<u8>, Box<Response>> {
        match self {
            Self::Grpc => grpc::query(&content).map_err(Failure::into_response),
            Self::Doh if doh::is_query(&content) => Ok(content),
            Self::Doh => Err(doh_response(HttpStatus::BadRequest, None, now, counted)),
        }
    }

    /// The response to a body that is longer than any query.
    pub(super) fn too_long(self, now: Now, counted: &mut Counted) -> Box<Response> {
        match self {
            Self::Doh => doh_response(HttpStatus::BadRequest, None, now, counted),
            Self::Grpc => Failure::too_long().into_response(),
        }
    }

    /// The response with a DNS message, or to a query that has no response.
    pub(super) fn answer(
        self,
        message: Option<&[u8]>,
        now: Now,
        counted: &mut Counted,
    ) -> Box<Response> {
        match self {
            Self::Doh => {
                let status =
                    if message.is_some() { HttpStatus::Ok } else { HttpStatus::NoResponse };
                doh_response(status, message, now, counted)
            }
            Self::Grpc => match message {
                Some(message) => grpc::response(message),
                None => Failure::no_response().into_response(),
            },
        }
    }
}

fn doh_response(
    status: HttpStatus,
    message: Option<&[u8]>,
    now: Now,
    counted: &mut Counted,
) -> Box<Response> {
    counted.add(status);
    let body = match message {
        Some(message) => Bytes::copy_from_slice(message),
        None => Bytes::from_static(doh::text(status).as_bytes()),
    };
    let mut head = http::Response::new(());
    *head.status_mut() = StatusCode::from_u16(status.code()).unwrap_or_default();
    *head.headers_mut() = doh::fields(status, &body, now);
    Box::new(Response { head, body, trailers: None })
}
