//! The two forms that an API server writes objects in. It is asked for protobuf, which takes it and
//! us a fraction of the work; objects of kinds that are defined by other objects it only has in JSON.

use crate::fault::Status;
use crate::frames::Frames;
use crate::lines::Lines;
use crate::protobuf::{self, Malformed, Message, Value};
use http::HeaderValue;
use nodens_core::cluster::{Kind, Scope};
use serde::Deserialize;

/// What is asked for: protobuf, or else JSON; where names are enough, objects' metadata without what
/// the server knows of them beside it, or else whole objects. `in_list` says that they are to come as
/// one list.
pub(crate) fn accepted(scope: &Scope, kind: Kind, in_list: bool) -> HeaderValue {
    let is_name = *scope == Scope::Names && matches!(kind, Kind::Namespaces | Kind::Services);
    HeaderValue::from_static(match (is_name, in_list) {
        (false, _) => "application/vnd.kubernetes.protobuf, application/json",
        (true, true) => {
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, \
             application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json"
        }
        (true, false) => {
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, \
             application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json"
        }
    })
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// In front of every object in protobuf but those within lists.
pub(crate) const MAGIC: [u8; 4] = *b"k8s\0";

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As text.
    Json,
    /// As messages of protocol buffers.
    Protobuf,
}

/// What is wrong with an object that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Protobuf(#[from] Malformed),
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// An event of a watch.
#[derive(Debug, Deserialize)]
pub(crate) struct Event<T> {
    #[serde(rename = "type")]
    pub(crate) kind: EventType,
    pub(crate) object: T,
}

impl Form {
    /// The form that a response says it is in.
    pub(crate) fn of(content_type: Option<&HeaderValue>) -> Self {
        let said = content_type.map(HeaderValue::as_bytes).unwrap_or_default();
        let said = said.get(..PROTOBUF.len()).unwrap_or_default();
        if said.eq_ignore_ascii_case(PROTOBUF.as_bytes()) { Self::Protobuf } else { Self::Json }
    }

    /// An object of a list.
    pub(crate) fn item<'a, T>(self, octets: &'a [u8]) -> Result<T, Unreadable>
    where
        T: Deserialize<'a> + Message<'a>,
    {
        Ok(match self {
            Self::Json => serde_json::from_slice(octets)?,
            Self::Protobuf => protobuf::read(octets)?,
        })
    }

    /// An event of a watch.
    pub(crate) fn event<'a, T>(self, octets: &'a [u8]) -> Result<Event<T>, Unreadable>
    where
        T: Deserialize<'a> + Message<'a>,
    {
        if self == Self::Json {
            return Ok(serde_json::from_slice(octets)?);
        }
        let WatchEvent { kind, object } = protobuf::read(octets)?;
        let kind = kind.ok_or(Malformed::Expected("the type of an event"))?;
        Ok(Event { kind, object: protobuf::read(open(object.0)?)? })
    }

    /// What a refusal says; nothing if it cannot be read.
    pub(crate) fn status(self, octets: &[u8]) -> Option<Status> {
        match self {
            Self::Json => serde_json::from_slice(octets).ok(),
            Self::Protobuf => protobuf::read(open(octets).ok()?).ok(),
        }
    }

    /// What cuts a watch into events.
    pub(crate) fn cutter(self) -> Cutter {
        match self {
            Self::Json => Cutter::Lines(Lines::default()),
            Self::Protobuf => Cutter::Frames(Frames::default()),
        }
    }
}

/// The object within its magic and `runtime.Unknown`.
fn open(octets: &[u8]) -> Result<&[u8], Malformed> {
    let octets = octets.strip_prefix(&MAGIC);
    let octets = octets.ok_or(Malformed::Expected("`k8s` in front of an object"))?;
    Ok(protobuf::read::<Unknown<'_>>(octets)?.raw)
}

#[derive(Default)]
struct Unknown<'a> {
    raw: &'a [u8],
}

impl<'a> Message<'a> for Unknown<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        if number == 2 {
            self.raw = value.octets()?;
        }
        Ok(())
    }
}

#[derive(Default)]
struct WatchEvent<'a> {
    kind: Option<EventType>,
    object: RawExtension<'a>,
}

#[derive(Default)]
struct RawExtension<'a>(&'a [u8]);

impl<'a> Message<'a> for WatchEvent<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => {
                self.kind = Some(match value.octets()? {
                    b"ADDED" => EventType::Added,
                    b"MODIFIED" => EventType::Modified,
                    b"DELETED" => EventType::Deleted,
                    b"BOOKMARK" => EventType::Bookmark,
                    b"ERROR" => EventType::Error,
                    _ => return Err(Malformed::Expected("the type of an event")),
                });
            }
            2 => value.merge_into(&mut self.object)?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for RawExtension<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        if number == 1 {
            self.0 = value.octets()?;
        }
        Ok(())
    }
}

/// Cuts a watch into events, in the way of its form.
#[derive(Debug)]
pub(crate) enum Cutter {
    Lines(Lines),
    Frames(Frames),
}

impl Cutter {
    /// Calls `with` for each event that ends in `piece`.
    ///
    /// # Errors
    /// The first error of `with`; the rest of the piece is lost with it.
    pub(crate) fn feed<E>(
        &mut self,
        piece: &[u8],
        with: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Lines(lines) => lines.feed(piece, with),
            Self::Frames(frames) => frames.feed(piece, with),
        }
    }

    /// Whether an event has begun and not ended.
    pub(crate) fn is_within_an_event(&self) -> bool {
        match self {
            Self::Lines(lines) => lines.is_within_a_line(),
            Self::Frames(frames) => frames.is_within_a_frame(),
        }
    }

    /// How many events were too long since the last call.
    pub(crate) fn take_skipped(&mut self) -> u64 {
        match self {
            Self::Lines(lines) => lines.take_skipped(),
            Self::Frames(frames) => frames.take_skipped(),
        }
    }
}

#[cfg(test)]
mod tests;
