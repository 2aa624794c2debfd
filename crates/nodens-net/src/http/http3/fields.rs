//! Fields as QPACK writes them without a dynamic table (RFC 9204).

use super::fixed;
use super::huffman;
use crate::limits::{HTTP_FIELDS_MAX, HTTP_HEAD_LEN_MAX};
use std::borrow::Cow;

/// What the size of each field has beside its name and value (RFC 9114 section 4.2.2).
const FIELD_COST: usize = 32;

/// Why fields are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// They cannot be read.
    Unreadable,
    /// They are more, or longer, than a request has.
    TooMany,
    /// They are those of no request.
    Malformed,
}

/// What the fields of a request say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) method: Vec<u8>,
    pub(super) path: Vec<u8>,
    /// `content-length`.
    pub(super) len: Option<u64>,
}

/// Reads the fields of a request (RFC 9114 section 4.3.1).
pub(super) fn read(block: &[u8]) -> Result<Head, Refusal> {
    let mut rest = block;
    // Whether anything of a dynamic table is needed, and from where it is counted.
    if integer(&mut rest, 8)? != 0 {
        return Err(Refusal::Unreadable);
    }
    integer(&mut rest, 7)?;
    let mut seen = Seen::default();
    let (mut count, mut size) = (0, 0);
    while !rest.is_empty() {
        let (name, value) = field(&mut rest)?;
        count += 1;
        size += name.len() + value.len() + FIELD_COST;
        if count > HTTP_FIELDS_MAX || size > HTTP_HEAD_LEN_MAX {
            return Err(Refusal::TooMany);
        }
        seen.take(&name, value).ok_or(Refusal::Malformed)?;
    }
    seen.into_head().ok_or(Refusal::Malformed)
}

type Text<'b> = Cow<'b, [u8]>;

/// The next field (RFC 9204 section 4.5).
fn field<'b>(rest: &mut &'b [u8]) -> Result<(Text<'b>, Text<'b>), Refusal> {
    let first = *rest.first().ok_or(Refusal::Unreadable)?;
    let of_table = |number: u64| {
        let known = usize::try_from(number).ok().and_then(|number| fixed::FIELDS.get(number));
        known.copied().ok_or(Refusal::Unreadable)
    };
    let fixed = |text: &'static str| Cow::Borrowed(text.as_bytes());
    if first & 0xc0 == 0xc0 {
        let (name, value) = of_table(integer(rest, 6)?)?;
        Ok((fixed(name), fixed(value)))
    } else if first & 0xd0 == 0x50 {
        let (name, _) = of_table(integer(rest, 4)?)?;
        Ok((fixed(name), text(rest, 7)?))
    } else if first & 0xe0 == 0x20 {
        Ok((text(rest, 3)?, text(rest, 7)?))
    } else {
        // There is nothing in the dynamic table.
        Err(Refusal::Unreadable)
    }
}

/// A text whose length has so many bits of the first octet, behind that which says whether it is coded.
fn text<'b>(rest: &mut &'b [u8], bits: u32) -> Result<Text<'b>, Refusal> {
    let first = *rest.first().ok_or(Refusal::Unreadable)?;
    let len = usize::try_from(integer(rest, bits)?).map_err(|_| Refusal::Unreadable)?;
    let (octets, behind) = rest.split_at_checked(len).ok_or(Refusal::Unreadable)?;
    *rest = behind;
    if first >> bits & 1 == 0 {
        return Ok(Cow::Borrowed(octets));
    }
    // One that is too long counts as one that cannot be read: there is more of it than there are octets.
    huffman::read(octets, 2 * HTTP_HEAD_LEN_MAX).map(Cow::Owned).ok_or(Refusal::Unreadable)
}

