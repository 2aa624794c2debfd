//! The few fields of each kind of object that DNS needs, borrowed from the text, and what they
//! come to in the core. Unknown fields are skipped; a field may be missing or `null` as Go leaves
//! out or writes what is empty.

mod pod;
mod service;
mod slice;

pub(crate) use pod::PodObject;
pub(crate) use service::{ImportObject, ServiceObject, WitnessObject};
pub(crate) use slice::{ImportSliceObject, SliceObject};

use crate::protobuf::{Malformed, Message, Value};
use nodens_core::cluster::{Editor, Key, Kind, ObjectError, Source};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A text that is borrowed where it has no escapes.
#[derive(Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(transparent)]
pub(crate) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Text<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text, or an empty one.
fn text<'t>(text: &'t Option<Text<'_>>) -> &'t str {
    text.as_ref().map_or("", Text::as_str)
}

/// Metadata with the labels `L`.
#[derive(Debug, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "L: Deserialize<'de>"))]
pub(crate) struct Meta<'a, L = NoLabels> {
    #[serde(borrow)]
    pub(crate) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) namespace: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) resource_version: Option<Text<'a>>,
    /// Whether there is one is all that matters.
    pub(crate) deletion_timestamp: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(crate) annotations: Option<Annotations<'a>>,
    pub(crate) labels: Option<L>,
}

impl<L> Default for Meta<'_, L> {
    fn default() -> Self {
        Self {
            name: None,
            namespace: None,
            resource_version: None,
            deletion_timestamp: None,
            annotations: None,
            labels: None,
        }
    }
}

impl<L> Meta<'_, L> {
    pub(crate) fn name(&self) -> &str {
        text(&self.name)
    }

    pub(crate) fn namespace(&self) -> &str {
        text(&self.namespace)
    }

    pub(crate) fn version(&self) -> &str {
        text(&self.resource_version)
    }

    /// Whether this bookmark ends the list at the beginning of a stream.
    pub(crate) fn ends_initial_events(&self) -> bool {
        let said = self.annotations.as_ref().map(|annotations| &annotations.initial_events_end);
        said.is_some_and(|end| text(end) == "true")
    }

    /// When whatever led to this version of the object happened, as its controller noted it.
    pub(crate) fn trigger_time(&self) -> Option<&str> {
        self.annotations.as_ref()?.last_change_trigger_time.as_ref().map(Text::as_str)
    }
}

impl<'a, L: Labels<'a>> Message<'a> for Meta<'a, L> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.name = Some(value.text()?),
            3 => self.namespace = Some(value.text()?),
            6 => self.resource_version = Some(value.text()?),
            9 => self.deletion_timestamp = Some(IgnoredAny),
            11 => self.labels.get_or_insert_default().add(value)?,
            12 => self.annotations.get_or_insert_default().add(value)?,
            _ => {}
        }
        Ok(())
    }
}

/// A table of texts of which some matter, as it stands in a message pair by pair.
pub(crate) trait Labels<'a>: Default {
    /// Takes a pair.
    fn add(&mut self, pair: Value<'a>) -> Result<(), Malformed>;
}

impl<'a> Labels<'a> for NoLabels {
    fn add(&mut self, _: Value<'a>) -> Result<(), Malformed> {
        Ok(())
    }
}

impl<'a> Labels<'a> for Annotations<'a> {
    fn add(&mut self, pair: Value<'a>) -> Result<(), Malformed> {
        let pair = pair.pair()?;
        match pair.key() {
            INITIAL_EVENTS_END => self.initial_events_end = Some(pair.value()?),
            LAST_CHANGE_TRIGGER_TIME => self.last_change_trigger_time = Some(pair.value()?),
            _ => {}
        }
        Ok(())
    }
}

/// Its value `true` on a bookmark ends the list at the beginning of a stream.
const INITIAL_EVENTS_END: &[u8] = b"k8s.io/initial-events-end";
const LAST_CHANGE_TRIGGER_TIME: &[u8] = b"endpoints.kubernetes.io/last-change-trigger-time";

/// The annotations that are looked at.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Annotations<'a> {
    #[serde(borrow, rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<Text<'a>>,
    #[serde(borrow, rename = "endpoints.kubernetes.io/last-change-trigger-time")]
    last_change_trigger_time: Option<Text<'a>>,
}

/// For kinds whose labels do not matter.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NoLabels {}

/// What is wrong with an object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    /// A name that cannot be one.
    #[error(transparent)]
    Name(#[from] ObjectError),
    /// A value that is none.
    #[error("{field}: expected {expected}, found `{found}`")]
    Value { field: &'static str, expected: &'static str, found: String },
}

/// An object of one kind.
pub(crate) trait Object<'a>: Deserialize<'a> + Message<'a> {
    /// Its kind.
    const KIND: Kind;

    /// Its labels.
    type Labels;

    /// Its metadata.
    fn meta(&self) -> &Meta<'a, Self::Labels>;

    /// It is new or has changed; gives whether it may say something else than before.
    fn set(&self, editor: &mut Editor, source: &Source) -> Result<bool, Unusable>;

    /// It is gone.
    fn remove(&self, editor: &mut Editor) -> Result<(), Unusable>;

    /// The service that an endpoint slice belongs to.
    fn service_of_slice(&self) -> Option<Key> {
        None
    }
}

/// A namespace, or any object of which only the metadata can be read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NamespaceObject<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
}

impl<'a> Message<'a> for NamespaceObject<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => value.merge_into(&mut self.metadata),
            _ => Ok(()),
        }
    }
}

impl<'a> Object<'a> for NamespaceObject<'a> {
    const KIND: Kind = Kind::Namespaces;
    type Labels = NoLabels;

    fn meta(&self) -> &Meta<'a> {
        &self.metadata
    }

    fn set(&self, editor: &mut Editor, _: &Source) -> Result<bool, Unusable> {
        editor.set_namespace(&Key::of_namespace(self.metadata.name())?);
        Ok(true)
    }

    fn remove(&self, editor: &mut Editor) -> Result<(), Unusable> {
        editor.remove_namespace(&Key::of_namespace(self.metadata.name())?);
        Ok(())
    }
}

/// An address. Kubernetes accepted leading zeros in IPv4 addresses once, and may still have them
/// in store; Go reads them as decimal.
fn address(field: &'static str, found: &str) -> Result<IpAddr, Unusable> {
    let parsed = found.parse().ok().or_else(|| with_leading_zeros(found));
    // As Go does: an IPv4 address stays one in whatever form it is written.
    let canonical = |address: Ipv6Addr| address.to_ipv4_mapped();
    match parsed {
        Some(IpAddr::V6(v6)) => Ok(canonical(v6).map_or(IpAddr::V6(v6), IpAddr::V4)),
        Some(v4) => Ok(v4),
        None => {
            let found = found.to_owned();
            Err(Unusable::Value { field, expected: "an IP address", found })
        }
    }
}

fn with_leading_zeros(text: &str) -> Option<IpAddr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        *octet = digits.then(|| part.parse::<u8>().ok()).flatten()?;
    }
    parts.next().is_none().then(|| IpAddr::V4(Ipv4Addr::from(octets)))
}

#[cfg(test)]
mod tests;
