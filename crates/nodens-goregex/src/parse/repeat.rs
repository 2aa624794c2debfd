//! `*`, `+`, `?` and `{…}`.

use super::Parser;
use crate::error::{Error, ErrorKind};
use crate::limits::REPETITIONS;

/// How often, as it is written.
struct Count {
    min: u32,
    /// `None` for any number.
    max: Option<u32>,
    /// Where the closing brace ends.
    end: usize,
}

impl Parser<'_> {
    /// Reads a repetition if one stands here.
    pub(super) fn repetition(&mut self, c: char) -> Result<bool, Error> {
        let begin = self.at;
        let (min, max) = match c {
            '*' => (0, None),
            '+' => (1, None),
            '?' => (0, Some(1)),
            '{' => {
                // A brace that counts nothing is a plain character.
                let Some(count) = count(self.rest()) else { return Ok(false) };
                self.at += count.end;
                let most = count.max.unwrap_or(count.min);
                if count.min > REPETITIONS || most > REPETITIONS || count.min > most {
                    let expected = "at most 1000, and the lower number first";
                    return Err(self.error(ErrorKind::RepeatCount, begin, expected));
                }
                (count.min, count.max)
            }
            _ => return Ok(false),
        };
        if c != '{' {
            self.at += 1;
        }
        let greedy = self.eat("?") == self.flags.lazy;
        if let Some(first) = self.repeated {
            let expected = "one operator, or parentheses around what is repeated";
            return Err(self.error(ErrorKind::NestedRepetition, first, expected));
        }
        let Some(part) = self.parts.pop() else {
            let expected = "something before it that is repeated, or a backslash";
            return Err(self.error(ErrorKind::MissingArgument, begin, expected));
        };
        let node = self.checked(part.repeat(min, max, greedy, c == '{'))?;
        if c == '{' && max.unwrap_or(min) >= 2 && node.repeats_too_often() {
            let expected = "at most 1000, multiplied with the repetitions inside";
            return Err(self.error(ErrorKind::RepeatCount, begin, expected));
        }
        self.parts.push(node);
        self.repeated = Some(begin);
        Ok(true)
    }
}

/// Reads `{2}`, `{2,}` or `{2,3}` from the front of a text.
fn count(text: &str) -> Option<Count> {
    let rest = text.strip_prefix('{')?;
    let (min, rest) = number(rest)?;
    let (max, rest) = match rest.strip_prefix(',') {
        None => (Some(min), rest),
        Some(rest) if rest.starts_with('}') => (None, rest),
        Some(rest) => {
            let (max, rest) = number(rest)?;
            (Some(max), rest)
        }
    };
    let rest = rest.strip_prefix('}')?;
    Some(Count { min, max, end: text.len() - rest.len() })
}

/// A number without a leading zero, and what follows it. One that is too large is the largest.
fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    let plain = !digits.is_empty() && (digits == "0" || !digits.starts_with('0'));
    plain.then(|| (digits.parse().unwrap_or(u32::MAX), rest))
}
