//! Headers of the PROXY protocol, in which a load balancer says who the client is, in front of the
//! client's own octets. Both versions, as HAProxy's `proxy-protocol.txt` describes them; sections here
//! are those of that text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What a header of version 2 begins with (section 2.2).
pub const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// What a header of version 1 begins with (section 2.1).
const WORD: &[u8; 6] = b"PROXY ";
/// The longest header of version 1, in octets, with the end of its line (section 2.1).
pub const LINE_MAX: usize = 107;
/// Octets of a header of version 2 in front of its addresses.
const FIXED_LEN: usize = 16;
/// Octets that may follow those: addresses and TLVs. A sender may announce 65,535; a certificate of a
/// client, the longest that is of use here, has about 2,000.
pub const REST_MAX: usize = 4096;
/// The longest header, in octets.
pub const PROXY_HEADER_MAX: usize = FIXED_LEN + REST_MAX;

const V4_LEN: usize = 12;
const V6_LEN: usize = 36;
const UNIX_LEN: usize = 216;
/// The type of a TLV that only fills space (section 2.2.4).
const NOOP: u8 = 0x04;

/// What stands at the beginning of some octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning<'o> {
    /// No header.
    Absent,
    /// The beginning of a header, or what may become one.
    Part {
        /// Octets there have to be before more can be said, those at hand included.
        wanted: usize,
        /// Whether it is certain to be a header: the signature is whole.
        certain: bool,
    },
    /// A whole header.
    Header(ProxyHeader<'o>),
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader<'o> {
    /// Its octets; the client's own follow.
    pub len: usize,
    /// Its version, 1 or 2.
    pub version: u8,
    /// Who the connection is from.
    pub origin: Origin,
    /// The TLVs as they stand there, which may be malformed: see [`tlv_vector`].
    pub tlvs: &'o [u8],
}

/// Who a connection, or a datagram, is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The proxy itself, which checks whether it is answered (`LOCAL`, `UNKNOWN`).
    Proxy,
    /// A client with IP addresses.
    Client {
        /// The client's address.
        source: SocketAddr,
        /// The address that the client asked.
        destination: SocketAddr,
        /// Whether it asked by datagrams.
        datagram: bool,
    },
    /// A client on the proxy's host, at a socket of the file system.
    Unix,
}

/// Why a header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// Neither version 2 nor a command that it has.
    #[error("unknown version or command")]
    Command,
    /// An address family or a transport that is not defined, or none for a client.
    #[error("unknown address family or transport")]
    Family,
    /// Shorter than its addresses, or longer than [`REST_MAX`].
    #[error("invalid length")]
    Length,
    /// A line of version 1 that has no end within [`LINE_MAX`] octets.
    #[error("line without an end")]
    Line,
    /// A line of version 1 that is not as it has to be.
    #[error("malformed line")]
    Malformed,
}

/// Looks for a header at the beginning of `octets`. Allocates nothing.
///
/// # Errors
/// There is one that cannot be used. More octets do not change that.
pub fn beginning(octets: &[u8]) -> Result<Beginning<'_>, ProxyError> {
    if octets.is_empty() {
        return Ok(Beginning::Part { wanted: 1, certain: false });
    }
    if is_prefix(octets, SIGNATURE) {
        return binary(octets);
    }
    if is_prefix(octets, WORD) {
        return text(octets);
    }
    // Without the space behind it, it is no word of the protocol, but announces that much.
    if octets.starts_with(WORD.split_last().map_or(&[], |(_, word)| word)) {
        return Err(ProxyError::Malformed);
    }
    Ok(Beginning::Absent)
}

/// Whether `octets` begin with `signature`, as far as they go.
fn is_prefix(octets: &[u8], signature: &[u8]) -> bool {
    octets.iter().zip(signature).all(|(own, wanted)| own == wanted)
}

/// A header of version 2 (section 2.2).
fn binary(octets: &[u8]) -> Result<Beginning<'_>, ProxyError> {
    let Some((fixed, behind)) = octets.split_first_chunk::<FIXED_LEN>() else {
        let certain = octets.len() >= SIGNATURE.len();
        return Ok(Beginning::Part { wanted: FIXED_LEN, certain });
    };
    let [.., command, family, high, low] = *fixed;
    let is_local = match command {
        0x20 => true,
        0x21 => false,
        _ => return Err(ProxyError::Command),
    };
    let addresses = match family {
        0x11 | 0x12 => V4_LEN,
        0x21 | 0x22 => V6_LEN,
        0x31 | 0x32 => UNIX_LEN,
        0x00 if is_local => 0,
        _ => return Err(ProxyError::Family),
    };
    let rest = usize::from(u16::from_be_bytes([high, low]));
    // What stands behind LOCAL is skipped, whatever its length is.
    if rest > REST_MAX || (rest < addresses && !is_local) {
        return Err(ProxyError::Length);
    }
    let Some(behind) = behind.get(..rest) else {
        return Ok(Beginning::Part { wanted: FIXED_LEN + rest, certain: true });
    };
    let (addresses, tlvs) = behind.split_at_checked(addresses).unwrap_or((behind, &[]));
    let origin = if is_local { Origin::Proxy } else { origin(family, addresses)? };
    let tlvs = if is_local { &[] } else { tlvs };
    Ok(Beginning::Header(ProxyHeader { len: FIXED_LEN + rest, version: 2, origin, tlvs }))
}

