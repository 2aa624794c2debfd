//! `forward`: asks other servers.
//!
//! This module decides what becomes of a question and of a reply; [`attempts`] whom to ask when,
//! [`retries`] and [`budget`] whether again, [`policy`] in which order, [`coalescing`] who waits for whose answer, the worker's `probes` when an upstream
//! that failed is well again, [`outage`] what is said when all have failed. Sending is up to whoever owns the sockets.

mod attempts;
mod budget;
mod config;
mod destination;
mod coalescing;
mod message;
mod outage;
mod policy;
mod retries;
mod targets;

pub use attempts::State;
pub(crate) use attempts::leave;
use config::setup;
pub(crate) use outage::Pause;
pub use policy::Policy;
pub(crate) use retries::Budgets;
pub use targets::{Target, targets};

use crate::coalescing::Role;
use crate::handler::{Cx, Event, Handle, Job, Spec, Step};
use crate::handlers::Handler;
use crate::handlers::{dnstap, loops};
use crate::metrics::Counter;
use crate::upstream::{Carrier, Upstream};
use crate::asking::Parts;
use config::Options;
use budget::Floor;
use retries::Cause;
use nodens_wire::edns::extended_error;
use nodens_wire::{Name, NameRef, Rcode, WireError};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("forward", setup);

/// The directive at work.
#[derive(Debug)]
pub struct Forward {
    from: Name,
    except: Vec<Name>,
    upstreams: Vec<Arc<Upstream>>,
    options: Box<Options>,
    /// Questions under way, if they are limited.
    concurrent: Arc<AtomicU32>,
    /// Tells this `forward` from others in [`InFlight`](crate::coalescing::InFlight).
    instance: u64,
    /// Retries that all workers have together.
    floor: Floor,
    /// `loop` of the same server block.
    loops: Option<Arc<loops::State>>,
    /// Why a coalesced query failed last, for its followers.
    last_error: Mutex<String>,
    series: Series,
}

/// Metric series without labels.
#[derive(Debug)]
struct Series {
    all_down: Counter,
    rejects: Counter,
    retries: Counter,
    put_off: Counter,
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
        self.prepare(cx, carrier);
        if !self.enter(cx) {
            return self.refuse(cx);
        }
        let question = message::compose(&mut cx.job.current, &mut cx.worker.scratch);
        if !probes_loop {
            let [a, b, c, d, e, f, g, h] = self.instance.to_be_bytes();
            let scope = [a, b, c, d, e, f, g, h, carrier as u8];
            let state = &mut cx.job.current.state.forward;
            coalescing::join(state, cx.worker, cx.now, &scope, question);
        }
        match cx.job.current.state.forward.role {
            Role::Follower(_) => {
                let deadline_ns = cx.job.deadline_ns;
                cx.worker.set_timer(cx.job, deadline_ns);
                Step::Wait
            }
            Role::Alone | Role::Leader(_) => self.ask_next(cx, Cause::Retry),
        }
    }

    fn resumed(&self, cx: &mut Cx<'_>, event: Event<'_>) -> Step {
        match event {
            Event::Reply { attempt, message } => self.replied(cx, attempt, message),
            Event::Failed { attempt, fault } => self.on_failure(cx, attempt, fault),
            Event::Timer => self.on_timer(cx),
            Event::Shared { query, .. } if cx.job.current.state.forward.role != Role::Follower(query) => {
                Step::Wait
            }
            Event::Shared { message: Some(message), .. } => match message::examine(message) {
                Ok(facts) => {
                    let step = self.conclude(cx, message, &facts);
                    cx.job.current.response.handed_on = matches!(step, Step::Answered);
                    step
                }
                Err(_) => self.fail(cx),
            },
            Event::Shared { message: None, .. } => self.shared_nothing(cx),
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
        let carrier = if self.options.force_tcp { Carrier::Tcp } else { Carrier::Udp };
        self.upstreams.iter().map(move |upstream| (upstream, carrier))
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

    fn refuse(&self, cx: &mut Cx<'_>) -> Step {
        cx.worker.cells.add(self.series.rejects, 1);
        let most = self.options.max_concurrent.unwrap_or_default();
        cx.job.error = format!("concurrent queries exceeded maximum {most}");
        Step::Fail(Rcode::REFUSED)
    }

    fn replied(&self, cx: &mut Cx<'_>, attempt: u32, message: &[u8]) -> Step {
        let Some(answered) = self.on_reply(cx, attempt) else { return Step::Wait };
        let (carrier, upstream) = (answered.carrier, answered.upstream);
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
                self.note_malformed(cx, &upstream, error);
                cx.job.current.state.forward.note_malformed(answered.member);
                return self.ask_next(cx, Cause::Retry);
            }
        };
        let Parts { cells, index, shared, .. } = &mut cx.worker.parts;
        let counter = (cells, *index, &shared.registry);
        upstream.series.count_answer(counter, &upstream.name, facts.rcode, answered.took);
        if cx.job.tapped {
            dnstap::forwarded(cx, &upstream, carrier, answered.took, message);
        }
        if facts.truncated
            && let Some(whole) = carrier.untruncated()
            && self.wants_whole(cx)
        {
            return self.ask_again(cx, answered.member, whole, Cause::Answer);
        }
        if self.options.failover.contains(&facts.rcode) && self.fails_over(cx) {
            let waits = cx.job.current.state.forward.waits();
            return if waits { self.wait(cx) } else { self.ask_next(cx, Cause::Answer) };
        }
        let state = &mut cx.job.current.state.forward;
        state.answered = Some(upstream);
        coalescing::answered(state, cx.worker, message);
        self.conclude(cx, message, &facts)
    }

    /// Whether a truncated reply is of no use: the client can take a whole one, or `prefer_udp`
    /// promises it.
    fn wants_whole(&self, cx: &Cx<'_>) -> bool {
        self.options.prefer_udp || !cx.job.client().transport.is_datagram()
    }

    /// Passes the question to the next `forward`, if `next` says so, or takes the reply.
    fn conclude(&self, cx: &mut Cx<'_>, message: &[u8], facts: &message::Facts) -> Step {
        // Whatever failed on the way to this answer is no error of the question.
        cx.job.error.clear();
        cx.job.current.state.forward.role = Role::Alone;
        attempts::leave(&mut cx.job.current.state.forward, cx.worker);
        let next = cx.block.handlers.get(cx.job.current.position + 1);
        let unwanted = self.options.next.contains(&facts.rcode)
            || (self.options.next_on_nodata && facts.no_data);
        if unwanted && matches!(next, Some(Handler::Forward(_))) {
            return Step::Next;
        }
        message::adopt(&mut cx.job.current.response, message, facts);
        Step::Answered
    }

    /// The job this one waited for has no answer.
    fn shared_nothing(&self, cx: &mut Cx<'_>) -> Step {
        if coalescing::takes_over(&mut cx.job.current.state.forward, cx.worker) {
            return self.ask_next(cx, Cause::Retry);
        }
        cx.job.error.clone_from(&self.last_error.lock().unwrap_or_else(PoisonError::into_inner));
        self.fail(cx)
    }

    fn remember_error(&self, error: &str) {
        let mut last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        error.clone_into(&mut last);
    }
}

/// Forwarding would only bring the question back here.
fn isolated(cx: &mut Cx<'_>) -> Step {
    cx.job.error.push_str("loop detected: forwarded queries come back here");
    let response = &mut cx.job.current.response;
    response.extended_error(extended_error::NETWORK_ERROR, "loop detected");
    Step::Fail(Rcode::SERVFAIL)
}
