//! EDNS of queries: size, DO and options (RFC 6891).

use lab_random as rng;
use nodens_wire::Type;
use nodens_wire::edns::{self, code, push_option};
use std::net::IpAddr;
use std::str::FromStr;

/// The UDP payload size that queries announce if nothing else is asked for: what passes every
/// path without fragments (DNS flag day 2020).
pub const UDP_SIZE: u16 = 1232;
/// The most octets that all options together may take, so that a query stays a small datagram.
const OPTIONS_LEN_MAX: usize = 4_096;

/// EDNS of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edns {
    /// Octets of UDP payload that the client says it takes.
    pub udp_size: u16,
    /// The DO bit.
    pub dnssec_ok: bool,
    /// Options as they are sent, one after the other.
    options: Vec<u8>,
    /// Client subnets drawn by position; their option is the last.
    subnets: Option<Subnets>,
}

impl Default for Edns {
    fn default() -> Self {
        Self::new(UDP_SIZE, false)
    }
}

impl Edns {
    /// EDNS without options; clients say that they take `udp_size` octets over UDP.
    pub fn new(udp_size: u16, dnssec_ok: bool) -> Self {
        Self { udp_size, dnssec_ok, options: Vec::new(), subnets: None }
    }

    /// Adds an option.
    pub fn push(&mut self, option: &EdnsOption) -> Result<(), EdnsError> {
        if self.options.len() + 4 + option.data.len() > OPTIONS_LEN_MAX {
            return Err(EdnsError::TooMany);
        }
        push_option(&mut self.options, option.code, &option.data);
        Ok(())
    }

    /// Asks for the name of the server (RFC 5001).
    pub fn push_nsid(&mut self) -> Result<(), EdnsError> {
        self.push(&EdnsOption { code: code::NSID, data: Vec::new() })
    }

    /// Adds a client cookie made from `seed` (RFC 7873 section 4.1).
    ///
    /// It is the same in every query, as all clients of a run share their address, and no server
    /// cookie is ever learnt: the octets of a plan must not depend on answers.
    pub fn push_cookie(&mut self, seed: u64) -> Result<(), EdnsError> {
        let data = rng::at(seed, COOKIE_STREAM).to_be_bytes().to_vec();
        self.push(&EdnsOption { code: code::COOKIE, data })
    }

    /// Says on whose behalf the queries are asked (RFC 7871).
    pub fn set_subnets(&mut self, subnets: Subnets) {
        self.subnets = Some(subnets);
    }

    /// Whether the subnet differs from query to query.
    pub(crate) fn drawn_subnets(&self) -> Option<Subnets> {
        self.subnets.filter(|subnets| subnets.are_drawn())
    }

    /// Appends the OPT record (RFC 6891 section 6.1.2).
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        out.push(0);
        out.extend(Type::OPT.0.to_be_bytes());
        out.extend(self.udp_size.to_be_bytes());
        let dnssec_ok = if self.dnssec_ok { edns::DO } else { 0 };
        out.extend([0, 0]);
        out.extend(dnssec_ok.to_be_bytes());
        let subnet = self.subnets.map(|subnets| subnets.option());
        let subnet_len = subnet.as_ref().map_or(0, |option| 4 + option.data.len());
        // At most OPTIONS_LEN_MAX and one subnet.
        let len = u16::try_from(self.options.len() + subnet_len).unwrap_or(u16::MAX);
        out.extend(len.to_be_bytes());
        out.extend(&self.options);
        if let Some(option) = subnet {
            push_option(out, option.code, &option.data);
        }
    }
}

/// Purpose of the stream that the client cookie comes from.
const COOKIE_STREAM: u64 = 200;
/// Purpose of the stream that client subnets come from.
const SUBNET_STREAM: u64 = 201;

/// Why an option cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EdnsError {
    /// Not `CODE:HEX`.
    #[error("`{0}` is not an EDNS option, expected CODE:HEX, such as 10:0123456789abcdef")]
    Option(String),
    /// Not `ADDRESS/BITS`.
    #[error(
        "`{0}` is not a client subnet, expected ADDRESS/BITS, such as 192.0.2.0/24 or 2001:db8::/56"
    )]
    Subnet(String),
    /// Bits beyond what the address has, or fewer at random than in the prefix.
    #[error("`{0}` has lengths that do not fit, expected PREFIX/BITS,SOURCE with BITS <= SOURCE")]
    Bits(String),
    /// More options than fit.
    #[error("EDNS options take more than {OPTIONS_LEN_MAX} octets")]
    TooMany,
}

/// An option, as `CODE:HEX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdnsOption {
    /// Its code.
    pub code: u16,
    /// Its octets.
    pub data: Vec<u8>,
}

impl FromStr for EdnsOption {
    type Err = EdnsError;

    fn from_str(text: &str) -> Result<Self, EdnsError> {
        let wrong = || EdnsError::Option(text.to_owned());
        let (code, hex) = text.split_once(':').ok_or_else(wrong)?;
        let code = match code.strip_prefix("0x") {
            Some(digits) => u16::from_str_radix(digits, 16),
            None => code.parse(),
        };
        let data = octets_of_hex(hex).ok_or_else(wrong)?;
        if data.len() > OPTIONS_LEN_MAX {
            return Err(EdnsError::TooMany);
        }
        Ok(Self { code: code.map_err(|_| wrong())?, data })
    }
}

fn octets_of_hex(hex: &str) -> Option<Vec<u8>> {
    let digit = |octet: &u8| char::from(*octet).to_digit(16);
    let pairs = hex.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    });
    pairs.collect()
}

