//! Lines put together to entries: one that ends within parentheses or quotes goes on with the next.

use super::MasterFault;
use crate::limits::MASTER_ENTRY_LEN_MAX;
use std::borrow::Cow;
use std::fmt::Write;
use std::io::{BufRead, Read};

/// A text that is read line by line.
pub(super) struct Lines {
    text: Box<dyn BufRead>,
    /// Lines before the entry.
    before: usize,
    /// Lines of the entry.
    own: usize,
}

impl Lines {
    pub(super) fn new(text: Box<dyn BufRead>) -> Self {
        Self { text, before: 0, own: 0 }
    }

    /// The line at which the entry begins, from 1.
    pub(super) fn line(&self) -> usize {
        self.before + 1
    }

    /// Appends the lines of the next entry to `entry`; false if there are none.
    pub(super) fn next_entry(&mut self, entry: &mut Vec<u8>) -> Result<bool, MasterFault> {
        self.before += self.own;
        self.own = 0;
        let mut state = State::default();
        loop {
            let start = entry.len();
            // One octet more than there may be.
            let room = (MASTER_ENTRY_LEN_MAX + 1).saturating_sub(start);
            let mut text = (&mut self.text).take(room as u64);
            let read = text.read_until(b'\n', entry);
            read.map_err(|error| MasterFault::Read(error.to_string()))?;
            if entry.len() > MASTER_ENTRY_LEN_MAX {
                return Err(MasterFault::TooLong);
            }
            // Some editors put it in front of a text. It says nothing about names.
            if self.before + self.own == 0 && entry.starts_with(BYTE_ORDER_MARK) {
                entry.drain(..BYTE_ORDER_MARK.len());
            }
            let line = entry.get(start..).unwrap_or_default();
            if line.is_empty() {
                return Ok(start > 0);
            }
            self.own += 1;
            state.pass(line);
            if !state.quoted && state.open == 0 {
                return Ok(true);
            }
        }
    }
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// What a line leaves open.
#[derive(Default)]
struct State {
    quoted: bool,
    open: usize,
}

impl State {
    fn pass(&mut self, line: &[u8]) {
        let mut escaped = false;
        for octet in line {
            match octet {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => self.quoted = !self.quoted,
                _ if self.quoted => {}
                b';' => return,
                b'(' => self.open += 1,
                b')' => self.open = self.open.saturating_sub(1),
                _ => {}
            }
        }
    }
}

/// Whether there is nothing in an entry but space and a comment.
pub(super) fn is_blank(entry: &[u8]) -> bool {
    let first = entry.iter().find(|octet| !octet.is_ascii_whitespace());
    first.is_none_or(|octet| *octet == b';')
}

/// An entry as text. If it is none, each octet that is no character of ASCII becomes an escape, which
/// means the same in names and texts.
pub(super) fn as_text(entry: &[u8]) -> Cow<'_, str> {
    let (line, rest) = match std::str::from_utf8(entry) {
        Ok(text) => return Cow::Borrowed(text),
        Err(_) => (String::with_capacity(2 * entry.len()), entry),
    };
    Cow::Owned(rest.iter().fold(line, |mut line, octet| {
        if octet.is_ascii() {
            line.push(char::from(*octet));
        } else {
            // Writing to a String cannot fail.
            _ = write!(line, "\\{octet:03}");
        }
        line
    }))
}
