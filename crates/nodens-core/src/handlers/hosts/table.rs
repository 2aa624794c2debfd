//! Entries of one source, made for lookups: by name, and by address.

use crate::limits::HOSTS_FIELD_LEN_MAX;
use crate::zones::Zones;
use foldhash::fast::RandomState;
use nodens_wire::Name;
use nodens_wire::name::NAME_LEN_MAX;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;


/// Entries, immutable. Addresses of a host stand side by side, in the order of the source.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Folded name → its addresses. Wildcards stand under their own name, `*.example.org.`.
    hosts: HashMap<Box<[u8]>, Host, RandomState>,
    v4: Vec<[u8; 4]>,
    v6: Vec<[u8; 16]>,
    /// Addresses in order, each with its name's place in `names`; IPv4 as mapped into IPv6.
    reverse: Vec<(u128, Range<u32>)>,
    /// Names for PTR records, back to back.
    names: Vec<u8>,
    entries: usize,
}

/// Ranges of `Table::v4` and `Table::v6`.
#[derive(Debug, Default)]
struct Host {
    v4: Range<u32>,
    v6: Range<u32>,
}

impl Table {
    /// Reads lines of `ADDRESS NAME…`; `#` starts a comment.
    ///
    /// What is no address spoils its line, what is no name only itself: such a file has always
    /// been read that way.
    pub(super) fn parse(text: &[u8], zones: &Zones, auto_reverse: bool) -> Self {
        let mut draft = Draft::default();
        for line in text.split(|octet| *octet == b'\n') {
            let line = line.split(|octet| *octet == b'#').next().unwrap_or_default();
            let mut fields = line.split(|octet| is_space(*octet)).filter(|field| !field.is_empty());
            let Some(address) = fields.next().and_then(address) else { continue };
            for name in fields.filter_map(name).filter(|name| zones.contains(name.view())) {
                draft.add(address, &name, auto_reverse);
            }
        }
        draft.finish()
    }

    /// The IPv4 addresses of a folded name: its own, else those of the wildcard beside it.
    pub(super) fn v4(&self, folded: &[u8]) -> &[[u8; 4]] {
        self.find(folded, |host| slice(&self.v4, &host.v4))
    }

    /// The IPv6 addresses of a folded name, as [`Table::v4`].
    pub(super) fn v6(&self, folded: &[u8]) -> &[[u8; 16]] {
        self.find(folded, |host| slice(&self.v6, &host.v6))
    }

    fn find<'t, T>(&'t self, folded: &[u8], of: impl Fn(&'t Host) -> &'t [T]) -> &'t [T] {
        let found = self.hosts.get(folded).map(&of).unwrap_or_default();
        if !found.is_empty() || self.hosts.is_empty() {
            return found;
        }
        let mut buffer = [0; NAME_LEN_MAX];
        let wildcard = wildcard_beside(folded, &mut buffer);
        wildcard.and_then(|name| self.hosts.get(name)).map(of).unwrap_or_default()
    }

    /// The names of an address in wire form, in the order of the source.
    pub(super) fn names(&self, address: IpAddr) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        let bits = mapped(address);
        let first = self.reverse.partition_point(|(other, _)| *other < bits);
        let rest = self.reverse.get(first..).unwrap_or_default();
        let count = rest.partition_point(|(other, _)| *other == bits);
        let found = rest.get(..count).unwrap_or_default();
        found.iter().map(|(_, name)| slice(&self.names, name))
    }

    /// How many addresses of names and names of addresses there are, repetitions counted.
    pub(super) fn entries(&self) -> usize {
        self.entries
    }
}

/// A table in the making.
#[derive(Default)]
struct Draft {
    hosts: HashMap<Box<[u8]>, u32, RandomState>,
    v4: Vec<(u32, [u8; 4])>,
    v6: Vec<(u32, [u8; 16])>,
    /// Pairs known already: an RRset holds a record once (RFC 2181 section 5).
    seen: HashSet<(u32, u128), RandomState>,
    reverse: Vec<(u128, Range<u32>)>,
    names: Vec<u8>,
    entries: usize,
}

