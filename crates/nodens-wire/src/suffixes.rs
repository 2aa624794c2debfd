//! Where the names of a message stand, so that later names can end with a pointer to them.

use crate::name::NameRef;

/// How many positions are remembered.
const SUFFIXES_MAX: usize = 48;
/// The most labels a name can have, without the root.
const LABELS_MAX: usize = 127;
/// A pointer has 14 bits.
pub(crate) const POINTER_MAX: usize = 0x3fff;
/// The root, which every name ends with, in place of an index.
const ROOT: u8 = u8::MAX;

#[cfg(test)]
thread_local! {
    /// How often labels were compared.
    pub(crate) static COMPARED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Suffixes of the names in a message, as a tree that begins at the root: each stands for one label
/// in front of another suffix.
///
/// A name is looked up label by label from its end, so what that costs has a bound, whatever names
/// there are: every suffix is compared with at most once.
#[derive(Clone)]
pub(crate) struct Suffixes {
    /// Where each starts.
    at: [u16; SUFFIXES_MAX],
    /// The index of what follows its first label.
    tail: [u8; SUFFIXES_MAX],
    filled: Filled,
    /// Suffixes of the first name; 0 if not all of them are here.
    first: u8,
    expected: Option<Expected>,
}

/// A suffix of the first name that later names often end with.
#[derive(Clone, Copy)]
struct Expected {
    at: u16,
    /// Octets, with the root label.
    len: u8,
    index: u8,
}

/// How far the table is filled.
#[derive(Clone, Copy)]
pub(crate) struct Filled {
    len: u8,
    /// The suffix with more than one label in front of its tail, and how many it has. There is one
    /// if the last name that was remembered did not fit with all its labels.
    long: u8,
    long_labels: u8,
}

/// What is known of a name.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    /// How many labels stand in front of the longest suffix that is known.
    pub(crate) new: usize,
    suffix: u8,
}

/// Where the labels of a name start.
pub(crate) struct Starts {
    at: [u8; LABELS_MAX],
    len: usize,
}

impl Starts {
    pub(crate) fn of(name: NameRef<'_>) -> Self {
        let mut starts = Self { at: [0; LABELS_MAX], len: 0 };
        for (slot, start) in starts.at.iter_mut().zip(starts_of(name)) {
            // A name has at most 255 octets.
            *slot = start as u8;
            starts.len += 1;
        }
        starts
    }

    fn as_slice(&self) -> &[u8] {
        self.at.get(..self.len).unwrap_or_default()
    }

    /// Where label `index` of `name` starts; the root is the last one.
    pub(crate) fn start(&self, index: usize, name: NameRef<'_>) -> usize {
        self.as_slice().get(index).map_or(name.as_wire().len() - 1, |at| usize::from(*at))
    }
}

impl Expected {
    /// What is known of a name that ends with it.
    fn known(self, message: &[u8], name: NameRef<'_>, starts: &Starts) -> Option<Known> {
        let wire = name.as_wire();
        let new = wire.len().checked_sub(usize::from(self.len))?;
        let at = usize::from(self.at);
        let same = wire.get(new..) == message.get(at..at + usize::from(self.len));
        let new = starts.as_slice().iter().position(|start| usize::from(*start) == new);
        new.filter(|_| same).map(|new| Known { new, suffix: self.index })
    }
}

impl Suffixes {
    pub(crate) fn new() -> Self {
        let filled = Filled { len: 0, long: ROOT, long_labels: 1 };
        let (at, tail) = ([0; SUFFIXES_MAX], [0; SUFFIXES_MAX]);
        Self { at, tail, filled, first: 0, expected: None }
    }

    /// Where the name stands that later names were expected to end with, if these octets are it.
    pub(crate) fn expected(&self, message: &[u8], wire: &[u8]) -> Option<u16> {
        let Expected { at, len, .. } =
            self.expected.filter(|it| usize::from(it.len) == wire.len())?;
        let start = usize::from(at);
        (message.get(start..start + usize::from(len)) == Some(wire)).then_some(at)
    }

    /// How far the table is filled now, for [`Suffixes::forget_since`].
    pub(crate) fn filled(&self) -> Filled {
        self.filled
    }

    /// Forgets what was remembered since.
    pub(crate) fn forget_since(&mut self, filled: Filled) {
        self.filled = filled;
    }

    /// Where the first suffix starts, which is the first name as a rule.
    pub(crate) fn first(&self) -> Option<usize> {
        self.at.first().filter(|_| self.filled.len > 0).map(|at| usize::from(*at))
    }

