//! Values of literals.

use crate::ast::Kind;

/// The value of a number, all of whose characters the lexer has seen.
pub(super) fn number(text: &str) -> Option<Kind> {
    let digits = text.replace('_', "").to_ascii_lowercase();
    for (prefix, radix) in [("0x", 16), ("0b", 2), ("0o", 8)] {
        if let Some(digits) = digits.strip_prefix(prefix) {
            // An octal or binary number with a point or exponent is none.
            return i64::from_str_radix(digits, radix).ok().map(Kind::Int);
        }
    }
    if digits.contains(['.', 'e']) {
        return digits.parse().ok().filter(|value: &f64| value.is_finite()).map(Kind::Float);
    }
    digits.parse().ok().map(Kind::Int)
}

/// The value of a string between back quotes.
pub(super) fn raw_string(quoted: &str) -> Option<String> {
    Some(quoted.strip_prefix('`')?.strip_suffix('`')?.replace("``", "`"))
}

/// The value of a string with its quotes; `None` for a bad escape.
pub(super) fn string(quoted: &str) -> Option<String> {
    let inner = quoted.get(1..quoted.len().checked_sub(1)?)?;
    let mut value = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(next) = rest.chars().next() {
        rest = rest.get(next.len_utf8()..).unwrap_or_default();
        value.push(if next == '\\' { escape(&mut rest)? } else { next });
    }
    Some(value)
}

/// Takes what follows a backslash.
fn escape(rest: &mut &str) -> Option<char> {
    let kind = rest.chars().next()?;
    *rest = rest.get(kind.len_utf8()..).unwrap_or_default();
    match kind {
        'a' => Some('\x07'),
        'b' => Some('\x08'),
        'f' => Some('\x0c'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'v' => Some('\x0b'),
        '\\' | '\'' | '"' | '`' | '?' => Some(kind),
        'u' if rest.starts_with('{') => {
            let (digits, after) = rest[1..].split_once('}')?;
            *rest = after;
            if digits.len() > 6 { None } else { character(digits, 16) }
        }
        'x' | 'X' => take(rest, 2).and_then(|digits| character(digits, 16)),
        'u' => take(rest, 4).and_then(|digits| character(digits, 16)),
        'U' => take(rest, 8).and_then(|digits| character(digits, 16)),
        '0'..='3' => {
            let high = kind.to_digit(8)? * 64;
            let low = take(rest, 2).and_then(|digits| code(digits, 8))?;
            char::from_u32(high + low)
        }
        _ => None,
    }
}

fn take<'t>(rest: &mut &'t str, count: usize) -> Option<&'t str> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

fn code(digits: &str, radix: u32) -> Option<u32> {
    // Not a sign, which the standard library would take.
    let plain = digits.chars().all(|digit| digit.is_digit(radix));
    if plain { u32::from_str_radix(digits, radix).ok() } else { None }
}

/// The character of a code; a surrogate, which is none, is replaced as everywhere in Go.
fn character(digits: &str, radix: u32) -> Option<char> {
    match code(digits, radix)? {
        0xd800..=0xdfff => Some(char::REPLACEMENT_CHARACTER),
        code => char::from_u32(code),
    }
}
