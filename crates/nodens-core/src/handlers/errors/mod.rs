//! `errors`: one line per failed question; lines that look alike can be counted instead.

mod config;

use crate::handler::{Cx, Handle, Spec};
use crate::log::{FailureRecord, Record, Rules};
use std::sync::Arc;

use config::setup;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("errors", setup);

/// The directive at work.
#[derive(Debug)]
pub struct Errors {
    rules: Arc<Rules>,
}

impl Handle for Errors {
    const LOOKS_AT_QUESTIONS: bool = false;
    const ONLY_WATCHES: bool = true;

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
