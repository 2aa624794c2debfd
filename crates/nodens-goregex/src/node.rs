//! Parts of a pattern that were read, with what Go's limits ask about them.

use crate::limits::REPETITIONS;
use regex_syntax::hir::{Capture, Class, ClassUnicode, Hir, Look, Repetition};

/// What Go's tree would have at the top of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Top {
    /// One or more characters behind each other: a single node of Go's tree.
    Literal,
    /// A set of characters.
    Class,
    /// Parts behind each other.
    Concatenation,
    /// Parts of which one matches.
    Alternation,
    /// Anything else.
    Other,
}

/// A part of a pattern.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) hir: Hir,
    top: Top,
    /// How deep Go's tree is.
    height: usize,
    /// How many copies of something inside the counted repetitions make.
    copies: u32,
}

impl Node {
    fn leaf(hir: Hir, top: Top) -> Self {
        Self { hir, top, height: 1, copies: 1 }
    }

    /// A part that matches the empty text.
    pub(crate) fn empty() -> Self {
        Self::leaf(Hir::empty(), Top::Other)
    }

    /// An anchor or the edge of a word.
    pub(crate) fn look(look: Look) -> Self {
        Self::leaf(Hir::look(look), Top::Other)
    }

    /// One of a set of characters.
    pub(crate) fn class(set: ClassUnicode) -> Self {
        Self::leaf(Hir::class(Class::Unicode(set)), Top::Class)
    }

    /// One character, in one or both cases.
    pub(crate) fn literal(set: ClassUnicode) -> Self {
        Self { top: Top::Literal, ..Self::class(set) }
    }

    pub(crate) fn height(&self) -> usize {
        self.height
    }

    /// Whether the counted repetitions inside each other make more than Go allows.
    pub(crate) fn repeats_too_often(&self) -> bool {
        self.copies > REPETITIONS
    }

    pub(crate) fn group(self, index: u32) -> Self {
        // Names stay outside of the engine, which does not take one twice.
        let hir = Hir::capture(Capture { index, name: None, sub: Box::new(self.hir) });
        Self { hir, top: Top::Other, height: self.height + 1, copies: self.copies }
    }

    /// `counted` says whether the repetition was written in braces: only those multiply.
    pub(crate) fn repeat(self, min: u32, max: Option<u32>, greedy: bool, counted: bool) -> Self {
        let copies = match (counted, max.unwrap_or(min)) {
            (false, _) => self.copies,
            (true, 0) if max.is_some() => 1,
            (true, times) => self.copies.saturating_mul(times.max(1)),
        };
        let hir = Hir::repetition(Repetition { min, max, greedy, sub: Box::new(self.hir) });
        Self { hir, top: Top::Other, height: self.height + 1, copies }
    }

    pub(crate) fn concat(parts: Vec<Node>) -> Self {
        let literal = parts.iter().all(|part| part.top == Top::Literal);
        Self::join(parts, Hir::concat, Top::Concatenation, literal.then_some(Top::Literal))
    }

    pub(crate) fn alternate(parts: Vec<Node>) -> Self {
        let class = parts.iter().all(|part| part.top == Top::Class);
        Self::join(parts, Hir::alternation, Top::Alternation, class.then_some(Top::Class))
    }

    /// Joins parts; `flat` is what they are together if that needs no further level.
    fn join(
        mut parts: Vec<Node>,
        join: impl FnOnce(Vec<Hir>) -> Hir,
        top: Top,
        flat: Option<Top>,
    ) -> Self {
        if parts.len() == 1
            && let Some(only) = parts.pop()
        {
            return only;
        }
        let under = |part: &Node| part.height - usize::from(part.top == top);
        let height = match (parts.is_empty(), flat) {
            (true, _) | (_, Some(_)) => 1,
            _ => 1 + parts.iter().map(under).max().unwrap_or_default(),
        };
        let copies = parts.iter().map(|part| part.copies).max().unwrap_or(1);
        let hir = join(parts.into_iter().map(|part| part.hir).collect());
        Self { hir, top: flat.unwrap_or(top), height, copies }
    }
}
