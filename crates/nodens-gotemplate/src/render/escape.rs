//! `html`, `js` and `urlquery`.

use super::builtin::printed;
use crate::format::{Limited, quote};
use crate::value::Value;
use std::fmt::{self, Write};

pub(super) fn html(values: &[Value<'_>], out: &mut Limited<'_>) -> fmt::Result {
    for character in printed(values, out.room())?.chars() {
        match character {
            '\0' => out.write_char('\u{fffd}')?,
            '"' => out.write_str("&#34;")?,
            '\'' => out.write_str("&#39;")?,
            '&' => out.write_str("&amp;")?,
            '<' => out.write_str("&lt;")?,
            '>' => out.write_str("&gt;")?,
            other => out.write_char(other)?,
        }
    }
    Ok(())
}

pub(super) fn js(values: &[Value<'_>], out: &mut Limited<'_>) -> fmt::Result {
    for character in printed(values, out.room())?.chars() {
        match character {
            '\\' | '\'' | '"' => write!(out, "\\{character}")?,
            '<' | '>' | '&' | '=' | '\0'..=' ' if character != ' ' => {
                write!(out, "\\u{:04X}", u32::from(character))?;
            }
            other if other.is_ascii() || quote::is_printable(other) => out.write_char(other)?,
            other => write!(out, "\\u{:04X}", u32::from(other))?,
        }
    }
    Ok(())
}

pub(super) fn urlquery(values: &[Value<'_>], out: &mut Limited<'_>) -> fmt::Result {
    for byte in printed(values, out.room())?.bytes() {
        match byte {
            b' ' => out.write_char('+')?,
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'.' | b'~' => {
                out.write_char(char::from(byte))?;
            }
            _ => write!(out, "%{byte:02X}")?,
        }
    }
    Ok(())
}
