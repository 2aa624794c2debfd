//! RDATA of the types that are read here: a table of their fields.

use super::PresentationError;
use super::text::{one_text, texts, two_texts};
use super::tokens::{Token, Tokens};
use super::{special, svcb};
use domain::base::iana::SecurityAlgorithm;
use domain::rdata::dnssec::Timestamp;
use nodens_wire::{Name, Type};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

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
    /// Character-strings; a longer one is cut into pieces of 255 octets.
    Texts,
    /// Two character-strings: the first word and all others.
    TwoTexts,
    /// One character-string that is a decimal number.
    Decimal,
    /// Hexadecimal numbers with this between them: so many, of so many digits.
    Groups(char, usize, usize),
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// An algorithm of DNSSEC, by number or mnemonic.
    Algorithm,
    /// What a certificate is, by number or mnemonic (RFC 4398 section 2.1).
    Certificate,
    /// A time as digits of a date or seconds since 1970 (RFC 4034 section 3.2).
    Time,
    /// One type.
    TypeCovered,
    /// Types as a map of bits (RFC 4034 section 4.1.2), to the end.
    Types,
    /// Base64 to the end; spaces in it are allowed.
    Base64,
    /// The octets of a word, to the end.
    Octets,
    /// Hexadecimal digits, to the end; spaces between them are allowed.
    Hex,
}

/// Types of certificates (RFC 4398 section 2.1).
const CERTIFICATES: [(&str, u16); 10] = [
    ("PKIX", 1),
    ("SPKI", 2),
    ("PGP", 3),
    ("IPKIX", 4),
    ("ISPKI", 5),
    ("IPGP", 6),
    ("ACPKIX", 7),
    ("IACPKIX", 8),
    ("URI", 253),
    ("OID", 254),
];

fn fields(rtype: Type) -> Option<&'static [Field]> {
    use Field::{
        Algorithm, Base64, Certificate, Decimal, Groups, Hex, Ipv4, Ipv6, Name, Number, Octets,
        Seconds, Text, Texts, Time, TwoTexts, TypeCovered, Types,
    };
    Some(match rtype {
        Type::A => &[Ipv4],
        Type::AAAA => &[Ipv6],
        Type::SOA => &[Name, Name, Number(4), Seconds, Seconds, Seconds, Seconds],
        Type::TXT | Type::SPF | Type::AVC | Type::NINFO | Type::RESINFO => &[Texts],
        Type::HINFO | Type::ISDN => &[TwoTexts],
        Type::X25 | Type::UINFO => &[Text],
        Type::GPOS => &[Decimal, Decimal, Decimal],
        Type::CAA => &[Number(1), Text, Octets],
        Type::TLSA | Type::SMIMEA => &[Number(1), Number(1), Number(1), Hex],
        Type::SSHFP => &[Number(1), Number(1), Hex],
        Type::URI => &[Number(2), Number(2), Octets],
        Type::EID | Type::NIMLOC => &[Hex],
        Type::EUI48 => &[Groups('-', 6, 2)],
        Type::EUI64 => &[Groups('-', 8, 2)],
        Type::NID | Type::L64 => &[Number(2), Groups(':', 4, 4)],
        Type::L32 => &[Number(2), Ipv4],
        Type::UID | Type::GID => &[Number(4)],
        Type::CERT => &[Certificate, Number(2), Algorithm, Base64],
        Type::DNSKEY | Type::CDNSKEY => &[Number(2), Number(1), Algorithm, Base64],
        Type::DS | Type::CDS | Type::DLV | Type::TA => &[Number(2), Algorithm, Number(1), Hex],
        Type::RRSIG | Type::SIG => {
            &[TypeCovered, Algorithm, Number(1), Number(4), Time, Time, Number(2), Name, Base64]
        }
        Type::OPENPGPKEY | Type::DHCID => &[Base64],
        Type::CSYNC => &[Number(4), Number(2), Types],
        Type::NSEC | Type::NXT => &[Name, Types],
        Type::NAPTR => &[Number(2), Number(2), Text, Text, Text, Name],
        Type::RP | Type::MINFO | Type::TALINK => &[Name, Name],
        Type::PX => &[Number(2), Name, Name],
        Type::NS | Type::CNAME | Type::PTR | Type::DNAME => &[Name],
        Type::MB | Type::MD | Type::MF | Type::MG | Type::MR | Type::NSAP_PTR => &[Name],
        Type::MX | Type::AFSDB | Type::RT | Type::KX | Type::LP => &[Number(2), Name],
        Type::SRV => &[Number(2), Number(2), Number(2), Name],
        _ => return None,
    })
}

