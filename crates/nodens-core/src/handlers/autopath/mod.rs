//! `autopath`: walks a client's search list on its behalf.

use crate::config::BlockBuilder;
use crate::handler::{Cx, Event, Handle, Lookup, Scope, Step};
use crate::handlers::{Handler, LookupState};
use crate::metrics::Counter;
use crate::response::Response;
use crate::zones::Zones;
use nodens_corefile::{Directive, Error};
use nodens_wire::message::Question;
use nodens_wire::{Class, Message, Name, NameRef, Rcode, Record, Type};

mod config;
#[cfg(test)]
mod tests;

/// The directive at work.
#[derive(Debug)]
pub struct Autopath {
    zones: Zones,
    /// Search domains, the root behind the last one; empty if there is nothing to do.
    search: Vec<Name>,
    success: Counter,
}

/// Reads `autopath [ZONES…] RESOLV-CONF`. The last one of a block counts.
pub fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let (zones, search) = config::read(directive, block)?;
    let success = block.shared.registry.counter(
        "coredns_autopath_success_total",
        "Questions answered on the way down a search list.",
        &[("server", &block.server)],
    );
    block.handlers.retain(|handler| !matches!(handler, Handler::Autopath(_)));
    block.push(Autopath { zones, search, success });
    Ok(())
}

/// What the handler remembers between lookups.
#[derive(Debug, Default)]
pub struct State {
    /// Index into the search list of the lookup under way.
    at: usize,
    /// What the first lookup gave.
    first: Option<Box<Response>>,
}

impl Handle for Autopath {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let q = cx.q();
        let Some(first) = self.search.first() else { return Step::Next };
        let qname = q.qname.view();
        let inside = qname.is_in_domain(first.view()) && qname != first.view();
        if !inside || !self.zones.contains(qname) {
            return Step::Next;
        }
        self.ask_next(cx, State::default())
    }

    fn resumed(&self, cx: &mut Cx<'_>, _event: Event<'_>) -> Step {
        let Some(inner) = cx.job.inner.take() else { return Step::Fail(Rcode::SERVFAIL) };
        let q = cx.q();
        let LookupState::Autopath(mut state) = std::mem::take(&mut q.lookup) else {
            return Step::Fail(Rcode::SERVFAIL);
        };
        let response = inner.response;
        if response.written && response.rcode != Rcode::NXDOMAIN {
            q.response = response;
            let (qname, qtype, qclass) = (q.qname.clone(), q.qtype, q.qclass);
            let question = Question { qname, qtype, qclass };
            if q.response.edit(|message| rename(message, question)).is_err() {
                return Step::Fail(Rcode::SERVFAIL);
            }
            cx.worker.cells.add(self.success, 1);
            return Step::Answered;
        }
        if !response.written && !cx.job.error.is_empty() {
            return Step::Fail(response.rcode);
        }
        state.first.get_or_insert_with(|| Box::new(response));
        state.at += 1;
        self.ask_next(cx, state)
    }
}

impl Autopath {
    /// Looks up the name in the next search domain; behind the last one, the first response is
    /// the answer.
    fn ask_next(&self, cx: &mut Cx<'_>, mut state: State) -> Step {
        let q = cx.q();
        while let Some(domain) = self.search.get(state.at) {
            let first = self.search.first().map_or(NameRef::root(), Name::view);
            // A name too long for this domain does not exist there.
            if let Some(qname) = moved(q.qname.view(), first, domain.view()) {
                q.lookup = LookupState::Autopath(state);
                let (qtype, qclass) = (q.qtype, q.qclass);
                return Step::Lookup(Lookup { qname, qtype, qclass, scope: Scope::Behind });
            }
            state.at += 1;
        }
        let Some(first) = state.first else { return Step::Fail(Rcode::SERVFAIL) };
        q.response = *first;
        if q.response.written { Step::Answered } else { Step::Fail(q.response.rcode) }
    }
}

/// `name` with `to` in place of `from` at its end.
fn moved(name: NameRef<'_>, from: NameRef<'_>, to: NameRef<'_>) -> Option<Name> {
    let kept = name.as_wire().len().checked_sub(from.as_wire().len())?;
    let wire = [name.as_wire().get(..kept)?, to.as_wire()].concat();
    Name::from_wire(&wire).ok()
}

/// Gives the response the client's question, and a CNAME that leads from its name to where the
/// answer was found.
fn rename(message: &mut Message, question: Question) {
    let elsewhere = message.answer.iter().find(|record| record.owner != question.qname);
    if let Some(found) = elsewhere {
        let cname = Record {
            owner: question.qname.clone(),
            rtype: Type::CNAME,
            class: Class::IN,
            ttl: found.ttl,
            rdata: found.owner.as_wire().to_vec(),
        };
        message.answer.insert(0, cname);
    }
    message.questions = vec![question];
}
