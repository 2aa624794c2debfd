//! `dynupdate`: a zone that is changed by messages (RFC 2136).
//!
//! Here it is decided who may ask for a change at all. Changes are made elsewhere, on a thread that may wait
//! for the disk ([`DynamicZone::perform`]): the question waits for it, and this worker for nothing.

mod config;
mod database;
mod seed;

use super::{LookupState, answering};
use crate::config::BlockBuilder;
use crate::handler::{Cx, Event, Handle, Job, Searches, Spec, Step};
use crate::handlers::Handler;
use crate::job::Recipient;
use crate::limits::UPDATE_TIME_MAX;
use crate::log::Level;
use crate::metrics::Counter;
use crate::shared::Mail;
use nodens_wire::{Class, Header, NameRef, Opcode, Rcode, Type};
use nodens_zone::dynamic::{DynamicZone, Update};
use nodens_zone::update::Policy;
use std::sync::{Arc, OnceLock};

use config::setup;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec { chain_complete: Some(show), ..Spec::new("dynupdate", setup) };

/// RCODEs of responses to updates.
const RCODES: [Rcode; 11] = [
    Rcode::NOERROR,
    Rcode::FORMERR,
    Rcode::SERVFAIL,
    Rcode::NXDOMAIN,
    Rcode::NOTIMP,
    Rcode::REFUSED,
    Rcode::YXDOMAIN,
    Rcode::YXRRSET,
    Rcode::NXRRSET,
    Rcode::NOTAUTH,
    Rcode::NOTZONE,
];

/// The directive at work.
#[derive(Debug)]
pub struct Dynupdate {
    zone: Arc<DynamicZone>,
    policy: Arc<Policy>,
    /// Responses, in the order of [`RCODES`].
    counters: [Counter; RCODES.len()],
}

/// An update that is not done yet.
#[derive(Debug)]
pub struct State {
    /// The RCODE of the response, once it is known. An update whose outcome is gone is not done any more.
    outcome: Arc<OnceLock<Rcode>>,
    /// Octets of the message, which waits in the zone's queue.
    message_len: usize,
}

impl State {
    /// Octets of memory that the update takes beside its query.
    pub(crate) fn octets(&self) -> usize {
        self.message_len
    }
}

impl Handle for Dynupdate {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let q = &cx.job.current;
        let is_inside = q.qname.view().is_in_domain(self.zone.origin().view());
        match q.flags.opcode() {
            Opcode::UPDATE => return self.update(cx),
            _ if !is_inside => return answering::outside(cx),
            // As a primary it has no server that would notify it.
            Opcode::NOTIFY => return Step::Drop,
            _ => {}
        }
        let data = self.zone.served().load();
        let data = data.as_ref().filter(|_| !self.zone.is_unready());
        let step = answering::answer(cx, data, None, |_| false);
        cx.q().response.live = true;
        step
    }

    fn searches(&self, name: NameRef<'_>) -> Searches {
        match name.is_in_domain(self.zone.origin().view()) {
            true => Searches::Zone(self.zone.served().load()),
            false => Searches::Nothing,
        }
    }

    fn resumed(&self, cx: &mut Cx<'_>, event: Event<'_>) -> Step {
        let LookupState::Dynupdate(state) = &cx.job.current.state.lookup else {
            let step = answering::resumed(cx, &event);
            cx.q().response.live = true;
            return step;
        };
        match (state.outcome.get().copied(), event) {
            (Some(rcode), _) => self.reply(cx, rcode),
            (None, Event::Timer) => {
                "the update is not done in time".clone_into(&mut cx.job.error);
                // Unless it is being written by now, it is not done later.
                cx.q().state.lookup = LookupState::None;
                self.reply(cx, Rcode::SERVFAIL)
            }
            (None, _) => Step::Wait,
        }
    }

    fn label(&self, job: &Job, asked: NameRef<'_>, label: &str) -> Option<String> {
        let is_ours = label == "zone/wildcard" && asked.is_in_domain(self.zone.origin().view());
        let data = self.zone.served().load();
        answering::wildcard(data.as_deref().filter(|_| is_ours), asked, job.current.qtype)
    }
}

