//! What can go wrong between us and the API server.

use crate::protobuf::{Malformed, Message, Value};
use serde::Deserialize;
use std::time::Duration;

/// Why a request or a stream came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No connection, or it broke.
    Unreachable(String),
    /// The other side is not who it should be, or does not believe us who we are.
    Tls(String),
    /// The source's files cannot be used.
    Config(String),
    /// 401: the server does not know us.
    Unauthorized(String),
    /// 403: it knows us, and we may not.
    Forbidden(String),
    /// 404: there is no such kind of object.
    Absent(String),
    /// 410: the version we know is too old to go on from.
    Gone(String),
    /// 400, 406, 415, 422: it does not understand the request; or its store cannot do it.
    NotOffered(String),
    /// 500 and beyond: it tried and failed.
    Failed(String),
    /// 429 or 503: not now.
    Busy {
        /// What it says.
        text: String,
        /// When to come again, if it says so.
        after: Option<Duration>,
    },
    /// Something that is no answer of an API server.
    Strange(String),
}

/// What an API server says with 500 when it could stream lists and its etcd (before 3.4.31 or 3.5.13) cannot.
const STORAGE_LACKS: &str = "required storage feature";

/// `v1.Status`, as the API server words its refusals.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) code: Option<u16>,
    pub(crate) message: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) details: Option<StatusDetails>,
}

/// The part of its details that matters.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct StatusDetails {
    pub(crate) retry_after_seconds: Option<u64>,
}

impl<'a> Message<'a> for Status {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            3 => self.message = Some(value.text()?.as_str().to_owned()),
            4 => self.reason = Some(value.text()?.as_str().to_owned()),
            5 => value.merge_into(self.details.get_or_insert_default())?,
            6 => self.code = u16::try_from(value.number()?).ok(),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for StatusDetails {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        if number == 5 {
            self.retry_after_seconds = Some(value.number()?);
        }
        Ok(())
    }
}

impl Status {
    /// What it means; `code` stands in where it does not say.
    pub(crate) fn fault(self, code: u16) -> Fault {
        let code = self.code.unwrap_or(code);
        let text = match (self.message, self.reason) {
            (Some(text), _) | (None, Some(text)) if !text.is_empty() => text,
            _ => "no reason given".to_owned(),
        };
        let after = self.details.and_then(|details| details.retry_after_seconds);
        let after = after.filter(|after| *after > 0).map(Duration::from_secs);
        match code {
            400 | 406 | 415 | 422 => Fault::NotOffered(text),
            500 if text.contains(STORAGE_LACKS) => Fault::NotOffered(text),
            401 => Fault::Unauthorized(text),
            403 => Fault::Forbidden(text),
            404 => Fault::Absent(text),
            410 => Fault::Gone(text),
            429 | 503 => Fault::Busy { text: format!("{code}: {text}"), after },
            500.. => Fault::Failed(format!("{code}: {text}")),
            _ => Fault::Strange(format!("HTTP status {code}: {text}")),
        }
    }
}

impl Fault {
    /// The fault of a connection, by the innermost thing that is known about it.
    pub(crate) fn of_transport(error: &(dyn std::error::Error + 'static)) -> Self {
        let (mut texts, mut next, mut tls) = (Vec::<String>::new(), Some(error), false);
        while let Some(error) = next {
            let text = error.to_string();
            tls |= error.is::<rustls::Error>();
            // Wrappers repeat what they wrap.
            texts.retain(|known| !known.contains(&text));
            if !texts.iter().any(|known| text.contains(known.as_str())) {
                texts.push(text);
            }
            // An I/O error skips what it wraps when it is asked for its source.
            let io = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
            next = match io {
                Some(wrapped) => Some(wrapped),
                None => error.source(),
            };
        }
        let text = texts.join(": ");
        if tls { Self::Tls(text) } else { Self::Unreachable(text) }
    }

    /// Whether it concerns the whole server rather than one kind of object.
    pub(crate) fn is_of_server(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_) | Self::Tls(_) | Self::Config(_) | Self::Unauthorized(_)
        )
    }

    /// Whether other files may help: those that are there now.
    pub(crate) fn wants_new_credentials(&self) -> bool {
        matches!(self, Self::Tls(_) | Self::Config(_) | Self::Unauthorized(_))
    }

    /// Whether pages may be had where a streamed list is not. Some servers only find out on the
    /// way that their store cannot do it, and answer with 500.
    pub(crate) fn suggests_pages(&self) -> bool {
        matches!(self, Self::NotOffered(_) | Self::Failed(_) | Self::Strange(_))
    }

    /// What it is, without the words that vary.
    pub(crate) fn class(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Tls(_) => "tls",
            Self::Config(_) => "config",
            Self::Unauthorized(_) => "unauthorized",
            Self::Forbidden(_) => "forbidden",
            Self::Absent(_) => "absent",
            Self::Gone(_) => "gone",
            Self::NotOffered(_) => "not_offered",
            Self::Failed(_) => "failed",
            Self::Busy { .. } => "busy",
            Self::Strange(_) => "strange",
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(text)
            | Self::Config(text)
            | Self::Forbidden(text)
            | Self::Absent(text)
            | Self::Gone(text)
            | Self::NotOffered(text)
            | Self::Strange(text)
            | Self::Failed(text)
            | Self::Busy { text, .. } => f.write_str(text),
            Self::Tls(text) => write!(f, "TLS: {text}"),
            Self::Unauthorized(text) => write!(f, "401 {text}"),
        }
    }
}
