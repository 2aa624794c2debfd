//! A query that failed as a line of the log, and lines that are counted together.

use super::Level;
use crate::go_regex::Regex;
use std::sync::Arc;
use std::time::Duration;

/// `consolidate` lines of one server block.
#[derive(Debug, Default)]
pub struct Rules {
    /// In the order of the Corefile; the first that matches counts.
    pub patterns: Vec<Pattern>,
}

/// Errors to count instead of writing each.
#[derive(Debug)]
pub struct Pattern {
    /// What the error's text must match.
    pub regex: Regex,
    /// How long to count before one line is written.
    pub period: Duration,
    /// Level of that line.
    pub level: Level,
    /// Whether the first error of a period is written at once.
    pub show_first: bool,
}

/// The facts of one error. The log writer applies the rules: it owns the clock they need.
#[derive(Debug)]
pub struct FailureRecord {
    /// The rules of the server block.
    pub rules: Arc<Rules>,
    /// The line, without level and origin.
    pub text: String,
    /// The error alone, which the patterns are matched against.
    pub error: String,
}
