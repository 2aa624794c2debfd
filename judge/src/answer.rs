//! What came back, in a form that two answers can be compared in.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use domain::base::iana::{Class, Opcode, OptRcode, OptionCode, Rtype};
use domain::base::message::RecordSection;
use domain::base::opt::UnknownOptData;
use domain::base::wire::ParseError;
use domain::base::{Message, ParsedName, ToName};
use domain::rdata::{AllRecordData, Rrsig, Tsig};

use crate::question::bits;
use crate::signature::Signing;

/// How far apart the TTLs of two records may be, in seconds: the clock of a cache may tick between two questions.
const TTL_TOLERANCE: u32 = 1;

/// What a server did with a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A response.
    Answer(Box<Answer>),
    /// Nothing came in time.
    Silent,
    /// The TCP connection was closed without an answer.
    Closed,
    /// No DNS message came, but a status or a code of what would have carried it.
    Refused(String),
    /// Something came that is no DNS message: why, and its bytes in hexadecimal.
    Unreadable(String),
}

/// A response taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    rcode: String,
    opcode: String,
    flags: String,
    question: String,
    /// Answer, authority, additional (without OPT).
    sections: [Section; 3],
    edns: String,
    /// What the signature is worth; "unchecked" if nobody looked.
    signature: &'static str,
    /// Serials of SOA records, which are not in the text of the records.
    serials: Vec<u32>,
    /// Whether the first and the last record of the answer section are SOA records.
    begins_with_soa: bool,
    ends_with_soa: bool,
}

/// How much two answers may differ and still be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tolerance {
    /// How far apart the serials of SOA records may be.
    pub serial: u32,
    /// Which records a truncated answer still holds does not matter when both are truncated.
    pub truncated: bool,
}

impl Tolerance {
    /// Serials are the same, and so is what truncation leaves.
    pub const NONE: Tolerance = Tolerance { serial: 0, truncated: false };
}

/// Records of a section as a multiset: record without TTL, and the TTLs it came with.
type Section = BTreeMap<String, Vec<u32>>;

/// Types whose RDATA is names and numbers only.
const HOLDS_NAMES: [Rtype; 8] = [
    Rtype::CNAME,
    Rtype::DNAME,
    Rtype::NS,
    Rtype::PTR,
    Rtype::MX,
    Rtype::SRV,
    Rtype::SOA,
    Rtype::NSEC,
];

const SECTION_NAMES: [&str; 3] = ["answer", "authority", "additional"];

/// A field in which two answers differ, with both values as text.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// As `docs/differences.md` names it.
    pub field: &'static str,
    /// CoreDNS's value.
    pub coredns: String,
    /// Nodens's value.
    pub nodens: String,
}

impl Outcome {
    /// Takes a message apart.
    pub fn read(bytes: &[u8]) -> Self {
        let hex = || bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        match Answer::read(bytes) {
            Ok(answer) => Outcome::Answer(Box::new(answer)),
            Err(error) => Outcome::Unreadable(format!("{error}: {}", hex())),
        }
    }

    /// As [`Outcome::read`], for a response to `query`; looks at the signature too.
    pub fn read_signed(bytes: &[u8], query: &[u8], signing: Option<&Signing>) -> Self {
        let mut outcome = Outcome::read(bytes);
        if let (Outcome::Answer(answer), Some(signing)) = (&mut outcome, signing) {
            answer.signature = signing.verdict(query, bytes);
        }
        outcome
    }

    /// Whether it is a response with records in its answer section.
    pub fn has_answers(&self) -> bool {
        matches!(self, Outcome::Answer(answer) if !answer.sections[0].is_empty())
    }

    /// Adds the next message of a transfer (RFC 5936 section 2.2): its records, and its RCODE where it is an error.
    pub fn join(&mut self, next: Outcome) {
        match (self, next) {
            (Outcome::Answer(answer), Outcome::Answer(next)) => answer.join(*next),
            (outcome, next) => *outcome = next,
        }
    }

