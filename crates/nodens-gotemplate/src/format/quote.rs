//! Go's quoted strings and characters.

use std::fmt::{self, Write};

/// Writes a string in double quotes; with `ascii`, everything beyond ASCII is escaped.
pub(crate) fn quote(text: &str, ascii: bool, out: &mut dyn Write) -> fmt::Result {
    out.write_char('"')?;
    for character in text.chars() {
        escape(character, '"', ascii, out)?;
    }
    out.write_char('"')
}

/// Writes a character in single quotes.
pub(super) fn quote_char(character: char, ascii: bool, out: &mut dyn Write) -> fmt::Result {
    out.write_char('\'')?;
    escape(character, '\'', ascii, out)?;
    out.write_char('\'')
}

fn escape(character: char, quote: char, ascii: bool, out: &mut dyn Write) -> fmt::Result {
    let code = u32::from(character);
    match character {
        '\\' => out.write_str("\\\\"),
        '\x07' => out.write_str("\\a"),
        '\x08' => out.write_str("\\b"),
        '\x0c' => out.write_str("\\f"),
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        '\x0b' => out.write_str("\\v"),
        _ if character == quote => write!(out, "\\{quote}"),
        _ if is_printable(character) && (!ascii || character.is_ascii()) => {
            out.write_char(character)
        }
        '\0'..='\x1f' | '\x7f' => write!(out, "\\x{code:02x}"),
        '\0'..='\u{ffff}' => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    }
}

/// Whether a character is shown as it is. Rust's own escaping decides, which Go's agrees with but for
/// characters that only one of the two knows. A letter in front keeps combining characters unescaped.
pub(crate) fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return matches!(character, ' '..='~');
    }
    let mut letters = [0; 5];
    letters[0] = b'a';
    let length = character.encode_utf8(&mut letters[1..]).len();
    std::str::from_utf8(&letters[..=length]).is_ok_and(|text| text.escape_debug().eq(text.chars()))
}

/// Whether a string can stand between back quotes.
pub(super) fn fits_back_quotes(text: &str) -> bool {
    text.chars().all(|character| {
        character == '\t' || !matches!(character, '\0'..='\x1f' | '`' | '\x7f' | '\u{feff}')
    })
}
