//! Domain names as validated wire octets, with comparison that ignores ASCII case (RFC 4343).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

mod order;
mod shared;

pub use shared::SharedName;

/// The longest name in octets, with length octets and root label (RFC 1035 section 2.3.4).
pub const NAME_LEN_MAX: usize = 255;
/// The longest label in octets, without its length octet.
pub const LABEL_LEN_MAX: usize = 63;

/// Why text or octets are not a domain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Longer than 255 octets.
    #[error("name is longer than 255 octets")]
    TooLong,
    /// A label is longer than 63 octets.
    #[error("label is longer than 63 octets")]
    LabelTooLong,
    /// Two dots with nothing between them, or a leading dot.
    #[error("name has an empty label")]
    EmptyLabel,
    /// A backslash that is not followed by a character or three digits up to 255.
    #[error("name has a backslash with nothing valid behind it")]
    Escape,
    /// Octets that do not end with exactly one root label.
    #[error("octets are not one uncompressed name")]
    Wire,
}

/// A domain name that owns its octets: uncompressed labels that end with the root label.
///
/// Equality, order and hash ignore ASCII case.
#[derive(Clone)]
pub struct Name {
    wire: Vec<u8>,
}

/// A borrowed [`Name`].
#[derive(Clone, Copy)]
pub struct NameRef<'a> {
    wire: &'a [u8],
}

impl Name {
    /// The root, `.`.
    pub fn root() -> Self {
        Self { wire: vec![0] }
    }

    /// Takes uncompressed octets as a name.
    pub fn from_wire(wire: &[u8]) -> Result<Self, NameError> {
        NameRef::new(wire).map(NameRef::to_name)
    }

    /// Reads presentation format; a name without a final dot is taken as absolute.
    ///
    /// Escapes are `\DDD` and `\X` (RFC 1035 section 5.1).
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text == "." || text.is_empty() {
            return Ok(Self::root());
        }
        let mut wire = vec![0];
        let mut label_at = 0;
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            match byte {
                b'.' => {
                    close_label(&mut wire, label_at)?;
                    label_at = wire.len();
                    wire.push(0);
                }
                b'\\' => wire.push(unescape(&mut bytes)?),
                _ => wire.push(byte),
            }
        }
        if wire.len() - label_at > 1 {
            close_label(&mut wire, label_at)?;
            wire.push(0);
        }
        if wire.len() > NAME_LEN_MAX { Err(NameError::TooLong) } else { Ok(Self { wire }) }
    }

    /// The octets.
    pub fn as_wire(&self) -> &[u8] {
        &self.wire
    }

    /// A borrowed view.
    pub fn view(&self) -> NameRef<'_> {
        NameRef { wire: &self.wire }
    }

    /// Replaces the name without giving up its allocation.
    pub fn assign(&mut self, other: NameRef<'_>) {
        self.wire.clear();
        self.wire.extend_from_slice(other.wire);
    }

    /// The same name with ASCII letters in lower case.
    #[must_use]
    pub fn to_folded(&self) -> Self {
        Self { wire: self.wire.to_ascii_lowercase() }
    }

    /// `self` without its root label followed by `suffix`.
    pub fn join(&self, suffix: NameRef<'_>) -> Result<Self, NameError> {
        let mut wire = self.wire.clone();
        wire.pop();
        wire.extend_from_slice(suffix.wire);
        if wire.len() > NAME_LEN_MAX { Err(NameError::TooLong) } else { Ok(Self { wire }) }
    }
}

fn close_label(wire: &mut [u8], label_at: usize) -> Result<(), NameError> {
    let len = wire.len() - label_at - 1;
    if len == 0 {
        return Err(NameError::EmptyLabel);
    }
    if len > LABEL_LEN_MAX {
        return Err(NameError::LabelTooLong);
    }
    if let (Some(slot), Ok(len)) = (wire.get_mut(label_at), u8::try_from(len)) {
        *slot = len;
    }
    Ok(())
}

fn unescape(bytes: &mut std::str::Bytes<'_>) -> Result<u8, NameError> {
    let first = bytes.next().ok_or(NameError::Escape)?;
    if !first.is_ascii_digit() {
        return Ok(first);
    }
    let mut value = u32::from(first - b'0');
    for _ in 0..2 {
        let digit = bytes.next().filter(u8::is_ascii_digit).ok_or(NameError::Escape)?;
        value = value * 10 + u32::from(digit - b'0');
    }
    u8::try_from(value).map_err(|_| NameError::Escape)
}