/// Whether RDATA of the type is character-strings and nothing else.
pub(super) fn is_text(rtype: Type) -> bool {
    matches!(fields(rtype), Some([Field::Texts]))
}

/// The RDATA behind the type; `None` if this type is not read here.
pub(super) fn read(
    rtype: Type,
    tokens: &mut Tokens<'_>,
) -> Option<Result<Vec<u8>, PresentationError>> {
    let mut ahead = tokens.clone();
    // The generic form (RFC 3597 section 5), whatever the type.
    if let Ok(Some(Token { raw: "\\#", .. })) = ahead.next() {
        return Some(generic(tokens));
    }
    match rtype {
        Type::SVCB | Type::HTTPS => Some(svcb::read(tokens)),
        _ => match fields(rtype) {
            Some(fields) => Some(read_fields(fields, tokens)),
            None => special::read(rtype, tokens),
        },
    }
}

fn read_fields(fields: &[Field], tokens: &mut Tokens<'_>) -> Result<Vec<u8>, PresentationError> {
    let mut rdata = Vec::new();
    for field in fields {
        match field {
            Field::Texts => texts(&mut rdata, tokens)?,
            Field::TwoTexts => two_texts(&mut rdata, tokens)?,
            Field::Types => types(&mut rdata, tokens)?,
            Field::Base64 => base64(&mut rdata, tokens)?,
            Field::Hex => hex(&mut rdata, tokens)?,
            field => read_word(*field, &tokens.expect(field.expected())?, &mut rdata)?,
        }
    }
    end(tokens)?;
    Ok(rdata)
}

impl Field {
    /// What a text that ends too early lacks.
    fn expected(self) -> &'static str {
        match self {
            Self::Name => "a name",
            Self::Number(_) | Self::Decimal => "a number",
            Self::Seconds => "a number of seconds",
            Self::Ipv4 => "an IPv4 address",
            Self::Ipv6 => "an IPv6 address",
            Self::Algorithm => "an algorithm",
            Self::Certificate => "a type of certificate",
            Self::Time => "a time",
            Self::TypeCovered => "a type such as AAAA",
            Self::Text | Self::Texts | Self::TwoTexts | Self::Octets => "text",
            Self::Groups(..) | Self::Hex => "hexadecimal digits",
            Self::Types => "types",
            Self::Base64 => "Base64",
        }
    }
}

/// A field that is one word.
fn read_word(field: Field, word: &Token<'_>, rdata: &mut Vec<u8>) -> Result<(), PresentationError> {
    let wrong = || word.unlike(field.expected());
    match field {
        Field::Name => rdata.extend(name(word)?.as_wire()),
        Field::Number(octets) => rdata.extend(number(word, octets)?),
        Field::Seconds => rdata.extend(seconds(word.raw).ok_or_else(wrong)?.to_be_bytes()),
        Field::Text => one_text(rdata, word)?,
        Field::Decimal => {
            word.raw.parse::<f64>().map_err(|_| wrong())?;
            one_text(rdata, word)?;
        }
        Field::Groups(between, count, digits) => {
            let groups: Vec<&str> = word.raw.split(between).collect();
            // BIND writes the groups of NID and L64 without the zeros in front.
            let least = if between == ':' { 1 } else { digits };
            let fits = |group: &&str| (least..=digits).contains(&group.len());
            if groups.len() != count || !groups.iter().all(fits) {
                return Err(word.unlike("hexadecimal digits in groups"));
            }
            let whole: String = groups.iter().map(|group| format!("{group:0>digits$}")).collect();
            rdata.extend(hex_of(&Token { raw: &whole, ..*word })?);
        }
        Field::Ipv4 => {
            rdata.extend(word.raw.parse::<Ipv4Addr>().map_err(|_| wrong())?.octets());
        }
        Field::Ipv6 => {
            rdata.extend(word.raw.parse::<Ipv6Addr>().map_err(|_| wrong())?.octets());
        }
        Field::Algorithm => {
            let mnemonic = word.raw.to_ascii_uppercase();
            match SecurityAlgorithm::from_mnemonic(mnemonic.as_bytes()) {
                Some(algorithm) => rdata.push(algorithm.to_int()),
                None => rdata.extend(number(word, 1)?),
            }
        }
        Field::Certificate => match CERTIFICATES.iter().find(|(name, _)| *name == word.raw) {
            Some((_, number)) => rdata.extend(number.to_be_bytes()),
            None => rdata.extend(number(word, 2)?),
        },
        Field::Time => {
            let time: Timestamp = word.raw.parse().map_err(|_| wrong())?;
            rdata.extend(time.into_int().to_be_bytes());
        }
        Field::TypeCovered => rdata.extend(type_of(word)?.0.to_be_bytes()),
        Field::Octets => rdata.extend(word.octets()?),
        // They are read before, to the end.
        Field::Texts | Field::TwoTexts | Field::Types | Field::Base64 | Field::Hex => {}
    }
    Ok(())
}

