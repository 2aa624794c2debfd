//! Names as strings of symbols whose order is the canonical order of names (RFC 4034 section 6.1).

use nodens_wire::NameRef;
use nodens_wire::name::NAME_LEN_MAX;
use std::cmp::Ordering;

/// The end of a name, where its next label could begin: less than every label, so that a name
/// comes before those below it.
pub(super) const END: u8 = 0;
/// The end of a label: less than every octet, so that a label comes before longer ones that
/// begin with it.
const SEPARATOR: u8 = 1;
/// The first symbol that stands for octets.
const FIRST: u8 = 2;
/// How many symbols there are: what a map of bits in one word has room for.
const SYMBOLS: u8 = 64;
/// A label of n octets has at most 2n + 1 symbols.
const KEY_LEN_MAX: usize = 2 * NAME_LEN_MAX + 2;
/// The most labels of a name.
const LABELS_MAX: usize = NAME_LEN_MAX / 2 + 1;

/// The symbols of each octet. Those that host names have are one symbol; others share a symbol with
/// their neighbours and have a second one behind it.
const CODES: [[u8; 2]; 256] = codes();

const fn is_common(octet: u8) -> bool {
    octet.is_ascii_lowercase()
        || octet.is_ascii_digit()
        || matches!(octet, b'-' | b'_' | b'*' | b'/')
}

const fn codes() -> [[u8; 2]; 256] {
    let mut codes = [[0; 2]; 256];
    let mut next = FIRST;
    // The first and the next second symbol of a run of rare octets.
    let mut run = [0; 2];
    let mut octet = 0;
    while octet < 256 {
        let value = octet as u8;
        if is_common(value) {
            codes[octet] = [next, 0];
            next += 1;
            run = [0; 2];
        } else if !value.is_ascii_uppercase() {
            if run[0] == 0 || run[1] == SYMBOLS {
                run = [next, FIRST];
                next += 1;
            }
            codes[octet] = run;
            run[1] += 1;
        }
        octet += 1;
    }
    let mut letter = b'A';
    while letter <= b'Z' {
        codes[letter as usize] = codes[letter.to_ascii_lowercase() as usize];
        letter += 1;
    }
    assert!(next <= SYMBOLS);
    codes
}

/// The symbols of a name, those of its last label first, without the labels of the origin.
#[derive(Clone)]
pub(super) struct Key {
    symbols: [u8; KEY_LEN_MAX],
    len: usize,
}

impl Key {
    /// The key of `name` in a zone; nothing if it does not lie there.
    pub(super) fn new(name: NameRef<'_>, origin: NameRef<'_>) -> Option<Self> {
        let (wire, origin) = (name.as_wire(), origin.as_wire());
        let end = wire.len().checked_sub(origin.len())?;
        let mut starts = [0_u8; LABELS_MAX];
        let (mut at, mut labels) = (0, 0);
        while at < end {
            *starts.get_mut(labels)? = at as u8;
            labels += 1;
            at += 1 + usize::from(*wire.get(at)?);
        }
        if at != end || !wire.get(end..)?.eq_ignore_ascii_case(origin) {
            return None;
        }
        let mut key = Self { symbols: [END; KEY_LEN_MAX], len: 0 };
        for start in starts.get(..labels)?.iter().rev() {
            let (len, rest) = wire.get(usize::from(*start)..)?.split_first()?;
            key.push_label(rest.get(..usize::from(*len))?);
        }
        key.len += 1;
        Some(key)
    }

    fn push_label(&mut self, label: &[u8]) {
        for octet in label {
            let [first, second] = CODES.get(usize::from(*octet)).copied().unwrap_or_default();
            self.push(first);
            if second != 0 {
                self.push(second);
            }
        }
        self.push(SEPARATOR);
    }

    fn push(&mut self, symbol: u8) {
        if let Some(slot) = self.symbols.get_mut(self.len) {
            *slot = symbol;
            self.len += 1;
        }
    }

    /// How many symbols it has, the end included.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The symbol at an offset; [`END`] behind the last.
    pub(super) fn at(&self, offset: usize) -> u8 {
        self.symbols.get(offset).copied().unwrap_or(END)
    }

    /// How many symbols both begin with. Two keys of different names differ before either ends.
    pub(super) fn common(&self, other: &Self) -> usize {
        self.as_slice().iter().zip(other.as_slice()).take_while(|(a, b)| a == b).count()
    }

    /// Whether the name lies above that of `other`.
    pub(super) fn is_above(&self, other: &Self) -> bool {
        let labels = self.len.saturating_sub(1);
        self.len < other.len && self.symbols.get(..labels) == other.symbols.get(..labels)
    }

    fn as_slice(&self) -> &[u8] {
        self.symbols.get(..self.len).unwrap_or_default()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

/// A name and its key.
#[derive(Clone)]
pub(super) struct Place<'n> {
    pub(super) name: NameRef<'n>,
    pub(super) key: Key,
}

impl<'n> Place<'n> {
    /// The place of `name` in a zone; nothing if it does not lie there.
    pub(super) fn new(name: NameRef<'n>, origin: NameRef<'_>) -> Option<Self> {
        Some(Self { name, key: Key::new(name, origin)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::Name;
    use proptest::prelude::*;

    fn name(labels: &[Vec<u8>]) -> Name {
        let mut wire = Vec::new();
        for label in labels {
            wire.push(u8::try_from(label.len()).unwrap());
            wire.extend(label);
        }
        Name::from_wire(&[&wire[..], b"\x01Z\0"].concat()).unwrap()
    }

    fn labels() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let octet = prop_oneof![Just(b'a'), Just(b'A'), Just(b'*'), any::<u8>()];
        prop::collection::vec(prop::collection::vec(octet, 1..5), 0..5)
    }

    #[test]
    fn the_longest_names_have_keys() {
        let mut wire = Vec::new();
        for len in [63, 63, 63, 61] {
            wire.push(len);
            wire.extend(std::iter::repeat_n(b'\xff', usize::from(len)));
        }
        wire.push(0);
        let long = Name::from_wire(&wire).unwrap();
        assert_eq!(Key::new(long.view(), NameRef::root()).unwrap().len(), 2 * 250 + 4 + 1);
        let short: Name = "a.".repeat(127).parse().unwrap();
        assert_eq!(Key::new(short.view(), NameRef::root()).unwrap().len(), 2 * 127 + 1);
        assert_eq!(Key::new(short.view(), long.view()).map(|key| key.len()), None);
    }

    proptest! {
        #[test]
        fn keys_have_the_canonical_order(a in labels(), b in labels()) {
            let (a, b) = (name(&a), name(&b));
            let origin: Name = "z.".parse().unwrap();
            let keys = [&a, &b].map(|name| Key::new(name.view(), origin.view()).unwrap());
            prop_assert_eq!(keys[0].cmp(&keys[1]), a.cmp(&b));
            let below = a != b && b.view().is_in_domain(a.view());
            prop_assert_eq!(keys[0].is_above(&keys[1]), below);
        }
    }
}
