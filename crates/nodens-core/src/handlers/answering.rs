//! How directives that have zones answer out of one, and go on after a lookup.

use super::LookupState;
use crate::authority::{self, Others, Pending, Reply};
use crate::config::Server;
use crate::handler::{Cx, Event, Lookup, Scope, Step};
use crate::zones::Fallthrough;
use nodens_wire::{Class, NameRef, Rcode, Type};
use nodens_zone::data::Data;
use std::sync::Arc;

/// The other places where a name of the zone may be answered for.
struct Neighbours<'a, B> {
    fallthrough: Option<&'a Fallthrough>,
    server: Option<&'a Server>,
    is_below: B,
}

impl<B: Fn(NameRef<'_>) -> bool> Others for Neighbours<'_, B> {
    fn may_pass(&self, name: NameRef<'_>) -> bool {
        self.fallthrough.is_some_and(|fallthrough| fallthrough.lets_pass(name))
    }

    fn is_below(&self, name: NameRef<'_>, origin: NameRef<'_>) -> bool {
        let labels = origin.label_count();
        (self.is_below)(name)
            || self.server.is_some_and(|server| server.has_zone_below(name, labels))
    }
}

/// Answers the query of `cx` out of a zone. `fallthrough` says for which names the next handler may
/// try, `is_below` which names are in a longer zone of the same handler.
pub(super) fn answer(
    cx: &mut Cx<'_>,
    data: Option<&Arc<Data>>,
    fallthrough: Option<&Fallthrough>,
    is_below: impl Fn(NameRef<'_>) -> bool,
) -> Step {
    // Clients that are allowed a transfer were answered by `transfer` before.
    if matches!(cx.q().qtype, Type::AXFR | Type::IXFR) {
        return Step::Fail(Rcode::REFUSED);
    }
    let Some(data) = data else {
        "the zone is not loaded".clone_into(&mut cx.job.error);
        return Step::Fail(Rcode::SERVFAIL);
    };
    let server = cx.config.server_of(cx.job.client());
    let others = Neighbours { fallthrough, server, is_below };
    match authority::answer(data, cx.q(), &others) {
        Reply::Answered => Step::Answered,
        Reply::Pass => Step::Next,
        Reply::Failed(reason) => {
            reason.clone_into(&mut cx.job.error);
            Step::Fail(Rcode::SERVFAIL)
        }
        Reply::Lookup(pending) => {
            let q = cx.q();
            let (qname, qtype, qclass) = (pending.target.clone(), q.qtype, Class::IN);
            q.state.lookup = LookupState::Authority(pending);
            Step::Lookup(Lookup { qname, qtype, qclass, scope: Scope::Server })
        }
    }
}

/// What a query for a name outside all zones of a handler comes to: the next handler's turn, or REFUSED if
/// there is none, as of a server that is authoritative only.
pub(super) fn outside(cx: &mut Cx<'_>) -> Step {
    let is_last = cx.job.current.position + 1 >= cx.block.handlers.len();
    if is_last { Step::Fail(Rcode::REFUSED) } else { Step::Next }
}

/// Goes on with the target of an alias.
pub(super) fn resumed(cx: &mut Cx<'_>, event: &Event<'_>) -> Step {
    let state = std::mem::take(&mut cx.q().state.lookup);
    let (LookupState::Authority(pending), Event::LookedUp) = (state, event) else {
        return Step::Fail(Rcode::SERVFAIL);
    };
    // A target without an answer leaves the alias alone, which is no failure.
    cx.job.error.clear();
    let inner = cx.job.inner.take();
    Pending::finish(*pending, cx.q(), inner.as_ref().map(|inner| &inner.response));
    Step::Answered
}

/// The wildcard that stands for the name that the client asked for, for the label `zone/wildcard`.
pub(super) fn wildcard(data: Option<&Data>, asked: NameRef<'_>, qtype: Type) -> Option<String> {
    authority::wildcard(data?, asked, qtype).map(|name| name.to_string())
}
