//! Names that many hold.

use super::{NAME_LEN_MAX, Name, NameRef};
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use triomphe::ThinArc;

/// A name in lower case that many may hold: a clone is a counted reference of one word, and the octets are one step
/// away, where those of an `Arc<Name>` are two. A hash map finds it by its octets in lower case as well; an ordered map
/// does not, as names have another order than octets.
#[derive(Clone)]
pub struct SharedName(ThinArc<(), u8>);

impl SharedName {
    /// Shares a copy of `name` in lower case.
    pub fn of(name: NameRef<'_>) -> Self {
        let mut buffer = [0; NAME_LEN_MAX];
        Self(ThinArc::from_header_and_slice((), name.fold(&mut buffer)))
    }

    /// Borrows the name.
    pub fn view(&self) -> NameRef<'_> {
        NameRef::of_checked(self.as_wire())
    }

    /// The octets.
    pub fn as_wire(&self) -> &[u8] {
        &self.0.slice
    }

    /// A copy for one holder.
    pub fn to_name(&self) -> Name {
        self.view().to_name()
    }
}

impl From<NameRef<'_>> for SharedName {
    fn from(name: NameRef<'_>) -> Self {
        Self::of(name)
    }
}

impl From<&Name> for SharedName {
    fn from(name: &Name) -> Self {
        Self::of(name.view())
    }
}

impl From<Name> for SharedName {
    fn from(name: Name) -> Self {
        Self::of(name.view())
    }
}

impl From<&Self> for SharedName {
    fn from(name: &Self) -> Self {
        name.clone()
    }
}

impl Borrow<[u8]> for SharedName {
    fn borrow(&self) -> &[u8] {
        self.as_wire()
    }
}

impl Eq for SharedName {}

impl PartialEq for SharedName {
    fn eq(&self, other: &Self) -> bool {
        // Most of those that are compared are the same one.
        self.0.heap_ptr() == other.0.heap_ptr() || self.as_wire() == other.as_wire()
    }
}

impl Hash for SharedName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // As that of what it is borrowed as.
        self.as_wire().hash(state);
    }
}

impl PartialEq<Name> for SharedName {
    fn eq(&self, other: &Name) -> bool {
        self.view() == other.view()
    }
}

/// The order of names, which is not that of their octets.
impl Ord for SharedName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.view().cmp(&other.view())
    }
}

impl PartialOrd for SharedName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for SharedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

impl fmt::Debug for SharedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.view(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeSet, HashSet};

    #[test]
    fn a_shared_name_is_in_lower_case_and_found_by_its_octets() {
        let shared = |text: &str| SharedName::from(Name::parse(text).unwrap());
        let name = shared("Www.Example.ORG");
        assert_eq!(name.to_string(), "www.example.org.");
        assert_eq!(name, shared("www.example.org."));
        assert_eq!(name, Name::parse("WWW.example.org").unwrap());
        let all: HashSet<_> = [name.clone(), shared(".")].into();
        assert!(all.contains(&b"\x03www\x07example\x03org\0"[..]) && all.contains(&b"\0"[..]));
        assert!(!all.contains(&b"\x03WWW\x07example\x03org\0"[..]));
        assert_eq!(name.to_name().as_wire(), name.as_wire());
    }

    #[test]
    fn shared_names_have_the_order_of_names() {
        let names =
            ["example.", "a.example.", "yljkjljk.a.example.", "z.a.example.", "zabc.a.example."];
        let sorted: BTreeSet<_> =
            names.iter().rev().map(|name| SharedName::from(Name::parse(name).unwrap())).collect();
        assert!(sorted.iter().map(ToString::to_string).eq(names));
    }
}
