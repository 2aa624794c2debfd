//! Lines that need not be UTF-8, as text with columns.

/// A line as text: octets that are no ASCII become `\DDD`, which names read as the same octet.
pub(crate) fn printable(line: &[u8]) -> String {
    let mut text = String::with_capacity(line.len());
    let mut escaped = false;
    for octet in line {
        if octet.is_ascii() {
            text.push(char::from(*octet));
            escaped = *octet == b'\\' && !escaped;
        } else {
            // A backslash in front quotes this octet: the escape written here has one of its own.
            if escaped {
                text.pop();
            }
            text.push_str(&format!("\\{octet:03}"));
            escaped = false;
        }
    }
    text
}

/// The columns of a line with the octet each starts at, counted from 1.
pub(crate) fn columns(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let words = line.split_ascii_whitespace();
    words.map(|word| (word.as_ptr() as usize - line.as_ptr() as usize + 1, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_beyond_ascii_are_escaped_and_columns_counted_in_text() {
        assert_eq!(printable(b"a\xe9 \\\xe9\\\\\xff\\."), "a\\233 \\233\\\\\\255\\.");
        let columns: Vec<_> = columns(" \ta  bc\r").collect();
        assert_eq!(columns, [(3, "a"), (6, "bc")]);
    }
}
