//! What a line of a watch or a page of a list says, applied to the editor.

use crate::fault::{Fault, Status};
use crate::objects::{
    ImportObject, ImportSliceObject, Meta, NamespaceObject, NoLabels, Object, PodObject,
    ServiceObject, SliceObject,
};
use nodens_core::cluster::{Editor, Key, Kind, Source};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fmt;

/// What a line came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// An object is new, has changed or is gone; the version to go on from.
    Change {
        version: String,
        /// Of an endpoint slice: the service, and when what led to the change happened.
        trigger: Option<(Key, String)>,
    },
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

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
enum EventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

#[derive(Deserialize)]
struct Event<T> {
    #[serde(rename = "type")]
    kind: EventType,
    object: T,
}

/// The metadata of an object of any kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named<'a> {
    #[serde(borrow)]
    metadata: Meta<'a, NoLabels>,
}

/// Applies one line of a watch.
pub(crate) fn line(kind: Kind, line: &[u8], editor: &mut Editor, source: &Source) -> Seen {
    match kind {
        Kind::Namespaces => event::<NamespaceObject<'_>>(line, editor, source),
        Kind::Services => event::<ServiceObject<'_>>(line, editor, source),
        Kind::Slices => event::<SliceObject<'_>>(line, editor, source),
        Kind::Pods => event::<PodObject<'_>>(line, editor, source),
        Kind::Imports => event::<ImportObject<'_>>(line, editor, source),
        Kind::ImportSlices => event::<ImportSliceObject<'_>>(line, editor, source),
    }
}

fn event<'a, T: Object<'a>>(line: &'a [u8], editor: &mut Editor, source: &Source) -> Seen {
    let event: Event<T> = match serde_json::from_slice(line) {
        Ok(event) => event,
        Err(error) => return odd(T::KIND, line, &error, editor),
    };
    let meta = event.object.meta();
    let version = meta.version().to_owned();
    let done = match event.kind {
        EventType::Added | EventType::Modified => event.object.set(editor, source),
        EventType::Deleted => event.object.remove(editor),
        EventType::Bookmark => {
            return Seen::Bookmark { version, list_ends: meta.ends_initial_events() };
        }
        EventType::Error => return error(line),
    };
    if let Err(error) = done {
        editor.keep(T::KIND, meta.namespace(), meta.name());
        return Seen::Unreadable { version: Some(version), text: said_of(meta, &error) };
    }
    let trigger = meta.trigger_time().and_then(|at| {
        let service = event.object.service_of_slice()?;
        Some((service, at.to_owned()))
    });
    Seen::Change { version, trigger }
}

/// A line that does not read as an event with an object of `kind`.
fn odd(kind: Kind, line: &[u8], error: &serde_json::Error, editor: &mut Editor) -> Seen {
    match serde_json::from_slice::<Event<IgnoredAny>>(line) {
        Ok(event) if event.kind == EventType::Error => return self::error(line),
        _ => {}
    }
    let Ok(event) = serde_json::from_slice::<Event<Named<'_>>>(line) else {
        return Seen::Unreadable { version: None, text: error.to_string() };
    };
    let meta = &event.object.metadata;
    let version = Some(meta.version().to_owned());
    if event.kind == EventType::Deleted {
        // To be gone, an object needs nothing but its name.
        remove(kind, meta, editor);
        return Seen::Unreadable { version, text: said_of(meta, error) };
    }
    editor.keep(kind, meta.namespace(), meta.name());
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
    }
}

fn error(line: &[u8]) -> Seen {
    let status = serde_json::from_slice::<Event<Status>>(line);
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
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// The version of the list.
    pub(crate) version: String,
    /// Where the next page begins; none if this is the last.
    pub(crate) next: Option<String>,
}

impl Page {
    /// Reads a list without its objects.
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

/// Applies an object of a list.
///
/// # Errors
/// What is to be said of it if it cannot be used.
pub(crate) fn item(
    kind: Kind,
    text: &[u8],
    editor: &mut Editor,
    source: &Source,
) -> Result<(), String> {
    match kind {
        Kind::Namespaces => object::<NamespaceObject<'_>>(text, editor, source),
        Kind::Services => object::<ServiceObject<'_>>(text, editor, source),
        Kind::Slices => object::<SliceObject<'_>>(text, editor, source),
        Kind::Pods => object::<PodObject<'_>>(text, editor, source),
        Kind::Imports => object::<ImportObject<'_>>(text, editor, source),
        Kind::ImportSlices => object::<ImportSliceObject<'_>>(text, editor, source),
    }
}

fn object<'a, T: Object<'a>>(
    text: &'a [u8],
    editor: &mut Editor,
    source: &Source,
) -> Result<(), String> {
    let error = match serde_json::from_slice::<T>(text) {
        Ok(object) => match object.set(editor, source) {
            Ok(()) => return Ok(()),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    let named: Named<'_> = serde_json::from_slice(text).unwrap_or_default();
    editor.keep(T::KIND, named.metadata.namespace(), named.metadata.name());
    Err(said_of(&named.metadata, &error))
}

#[cfg(test)]
mod tests;
