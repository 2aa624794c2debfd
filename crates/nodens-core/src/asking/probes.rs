//! Health checks: once an upstream fails, one worker asks it until it answers again.
//!
//! A health check is an ordinary question to the owner of the sockets. Its ticket names no job.

use super::Parts;
use crate::action::Action;
use crate::limits::{PROBE_INTERVAL_FACTOR_MAX, PROBE_TIME_MAX};
use crate::ticket::Ticket;
use crate::time::Now;
use crate::upstream::{Ask, Carrier, Upstream};
use nodens_wire::{Builder, Class, Flags, Type};
use slab::Slab;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The slot of tickets that name a health check.
const SLOT: u32 = u32::MAX;
/// After this many failures in a row the time between two checks begins to double.
const PATIENCE: u32 = 8;

/// `health_check 0` must not keep a worker busy.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// The health checks one worker looks after.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    running: Slab<Probe>,
}

#[derive(Debug)]
struct Probe {
    /// Not held: a reload that drops an upstream ends its health checks.
    upstream: Weak<Upstream>,
    carrier: Carrier,
    message: Vec<u8>,
    /// The attempt that waits for an answer, since when.
    asked: Option<(u32, u64)>,
    failures: u32,
    /// The timer that counts; others are old.
    timer_ns: u64,
}

impl Probes {
    /// The message of the health check `ticket` names.
    pub(crate) fn message(&mut self, ticket: Ticket) -> Option<&mut Vec<u8>> {
        self.running.get_mut(ticket.serial as usize).map(|probe| &mut probe.message)
    }
}

/// Whether `ticket` names a health check and not a job.
pub(crate) fn is_probe(ticket: Ticket) -> bool {
    ticket.slot == SLOT
}

/// Starts to check `upstream` over `carrier` unless some worker does so already.
pub(crate) fn start(worker: &mut Parts, now: Now, upstream: &Arc<Upstream>, carrier: Carrier) {
    if !upstream.path(carrier).claim_probes() {
        return;
    }
    let settings = &upstream.key.settings;
    let mut message = Vec::with_capacity(64);
    let flags = Flags::default().with(Flags::RD, settings.probe_recursion);
    let qname = settings.probe_domain.view();
    Builder::new(&mut message, 0, flags).question(qname, Type::NS, Class::IN);
    let upstream = Arc::downgrade(upstream);
    let probe = Probe { upstream, carrier, message, asked: None, failures: 0, timer_ns: 0 };
    let index = worker.probes.running.insert(probe);
    ask(worker, now, index);
}

/// A health check was answered; by what does not matter.
pub(crate) fn answered(worker: &mut Parts, now: Now, ticket: Ticket, attempt: u32) {
    let index = ticket.serial as usize;
    let Some(probe) = worker.probes.running.get(index) else { return };
    let Some((asked, since_ns)) = probe.asked else { return };
    if asked == attempt {
        if let Some(upstream) = probe.upstream.upgrade() {
            upstream.path(probe.carrier).answered(now, now.since(since_ns));
        }
        stop(worker, index);
    }
}

/// A health check failed; `counts` says whether that says something of the upstream.
pub(crate) fn failed(worker: &mut Parts, now: Now, (ticket, attempt): (Ticket, u32), counts: bool) {
    let index = ticket.serial as usize;
    let Some(probe) = worker.probes.running.get_mut(index) else { return };
    if probe.asked.is_none_or(|(asked, _)| asked != attempt) {
        return;
    }
    probe.asked = None;
    probe.failures = probe.failures.saturating_add(counts.into());
    let (failures, carrier) = (probe.failures, probe.carrier);
    let Some(upstream) = probe.upstream.upgrade() else { return stop(worker, index) };
    if counts {
        upstream.path(carrier).probe_failed();
        worker.cells.add(upstream.series.probe_failures(), 1);
    }
    let wait = interval(upstream.key.settings.probe_interval, failures);
    set_timer(worker, index, now.plus(wait));
}

/// The timer of a health check fired: the answer is overdue, or it is time to ask again.
pub(crate) fn due(worker: &mut Parts, now: Now, ticket: Ticket) {
    let index = ticket.serial as usize;
    let Some(probe) = worker.probes.running.get_mut(index) else { return };
    if probe.timer_ns > now.mono_ns {
        return;
    }
    match probe.asked {
        Some((attempt, _)) => {
            worker.actions.push(Action::Forget { ticket, attempt });
            failed(worker, now, (ticket, attempt), true);
        }
        None => ask(worker, now, index),
    }
}

fn ask(worker: &mut Parts, now: Now, index: usize) {
    let attempt = worker.attempt_number();
    let Some(probe) = worker.probes.running.get_mut(index) else { return };
    let Some(upstream) = probe.upstream.upgrade() else { return stop(worker, index) };
    // Answers to clients' questions speak for the upstream just as well.
    if probe.failures > 0 && upstream.path(probe.carrier).is_healthy() {
        return stop(worker, index);
    }
    probe.asked = Some((attempt, now.mono_ns));
    let (carrier, ticket) = (probe.carrier, ticket(index));
    // A connection that is stuck says nothing about whether a new one would work.
    let ask = Ask { ticket, attempt, upstream, carrier, elsewhere: true };
    worker.actions.push(Action::Ask(ask));
    set_timer(worker, index, now.plus(PROBE_TIME_MAX));
}

fn stop(worker: &mut Parts, index: usize) {
    let Some(probe) = worker.probes.running.try_remove(index) else { return };
    if let Some(upstream) = probe.upstream.upgrade() {
        upstream.path(probe.carrier).release_probes();
    }
}

fn set_timer(worker: &mut Parts, index: usize, at_ns: u64) {
    if let Some(probe) = worker.probes.running.get_mut(index) {
        probe.timer_ns = at_ns;
        worker.wake_at(ticket(index), at_ns);
    }
}

fn ticket(index: usize) -> Ticket {
    Ticket { slot: SLOT, serial: u32::try_from(index).unwrap_or(u32::MAX) }
}

fn interval(first: Duration, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(PATIENCE).min(PROBE_INTERVAL_FACTOR_MAX.ilog2());
    first.max(INTERVAL_MIN) * (1 << doublings)
}