/// The addresses of version 2, which have the length that `family` asks for.
fn origin(family: u8, addresses: &[u8]) -> Result<Origin, ProxyError> {
    let datagram = family & 0x0f == 2;
    if let Some(v4) = addresses.first_chunk::<V4_LEN>().filter(|_| family & 0xf0 == 0x10) {
        let [s0, s1, s2, s3, d0, d1, d2, d3, sp0, sp1, dp0, dp1] = *v4;
        let [source, destination] = [[s0, s1, s2, s3], [d0, d1, d2, d3]].map(Ipv4Addr::from);
        let source = SocketAddr::from((source, u16::from_be_bytes([sp0, sp1])));
        let destination = SocketAddr::from((destination, u16::from_be_bytes([dp0, dp1])));
        return Ok(Origin::Client { source, destination, datagram });
    }
    if family & 0xf0 == 0x20
        && let Some((source, behind)) = addresses.split_first_chunk::<16>()
        && let Some((destination, ports)) = behind.split_first_chunk::<16>()
        && let Some([sp0, sp1, dp0, dp1]) = ports.first_chunk()
    {
        // An IPv4 client of an IPv6 listener of the proxy is an IPv4 client.
        let [source, destination] =
            [*source, *destination].map(|octets| Ipv6Addr::from(octets).to_canonical());
        let source = SocketAddr::from((source, u16::from_be_bytes([*sp0, *sp1])));
        let destination = SocketAddr::from((destination, u16::from_be_bytes([*dp0, *dp1])));
        return Ok(Origin::Client { source, destination, datagram });
    }
    if family & 0xf0 == 0x30 { Ok(Origin::Unix) } else { Err(ProxyError::Length) }
}

/// A header of version 1: a line of text (section 2.1).
fn text(octets: &[u8]) -> Result<Beginning<'_>, ProxyError> {
    let line = octets.get(..LINE_MAX.min(octets.len())).unwrap_or_default();
    let Some(end) = line.iter().position(|octet| *octet == b'\n') else {
        if line.len() >= LINE_MAX {
            return Err(ProxyError::Line);
        }
        let certain = line.len() >= WORD.len();
        return Ok(Beginning::Part { wanted: octets.len() + 1, certain });
    };
    let line = line.get(..end).and_then(|line| line.strip_suffix(b"\r"));
    let line = line.and_then(|line| std::str::from_utf8(line).ok()).ok_or(ProxyError::Malformed)?;
    let mut words = line.split(' ').skip(1);
    let origin = match words.next() {
        Some("UNKNOWN") => Origin::Proxy,
        Some("TCP4") => line_addresses(words, |word| word.parse().ok().map(IpAddr::V4))?,
        Some("TCP6") => line_addresses(words, |word| {
            word.parse::<Ipv6Addr>().ok().map(|address| address.to_canonical())
        })?,
        _ => return Err(ProxyError::Family),
    };
    Ok(Beginning::Header(ProxyHeader { len: end + 1, version: 1, origin, tlvs: &[] }))
}

/// Source, destination, and their ports.
fn line_addresses<'o>(
    mut words: impl Iterator<Item = &'o str>,
    address: impl Fn(&str) -> Option<IpAddr>,
) -> Result<Origin, ProxyError> {
    let mut next = || words.next().ok_or(ProxyError::Malformed);
    let (source, destination) = (next()?, next()?);
    let (source_port, destination_port) = (port(next()?)?, port(next()?)?);
    if words.next().is_some() {
        return Err(ProxyError::Malformed);
    }
    let address = |word| address(word).ok_or(ProxyError::Malformed);
    Ok(Origin::Client {
        source: SocketAddr::new(address(source)?, source_port),
        destination: SocketAddr::new(address(destination)?, destination_port),
        datagram: false,
    })
}

/// A decimal number without sign or leading zeros.
fn port(word: &str) -> Result<u16, ProxyError> {
    let is_plain = word.bytes().all(|octet| octet.is_ascii_digit());
    let port =
        word.parse().ok().filter(|_| is_plain && (word.len() == 1 || !word.starts_with('0')));
    port.ok_or(ProxyError::Malformed)
}

/// The TLVs of a header (section 2.2) once more, each that only fills space without its value; none if
/// there are none, or one is cut.
pub fn tlv_vector(mut raw: &[u8]) -> Option<Vec<u8>> {
    let mut vector = Vec::with_capacity(raw.len());
    while let Some(([kind, high, low], behind)) = raw.split_first_chunk() {
        let (value, rest) =
            behind.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
        if *kind == NOOP {
            vector.extend([NOOP, 0, 0]);
        } else {
            vector.extend([*kind, *high, *low]);
            vector.extend_from_slice(value);
        }
        raw = rest;
    }
    (raw.is_empty() && !vector.is_empty()).then_some(vector)
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
