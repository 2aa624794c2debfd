//! Records and zones as text: master files (RFC 1035 section 5).

use crate::zone::{Rrset, Zone};
use domain::base::Name as DomainName;
use domain::base::iana::Rtype;
use domain::base::name::ParsedName;
use domain::base::rdata::{ComposeRecordData, ParseAnyRecordData};
use domain::base::zonefile_fmt::{DisplayKind, ZonefileFmt};
use domain::dep::octseq::Parser;
use domain::rdata::AllRecordData;
use domain::zonefile::inplace::{Entry, Zonefile};
use nodens_wire::{Name, Type};
use std::fmt::Write;

/// Types whose text is read alike by all servers; others are written in the generic form.
const OWN_FORM: &[Type] = &[
    Type::A,
    Type::AAAA,
    Type::CAA,
    Type::CNAME,
    Type::DNAME,
    Type::DNSKEY,
    Type::DS,
    Type::MX,
    Type::NS,
    Type::NSEC,
    Type::NSEC3,
    Type::NSEC3PARAM,
    Type::PTR,
    Type::RRSIG,
    Type::SOA,
    Type::SRV,
    Type::SSHFP,
    Type::TLSA,
    Type::TXT,
];

/// RDATA in one line, in the form of its type, or in the generic one (RFC 3597 section 5) where that does not read back
/// as the same octets.
pub fn rdata(rtype: Type, rdata: &[u8]) -> String {
    own_form(rtype, rdata).unwrap_or_else(|| generic(rdata))
}

fn own_form(rtype: Type, rdata: &[u8]) -> Option<String> {
    if !OWN_FORM.contains(&rtype) {
        return None;
    }
    let mut parser = Parser::from_ref(rdata);
    let number = Rtype::from_int(rtype.0);
    let parsed = AllRecordData::<&[u8], ParsedName<&[u8]>>::parse_any_rdata(number, &mut parser);
    let text = parsed.ok()?.display_zonefile(DisplayKind::Simple).to_string();
    let same = parser.remaining() == 0 && !text.contains('\n');
    (same && read_back(rtype, &text).as_deref() == Some(rdata)).then_some(text)
}

/// The octets that the text means.
fn read_back(rtype: Type, text: &str) -> Option<Vec<u8>> {
    let mut file = Zonefile::new();
    file.set_origin(DomainName::root());
    file.extend_from_slice(format!(". 0 IN {rtype} {text}\n").as_bytes());
    let Ok(Some(Entry::Record(record))) = file.next_entry() else { return None };
    let mut octets = Vec::new();
    record.data().compose_rdata(&mut octets).ok()?;
    Some(octets)
}

fn generic(rdata: &[u8]) -> String {
    let mut text = format!("\\# {}", rdata.len());
    for (at, octet) in rdata.iter().enumerate() {
        let space = if at == 0 { " " } else { "" };
        _ = write!(text, "{space}{octet:02x}");
    }
    text
}

/// A name as it stands at the beginning of a line.
fn owner(name: &Name) -> String {
    let text = name.to_string();
    if text.starts_with('$') { format!("\\{text}") } else { text }
}

/// A zone as a master file: the SOA record, the other records of the apex, all others in canonical order.
pub fn master(zone: &Zone) -> String {
    let mut text =
        format!("; {}: {} records, rebuilt from recorded responses\n", zone.name, zone.count());
    if let Some(soa) = zone.get(&zone.name, Type::SOA) {
        lines(&mut text, &zone.name, Type::SOA, soa);
    }
    for (name, rrsets) in &zone.records {
        for (rtype, rrset) in rrsets {
            if *rtype != Type::SOA {
                lines(&mut text, name, *rtype, rrset);
            }
        }
    }
    text
}

fn lines(text: &mut String, name: &Name, rtype: Type, rrset: &Rrset) {
    let (name, ttl) = (owner(name), rrset.ttl);
    for octets in &rrset.rdata {
        _ = writeln!(text, "{name}\t{ttl}\tIN\t{rtype}\t{}", rdata(rtype, octets));
    }
    for octets in &rrset.signatures {
        _ = writeln!(text, "{name}\t{ttl}\tIN\tRRSIG\t{}", rdata(Type::RRSIG, octets));
    }
}
