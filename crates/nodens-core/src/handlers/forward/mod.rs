//! `forward`: asks other servers.
//!
//! This module decides what becomes of a query and of a response; [`crate::asking`] whom to ask, when,
//! and whether again.

mod config;
mod targets;

use config::setup;
pub use crate::asking::Policy;
pub use targets::{Target, targets};

use crate::asking::{Asking, Cause, Parts, Progress, Query, coalesce};
use crate::coalescing::Role;
use crate::exchange as message;
use crate::handler::{Cx, Event, Handle, Job, Spec, Step};
use crate::handlers::Handler;
use crate::handlers::{dnstap, loops};
use crate::job::Recipient;
use crate::metrics::Counter;
use crate::upstream::{Carrier, Upstream};
use config::Options;
use nodens_wire::edns::extended_error;
use nodens_wire::{Name, NameRef, Rcode, Type, WireError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(test)]
mod tests;

/// What CoreDNS says of transfers over QUIC, whose responses have several messages on one stream.
const UNTRANSFERABLE: &str = "proxy: unsupported request: \
    zone transfers over DoQ require multi-message response support";

/// How the directive is read.
pub const SPEC: Spec = Spec::new("forward", setup);

/// The directive at work.
#[derive(Debug)]
pub struct Forward {
    from: Name,
    except: Vec<Name>,
    asking: Box<Asking>,
    options: Box<Options>,
    /// Queries in flight, if they are limited.
    concurrent: Arc<AtomicU32>,
    /// `loop` of the same server block.
    loops: Option<Arc<loops::State>>,
    /// Queries refused for `max_concurrent`.
    rejects: Counter,
}

impl Handle for Forward {
    const ANSWERS_OTHER_CLASSES: bool = true;

    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        if !self.wants(cx.job.current.qname.view()) {
            return Step::Next;
        }
        let probes_loop = self.loops.as_ref().is_some_and(|loops| loops.is_probe(&cx.job.current));
        if !probes_loop && self.loops.as_ref().is_some_and(|loops| loops.is_looped()) {
            return isolated(cx);
        }
        let carrier = self.carrier(cx);
        self.asking.prepare(&mut self.query(cx));
        if !self.enter(cx) {
            return self.refuse(cx);
        }
        if self.is_untransferable(cx) {
            cx.job.error = UNTRANSFERABLE.to_owned();
            return Step::Fail(Rcode::NOTIMP);
        }
        let question = message::compose(&mut cx.job.current, &mut cx.worker.scratch);
        if !probes_loop {
            let [a, b, c, d, e, f, g, h] = self.asking.instance.to_be_bytes();
            // A truncated response is no use to one that wants a whole one.
            let whole = u8::from(carrier.is_datagram() && self.wants_whole(cx));
            let scope = [a, b, c, d, e, f, g, h, carrier as u8, whole];
            let state = &mut cx.job.current.state.forward;
            if !coalesce::join(state, cx.worker, cx.now, &scope, question) {
                return message::refuse_for_now(cx.job, coalesce::TOO_MANY);
            }
        }
        match cx.job.current.state.forward.role {
            Role::Follower(_) => {
                let deadline_ns = cx.job.deadline_ns;
                cx.worker.set_timer(cx.job, deadline_ns);
                Step::Wait
            }
            Role::Alone | Role::Leader(_) => self.ask(cx, |asking, q| asking.ask_next(q, Cause::Retry)),
        }
    }

    fn resumed(&self, cx: &mut Cx<'_>, event: Event<'_>) -> Step {
        match event {
            Event::Reply { attempt, message } => self.replied(cx, attempt, message),
            Event::Failed { attempt, fault } => {
                self.ask(cx, |asking, q| asking.on_failure(q, attempt, fault))
            },
            Event::Timer => self.ask(cx, Asking::on_timer),
            Event::Shared { query, .. } if cx.job.current.state.forward.role != Role::Follower(query) => {
                Step::Wait
            }
            Event::Shared { message: Some(message), .. } => match message::examine(message) {
                Ok(facts) => {
                    let step = self.conclude(cx, message, &facts);
                    cx.job.current.response.handed_on = matches!(step, Step::Answered);
                    step
                }
                Err(_) => self.ask(cx, Asking::fail),
            },
            Event::Shared { message: None, .. } => self.ask(cx, Asking::shared_nothing),
            Event::LookedUp => Step::Wait,
        }
    }

    fn label(&self, job: &Job, _asked: NameRef<'_>, label: &str) -> Option<String> {
        let upstream = job.current.state.forward.answered.as_ref()?;
        (label == "forward/upstream").then(|| upstream.key.address.to_string())
    }
}

