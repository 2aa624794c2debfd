//! A response on its way, and the message in it.

use super::speech::MEDIA_TYPE;
use super::{Failure, poll};
use crate::http::grpc::{self, packet};
use crate::http::requests::Dialect;
use crate::limits::{GRPC_AROUND, UPSTREAM_TEXT_MAX};
use h2::client::ResponseFuture;
use h2::{Error, Reason, RecvStream};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use nodens_wire::{HEADER_LEN, Header, MESSAGE_LEN_MAX, Rcode, Reader};
use percent_encoding::percent_decode;
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

/// The status of a call of gRPC that went well, and that of one for a name that is not there.
const OK: &[u8] = b"0";
const NOT_FOUND: &[u8] = b"5";

/// What has come of the response to a query.
pub(super) struct Reply {
    dialect: Dialect,
    stage: Stage,
    /// The query up to its question, where the upstream may have it answered without a message.
    query: Vec<u8>,
}

enum Stage {
    /// Nothing.
    Asked(ResponseFuture),
    /// The head, and a part of the body.
    Body(RecvStream, Vec<u8>),
}

impl Reply {
    /// That to `query`.
    pub(super) fn new(response: ResponseFuture, dialect: Dialect, query: &[u8]) -> Self {
        let query = match dialect {
            Dialect::Doh => Vec::new(),
            Dialect::Grpc => query.to_vec(),
        };
        Self { dialect, stage: Stage::Asked(response), query }
    }

    /// Looks at what has come; gives the message as soon as it is whole.
    pub(super) fn advance(&mut self) -> Option<Result<Vec<u8>, Failure>> {
        if let Stage::Asked(response) = &mut self.stage {
            match poll(|cx| Pin::new(response).poll(cx)) {
                Poll::Pending => return None,
                Poll::Ready(Err(error)) => return Some(Err(failure(&error))),
                Poll::Ready(Ok(response)) => {
                    let (head, body) = response.into_parts();
                    if let Some(result) = self.head(&head) {
                        return Some(result);
                    }
                    self.stage = Stage::Body(body, Vec::new());
                }
            }
        }
        self.read()
    }

    /// What the head says, if nothing else counts.
    fn head(&self, head: &Parts) -> Option<Result<Vec<u8>, Failure>> {
        let media_type = head.headers.get(header::CONTENT_TYPE);
        let media_type = media_type.map(HeaderValue::as_bytes).unwrap_or_default();
        let (is_success, is_expected) = match self.dialect {
            Dialect::Doh => (head.status.is_success(), is_dns(media_type)),
            Dialect::Grpc => (head.status == StatusCode::OK, grpc::is_grpc(media_type)),
        };
        if !is_success {
            return Some(refused(format!("its response has the HTTP status {}", head.status)));
        }
        if !is_expected {
            let media_type = text(media_type);
            return Some(refused(format!("its response has the content type {media_type:?}")));
        }
        // A call that fails at once has no body, and its status stands in the head.
        let status = (self.dialect == Dialect::Grpc).then(|| self.status(&head.headers))?;
        status.err().map(|failure| self.without_message(failure))
    }

    /// Takes what has come of the body.
    fn read(&mut self) -> Option<Result<Vec<u8>, Failure>> {
        let Stage::Body(body, content) = &mut self.stage else { return None };
        let most = match self.dialect {
            Dialect::Doh => MESSAGE_LEN_MAX,
            Dialect::Grpc => MESSAGE_LEN_MAX + GRPC_AROUND,
        };
        loop {
            match poll(|cx| body.poll_data(cx)) {
                Poll::Pending => return None,
                Poll::Ready(None) => break,
                Poll::Ready(Some(Err(error))) => return Some(Err(failure(&error))),
                Poll::Ready(Some(Ok(data))) => {
                    if data.len() > most - content.len() {
                        return Some(refused(format!("its response is longer than {most} octets")));
                    }
                    content.extend_from_slice(&data);
                }
            }
        }
        let status = match self.dialect {
            Dialect::Doh => None,
            Dialect::Grpc => match poll(|cx| body.poll_trailers(cx)) {
                Poll::Pending => return None,
                Poll::Ready(Err(error)) => return Some(Err(failure(&error))),
                Poll::Ready(Ok(trailers)) => Some(trailers.unwrap_or_default()),
            },
        };
        // Others may have the room: only what is not whole takes of the window of the connection.
        _ = body.flow_control().release_capacity(content.len());
        let content = std::mem::take(content);
        Some(match status {
            None => Ok(content),
            Some(trailers) => self.call(&trailers, &content),
        })
    }