impl Default for Name {
    fn default() -> Self {
        Self::root()
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl<'a> NameRef<'a> {
    /// Checks that `wire` is exactly one uncompressed name.
    pub fn new(wire: &'a [u8]) -> Result<Self, NameError> {
        if wire.len() > NAME_LEN_MAX {
            return Err(NameError::TooLong);
        }
        let mut rest = wire;
        while let Some((&len, tail)) = rest.split_first() {
            if len == 0 {
                return if tail.is_empty() { Ok(Self { wire }) } else { Err(NameError::Wire) };
            }
            if usize::from(len) > LABEL_LEN_MAX {
                return Err(NameError::Wire);
            }
            rest = tail.get(usize::from(len)..).ok_or(NameError::Wire)?;
        }
        Err(NameError::Wire)
    }

    /// Takes octets as a name that [`NameRef::new`] or admission has found to be one.
    pub fn of_checked(wire: &'a [u8]) -> Self {
        debug_assert!(Self::new(wire).is_ok());
        Self { wire }
    }

    /// The root, `.`.
    pub fn root() -> NameRef<'static> {
        NameRef { wire: &[0] }
    }

    /// The octets.
    pub fn as_wire(self) -> &'a [u8] {
        self.wire
    }

    /// An owned copy.
    pub fn to_name(self) -> Name {
        Name { wire: self.wire.to_vec() }
    }

    /// Whether this is the root.
    pub fn is_root(self) -> bool {
        self.wire.len() == 1
    }

    /// The labels from left to right, without the root.
    pub fn labels(self) -> Labels<'a> {
        Labels { rest: self.wire }
    }

    /// How many labels there are, without the root.
    pub fn label_count(self) -> usize {
        self.labels().count()
    }

    /// The name without its first label; `None` for the root.
    pub fn parent(self) -> Option<NameRef<'a>> {
        let (&len, rest) = self.wire.split_first()?;
        if len == 0 { None } else { rest.get(usize::from(len)..).map(|wire| NameRef { wire }) }
    }

    /// Whether the name equals `zone` or lies below it (RFC 9499, "in-domain").
    pub fn is_in_domain(self, zone: NameRef<'_>) -> bool {
        if zone.is_root() {
            return true;
        }
        let Some(extra) = self.wire.len().checked_sub(zone.wire.len()) else { return false };
        let mut name = self;
        while name.wire.len() > zone.wire.len() {
            match name.parent() {
                Some(parent) => name = parent,
                None => return false,
            }
        }
        extra + zone.wire.len() == self.wire.len() && name == zone
    }

    /// The octets in lower case, in `buffer`.
    pub fn fold(self, buffer: &mut [u8; NAME_LEN_MAX]) -> &[u8] {
        let Some(folded) = buffer.get_mut(..self.wire.len()) else { return &[] };
        folded.copy_from_slice(self.wire);
        folded.make_ascii_lowercase();
        folded
    }

    /// The octets in lower case, appended to `out`. Length octets are at most 63 and so are never taken for letters.
    pub fn fold_into(self, out: &mut Vec<u8>) {
        out.extend(self.wire.iter().map(u8::to_ascii_lowercase));
    }
}

/// The labels of a name, see [`NameRef::labels`].
#[derive(Clone)]
pub struct Labels<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        let (&len, tail) = self.rest.split_first()?;
        if len == 0 {
            return None;
        }
        let (label, rest) = tail.split_at_checked(usize::from(len))?;
        self.rest = rest;
        Some(label)
    }
}

impl PartialEq for NameRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        // Nearly all names are in lower case, and whole words are compared faster than letters.
        self.wire == other.wire || self.wire.eq_ignore_ascii_case(other.wire)
    }
}

impl Eq for NameRef<'_> {}

impl Hash for NameRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Many octets at once are hashed faster than each alone.
        let mut folded = [0; 32];
        for octets in self.wire.chunks(folded.len()) {
            let Some(folded) = folded.get_mut(..octets.len()) else { return };
            folded.copy_from_slice(octets);
            folded.make_ascii_lowercase();
            state.write(folded);
        }
    }
}

