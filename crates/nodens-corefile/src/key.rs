//! Keys of server blocks: `[SCHEME://]ZONE[:PORT]`.

use std::fmt;

use crate::cidr::Cidr;
pub use crate::cidr::reverse_zones;
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::nearest::nearest;
use crate::syntax::Token;

/// The transport that a server block listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// UDP and TCP, RFC 1035 section 4.2.
    Dns,
    /// DNS over TLS, RFC 7858.
    Tls,
    /// DNS over QUIC, RFC 9250.
    Quic,
    /// DNS messages in gRPC calls, as CoreDNS defines them.
    Grpc,
    /// DNS over HTTPS, RFC 8484, on HTTP/2.
    Https,
    /// DNS over HTTPS on HTTP/3.
    Https3,
}

/// The names of all schemes, for messages.
pub(crate) const SCHEMES: &str = "dns, tls, quic, grpc, https, https3";

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Dns, Self::Tls, Self::Quic, Self::Grpc, Self::Https, Self::Https3];

    /// What stands before `://`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Tls => "tls",
            Self::Quic => "quic",
            Self::Grpc => "grpc",
            Self::Https => "https",
            Self::Https3 => "https3",
        }
    }

    /// The port of a key that names none. For [`Scheme::Dns`] the command line may say another.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Dns => 53,
            Self::Tls | Self::Quic => 853,
            Self::Grpc | Self::Https | Self::Https3 => 443,
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One zone that a key names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ZoneKey {
    /// The transport; `dns` if the key has none.
    pub scheme: Scheme,
    /// Presentation format, lower case, with the final dot.
    pub zone: String,
    /// `None` if the key has none: then the scheme's default counts.
    pub port: Option<u16>,
}

/// The zones of a key: one, or several if it is an address prefix that falls between two labels
/// of the reverse tree.
///
/// What follows the last colon is a port only if it is a number, as in CoreDNS: `example.org:dns`
/// is one long zone name.
///
/// # Errors
/// [`ErrorKind::EmptyPort`], [`ErrorKind::InvalidPort`], [`ErrorKind::ZoneTooLong`],
/// [`ErrorKind::InvalidZone`], [`ErrorKind::InvalidCidr`], [`ErrorKind::UnknownScheme`]. CoreDNS
/// has no error for the last: it serves a zone of that odd name, or for `unix://` nothing.
pub fn parse_key(key: &Token) -> Result<Vec<ZoneKey>, Error> {
    parse(&key.text).map_err(|kind| Error::at(key, kind))
}

/// The zones that the arguments of a directive name, in the form of keys; schemes and ports are
/// allowed and ignored.
///
/// # Errors
/// As [`parse_key`].
pub fn parse_zones(args: &[Token]) -> Result<Vec<String>, Error> {
    let mut zones = Vec::with_capacity(args.len());
    for arg in args {
        zones.extend(parse_key(arg)?.into_iter().map(|key| key.zone));
    }
    Ok(zones)
}

fn parse(key: &str) -> Result<Vec<ZoneKey>, ErrorKind> {
    let (scheme, rest) = split_scheme(key)?;
    if rest.is_empty() || rest.ends_with(':') {
        return Err(ErrorKind::EmptyPort { key: rest.to_owned() });
    }
    let (zone, port) = split_port(rest)?;
    let zones = expand(zone)?;
    Ok(zones.into_iter().map(|zone| ZoneKey { scheme, zone, port }).collect())
}

fn split_scheme(key: &str) -> Result<(Scheme, &str), ErrorKind> {
    let Some((name, rest)) = key.split_once("://") else { return Ok((Scheme::Dns, key)) };
    match Scheme::ALL.into_iter().find(|scheme| scheme.name() == name) {
        Some(scheme) => Ok((scheme, rest)),
        None => {
            let nearest = nearest(name, Scheme::ALL.map(Scheme::name)).map(str::to_owned);
            Err(ErrorKind::UnknownScheme { scheme: name.to_owned(), nearest })
        }
    }
}

fn split_port(text: &str) -> Result<(&str, Option<u16>), ErrorKind> {
    let Some((zone, port)) = text.rsplit_once(':') else { return Ok((text, None)) };
    let digits = port.strip_prefix(['+', '-']).unwrap_or(port);
    if digits.is_empty() || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return Ok((text, None));
    }
    match port.parse() {
        Ok(port) => Ok((zone, Some(port))),
        Err(_) => Err(ErrorKind::InvalidPort { port: port.to_owned() }),
    }
}

fn expand(zone: &str) -> Result<Vec<String>, ErrorKind> {
    // The limit holds with and without the final dot.
    let absolute = fully_qualified(zone);
    if absolute.len() > limits::ZONE_LENGTH {
        return Err(ErrorKind::ZoneTooLong { length: absolute.len() });
    }
    if zone.is_empty() || !is_domain_name(absolute.as_bytes()) {
        return Err(ErrorKind::InvalidZone { zone: zone.to_owned() });
    }
    let Ok(cidr) = zone.parse::<Cidr>() else { return Ok(vec![absolute.to_ascii_lowercase()]) };
    // CoreDNS reads what starts like this as a port, and refuses to guess.
    if zone.starts_with(':') || (zone.starts_with('0') && zone.contains(':')) {
        return Err(ErrorKind::InvalidCidr { cidr: zone.to_owned() });
    }
    Ok(cidr.reverse_zones())
}

/// Adds the final dot unless there is one that is not escaped.
fn fully_qualified(zone: &str) -> String {
    let escaped = |before: &str| {
        let backslashes = before.len() - before.trim_end_matches('\\').len();
        backslashes % 2 == 1
    };
    match zone.strip_suffix('.') {
        Some(before) if !escaped(before) => zone.to_owned(),
        _ => format!("{zone}."),
    }
}

/// Whether an absolute name in presentation format has labels of at most 63 octets, none empty,
/// and no unfinished escape. `\DDD` and `\X` count as one octet.
fn is_domain_name(name: &[u8]) -> bool {
    if name == b"." {
        return true;
    }
    let mut rest = name;
    let mut label = 0_usize;
    while let Some((&c, after)) = rest.split_first() {
        rest = after;
        match c {
            b'.' if label == 0 || label > 63 => return false,
            b'.' => label = 0,
            b'\\' => {
                let decimal = after.len() >= 3 && after.iter().take(3).all(u8::is_ascii_digit);
                let escaped = if decimal { 3 } else { 1 };
                let Some(after) = after.get(escaped..) else { return false };
                rest = after;
                label += 1;
            }
            _ => label += 1,
        }
    }
    label == 0
}

#[cfg(test)]
mod tests;
