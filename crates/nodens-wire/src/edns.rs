//! EDNS: the OPT record and its options (RFC 6891).

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
}
