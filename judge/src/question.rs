//! A question to ask both servers: it can be well-formed or broken in a chosen way.

use std::fmt;
use std::net::IpAddr;

use domain::base::Name;
use domain::base::iana::{Class, Rtype};

use crate::signature::Signing;

/// Header bits by their mask in the second 16-bit word of a message (RFC 1035, section 4.1.1).
pub mod bits {
    /// Response.
    pub const QR: u16 = 0x8000;
    /// Authoritative answer.
    pub const AA: u16 = 0x0400;
    /// Truncated.
    pub const TC: u16 = 0x0200;
    /// Recursion desired.
    pub const RD: u16 = 0x0100;
    /// Recursion available.
    pub const RA: u16 = 0x0080;
    /// Reserved.
    pub const Z: u16 = 0x0040;
    /// Authentic data (RFC 4035).
    pub const AD: u16 = 0x0020;
    /// Checking disabled (RFC 4035).
    pub const CD: u16 = 0x0010;

    /// Names as `dig` prints them, most significant first.
    pub const NAMES: [(u16, &str); 8] = [
        (QR, "qr"),
        (AA, "aa"),
        (TC, "tc"),
        (RD, "rd"),
        (RA, "ra"),
        (Z, "z"),
        (AD, "ad"),
        (CD, "cd"),
    ];
}

/// An OPT record (RFC 6891) of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edns {
    /// Octets of UDP payload that the client takes.
    pub size: u16,
    /// EDNS version.
    pub version: u8,
    /// The DO bit (RFC 3225).
    pub dnssec_ok: bool,
    /// Option code and data.
    pub options: Vec<(u16, Vec<u8>)>,
}

impl Edns {
    /// Version 0, without options.
    pub fn of_size(size: u16) -> Self {
        Edns { size, version: 0, dnssec_ok: false, options: Vec::new() }
    }
}

/// How a message is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// Well-formed.
    None,
    /// A header that announces no question, and none.
    NoQuestion,
    /// The question twice, and announced so.
    TwoQuestions,
    /// A record in the answer section.
    AnswerRecord,
    /// Two records in the answer section.
    TwoAnswerRecords,
    /// A record in the authority section.
    AuthorityRecord,
    /// Three records in the additional section.
    ThreeAdditional,
    /// Two OPT records.
    TwoOpts,
    /// An OPT record whose owner is not the root.
    NamedOpt,
    /// Bytes after the last record.
    TrailingBytes,
    /// The message ends inside the question.
    CutQuestion,
    /// The message ends inside the header.
    CutHeader,
    /// The name is a compression pointer to itself.
    PointerLoop,
    /// The question announced is missing.
    MissingQuestion,
    /// An EDNS option is longer than its record.
    LongOption,
    /// Signed with a key that no server has (RFC 8945).
    Signed,
}

impl Defect {
    /// Every defect.
    pub const ALL: [Defect; 15] = [
        Defect::NoQuestion,
        Defect::TwoQuestions,
        Defect::AnswerRecord,
        Defect::TwoAnswerRecords,
        Defect::AuthorityRecord,
        Defect::ThreeAdditional,
        Defect::TwoOpts,
        Defect::NamedOpt,
        Defect::TrailingBytes,
        Defect::CutQuestion,
        Defect::CutHeader,
        Defect::PointerLoop,
        Defect::MissingQuestion,
        Defect::LongOption,
        Defect::Signed,
    ];
}

/// One question, without its ID, which the asking adds.
#[derive(Debug, Clone)]
pub struct Question {
    /// The address it comes from.
    pub client: IpAddr,
    /// The port that the Corefile calls so: which listener it goes to.
    pub port: u16,
    /// In presentation format, with its case.
    pub qname: String,
    /// QTYPE.
    pub qtype: u16,
    /// QCLASS.
    pub qclass: u16,
    /// OPCODE.
    pub opcode: u8,
    /// Header bits of [`bits`].
    pub flags: u16,
    /// The OPT record, if there is one.
    pub edns: Option<Edns>,
    /// What is wrong with the message.
    pub defect: Defect,
    /// How it is signed; one with a defect is not.
    pub signing: Option<Signing>,
    /// The serial number of the version that the client has, as IXFR says it (RFC 1995 section 3); one with a defect does
    /// not.
    pub serial: Option<u32>,
}

impl Question {
    /// A plain question with RD.
    pub fn new(client: IpAddr, qname: &str, qtype: u16) -> Self {
        Question {
            client,
            port: 53,
            qname: qname.to_owned(),
            qtype,
            qclass: 1,
            opcode: 0,
            flags: bits::RD,
            edns: None,
            defect: Defect::None,
            signing: None,
            serial: None,
        }
    }

