//! EDNS: the OPT record and its options (RFC 6891).

use crate::Name;
use crate::reader::{Reader, WireError};
use std::ops::Range;

/// Option codes (IANA DNS EDNS0 Option Codes).
pub mod code {
    /// Name server identifier (RFC 5001).
    pub const NSID: u16 = 3;
    /// Signature algorithms that are understood (RFC 6975).
    pub const DAU: u16 = 5;
    /// Hashes of DS records that are understood (RFC 6975).
    pub const DHU: u16 = 6;
    /// Hashes of NSEC3 records that are understood (RFC 6975).
    pub const N3U: u16 = 7;
    /// Client subnet (RFC 7871).
    pub const CLIENT_SUBNET: u16 = 8;
    /// EXPIRE (RFC 7314).
    pub const EXPIRE: u16 = 9;
    /// DNS cookie (RFC 7873).
    pub const COOKIE: u16 = 10;
    /// Idle timeout of TCP connections (RFC 7828).
    pub const TCP_KEEPALIVE: u16 = 11;
    /// Padding (RFC 7830).
    pub const PADDING: u16 = 12;
    /// Key tags of trust anchors (RFC 8145).
    pub const KEY_TAG: u16 = 14;
    /// Extended DNS error (RFC 8914).
    pub const EXTENDED_ERROR: u16 = 15;
    /// Where errors are reported to (RFC 9567).
    pub const REPORT_CHANNEL: u16 = 18;
    /// Version of the zone (RFC 9660).
    pub const ZONEVERSION: u16 = 19;
}

/// INFO-CODE values of the extended DNS error option (RFC 8914 section 4).
pub mod extended_error {
    /// Other.
    pub const OTHER: u16 = 0;
    /// Stale answer.
    pub const STALE_ANSWER: u16 = 3;
    /// Forged answer.
    pub const FORGED_ANSWER: u16 = 4;
    /// Not ready.
    pub const NOT_READY: u16 = 14;
    /// Blocked.
    pub const BLOCKED: u16 = 15;
    /// Filtered.
    pub const FILTERED: u16 = 17;
    /// Prohibited.
    pub const PROHIBITED: u16 = 18;
    /// Stale NXDOMAIN answer.
    pub const STALE_NXDOMAIN: u16 = 19;
    /// No reachable authority.
    pub const NO_REACHABLE_AUTHORITY: u16 = 22;
    /// Network error.
    pub const NETWORK_ERROR: u16 = 23;
    /// Invalid data.
    pub const INVALID_DATA: u16 = 24;
    /// Invalid query type (RFC 9824 section 3.5).
    pub const INVALID_QUERY_TYPE: u16 = 30;
}

/// What the OPT record of a message says, with its options by position.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Edns {
    /// The sender's largest UDP payload, in octets.
    pub udp_size: u16,
    /// Upper eight bits of the RCODE.
    pub extended_rcode: u8,
    /// EDNS version; only 0 exists.
    pub version: u8,
    /// DNSSEC OK and 15 reserved bits.
    pub flags: u16,
    /// Where the options lie in the message.
    pub options: Range<usize>,
}

/// The DO bit in [`Edns::flags`].
pub const DO: u16 = 0x8000;
/// The bit behind it: compact denials are understood, whatever their RCODE (RFC 9824 section 5.1).
pub const CO: u16 = 0x4000;
/// Octets of an OPT record without options.
pub const OPT_LEN: usize = 11;
/// Length of the code and the length of an option, in octets.
pub const OPTION_HEAD_LEN: usize = 4;

impl Edns {
    /// Splits the CLASS and TTL fields of an OPT record.
    pub fn from_fields(class: u16, ttl: u32, options: Range<usize>) -> Self {
        let [extended_rcode, version, high, low] = ttl.to_be_bytes();
        let flags = u16::from_be_bytes([high, low]);
        Self { udp_size: class, extended_rcode, version, flags, options }
    }

    /// Whether the client wants DNSSEC records.
    pub fn dnssec_ok(&self) -> bool {
        self.flags & DO != 0
    }

    /// The options in `message`, the message this was read from.
    pub fn options<'m>(&self, message: &'m [u8]) -> Options<'m> {
        Options::new(message.get(self.options.clone()).unwrap_or_default())
    }
}

/// Iterates over EDNS options as `(code, data)`; ends at the first malformed one.
#[derive(Clone)]
pub struct Options<'a> {
    reader: Reader<'a>,
}

impl<'a> Options<'a> {
    /// Options in the RDATA of an OPT record.
    pub fn new(rdata: &'a [u8]) -> Self {
        Self { reader: Reader::new(rdata, 0) }
    }