impl Forward {
    /// Whom it asks, and how it asks for a client that came over UDP.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (&Arc<Upstream>, Carrier)> {
        let plain = if self.options.force_tcp { Carrier::Tcp } else { Carrier::Udp };
        self.asking.upstreams.iter().map(move |upstream| (upstream, upstream.carrier(plain)))
    }

    /// What `loop` of the same server block knows.
    pub(crate) fn loops(&self) -> Option<&Arc<loops::State>> {
        self.loops.as_ref()
    }

    /// Whether questions for this name are forwarded here.
    fn wants(&self, qname: NameRef<'_>) -> bool {
        let excepted = |name: &Name| qname.is_in_domain(name.view());
        qname.is_in_domain(self.from.view())
            && (qname == self.from.view() || !self.except.iter().any(excepted))
    }

    /// Takes a place among the concurrent questions; false if there is none.
    fn enter(&self, cx: &mut Cx<'_>) -> bool {
        let Some(most) = self.options.max_concurrent else { return true };
        if self.concurrent.fetch_add(1, Ordering::Relaxed) >= most {
            self.concurrent.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        cx.job.current.state.forward.concurrent = Some(self.concurrent.clone());
        true
    }

    /// Whether it is the transfer of a zone, and the first upstream has no way for that.
    fn is_untransferable(&self, cx: &Cx<'_>) -> bool {
        let resolution = &cx.job.current;
        matches!(resolution.qtype, Type::AXFR | Type::IXFR)
            && self.asking.first(&resolution.state.forward).is_some_and(|upstream| {
                upstream.carrier(Carrier::Tcp) == Carrier::Quic
            })
    }

    fn refuse(&self, cx: &mut Cx<'_>) -> Step {
        cx.worker.cells.add(self.rejects, 1);
        let most = self.options.max_concurrent.unwrap_or_default();
        cx.job.error = format!("concurrent queries exceeded maximum {most}");
        Step::Fail(Rcode::REFUSED)
    }

    fn replied(&self, cx: &mut Cx<'_>, attempt: u32, message: &[u8]) -> Step {
        let answered = self.asking.on_reply(&mut self.query(cx), attempt);
        let Some(answered) = answered else { return Step::Wait };
        let (carrier, upstream) = (answered.carrier, &answered.upstream);
        let mut cut = Vec::new();
        let (message, examined) = match message::examine(message) {
            // It ends too early: a truncated reply without TC.
            Err(WireError::Short { .. }) if carrier.is_datagram()
                && message::cut_to_question(message, &mut cut).is_some() =>
            {
                (&*cut, message::examine(&cut))
            }
            examined => (message, examined),
        };
        let facts = match examined {
            Ok(facts) => facts,
            Err(error) => {
                let (qname, qtype) = (cx.job.current.qname.clone(), cx.job.current.qtype);
                return self.ask(cx, |asking, q| {
                    asking.note_malformed(q, (&qname, qtype), &answered, error);
                    asking.ask_next(q, Cause::Retry)
                });
            }
        };
        let Parts { cells, index, shared, .. } = &mut cx.worker.parts;
        let counter = (cells, *index, &shared.registry);
        upstream.series.count_answer(counter, &upstream.name, facts.rcode, answered.took);
        if cx.job.tapped {
            dnstap::forwarded(cx, upstream, carrier, answered.took, message);
        }
        if facts.truncated
            && let Some(whole) = carrier.untruncated()
            && self.wants_whole(cx)
        {
            let member = answered.member;
            return self.ask(cx, |asking, q| asking.ask_again(q, member, whole, Cause::Answer));
        }
        if self.options.failover.contains(&facts.rcode)
            && self.asking.fails_over(&mut cx.job.current.state.forward)
        {
            return self.ask(cx, |asking, q| match q.state.waits() {
                true => asking.wait(q),
                false => asking.ask_next(q, Cause::Answer),
            });
        }
        let state = &mut cx.job.current.state.forward;
        state.answered = Some(answered.upstream);
        coalesce::answered(state, cx.worker, message);
        self.conclude(cx, message, &facts)
    }

    /// Whether a truncated reply is of no use: the client can take a whole one, `prefer_udp` promises it,
    /// or no client waits that could ask again over TCP.
    fn wants_whole(&self, cx: &Cx<'_>) -> bool {
        match cx.job.recipient {
            Recipient::Nobody(_) => true,
            Recipient::Client(client) => {
                self.options.prefer_udp || !client.transport.is_datagram()
            }
        }
    }

    /// Passes the question to the next `forward`, if `next` says so, or takes the reply.
    fn conclude(&self, cx: &mut Cx<'_>, message: &[u8], facts: &message::Facts) -> Step {
        // Whatever failed on the way to this answer is no error of the question.
        cx.job.error.clear();
        cx.job.current.state.forward.role = Role::Alone;
        crate::asking::leave(&mut cx.job.current.state.forward, cx.worker);
        let next = cx.block.handlers.get(cx.job.current.position + 1);
        let unwanted = self.options.next.contains(&facts.rcode)
            || (self.options.next_on_nodata && facts.no_data);
        if unwanted && matches!(next, Some(Handler::Forward(_))) {
            return Step::Next;
        }
        message::adopt(cx.job, message, facts);
        Step::Answered
    }

    /// How to ask by default: as the client did, unless the Corefile says otherwise.
    fn carrier(&self, cx: &Cx<'_>) -> Carrier {
        if self.options.force_tcp {
            return Carrier::Tcp;
        }
        if self.options.prefer_udp {
            return Carrier::Udp;
        }
        cx.job.client().transport.plain()
    }

    /// What there is to ask with.
    fn query<'c>(&self, cx: &'c mut Cx<'_>) -> Query<'c> {
        let carrier = self.carrier(cx);
        let job = &mut *cx.job;
        Query {
            now: cx.now,
            client: job.client().peer.ip(),
            carrier,
            state: &mut job.current.state.forward,
            error: &mut job.error,
            deadline_ns: job.deadline_ns,
            timer_at: &mut job.timer_at,
            worker: &mut cx.worker.parts,
        }
    }

    /// Lets the query go on, and ends it if there is no response.
    fn ask(&self, cx: &mut Cx<'_>, act: impl FnOnce(&Asking, &mut Query<'_>) -> Progress) -> Step {
        if act(&self.asking, &mut self.query(cx)) == Progress::Waits {
            return Step::Wait;
        }
        let q = &mut cx.job.current;
        let (code, text) = if q.state.forward.timed_out {
            (extended_error::NO_REACHABLE_AUTHORITY, "upstreams did not answer in time")
        } else {
            (extended_error::NETWORK_ERROR, "no upstream could be asked")
        };
        q.response.extended_error(code, text);
        q.response.live |= !q.state.forward.is_conclusive();
        Step::Fail(Rcode::SERVFAIL)
    }
}

/// Forwarding would only bring the question back here.
fn isolated(cx: &mut Cx<'_>) -> Step {
    cx.job.error.push_str("loop detected: forwarded queries come back here");
    let response = &mut cx.job.current.response;
    response.extended_error(extended_error::NETWORK_ERROR, "loop detected");
    Step::Fail(Rcode::SERVFAIL)
}