    /// The message of a call of gRPC that is over.
    fn call(&self, trailers: &HeaderMap, body: &[u8]) -> Result<Vec<u8>, Failure> {
        match self.status(trailers) {
            Ok(true) => {}
            Ok(false) => return refused("its response has no gRPC status".to_owned()),
            Err(failure) => return self.without_message(failure),
        }
        match packet::message(body, MESSAGE_LEN_MAX) {
            Ok(message) => Ok(message.to_vec()),
            Err(flaw) => refused(flaw.to_string()),
        }
    }

    /// Whether these fields have a status, which is an error if it says that the call has failed.
    fn status(&self, fields: &HeaderMap) -> Result<bool, Call> {
        let Some(code) = fields.get("grpc-status").map(HeaderValue::as_bytes) else {
            return Ok(false);
        };
        let message = fields.get("grpc-message").map(HeaderValue::as_bytes).unwrap_or_default();
        match code {
            OK => Ok(true),
            NOT_FOUND => Err(Call::NotFound),
            code => {
                let message = text(&percent_decode(message).collect::<Vec<_>>());
                let code = text(code);
                Err(Call::Failed(format!("rpc error: code = {code} desc = {message}")))
            }
        }
    }

    /// What a call comes to that has failed.
    fn without_message(&self, call: Call) -> Result<Vec<u8>, Failure> {
        match call {
            Call::Failed(text) => refused(text),
            // As CoreDNS has it.
            Call::NotFound => not_found(&self.query)
                .ok_or(())
                .or_else(|()| refused("rpc error: code = NotFound".to_owned())),
        }
    }
}

/// How a call has failed.
enum Call {
    /// The name is not there.
    NotFound,
    Failed(String),
}

/// The response that a name does not exist.
fn not_found(query: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(query, HEADER_LEN);
    reader.skip_name().ok()?;
    reader.take(4, "question").ok()?;
    let question = query.get(HEADER_LEN..reader.at())?;
    let header = Header::read(query).ok()?;
    let flags = header.flags.reply().with_rcode(Rcode::NXDOMAIN);
    let header = Header { flags, counts: [1, 0, 0, 0], ..header };
    Some([&header.to_bytes()[..], question].concat())
}

fn refused(text: String) -> Result<Vec<u8>, Failure> {
    Err(Failure::Refused(text))
}

/// What the upstream has done to a request, or to all on its connection.
fn failure(error: &Error) -> Failure {
    let is_unseen = error.reason() == Some(Reason::REFUSED_STREAM)
        || !error.is_reset() && (error.is_go_away() || error.is_io());
    match is_unseen {
        true => Failure::Unseen(error.to_string()),
        false => Failure::Refused(error.to_string()),
    }
}

fn is_dns(media_type: &[u8]) -> bool {
    let rest = media_type.split_at_checked(MEDIA_TYPE.len());
    rest.is_some_and(|(own, rest)| {
        own.eq_ignore_ascii_case(MEDIA_TYPE.as_bytes())
            && matches!(rest, [] | [b';' | b' ' | b'\t', ..])
    })
}

/// What the upstream says, as far as a log line has room for it.
fn text(octets: &[u8]) -> String {
    let text = String::from_utf8_lossy(octets.get(..UPSTREAM_TEXT_MAX).unwrap_or(octets));
    // A line end would begin a line of the log that the server has not written.
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
