//! Reads a pattern from front to back, without recursion: open groups wait on a stack.

mod class;
mod escape;
mod group;
mod repeat;

use crate::error::{Error, ErrorKind, Part};
use crate::limits::NESTING;
use crate::node::Node;
use crate::sets;
use group::Open;
use regex_syntax::hir::{Class, ClassUnicode, Dot, Hir, HirKind, Look};

/// The names of the groups, number 0 among them.
pub(crate) type Names = Vec<Option<Box<str>>>;

/// What `(?…)` turns on and off.
#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    /// `i`: letter case does not matter.
    fold: bool,
    /// `m`: `^` and `$` match at lines, not only at the ends of the text.
    lines: bool,
    /// `s`: `.` matches the end of a line.
    dot_all: bool,
    /// `U`: repetitions prefer few, and those with `?` many.
    lazy: bool,
}

struct Parser<'p> {
    text: &'p str,
    /// The next octet.
    at: usize,
    flags: Flags,
    names: Names,
    /// Groups that are not closed yet, outermost first.
    open: Vec<Open>,
    /// The alternatives of the innermost group that are complete.
    alternatives: Vec<Node>,
    /// The parts of its last alternative.
    parts: Vec<Node>,
    /// Where the repetition began that was read just now.
    repeated: Option<usize>,
}

/// Reads a pattern.
pub(crate) fn parse(text: &str) -> Result<(Hir, Names), Error> {
    let mut parser = Parser {
        text,
        at: 0,
        flags: Flags::default(),
        names: vec![None],
        open: Vec::new(),
        alternatives: Vec::new(),
        parts: Vec::new(),
        repeated: None,
    };
    while let Some(c) = parser.peek() {
        parser.next_part(c)?;
    }
    let node = parser.close_alternatives()?;
    if !parser.open.is_empty() {
        let kind = ErrorKind::MissingParenthesis;
        return Err(parser.error_to_end(kind, 0, "a `)` for each `(`"));
    }
    Ok((node.hir, parser.names))
}

impl<'p> Parser<'p> {
    fn rest(&self) -> &'p str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// What is wrong from `begin` to where reading has come.
    fn error(&self, kind: ErrorKind, begin: usize, expected: &'static str) -> Error {
        Error::new(kind, self.text, Part(begin..self.at), expected)
    }

    /// What is wrong from `begin` to the end of the pattern.
    fn error_to_end(&self, kind: ErrorKind, begin: usize, expected: &'static str) -> Error {
        Error::new(kind, self.text, Part(begin..self.text.len()), expected)
    }

    fn next_part(&mut self, c: char) -> Result<(), Error> {
        if self.repetition(c)? {
            return Ok(());
        }
        self.repeated = None;
        match c {
            '(' => self.open_group()?,
            ')' => self.close_group()?,
            '[' => {
                let set = self.bracket_class()?;
                self.push(Node::class(set))?;
            }
            '\\' => self.escaped()?,
            _ => {
                self.at += c.len_utf8();
                match c {
                    '|' => {
                        let node = self.close_parts()?;
                        self.alternatives.push(node);
                    }
                    '^' => self.look(Look::Start, Look::StartLF)?,
                    '$' => self.look(Look::End, Look::EndLF)?,
                    '.' => self.dot()?,
                    _ => self.literal(u32::from(c))?,
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, node: Node) -> Result<(), Error> {
        self.parts.push(self.checked(node)?);
        Ok(())
    }

    /// The same node, unless it is too deep.
    fn checked(&self, node: Node) -> Result<Node, Error> {
        if node.height() > NESTING {
            let expected = "a nesting depth of at most 100";
            return Err(self.error_to_end(ErrorKind::TooDeep, 0, expected));
        }
        Ok(node)
    }

    /// A character by its number; of a surrogate no text has one.
    fn literal(&mut self, code: u32) -> Result<(), Error> {
        let mut set =
            char::from_u32(code).map_or_else(ClassUnicode::empty, |c| sets::of(&[(c, c)]));
        self.fold(&mut set);
        self.push(Node::literal(set))
    }

    /// Adds the other cases of letters if `(?i)` holds.
    fn fold(&self, set: &mut ClassUnicode) {
        if self.flags.fold {
            // It fails only without the tables, and those are compiled in.
            _ = set.try_case_fold_simple();
        }
    }

    fn look(&mut self, of_text: Look, of_line: Look) -> Result<(), Error> {
        self.push(Node::look(if self.flags.lines { of_line } else { of_text }))
    }

    fn dot(&mut self) -> Result<(), Error> {
        let dot = if self.flags.dot_all { Dot::AnyChar } else { Dot::AnyCharExceptLF };
        match Hir::dot(dot).into_kind() {
            HirKind::Class(Class::Unicode(set)) => self.push(Node::class(set)),
            _ => Ok(()),
        }
    }

    /// The alternative that ends here.
    fn close_parts(&mut self) -> Result<Node, Error> {
        let parts = std::mem::take(&mut self.parts);
        let node = if parts.is_empty() { Node::empty() } else { Node::concat(parts) };
        self.checked(node)
    }

    /// The group, or the whole pattern, that ends here.
    fn close_alternatives(&mut self) -> Result<Node, Error> {
        let last = self.close_parts()?;
        let mut alternatives = std::mem::take(&mut self.alternatives);
        alternatives.push(last);
        self.checked(Node::alternate(alternatives))
    }
}