/// An integer with so many bits of the first octet (RFC 7541 section 5.1).
fn integer(rest: &mut &[u8], bits: u32) -> Result<u64, Refusal> {
    let (first, mut behind) = rest.split_first().ok_or(Refusal::Unreadable)?;
    let most = 0xff_u8 >> (8 - bits);
    let mut number = u64::from(first & most);
    if first & most == most {
        let mut shift = 0;
        loop {
            let (octet, next) = behind.split_first().ok_or(Refusal::Unreadable)?;
            behind = next;
            // What needs more is the number of nothing.
            if shift > 28 {
                return Err(Refusal::Unreadable);
            }
            number += u64::from(octet & 0x7f) << shift;
            shift += 7;
            if octet & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = behind;
    Ok(number)
}

/// What has been read of the fields of a request.
#[derive(Default)]
struct Seen<'b> {
    method: Option<Text<'b>>,
    scheme: Option<Text<'b>>,
    authority: Option<Text<'b>>,
    path: Option<Text<'b>>,
    host: Option<Text<'b>>,
    len: Option<u64>,
    /// A field that is not of the request line has come; none of that line comes behind it.
    has_others: bool,
}

impl<'b> Seen<'b> {
    /// Takes a field; none if there must not be such a one.
    fn take(&mut self, name: &[u8], value: Text<'b>) -> Option<()> {
        if value.iter().any(|octet| matches!(octet, 0 | b'\r' | b'\n')) {
            return None;
        }
        if name.first() == Some(&b':') {
            let place = match name {
                b":method" => &mut self.method,
                b":scheme" => &mut self.scheme,
                b":authority" => &mut self.authority,
                b":path" => &mut self.path,
                _ => return None,
            };
            let is_new = place.replace(value).is_none();
            return (is_new && !self.has_others).then_some(());
        }
        self.has_others = true;
        match name {
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => None,
            b"te" => (&*value == b"trailers").then_some(()),
            b"host" => self.host.replace(value).is_none().then_some(()),
            b"content-length" => {
                let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
                let len = std::str::from_utf8(&value).ok().filter(|_| is_number)?.parse().ok()?;
                (self.len.replace(len).unwrap_or(len) == len).then_some(())
            }
            _ => (!name.is_empty() && name.iter().all(|octet| is_of_name(*octet))).then_some(()),
        }
    }

    fn into_head(self) -> Option<Head> {
        let method = self.method?.into_owned();
        let is_connect = method == b"CONNECT";
        // It has neither (RFC 9114 section 4.4); everything else needs both.
        if is_connect != self.scheme.is_none() || is_connect != self.path.is_none() {
            return None;
        }
        if let (Some(host), Some(authority)) = (&self.host, &self.authority)
            && host != authority
        {
            return None;
        }
        let authority = self.authority.or(self.host)?;
        let path = self.path.map_or(b"/".to_vec(), Cow::into_owned);
        let is_path = path.first() == Some(&b'/') || (path == b"*" && method == b"OPTIONS");
        (!authority.is_empty() && is_path).then_some(Head { method, path, len: self.len })
    }
}

/// Whether names of fields have such octets: letters are small ones (RFC 9114 section 4.2).
fn is_of_name(octet: u8) -> bool {
    matches!(octet, b'a'..=b'z' | b'0'..=b'9') || b"!#$%&'*+-.^_`|~".contains(&octet)
}

/// Begins the fields of a response: nothing of a dynamic table, and the status.
pub(super) fn begin(status: &str, into: &mut Vec<u8>) {
    into.extend([0, 0]);
    put(":status", status.as_bytes(), into);
}

/// Writes a field.
pub(super) fn put(name: &str, value: &[u8], into: &mut Vec<u8>) {
    match fixed::find(name, value) {
        Some((number, true)) => return put_integer(0xc0, 6, usize::from(number), into),
        Some((number, false)) => put_integer(0x50, 4, usize::from(number), into),
        None => {
            put_integer(0x20, 3, name.len(), into);
            into.extend_from_slice(name.as_bytes());
        }
    }
    put_integer(0, 7, value.len(), into);
    into.extend_from_slice(value);
}

/// Writes an integer with so many bits of the first octet, beside `first`.
fn put_integer(first: u8, bits: u32, number: usize, into: &mut Vec<u8>) {
    let most = (1 << bits) - 1;
    if number < most {
        return into.push(first | number as u8);
    }
    into.push(first | most as u8);
    let mut rest = number - most;
    while rest >= 0x80 {
        into.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    into.push(rest as u8);
}