    /// Checks the form of all options.
    pub fn check(rdata: &'a [u8]) -> Result<(), WireError> {
        let mut options = Self::new(rdata);
        while options.reader.left() > 0 {
            options.read()?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(u16, &'a [u8]), WireError> {
        let code = self.reader.u16("option code")?;
        let len = self.reader.u16("option length")?;
        Ok((code, self.reader.take(usize::from(len), "option")?))
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.left() == 0 { None } else { self.read().ok() }
    }
}

/// Whether the data of an option have the form that its code prescribes, in a query or a response. Some programs take a
/// whole message for malformed where they have not. Options of other codes may have any.
pub fn is_well_formed(code: u16, data: &[u8]) -> bool {
    match code {
        code::CLIENT_SUBNET => is_client_subnet(data),
        code::EXPIRE => matches!(data.len(), 0 | 4),
        code::KEY_TAG => !data.is_empty() && data.len().is_multiple_of(2),
        code::EXTENDED_ERROR => {
            // The text is UTF-8 without a byte order mark (RFC 8914 section 2, RFC 5198 section 2).
            let text = data.get(2..).and_then(|text| str::from_utf8(text).ok());
            text.is_some_and(|text| !text.starts_with('\u{feff}'))
        }
        code::REPORT_CHANNEL => data.is_empty() || Name::from_wire(data).is_ok(),
        code::ZONEVERSION => data.len() != 1,
        _ => true,
    }
}

/// RFC 7871 section 6: the address has as many octets as its prefix needs, with zeros behind it.
fn is_client_subnet(data: &[u8]) -> bool {
    let [family_high, family_low, source, scope, address @ ..] = data else { return false };
    let longest = match u16::from_be_bytes([*family_high, *family_low]) {
        0 => 0,
        1 => 32,
        2 => 128,
        _ => return false,
    };
    let used = source % 8;
    let rest = address.last().filter(|_| used > 0).map_or(0, |last| last << used);
    *source <= longest
        && *scope <= longest
        && address.len() == usize::from(source.div_ceil(8))
        && rest == 0
}

/// Appends one option to `out`; data longer than 65,535 octets is cut.
pub fn push_option(out: &mut Vec<u8>, code: u16, data: &[u8]) {
    let len = u16::try_from(data.len()).unwrap_or(u16::MAX);
    out.extend(code.to_be_bytes());
    out.extend(len.to_be_bytes());
    out.extend(data.iter().take(usize::from(len)));
}

/// Appends an extended DNS error (RFC 8914 section 2).
pub fn push_extended_error(out: &mut Vec<u8>, info_code: u16, extra_text: &str) {
    let mut data = info_code.to_be_bytes().to_vec();
    data.extend(extra_text.as_bytes());
    push_option(out, code::EXTENDED_ERROR, &data);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_go_both_ways_and_stop_at_a_broken_one() {
        let mut rdata = Vec::new();
        push_option(&mut rdata, code::NSID, b"");
        push_extended_error(&mut rdata, extended_error::BLOCKED, "why");
        let read: Vec<_> = Options::new(&rdata).collect();
        assert_eq!(read, [(code::NSID, &b""[..]), (code::EXTENDED_ERROR, b"\x00\x0fwhy")]);
        assert_eq!(Options::check(&rdata), Ok(()));
        rdata.pop();
        assert!(Options::check(&rdata).is_err());
        assert_eq!(Options::new(&rdata).count(), 1);
    }

    #[test]
    fn options_have_the_form_of_their_code() {
        let good: [(u16, &[u8]); 16] = [
            (code::NSID, b""),
            (code::NSID, b"\xff\0"),
            (code::CLIENT_SUBNET, b"\0\0\0\0"),
            (code::CLIENT_SUBNET, b"\0\x01\x18\0\xc0\0\x02"),
            (code::CLIENT_SUBNET, b"\0\x01\x14\x20\xc0\0\xf0"),
            (code::CLIENT_SUBNET, b"\0\x02\x0c\x80\x20\x10"),
            (code::EXPIRE, b""),
            (code::EXPIRE, b"\0\0\0\x01"),
            (code::KEY_TAG, b"\x4f\x66"),
            (code::EXTENDED_ERROR, b"\0\x0f"),
            (code::EXTENDED_ERROR, b"\0\x0f\xc3\xa4"),
            (code::REPORT_CHANNEL, b"\x01a\0"),
            (code::REPORT_CHANNEL, b""),
            (code::ZONEVERSION, b""),
            (code::ZONEVERSION, b"\x02\0\0\0\0\x01"),
            (65_001, b"any"),
        ];
        for (code, data) in good {
            assert!(is_well_formed(code, data), "{code} {data:?}");
        }
        let bad: [(u16, &[u8]); 15] = [
            (code::CLIENT_SUBNET, b""),
            (code::CLIENT_SUBNET, b"\0\0\x01\0\0"),
            (code::CLIENT_SUBNET, b"\0\x03\0\0"),
            (code::CLIENT_SUBNET, b"\0\x01\x18\0\xc0\0\x02\0"),
            (code::CLIENT_SUBNET, b"\0\x01\x18\0\xc0\0"),
            (code::CLIENT_SUBNET, b"\0\x01\x21\0\xc0\0\x02\0\0"),
            (code::CLIENT_SUBNET, b"\0\x01\x18\x21\xc0\0\x02"),
            (code::CLIENT_SUBNET, b"\0\x01\x14\0\xc0\0\xf8"),
            (code::EXPIRE, b"\0\0\0"),
            (code::KEY_TAG, b"\x4f"),
            (code::EXTENDED_ERROR, b"\0"),
            (code::EXTENDED_ERROR, b"\0\x0f\xff"),
            (code::EXTENDED_ERROR, b"\0\x0f\xef\xbb\xbfa"),
            (code::REPORT_CHANNEL, b"\x01a"),
            (code::ZONEVERSION, b"\x02"),
        ];
        for (code, data) in bad {
            assert!(!is_well_formed(code, data), "{code} {data:?}");
        }
    }
}
