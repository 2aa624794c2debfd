//! RDATA of the types that are read here: a table of their fields.

use super::PresentationError;
use super::svcb;
use super::tokens::{Token, Tokens};
use nodens_wire::{Name, Type};

/// A field of RDATA, as it is written and as it is sent.
#[derive(Clone, Copy, Debug)]
enum Field {
    /// A name, uncompressed.
    Name,
    /// A number of this many octets.
    Number(usize),
    /// A number of seconds in four octets, units allowed.
    Seconds,
    /// One character-string.
    Text,
    /// One or more character-strings; a longer one is cut into pieces of 255 octets.
    Texts,
    /// The octets of a word, to the end.
    Octets,
    /// Hexadecimal digits, to the end; spaces between them are allowed.
    Hex,
}

fn fields(rtype: Type) -> Option<&'static [Field]> {
    use Field::{Hex, Name, Number, Octets, Seconds, Text, Texts};
    Some(match rtype {
        Type::SOA => &[Name, Name, Number(4), Seconds, Seconds, Seconds, Seconds],
        Type::TXT | Type::SPF | Type::AVC | Type::NINFO => &[Texts],
        Type::CAA => &[Number(1), Text, Octets],
        Type::TLSA | Type::SMIMEA => &[Number(1), Number(1), Number(1), Hex],
        Type::SSHFP => &[Number(1), Number(1), Hex],
        Type::URI => &[Number(2), Number(2), Octets],
        Type::RP => &[Name, Name],
        Type::NS | Type::CNAME | Type::PTR | Type::DNAME => &[Name],
        Type::MX | Type::AFSDB | Type::RT | Type::KX | Type::LP => &[Number(2), Name],
        Type::SRV => &[Number(2), Number(2), Number(2), Name],
        _ => return None,
    })
}

/// The RDATA behind the type; `None` if this type is not read here.
pub(super) fn read(
    rtype: Type,
    tokens: &mut Tokens<'_>,
) -> Option<Result<Vec<u8>, PresentationError>> {
    let mut ahead = tokens.clone();
    // The generic form (RFC 3597 section 5), whatever the type.
    if let Ok(Some(Token { raw: "\\#", .. })) = ahead.next() {
        return Some(generic(&mut ahead));
    }
    match rtype {
        Type::SVCB | Type::HTTPS => Some(svcb::read(tokens)),
        _ => fields(rtype).map(|fields| read_fields(fields, tokens)),
    }
}

fn read_fields(fields: &[Field], tokens: &mut Tokens<'_>) -> Result<Vec<u8>, PresentationError> {
    let mut rdata = Vec::new();
    for field in fields {
        match field {
            Field::Name => rdata.extend(name(&tokens.expect("a name")?)?.as_wire()),
            Field::Number(octets) => {
                let word = tokens.expect("a number")?;
                let wrong = || word.unlike("a number");
                let number: u32 = word.raw.parse().map_err(|_| wrong())?;
                let bytes = number.to_be_bytes();
                let (empty, octets) = bytes.split_at(bytes.len() - octets);
                if empty.iter().any(|octet| *octet != 0) {
                    return Err(wrong());
                }
                rdata.extend(octets);
            }
            Field::Seconds => {
                let word = tokens.expect("a number of seconds")?;
                let number = seconds(word.raw).ok_or_else(|| word.unlike("a number of seconds"))?;
                rdata.extend(number.to_be_bytes());
            }
            Field::Text => text(&mut rdata, &tokens.expect("text")?)?,
            Field::Texts => {
                text(&mut rdata, &tokens.expect("text")?)?;
                while let Some(word) = tokens.next()? {
                    text(&mut rdata, &word)?;
                }
            }
            Field::Octets => rdata.extend(tokens.expect("text")?.octets()?),
            Field::Hex => hex(&mut rdata, tokens)?,
        }
    }
    end(tokens)?;
    Ok(rdata)
}

pub(super) fn end(tokens: &mut Tokens<'_>) -> Result<(), PresentationError> {
    match tokens.next()? {
        None => Ok(()),
        Some(word) => Err(PresentationError::Trailing(word.raw.to_owned())),
    }
}

/// A name; one without a final dot is absolute, `@` is the root.
pub(super) fn name(word: &Token<'_>) -> Result<Name, PresentationError> {
    if word.raw == "@" {
        return Ok(Name::root());
    }
    let parsed = Some(word.raw).filter(|raw| !raw.is_empty()).and_then(|raw| Name::parse(raw).ok());
    parsed.ok_or_else(|| word.unlike("a domain name"))
}

/// `90`, or `1m30s` with the units s, m, h, d and w.
pub(super) fn seconds(text: &str) -> Option<u32> {
    let (mut total, mut number) = (0_u32, None);
    for c in text.chars() {
        if let Some(digit) = c.to_digit(10) {
            number = Some(number.unwrap_or(0_u32).checked_mul(10)?.checked_add(digit)?);
            continue;
        }
        let unit = match c.to_ascii_lowercase() {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        total = total.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    match (number, text.is_empty()) {
        (_, true) => None,
        (number, false) => total.checked_add(number.unwrap_or(0)),
    }
}

/// A word as character-strings (RFC 1035 section 3.3), of 255 octets at most.
fn text(rdata: &mut Vec<u8>, word: &Token<'_>) -> Result<(), PresentationError> {
    let octets = word.octets()?;
    let mut rest = octets.as_slice();
    loop {
        let (piece, behind) = rest.split_at(rest.len().min(255));
        rdata.push(u8::try_from(piece.len()).unwrap_or(u8::MAX));
        rdata.extend(piece);
        rest = behind;
        if rest.is_empty() {
            return Ok(());
        }
    }
}

fn hex(rdata: &mut Vec<u8>, tokens: &mut Tokens<'_>) -> Result<(), PresentationError> {
    let mut high = None;
    let mut word = tokens.expect("hexadecimal digits")?;
    loop {
        for c in word.raw.chars() {
            let digit = c.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let digit = digit.ok_or_else(|| word.unlike("hexadecimal digits"))?;
            match high.take() {
                None => high = Some(digit << 4),
                Some(high) => rdata.push(high | digit),
            }
        }
        match tokens.next()? {
            Some(next) => word = next,
            None if high.is_some() => return Err(word.unlike("an even number of digits")),
            None => return Ok(()),
        }
    }
}

fn generic(tokens: &mut Tokens<'_>) -> Result<Vec<u8>, PresentationError> {
    let word = tokens.expect("the number of octets")?;
    let wrong = || word.unlike("the number of octets");
    let length: u16 = word.raw.parse().map_err(|_| wrong())?;
    let mut rdata = Vec::new();
    if length > 0 {
        hex(&mut rdata, tokens)?;
    }
    end(tokens)?;
    if rdata.len() == usize::from(length) { Ok(rdata) } else { Err(wrong()) }
}
