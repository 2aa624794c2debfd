//! What an event of a watch or an object of a list says, applied to the editor.

use crate::fault::{Fault, Status};
use crate::form::{Event, EventType, Form, Unreadable};
use crate::objects::{
    ImportObject, ImportSliceObject, Meta, NamespaceObject, NoLabels, Object, PodObject,
    ServiceObject, SliceObject, WitnessObject,
};
use crate::protobuf::{Malformed, Message, Value};
use nodens_core::cluster::{Editor, Key, Kind, Source};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fmt;

/// Of an endpoint slice: the service, and when what led to the change happened.
pub(crate) type Trigger = (Key, String);

/// What an event came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// An object is new, has changed or is gone; the version to go on from, and whether it may say
    /// something else than before.
    Change { version: String, trigger: Option<Trigger>, is_new: bool },
    /// Nothing happened up to this version.
    Bookmark {
        version: String,
        /// Whether the list that the stream began with is whole.
        list_ends: bool,
    },
    /// The server ends the stream.
    Error(Fault),
    /// An object that cannot be used. It is skipped; the version to go on from, if it can be read.
    Unreadable { version: Option<String>, text: String },
}

/// The metadata of an object of any kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named<'a> {
    #[serde(borrow)]
    metadata: Meta<'a, NoLabels>,
}

impl<'a> Message<'a> for Named<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => value.merge_into(&mut self.metadata),
            _ => Ok(()),
        }
    }
}

/// Objects of one kind as they arrive, and what they are for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of<'s> {
    pub(crate) kind: Kind,
    pub(crate) form: Form,
    pub(crate) source: &'s Source,
}

/// Applies one event of a watch: a line, or a frame.
pub(crate) fn event(of: Of<'_>, octets: &[u8], editor: &mut Editor) -> Seen {
    match of.kind {
        Kind::Namespaces => apply::<NamespaceObject<'_>>(of, octets, editor),
        Kind::Services => apply::<ServiceObject<'_>>(of, octets, editor),
        Kind::Slices => apply::<SliceObject<'_>>(of, octets, editor),
        Kind::Pods => apply::<PodObject<'_>>(of, octets, editor),
        Kind::Imports => apply::<ImportObject<'_>>(of, octets, editor),
        Kind::ImportSlices => apply::<ImportSliceObject<'_>>(of, octets, editor),
        Kind::ApiService => apply::<WitnessObject<'_, true>>(of, octets, editor),
        Kind::SystemServices => apply::<WitnessObject<'_, false>>(of, octets, editor),
    }
}

fn apply<'a, T: Object<'a>>(of: Of<'_>, octets: &'a [u8], editor: &mut Editor) -> Seen {
    let event: Event<T> = match of.form.event(octets) {
        Ok(event) => event,
        Err(error) => return odd(of, octets, &error, editor),
    };
    let meta = event.object.meta();
    let version = meta.version().to_owned();
    let done = match event.kind {
        EventType::Added | EventType::Modified => event.object.set(editor, of.source),
        EventType::Deleted => event.object.remove(editor).map(|()| true),
        EventType::Bookmark => {
            return Seen::Bookmark { version, list_ends: meta.ends_initial_events() };
        }
        EventType::Error => return error(of.form, octets),
    };
    match done {
        Ok(is_new) => Seen::Change { version, trigger: trigger(&event.object), is_new },
        Err(error) => {
            editor.keep(T::KIND, meta.namespace(), meta.name());
            Seen::Unreadable { version: Some(version), text: said_of(meta, &error) }
        }
    }
}

fn trigger<'a, T: Object<'a>>(object: &T) -> Option<Trigger> {
    let at = object.meta().trigger_time()?;
    Some((object.service_of_slice()?, at.to_owned()))
}

/// An event that does not read as one with an object of its kind.
fn odd(of: Of<'_>, octets: &[u8], error: &Unreadable, editor: &mut Editor) -> Seen {
    match of.form.event::<IgnoredAny>(octets) {
        Ok(event) if event.kind == EventType::Error => return self::error(of.form, octets),
        _ => {}
    }
    let Ok(event) = of.form.event::<Named<'_>>(octets) else {
        return Seen::Unreadable { version: None, text: error.to_string() };
    };
    let meta = &event.object.metadata;
    let version = Some(meta.version().to_owned());
    if event.kind == EventType::Deleted {
        // To be gone, an object needs nothing but its name.
        remove(of.kind, meta, editor);
        return Seen::Unreadable { version, text: said_of(meta, error) };
    }
    editor.keep(of.kind, meta.namespace(), meta.name());
    Seen::Unreadable { version, text: said_of(meta, error) }
}