impl fmt::Display for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for label in self.labels() {
            for &byte in label {
                match byte {
                    // As CoreDNS prints names: what is logged and given to templates is compared.
                    b'.' | b' ' | b'\'' | b'@' | b';' | b'(' | b')' | b'"' | b'\\' => {
                        write!(f, "\\{}", char::from(byte))?;
                    }
                    0x21..=0x7e => write!(f, "{}", char::from(byte))?,
                    _ => write!(f, "\\{byte:03}")?,
                }
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

impl fmt::Debug for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.view() == other.view()
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.view().hash(state);
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.view(), f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn presentation_format_goes_both_ways() {
        for text in [".", "org.", "www.example.org.", "a\\.b.example.", "\\000\\255.", "_x._udp."] {
            assert_eq!(name(text).to_string(), text);
        }
        assert_eq!(name("example.org"), name("EXAMPLE.org."));
        let odd = Name::from_wire(b"\x0bq$'@;()\"\\ ~\x02\x7f\xc8\0").unwrap();
        assert_eq!(odd.to_string(), "q$\\'\\@\\;\\(\\)\\\"\\\\\\ ~.\\127\\200.");
        assert_eq!(name(&odd.to_string()).as_wire(), odd.as_wire());
    }

    #[test]
    fn what_is_not_a_name_is_refused() {
        assert_eq!(Name::parse("a..b"), Err(NameError::EmptyLabel));
        assert_eq!(Name::parse(".a"), Err(NameError::EmptyLabel));
        assert_eq!(Name::parse("a\\"), Err(NameError::Escape));
        assert_eq!(Name::parse("\\256."), Err(NameError::Escape));
        assert_eq!(Name::parse(&"a".repeat(64)), Err(NameError::LabelTooLong));
        assert_eq!(Name::parse(&"a.".repeat(128)), Err(NameError::TooLong));
        assert!(Name::parse(&"a.".repeat(127)).is_ok());
        for wire in [&b""[..], b"\x01", b"\x01a", b"\x00\x00", b"\xc0\x00"] {
            assert_eq!(Name::from_wire(wire), Err(NameError::Wire));
        }
    }

    #[test]
    fn in_domain_counts_labels_and_not_octets() {
        let inside = |a: &str, b: &str| name(a).view().is_in_domain(name(b).view());
        assert!(inside("www.Example.org", "example.ORG"));
        assert!(inside("example.org", "example.org"));
        assert!(inside("example.org", "."));
        assert!(!inside("badexample.org", "example.org"));
        assert!(!inside("org", "example.org"));
        // The suffix octets of this label look like `\x03org\x00`.
        assert!(!inside("x\\003org", "org"));
    }

    #[test]
    fn canonical_order_is_that_of_rfc_4034() {
        let sorted =
            ["example.", "a.example.", "yljkjljk.a.example.", "Z.a.example.", "z.example."];
        assert!(sorted.windows(2).all(|pair| name(pair[0]) < name(pair[1])));
    }

    #[test]
    fn names_that_are_the_same_have_the_same_hash() {
        let hash = |text: &str| {
            let mut state = std::hash::DefaultHasher::new();
            name(text).hash(&mut state);
            state.finish()
        };
        for len in [1, 11, 29, 30, 31, 32, 63] {
            let label = "Ab-1".repeat(16).split_off(64 - len);
            let [upper, lower] = [label.to_uppercase(), label.to_lowercase()];
            let of = |label: &str| hash(&format!("{label}.{label}.org."));
            assert_eq!(of(&upper), of(&lower), "{label}");
            assert_ne!(of(&upper), of(&format!("{}x", &lower[1..])), "{label}");
        }
    }

    proptest! {
        #[test]
        fn any_labels_survive_presentation_format(
            labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 0..10)
        ) {
            let mut wire = Vec::new();
            for label in &labels {
                wire.push(u8::try_from(label.len()).unwrap());
                wire.extend(label);
            }
            wire.push(0);
            let name = Name::from_wire(&wire).unwrap();
            let again = Name::parse(&name.to_string()).unwrap();
            prop_assert_eq!(again.as_wire(), &wire[..]);
        }
    }
}
