//! Values by zone: the longest zone around a name, in time that does not grow with their number.

use foldhash::fast::RandomState;
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Name, NameRef, Type};
use std::collections::HashMap;

/// A value for each of some zones.
#[derive(Clone, Debug)]
pub(crate) struct ZoneSet<T> {
    /// By the name in lower case, in wire form.
    by_name: HashMap<Box<[u8]>, T, RandomState>,
    /// How many labels the zones have, the root label not counted, by bit.
    depths: u128,
}

impl<T> Default for ZoneSet<T> {
    fn default() -> Self {
        Self { by_name: HashMap::default(), depths: 0 }
    }
}

impl<T> ZoneSet<T> {
    /// Adds a zone, in the place of the one of this name if there is one.
    pub(crate) fn insert(&mut self, zone: &Name, value: T) {
        self.depths |= depth(zone.view().label_count());
        self.by_name.insert(zone.as_wire().to_ascii_lowercase().into(), value);
    }

    /// The value of the longest zone that `name` lies in.
    pub(crate) fn find(&self, name: NameRef<'_>) -> Option<&T> {
        let wire = name.as_wire();
        if self.by_name.len() == 1 {
            let (zone, value) = self.by_name.iter().next()?;
            return ends_with(wire, zone).then_some(value);
        }
        let mut buffer = [0; NAME_LEN_MAX];
        let (mut rest, mut labels) = (name.fold(&mut buffer), name.label_count());
        while let Some((len, tail)) = rest.split_first() {
            if self.depths & depth(labels) != 0
                && let Some(value) = self.by_name.get(rest)
            {
                return Some(value);
            }
            rest = tail.get(usize::from(*len)..)?;
            labels = labels.saturating_sub(1);
        }
        None
    }

    /// As [`ZoneSet::find`]; but the DS records of a zone belong to the one that it is cut out of (RFC 4035
    /// section 3.1.4.1), if that is here, too.
    pub(crate) fn find_for(
        &self,
        name: NameRef<'_>,
        qtype: Type,
        is_called: impl Fn(&T, NameRef<'_>) -> bool,
    ) -> Option<&T> {
        let found = self.find(name)?;
        let parent = || self.find(name.parent()?);
        match qtype == Type::DS && is_called(found, name) {
            true => parent().or(Some(found)),
            false => Some(found),
        }
    }

    /// The value of the zone that is called `name`.
    pub(crate) fn get(&self, name: NameRef<'_>) -> Option<&T> {
        self.by_name.get(&*name.as_wire().to_ascii_lowercase())
    }

    /// All values, in no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.by_name.values()
    }
}

/// Whether a name is another one, which is in lower case, or lies below it.
fn ends_with(mut wire: &[u8], zone: &[u8]) -> bool {
    while wire.len() > zone.len() {
        let Some((len, rest)) = wire.split_first() else { return false };
        wire = rest.get(usize::from(*len)..).unwrap_or_default();
    }
    wire == zone || wire.eq_ignore_ascii_case(zone)
}

fn depth(labels: usize) -> u128 {
    u32::try_from(labels).ok().and_then(|labels| 1_u128.checked_shl(labels)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_zone_is_found_and_the_last_of_a_name_counts() {
        let mut set = ZoneSet::default();
        let name = |text: &str| Name::parse(text).unwrap();
        for (at, zone) in ["org.", "a.Example.org.", "b.org.", "B.ORG."].iter().enumerate() {
            set.insert(&name(zone), at);
        }
        let find = |text: &str| set.find(name(text).view()).copied();
        assert_eq!(find("x.A.EXAMPLE.org."), Some(1));
        assert_eq!(find("example.org."), Some(0));
        assert_eq!(find("b.org."), Some(3));
        assert_eq!(find("."), None);
        assert_eq!(set.get(name("A.example.ORG").view()), Some(&1));
        assert_eq!((set.get(name("x.org").view()), set.values().count()), (None, 3));
        let apex = name("b.org.");
        let ds = |qtype| set.find_for(apex.view(), qtype, |_, name| name == apex.view()).copied();
        assert_eq!((ds(Type::DS), ds(Type::A)), (Some(0), Some(3)));
        set.insert(&Name::root(), 9);
        assert_eq!(set.find(name(&"a.".repeat(127)).view()), Some(&9));
    }
}
