//! Values of literals, by the rules of Go's literals.

use crate::ast::Number;

/// The value of a string literal with its quotes; `None` for a bad escape or bytes that are no UTF-8.
pub(super) fn string(quoted: &str) -> Option<String> {
    if let Some(raw) = quoted.strip_prefix('`') {
        return Some(raw.strip_suffix('`')?.replace('\r', ""));
    }
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while !rest.is_empty() {
        match unit(&mut rest, '"')? {
            Unit::Byte(byte) => bytes.push(byte),
            Unit::Char(character) => {
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// The value of a character literal with its quotes.
pub(super) fn character(quoted: &str) -> Option<Number> {
    let mut rest = quoted.strip_prefix('\'')?.strip_suffix('\'')?;
    let value = match unit(&mut rest, '\'')? {
        Unit::Byte(byte) => u32::from(byte),
        Unit::Char(character) => u32::from(character),
    };
    rest.is_empty().then(|| Number {
        text: quoted.to_owned(),
        int: Some(i64::from(value)),
        float: Some(f64::from(value)),
        is_float: false,
    })
}

enum Unit {
    /// An escape that stands for a byte, not for a character.
    Byte(u8),
    Char(char),
}

/// Takes one character or escape.
fn unit(rest: &mut &str, quote: char) -> Option<Unit> {
    let mut characters = rest.chars();
    let first = characters.next()?;
    if first != '\\' {
        *rest = characters.as_str();
        return (first != quote).then_some(Unit::Char(first));
    }
    let escape = characters.next()?;
    *rest = characters.as_str();
    let byte = match escape {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        escape if escape == quote => return Some(Unit::Char(quote)),
        'x' => u8::try_from(digits(rest, 2, 16)?).ok()?,
        'u' => return char::from_u32(digits(rest, 4, 16)?).map(Unit::Char),
        'U' => return char::from_u32(digits(rest, 8, 16)?).map(Unit::Char),
        '0'..='7' => {
            let high = escape.to_digit(8)?;
            u8::try_from(high * 64 + digits(rest, 2, 8)?).ok()?
        }
        _ => return None,
    };
    Some(Unit::Byte(byte))
}

fn digits(rest: &mut &str, count: usize, radix: u32) -> Option<u32> {
    let (digits, after) = rest.split_at_checked(count)?;
    *rest = after;
    digits
        .chars()
        .try_fold(0u32, |value, digit| Some(value.wrapping_mul(radix) + digit.to_digit(radix)?))
}

/// The values of a number literal; `None` if it is none or does not fit.
pub(super) fn number(text: &str) -> Option<Number> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let hex = text.len() > 2 && (text.starts_with("0x") || text.starts_with("0X"));
    let hex_int = hex && !text.contains(['p', 'P']);
    let float_sign = text.contains(['.', 'e', 'E', 'p', 'P']);
    let sign = if negative { -1.0 } else { 1.0 };
    let (int, float) = if let Some(value) = parse_uint(unsigned, 0, 64).ok().map(i128::from) {
        let value = if negative { -value } else { value };
        #[expect(clippy::cast_precision_loss, reason = "what Go does with a large literal")]
        let float = value as f64;
        // Go takes no sign on a number that needs all 64 bits.
        if i64::try_from(value).is_err() && unsigned.len() != text.len() {
            return None;
        }
        (i64::try_from(value).ok(), float)
    } else {
        // A number with digits only that is no integer is too large for one.
        let float = sign * if float_sign { float(unsigned)? } else { return None };
        (exact_int(float), float)
    };
    let is_float = float_sign && !hex_int;
    Some(Number { text: text.to_owned(), int, float: Some(float), is_float })
}

/// The integer that a float is, if it is one within the range of Go's `int`.
fn exact_int(float: f64) -> Option<i64> {
    // The largest float below 2^63; the range's lower end is a float itself.
    const END: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
    (float.fract() == 0.0 && (-END..END).contains(&float)).then_some(float as i64)
}

fn float(text: &str) -> Option<f64> {
    if text.starts_with("0x") || text.starts_with("0X") {
        return hex_float(&text[2..]);
    }
    if !underscores_separate(text) {
        return None;
    }
    let text = text.replace('_', "");
    // Rust also reads words such as `inf`; the lexer lets none through.
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

fn hex_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let mut exponent: i32 = exponent.parse().ok()?;
    let mut value: f64 = 0.0;
    let mut seen_point = false;
    for digit in mantissa.replace('_', "").chars() {
        if digit == '.' {
            seen_point = true;
            continue;
        }
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
        exponent = exponent.checked_sub(if seen_point { 4 } else { 0 })?;
    }
    let value = value * 2f64.powi(exponent);
    value.is_finite().then_some(value)
}

/// Why [`parse_uint`] gives no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UintError {
    Base,
    Bits,
    Syntax,
    Range,
}

/// Go's `strconv.ParseUint`: base 0 goes by the prefix, 0 bits are 64.
pub(crate) fn parse_uint(text: &str, base: i64, bits: i64) -> Result<u64, UintError> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match base {
        2..=36 => (lower.as_str(), u32::try_from(base).map_err(|_| UintError::Base)?),
        0 if !underscores_separate(&lower) => return Err(UintError::Syntax),
        0 => prefix(&lower),
        _ => return Err(UintError::Base),
    };
    let bits = match bits {
        0 => 64,
        1..=64 => u32::try_from(bits).map_err(|_| UintError::Bits)?,
        _ => return Err(UintError::Bits),
    };
    let mut value: Option<u64> = Some(0);
    let mut any = false;
    for digit in digits.chars().filter(|&digit| base != 0 || digit != '_') {
        any = true;
        let digit = digit.to_digit(radix).ok_or(UintError::Syntax)?;
        value = value
            .and_then(|value| value.checked_mul(u64::from(radix)))
            .and_then(|value| value.checked_add(u64::from(digit)));
    }
    if !any {
        return Err(UintError::Syntax);
    }
    value.filter(|value| *value <= u64::MAX >> (64 - bits)).ok_or(UintError::Range)
}

/// Splits a prefix that tells the base from the digits, all in lower case.
fn prefix(text: &str) -> (&str, u32) {
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return (digits, radix);
        }
    }
    match text.strip_prefix('0') {
        Some(digits) if !digits.is_empty() => (digits, 8),
        _ => (text, 10),
    }
}

