//! `log`: one line per question, written by another thread from the facts gathered here.

mod config;
mod format;

use crate::handler::{Cx, Handle};
use crate::handlers::metadata;
use crate::job::Transport;
use crate::kind::{ResponseClass, kind_of};
use crate::log::Record;
use nodens_wire::{Class, Flags, Name, Opcode, Rcode, Type};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use config::setup;
pub use format::Format;

#[cfg(test)]
mod tests;

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

/// The facts of one query log line.
#[derive(Debug)]
pub struct QueryRecord {
    format: Arc<Format>,
    /// Who asked.
    pub peer: SocketAddr,
    /// The address asked.
    pub local: SocketAddr,
    /// How it asked.
    pub transport: Transport,
    /// The request's identifier.
    pub id: u16,
    /// The request's OPCODE.
    pub opcode: Opcode,
    /// QNAME as asked.
    pub qname: Name,
    /// QTYPE.
    pub qtype: Type,
    /// QCLASS.
    pub qclass: Class,
    /// Octets of the request.
    pub size: usize,
    /// The DO bit of the request.
    pub dnssec_ok: bool,
    /// The largest response the client takes, in octets.
    pub bufsize: u16,
    /// RCODE and flags of the response; `None` if the question was dropped.
    pub response: Option<(Rcode, Flags)>,
    /// Octets of the response.
    pub response_size: usize,
    /// From the request's receipt to the response.
    pub took: Duration,
    /// Values of the `{/label}` placeholders, in their order.
    pub metadata: Vec<String>,
}

impl QueryRecord {
    /// What is known of a question now, and that no time has passed.
    pub(crate) fn new(format: &Arc<Format>, source: metadata::Source<'_>) -> Self {
        let (job, q) = (source.job, &source.job.current);
        let client = job.client();
        let (flags, response_size) = match &q.response {
            response if response.dropped => (None, 0),
            response if response.written => (Some(response.flags()), response.wire.len()),
            _ => (Some(q.flags.reply()), job.query.question_end()),
        };
        Self {
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
            bufsize: match client.transport {
                Transport::Udp => job.query.udp_size(),
                Transport::Tcp => u16::MAX,
            },
            response: flags.map(|flags| (q.response.rcode, flags)),
            response_size,
            took: Duration::ZERO,
            metadata: format.metadata(source),
        }
    }

    /// The line, without level and line end.
    pub fn line(&self) -> String {
        self.format.render(self)
    }

    /// QCLASS, as a number where a type is called like it.
    pub fn class(&self) -> String {
        self.qclass.unambiguous().map_or_else(|| self.qclass.to_string(), str::to_owned)
    }

    /// `udp` or `tcp`.
    pub fn protocol(&self) -> &'static str {
        match self.transport {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        }
    }

    /// The name of the RCODE, or its number if it has none; `None` without a response.
    pub fn response_code(&self) -> Option<String> {
        let (rcode, _) = self.response?;
        Some(rcode.mnemonic().map_or_else(|| rcode.0.to_string(), str::to_owned))
    }
}

impl Handle for Log {
    const LOOKS_AT_QUESTIONS: bool = false;

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
        QueryRecord { took, ..QueryRecord::new(&self.format, source) }
    }
}
