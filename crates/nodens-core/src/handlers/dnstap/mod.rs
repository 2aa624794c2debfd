//! `dnstap`: hands what is asked and answered to whoever writes it to a socket.

mod config;

use crate::config::ServerBlock;
use crate::handler::{Cx, Handle, Job, Spec, Step};
use crate::handlers::Handler;
use crate::handlers::log::record;
use crate::metadata;
use crate::tap::{Kind, Message, Tap};
use crate::time::Now;
use crate::upstream::{Carrier, Upstream};
use nodens_wire::{Header, header};
use std::sync::Arc;
use std::time::Duration;

use config::setup;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("dnstap", setup);

/// Messages that may wait for a writer, times the `queue` of the Corefile.
const QUEUE: usize = 10_000;

/// The directive at work.
#[derive(Debug)]
pub struct Dnstap {
    taps: Vec<Arc<Tap>>,
}

impl Handle for Dnstap {
    const ONLY_WATCHES: bool = true;

    /// Before anything is asked upstream, so that messages are in order.
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        if !cx.job.current.is_clients() {
            return Step::Next;
        }
        cx.job.tapped = true;
        let message = client_message(cx.job, Kind::ClientQuery, None);
        let source = metadata::Source { job: cx.job, block: cx.block };
        self.taps.iter().for_each(|tap| send(tap, source, message.clone(), &cx.job.request));
        Step::Next
    }

    /// Hands on the answer if its question was.
    fn sent(&self, now: Now, job: &Job, block: &ServerBlock) {
        let message = client_message(job, Kind::ClientResponse, Some(now.mono_ns));
        let source = metadata::Source { job, block };
        for tap in &self.taps {
            send(tap, source, message.clone(), &job.current.response.wire);
        }
    }
}

fn send(tap: &Tap, source: metadata::Source<'_>, message: Message, wire: &[u8]) {
    tap.send(message, wire, |format| record(format, source).line());
}

fn client_message(job: &Job, kind: Kind, answered_ns: Option<u64>) -> Message {
    let client = job.client();
    Message {
        kind,
        transport: client.transport,
        asker: Some(client.peer),
        // CoreDNS leaves it out: a socket for all addresses does not know it.
        asked: None,
        asked_ns: job.received.mono_ns,
        answered_ns,
        wire: None,
        extra: None,
    }
}

/// Hands on what an upstream was asked and has answered.
pub(crate) fn forwarded(
    cx: &Cx<'_>,
    upstream: &Upstream,
    carrier: Carrier,
    took: Duration,
    reply: &[u8],
) {
    let now_ns = cx.now.mono_ns;
    let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    let source = metadata::Source { job: cx.job, block: cx.block };
    for tap in taps(&cx.block.handlers) {
        let query = Message {
            kind: Kind::ForwarderQuery,
            transport: carrier,
            asker: None,
            asked: Some(upstream.key.address),
            asked_ns: now_ns.saturating_sub(took_ns),
            answered_ns: None,
            wire: None,
            extra: None,
        };
        let kind = Kind::ForwarderResponse;
        let response = Message { kind, answered_ns: Some(now_ns), ..query.clone() };
        // The ID is chosen where the question is sent, and the reply has the same.
        let mut asked = cx.job.current.state.forward.message.clone();
        header::set_id(&mut asked, Header::read(reply).map_or(0, |header| header.id));
        send(tap, source, query, &asked);
        send(tap, source, response, reply);
    }
}

fn taps(handlers: &[Handler]) -> impl Iterator<Item = &Tap> {
    let all = handlers.iter().filter_map(|handler| match handler {
        Handler::Dnstap(dnstap) => Some(&dnstap.taps),
        _ => None,
    });
    all.flatten().map(|tap| &**tap)
}
