//! Runs a question through a server block's handlers: two plain loops and a stack of lookups.

use crate::config::{Config, ServerBlock};
use crate::handler::{Cx, Event, Handle, Job, Lookup, Resolution, Scope, Step};
use crate::handlers::Handler;
use crate::job::{Abandoned, Asker};
use crate::time::Now;
use crate::worker::WorkerState;
use nodens_wire::Rcode;

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;

/// Where a run begins.
#[derive(Debug)]
pub enum Start<'e> {
    /// A new question: choose the server block first.
    Top,
    /// The same for an UPDATE (RFC 2136), which only some blocks take.
    Update,
    /// A refresh: behind the handler that wants it.
    Behind,
    /// The handler that waited.
    Resume(Event<'e>),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The outermost response is decided.
    Done,
    /// A handler waits.
    Waiting,
    /// The client gets no response.
    Dropped,
}

/// Runs `job` until it is decided or has to wait.
pub fn run(
    config: &Config,
    worker: &mut WorkerState,
    now: Now,
    job: &mut Job,
    start: Start<'_>,
) -> Outcome {
    let mut step = match start {
        Start::Top => enter(config, worker, now, job),
        Start::Update => enter_with_update(config, worker, now, job),
        Start::Behind => {
            job.current.position += 1;
            descend(config, worker, now, job)
        }
        Start::Resume(event) => resumed(config, worker, now, job, event),
    };
    loop {
        step = match step {
            Step::Wait => return Outcome::Waiting,
            Step::Drop if job.current.is_clients() => {
                // As below: it may be dropped while it waits.
                job.current.state.leave(worker);
                note_drop(config, worker, now, job);
                return Outcome::Dropped;
            }
            // What a handler only looks up fails without an answer; the client may get one.
            Step::Drop => Step::Fail(Rcode::SERVFAIL),
            Step::Next => {
                job.current.position += 1;
                descend(config, worker, now, job)
            }
            Step::Lookup(lookup) => begin_lookup(config, worker, now, job, lookup),
            Step::Answered | Step::Fail(_) => {
                // A job that is abandoned does not go through the handler it waited in.
                job.current.state.leave(worker);
                settle(config, job, &step);
                ascend(config, worker, now, job);
                match job.outer.pop() {
                    // On the way back a handler has decided that nothing is sent.
                    None if job.current.response.dropped => return Outcome::Dropped,
                    None => return Outcome::Done,
                    Some(outer) => {
                        let inner = std::mem::replace(&mut job.current, outer);
                        // What is made of a live answer is live.
                        job.current.response.live |= inner.response.live;
                        job.inner = Some(Box::new(inner));
                        resumed(config, worker, now, job, Event::LookedUp)
                    }
                }
            }
        };
    }
}

/// Shows an answer as it is sent to those handlers that asked for it.
pub(crate) fn note_sent(config: &Config, now: Now, job: &mut Job) {
    job.tapped = false;
    let Some(block) = config.blocks.get(job.current.block) else { return };
    block.handlers.iter().for_each(|handler| handler.sent(now, job, block));
}

/// Chooses the server block for the current question and starts at its first handler.
fn enter(config: &Config, worker: &mut WorkerState, now: Now, job: &mut Job) -> Step {
    match config.select(job) {
        Some((block, zone)) => {
            job.current.block = block;
            job.current.zone = zone;
            job.current.position = 0;
            job.current.floor = 0;
            descend(config, worker, now, job)
        }
        None => {
            if job.current.asker != Asker::Unwatched {
                config.note_unserved(now, worker, job);
            }
            job.current.block = usize::MAX;
            Step::Fail(Rcode::REFUSED)
        }
    }
}

/// As [`enter`], unless the block takes no updates: then none of its handlers sees it.
#[cold]
fn enter_with_update(config: &Config, worker: &mut WorkerState, now: Now, job: &mut Job) -> Step {
    let block = config.select(job).and_then(|(block, _)| config.blocks.get(block));
    if block.is_some_and(|block| !block.settings.takes_updates) {
        job.current.block = usize::MAX;
        return Step::Fail(Rcode::NOTIMP);
    }
    enter(config, worker, now, job)
}

/// Calls handlers from the current position until one does not pass the question on.
fn descend(config: &Config, worker: &mut WorkerState, now: Now, job: &mut Job) -> Step {
    let Some(block) = config.blocks.get(job.current.block) else {
        return Step::Fail(Rcode::REFUSED);
    };
    let mut cx = Cx { now, job, block, config, worker };
    let behind = block.handlers.get(cx.job.current.position..).unwrap_or_default();
    for handler in behind {
        if handler.looks_at_questions() && takes_part(handler, &cx.job.current) {
            match handler.answer(&mut cx) {
                Step::Next => {}
                step => return step,
            }
        }
        cx.job.current.position += 1;
    }
    end_of_chain(block, job)
}

