//! The zones of the scenarios, made from numbers: a catalog (RFC 9432) with many members of ten records,
//! and one zone of many records. Nothing is kept of them but serial numbers and what has changed.

use anyhow::Result;
use nodens_wire::{Name, NameRef, Type};
use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// The zone that lists the others.
pub(super) const CATALOG: &str = "catalog.bench.";
/// Members are `m0000000.member.bench.` and so on.
const MEMBERS: &str = "member.bench.";
/// The zone of many records.
pub(super) const LARGE: &str = "large.bench.";
/// Records of a member, with its SOA record.
pub(super) const RECORDS_OF_MEMBER: usize = 10;
/// Digits of the number in a name.
const DIGITS: usize = 7;
const TTL: u32 = 3600;

/// A record: what owns it, its type, its TTL and its RDATA, names in it uncompressed.
pub(super) struct Record {
    pub(super) owner: Name,
    pub(super) rtype: Type,
    pub(super) ttl: u32,
    pub(super) rdata: Vec<u8>,
}

/// The records of a message or of more, as they are made.
pub(super) type Stream = Box<dyn Iterator<Item = Record> + Send>;

/// The zone of a member with this number.
pub(super) fn member(number: u32) -> Result<Name> {
    Ok(Name::parse(&format!("m{number:0DIGITS$}.{MEMBERS}"))?)
}

/// The name in it that is asked for, which has one address.
pub(super) fn www(number: u32) -> Result<Name> {
    Ok(Name::parse(&format!("www.m{number:0DIGITS$}.{MEMBERS}"))?)
}

/// A name of the zone of many records, which has one address.
pub(super) fn name_of_large(number: u32) -> Result<Name> {
    Ok(Name::parse(&format!("n{number:0DIGITS$}.{LARGE}"))?)
}

/// What one change of the catalog did.
struct Step {
    from: u32,
    added: Vec<u32>,
    removed: Vec<u32>,
}

/// All that a primary has, as numbers.
pub(super) struct Zones {
    serial: u32,
    members: BTreeSet<u32>,
    steps: Vec<Step>,
    /// Serials of members that have changed; of others it is 1.
    serials: HashMap<u32, u32>,
    /// Records of the large zone besides its SOA and NS record; none if there is no such zone.
    large: u32,
    large_serial: u32,
    /// Addresses that change with each serial of the large zone.
    changes: u32,
    /// Whether differences of it are not told.
    whole_only: bool,
}

/// A zone of [`Zones`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Which {
    Catalog,
    Member(u32),
    Large,
}

impl Zones {
    /// A catalog of so many members, and a zone of so many addresses of which `changes` are others with
    /// each serial.
    pub(super) fn new(members: u32, large: u32, changes: u32) -> Self {
        Self {
            serial: 1,
            members: (0..members).collect(),
            steps: Vec::new(),
            serials: HashMap::new(),
            large,
            large_serial: 1,
            changes,
            whole_only: false,
        }
    }

    /// The same without differences of the large zone: it is always transferred as a whole.
    pub(super) fn whole_only(self) -> Self {
        Self { whole_only: true, ..self }
    }

    /// Adds and removes members in one change of the catalog.
    pub(super) fn change_catalog(&mut self, added: Vec<u32>, removed: Vec<u32>) {
        self.members.extend(&added);
        for number in &removed {
            self.members.remove(number);
        }
        self.steps.push(Step { from: self.serial, added, removed });
        self.serial += 1;
    }

    /// Gives a member another version, and says which.
    pub(super) fn change_member(&mut self, number: u32) -> u32 {
        let serial = self.serials.entry(number).or_insert(1);
        *serial += 1;
        *serial
    }

    /// Gives the large zone another version, and says which.
    pub(super) fn change_large(&mut self) -> u32 {
        self.large_serial += 1;
        self.large_serial
    }

    /// The zone of this name.
    pub(super) fn find(&self, name: NameRef<'_>) -> Option<Which> {
        let text = name.to_name().to_folded().to_string();
        match text.as_str() {
            CATALOG => Some(Which::Catalog),
            LARGE if self.large > 0 => Some(Which::Large),
            _ => {
                let number = text.strip_suffix(MEMBERS)?.strip_suffix('.')?.strip_prefix('m')?;
                let number = number.parse().ok().filter(|_| number.len() == DIGITS)?;
                self.members.contains(&number).then_some(Which::Member(number))
            }
        }
    }

    pub(super) fn serial(&self, which: Which) -> u32 {
        match which {
            Which::Catalog => self.serial,
            Which::Member(number) => self.serials.get(&number).copied().unwrap_or(1),
            Which::Large => self.large_serial,
        }
    }

