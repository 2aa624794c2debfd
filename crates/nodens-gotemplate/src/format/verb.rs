//! One value by one verb.

use super::{float, integer, quote};
use crate::value::{Shape, Value};
use std::borrow::Cow;
use std::fmt::{self, Write};

/// What may stand between `%` and the verb.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flags {
    pub(super) plus: bool,
    pub(super) minus: bool,
    pub(super) sharp: bool,
    pub(super) space: bool,
    pub(super) zero: bool,
    /// `%#v`
    pub(super) sharp_v: bool,
    pub(super) width: Option<usize>,
    pub(super) precision: Option<usize>,
}

impl Flags {
    /// Writes text with the padding it lacks to the width.
    pub(super) fn pad(&self, text: &str, out: &mut dyn Write) -> fmt::Result {
        let missing = self.width.unwrap_or(0).saturating_sub(text.chars().count());
        if self.minus {
            out.write_str(text)?;
            return repeat(' ', missing, out);
        }
        repeat(if self.zero { '0' } else { ' ' }, missing, out)?;
        out.write_str(text)
    }
}

pub(super) fn repeat(character: char, count: usize, out: &mut dyn Write) -> fmt::Result {
    (0..count).try_for_each(|_| out.write_char(character))
}

/// Writes a value by a verb other than `%T`.
pub(super) fn write(
    value: &Value<'_>,
    verb: char,
    flags: &Flags,
    out: &mut dyn Write,
) -> fmt::Result {
    match value {
        Value::Missing | Value::Nil if verb == 'v' => flags.pad("<nil>", out),
        Value::NilObject if matches!(verb, 'v' | 's') => out.write_str("<nil>"),
        Value::Bool(value) if matches!(verb, 't' | 'v') => {
            flags.pad(if *value { "true" } else { "false" }, out)
        }
        Value::Int(value) if integer::VERBS.contains(verb) => {
            integer::write(value.unsigned_abs(), *value < 0, verb, flags, out)
        }
        Value::Uint(value) if verb == 'v' && flags.sharp_v => write!(out, "{value:#x}"),
        Value::Uint(value) if integer::VERBS.contains(verb) => {
            integer::write(*value, false, verb, flags, out)
        }
        Value::Float(value) if float::VERBS.contains(verb) => {
            float::write(*value, verb, flags, out)
        }
        Value::Str(text) if STRING_VERBS.contains(verb) => string(text, verb, flags, out),
        Value::Object(object) if object.shape() == Shape::Struct => {
            if !STRING_VERBS.contains(verb) {
                return bad(value, verb, flags, out);
            }
            let mut text = String::new();
            object.print(&mut super::Limited::new(&mut text, crate::limits::OUTPUT_BYTES))?;
            string(&text, verb, &Flags { sharp_v: false, ..*flags }, out)
        }
        Value::List(_) | Value::Map(_) | Value::Object(_) if verb != 'w' => {
            elements(value, verb, flags, out)
        }
        _ => bad(value, verb, flags, out),
    }
}

/// A verb that does not go with the value's type.
fn bad(value: &Value<'_>, verb: char, flags: &Flags, out: &mut dyn Write) -> fmt::Result {
    write!(out, "%!{verb}(")?;
    match value {
        Value::Missing | Value::Nil | Value::NilObject => out.write_str("<nil>")?,
        _ => typed(value, flags, out)?,
    }
    out.write_char(')')
}

/// `type=value`.
pub(super) fn typed(value: &Value<'_>, flags: &Flags, out: &mut dyn Write) -> fmt::Result {
    write!(out, "{}=", value.type_name())?;
    write(value, 'v', flags, out)
}

/// A list or map, each element by the verb.
fn elements(value: &Value<'_>, verb: char, flags: &Flags, out: &mut dyn Write) -> fmt::Result {
    let map = value.shape() == Some(Shape::Map);
    let (open, separator, close) = match (flags.sharp_v, map) {
        (true, _) => ("{", ", ", '}'),
        (false, true) => ("map[", " ", ']'),
        (false, false) => ("[", " ", ']'),
    };
    if flags.sharp_v {
        out.write_str(value.type_name())?;
    }
    out.write_str(open)?;
    for position in 0..value.len().unwrap_or(0) {
        let Some((key, element)) = value.element(position) else { break };
        if position > 0 {
            out.write_str(separator)?;
        }
        if map {
            write(&key, verb, flags, out)?;
            out.write_char(':')?;
        }
        match element {
            Value::Missing | Value::Nil if flags.sharp_v => out.write_str("interface {}(nil)")?,
            Value::Missing | Value::Nil => out.write_str("<nil>")?,
            element => write(&element, verb, flags, out)?,
        }
    }
    out.write_char(close)
}

const STRING_VERBS: &str = "vsqxX";

fn string(text: &str, verb: char, flags: &Flags, out: &mut dyn Write) -> fmt::Result {
    if matches!(verb, 'x' | 'X') {
        return hex(text, verb == 'X', flags, out);
    }
    let text = match flags.precision {
        Some(most) => match text.char_indices().nth(most) {
            Some((end, _)) => text.get(..end).unwrap_or(text),
            None => text,
        },
        None => text,
    };
    if verb != 'q' && !flags.sharp_v {
        return flags.pad(text, out);
    }
    let mut quoted = String::new();
    if flags.sharp && quote::fits_back_quotes(text) {
        quoted = format!("`{text}`");
    } else {
        quote::quote(text, flags.plus, &mut quoted)?;
    }
    flags.pad(&quoted, out)
}

/// The bytes of a string; the precision is the most bytes shown.
fn hex(text: &str, upper: bool, flags: &Flags, out: &mut dyn Write) -> fmt::Result {
    let shown = flags.precision.unwrap_or(text.len()).min(text.len());
    let prefix = match (flags.sharp, upper) {
        (false, _) => "",
        (true, false) => "0x",
        (true, true) => "0X",
    };
    let mut digits = String::with_capacity(shown.saturating_mul(2));
    for (position, byte) in text.bytes().take(shown).enumerate() {
        if flags.space && position > 0 {
            digits.push(' ');
        }
        if flags.space || position == 0 {
            digits.push_str(prefix);
        }
        let byte: Cow<'_, str> =
            if upper { format!("{byte:02X}").into() } else { format!("{byte:02x}").into() };
        digits.push_str(&byte);
    }
    flags.pad(&digits, out)
}
