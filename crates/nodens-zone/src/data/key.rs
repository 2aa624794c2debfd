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
    /// No key yet, for [`Key::fill`].
    pub(super) fn empty() -> Self {
        Self { symbols: [END; KEY_LEN_MAX], len: 0 }
    }

    /// The key of `name` in a zone; nothing if it does not lie there.
    pub(super) fn new(name: NameRef<'_>, origin: NameRef<'_>) -> Option<Self> {
        let mut key = Self::empty();
        key.fill(name, origin).then_some(key)
    }

    /// Becomes the key of `name`, after it was empty; false if the name does not lie in the zone, and it is empty
    /// still.
    pub(super) fn fill(&mut self, name: NameRef<'_>, origin: NameRef<'_>) -> bool {
        let (wire, origin) = (name.as_wire(), origin.as_wire());
        let Some((front, end)) =
            wire.len().checked_sub(origin.len()).and_then(|at| wire.split_at_checked(at))
        else {
            return false;
        };
        // Nearly all names are in lower case, and whole words are compared faster than letters.
        if end != origin && !end.eq_ignore_ascii_case(origin) {
            return false;
        }
        // Most names of most zones have one label more than the origin.
        if let Some((len, label)) = front.split_first()
            && usize::from(*len) == label.len()
        {
            self.push_label(label);
            self.len += 1;
            return true;
        }
        let mut starts = [0_u8; LABELS_MAX];
        let (mut rest, mut count) = (front, 0);
        while let Some((len, tail)) = rest.split_first() {
            let (Some(tail), Some(start)) = (tail.get(usize::from(*len)..), starts.get_mut(count))
            else {
                return false;
            };
            *start = (front.len() - rest.len()) as u8;
            (rest, count) = (tail, count + 1);
        }
        let mut front = front;
        for start in starts.get(..count).unwrap_or_default().iter().rev() {
            let Some((head, label)) = front.split_at_checked(usize::from(*start)) else { break };
            self.push_label(label.get(1..).unwrap_or_default());
            front = head;
        }
        self.len += 1;
        true
    }

    fn push_label(&mut self, label: &[u8]) {
        // Nearly all labels have one symbol for each octet.
        if let Some(free) = self.symbols.get_mut(self.len..=self.len + label.len())
            && let Some((end, free)) = free.split_last_mut()
        {
            let mut rare = 0;
            for (slot, octet) in free.iter_mut().zip(label) {
                let [first, second] = CODES.get(usize::from(*octet)).copied().unwrap_or_default();
                *slot = first;
                rare |= second;
            }
            if rare == 0 {
                *end = SEPARATOR;
                self.len += label.len() + 1;
                return;
            }
        }
        let Some(free) = self.symbols.get_mut(self.len..) else { return };
        let mut used = 0;
        let mut push = |symbol| {
            if let Some(slot) = free.get_mut(used) {
                *slot = symbol;
                used += 1;
            }
        };
        for octet in label {
            let [first, second] = CODES.get(usize::from(*octet)).copied().unwrap_or_default();
            push(first);
            if second != 0 {
                push(second);
            }
        }
        push(SEPARATOR);
        self.len += used;
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

    /// The offsets at which the names above end, those of the longest first: that of the origin is 0.
    pub(super) fn ends_above(&self) -> impl Iterator<Item = usize> + '_ {
        // Behind the last label stand its separator and the end.
        let labels = self.len.saturating_sub(2);
        let is_end = |at: &usize| *at == 0 || self.at(*at - 1) == SEPARATOR;
        (0..labels).rev().filter(is_end)
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
        let mut place = Self::unknown(name);
        place.find(origin).then_some(place)
    }

    /// The place of `name` before [`Place::find`]: lookups fill it where it lies, as copying half a kilobyte
    /// would take them as long as the search.
    pub(super) fn unknown(name: NameRef<'n>) -> Self {
        Self { name, key: Key::empty() }
    }

    /// Finds the place in a zone; false if the name does not lie there. Only once.
    pub(super) fn find(&mut self, origin: NameRef<'_>) -> bool {
        self.key.fill(self.name, origin)
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