    /// Whether another message of the same transfer follows: the last record is not the SOA record that the first one is.
    pub fn goes_on(&self) -> bool {
        let Outcome::Answer(answer) = self else { return false };
        // One SOA record is a response to IXFR.
        answer.begins_with_soa && !answer.ends_with_soa && answer.rcode == "NOERROR"
    }

    fn kind(&self) -> &str {
        match self {
            Outcome::Answer(_) => "answer",
            Outcome::Silent => "silent",
            Outcome::Closed => "closed",
            Outcome::Refused(text) | Outcome::Unreadable(text) => text,
        }
    }
}

impl Answer {
    fn read(bytes: &[u8]) -> Result<Self, ParseError> {
        let message = Message::from_octets(bytes).map_err(|_| ParseError::ShortInput)?;
        let header = message.header();
        let word = bytes.get(2..4).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
        let flags = bits::NAMES.iter().filter(|(bit, _)| word & bit != 0).map(|(_, name)| *name);
        let mut questions = Vec::new();
        for question in message.question() {
            let question = question?;
            let (name, qtype, qclass) = (question.qname(), question.qtype(), question.qclass());
            questions.push(format!("{} {qclass} {qtype}", name.fmt_with_dot()));
        }
        let (_, answer, authority, additional) = message.sections()?;
        let opt = message.opt();
        let rcode =
            opt.as_ref().map_or_else(|| OptRcode::from(header.rcode()), |o| o.rcode(header));
        let mut serials = Vec::new();
        let mut soas = Vec::new();
        for record in answer {
            soas.push(record?.rtype() == Rtype::SOA);
        }
        let sections = [
            section(answer, &mut serials)?,
            section(authority, &mut serials)?,
            section(additional, &mut serials)?,
        ];
        Ok(Answer {
            serials,
            begins_with_soa: soas.first() == Some(&true),
            ends_with_soa: soas.last() == Some(&true),
            signature: "unchecked",
            rcode: rcode.to_string(),
            opcode: Opcode::from_int(header.opcode().to_int()).to_string(),
            flags: flags.collect::<Vec<_>>().join(" "),
            question: questions.join(", "),
            sections,
            edns: match opt {
                None => "none".to_owned(),
                Some(opt) => {
                    let dnssec_ok = if opt.dnssec_ok() { " do" } else { "" };
                    let mut text =
                        format!("v{} size={}{dnssec_ok}", opt.version(), opt.udp_payload_size());
                    for option in opt.opt().iter::<UnknownOptData<_>>() {
                        let option = option?;
                        text.push_str(&option_text(option.code(), option.data()));
                    }
                    text
                }
            },
        })
    }
}

impl Answer {
    /// Adds what another message of the same transfer has.
    fn join(&mut self, next: Answer) {
        for (section, more) in self.sections.iter_mut().zip(next.sections) {
            for (record, ttls) in more {
                let known = section.entry(record).or_default();
                known.extend(ttls);
                known.sort_unstable();
            }
        }
        self.serials.extend(next.serials);
        self.ends_with_soa = next.ends_with_soa;
        if next.rcode != "NOERROR" {
            self.rcode = next.rcode;
        }
    }
}

fn option_text(code: OptionCode, data: &[u8]) -> String {
    let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(" {code}:{hex}")
}

/// The records; the serials of SOA records among them are added to `serials`.
fn section(
    records: RecordSection<'_, &[u8]>,
    serials: &mut Vec<u32>,
) -> Result<Section, ParseError> {
    let mut section = Section::new();
    for record in records {
        let record = record?;
        let (rtype, class, ttl) = (record.rtype(), record.class(), record.ttl().as_secs());
        if rtype == Rtype::OPT {
            continue;
        }
        let owner = record.owner().fmt_with_dot().to_string().to_ascii_lowercase();
        let data = record.to_any_record::<AllRecordData<&[u8], ParsedName<&[u8]>>>();
        let data = data.map_or_else(
            |error| format!("(broken: {error})"),
            |record| match record.data() {
                AllRecordData::Tsig(data) => tsig(data),
                AllRecordData::Rrsig(data) if is_of_today(data, now()) => rrsig(data),
                data => data.to_string(),
            },
        );
        // RFC 4343: the case of a name means nothing.
        let data = if HOLDS_NAMES.contains(&rtype) { data.to_ascii_lowercase() } else { data };
        let data = match (rtype, &data.splitn(4, ' ').collect::<Vec<_>>()[..]) {
            (Rtype::SOA, [mname, rname, serial, rest]) => {
                serials.extend(serial.parse::<u32>().ok());
                format!("{mname} {rname} SERIAL {rest}")
            }
            _ => data,
        };
        let class = if class == Class::IN { "IN".to_owned() } else { class.to_string() };
        section.entry(format!("{owner} {class} {rtype} {data}")).or_default().push(ttl);
    }
    for ttls in section.values_mut() {
        ttls.sort_unstable();
    }
    Ok(section)
}