/// Client subnets: one, or drawn from a prefix by the position of the query.
///
/// As text `ADDRESS/BITS` (one), or `ADDRESS/BITS,SOURCE`: networks of SOURCE bits out of the given one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnets {
    address: IpAddr,
    /// Bits that stay.
    within: u8,
    /// Bits that are sent.
    source: u8,
}

impl FromStr for Subnets {
    type Err = EdnsError;

    fn from_str(text: &str) -> Result<Self, EdnsError> {
        let wrong = || EdnsError::Subnet(text.to_owned());
        let (prefix, source) = match text.split_once(',') {
            Some((prefix, source)) => (prefix, Some(source)),
            None => (text, None),
        };
        let (address, within) = prefix.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let within: u8 = within.parse().map_err(|_| wrong())?;
        let source = source.map_or(Ok(within), str::parse).map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        if within > source || source > bits {
            return Err(EdnsError::Bits(text.to_owned()));
        }
        Ok(Self { address: address_of(keep(bits_of(address), within), address), within, source })
    }
}

impl Subnets {
    /// Whether there are several.
    pub fn are_drawn(self) -> bool {
        self.within < self.source
    }

    /// The option with the first network.
    fn option(self) -> EdnsOption {
        let family: u16 = if self.address.is_ipv4() { 1 } else { 2 };
        let mut data = family.to_be_bytes().to_vec();
        // RFC 7871 section 6: source and scope prefix length, then only as many octets as needed.
        data.extend([self.source, 0]);
        data.extend(bits_of(self.address).to_be_bytes().iter().take(self.octets()));
        EdnsOption { code: code::CLIENT_SUBNET, data }
    }

    /// How many octets of the address are sent.
    fn octets(self) -> usize {
        usize::from(self.source).div_ceil(8)
    }

    /// Writes the network of item `n` over the last octets of `message`, which hold the first one.
    pub(crate) fn draw(self, seed: u64, n: u64, message: &mut [u8]) {
        let stream = rng::at(seed, SUBNET_STREAM);
        let halves = [n.wrapping_mul(2), n.wrapping_mul(2).wrapping_add(1)];
        let [high, low] = halves.map(|at| u128::from(rng::at(stream, at)));
        let random = (high << 64 | low).checked_shr(self.within.into()).unwrap_or(0);
        let fresh = keep(random, self.source);
        let bits = (bits_of(self.address) | fresh).to_be_bytes();
        let at = message.len().saturating_sub(self.octets());
        if let Some(octets) = message.get_mut(at..) {
            octets.iter_mut().zip(bits).for_each(|(octet, bits)| *octet = bits);
        }
    }
}

/// An address as the upper bits of a number.
fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn address_of(bits: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(((bits >> 96) as u32).into()),
        IpAddr::V6(_) => IpAddr::V6(bits.into()),
    }
}

/// The first `count` bits of `bits`, the others 0.
fn keep(bits: u128, count: u8) -> u128 {
    let low = 128_u32.saturating_sub(u32::from(count));
    bits.checked_shr(low).and_then(|bits| bits.checked_shl(low)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn options_are_read_as_dnsperf_has_them() {
        let option: EdnsOption = "10:0123456789ABcdef".parse().unwrap();
        assert_eq!((option.code, option.data.len(), option.data[5]), (10, 8, 0xab));
        let option: EdnsOption = "0x0a:".parse().unwrap();
        assert_eq!((option.code, option.data.len()), (10, 0));
        for wrong in ["10", "10:0", "10:zz", "70000:00", ":00", "x:00"] {
            let error = wrong.parse::<EdnsOption>().unwrap_err().to_string();
            assert!(error.contains("expected CODE:HEX"), "{error}");
        }
        let huge = format!("1:{}", "00".repeat(OPTIONS_LEN_MAX + 1));
        assert_eq!(huge.parse::<EdnsOption>(), Err(EdnsError::TooMany));
    }

    #[test]
    fn a_subnet_is_sent_with_the_octets_it_needs() {
        let subnets: Subnets = "192.0.2.77/25".parse().unwrap();
        assert_eq!(subnets.option().data, [0, 1, 25, 0, 192, 0, 2, 0]);
        let subnets: Subnets = "2001:db8:ff00::/36".parse().unwrap();
        assert_eq!(subnets.option().data, [0, 2, 36, 0, 0x20, 1, 0x0d, 0xb8, 0xf0]);
        assert_eq!("0.0.0.0/0".parse::<Subnets>().unwrap().option().data, [0, 1, 0, 0]);
        for wrong in ["192.0.2.0", "x/24", "192.0.2.0/33", "192.0.2.0/24,16", "::/129", "::/0,x"] {
            assert!(wrong.parse::<Subnets>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn drawn_subnets_stay_within_the_prefix(
            address: u128, v4: bool, within in 0_u8..=128, more in 0_u8..=128, n: u64, seed: u64,
        ) {
            let max = if v4 { 32 } else { 128 };
            let (within, more) = (within.min(max), more.min(max));
            let source = (within + more.min(max - within)).min(max);
            let like: IpAddr = if v4 { "0.0.0.0" } else { "::" }.parse().unwrap();
            let text = format!("{}/{within},{source}", address_of(address, like));
            let subnets: Subnets = text.parse().unwrap();
            let mut octets = subnets.option().data;
            subnets.draw(seed, n, &mut octets);
            let mut bits = [0; 16];
            bits.iter_mut().zip(&octets[4..]).for_each(|(to, from)| *to = *from);
            let bits = u128::from_be_bytes(bits);
            prop_assert_eq!(keep(bits, within), bits_of(subnets.address));
            prop_assert_eq!(keep(bits, source), bits, "bits behind the source length must be 0");
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            _ = text.parse::<EdnsOption>();
            _ = text.parse::<Subnets>();
        }
    }
}
