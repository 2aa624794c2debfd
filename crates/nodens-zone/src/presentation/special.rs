//! RDATA of the types whose fields depend on one another or are written in a form of their own.

use super::PresentationError;
use super::rdata::{base64, base64_of, hex_of, name, number};
use super::tokens::{Token, Tokens};
use nodens_wire::Type;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The RDATA behind the type; `None` if this type is not read here.
pub(super) fn read(
    rtype: Type,
    tokens: &mut Tokens<'_>,
) -> Option<Result<Vec<u8>, PresentationError>> {
    Some(match rtype {
        Type::APL => prefixes(tokens),
        Type::HIP => host_identity(tokens),
        Type::IPSECKEY => ipsec_key(tokens),
        Type::AMTRELAY => amt_relay(tokens),
        Type::LOC => location(tokens),
        _ => return None,
    })
}

/// Lists of address prefixes (RFC 3123): `[!]FAMILY:ADDRESS/LENGTH`. Bits behind the length stay, as in BIND, Knot and NSD.
fn prefixes(tokens: &mut Tokens<'_>) -> Result<Vec<u8>, PresentationError> {
    let mut rdata = Vec::new();
    while let Some(word) = tokens.next()? {
        let item =
            prefix(word.raw).ok_or_else(|| word.unlike("a prefix such as 1:192.0.2.0/24"))?;
        rdata.extend(item);
    }
    Ok(rdata)
}

fn prefix(text: &str) -> Option<Vec<u8>> {
    let (negation, text) = match text.strip_prefix('!') {
        Some(rest) => (0x80, rest),
        None => (0, text),
    };
    let (family, text) = text.split_once(':')?;
    let (address, length) = text.split_once('/')?;
    let family: u16 = family.parse().ok()?;
    let octets = match (family, address.parse().ok()?) {
        (1, IpAddr::V4(v4)) => v4.octets().to_vec(),
        (2, IpAddr::V6(v6)) => v6.octets().to_vec(),
        _ => return None,
    };
    let length: u8 = length.parse().ok().filter(|l| usize::from(*l) <= octets.len() * 8)?;
    let kept = octets.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
    let mut item = family.to_be_bytes().to_vec();
    item.extend([length, negation | u8::try_from(kept).ok()?]);
    item.extend(octets.get(..kept)?);
    Some(item)
}

/// Host identities (RFC 8005).
fn host_identity(tokens: &mut Tokens<'_>) -> Result<Vec<u8>, PresentationError> {
    let algorithm = number(&tokens.expect("an algorithm")?, 1)?;
    let word = tokens.expect("a host identity tag")?;
    let tag = hex_of(&word)?;
    let tag_len = u8::try_from(tag.len()).map_err(|_| word.unlike("a host identity tag"))?;
    let word = tokens.expect("Base64")?;
    let key = base64_of(&word, word.raw)?;
    let key_len = u16::try_from(key.len()).map_err(|_| PresentationError::TooLong)?;
    let mut rdata = vec![tag_len];
    rdata.extend(algorithm);
    rdata.extend(key_len.to_be_bytes());
    rdata.extend(tag);
    rdata.extend(key);
    while let Some(word) = tokens.next()? {
        rdata.extend(name(&word)?.as_wire());
    }
    Ok(rdata)
}

/// Keys of IPsec (RFC 4025).
fn ipsec_key(tokens: &mut Tokens<'_>) -> Result<Vec<u8>, PresentationError> {
    let mut rdata = number(&tokens.expect("a precedence")?, 1)?;
    let kind = number(&tokens.expect("a gateway type")?, 1)?;
    rdata.extend(&kind);
    rdata.extend(number(&tokens.expect("an algorithm")?, 1)?);
    rdata.extend(gateway(kind.first(), &tokens.expect("a gateway")?)?);
    // There may be no key.
    if tokens.clone().next()?.is_some() {
        base64(&mut rdata, tokens)?;
    }
    Ok(rdata)
}

/// Relays of multicast tunnels (RFC 8777).
fn amt_relay(tokens: &mut Tokens<'_>) -> Result<Vec<u8>, PresentationError> {
    let mut rdata = number(&tokens.expect("a precedence")?, 1)?;
    let word = tokens.expect("0 or 1")?;
    let discovery = match word.raw {
        "0" => 0,
        "1" => 0x80,
        _ => return Err(word.unlike("0 or 1")),
    };
    let kind = number(&tokens.expect("a relay type")?, 1)?;
    rdata.extend(kind.iter().map(|kind| discovery | kind));
    rdata.extend(gateway(kind.first(), &tokens.expect("a relay")?)?);
    super::rdata::end(tokens)?;
    Ok(rdata)
}

