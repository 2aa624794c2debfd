//! Names of objects as they stand in a QNAME.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// The longest label (RFC 1035 section 2.3.4), and the longest name of a service or namespace.
const LABEL_LEN_MAX: usize = 63;

/// An object that cannot have a name in DNS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// A name that is no label.
    #[error("expected a name of 1 to 63 octets, found `{0}`")]
    Name(String),
}

/// Labels in wire form, in lower case, without the root: `\x03api\x07default` is the service `api`
/// of the namespace `default`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<[u8]>);

impl Key {
    /// The key of `name` in `namespace`.
    ///
    /// # Errors
    /// If one of them cannot be a label.
    pub fn new(namespace: &str, name: &str) -> Result<Self, ObjectError> {
        let mut wire = Vec::with_capacity(namespace.len() + name.len() + 2);
        push_label(name, &mut wire)?;
        push_label(namespace, &mut wire)?;
        Ok(Self(wire.into()))
    }

    /// The key of a namespace: its one label.
    ///
    /// # Errors
    /// If it cannot be a label.
    pub fn of_namespace(namespace: &str) -> Result<Self, ObjectError> {
        let mut wire = Vec::with_capacity(namespace.len() + 1);
        push_label(namespace, &mut wire)?;
        Ok(Self(wire.into()))
    }

    /// A key with these labels.
    pub(super) fn of_wire(wire: &[u8]) -> Self {
        Self(wire.into())
    }

    /// The labels.
    pub fn as_wire(&self) -> &[u8] {
        &self.0
    }

    /// The labels, the last one without its length.
    fn split(&self) -> (&[u8], &[u8]) {
        let first = self.0.first().map_or(0, |len| usize::from(*len));
        let name = self.0.get(1..=first).unwrap_or_default();
        (name, self.0.get(first + 2..).unwrap_or_default())
    }

    /// The first label's octets: the object's name.
    pub fn name(&self) -> &[u8] {
        self.split().0
    }

    /// The second label's octets: the object's namespace; empty for the key of a namespace.
    pub fn namespace(&self) -> &[u8] {
        self.split().1
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, namespace) = self.split();
        write!(f, "Key({}.{})", name.escape_ascii(), namespace.escape_ascii())
    }
}

fn push_label(label: &str, wire: &mut Vec<u8>) -> Result<(), ObjectError> {
    let len = u8::try_from(label.len()).unwrap_or(u8::MAX);
    if label.is_empty() || usize::from(len) > LABEL_LEN_MAX {
        return Err(ObjectError::Name(label.to_owned()));
    }
    wire.push(len);
    wire.extend(label.bytes().map(|octet| octet.to_ascii_lowercase()));
    Ok(())
}
