//! Integers by their verbs.

use super::quote;
use super::verb::{Flags, repeat};
use std::fmt::{self, Write};

/// The verbs that integers take.
pub(super) const VERBS: &str = "vdboOxXcqU";

pub(super) fn write(
    magnitude: u64,
    negative: bool,
    verb: char,
    flags: &Flags,
    out: &mut dyn Write,
) -> fmt::Result {
    match verb {
        'c' => flags.pad(character(magnitude, negative).encode_utf8(&mut [0; 4]), out),
        'q' => {
            let mut quoted = String::new();
            quote::quote_char(character(magnitude, negative), flags.plus, &mut quoted)?;
            flags.pad(&quoted, out)
        }
        'U' => unicode(magnitude, negative, flags, out),
        _ => digits(magnitude, negative, verb, flags, out),
    }
}

fn character(magnitude: u64, negative: bool) -> char {
    let code = if negative { None } else { u32::try_from(magnitude).ok() };
    code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn unicode(magnitude: u64, negative: bool, flags: &Flags, out: &mut dyn Write) -> fmt::Result {
    // As in Go, a negative number shows as what its bits are without a sign.
    let code = if negative { magnitude.wrapping_neg() } else { magnitude };
    let least = flags.precision.unwrap_or(4).max(4);
    let mut text = format!("{code:X}");
    if text.len() < least {
        text.insert_str(0, &"0".repeat(least - text.len()));
    }
    text.insert_str(0, "U+");
    if flags.sharp && !negative {
        let shown = u32::try_from(code).ok().and_then(char::from_u32);
        if let Some(shown) = shown.filter(|shown| quote::is_printable(*shown)) {
            write!(text, " '{shown}'")?;
        }
    }
    Flags { zero: false, ..*flags }.pad(&text, out)
}

fn digits(
    magnitude: u64,
    negative: bool,
    verb: char,
    flags: &Flags,
    out: &mut dyn Write,
) -> fmt::Result {
    let unpadded = Flags { zero: false, ..*flags };
    let signed = negative || flags.plus || flags.space;
    let least = match flags.precision {
        Some(0) if magnitude == 0 => return unpadded.pad("", out),
        Some(least) => least,
        None if flags.zero && !flags.minus => {
            flags.width.unwrap_or(0).saturating_sub(usize::from(signed))
        }
        None => 0,
    };
    let (digits, prefix) = match verb {
        'b' => (format!("{magnitude:b}"), if flags.sharp { "0b" } else { "" }),
        'o' => (format!("{magnitude:o}"), ""),
        'O' => (format!("{magnitude:o}"), "0o"),
        'x' => (format!("{magnitude:x}"), if flags.sharp { "0x" } else { "" }),
        'X' => (format!("{magnitude:X}"), if flags.sharp { "0X" } else { "" }),
        _ => (magnitude.to_string(), ""),
    };
    let mut text = String::new();
    match (negative, flags.plus, flags.space) {
        (true, _, _) => text.push('-'),
        (_, true, _) => text.push('+'),
        (_, _, true) => text.push(' '),
        _ => {}
    }
    text.push_str(prefix);
    let zeros = least.saturating_sub(digits.len());
    let octal_sign = flags.sharp && matches!(verb, 'o' | 'O') && zeros == 0;
    if octal_sign && !digits.starts_with('0') {
        text.push('0');
    }
    repeat('0', zeros, &mut text)?;
    text.push_str(&digits);
    unpadded.pad(&text, out)
}