/// A number of so many octets.
pub(super) fn number(word: &Token<'_>, octets: usize) -> Result<Vec<u8>, PresentationError> {
    let wrong = || word.unlike("a number");
    let bytes = word.raw.parse::<u32>().map_err(|_| wrong())?.to_be_bytes();
    let (empty, octets) = bytes.split_at(bytes.len().saturating_sub(octets));
    if empty.iter().any(|octet| *octet != 0) {
        return Err(wrong());
    }
    Ok(octets.to_vec())
}

pub(crate) fn end(tokens: &mut Tokens<'_>) -> Result<(), PresentationError> {
    match tokens.next()? {
        None => Ok(()),
        Some(word) => Err(PresentationError::Trailing(word.raw.to_owned())),
    }
}

/// A name, absolute with a final dot and relative to the origin without; `@` is the origin.
pub(crate) fn name(word: &Token<'_>) -> Result<Name, PresentationError> {
    if word.raw == "@" {
        return Ok(word.origin.to_name());
    }
    let parsed = Some(word.raw).filter(|raw| !raw.is_empty()).and_then(|raw| Name::parse(raw).ok());
    let parsed = match parsed {
        Some(name) if !is_absolute(word.raw) => name.join(word.origin).ok(),
        other => other,
    };
    parsed.ok_or_else(|| word.unlike("a domain name"))
}

/// Whether the text of a name ends with a dot that no backslash stands before.
fn is_absolute(text: &str) -> bool {
    let Some(before) = text.strip_suffix('.') else { return false };
    let escapes = before.bytes().rev().take_while(|octet| *octet == b'\\').count();
    escapes % 2 == 0
}

/// `90`, or `1m30s` with the units s, m, h, d and w.
pub(crate) fn seconds(text: &str) -> Option<u32> {
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

fn type_of(word: &Token<'_>) -> Result<Type, PresentationError> {
    word.raw.parse().map_err(|_| word.unlike("a type such as AAAA"))
}

fn types(rdata: &mut Vec<u8>, tokens: &mut Tokens<'_>) -> Result<(), PresentationError> {
    let mut all = BTreeSet::new();
    while let Some(word) = tokens.next()? {
        all.insert(type_of(&word)?.0);
    }
    push_types(rdata, &all);
    Ok(())
}

/// Types as a map of bits (RFC 4034 section 4.1.2).
pub(crate) fn push_types(rdata: &mut Vec<u8>, all: &BTreeSet<u16>) {
    for window in 0..=u8::MAX {
        let mut bits = Vec::new();
        for [_, low] in all.iter().map(|t| t.to_be_bytes()).filter(|[high, _]| *high == window) {
            bits.resize(usize::from(low / 8) + 1, 0);
            if let Some(octet) = bits.last_mut() {
                *octet |= 0x80 >> (low % 8);
            }
        }
        if let (false, Ok(length)) = (bits.is_empty(), u8::try_from(bits.len())) {
            rdata.extend([window, length]);
            rdata.extend(bits);
        }
    }
}

/// Base64 in all words that are left.
pub(super) fn base64(
    rdata: &mut Vec<u8>,
    tokens: &mut Tokens<'_>,
) -> Result<(), PresentationError> {
    let first = tokens.expect("Base64")?;
    let mut digits = first.raw.to_owned();
    while let Some(word) = tokens.next()? {
        digits.push_str(word.raw);
    }
    rdata.extend(base64_of(&first, &digits)?);
    Ok(())
}

/// `digits`, which begin with `word`, as octets.
pub(super) fn base64_of(word: &Token<'_>, digits: &str) -> Result<Vec<u8>, PresentationError> {
    domain::utils::base64::decode(digits).map_err(|_| word.unlike("Base64"))
}

/// The octets of one word of hexadecimal digits.
pub(super) fn hex_of(word: &Token<'_>) -> Result<Vec<u8>, PresentationError> {
    let mut octets = Vec::new();
    hex(&mut octets, &mut Tokens::new(word.raw))?;
    Ok(octets)
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

/// RDATA in the generic form.
pub(super) fn generic_text(rdata: &[u8]) -> String {
    let mut text = format!("\\# {}", rdata.len());
    if !rdata.is_empty() {
        text.push(' ');
    }
    rdata.iter().for_each(|octet| _ = write!(text, "{octet:02x}"));
    text
}

fn generic(tokens: &mut Tokens<'_>) -> Result<Vec<u8>, PresentationError> {
    tokens.expect("\\#")?;
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