/// Whether underscores stand only between digits, or between a prefix and a digit.
fn underscores_separate(text: &str) -> bool {
    let digits = match text.get(..2) {
        Some("0x" | "0o" | "0b") => &text[1..],
        _ => text,
    };
    let bytes = digits.as_bytes();
    bytes.iter().enumerate().all(|(at, &byte)| {
        let alphanumeric = |at: Option<usize>| {
            at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_alphanumeric)
        };
        byte != b'_' || (alphanumeric(at.checked_sub(1)) && alphanumeric(at.checked_add(1)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_types_they_can_have() {
        let ints = |text| number(text).map(|number| (number.int, number.is_float));
        assert_eq!(ints("1e3"), Some((Some(1000), true)));
        assert_eq!(ints("1.5"), Some((None, true)));
        assert_eq!(ints("0x1e"), Some((Some(30), false)));
        assert_eq!(ints("18446744073709551615"), Some((None, false)));
        assert_eq!(ints("-18446744073709551615"), None);
        assert_eq!(ints("18446744073709551616"), None);
        assert_eq!(ints("089"), None);
        assert_eq!(ints("."), None);
        assert_eq!(ints("-"), None);
    }

    #[test]
    fn parse_uint_tells_why_not() {
        assert_eq!(parse_uint("256", 10, 8), Err(UintError::Range));
        assert_eq!(parse_uint("", 10, 8), Err(UintError::Syntax));
        assert_eq!(parse_uint("1", 1, 8), Err(UintError::Base));
        assert_eq!(parse_uint("1", 10, 65), Err(UintError::Bits));
        assert_eq!(parse_uint("999999999999999999999z", 10, 64), Err(UintError::Syntax));
        assert_eq!(parse_uint("FF", 16, 8), Ok(255));
    }
}