/// Nothing, an address or a name: the kinds that two types have in common.
fn gateway(kind: Option<&u8>, word: &Token<'_>) -> Result<Vec<u8>, PresentationError> {
    let wrong = || word.unlike("a gateway of this type");
    Ok(match kind {
        Some(0) if word.raw == "." => Vec::new(),
        Some(1) => word.raw.parse::<Ipv4Addr>().map_err(|_| wrong())?.octets().to_vec(),
        Some(2) => word.raw.parse::<Ipv6Addr>().map_err(|_| wrong())?.octets().to_vec(),
        Some(3) => name(word)?.as_wire().to_vec(),
        _ => return Err(wrong()),
    })
}

/// Where a host stands (RFC 1876): two angles, a height, and up to three distances.
fn location(tokens: &mut Tokens<'_>) -> Result<Vec<u8>, PresentationError> {
    let latitude = angle(tokens, 90, ["N", "S"])?;
    let longitude = angle(tokens, 180, ["E", "W"])?;
    let word = tokens.expect("a height in metres")?;
    let height = metres(word.raw).filter(|m| (-100_000.0..=42_849_672.95).contains(m));
    let height = height.ok_or_else(|| word.unlike("a height in metres"))?;
    // 1 m, 10 km and 10 m are meant where nothing is said.
    let mut distances = [0x12, 0x16, 0x13];
    for distance in &mut distances {
        let Some(word) = tokens.next()? else { break };
        let read = metres(word.raw).filter(|m| (0.0..=90_000_000.0).contains(m));
        *distance = power_of_ten(read.ok_or_else(|| word.unlike("a distance in metres"))?);
    }
    super::rdata::end(tokens)?;
    let mut rdata = vec![0];
    rdata.extend(distances);
    rdata.extend(latitude.to_be_bytes());
    rdata.extend(longitude.to_be_bytes());
    // Centimetres above a point 100 km below the ellipsoid; the range was looked at.
    rdata.extend(((height * 100.0 + 10_000_000.5) as u32).to_be_bytes());
    Ok(rdata)
}

/// `DEGREES [MINUTES [SECONDS]] SIDE` in thousandths of a second, 2^31 being the middle.
fn angle(
    tokens: &mut Tokens<'_>,
    degrees_max: u32,
    sides: [&str; 2],
) -> Result<u32, PresentationError> {
    const WANTED: &str = "degrees, minutes, seconds and a side such as 52 22 23.000 N";
    let word = tokens.expect(WANTED)?;
    let degrees: u32 = word.raw.parse().map_err(|_| word.unlike(WANTED))?;
    let mut thousandths = f64::from(degrees) * 3_600_000.0;
    let mut units = [60_000.0, 1000.0].into_iter();
    loop {
        let word = tokens.expect(WANTED)?;
        if let Some(side) = sides.iter().position(|side| side.eq_ignore_ascii_case(word.raw)) {
            if thousandths > f64::from(degrees_max) * 3_600_000.0 {
                return Err(word.unlike(WANTED));
            }
            let thousandths = thousandths as u32;
            return Ok(if side == 0 { (1 << 31) + thousandths } else { (1 << 31) - thousandths });
        }
        let unit = units.next().ok_or_else(|| word.unlike(WANTED))?;
        let whole = |value: &f64| unit < 60_000.0 || value.fract() == 0.0;
        let value = word.raw.parse().ok().filter(|v| (0.0..60.0).contains(v)).filter(whole);
        thousandths += (value.ok_or_else(|| word.unlike(WANTED))? * unit).floor();
    }
}

fn metres(text: &str) -> Option<f64> {
    text.strip_suffix(['m', 'M']).unwrap_or(text).parse().ok()
}

/// A distance as one digit and a power of ten, in centimetres.
fn power_of_ten(metres: f64) -> u8 {
    let (mut digit, mut power) = ((metres * 100.0).round() as u64, 0);
    while digit >= 10 {
        digit /= 10;
        power += 1;
    }
    (digit as u8) << 4 | power
}