/// Whether `handler` has a look at the question: those that only watch do not at every lookup.
fn takes_part(handler: &Handler, q: &Resolution) -> bool {
    q.asker != Asker::Unwatched || !handler.only_watches()
}

#[cold]
fn end_of_chain(block: &ServerBlock, job: &mut Job) -> Step {
    if block.handlers.is_empty() {
        return Step::Fail(Rcode::REFUSED);
    }
    let last = block.handlers.last().map_or("", |handler| handler.name());
    job.error = format!("plugin/{last}: no next plugin found");
    Step::Fail(Rcode::SERVFAIL)
}

fn resumed(
    config: &Config,
    worker: &mut WorkerState,
    now: Now,
    job: &mut Job,
    event: Event<'_>,
) -> Step {
    if let Some(how) = job.abandoned {
        job.current.state.abandon();
        return match how {
            Abandoned::Failed(rcode) => Step::Fail(rcode),
            Abandoned::Dropped => Step::Drop,
        };
    }
    let block = config.blocks.get(job.current.block);
    let Some((block, handler)) =
        block.and_then(|block| Some((block, block.handlers.get(job.current.position)?)))
    else {
        return Step::Fail(Rcode::SERVFAIL);
    };
    handler.resumed(&mut Cx { now, job, block, config, worker }, event)
}

/// Notes who answered, or that the server has to answer with an RCODE alone.
fn settle(config: &Config, job: &mut Job, step: &Step) {
    let q = &mut job.current;
    // A response that a handler only handed on has the name of who gave it.
    if q.response.answered_by.is_none() {
        let handler = config.blocks.get(q.block).and_then(|block| block.handlers.get(q.position));
        q.response.answered_by = handler.map(Handler::index);
    }
    if let Step::Fail(rcode) = step {
        q.response.wire.clear();
        q.response.written = false;
        q.response.rcode = *rcode;
    }
}

/// Lets the handlers that were passed look at the response, last first.
fn ascend(config: &Config, worker: &mut WorkerState, now: Now, job: &mut Job) {
    let Some(block) = config.blocks.get(job.current.block) else { return };
    let (floor, position) = (job.current.floor, job.current.position);
    let passed = block.handlers.get(floor..position).unwrap_or_default();
    let mut cx = Cx { now, job, block, config, worker };
    for (at, handler) in (floor..position).zip(passed).rev() {
        let q = &mut cx.job.current;
        q.position = at;
        let passed_over = q.response.dropped && !handler.notes_drops();
        if !passed_over && takes_part(handler, q) {
            handler.amend(&mut cx);
        }
    }
}

/// Lets those count and log a question that do so, although it gets no response.
fn note_drop(config: &Config, worker: &mut WorkerState, now: Now, job: &mut Job) {
    loop {
        job.current.response.clear();
        job.current.response.dropped = true;
        ascend(config, worker, now, job);
        match job.outer.pop() {
            None => return,
            Some(outer) => job.current = outer,
        }
    }
}

fn begin_lookup(
    config: &Config,
    worker: &mut WorkerState,
    now: Now,
    job: &mut Job,
    lookup: Lookup,
) -> Step {
    let allowed = job.may_look_up();
    job.lookups += 1;
    if !allowed {
        job.error = format!("lookup of {} {} is nested too deeply", lookup.qname, lookup.qtype);
        return Step::Fail(Rcode::SERVFAIL);
    }
    let mut inner = Resolution::default();
    inner.begin(lookup.qname.view(), lookup.qtype, lookup.qclass, job.current.flags);
    inner.asker = asker(&job.current, &lookup);
    inner.asked_ns = now.mono_ns;
    inner.edns.clone_from(&job.current.edns);
    inner.block = job.current.block;
    inner.zone = job.current.zone;
    inner.position = job.current.position + 1;
    inner.floor = inner.position;
    job.outer.push(std::mem::replace(&mut job.current, inner));
    match lookup.scope {
        Scope::Server | Scope::Unwatched => enter(config, worker, now, job),
        Scope::Behind => descend(config, worker, now, job),
    }
}

/// Whose question `lookup` is if the handler at work in `outer` asks it.
fn asker(outer: &Resolution, lookup: &Lookup) -> Asker {
    let same =
        (&lookup.qname, lookup.qtype, lookup.qclass) == (&outer.qname, outer.qtype, outer.qclass);
    match lookup.scope {
        Scope::Behind if same => outer.asker,
        Scope::Behind | Scope::Server => Asker::Handler,
        Scope::Unwatched => Asker::Unwatched,
    }
}
