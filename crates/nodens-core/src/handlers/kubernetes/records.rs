//! Records in the response.

use super::compose::{Octets, zone_of};
use super::find::{Found, Naming, Scratch};
use crate::job::Resolution;
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Builder, Class, NameRef, Rcode, Section, Type};
use std::net::IpAddr;

/// The longest RDATA written here: that of SOA with two names.
const RDATA_LEN_MAX: usize = 2 * NAME_LEN_MAX + 20;
/// The highest TTL of an SOA record, which is that of negative answers.
const SOA_TTL_MAX: u32 = 300;

/// What the SOA record of a zone says, beside what follows from the zone's name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Soa<'a> {
    pub(crate) serial: u32,
    /// TTL of negative answers, in seconds.
    pub(crate) ttl: u32,
    /// TTL of the record itself.
    pub(crate) own_ttl: u32,
    /// Labels in front of the zone, in wire form: the primary server.
    pub(crate) mname: &'a [u8],
    /// The same for the mailbox.
    pub(crate) rname: &'a [u8],
}

impl<'a> Soa<'a> {
    /// That of a zone of `kubernetes`.
    pub(crate) fn of_cluster(serial: u32, ttl: u32) -> Soa<'static> {
        Soa { serial, ttl, own_ttl: ttl.min(SOA_TTL_MAX), mname: b"\x02ns\x03dns", rname: b"\x0ahostmaster" }
    }

    /// RDATA for the zone `zone` (RFC 1035 section 3.3.13).
    pub(crate) fn rdata(&self, zone: NameRef<'_>) -> Octets<RDATA_LEN_MAX> {
        let mut rdata = Octets::new();
        for labels in [self.mname, self.rname] {
            rdata.push(labels);
            rdata.push(zone.as_wire());
        }
        for number in [self.serial, 7200, 1800, 86_400, self.ttl] {
            rdata.push(&number.to_be_bytes());
        }
        rdata
    }

    pub(crate) fn write(
        &self,
        builder: &mut Builder<'_>,
        section: Section,
        zone: NameRef<'_>,
    ) {
        // A zone whose name leaves no room for another label has no SOA record.
        _ = builder.record(section, zone, (Type::SOA, Class::IN, self.own_ttl), self.rdata(zone).as_slice());
    }
}

/// A response without an answer: NXDOMAIN, or NODATA (RFC 2308).
pub(crate) fn deny(q: &mut Resolution, rcode: Rcode, zone_len: usize, soa: &Soa<'_>) {
    q.response.live = true;
    q.reply_with(rcode, true, |builder, qname| {
        let zone = zone_of(qname, zone_len);
        soa.write(builder, Section::Authority, zone);
    });
}

/// The answer to a question for the SOA record of the zone.
pub(crate) fn authority(q: &mut Resolution, soa: &Soa<'_>) {
    q.response.live = true;
    q.reply_with(Rcode::NOERROR, true, |builder, zone| {
        soa.write(builder, Section::Answer, zone);
    });
}

/// Writes an A or AAAA record.
pub(crate) fn address(
    builder: &mut Builder<'_>,
    section: Section,
    owner: NameRef<'_>,
    ttl: u32,
    address: IpAddr,
) {
    // What does not fit into a message is left out; over UDP it is cut long before.
    _ = match address {
        IpAddr::V4(v4) => builder.record(section, owner, (Type::A, Class::IN, ttl), &v4.octets()),
        IpAddr::V6(v6) => builder.record(section, owner, (Type::AAAA, Class::IN, ttl), &v6.octets()),
    };
}

/// Writes the addresses found under `owner`.
pub(crate) fn addresses(
    builder: &mut Builder<'_>,
    owner: NameRef<'_>,
    ttl: u32,
    found: &[Found],
) {
    for one in found {
        address(builder, Section::Answer, owner, ttl, one.address);
    }
}

/// Writes SRV records for what was found, and the addresses of their targets.
///
/// All have priority 0; the weight is 100 in all, the same for each. Endpoints with one name are
/// one record per port.
pub(crate) fn services(
    builder: &mut Builder<'_>,
    owner: NameRef<'_>,
    (ttl, address_ttl): (u32, u32),
    scratch: &mut Scratch,
    naming: &Naming<'_>,
) {
    let Scratch { found, distinct } = scratch;
    let weight = weight(found.len()).to_be_bytes();
    let (mut name, mut rdata) = (Octets::new(), Octets::<{ 6 + NAME_LEN_MAX }>::new());
    let is_called = |one: &Found, name: &[u8]| {
        let mut other = Octets::new();
        naming.write(one, &mut other);
        other.as_slice() == name
    };
    distinct.begin(found.len());
    for (index, one) in found.iter().enumerate() {
        let Some(port) = one.port else { continue };
        naming.write(one, &mut name);
        let target = name.as_slice();
        let same = |k: usize| {
            found.get(k).is_some_and(|other| other.port == one.port && is_called(other, target))
        };
        if target.is_empty() || !distinct.is_new(index, (target, port), same) {
            continue;
        }
        rdata.clear();
        rdata.push(&[0, 0]);
        rdata.push(&weight);
        rdata.push(&port.to_be_bytes());
        rdata.push(target);
        let fields = (Type::SRV, Class::IN, ttl);
        _ = builder.record(Section::Answer, owner, fields, rdata.as_slice());
    }
    distinct.begin(found.len());
    for (index, one) in found.iter().enumerate().filter(|(_, one)| one.port.is_some()) {
        naming.write(one, &mut name);
        let target = name.as_slice();
        let same = |k: usize| {
            found.get(k).is_some_and(|o| o.address == one.address && is_called(o, target))
        };
        if distinct.is_new(index, (target, one.address), same)
            && let Some(target) = name.name()
        {
            address(builder, Section::Additional, target, address_ttl, one.address);
        }
    }
}

/// The part of 100 that each of `count` records has, at least 1.
///
/// CoreDNS divides 100 by 100 times the count and multiplies by 100, in floating point; that
/// decides which way a whole number is rounded.
pub(crate) fn weight(count: usize) -> u16 {
    let weight = (100.0 / (100.0 * count.max(1) as f64) * 100.0).floor();
    (weight as u16).max(1)
}

#[cfg(test)]
mod tests {
    use super::weight;

    #[test]
    fn weights_are_parts_of_a_hundred() {
        let of = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 100, 101, 5000].map(weight);
        assert_eq!(of, [100, 50, 33, 25, 20, 16, 14, 12, 11, 10, 1, 1, 1]);
    }
}