    /// Finds the longest suffix of `name` that stands in `message`.
    ///
    /// Case counts: a pointer must not change the case of a name in an answer.
    pub(crate) fn find(&self, message: &[u8], name: NameRef<'_>, starts: &Starts) -> Known {
        let expected = self.expected.and_then(|expected| expected.known(message, name, starts));
        let mut known = expected.unwrap_or(Known { new: starts.len, suffix: ROOT });
        while known.new > 0 {
            let end = starts.start(known.new, name);
            let mut longer = None;
            for (index, tail) in (0u8..self.filled.len).zip(&self.tail) {
                if *tail == known.suffix
                    && let Some(new) = known.new.checked_sub(self.labels(index))
                    && let Some(labels) = name.as_wire().get(starts.start(new, name)..end)
                    && self.stands_in(message, index, labels)
                {
                    longer = Some(Known { new, suffix: index });
                    break;
                }
            }
            let Some(longer) = longer else { break };
            known = longer;
        }
        known
    }

    /// Whether suffix `index` begins with `labels`.
    fn stands_in(&self, message: &[u8], index: u8, labels: &[u8]) -> bool {
        #[cfg(test)]
        COMPARED.set(COMPARED.get() + 1);
        message.get(self.start(index)..).is_some_and(|at| at.starts_with(labels))
    }

    /// Where a pointer to the suffix that is known leads; none to the root.
    pub(crate) fn target(&self, known: Known) -> Option<usize> {
        (known.suffix != ROOT).then(|| self.start(known.suffix))
    }

    /// Whether nothing is remembered.
    pub(crate) fn is_empty(&self) -> bool {
        self.filled.len == 0
    }

    /// Remembers the suffixes of a name that is written at `at` while nothing else is remembered.
    pub(crate) fn remember_first(&mut self, at: usize, name: NameRef<'_>) {
        let mut wire = name.as_wire();
        let end = at + wire.len();
        let mut last = None;
        let mut index = 0;
        for (slot, tail) in self.at.iter_mut().zip(&mut self.tail) {
            let Some(rest) = wire.split_first().and_then(|(len, rest)| {
                Some(*len).filter(|len| *len > 0).and_then(|len| rest.get(usize::from(len)..))
            }) else {
                break;
            };
            *slot = (end - wire.len()) as u16;
            index += 1;
            *tail = index;
            (wire, last) = (rest, Some(tail));
        }
        match last {
            Some(tail) if wire.len() == 1 && end <= POINTER_MAX => {
                *tail = ROOT;
                self.filled.len = index;
            }
            // It has more labels than there is room for.
            _ => self.remember_starts(starts_of(name).map(|start| at + start), ROOT),
        }
        let Filled { len, long, .. } = self.filled;
        self.first = if long == ROOT { len } else { 0 };
    }

    /// Where `name` stands as the end of the first name, which is then where [`Suffixes::find`] begins.
    pub(crate) fn expect(&mut self, message: &[u8], name: NameRef<'_>) -> Option<u16> {
        let wire = name.as_wire();
        let of_first = self.at.iter().zip(0_u8..self.first);
        // The shortest are the last.
        for (at, index) in of_first.rev().filter(|_| !name.is_root()) {
            let end = message.get(usize::from(*at)..)?;
            if end.starts_with(wire) {
                let (at, len) = (*at, wire.len() as u8);
                self.expected = Some(Expected { at, len, index });
                return Some(at);
            }
        }
        None
    }

    /// Remembers the suffixes of a name that is written at `at` which are not `known`.
    pub(crate) fn remember(&mut self, at: usize, starts: &Starts, known: Known) {
        let new = starts.as_slice().iter().take(known.new);
        self.remember_starts(new.map(|start| at + usize::from(*start)), known.suffix);
    }

    /// Remembers where the labels in front of suffix `behind` start, as far as there is room and a
    /// pointer can lead there.
    fn remember_starts(&mut self, starts: impl Iterator<Item = usize>, behind: u8) {
        let mut room = self.at.iter_mut().zip(&mut self.tail).skip(usize::from(self.filled.len));
        let mut last = None;
        let mut left = 0;
        for start in starts {
            let Some((slot, tail)) = room.next().filter(|_| start <= POINTER_MAX) else {
                left += 1;
                continue;
            };
            self.filled.len += 1;
            *slot = start as u16;
            *tail = self.filled.len;
            last = Some(tail);
        }
        if let Some(tail) = last {
            *tail = behind;
            if left > 0 {
                (self.filled.long, self.filled.long_labels) = (self.filled.len - 1, 1 + left);
            }
        }
    }

    fn start(&self, index: u8) -> usize {
        self.at.get(usize::from(index)).map_or(0, |at| usize::from(*at))
    }

    /// How many labels stand in front of the tail.
    fn labels(&self, index: u8) -> usize {
        if index == self.filled.long { usize::from(self.filled.long_labels) } else { 1 }
    }
}

fn starts_of(name: NameRef<'_>) -> impl Iterator<Item = usize> {
    name.labels().scan(0, |at, label| {
        let start = *at;
        *at += 1 + label.len();
        Some(start)
    })
}
