//! `grpc`: asks other servers by calls of gRPC.
//!
//! This module decides what becomes of a query and of a response; [`crate::asking`] whom to ask, when,
//! and whether again.

mod config;

use config::setup;

use crate::asking::{Asking, Cause, Parts, Progress, Query, coalesce};
use crate::coalescing::Role;
use crate::exchange::{self, Facts};
use crate::handler::{Cx, Event, Handle, Spec, Step};
use crate::upstream::Carrier;
use crate::zones::Fallthrough;
use nodens_wire::edns::extended_error;
use nodens_wire::{Name, NameRef, Rcode};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("grpc", setup);

/// The directive at work.
#[derive(Debug)]
pub struct Grpc {
    from: Name,
    except: Vec<Name>,
    asking: Box<Asking>,
    fallthrough: Fallthrough,
}

impl Handle for Grpc {

    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        if !self.wants(cx.job.current.qname.view()) {
            return Step::Next;
        }
        self.asking.prepare(&mut query(cx));
        let question = exchange::compose(&mut cx.job.current, &mut cx.worker.scratch);
        let scope = self.asking.instance.to_be_bytes();
        let state = &mut cx.job.current.state.forward;
        if !coalesce::join(state, cx.worker, cx.now, &scope, question) {
            return exchange::refuse_for_now(cx.job, coalesce::TOO_MANY);
        }
        match cx.job.current.state.forward.role {
            Role::Follower(_) => {
                let deadline_ns = cx.job.deadline_ns;
                cx.worker.set_timer(cx.job, deadline_ns);
                Step::Wait
            }
            Role::Alone | Role::Leader(_) => {
                self.ask(cx, |asking, q| asking.ask_next(q, Cause::Retry))
            }
        }
    }

    fn resumed(&self, cx: &mut Cx<'_>, event: Event<'_>) -> Step {
        let role = cx.job.current.state.forward.role;
        match event {
            Event::Reply { attempt, message } => self.replied(cx, attempt, message),
            Event::Failed { attempt, fault } => {
                self.ask(cx, |asking, q| asking.on_failure(q, attempt, fault))
            }
            Event::Timer => self.ask(cx, Asking::on_timer),
            Event::Shared { query, .. } if role != Role::Follower(query) => Step::Wait,
            Event::Shared { message: Some(message), .. } => match exchange::examine(message) {
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
}

impl Grpc {
    /// Whether questions for this name are asked here.
    fn wants(&self, qname: NameRef<'_>) -> bool {
        let excepted = |name: &Name| qname.is_in_domain(name.view());
        qname.is_in_domain(self.from.view())
            && (qname == self.from.view() || !self.except.iter().any(excepted))
    }

    fn replied(&self, cx: &mut Cx<'_>, attempt: u32, message: &[u8]) -> Step {
        let Some(answered) = self.asking.on_reply(&mut query(cx), attempt) else {
            return Step::Wait;
        };
        let facts = match exchange::examine(message) {
            Ok(facts) => facts,
            Err(error) => {
                let (qname, qtype) = (cx.job.current.qname.clone(), cx.job.current.qtype);
                return self.ask(cx, |asking, q| {
                    asking.note_malformed(q, (&qname, qtype), &answered, error);
                    asking.ask_next(q, Cause::Retry)
                });
            }
        };
        let upstream = &answered.upstream;
        let Parts { cells, index, shared, .. } = &mut cx.worker.parts;
        let counter = (cells, *index, &shared.registry);
        upstream.series.count_answer(counter, &upstream.name, facts.rcode, answered.took);
        coalesce::answered(&mut cx.job.current.state.forward, cx.worker, message);
        self.conclude(cx, message, &facts)
    }

    /// Takes the reply, or leaves the question to the next handler.
    fn conclude(&self, cx: &mut Cx<'_>, message: &[u8], facts: &Facts) -> Step {
        // Whatever failed on the way to this answer is no error of the question.
        cx.job.error.clear();
        cx.job.current.state.forward.role = Role::Alone;
        crate::asking::leave(&mut cx.job.current.state.forward, cx.worker);
        if facts.rcode == Rcode::NXDOMAIN && self.falls_through(cx) {
            return Step::Next;
        }
        exchange::adopt(cx.job, message, facts);
        Step::Answered
    }

    /// Whether this name is also the business of the next handler, and there is one.
    fn falls_through(&self, cx: &Cx<'_>) -> bool {
        cx.block.handlers.len() > cx.job.current.position + 1
            && self.fallthrough.lets_pass(cx.job.current.qname.view())
    }

    /// Lets the query go on, and ends it if there is no response.
    fn ask(&self, cx: &mut Cx<'_>, act: impl FnOnce(&Asking, &mut Query<'_>) -> Progress) -> Step {
        if act(&self.asking, &mut query(cx)) == Progress::Waits {
            return Step::Wait;
        }
        if self.falls_through(cx) {
            crate::asking::leave(&mut cx.job.current.state.forward, cx.worker);
            cx.job.error.clear();
            return Step::Next;
        }
        let q = &mut cx.job.current;
        let (code, text) = match q.state.forward.timed_out {
            true => (extended_error::NO_REACHABLE_AUTHORITY, "upstreams did not answer in time"),
            false => (extended_error::NETWORK_ERROR, "no upstream could be asked"),
        };
        q.response.extended_error(code, text);
        q.response.live |= !q.state.forward.is_conclusive();
        Step::Fail(Rcode::SERVFAIL)
    }
}

/// What there is to ask with.
fn query<'c>(cx: &'c mut Cx<'_>) -> Query<'c> {
    let job = &mut *cx.job;
    Query {
        now: cx.now,
        client: job.client().peer.ip(),
        carrier: Carrier::Grpc,
        state: &mut job.current.state.forward,
        error: &mut job.error,
        deadline_ns: job.deadline_ns,
        timer_at: &mut job.timer_at,
        worker: &mut cx.worker.parts,
    }
}