    /// The message as bytes. A name that has no wire form is asked as the root.
    pub fn to_bytes(&self, id: u16) -> Vec<u8> {
        let (mut counts, soa) = (self.counts(), self.soa());
        let records = usize::from(counts[1] + counts[2]);
        counts[2] += u16::from(soa.is_some());
        let mut bytes = id.to_be_bytes().to_vec();
        bytes.extend((u16::from(self.opcode) << 11 | self.flags).to_be_bytes());
        bytes.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
        let name = match self.defect {
            Defect::PointerLoop => vec![0xc0, 12],
            _ => self.qname.parse::<Name<Vec<u8>>>().map_or_else(|_| vec![0], Name::into_octets),
        };
        let mut question = name;
        question.extend(self.qtype.to_be_bytes());
        question.extend(self.qclass.to_be_bytes());
        let times = match self.defect {
            Defect::NoQuestion | Defect::MissingQuestion => 0,
            Defect::TwoQuestions => 2,
            _ => 1,
        };
        bytes.extend(question.repeat(times));
        bytes.extend(RECORD.repeat(records));
        bytes.extend(soa.unwrap_or_default());
        let mut additional = usize::from(counts[3]);
        if self.defect == Defect::ThreeAdditional {
            bytes.extend(RECORD.repeat(3));
            additional -= 3;
        }
        if self.defect == Defect::Signed {
            additional -= 1;
        }
        for _ in 0..additional {
            bytes.extend(self.opt());
        }
        match self.defect {
            Defect::TrailingBytes => bytes.extend([0xde, 0xad]),
            Defect::Signed => bytes.extend(tsig(id)),
            Defect::CutQuestion => bytes.truncate(12 + question.len().saturating_sub(3)),
            Defect::CutHeader => bytes.truncate(7),
            _ => {}
        }
        if let (Some(signing), Defect::None) = (&self.signing, self.defect) {
            signing.sign(&mut bytes);
        }
        bytes
    }

    /// The SOA record of the version that the client has, of the name in the question.
    fn soa(&self) -> Option<Vec<u8>> {
        let serial = self.serial.filter(|_| self.defect == Defect::None)?;
        // TYPE, CLASS, TTL, RDLENGTH, and two names that are the root.
        let mut record = b"\xc0\x0c\x00\x06\x00\x01\x00\x00\x00\x00\x00\x16\x00\x00".to_vec();
        record.extend(serial.to_be_bytes());
        record.extend([0; 16]);
        Some(record)
    }

    /// QDCOUNT, ANCOUNT, NSCOUNT, ARCOUNT.
    fn counts(&self) -> [u16; 4] {
        let opt = u16::from(self.edns.is_some());
        match self.defect {
            Defect::NoQuestion => [0, 0, 0, opt],
            Defect::TwoQuestions => [2, 0, 0, opt],
            Defect::AnswerRecord => [1, 1, 0, opt],
            Defect::TwoAnswerRecords => [1, 2, 0, opt],
            Defect::AuthorityRecord => [1, 0, 1, opt],
            Defect::ThreeAdditional => [1, 0, 0, 3 + opt],
            Defect::TwoOpts => [1, 0, 0, 2],
            Defect::NamedOpt | Defect::LongOption => [1, 0, 0, 1],
            Defect::Signed => [1, 0, 0, 1 + opt],
            _ => [1, 0, 0, opt],
        }
    }

    fn opt(&self) -> Vec<u8> {
        let default = Edns::of_size(1232);
        let edns = self.edns.as_ref().unwrap_or(&default);
        let mut bytes = match self.defect {
            Defect::NamedOpt => b"\x03opt\x00".to_vec(),
            _ => vec![0],
        };
        let mut data = Vec::new();
        for (code, value) in &edns.options {
            data.extend(code.to_be_bytes());
            data.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
            data.extend(value);
        }
        if self.defect == Defect::LongOption {
            data.extend([0, 10, 0, 200, 1, 2]);
        }
        bytes.extend(41u16.to_be_bytes());
        bytes.extend(edns.size.to_be_bytes());
        bytes.extend([0, edns.version, u8::from(edns.dnssec_ok) << 7, 0]);
        bytes.extend(u16::try_from(data.len()).unwrap_or(u16::MAX).to_be_bytes());
        bytes.extend(data);
        bytes
    }
}

/// `a. 60 IN A 192.0.2.1`, for messages that carry records they should not.
const RECORD: &[u8] = b"\x01a\x00\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x00\x02\x01";