/// The parts of a TSIG record that do not change with the time and the rest of the message: algorithm, whether the time
/// is that of today, fudge, octets of the MAC, error, octets of other data (RFC 8945 section 4.2).
fn tsig(tsig: &Tsig<&[u8], ParsedName<&[u8]>>) -> String {
    let algorithm = tsig.algorithm().fmt_with_dot().to_string().to_ascii_lowercase();
    let time = if u64::from(tsig.time_signed()) == 0 { "no time" } else { "a time" };
    let (fudge, mac, error) = (tsig.fudge(), tsig.mac_slice().len(), tsig.error().to_int());
    format!("{algorithm} {time} fudge={fudge} mac={mac} error={error} other={}", tsig.other().len())
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Whether the signature was made in the last day, by the server itself then.
fn is_of_today(rrsig: &Rrsig<&[u8], ParsedName<&[u8]>>, now: u64) -> bool {
    // Modulo 2^32 (RFC 4034 section 3.1.5).
    (now as u32).wrapping_sub(rrsig.inception().into_int()) < 24 * 3600
}

/// The parts of an RRSIG record that do not change with the time and from signature to signature: how long it is
/// valid, and octets of the signature, in their place.
fn rrsig(rrsig: &Rrsig<&[u8], ParsedName<&[u8]>>) -> String {
    let (covered, algorithm, labels) = (rrsig.type_covered(), rrsig.algorithm(), rrsig.labels());
    let (ttl, tag) = (rrsig.original_ttl().as_secs(), rrsig.key_tag());
    let valid = rrsig.expiration().into_int().wrapping_sub(rrsig.inception().into_int());
    let signer = rrsig.signer_name().fmt_with_dot().to_string().to_ascii_lowercase();
    let octets = rrsig.signature().len();
    format!("{covered} {algorithm} {labels} {ttl} valid={valid} {tag} {signer} octets={octets}")
}

/// Every field in which the two outcomes differ.
pub fn compare(coredns: &Outcome, nodens: &Outcome, tolerance: Tolerance) -> Vec<Difference> {
    let (Outcome::Answer(theirs), Outcome::Answer(ours)) = (coredns, nodens) else {
        if coredns == nodens {
            return Vec::new();
        }
        let describe = |outcome: &Outcome| match outcome {
            Outcome::Answer(answer) => format!("answer {}", answer.rcode),
            other => other.kind().to_owned(),
        };
        let (coredns, nodens) = (describe(coredns), describe(nodens));
        return vec![Difference { field: "response", coredns, nodens }];
    };
    let mut differences = Vec::new();
    let mut field = |field, coredns: &str, nodens: &str| {
        if coredns != nodens {
            let (coredns, nodens) = (coredns.to_owned(), nodens.to_owned());
            differences.push(Difference { field, coredns, nodens });
        }
    };
    field("rcode", &theirs.rcode, &ours.rcode);
    field("opcode", &theirs.opcode, &ours.opcode);
    field("flags", &theirs.flags, &ours.flags);
    field("question", &theirs.question, &ours.question);
    field("edns", &theirs.edns, &ours.edns);
    field("signature", theirs.signature, ours.signature);
    let is_far = |(a, b): (&u32, &u32)| a.abs_diff(*b) > tolerance.serial;
    let serials = [&theirs.serials, &ours.serials];
    // An SOA record that only one has is a difference of its section.
    let as_many = serials[0].len() == serials[1].len();
    if as_many && serials[0].iter().zip(serials[1]).any(is_far) {
        field("serial", &format!("{:?}", serials[0]), &format!("{:?}", serials[1]));
    }
    if tolerance.truncated && theirs.flags == ours.flags && theirs.flags.contains("tc") {
        return differences;
    }
    let mut ttls = (Vec::new(), Vec::new());
    for ((theirs, ours), name) in theirs.sections.iter().zip(&ours.sections).zip(SECTION_NAMES) {
        let (only_theirs, only_ours) = (missing(theirs, ours), missing(ours, theirs));
        field(name, &only_theirs.join("; "), &only_ours.join("; "));
        for (record, their_ttls) in theirs {
            let our_ttls = ours.get(record).map_or(&[][..], Vec::as_slice);
            let far = their_ttls.iter().zip(our_ttls).any(|(a, b)| a.abs_diff(*b) > TTL_TOLERANCE);
            if far {
                ttls.0.push(format!("{record} {their_ttls:?}"));
                ttls.1.push(format!("{record} {our_ttls:?}"));
            }
        }
    }
    field("ttl", &ttls.0.join("; "), &ttls.1.join("; "));
    differences
}

/// Records of `a` that `b` lacks or has fewer times.
fn missing(a: &Section, b: &Section) -> Vec<String> {
    let mut missing = Vec::new();
    for (record, ttls) in a {
        let there = b.get(record).map_or(0, Vec::len);
        missing.extend(std::iter::repeat_n(record.clone(), ttls.len().saturating_sub(there)));
    }
    missing
}

/// Several lines, for the report.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome::Answer(answer) = self else { return writeln!(f, "({})", self.kind()) };
        writeln!(f, "{} {}, flags: {}", answer.opcode, answer.rcode, answer.flags)?;
        writeln!(f, "edns: {}", answer.edns)?;
        writeln!(f, "question: {}", answer.question)?;
        if !answer.serials.is_empty() {
            writeln!(f, "serials: {:?}", answer.serials)?;
        }
        for (section, name) in answer.sections.iter().zip(SECTION_NAMES) {
            for (record, ttls) in section {
                let ttls: Vec<String> = ttls.iter().map(u32::to_string).collect();
                writeln!(f, "{name}: {record} (ttl {})", ttls.join(", "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::MessageBuilder;
    use domain::base::Name;
    use domain::base::iana::Rcode;
    use domain::base::{Serial, Ttl};
    use domain::rdata::{A, Soa};

    fn message(records: &[(&str, u32, [u8; 4])], rcode: Rcode, ra: bool) -> Outcome {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_rcode(rcode);
        builder.header_mut().set_ra(ra);
        let name: Name<Vec<u8>> = "a.example.".parse().unwrap();
        let mut question = builder.question();
        question.push((name, Rtype::A)).unwrap();
        let mut answer = question.answer();
        for (owner, ttl, address) in records {
            let owner: Name<Vec<u8>> = owner.parse().unwrap();
            answer.push((owner, *ttl, A::from(std::net::Ipv4Addr::from(*address)))).unwrap();
        }
        Outcome::read(&answer.finish())
    }

    fn fields(a: &Outcome, b: &Outcome) -> Vec<&'static str> {
        compare(a, b, Tolerance::NONE).iter().map(|difference| difference.field).collect()
    }

    const ONE: (&str, u32, [u8; 4]) = ("a.example.", 30, [192, 0, 2, 1]);
    const TWO: (&str, u32, [u8; 4]) = ("a.example.", 30, [192, 0, 2, 2]);

    #[test]
    fn order_case_of_owners_and_a_tick_do_not_matter() {
        let a = message(&[ONE, TWO], Rcode::NOERROR, true);
        let b = message(&[TWO, ("A.Example.", 31, ONE.2)], Rcode::NOERROR, true);
        assert_eq!(fields(&a, &b), [""; 0]);
    }

    #[test]
    fn each_field_is_told_apart() {
        let a = message(&[ONE], Rcode::NOERROR, true);
        assert_eq!(fields(&a, &message(&[ONE], Rcode::NXDOMAIN, true)), ["rcode"]);
        assert_eq!(fields(&a, &message(&[ONE], Rcode::NOERROR, false)), ["flags"]);
        assert_eq!(fields(&a, &message(&[TWO], Rcode::NOERROR, true)), ["answer"]);
        assert_eq!(fields(&a, &message(&[ONE, ONE], Rcode::NOERROR, true)), ["answer"]);
        let late = message(&[("a.example.", 32, ONE.2)], Rcode::NOERROR, true);
        assert_eq!(fields(&a, &late), ["ttl"]);
        assert_eq!(fields(&a, &Outcome::Silent), ["response"]);
        assert_eq!(fields(&Outcome::Closed, &Outcome::Silent), ["response"]);
        assert_eq!(fields(&Outcome::Silent, &Outcome::Silent), [""; 0]);
        assert_eq!(fields(&a, &Outcome::read(b"abc")), ["response"]);
    }

    fn negative(serial: u32, tc: bool) -> Outcome {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_tc(tc);
        let zone: Name<Vec<u8>> = "example.".parse().unwrap();
        let ttl = Ttl::from_secs(30);
        let soa = Soa::new(zone.clone(), zone.clone(), Serial(serial), ttl, ttl, ttl, ttl);
        let mut authority = builder.authority();
        authority.push((zone, 30, soa)).unwrap();
        if serial.is_multiple_of(2) {
            let www: Name<Vec<u8>> = "www.example.".parse().unwrap();
            authority.push((www, 30, A::from(std::net::Ipv4Addr::LOCALHOST))).unwrap();
        }
        Outcome::read(&authority.finish())
    }

    fn part(types: &[Rtype]) -> Outcome {
        let zone: Name<Vec<u8>> = "example.".parse().unwrap();
        let ttl = Ttl::from_secs(30);
        let mut answer = MessageBuilder::new_vec().answer();
        for rtype in types {
            let address = A::from(std::net::Ipv4Addr::LOCALHOST);
            let soa = Soa::new(zone.clone(), zone.clone(), Serial(1), ttl, ttl, ttl, ttl);
            match *rtype {
                Rtype::SOA => answer.push((zone.clone(), 30, soa)).unwrap(),
                _ => answer.push((zone.clone(), 30, address)).unwrap(),
            }
        }
        Outcome::read(&answer.finish())
    }

    #[test]
    fn a_transfer_goes_on_to_its_second_soa_record() {
        let mut all = part(&[Rtype::SOA, Rtype::A]);
        assert!(all.goes_on());
        all.join(part(&[Rtype::A]));
        assert!(all.goes_on());
        all.join(part(&[Rtype::A, Rtype::SOA]));
        assert!(!all.goes_on());
        let at_once = part(&[Rtype::SOA, Rtype::A, Rtype::A, Rtype::A, Rtype::SOA]);
        assert_eq!(fields(&all, &at_once), [""; 0]);
        assert_eq!(fields(&all, &part(&[Rtype::SOA, Rtype::A, Rtype::SOA])), ["answer"]);
        for one in [&[Rtype::SOA][..], &[Rtype::A], &[]] {
            assert!(!part(one).goes_on());
        }
        all.join(Outcome::Closed);
        assert_eq!(all, Outcome::Closed);
    }

    #[test]
    fn serials_may_be_apart_and_truncated_answers_hold_anything_when_that_is_tolerated() {
        let (a, b) = (negative(101, false), negative(103, false));
        assert_eq!(fields(&a, &b), ["serial"]);
        let near = Tolerance { serial: 2, truncated: true };
        assert_eq!(compare(&a, &b, near), []);
        assert_eq!(compare(&a, &negative(105, false), near)[0].field, "serial");
        assert_eq!(compare(&a, &negative(102, false), near)[0].field, "authority");
        assert_eq!(compare(&negative(101, true), &negative(102, true), near), []);
        assert!(fields(&negative(101, true), &negative(102, true)).contains(&"authority"));
        let flags = compare(&negative(101, true), &negative(102, false), near);
        assert!(flags.iter().any(|difference| difference.field == "authority"));
    }
}
