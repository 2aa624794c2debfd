//! Groups and flags: `(…)`, `(?:…)`, `(?P<name>…)`, `(?<name>…)`, `(?i)` and `(?i:…)`.

use super::{Flags, Parser};
use crate::error::{Error, ErrorKind};
use crate::node::Node;

/// A group that is not closed yet: what was read before it, to go on with behind it.
pub(super) struct Open {
    /// Its number, if it has one.
    index: Option<u32>,
    /// The flags that hold again behind it.
    flags: Flags,
    alternatives: Vec<Node>,
    parts: Vec<Node>,
}

impl Parser<'_> {
    pub(super) fn open_group(&mut self) -> Result<(), Error> {
        let begin = self.at;
        self.at += 1;
        if !self.eat("?") {
            self.open_captured(None);
            return Ok(());
        }
        let named = ["P<", "<"].into_iter().find(|opening| {
            let rest = self.rest().strip_prefix(opening);
            rest.is_some_and(|rest| !rest.is_empty())
        });
        match named {
            Some(opening) => {
                self.at += opening.len();
                self.named(begin)
            }
            None => self.flags(begin),
        }
    }

    fn open(&mut self, index: Option<u32>) {
        self.open.push(Open {
            index,
            flags: self.flags,
            alternatives: std::mem::take(&mut self.alternatives),
            parts: std::mem::take(&mut self.parts),
        });
    }

    fn open_captured(&mut self, name: Option<&str>) {
        // The length of a pattern is far below the largest number.
        let index = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.map(Box::from));
        self.open(Some(index));
    }

    /// Behind `(?P<` or `(?<`.
    fn named(&mut self, begin: usize) -> Result<(), Error> {
        let expected = "a name of letters, digits and underscores, and `>`";
        let Some((name, _)) = self.rest().split_once('>') else {
            return Err(self.error_to_end(ErrorKind::NamedCapture, begin, expected));
        };
        self.at += name.len() + 1;
        if name.is_empty() || !name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric()) {
            return Err(self.error(ErrorKind::NamedCapture, begin, expected));
        }
        self.open_captured(Some(name));
        Ok(())
    }

    /// Behind `(?`: letters, and either `)` or a group without a number.
    fn flags(&mut self, begin: usize) -> Result<(), Error> {
        let mut flags = self.flags;
        let mut on = true;
        let mut any_off = false;
        while let Some(c) = self.bump() {
            let flag = match c {
                'i' => &mut flags.fold,
                'm' => &mut flags.lines,
                's' => &mut flags.dot_all,
                'U' => &mut flags.lazy,
                '-' if on => {
                    on = false;
                    continue;
                }
                ':' | ')' if on || any_off => {
                    if c == ':' {
                        self.open(None);
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            };
            *flag = on;
            any_off |= !on;
        }
        let expected = "`:`, a name such as `P<name>`, or flags out of i, m, s and U";
        Err(self.error(ErrorKind::PerlSyntax, begin, expected))
    }

    pub(super) fn close_group(&mut self) -> Result<(), Error> {
        let inner = self.close_alternatives()?;
        let Some(open) = self.open.pop() else {
            let kind = ErrorKind::UnexpectedParenthesis;
            return Err(self.error_to_end(kind, 0, "a `(` for each `)`"));
        };
        self.at += 1;
        self.flags = open.flags;
        self.alternatives = open.alternatives;
        self.parts = open.parts;
        self.push(match open.index {
            Some(index) => inner.group(index),
            None => inner,
        })
    }
}
