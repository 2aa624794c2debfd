//! Values as text, by the rules of Go's `fmt`.

mod float;
mod integer;
pub(crate) mod printf;
pub(crate) mod quote;
mod verb;

use crate::value::Value;
use std::fmt::{self, Write};
use verb::Flags;

/// A string that does not grow beyond a limit; writing more fails.
pub(crate) struct Limited<'o> {
    text: &'o mut String,
    end: usize,
    full: bool,
}

impl<'o> Limited<'o> {
    /// `end` is the most bytes that the string may hold.
    pub(crate) fn new(text: &'o mut String, end: usize) -> Self {
        Self { text, end, full: false }
    }

    /// Whether something did not fit.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Notes that something did not fit, whatever it was.
    pub(crate) fn set_full(&mut self) {
        self.full = true;
    }

    /// How many bytes still fit.
    pub(crate) fn room(&self) -> usize {
        self.end.saturating_sub(self.text.len())
    }
}

impl Write for Limited<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() > self.room() {
            self.full = true;
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// Writes what an action shows for its value.
pub(crate) fn action(value: &Value<'_>, out: &mut dyn Write) -> fmt::Result {
    match value {
        Value::Str(text) => out.write_str(text),
        Value::Missing | Value::Nil => out.write_str("<no value>"),
        _ => verb::write(value, 'v', &Flags::default(), out),
    }
}

/// Go's `Sprint`: a space between two values of which neither is a string.
pub(crate) fn print(values: &[Value<'_>], out: &mut dyn Write) -> fmt::Result {
    spaced(values, out, |value, out| verb::write(value, 'v', &Flags::default(), out))
}

/// Like [`print()`], with values that are missing shown as an action shows them.
pub(crate) fn print_shown(values: &[Value<'_>], out: &mut dyn Write) -> fmt::Result {
    spaced(values, out, action)
}

fn spaced(
    values: &[Value<'_>],
    out: &mut dyn Write,
    write: impl Fn(&Value<'_>, &mut dyn Write) -> fmt::Result,
) -> fmt::Result {
    // As in Go, no space before the first value.
    let mut after_string = true;
    for value in values {
        let string = matches!(value, Value::Str(_));
        if !string && !after_string {
            out.write_char(' ')?;
        }
        write(value, out)?;
        after_string = string;
    }
    Ok(())
}

/// Go's `Sprintln`: a space between all values and a newline at the end.
pub(crate) fn println(values: &[Value<'_>], out: &mut dyn Write) -> fmt::Result {
    for (position, value) in values.iter().enumerate() {
        if position > 0 {
            out.write_char(' ')?;
        }
        verb::write(value, 'v', &Flags::default(), out)?;
    }
    out.write_char('\n')
}