fn remove(kind: Kind, meta: &Meta<'_>, editor: &mut Editor) {
    let (namespace, name) = (meta.namespace(), meta.name());
    match kind {
        Kind::Slices => editor.remove_slice(namespace, name),
        Kind::ImportSlices => editor.remove_import_slice(namespace, name),
        Kind::Pods => editor.remove_pod(namespace, name),
        Kind::Namespaces => _ = Key::of_namespace(name).map(|key| editor.remove_namespace(&key)),
        Kind::Services => _ = Key::new(namespace, name).map(|key| editor.remove_service(&key)),
        Kind::Imports => _ = Key::new(namespace, name).map(|key| editor.remove_import(&key)),
        Kind::ApiService | Kind::SystemServices => {
            _ = Key::new(namespace, name).map(|key| editor.remove_witness(&key));
        }
    }
}

fn error(form: Form, octets: &[u8]) -> Seen {
    let status = form.event::<Status>(octets);
    Seen::Error(status.map(|event| event.object).unwrap_or_default().fault(500))
}

fn said_of<L>(meta: &Meta<'_, L>, error: &dyn fmt::Display) -> String {
    let (namespace, name) = (meta.namespace(), meta.name());
    match (namespace, name) {
        ("", "") => error.to_string(),
        ("", name) => format!("{name}: {error}"),
        (namespace, name) => format!("{namespace}/{name}: {error}"),
    }
}

/// What stands around the objects of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// The version of the list.
    pub(crate) version: String,
    /// Where the next page begins; none if this is the last.
    pub(crate) next: Option<String>,
}

impl Page {
    /// Reads a list in JSON without its objects.
    ///
    /// # Errors
    /// If it is no list.
    pub(crate) fn read(text: &[u8]) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct List {
            metadata: ListMeta,
            #[serde(rename = "items")]
            _items: IgnoredAny,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ListMeta {
            resource_version: Option<String>,
            r#continue: Option<String>,
        }
        let List { metadata, .. } = serde_json::from_slice(text)?;
        let next = metadata.r#continue.filter(|token| !token.is_empty());
        Ok(Self { version: metadata.resource_version.unwrap_or_default(), next })
    }
}

/// Applies an object of a list; gives what led to it if it says something new.
///
/// # Errors
/// What is to be said of it if it cannot be used.
pub(crate) fn item(
    of: Of<'_>,
    octets: &[u8],
    editor: &mut Editor,
) -> Result<Option<Trigger>, String> {
    match of.kind {
        Kind::Namespaces => put::<NamespaceObject<'_>>(of, octets, editor),
        Kind::Services => put::<ServiceObject<'_>>(of, octets, editor),
        Kind::Slices => put::<SliceObject<'_>>(of, octets, editor),
        Kind::Pods => put::<PodObject<'_>>(of, octets, editor),
        Kind::Imports => put::<ImportObject<'_>>(of, octets, editor),
        Kind::ImportSlices => put::<ImportSliceObject<'_>>(of, octets, editor),
        Kind::ApiService => put::<WitnessObject<'_, true>>(of, octets, editor),
        Kind::SystemServices => put::<WitnessObject<'_, false>>(of, octets, editor),
    }
}

fn put<'a, T: Object<'a>>(
    of: Of<'_>,
    octets: &'a [u8],
    editor: &mut Editor,
) -> Result<Option<Trigger>, String> {
    let error = match of.form.item::<T>(octets) {
        Ok(object) => match object.set(editor, of.source) {
            Ok(is_new) => return Ok(trigger(&object).filter(|_| is_new)),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    let named: Named<'_> = of.form.item(octets).unwrap_or_default();
    editor.keep(T::KIND, named.metadata.namespace(), named.metadata.name());
    Err(said_of(&named.metadata, &error))
}

#[cfg(test)]
mod tests;
