//! `printf`: a format and the values it shows.

use super::verb::{self, Flags};
use crate::limits;
use crate::value::Value;
use std::fmt::{self, Write};

/// Go's `Sprintf`. Fails only when `out` does, or beyond [`limits::PRINTF_WIDTH`].
pub(crate) fn printf(pattern: &str, values: &[Value<'_>], out: &mut dyn Write) -> fmt::Result {
    let mut printer = Printer {
        rest: pattern,
        values,
        at: 0,
        reordered: false,
        good_index: true,
        numbered: false,
    };
    while let Some((text, after)) = printer.rest.split_once('%') {
        out.write_str(text)?;
        printer.rest = after;
        printer.directive(out)?;
    }
    out.write_str(printer.rest)?;
    printer.extra(out)
}

struct Printer<'p, 'v, 'a> {
    /// What follows the last `%` or what was taken behind it.
    rest: &'p str,
    values: &'v [Value<'a>],
    /// The value to show next.
    at: usize,
    /// Whether any directive chose its value by number.
    reordered: bool,
    good_index: bool,
    /// Whether a number stands behind width or precision and still waits for what it numbers.
    numbered: bool,
}

impl<'a> Printer<'_, '_, 'a> {
    fn accept(&mut self, wanted: char) -> bool {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// What stands between `%` and the verb, and the verb.
    fn directive(&mut self, out: &mut dyn Write) -> fmt::Result {
        let mut flags = Flags::default();
        loop {
            match self.rest.chars().next() {
                Some('#') => flags.sharp = true,
                Some('0') => flags.zero = true,
                Some('+') => flags.plus = true,
                Some('-') => flags.minus = true,
                Some(' ') => flags.space = true,
                _ => break,
            }
            self.rest = &self.rest[1..];
        }
        self.good_index = true;
        self.numbered = false;
        self.index();
        self.width(&mut flags, out)?;
        self.precision(&mut flags, out)?;
        if !self.numbered {
            self.index();
        }
        let Some(verb) = self.rest.chars().next() else {
            return out.write_str("%!(NOVERB)");
        };
        self.rest = &self.rest[verb.len_utf8()..];
        self.show(verb, flags, out)
    }

    fn width(&mut self, flags: &mut Flags, out: &mut dyn Write) -> fmt::Result {
        if self.accept('*') {
            flags.width = None;
            match self.star() {
                Some(width) => {
                    flags.minus |= width < 0;
                    flags.width = Some(bounded(width.unsigned_abs())?);
                }
                None => out.write_str("%!(BADWIDTH)")?,
            }
            self.numbered = false;
            return Ok(());
        }
        flags.width = self.number()?;
        if flags.width.is_some() && self.numbered {
            // A number in brackets must stand directly before what it numbers.
            self.good_index = false;
        }
        Ok(())
    }

    fn precision(&mut self, flags: &mut Flags, out: &mut dyn Write) -> fmt::Result {
        if !self.accept('.') {
            return Ok(());
        }
        if self.numbered {
            self.good_index = false;
        }
        self.index();
        if self.accept('*') {
            match self.star() {
                Some(precision) if precision >= 0 => {
                    flags.precision = Some(bounded(precision.unsigned_abs())?);
                }
                // As in Go, a negative precision counts as none.
                Some(_) => {}
                None => out.write_str("%!(BADPREC)")?,
            }
            self.numbered = false;
            return Ok(());
        }
        flags.precision = Some(self.number()?.unwrap_or(0));
        Ok(())
    }

    fn show(&mut self, verb: char, mut flags: Flags, out: &mut dyn Write) -> fmt::Result {
        if verb == '%' {
            return out.write_char('%');
        }
        if !self.good_index {
            return write!(out, "%!{verb}(BADINDEX)");
        }
        let Some(value) = self.values.get(self.at) else {
            return write!(out, "%!{verb}(MISSING)");
        };
        self.at += 1;
        match verb {
            'T' => flags.pad(value.type_name(), out),
            'v' => {
                flags.sharp_v = std::mem::take(&mut flags.sharp);
                flags.plus &= !matches!(value, Value::Str(_) | Value::List(_) | Value::Map(_));
                if !flags.sharp_v {
                    // `%+v` asks for the names of fields, not for a sign.
                    flags.plus = false;
                }
                verb::write(value, 'v', &flags, out)
            }
            _ => verb::write(value, verb, &flags, out),
        }
    }

    /// The next value as an integer, for `*`.
    fn star(&mut self) -> Option<i64> {
        let value = self.values.get(self.at)?;
        self.at += 1;
        match value {
            Value::Int(value) => Some(*value),
            Value::Uint(value) => i64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// Decimal digits.
    fn number(&mut self) -> Result<Option<usize>, fmt::Error> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(digits);
        self.rest = rest;
        if digits.is_empty() {
            return Ok(None);
        }
        digits.parse().map_err(|_| fmt::Error).and_then(bounded).map(Some)
    }

    /// `[n]`: the number, from 1, of the value to show next.
    fn index(&mut self) {
        let Some(inner) = self.rest.strip_prefix('[') else {
            return;
        };
        self.reordered = true;
        let Some((digits, rest)) = inner.split_once(']') else {
            self.good_index = false;
            self.rest = inner;
            return;
        };
        self.rest = rest;
        let number: Option<usize> = digits.parse().ok();
        match number.and_then(|number| number.checked_sub(1)) {
            Some(at) if at < self.values.len() => {
                self.at = at;
                self.numbered = true;
            }
            _ => self.good_index = false,
        }
    }

    /// Values that no directive showed.
    fn extra(&self, out: &mut dyn Write) -> fmt::Result {
        let extra = self.values.get(self.at..).unwrap_or_default();
        if self.reordered || extra.is_empty() {
            return Ok(());
        }
        out.write_str("%!(EXTRA ")?;
        for (position, value) in extra.iter().enumerate() {
            if position > 0 {
                out.write_str(", ")?;
            }
            match value {
                Value::Missing | Value::Nil => out.write_str("<nil>")?,
                value => verb::typed(value, &Flags::default(), out)?,
            }
        }
        out.write_char(')')
    }
}

fn bounded(number: u64) -> Result<usize, fmt::Error> {
    usize::try_from(number).ok().filter(|number| *number <= limits::PRINTF_WIDTH).ok_or(fmt::Error)
}