impl Draft {
    fn add(&mut self, address: IpAddr, name: &Name, auto_reverse: bool) {
        let next = u32::try_from(self.hosts.len()).unwrap_or(u32::MAX);
        let wire = name.as_wire();
        let host = match self.hosts.get(wire) {
            Some(host) => *host,
            None => *self.hosts.entry(wire.into()).or_insert(next),
        };
        let reverse = auto_reverse && !wire.starts_with(b"\x01*");
        self.entries += 1 + usize::from(reverse);
        let bits = mapped(address);
        if !self.seen.insert((host, bits)) {
            return;
        }
        match address {
            IpAddr::V4(v4) => self.v4.push((host, v4.octets())),
            IpAddr::V6(v6) => self.v6.push((host, v6.octets())),
        }
        if reverse {
            let start = self.names.len();
            self.names.extend_from_slice(wire);
            self.reverse.push((bits, to_u32(start)..to_u32(self.names.len())));
        }
    }

    fn finish(self) -> Table {
        let Self { hosts, v4, v6, mut reverse, names, entries, .. } = self;
        // All sorts are stable: what belongs together stays in the order of the source.
        reverse.sort_by_key(|(bits, _)| *bits);
        let mut ranges: Vec<Host> = Vec::new();
        ranges.resize_with(hosts.len(), Host::default);
        let v4 = group(v4, &mut ranges, |host| &mut host.v4);
        let v6 = group(v6, &mut ranges, |host| &mut host.v6);
        let ranged = hosts.into_iter().map(|(name, index)| {
            let host = ranges.get_mut(index as usize).map(std::mem::take).unwrap_or_default();
            (name, host)
        });
        Table { hosts: ranged.collect(), v4, v6, reverse, names, entries }
    }
}

/// Brings addresses of the same host together and notes where they are.
fn group<T>(
    mut addresses: Vec<(u32, T)>,
    hosts: &mut [Host],
    field: impl Fn(&mut Host) -> &mut Range<u32>,
) -> Vec<T> {
    addresses.sort_by_key(|(host, _)| *host);
    for (place, (host, _)) in addresses.iter().enumerate() {
        let place = to_u32(place);
        if let Some(host) = hosts.get_mut(*host as usize) {
            let range = field(host);
            *range = if range.start == range.end { place..place + 1 } else { range.start..place + 1 };
        }
    }
    addresses.into_iter().map(|(_, address)| address).collect()
}

fn address(field: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(field).ok()?;
    // `fe80::1%eth0`: the zone means nothing to another host.
    let text = text.split('%').next()?;
    text.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

fn name(field: &[u8]) -> Option<Name> {
    let text = std::str::from_utf8(field).ok().filter(|text| text.len() <= HOSTS_FIELD_LEN_MAX)?;
    Name::parse(text).ok().map(|name| name.to_folded())
}

fn is_space(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t' | 0x0b | 0x0c | b'\r')
}

fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => Ipv6Addr::to_bits(v6),
    }
}

/// `name` with `*` in place of its first label; none for the root.
fn wildcard_beside<'b>(name: &[u8], buffer: &'b mut [u8; NAME_LEN_MAX]) -> Option<&'b [u8]> {
    let first = usize::from(*name.first().filter(|len| **len > 0)?);
    let rest = name.get(1 + first..)?;
    let (head, tail) = buffer.split_at_mut(2);
    head.copy_from_slice(b"\x01*");
    tail.get_mut(..rest.len())?.copy_from_slice(rest);
    buffer.get(..2 + rest.len())
}

fn slice<'t, T>(all: &'t [T], range: &Range<u32>) -> &'t [T] {
    all.get(range.start as usize..range.end as usize).unwrap_or_default()
}

/// A file of 4 GiB is beyond what is read here.
fn to_u32(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}
