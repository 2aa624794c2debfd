//! Load balancers that have host names instead of addresses: what those names have is looked up.

use super::K8sExternal;
use crate::cluster::{External, Service};
use crate::handler::{Cx, Lookup, Resolution, Scope, Step};
use crate::handlers::LookupState;
use crate::lookup::compose::Octets;
use crate::lookup::find::ports;
use crate::lookup::name::Asked;
use crate::lookup::records::weight;
use crate::response::{octets_of, record_octets};
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Class, Flags, Message, Name, NameRef, Rcode, Record, Section, Type};
use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;

/// A response that is being put together.
#[derive(Debug, Default)]
pub struct Draft {
    answer: Vec<Record>,
    additional: Vec<Record>,
    /// What is still to be added, in order.
    rest: VecDeque<(Section, Piece)>,
    /// The section of what is being looked up.
    under_way: Option<Section>,
    truncated: bool,
    /// A lookup failed that the answer depends on.
    failed: bool,
}

#[derive(Debug, PartialEq)]
enum Piece {
    Record(Record),
    Lookup(Name, Type),
}

/// What there is to say of a service with host names.
pub(super) struct Facts<'a> {
    pub(super) service: &'a Service,
    pub(super) asked: &'a Asked<'a>,
    pub(super) zone: NameRef<'a>,
    /// TTLs of addresses and of everything else.
    pub(super) ttls: (u32, u32),
}

impl super::State {
    /// Octets of memory that a draft takes.
    pub(crate) fn octets(&self) -> usize {
        match self {
            Self::Waiting(_) => 0,
            Self::Lookups(draft) => draft.octets(),
        }
    }
}

impl Draft {
    fn octets(&self) -> usize {
        let ahead = self.rest.iter().map(|(_, piece)| match piece {
            Piece::Record(record) => record_octets(record),
            Piece::Lookup(name, _) => name.as_wire().len(),
        });
        let rest = self.rest.capacity() * size_of::<(Section, Piece)>() + ahead.sum::<usize>();
        rest + octets_of(&self.answer) + octets_of(&self.additional)
    }

    /// The draft for a question for A, AAAA or SRV; another type has no records.
    pub(super) fn new(q: &Resolution, facts: &Facts<'_>) -> Self {
        let mut draft = Self::default();
        match q.qtype {
            Type::A | Type::AAAA => draft.add_addresses(q, facts),
            Type::SRV => draft.add_services(q, facts),
            _ => {}
        }
        draft
    }

