//! `errors`: one line per failed question; lines that look alike can be counted instead.

mod config;

use crate::go_regex::Regex;
use crate::handler::{Cx, Handle};
use crate::log::{Level, Record};
use std::sync::Arc;
use std::time::Duration;

pub use config::setup;

#[cfg(test)]
mod tests;

/// The directive at work.
#[derive(Debug)]
pub struct Errors {
    rules: Arc<Rules>,
}

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

impl Handle for Errors {
    const LOOKS_AT_QUESTIONS: bool = false;

    fn amend(&self, cx: &mut Cx<'_>) {
        if cx.job.error.is_empty() {
            return;
        }
        let q = &cx.job.current;
        let (rcode, qname, qtype) = (q.response.rcode.0, q.qname.to_folded(), q.qtype);
        let error = cx.job.error.clone();
        let text = format!("{rcode} {qname} {qtype}: {error}");
        let rules = self.rules.clone();
        let record = FailureRecord { rules, text, error };
        cx.worker.sink.send(Record::Failure(Box::new(record)));
    }
}
