//! `autopath`: walks a client's search list on its behalf.
//!
//! The rule that decides every doubt: the client gets what it would have found by itself, or the
//! answer to the question it asked, with which it goes on by itself.

use crate::config::BlockBuilder;
use crate::handler::{Cx, Event, Handle, Lookup, Scope, Spec, Step};
use crate::handlers::{Handler, LookupState};
use crate::limits::{SEARCH_NAMES_MAX, SEARCH_TIME_MAX};
use crate::log::Level;
use crate::metrics::Counter;
use crate::response::Response;
use crate::zones::Zones;
use nodens_corefile::{Directive, Error};
use nodens_wire::{Class, Flags, Message, Name, NameRef, Rcode, Record, Type, WireError};
use search::{Pods, Source};
use std::sync::Arc;

mod config;
mod search;
#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("autopath", setup);

/// The directive at work.
#[derive(Debug)]
pub struct Autopath {
    zones: Zones,
    source: Source,
    success: Counter,
}

/// Reads `autopath [ZONES…] RESOLV-CONF|@kubernetes|@node`. The last one of a block counts.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let (zones, source) = config::read(directive, block)?;
    let success = block.shared.registry.counter(
        "coredns_autopath_success_total",
        "Queries answered on the way down a search list.",
        &[("server", &block.server)],
    );
    if matches!(source, Source::Pods { pods: Pods::OfBlock, .. }) && !block.present.contains(&"kubernetes") {
        let text = "@kubernetes has no effect: the server block has no kubernetes";
        block.shared.sink.line(Level::Warning, "autopath", text.to_owned());
    }
    block.handlers.retain(|handler| !matches!(handler, Handler::Autopath(_)));
    block.push(Autopath { zones, source, success });
    Ok(())
}

/// What the handler remembers between lookups.
#[derive(Debug)]
pub struct State {
    /// The client's search domains.
    domains: Arc<[Name]>,
    /// Index of the lookup under way: a search domain, or behind them the name alone.
    at: usize,
    /// Where lookups for other names than the client's start.
    scope: Scope,
    /// What the client's own question gave.
    own: Option<Box<Response>>,
}

impl State {
    /// Octets of memory that what it keeps takes.
    pub(crate) fn octets(&self) -> usize {
        self.own.as_ref().map_or(0, |own| own.octets())
    }
}

impl Handle for Autopath {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        if !self.zones.contains(cx.job.current.qname.view()) {
            return Step::Next;
        }
        let Some(scope) = scope(cx) else { return Step::Next };
        let Some(domains) = self.source.list_for(cx) else { return Step::Next };
        let state = State { domains, at: 0, scope, own: None };
        let qname = cx.job.current.qname.clone();
        look_up(cx, state, qname, Scope::Behind)
    }

    fn resumed(&self, cx: &mut Cx<'_>, _event: Event<'_>) -> Step {
        let Some(inner) = cx.job.inner.take() else { return Step::Fail(Rcode::SERVFAIL) };
        let LookupState::Autopath(mut state) = std::mem::take(&mut cx.q().state.lookup) else {
            return Step::Fail(Rcode::SERVFAIL);
        };
        let response = inner.response;
        match (response.written, response.rcode) {
            // Who may not ask for a name learns so, as when asking for it alone.
            (true, Rcode::NOERROR | Rcode::REFUSED) => return self.found(cx, state.at, &inner.qname, response),
            (true, Rcode::NXDOMAIN) => _ = state.own.get_or_insert_with(|| Box::new(response)),
            // Nobody knows whether the name exists, so nobody knows what comes next.
            _ if state.at == 0 => return give(cx, response),
            _ => return give_own(cx, state),
        }
        while state.at < state.domains.len() {
            state.at += 1;
            if state.at >= SEARCH_NAMES_MAX || cx.now.since(cx.job.received.mono_ns) > SEARCH_TIME_MAX {
                break;
            }
            // A name too long for a domain does not exist there.
            if let Some(qname) = state.candidate(cx.job.current.qname.view()) {
                let scope = state.scope;
                return look_up(cx, state, qname, scope);
            }
        }
        give_own(cx, state)
    }
}

impl Autopath {
    /// Whether it needs to know the pods of the block's cluster.
    pub(crate) fn needs_pods(&self) -> bool {
        matches!(self.source, Source::Pods { pods: Pods::OfBlock, .. })
    }

    /// The answer is that of the name at place `at` of the walk.
    fn found(&self, cx: &mut Cx<'_>, at: usize, found: &Name, response: Response) -> Step {
        let q = cx.q();
        q.response = response;
        if at > 0 {
            q.response.answered_by = None;
            if lead_to(&mut q.response, &q.qname, found).is_err() {
                return Step::Fail(Rcode::SERVFAIL);
            }
        }
        cx.worker.cells.add(self.success, 1);
        Step::Answered
    }
}

impl State {
    /// The name of the lookup under way, for a client that asked for `qname`.
    fn candidate(&self, qname: NameRef<'_>) -> Option<Name> {
        let first = self.domains.first()?.view();
        let domain = self.domains.get(self.at).map_or(NameRef::root(), Name::view);
        let kept = qname.as_wire().len().checked_sub(first.as_wire().len())?;
        let wire = [qname.as_wire().get(..kept)?, domain.as_wire()].concat();
        Name::from_wire(&wire).ok()
    }
}

/// Where lookups for other names start; `None` if the question is not the client's, or a walk is
/// under way already.
///
/// They start as the client's would: another server block may serve them, and what stands before
/// `autopath` may rewrite them. Not so if the client's own question has been rewritten: then names
/// that the client would have asked for are not known here.
fn scope(cx: &Cx<'_>) -> Option<Scope> {
    let job = &cx.job;
    let asked = job.current.qname.view() == job.query.qname(&job.request);
    if job.current.is_clients() {
        return Some(if asked { Scope::Unwatched } else { Scope::Behind });
    }
    let walking = job.outer.iter().any(|outer| matches!(outer.state.lookup, LookupState::Autopath(_)));
    (asked && !walking).then_some(Scope::Unwatched)
}

fn look_up(cx: &mut Cx<'_>, state: State, qname: Name, scope: Scope) -> Step {
    let q = cx.q();
    q.state.lookup = LookupState::Autopath(state);
    Step::Lookup(Lookup { qname, qtype: q.qtype, qclass: q.qclass, scope })
}

/// Gives the client the response to its own question.
fn give_own(cx: &mut Cx<'_>, state: State) -> Step {
    cx.job.error.clear();
    match state.own {
        Some(own) => give(cx, *own),
        None => Step::Fail(Rcode::SERVFAIL),
    }
}

fn give(cx: &mut Cx<'_>, response: Response) -> Step {
    let q = cx.q();
    q.response = response;
    if q.response.written { Step::Answered } else { Step::Fail(q.response.rcode) }
}

/// Gives the response the client's question, and a CNAME from its name to the one that was found.
fn lead_to(response: &mut Response, asked: &Name, found: &Name) -> Result<(), WireError> {
    response.edit(|message: &mut Message| {
        if let Some(record) = message.answer.first() {
            let cname = Record {
                owner: asked.clone(),
                rtype: Type::CNAME,
                class: Class::IN,
                ttl: record.ttl,
                rdata: found.as_wire().to_vec(),
            };
            message.answer.insert(0, cname);
            // Nobody has signed the CNAME (RFC 4035 section 3.2.3).
            message.flags = message.flags.with(Flags::AD, false);
        }
        for question in &mut message.questions {
            question.qname = asked.clone();
        }
    })
}
