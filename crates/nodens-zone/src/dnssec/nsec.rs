//! NSEC records (RFC 4034 section 4), and the names that come behind others.

use crate::presentation::rdata::push_types;
use nodens_wire::name::{LABEL_LEN_MAX, NAME_LEN_MAX};
use nodens_wire::{Name, NameRef, Type};
use std::collections::BTreeSet;

/// The RDATA of an NSEC record: the next name and the types of this one.
pub fn nsec_rdata(next: NameRef<'_>, types: impl IntoIterator<Item = Type>) -> Vec<u8> {
    let types: BTreeSet<u16> = types.into_iter().map(|rtype| rtype.0).collect();
    let mut rdata = next.as_wire().to_vec();
    push_types(&mut rdata, &types);
    rdata
}

/// The name that comes next behind `name` in canonical order, in lower case; with `covers_below` the one
/// that comes next behind all names below `name` (RFC 4471). No other name lies between.
///
/// Nothing where no such name is short enough.
pub fn successor(name: NameRef<'_>, covers_below: bool) -> Option<Name> {
    let mut wire = Vec::with_capacity(NAME_LEN_MAX);
    name.fold_into(&mut wire);
    let first = usize::from(*wire.first()?);
    let longer = if !covers_below && wire.len() + 2 <= NAME_LEN_MAX {
        [&[1, 0], wire.as_slice()].concat()
    } else if (1..LABEL_LEN_MAX).contains(&first) && wire.len() < NAME_LEN_MAX {
        let (label, rest) = wire.get(1..)?.split_at_checked(first)?;
        [&[first as u8 + 1], label, &[0], rest].concat()
    } else {
        incremented(&wire)?
    };
    Name::from_wire(&longer).ok()
}

/// The name whose first label has no room for more octets, with the label that comes next.
fn incremented(wire: &[u8]) -> Option<Vec<u8>> {
    let (len, rest) = wire.split_first()?;
    let (label, rest) = rest.split_at_checked(usize::from(*len))?;
    let kept = label.iter().rposition(|octet| *octet != u8::MAX)?;
    let (last, front) = label.get(..=kept)?.split_last()?;
    // Capital letters have the order of small ones.
    let next = if *last == b'@' { b'[' } else { last + 1 };
    Some([&[kept as u8 + 1], front, &[next], rest].concat())
}