    /// Whether there is nothing to say.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn add(&mut self, section: Section, piece: Piece) {
        // Each service has a few places.
        if !self.rest.iter().any(|(s, known)| *s == section && *known == piece) {
            self.rest.push_back((section, piece));
        }
    }

    fn add_addresses(&mut self, q: &Resolution, facts: &Facts<'_>) {
        let (address_ttl, ttl) = facts.ttls;
        for place in &facts.service.external {
            match place {
                External::Address(address) => {
                    let record = address_record(q.qname.clone(), *address, address_ttl);
                    if record.rtype == q.qtype {
                        self.add(Section::Answer, Piece::Record(record));
                    }
                }
                External::Host(host) => {
                    let Ok(host) = Name::parse(host) else { continue };
                    let rdata = host.as_wire().to_vec();
                    let record = record(q.qname.clone(), Type::CNAME, ttl, rdata);
                    self.add(Section::Answer, Piece::Record(record));
                    self.add(Section::Answer, Piece::Lookup(host, q.qtype));
                }
            }
        }
    }

    fn add_services(&mut self, q: &Resolution, facts: &Facts<'_>) {
        let (address_ttl, ttl) = facts.ttls;
        let asked = facts.asked;
        let ports = || ports(&facts.service.ports, asked.port, asked.protocol);
        let weight = weight(ports().count() * facts.service.external.len()).to_be_bytes();
        // A number can be that of several protocols. There may be thousands: none is searched for.
        let mut known = HashSet::new();
        let numbers: Vec<u16> = ports().flatten().filter(|port| known.insert(*port)).collect();
        let mut own = Octets::<NAME_LEN_MAX>::new();
        own.push(asked.key);
        own.push(facts.zone.as_wire());
        let mut targets: Vec<Name> = Vec::new();
        for place in &facts.service.external {
            let target = match place {
                External::Address(_) => own.name().map(NameRef::to_name),
                External::Host(host) => Name::parse(host).ok(),
            };
            let Some(target) = target.filter(|_| !numbers.is_empty()) else { continue };
            if !targets.contains(&target) {
                self.rest.extend(numbers.iter().map(|port| {
                    let fields = [[0, 0], weight, port.to_be_bytes()].concat();
                    let rdata = [&fields, target.as_wire()].concat();
                    let record = record(q.qname.clone(), Type::SRV, ttl, rdata);
                    (Section::Answer, Piece::Record(record))
                }));
                targets.push(target.clone());
            }
            match place {
                External::Address(address) => {
                    let record = address_record(target, *address, address_ttl);
                    self.add(Section::Additional, Piece::Record(record));
                }
                External::Host(_) => {
                    for qtype in [Type::A, Type::AAAA] {
                        let lookup = Piece::Lookup(target.clone(), qtype);
                        self.add(Section::Additional, lookup);
                    }
                }
            }
        }
    }

    /// Takes the answer of the lookup under way.
    pub(super) fn take(&mut self, cx: &mut Cx<'_>) {
        let inner = cx.job.inner.take().map(|inner| inner.response).unwrap_or_default();
        let section = self.under_way.take();
        if section == Some(Section::Answer) && inner.rcode == Rcode::SERVFAIL {
            self.failed = true;
        } else {
            cx.job.error.clear();
        }
        if !inner.written {
            return;
        }
        let Ok(message) = Message::parse(&inner.wire) else { return };
        match section {
            Some(Section::Answer) => {
                self.truncated |= message.flags.has(Flags::TC);
                self.answer.extend(message.answer);
            }
            _ => self.additional.extend(message.answer),
        }
    }

    /// Goes on to the next lookup, or writes the response if there is none left.
    pub(super) fn advance(mut self, cx: &mut Cx<'_>) -> Step {
        while let Some((section, piece)) = self.rest.pop_front() {
            match (piece, section) {
                (Piece::Record(record), Section::Answer) => self.answer.push(record),
                (Piece::Record(record), _) => self.additional.push(record),
                (Piece::Lookup(qname, qtype), section) => {
                    self.under_way = Some(section);
                    cx.q().state.lookup = LookupState::K8sExternal(super::State::Lookups(self));
                    let (qclass, scope) = (Class::IN, Scope::Server);
                    return Step::Lookup(Lookup { qname, qtype, qclass, scope });
                }
            }
        }
        let q = cx.q();
        q.response.live = true;
        let rcode = if self.failed { Rcode::SERVFAIL } else { Rcode::NOERROR };
        q.reply_with(rcode, true, |builder, _| {
            // What no message can hold is left out.
            for record in &self.answer {
                _ = builder.push(Section::Answer, record);
            }
            for record in &self.additional {
                _ = builder.push(Section::Additional, record);
            }
        });
        if self.truncated {
            let flags = q.response.flags();
            q.response.set_flags(flags.with(Flags::TC, true));
        }
        Step::Answered
    }
}

fn record(owner: Name, rtype: Type, ttl: u32, rdata: Vec<u8>) -> Record {
    Record { owner, rtype, class: Class::IN, ttl, rdata }
}

fn address_record(owner: Name, address: IpAddr, ttl: u32) -> Record {
    match address.to_canonical() {
        IpAddr::V4(v4) => record(owner, Type::A, ttl, v4.octets().to_vec()),
        IpAddr::V6(v6) => record(owner, Type::AAAA, ttl, v6.octets().to_vec()),
    }
}

impl K8sExternal {
    /// Whether a service can be reached at names.
    pub(super) fn has_hosts(service: &Service) -> bool {
        service.external.iter().any(|place| matches!(place, External::Host(_)))
    }
}
