//! Why a pattern was refused.

use std::ops::Range;
use thiserror::Error;

/// A pattern that cannot be used. The text begins with the very words of Go.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("error parsing regexp: {kind}: `{part}`, at character {character}, expected {expected}")]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The part of the pattern that is wrong, as Go shows it.
    pub part: String,
    /// Where that part begins, in characters from 1.
    pub character: usize,
    /// What may stand there.
    pub expected: &'static str,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, pattern: &str, part: Part, expected: &'static str) -> Self {
        let before = pattern.get(..part.0.start).unwrap_or(pattern);
        let text = pattern.get(part.0).unwrap_or_default();
        Self { kind, part: text.to_owned(), character: before.chars().count() + 1, expected }
    }
}

/// A part of a pattern, in octets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part(pub(crate) Range<usize>);

impl Part {
    pub(crate) fn whole(pattern: &str) -> Self {
        Self(0..pattern.len())
    }
}

/// What is wrong with a pattern, in Go's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ErrorKind {
    /// `[b-a]`, `[[:word]]` or `\p{Elvish}`.
    #[error("invalid character class range")]
    ClassRange,
    /// `\y`
    #[error("invalid escape sequence")]
    Escape,
    /// `(?P<a b>`
    #[error("invalid named capture")]
    NamedCapture,
    /// `(?=`
    #[error("invalid or unsupported Perl syntax")]
    PerlSyntax,
    /// `a**`
    #[error("invalid nested repetition operator")]
    NestedRepetition,
    /// `a{1001}`
    #[error("invalid repeat count")]
    RepeatCount,
    /// `[a`
    #[error("missing closing ]")]
    MissingBracket,
    /// `(a`
    #[error("missing closing )")]
    MissingParenthesis,
    /// `*a`
    #[error("missing argument to repetition operator")]
    MissingArgument,
    /// `a\`
    #[error("trailing backslash at end of expression")]
    TrailingBackslash,
    /// `a)`
    #[error("unexpected )")]
    UnexpectedParenthesis,
    /// More than [`limits::NESTING`](crate::limits::NESTING).
    #[error("expression nests too deeply")]
    TooDeep,
    /// Larger than [`limits::COMPILED_BYTES`](crate::limits::COMPILED_BYTES), or the limit given instead.
    #[error("expression too large")]
    TooLarge,
}
