//! RDATA of SVCB and HTTPS (RFC 9460 section 2.1).

use super::PresentationError;
use super::rdata::name;
use super::tokens::{Token, Tokens};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Keys by number (RFC 9460 section 14.3, RFC 9461, RFC 9540).
const KEYS: [(&str, u16); 9] = [
    ("mandatory", MANDATORY),
    ("alpn", 1),
    ("no-default-alpn", 2),
    ("port", 3),
    ("ipv4hint", 4),
    ("ech", 5),
    ("ipv6hint", 6),
    ("dohpath", 7),
    ("ohttp", 8),
];

/// The key whose value is a list of keys.
const MANDATORY: u16 = 0;

pub(super) fn read(tokens: &mut Tokens<'_>) -> Result<Vec<u8>, PresentationError> {
    let priority = tokens.expect("a priority")?;
    let number: u16 = priority.raw.parse().map_err(|_| priority.unlike("a priority"))?;
    let mut rdata = number.to_be_bytes().to_vec();
    rdata.extend(name(&tokens.expect("a target name")?)?.as_wire());
    // Keys are sent in order, each once.
    let mut parameters = BTreeMap::new();
    let mut mandatory = None;
    while let Some(word) = tokens.next()? {
        let wrong = || word.unlike("a parameter such as port=443, each key once");
        let (key, mut value) = match word.raw.split_once('=') {
            Some((key, value)) => (key, Some(Token { raw: value, ..word })),
            None => (word.raw, None),
        };
        // `key="value with space"`: the quote ends the word, the value is the next one.
        if value.is_some_and(|value| value.raw.is_empty()) && tokens.rest().starts_with('"') {
            value = tokens.next()?;
        }
        let key = key_number(key).filter(|_| !word.quoted).ok_or_else(wrong)?;
        let octets = octets(key, value).ok_or_else(wrong)??;
        if key == MANDATORY {
            mandatory = value;
        }
        if parameters.insert(key, octets).is_some() {
            return Err(wrong());
        }
    }
    if let Some(word) = mandatory.filter(|_| !has_mandatory(&parameters)) {
        return Err(word.unlike("a list of keys that the record has, each once"));
    }
    for (key, octets) in parameters {
        let length = u16::try_from(octets.len()).map_err(|_| PresentationError::TooLong)?;
        rdata.extend(key.to_be_bytes());
        rdata.extend(length.to_be_bytes());
        rdata.extend(octets);
    }
    Ok(rdata)
}

/// Whether the record has what it calls mandatory. The list has each key once and in order, and not its own (RFC 9460
/// section 8); clients take no record without one of them.
fn has_mandatory(parameters: &BTreeMap<u16, Vec<u8>>) -> bool {
    let list = parameters.get(&MANDATORY).map(Vec::as_slice).unwrap_or_default();
    let keys =
        list.chunks_exact(2).filter_map(|key| Some(u16::from_be_bytes(key.try_into().ok()?)));
    let keys: Vec<u16> = keys.collect();
    keys.is_sorted_by(|one, next| one < next)
        && keys.iter().all(|key| *key != MANDATORY && parameters.contains_key(key))
}

fn key_number(text: &str) -> Option<u16> {
    let known = KEYS.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
    known.or_else(|| text.strip_prefix("key")?.parse().ok())
}

/// The value of a key in wire form; `None` if it has none but needs one, or one too many.
fn octets(key: u16, value: Option<Token<'_>>) -> Option<Result<Vec<u8>, PresentationError>> {
    let Some(value) = value else {
        return (key == 2 || key > 7).then(|| Ok(Vec::new()));
    };
    let list = || value.raw.split(',');
    let wrong = |expected: &'static str| Err(value.unlike(expected));
    Some(match key {
        MANDATORY => {
            let numbers: Option<Vec<u16>> = list().map(key_number).collect();
            numbers.map_or(wrong("a list of keys"), |mut numbers| {
                numbers.sort_unstable();
                Ok(numbers.into_iter().flat_map(u16::to_be_bytes).collect())
            })
        }
        1 => protocols(&value),
        2 | 8 => return None,
        3 => match value.raw.parse::<u16>() {
            Ok(port) => Ok(port.to_be_bytes().to_vec()),
            Err(_) => wrong("a port"),
        },
        4 => match list().map(str::parse::<Ipv4Addr>).collect::<Result<Vec<_>, _>>() {
            Ok(hints) => Ok(hints.iter().flat_map(Ipv4Addr::octets).collect()),
            Err(_) => wrong("a list of IPv4 addresses"),
        },
        5 => domain::utils::base64::decode(value.raw).or_else(|_| wrong("Base64")),
        6 => match list().map(str::parse::<Ipv6Addr>).collect::<Result<Vec<_>, _>>() {
            Ok(hints) => Ok(hints.iter().flat_map(Ipv6Addr::octets).collect()),
            Err(_) => wrong("a list of IPv6 addresses"),
        },
        _ => value.octets(),
    })
}

/// ALPN identifiers, each with its length in front. A backslash in what is quoted keeps a comma or backslash behind it
/// from having a meaning in the list (RFC 9460 appendix A.1), besides the escapes of the quoted text itself.
fn protocols(value: &Token<'_>) -> Result<Vec<u8>, PresentationError> {
    let wrong = || value.unlike("a list of protocols");
    let (mut list, mut protocol) = (Vec::new(), Vec::new());
    let mut octets = value.octets()?.into_iter();
    while let Some(octet) = octets.next() {
        match octet {
            b',' => push_protocol(&mut list, &mut protocol).ok_or_else(wrong)?,
            b'\\' => {
                let kept = octets.next().filter(|octet| matches!(octet, b',' | b'\\'));
                protocol.push(kept.ok_or_else(wrong)?);
            }
            octet => protocol.push(octet),
        }
    }
    push_protocol(&mut list, &mut protocol).ok_or_else(wrong)?;
    Ok(list)
}

fn push_protocol(list: &mut Vec<u8>, protocol: &mut Vec<u8>) -> Option<()> {
    let length = u8::try_from(protocol.len()).ok().filter(|length| *length > 0)?;
    list.push(length);
    list.append(protocol);
    Some(())
}