impl Dynupdate {
    fn update(&self, cx: &mut Cx<'_>) -> Step {
        let q = &cx.job.current;
        if (q.qtype, q.qclass) != (Type::SOA, Class::IN) {
            return self.reply(cx, Rcode::FORMERR);
        }
        // No other handler may have it, and say that it is done.
        if q.qname != *self.zone.origin() {
            return self.reply(cx, Rcode::NOTAUTH);
        }
        let is_clients = q.is_clients() && matches!(cx.job.recipient, Recipient::Client(_));
        let Some(key) = cx.job.verified_key().filter(|_| is_clients) else {
            if cx.block.settings.debug {
                let (zone, client) = (self.zone.origin(), cx.job.client().peer);
                let text = format!("refusing UPDATE for {zone} from {client}: it is not signed");
                cx.worker.sink.line(Level::Debug, SPEC.name, text);
            }
            return self.reply(cx, Rcode::REFUSED);
        };
        if !self.policy.knows(key) || self.has_too_many_records(cx) {
            return self.reply(cx, Rcode::REFUSED);
        }
        let outcome = Arc::new(OnceLock::new());
        let update = Update {
            message: cx.job.request.clone(),
            key: key.to_name(),
            policy: self.policy.clone(),
            is_awaited: is_awaited(&outcome),
            reply: reply_to(cx, &outcome),
            worker: cx.worker.index,
        };
        if self.zone.push(update).is_err() {
            "too many updates wait".clone_into(&mut cx.job.error);
            return self.reply(cx, Rcode::SERVFAIL);
        }
        cx.q().state.lookup = LookupState::Dynupdate(State { outcome, message_len: cx.job.request.len() });
        let at_ns = cx.now.plus(UPDATE_TIME_MAX);
        cx.worker.set_timer(cx.job, at_ns);
        Step::Wait
    }

    fn has_too_many_records(&self, cx: &Cx<'_>) -> bool {
        let Ok(header) = Header::read(&cx.job.request) else { return true };
        let [_, prerequisites, updates, _] = header.counts.map(usize::from);
        prerequisites + updates > self.policy.update_records_max
    }

    fn reply(&self, cx: &mut Cx<'_>, rcode: Rcode) -> Step {
        let counters = RCODES.iter().zip(&self.counters);
        if let Some((_, counter)) = counters.into_iter().find(|(own, _)| **own == rcode) {
            cx.worker.cells.add(*counter, 1);
        }
        cx.q().reply(rcode, true);
        Step::Answered
    }
}

/// Whether the question at work still waits for its update.
fn is_awaited(outcome: &Arc<OnceLock<Rcode>>) -> Box<dyn Fn() -> bool + Send> {
    let outcome = Arc::downgrade(outcome);
    Box::new(move || outcome.strong_count() > 0)
}

/// What tells the question at work that its update has been looked at.
fn reply_to(
    cx: &Cx<'_>,
    outcome: &Arc<OnceLock<Rcode>>,
) -> Box<dyn FnOnce(Rcode) -> bool + Send> {
    let (shared, worker, ticket) = (cx.worker.shared.clone(), cx.worker.index, cx.worker.ticket);
    let outcome = Arc::downgrade(outcome);
    Box::new(move |rcode| {
        let Some(outcome) = outcome.upgrade() else { return false };
        _ = outcome.set(rcode);
        shared.post(worker, Mail { ticket, query: 0, message: None })
    })
}

/// Lets the zone of the block be transferred.
fn show(block: &mut BlockBuilder<'_>) {
    for handler in &block.handlers {
        let Handler::Dynupdate(Dynupdate { zone, .. }) = handler else { continue };
        zone.shown().add(&block.zone_table, zone.origin().clone());
        block.zone_table.update(|update| {
            _ = update.add(zone.origin().view(), zone.clone());
        });
    }
}