/// A TSIG record of the key `k.`: HMAC-SHA256, signed at the time 1, with a MAC of zeros.
fn tsig(id: u16) -> Vec<u8> {
    let mut data = b"\x0bhmac-sha256\x00".to_vec();
    data.extend([0, 0, 0, 0, 0, 1, 1, 44, 0, 32]);
    data.extend([0; 32]);
    data.extend(id.to_be_bytes());
    data.extend([0, 0, 0, 0]);
    let mut record = vec![1, b'k', 0, 0, 250, 0, 255, 0, 0, 0, 0];
    record.extend(u16::try_from(data.len()).unwrap_or(u16::MAX).to_be_bytes());
    record.extend(data);
    record
}

/// The question as arguments of `dig`, with what `dig` cannot do in parentheses.
impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (qtype, qclass) = (Rtype::from_int(self.qtype), Class::from_int(self.qclass));
        write!(f, "-b {} -p {} ", self.client, self.port)?;
        if self.qclass != 1 {
            write!(f, "-c {qclass} ")?;
        }
        write!(f, "{} {qtype}", self.qname)?;
        if let Some(serial) = self.serial {
            write!(f, "={serial}")?;
        }
        if self.opcode != 0 {
            write!(f, " +opcode={}", self.opcode)?;
        }
        for (bit, yes, no) in [
            (bits::RD, "", " +norec"),
            (bits::AD, " +ad", ""),
            (bits::CD, " +cd", ""),
            (bits::AA, " +aaflag", ""),
            (bits::TC, " +tcflag", ""),
            (bits::RA, " +raflag", ""),
            (bits::Z, " +zflag", ""),
            (bits::QR, " (QR=1)", ""),
        ] {
            f.write_str(if self.flags & bit != 0 { yes } else { no })?;
        }
        if let Some(edns) = &self.edns {
            write!(f, " +bufsize={}", edns.size)?;
            if edns.version != 0 {
                write!(f, " +edns={}", edns.version)?;
            }
            if edns.dnssec_ok {
                f.write_str(" +dnssec")?;
            }
            for (code, data) in &edns.options {
                let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
                write!(f, " +ednsopt={code}:{hex}")?;
            }
        }
        if let Some(signing) = &self.signing {
            write!(f, "{signing}")?;
        }
        if self.defect != Defect::None {
            write!(f, " (broken: {:?})", self.defect)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::Message;

    fn question() -> Question {
        Question::new("127.0.0.1".parse().unwrap(), "WWW.example.org.", 1)
    }

    #[test]
    fn a_plain_question_is_what_domain_reads() {
        let edns = Edns { dnssec_ok: true, options: vec![(3, vec![])], ..Edns::of_size(4096) };
        let bytes = Question { edns: Some(edns), ..question() }.to_bytes(77);
        let message = Message::from_octets(bytes).unwrap();
        assert_eq!(message.header().id(), 77);
        assert!(message.header().rd());
        assert_eq!(message.sole_question().unwrap().qname().to_string(), "WWW.example.org");
        let opt = message.opt().unwrap();
        assert_eq!((opt.udp_payload_size(), opt.dnssec_ok()), (4096, true));
    }

    #[test]
    fn a_serial_is_what_domain_reads() {
        let edns = Some(Edns::of_size(1232));
        let ixfr = Question { serial: Some(7), qtype: 251, edns, ..question() };
        let message = Message::from_octets(ixfr.to_bytes(9)).unwrap();
        let record = message.authority().unwrap().next().unwrap().unwrap();
        let soa = record.to_record::<domain::rdata::Soa<_>>().unwrap().unwrap();
        assert_eq!(soa.owner().to_string(), "WWW.example.org");
        assert_eq!((soa.data().serial().into_int(), message.opt().is_some()), (7, true));
        assert!(ixfr.to_string().contains("IXFR=7"));
    }

    #[test]
    fn every_defect_changes_the_message() {
        let plain = question().to_bytes(1);
        for defect in Defect::ALL {
            assert_ne!(Question { defect, ..question() }.to_bytes(1), plain, "{defect:?}");
        }
    }

    #[test]
    fn a_signature_is_what_domain_reads() {
        let edns = Some(Edns::of_size(1232));
        let signed = Question { defect: Defect::Signed, edns, ..question() };
        let message = Message::from_octets(signed.to_bytes(9)).unwrap();
        let last = message.additional().unwrap().last().unwrap().unwrap();
        let tsig = last.to_record::<domain::rdata::Tsig<_, _>>().unwrap().unwrap();
        assert_eq!((tsig.data().original_id(), tsig.data().mac_slice().len()), (9, 32));
        assert!(message.opt().is_some());
    }

    #[test]
    fn shown_as_dig_would_be_called() {
        let edns = Some(Edns { dnssec_ok: true, ..Edns::of_size(1232) });
        let question = Question { edns, flags: bits::CD, qclass: 3, ..question() };
        assert_eq!(
            question.to_string(),
            "-b 127.0.0.1 -p 53 -c CH WWW.example.org. A +norec +cd +bufsize=1232 +dnssec"
        );
    }
}
