//! Floats by their verbs.

use super::verb::{Flags, repeat};
use std::fmt::{self, Write};

/// The verbs that floats take.
pub(super) const VERBS: &str = "veEfFgG";

pub(super) fn write(value: f64, verb: char, flags: &Flags, out: &mut dyn Write) -> fmt::Result {
    let flags = Flags { zero: flags.zero && value.is_finite(), ..*flags };
    let negative = value.is_sign_negative() && !value.is_nan();
    let digits = digits(value.abs(), verb, &flags);
    let sign = match (negative, flags.plus, flags.space) {
        (true, _, _) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    };
    // Zeros go between a written sign and the digits; a space counts as digit, as in Go.
    if flags.zero && !flags.minus && matches!(sign, "-" | "+" | " ") {
        let length = sign.len() + digits.len();
        out.write_str(sign)?;
        repeat('0', flags.width.unwrap_or(0).saturating_sub(length), out)?;
        return out.write_str(&digits);
    }
    flags.pad(&format!("{sign}{digits}"), out)
}

/// The digits of a number that is not negative.
fn digits(value: f64, verb: char, flags: &Flags) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if flags.plus { "Inf" } else { "+Inf" }.to_owned();
    }
    let mut text = match verb {
        'e' | 'E' => exponent(&format!("{value:.*e}", flags.precision.unwrap_or(6))),
        'f' | 'F' => format!("{value:.*}", flags.precision.unwrap_or(6)),
        _ => general(value, flags.precision),
    };
    if flags.sharp {
        text = keep_zeros(text, verb, flags);
    }
    if matches!(verb, 'E' | 'G') { text.to_uppercase() } else { text }
}

/// The shortest digits that tell the number apart, or as many as the precision says.
fn general(value: f64, precision: Option<usize>) -> String {
    let scientific = match precision {
        None => format!("{value:e}"),
        Some(precision) => format!("{value:.*e}", precision.max(1) - 1),
    };
    let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i64 = power.parse().unwrap_or(0);
    let significant = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let most = match precision {
        None => 6,
        Some(precision) => {
            // Zeros at the end do not count.
            let digits = mantissa.trim_end_matches('0').trim_end_matches('.');
            let used = digits.bytes().filter(u8::is_ascii_digit).count();
            let whole = usize::try_from(power + 1).unwrap_or(0);
            let precision = precision.max(1);
            if precision > used && used >= whole { used } else { precision }
        }
    };
    if power < -4 || power >= i64::try_from(most).unwrap_or(i64::MAX) {
        return exponent(&format!("{}e{power}", trim_zeros(mantissa)));
    }
    // As many digits behind the point as are significant and not before it.
    let behind = i64::try_from(significant).unwrap_or(0) - 1 - power;
    trim_zeros(&format!("{value:.*}", usize::try_from(behind).unwrap_or(0))).to_owned()
}

/// Removes zeros at the end behind the point, and the point with them.
fn trim_zeros(digits: &str) -> &str {
    if !digits.contains('.') {
        return digits;
    }
    digits.trim_end_matches('0').trim_end_matches('.')
}

/// Go writes the exponent with a sign and at least two digits.
fn exponent(scientific: &str) -> String {
    let (mantissa, power) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let (sign, digits) = match power.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', power),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// The flag `#`: a point in any case, and zeros up to the precision of `%g`.
fn keep_zeros(text: String, verb: char, flags: &Flags) -> String {
    let mut missing = match verb {
        'v' | 'g' | 'G' => flags.precision.unwrap_or(6),
        _ => 0,
    };
    let (digits, power) = match text.find('e') {
        Some(at) => text.split_at(at),
        None => (text.as_str(), ""),
    };
    let significant = digits.trim_start_matches(['0', '.']);
    missing = missing.saturating_sub(significant.bytes().filter(u8::is_ascii_digit).count());
    let mut kept = digits.to_owned();
    if !digits.contains('.') {
        if digits == "0" {
            missing = missing.saturating_sub(1);
        }
        kept.push('.');
    }
    kept.push_str(&"0".repeat(missing));
    kept + power
}
