//! Services that are another name for something (`ExternalName`).

use crate::lookup::find::{Scratch, View};
use crate::lookup::records;
use super::{Found, Kubernetes, State};
use crate::handler::{Cx, Lookup, Resolution, Scope, Step};
use crate::handlers::LookupState;
use crate::limits::CLUSTER_ALIASES_MAX;
use nodens_wire::{Builder, Class, Flags, Message, Name, NameRef, Rcode, Section, Type};

/// Where aliases lead.
enum End {
    /// To addresses in the cluster, which are in the list of what was found.
    Addresses,
    /// Out of the zone: the whole server has to be asked.
    Elsewhere,
    /// Nowhere: in a circle, too far, or to a name without addresses.
    Nowhere,
}

impl Kubernetes {
    /// Answers a question for addresses of a name that is an alias of `target`.
    pub(super) fn follow(
        &self,
        q: &mut Resolution,
        view: View<'_>,
        zone: usize,
        target: &str,
        scratch: &mut Scratch,
    ) -> Step {
        let mut targets = Vec::new();
        match self.chase(q, view, zone, target, &mut targets, scratch) {
            End::Addresses => {
                let ttl = self.ttl;
                q.response.live = true;
                q.reply_with(Rcode::NOERROR, true, |builder, qname| {
                    write_chain(builder, qname, &targets, ttl);
                    let last = targets.last().map_or(qname, Name::view);
                    for one in &scratch.found {
                        records::address(builder, Section::Answer, last, ttl, one.address);
                    }
                });
                Step::Answered
            }
            End::Elsewhere => {
                let Some(qname) = targets.last().cloned() else {
                    return self.deny(q, view, zone, Rcode::NOERROR);
                };
                let qtype = q.qtype;
                q.state.lookup = LookupState::Kubernetes(State::Alias(targets));
                Step::Lookup(Lookup { qname, qtype, qclass: Class::IN, scope: Scope::Server })
            }
            End::Nowhere => self.deny(q, view, zone, Rcode::NOERROR),
        }
    }

    /// Goes from alias to alias as far as the zone has them.
    fn chase(
        &self,
        q: &Resolution,
        view: View<'_>,
        zone: usize,
        target: &str,
        targets: &mut Vec<Name>,
        scratch: &mut Scratch,
    ) -> End {
        let mut text = target;
        loop {
            let from = targets.last().map_or(q.qname.view(), Name::view);
            let Ok(target) = Name::parse(text) else { return End::Nowhere };
            let is_circle = target.view().is_in_domain(from) || targets.contains(&target);
            if is_circle || targets.len() >= CLUSTER_ALIASES_MAX {
                return End::Nowhere;
            }
            let name = target.clone();
            targets.push(target);
            let Some(apex) = self.zones.names().get(zone) else { return End::Nowhere };
            if !name.view().is_in_domain(apex.view()) {
                return End::Elsewhere;
            }
            match self.look(view, name.view(), apex.as_wire().len(), q.qtype, scratch) {
                Found::Addresses if !scratch.found.is_empty() => return End::Addresses,
                Found::Alias(next) => text = next,
                _ => return End::Nowhere,
            }
        }
    }

    /// The target outside has been looked up.
    pub(super) fn looked_up(&self, cx: &mut Cx<'_>, targets: &[Name]) -> Step {
        let inner = cx.job.inner.take().map(|inner| inner.response).unwrap_or_default();
        let message = match inner.written {
            true => Message::parse(&inner.wire).unwrap_or_default(),
            false => Message::default(),
        };
        // A target that does not exist leaves the alias alone. One that nobody can tell anything
        // about is a failure, which the client may get over by asking again.
        let failed = inner.rcode == Rcode::SERVFAIL;
        if !failed {
            cx.job.error.clear();
        }
        let rcode = if failed { Rcode::SERVFAIL } else { Rcode::NOERROR };
        let (ttl, q) = (self.ttl, &mut cx.job.current);
        q.response.live = true;
        q.reply_with(rcode, true, |builder, qname| {
            write_chain(builder, qname, targets, ttl);
            for record in &message.answer {
                // What no message can hold is left out.
                _ = builder.push(Section::Answer, record);
            }
        });
        if message.flags.has(Flags::TC) {
            let flags = q.response.flags();
            q.response.set_flags(flags.with(Flags::TC, true));
        }
        Step::Answered
    }
}

/// Writes a CNAME record from each name to the next.
pub(super) fn write_chain(
    builder: &mut Builder<'_>,
    qname: NameRef<'_>,
    targets: &[Name],
    ttl: u32,
) {
    let mut owner = qname;
    for target in targets {
        let fields = (Type::CNAME, Class::IN, ttl);
        _ = builder.record(Section::Answer, owner, fields, target.as_wire());
        owner = target.view();
    }
}