    /// The answer to a query for a transfer of everything (RFC 5936).
    pub(super) fn whole(&self, which: Which) -> Result<Stream> {
        let zone = name_of(which)?;
        let soa = || soa(&zone, self.serial(which));
        let (first, last) = (soa()?, soa()?);
        let body: Stream = match which {
            Which::Catalog => {
                let members: Arc<[u32]> = self.members.iter().copied().collect();
                let head = vec![ns(&zone, "invalid.")?, version()?];
                let ptrs = (0..members.len()).filter_map(move |at| listed(*members.get(at)?).ok());
                Box::new(head.into_iter().chain(ptrs))
            }
            Which::Member(number) => {
                Box::new(records_of_member(number, self.serial(which))?.into_iter())
            }
            Which::Large => {
                let (serial, changes) = (self.large_serial, self.changes);
                let names = (0..self.large)
                    .filter_map(move |n| address_of_large(n, version_of(n, serial, changes)).ok());
                Box::new([ns(&zone, "ns.bench.")?].into_iter().chain(names))
            }
        };
        Ok(Box::new([first].into_iter().chain(body).chain([last])))
    }

    /// The answer to a query for what has changed since this serial (RFC 1995); everything where that is
    /// not known.
    pub(super) fn since(&self, which: Which, from: u32) -> Result<Stream> {
        let (zone, to) = (name_of(which)?, self.serial(which));
        let is_whole = which == Which::Large && self.whole_only;
        if from == 0 || from >= to || is_whole {
            let only: Stream = Box::new([soa(&zone, to)?].into_iter());
            return if from >= to { Ok(only) } else { self.whole(which) };
        }
        let mut all = vec![soa(&zone, to)?];
        match which {
            Which::Catalog => {
                for step in self.steps.iter().filter(|step| step.from >= from) {
                    all.push(soa(&zone, step.from)?);
                    all.extend(
                        step.removed.iter().map(|n| listed(*n)).collect::<Result<Vec<_>>>()?,
                    );
                    all.push(soa(&zone, step.from + 1)?);
                    all.extend(step.added.iter().map(|n| listed(*n)).collect::<Result<Vec<_>>>()?);
                }
            }
            Which::Member(number) => {
                all.extend([soa(&zone, from)?, address_of_member(number, from)?]);
                all.extend([soa(&zone, to)?, address_of_member(number, to)?]);
            }
            Which::Large => {
                for serial in from..to {
                    let changed = 0..self.changes.min(self.large);
                    all.push(soa(&zone, serial)?);
                    for n in changed.clone() {
                        all.push(address_of_large(n, version_of(n, serial, self.changes))?);
                    }
                    all.push(soa(&zone, serial + 1)?);
                    for n in changed {
                        all.push(address_of_large(n, version_of(n, serial + 1, self.changes))?);
                    }
                }
            }
        }
        all.push(soa(&zone, to)?);
        Ok(Box::new(all.into_iter()))
    }

    /// The SOA record of a zone.
    pub(super) fn soa(&self, which: Which) -> Result<Record> {
        soa(&name_of(which)?, self.serial(which))
    }
}

/// The number that the address of a name of the large zone is made of.
fn version_of(number: u32, serial: u32, changes: u32) -> u32 {
    if number < changes { serial } else { 1 }
}

pub(super) fn name_of(which: Which) -> Result<Name> {
    match which {
        Which::Catalog => Ok(Name::parse(CATALOG)?),
        Which::Member(number) => member(number),
        Which::Large => Ok(Name::parse(LARGE)?),
    }
}

fn record(owner: Name, rtype: Type, rdata: Vec<u8>) -> Record {
    Record { owner, rtype, ttl: TTL, rdata }
}

fn soa(zone: &Name, serial: u32) -> Result<Record> {
    let mut rdata = Name::parse("ns.bench.")?.as_wire().to_vec();
    rdata.extend(Name::parse("hostmaster.bench.")?.as_wire());
    for number in [serial, 86_400, 7_200, 2_419_200, 300] {
        rdata.extend(number.to_be_bytes());
    }
    Ok(record(zone.clone(), Type::SOA, rdata))
}

fn ns(zone: &Name, server: &str) -> Result<Record> {
    Ok(record(zone.clone(), Type::NS, Name::parse(server)?.as_wire().to_vec()))
}

/// The version of the catalog's schema (RFC 9432 section 4.1).
fn version() -> Result<Record> {
    Ok(record(Name::parse(&format!("version.{CATALOG}"))?, Type::TXT, b"\x012".to_vec()))
}

/// The record by which the catalog lists a member.
fn listed(number: u32) -> Result<Record> {
    let owner = Name::parse(&format!("m{number:0DIGITS$}.zones.{CATALOG}"))?;
    Ok(record(owner, Type::PTR, member(number)?.as_wire().to_vec()))
}

fn below(label: &str, zone: &Name) -> Result<Name> {
    Ok(Name::parse(&format!("{label}."))?.join(zone.view())?)
}

/// The one record of a member that changes.
fn address_of_member(number: u32, serial: u32) -> Result<Record> {
    let zone = member(number)?;
    Ok(record(below("www", &zone)?, Type::A, address(serial)))
}

fn address(version: u32) -> Vec<u8> {
    let [_, _, high, low] = version.to_be_bytes();
    Ipv4Addr::new(192, 0, high, low).octets().to_vec()
}

fn address_of_large(number: u32, version: u32) -> Result<Record> {
    Ok(record(name_of_large(number)?, Type::A, address(version)))
}

