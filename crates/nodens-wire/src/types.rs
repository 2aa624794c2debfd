//! The integer codes of DNS as newtypes with named constants and mnemonics.
//!
//! A newtype and not an `enum`: an unknown code is as valid as a known one (RFC 3597).

use std::fmt;
use std::str::FromStr;

/// A mnemonic or number that names no code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a known mnemonic")]
pub struct UnknownMnemonic(pub String);

macro_rules! codes {
    ($(#[$meta:meta])* $name:ident($int:ty), $generic:literal; $($(#[$cmeta:meta])* $konst:ident = $value:literal $text:literal,)*) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[$cmeta])* #[doc = $text] pub const $konst: Self = Self($value);)*

            /// The registered mnemonic, if the code has one here.
            pub fn mnemonic(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.mnemonic() {
                    Some(text) => f.write_str(text),
                    None => write!(f, concat!($generic, "{}"), self.0),
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = UnknownMnemonic;

            /// Reads a mnemonic in any case, or the generic form of RFC 3597 section 5.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $(if text.eq_ignore_ascii_case($text) { return Ok(Self::$konst); })*
                let generic = text
                    .get(..$generic.len())
                    .filter(|head| head.eq_ignore_ascii_case($generic))
                    .and_then(|_| text.get($generic.len()..))
                    .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
                    .and_then(|digits| digits.parse().ok());
                generic.map(Self).ok_or_else(|| UnknownMnemonic(text.to_owned()))
            }
        }
    };
}

codes! {
    /// TYPE and QTYPE (RFC 1035 section 3.2.2, IANA DNS parameters).
    Type(u16), "TYPE";
    NONE = 0 "None", A = 1 "A", NS = 2 "NS", MD = 3 "MD", MF = 4 "MF", CNAME = 5 "CNAME", SOA = 6 "SOA",
    MB = 7 "MB", MG = 8 "MG", MR = 9 "MR", NULL = 10 "NULL", PTR = 12 "PTR", HINFO = 13 "HINFO",
    MINFO = 14 "MINFO", MX = 15 "MX", TXT = 16 "TXT", RP = 17 "RP", AFSDB = 18 "AFSDB",
    X25 = 19 "X25", ISDN = 20 "ISDN", RT = 21 "RT", NSAP_PTR = 23 "NSAP-PTR", SIG = 24 "SIG", KEY = 25 "KEY", PX = 26 "PX",
    GPOS = 27 "GPOS", AAAA = 28 "AAAA", LOC = 29 "LOC", NXT = 30 "NXT", EID = 31 "EID",
    NIMLOC = 32 "NIMLOC", SRV = 33 "SRV", ATMA = 34 "ATMA", NAPTR = 35 "NAPTR", KX = 36 "KX",
    CERT = 37 "CERT", DNAME = 39 "DNAME", OPT = 41 "OPT", APL = 42 "APL", DS = 43 "DS",
    SSHFP = 44 "SSHFP", IPSECKEY = 45 "IPSECKEY", RRSIG = 46 "RRSIG", NSEC = 47 "NSEC",
    DNSKEY = 48 "DNSKEY", DHCID = 49 "DHCID", NSEC3 = 50 "NSEC3", NSEC3PARAM = 51 "NSEC3PARAM",
    TLSA = 52 "TLSA", SMIMEA = 53 "SMIMEA", HIP = 55 "HIP", NINFO = 56 "NINFO", RKEY = 57 "RKEY",
    TALINK = 58 "TALINK", CDS = 59 "CDS", CDNSKEY = 60 "CDNSKEY", OPENPGPKEY = 61 "OPENPGPKEY",
    CSYNC = 62 "CSYNC", ZONEMD = 63 "ZONEMD", SVCB = 64 "SVCB", HTTPS = 65 "HTTPS", SPF = 99 "SPF",
    UINFO = 100 "UINFO", UID = 101 "UID", GID = 102 "GID", UNSPEC = 103 "UNSPEC",
    NID = 104 "NID", L32 = 105 "L32", L64 = 106 "L64", LP = 107 "LP", EUI48 = 108 "EUI48",
    EUI64 = 109 "EUI64", NXNAME = 128 "NXNAME", TKEY = 249 "TKEY", TSIG = 250 "TSIG", IXFR = 251 "IXFR",
    AXFR = 252 "AXFR", MAILB = 253 "MAILB", MAILA = 254 "MAILA", ANY = 255 "ANY",
    URI = 256 "URI", CAA = 257 "CAA", AVC = 258 "AVC", AMTRELAY = 260 "AMTRELAY", RESINFO = 261 "RESINFO",
    TA = 32768 "TA", DLV = 32769 "DLV", RESERVED = 65535 "Reserved",
}

codes! {
    /// CLASS and QCLASS (RFC 1035 section 3.2.4).
    Class(u16), "CLASS";
    IN = 1 "IN", CS = 2 "CS", CH = 3 "CH", HS = 4 "HS", NONE = 254 "NONE", ANY = 255 "ANY",
}

impl Class {
    /// The mnemonic where no type has the same; ANY is `CLASS255` then, as CoreDNS writes it.
    pub fn unambiguous(self) -> Option<&'static str> {
        if self == Self::ANY { Some("CLASS255") } else { self.mnemonic() }
    }
}

codes! {
    /// RCODE with the extension of EDNS (RFC 6895 section 2.3).
    Rcode(u16), "RCODE";
    NOERROR = 0 "NOERROR", FORMERR = 1 "FORMERR", SERVFAIL = 2 "SERVFAIL",
    NXDOMAIN = 3 "NXDOMAIN", NOTIMP = 4 "NOTIMP", REFUSED = 5 "REFUSED", YXDOMAIN = 6 "YXDOMAIN",
    YXRRSET = 7 "YXRRSET", NXRRSET = 8 "NXRRSET", NOTAUTH = 9 "NOTAUTH", NOTZONE = 10 "NOTZONE",
    BADVERS = 16 "BADVERS", BADKEY = 17 "BADKEY", BADTIME = 18 "BADTIME", BADMODE = 19 "BADMODE",
    BADNAME = 20 "BADNAME", BADALG = 21 "BADALG", BADTRUNC = 22 "BADTRUNC",
    BADCOOKIE = 23 "BADCOOKIE",
}

codes! {
    /// OPCODE (RFC 6895 section 2.2).
    Opcode(u8), "OPCODE";
    QUERY = 0 "QUERY", IQUERY = 1 "IQUERY", STATUS = 2 "STATUS", NOTIFY = 4 "NOTIFY",
    UPDATE = 5 "UPDATE", DSO = 6 "DSO",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mnemonics_go_both_ways() {
        for code in 0..=u16::MAX {
            let text = Type(code).to_string();
            assert_eq!(text.parse(), Ok(Type(code)));
            assert_eq!(text.to_ascii_lowercase().parse(), Ok(Type(code)));
        }
        assert!("TYPE65536".parse::<Type>().is_err());
        assert!("TYPE+1".parse::<Type>().is_err());
        assert!("BOGUS".parse::<Type>().is_err());
        assert!("".parse::<Class>().is_err());
        assert_eq!(Class::ANY.unambiguous().map(str::parse), Some(Ok(Class::ANY)));
        assert_eq!(Class::CH.unambiguous(), Some("CH"));
    }
}
