//! Records in the response.

use super::compose::Octets;
use super::find::{Found, Naming, Scratch};
use crate::job::{Resolution, States};
use nodens_wire::builder::pointer_to;
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Builder, Class, HEADER_LEN, NameRef, Rcode, Section, Type, WireError};
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
        Soa {
            serial,
            ttl,
            own_ttl: ttl.min(SOA_TTL_MAX),
            mname: b"\x02ns\x03dns",
            rname: b"\x0ahostmaster",
        }
    }

    /// RDATA in which names end with `zone` (RFC 1035 section 3.3.13).
    pub(crate) fn rdata(&self, zone: &[u8]) -> Octets<RDATA_LEN_MAX> {
        let mut rdata = Octets::new();
        for labels in [self.mname, self.rname] {
            rdata.push(labels);
            rdata.push(zone);
        }
        for number in [self.serial, 7200, 1800, 86_400, self.ttl] {
            rdata.push(&number.to_be_bytes());
        }
        rdata
    }

    /// Writes the record for the zone that is the last `zone_len` octets of QNAME.
    fn write(
        &self,
        builder: &mut Builder<'_>,
        section: Section,
        qname: NameRef<'_>,
        zone_len: usize,
    ) {
        let zone_at = HEADER_LEN + qname.as_wire().len().saturating_sub(zone_len);
        let fields = (Type::SOA, Class::IN, self.own_ttl);
        let longest = zone_len + self.mname.len().max(self.rname.len());
        // A zone whose name leaves no room for another label has no SOA record.
        if longest <= NAME_LEN_MAX {
            let rdata = self.rdata(&pointer_to(zone_at));
            _ = builder.record_at(section, zone_at, fields, rdata.as_slice());
        }
    }
}

/// A response without an answer: NXDOMAIN, or NODATA (RFC 2308).
pub(crate) fn deny<S: States>(q: &mut Resolution<S>, rcode: Rcode, zone_len: usize, soa: &Soa<'_>) {
    q.response.live = true;
    q.reply_with(rcode, true, |builder, qname| {
        soa.write(builder, Section::Authority, qname, zone_len);
    });
}

/// The answer to a question for the SOA record of the zone.
pub(crate) fn authority<S: States>(q: &mut Resolution<S>, soa: &Soa<'_>) {
    q.response.live = true;
    q.reply_with(Rcode::NOERROR, true, |builder, zone| {
        soa.write(builder, Section::Answer, zone, zone.as_wire().len());
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
    _ = fit_address(builder, section, owner, ttl, address);
}

/// The same, with an error where the message is full.
fn fit_address(
    builder: &mut Builder<'_>,
    section: Section,
    owner: NameRef<'_>,
    ttl: u32,
    address: IpAddr,
) -> Result<(), WireError> {
    match address {
        IpAddr::V4(v4) => builder.record(section, owner, (Type::A, Class::IN, ttl), &v4.octets()),
        IpAddr::V6(v6) => {
            builder.record(section, owner, (Type::AAAA, Class::IN, ttl), &v6.octets())
        }
    }
}

/// Writes the addresses found under QNAME.
pub(crate) fn addresses(builder: &mut Builder<'_>, ttl: u32, found: &[Found]) {
    for one in found {
        _ = match one.address {
            IpAddr::V4(v4) => {
                let fields = (Type::A, Class::IN, ttl);
                builder.record_at(Section::Answer, HEADER_LEN, fields, &v4.octets())
            }
            IpAddr::V6(v6) => {
                let fields = (Type::AAAA, Class::IN, ttl);
                builder.record_at(Section::Answer, HEADER_LEN, fields, &v6.octets())
            }
        };
    }
}

/// Writes SRV records for what was found, and the addresses of their targets.
///
/// All have priority 0; the weight is 100 in all, the same for each. Endpoints with one name are
/// one record per port. What comes behind the end of a full message is not looked at.
pub(crate) fn services(
    builder: &mut Builder<'_>,
    owner: NameRef<'_>,
    ttl: u32,
    address_ttl: u32,
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
        if builder.record(Section::Answer, owner, fields, rdata.as_slice()).is_err() {
            // Thousands of endpoints with several ports would cost many times as much as fits.
            return;
        }
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
            && fit_address(builder, Section::Additional, target, address_ttl, one.address).is_err()
        {
            return;
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