/// The records of a member but its SOA record.
fn records_of_member(number: u32, serial: u32) -> Result<Vec<Record>> {
    let zone = member(number)?;
    let mut mx = vec![0, 10];
    mx.extend(below("mail", &zone)?.as_wire());
    let text = format!("v=spf1 mx -all {number}").into_bytes();
    let txt = [vec![text.len() as u8], text].concat();
    let ipv6 = "2001:db8::1".parse::<std::net::Ipv6Addr>()?.octets().to_vec();
    let mut all = vec![
        record(zone.clone(), Type::NS, below("ns", &zone)?.as_wire().to_vec()),
        record(zone.clone(), Type::MX, mx),
        record(zone.clone(), Type::TXT, txt),
        record(below("ns", &zone)?, Type::A, address(1)),
        record(below("mail", &zone)?, Type::A, address(2)),
        record(below("www", &zone)?, Type::AAAA, ipv6),
        record(below("ftp", &zone)?, Type::CNAME, below("www", &zone)?.as_wire().to_vec()),
        record(below("api", &zone)?, Type::A, address(3)),
    ];
    all.push(address_of_member(number, serial)?);
    Ok(all)
}

/// The large zone as a master file.
pub(super) fn master_file(records: u32, serial: u32, out: &mut impl std::io::Write) -> Result<()> {
    writeln!(out, "$ORIGIN {LARGE}\n$TTL {TTL}")?;
    writeln!(out, "@ SOA ns.bench. hostmaster.bench. {serial} 86400 7200 2419200 300")?;
    writeln!(out, "@ NS ns.bench.")?;
    for n in 0..records {
        writeln!(out, "n{n:0DIGITS$} A 192.0.{}.{}", n >> 8 & 255, n & 255)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(stream: Stream) -> Vec<Type> {
        stream.map(|record| record.rtype).collect()
    }

    #[test]
    fn a_member_has_ten_records_and_is_found_by_its_name_only_while_it_is_listed() {
        let mut zones = Zones::new(3, 0, 0);
        let name = member(2).unwrap();
        assert_eq!(zones.find(name.view()), Some(Which::Member(2)));
        assert_eq!(zones.find(Name::parse(CATALOG).unwrap().view()), Some(Which::Catalog));
        assert_eq!(zones.find(Name::parse(LARGE).unwrap().view()), None);
        // The SOA record is first and last.
        let whole = types(zones.whole(Which::Member(2)).unwrap());
        assert_eq!(whole.len(), RECORDS_OF_MEMBER + 1);
        assert_eq!((whole[0], whole[RECORDS_OF_MEMBER]), (Type::SOA, Type::SOA));
        zones.change_catalog(vec![7], vec![2]);
        assert_eq!(zones.find(name.view()), None);
        assert_eq!(zones.find(member(7).unwrap().view()), Some(Which::Member(7)));
    }

    #[test]
    fn differences_are_those_of_each_change_in_turn() {
        let mut zones = Zones::new(3, 0, 0);
        zones.change_catalog(vec![7, 8], vec![0]);
        zones.change_catalog(vec![9], vec![7]);
        let (soa, ptr) = (Type::SOA, Type::PTR);
        let one = [soa, soa, ptr, soa, ptr, soa];
        assert_eq!(types(zones.since(Which::Catalog, 2).unwrap()), one);
        let both = [soa, soa, ptr, soa, ptr, ptr, soa, ptr, soa, ptr, soa];
        assert_eq!(types(zones.since(Which::Catalog, 1).unwrap()), both);
        assert_eq!(types(zones.since(Which::Catalog, 3).unwrap()), [soa]);
        // SOA twice, NS, the version, and the members 1, 2, 8 and 9.
        assert_eq!(zones.since(Which::Catalog, 0).unwrap().count(), 8);
        assert_eq!(zones.change_member(1), 2);
        let changed = [soa, soa, Type::A, soa, Type::A, soa];
        assert_eq!(types(zones.since(Which::Member(1), 1).unwrap()), changed);
    }

    #[test]
    fn what_is_taken_from_the_large_zone_is_what_it_had() {
        let mut zones = Zones::new(0, 100, 10);
        let addresses = |stream: Stream| -> Vec<(Name, Vec<u8>)> {
            let only = stream.filter(|record| record.rtype == Type::A);
            only.map(|record| (record.owner, record.rdata)).collect()
        };
        let before = addresses(zones.whole(Which::Large).unwrap());
        zones.change_large();
        let steps = addresses(zones.since(Which::Large, 1).unwrap());
        let after = addresses(zones.whole(Which::Large).unwrap());
        let (taken, given) = steps.split_at(10);
        assert_eq!((before.len(), steps.len()), (100, 20));
        assert_eq!([taken, &before[10..]].concat(), before);
        assert_eq!([given, &before[10..]].concat(), after);
        assert_ne!(before, after);
    }

    #[test]
    fn a_master_file_has_so_many_addresses() {
        let mut out = Vec::new();
        master_file(300, 7, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 304);
        assert!(text.contains("\nn0000299 A 192.0.1.43\n") && text.contains(" 7 86400 "));
    }
}
