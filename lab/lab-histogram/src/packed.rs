//! Counts of buckets in as few octets as they need: for each bucket in use, how many behind the one before it
//! lies, and its count, both in groups of seven bits, the lowest first (LEB128).

/// Packs counts of buckets, in rising order.
pub(crate) fn pack(used: impl Iterator<Item = (usize, u64)>) -> Vec<u8> {
    let (mut octets, mut next) = (Vec::new(), 0);
    for (index, count) in used {
        push(&mut octets, (index - next) as u64);
        push(&mut octets, count);
        next = index + 1;
    }
    octets.shrink_to_fit();
    octets
}

/// What was packed.
pub(crate) fn unpack(octets: &[u8]) -> impl Iterator<Item = (usize, u64)> + '_ {
    let (mut rest, mut next) = (octets, 0);
    std::iter::from_fn(move || {
        let (skipped, count) = (take(&mut rest)?, take(&mut rest)?);
        let index = next + skipped as usize;
        next = index + 1;
        Some((index, count))
    })
}

fn push(octets: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        octets.push(number as u8 | 0x80);
        number >>= 7;
    }
    octets.push(number as u8);
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    while let Some((&octet, behind)) = rest.split_first() {
        *rest = behind;
        number |= u64::from(octet & 0x7f) << shift;
        if octet < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
    None
}
