//! `log`: one line per question, written by another thread from the facts gathered here.

mod config;

use crate::handler::{Cx, Handle, Spec};
use crate::metadata;
use crate::kind::{ResponseClass, kind_of};
use crate::log::{EMPTY, Format, QueryRecord, Record};
use nodens_wire::Name;
use std::sync::Arc;
use std::time::Duration;

use config::setup;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("log", setup);

/// The directive at work.
#[derive(Debug, Default)]
pub struct Log {
    rules: Vec<Rule>,
}

/// One `log` line of the Corefile and name.
#[derive(Debug)]
struct Rule {
    scope: Name,
    format: Arc<Format>,
    /// Empty means every class.
    classes: Vec<ResponseClass>,
}

/// What is known of a question now, and that no time has passed.
pub(crate) fn record(format: &Arc<Format>, source: metadata::Source<'_>) -> QueryRecord {
    let (job, q) = (source.job, &source.job.current);
    let client = job.client();
    let (flags, response_size) = match &q.response {
        response if response.dropped => (None, 0),
        response if response.written => (Some(response.flags()), response.wire.len()),
        _ => (Some(q.flags.reply()), job.query.question_end()),
    };
    QueryRecord {
        format: format.clone(),
        peer: client.peer,
        local: client.local,
        transport: client.transport,
        id: job.query.id,
        opcode: q.flags.opcode(),
        qname: q.qname.clone(),
        qtype: q.qtype,
        qclass: q.qclass,
        size: job.request_len(),
        dnssec_ok: q.dnssec_ok(),
        bufsize: client.transport.max_message(job.query.udp_size()),
        response: flags.map(|flags| (q.response.rcode, flags)),
        response_size,
        took: Duration::ZERO,
        metadata: values(format, source),
    }
}

/// The values of the `{/label}` placeholders now.
fn values(format: &Format, source: metadata::Source<'_>) -> Vec<String> {
    let value = |label| source.value(label).unwrap_or_else(|| EMPTY.to_owned());
    format.labels().map(value).collect()
}

impl Handle for Log {
    const LOOKS_AT_QUESTIONS: bool = false;
    const ONLY_WATCHES: bool = true;
    const NOTES_DROPS: bool = true;

    fn amend(&self, cx: &mut Cx<'_>) {
        let qname = cx.job.current.qname.view();
        let Some(rule) = self.rules.iter().find(|rule| qname.is_in_domain(rule.scope.view()))
        else {
            return;
        };
        if rule.wants(cx) {
            let record = rule.record(cx);
            cx.worker.sink.send(Record::Query(Box::new(record)));
        }
    }
}

impl Rule {
    fn wants(&self, cx: &Cx<'_>) -> bool {
        if self.classes.is_empty() {
            return true;
        }
        let q = &cx.job.current;
        let class = if q.response.written {
            kind_of(&q.response.wire, q.response.rcode, q.qtype).class()
        } else {
            ResponseClass::Error
        };
        self.classes.contains(&class)
    }

    fn record(&self, cx: &Cx<'_>) -> QueryRecord {
        let source = metadata::Source { job: cx.job, block: cx.block };
        let took = cx.now.since(cx.job.current.asked_ns);
        QueryRecord { took, ..record(&self.format, source) }
    }
}
