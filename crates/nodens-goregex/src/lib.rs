//! Regular expressions as Go's package `regexp` reads them.
//!
//! Operators write patterns for Go, and Go's syntax is not that of the crate `regex`: `\d`, `\w`, `\s` and `\b` know
//! ASCII only, `[` and `&&` are plain characters inside a class, `a{,2}` has no repetition in it, `(?x)` does not
//! exist. So a pattern is read here, by Go's rules, and becomes a [`Hir`](regex_syntax::hir::Hir), which
//! `regex-automata` compiles. What matches, and where its groups are, is what Go says too, because both choose the
//! match that a backtracking search would find first. The time is linear in the length of the text.
//!
//! Deliberately absent: text that is not UTF-8, replacement templates, POSIX patterns, and the longest match.
//!
//! Patterns come from operators, but some come to be only when a question is answered, so they have limits, see
//! [`limits`].
//!
//! ```
//! use nodens_goregex::Regex;
//!
//! let pattern = Regex::new(r"^(?<host>[\w-.]+)\Q.example.org.\E$").unwrap();
//! let groups = pattern.captures("www.example.org.").unwrap();
//! assert_eq!(groups.get(1), Some("www"));
//!
//! let error = Regex::new("a**").unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "error parsing regexp: invalid nested repetition operator: `**`, \
//!      at character 2, expected one operator, or parentheses around what is repeated"
//! );
//! ```

#![forbid(unsafe_code)]

mod error;
pub mod limits;
mod node;
mod parse;
mod sets;

pub use error::{Error, ErrorKind};

use error::Part;
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Input, meta};
use std::fmt;
use std::ops::Range;

/// A compiled pattern.
#[derive(Clone)]
pub struct Regex {
    source: Box<str>,
    /// The name of each group; number 0, the whole match, has none.
    names: Box<[Option<Box<str>>]>,
    engine: meta::Regex,
}

impl Regex {
    /// Compiles a pattern, to at most [`limits::COMPILED_BYTES`].
    ///
    /// # Errors
    /// If Go refuses it, or it is too large.
    pub fn new(pattern: &str) -> Result<Self, Error> {
        Self::with_limit(pattern, limits::COMPILED_BYTES)
    }

    /// Compiles a pattern whose compiled form may have so many octets.
    ///
    /// # Errors
    /// As [`Regex::new`].
    pub fn with_limit(pattern: &str, octets: usize) -> Result<Self, Error> {
        let (hir, names) = parse::parse(pattern)?;
        let config = meta::Config::new().nfa_size_limit(Some(octets));
        let engine = meta::Builder::new().configure(config).build_from_hir(&hir);
        // Whatever fails here is a number of states, groups or octets that is too large.
        let engine = engine.map_err(|_| {
            let expected = "a pattern with fewer or smaller repetitions and classes";
            Error::new(ErrorKind::TooLarge, pattern, Part::whole(pattern), expected)
        })?;
        Ok(Self { source: pattern.into(), names: names.into(), engine })
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Whether any part of the text matches. Allocates nothing once the engine is warm.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.engine.is_match(text)
    }

    /// The groups of the first match.
    #[must_use]
    pub fn captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        let mut slots = vec![None; 2 * self.names.len()].into_boxed_slice();
        // Groups repeated zero times at the end of a pattern are none to the engine, which takes no
        // more slots than it has groups.
        let known = slots.len().min(self.engine.group_info().slot_len());
        self.engine.search_slots(&Input::new(text), slots.get_mut(..known)?)?;
        Some(Captures { text, slots })
    }

    /// How many groups there are, the whole match among them.
    #[must_use]
    pub fn captures_len(&self) -> usize {
        self.names.len()
    }

    /// The name of each group, in the order of their numbers; names may come twice, as in Go.
    pub fn capture_names(&self) -> impl ExactSizeIterator<Item = Option<&str>> {
        self.names.iter().map(Option::as_deref)
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Regex").field(&self.source).finish()
    }
}

/// What the groups of a pattern matched in a text.
#[derive(Debug)]
pub struct Captures<'t> {
    text: &'t str,
    /// Two for each group.
    slots: Box<[Option<NonMaxUsize>]>,
}

impl<'t> Captures<'t> {
    /// The text of a group; `None` if it took no part or does not exist. Group 0 is the whole match.
    #[must_use]
    pub fn get(&self, group: usize) -> Option<&'t str> {
        self.text.get(self.range(group)?)
    }

    /// Where in the text a group matched, in octets.
    #[must_use]
    pub fn range(&self, group: usize) -> Option<Range<usize>> {
        let at = |slot: usize| Some(self.slots.get(slot).copied().flatten()?.get());
        let start = group.checked_mul(2)?;
        Some(at(start)?..at(start + 1)?)
    }

    /// The text of each group.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&'t str>> {
        (0..self.slots.len() / 2).map(|group| self.get(group))
    }
}
