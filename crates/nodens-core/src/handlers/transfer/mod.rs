//! `transfer`: hands whole zones to those who may have them (RFC 5936, RFC 1995), and tells them
//! of changes (RFC 1996).

mod config;

use super::answering;
use crate::handler::{Cx, Handle, Spec, Step};
use crate::job::Recipient;
use crate::limits::TRANSFER_TIME_MAX;
use crate::stream::Stream;
use crate::zones::Zones;
use nodens_wire::edns::extended_error;
use nodens_wire::{Class, Flags, NameRef, Opcode, Rcode, Type};
use nodens_zone::catalog::{Listing, Produced};
use nodens_zone::counts::Notified;
use nodens_zone::{NotifyRules, Question, Secondaries, Serial, Zone, ZoneTable, requested_serial};
use std::net::IpAddr;
use std::sync::Arc;

use config::{link, setup};

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec { chain_complete: Some(link), ..Spec::new("transfer", setup) };

/// The directive at work; one for all its occurrences in a block.
#[derive(Debug)]
pub struct Transfer {
    rules: Rules,
    /// The zones of the block.
    zones: Arc<ZoneTable>,
}

/// All occurrences, in their order, and where NOTIFY is counted.
#[derive(Clone, Debug)]
struct Rules(Vec<Rule>, Arc<Notified>);

/// One occurrence.
#[derive(Clone, Debug)]
struct Rule {
    zones: Zones,
    /// Whether anyone may have the zones.
    anyone: bool,
    /// Whether they are given within TLS and over QUIC alone (RFC 9103 section 9.3.3).
    encrypted: bool,
    /// Who may, and is told of changes.
    to: Arc<Secondaries>,
    /// The catalog that lists the zones.
    catalog: Option<Arc<Produced>>,
}

impl Rule {
    fn allows(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.anyone || self.to.servers.iter().any(|to| to.ip().to_canonical() == client)
    }

    /// Whether it names anyone to be told of changes.
    fn notifies(&self) -> bool {
        !self.to.servers.is_empty()
    }
}

impl Transfer {
    /// Answers queries for names in catalogs, to those alone who may transfer them: secondaries look at the
    /// serial first. Others are told nothing (RFC 9432 section 6). Names of a zone below a catalog are that
    /// zone's.
    fn answer_for_catalog(&self, cx: &mut Cx<'_>) -> Step {
        let q = &cx.job.current;
        // NOERROR would say of an UPDATE that it was done.
        if q.flags.opcode() != Opcode::QUERY {
            return Step::Next;
        }
        let Some((rule, catalog)) = self.rules.catalog(q.qname.view()) else { return Step::Next };
        let labels = catalog.origin().view().label_count();
        let zones = self.zones.load();
        if zones.find(q.qname.view()).is_some_and(|(longest, _)| longest.label_count() > labels) {
            return Step::Next;
        }
        let client = *cx.job.client();
        let says_little = q.qtype == Type::SOA && *catalog.origin() == q.qname;
        let is_private = client.transport.is_encrypted() && !client.old_tls;
        let is_open = says_little || !rule.encrypted || is_private;
        // `cache` would give it to others, and old serial numbers to secondaries.
        cx.q().response.live = true;
        if !rule.allows(client.peer.ip()) || !is_open {
            return Step::Fail(Rcode::REFUSED);
        }
        let data = catalog.served().load();
        answering::answer(cx, data.as_ref(), None, |_| false)
    }
}

impl NotifyRules for Rules {
    fn secondaries(&self, zone: NameRef<'_>) -> Option<Arc<Secondaries>> {
        self.rule(zone).filter(|rule| rule.notifies()).map(|rule| rule.to.clone())
    }

    fn counts(&self) -> Option<Arc<Notified>> {
        Some(self.1.clone())
    }
}

impl Rules {
    /// The longest catalog that `name` lies in, and the first rule that has it.
    fn catalog(&self, name: NameRef<'_>) -> Option<(&Rule, &Arc<Produced>)> {
        let catalogs = self.0.iter().rev().filter_map(|rule| Some((rule, rule.catalog.as_ref()?)));
        let around = catalogs.filter(|(_, own)| name.is_in_domain(own.origin().view()));
        around.max_by_key(|(_, own)| own.origin().view().label_count())
    }

    /// The rule for `name`: the one that has the longest zone around it; of several, the first.
    /// Never the one whose name comes last in the alphabet (CVE-2026-33489).
    fn rule(&self, name: NameRef<'_>) -> Option<&Rule> {
        if let Some((rule, _)) = self.catalog(name).filter(|(_, own)| own.origin().view() == name) {
            return Some(rule);
        }
        let length = |rule: &Rule| {
            let longest = rule.zones.longest(name)?;
            rule.zones.names().get(longest).map(|zone| zone.as_wire().len())
        };
        let candidates = self.0.iter().rev().filter_map(|rule| Some((length(rule)?, rule)));
        candidates.max_by_key(|(length, _)| *length).map(|(_, rule)| rule)
    }
}

/// The zones that one of the catalogs lists.
#[derive(Debug)]
struct Lists {
    rules: Rules,
    catalog: Arc<Produced>,
}

impl Listing for Lists {
    fn lists(&self, zone: NameRef<'_>) -> bool {
        let of_rule = self.rules.rule(zone).and_then(|rule| rule.catalog.as_ref());
        let is_catalog =
            self.rules.catalog(zone).is_some_and(|(_, own)| own.origin().view() == zone);
        !is_catalog && of_rule.is_some_and(|own| Arc::ptr_eq(own, &self.catalog))
    }
}

impl Handle for Transfer {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let q = &cx.job.current;
        let wanted = matches!(q.qtype, Type::AXFR | Type::IXFR) && q.qclass == Class::IN;
        if !wanted {
            return self.answer_for_catalog(cx);
        }
        let client = *cx.job.client();
        let rule = self.rules.rule(q.qname.view());
        // There is no AXFR over UDP (RFC 5936 section 4.2), nor where a query gets one message.
        let is_stream = client.transport.takes_many();
        if !is_stream && (q.qtype == Type::AXFR || rule.is_none()) {
            return Step::Fail(Rcode::REFUSED);
        }
        let Some(rule) = rule else { return Step::Next };
        if rule.encrypted && !client.transport.is_encrypted() {
            "a transfer that is not encrypted".clone_into(&mut cx.job.error);
            return Step::Fail(Rcode::REFUSED);
        }
        if client.old_tls {
            "a transfer within TLS before 1.3".clone_into(&mut cx.job.error);
            return Step::Fail(Rcode::REFUSED);
        }
        // Nobody else's lookup can take an answer of many messages.
        let asks_himself = q.is_clients() && matches!(cx.job.recipient, Recipient::Client(_));
        if !rule.allows(client.peer.ip()) || !asks_himself {
            return Step::Fail(Rcode::REFUSED);
        }
        let is_ixfr = q.qtype == Type::IXFR;
        let known = is_ixfr.then(|| requested_serial(&cx.job.request).ok().flatten()).flatten();
        let source = self.zones.load().get(q.qname.view()).cloned();
        // CoreDNS says so of names within the zone, too.
        if is_ixfr && known.is_none() && (is_stream || source.is_some()) {
            "an IXFR query without the SOA record of the client".clone_into(&mut cx.job.error);
            return Step::Fail(Rcode::SERVFAIL);
        }
        match source {
            Some(source) => begin(&*source, is_stream, known, cx),
            None => Step::Next,
        }
    }
}

/// Writes the first message of a transfer; the sender of the response writes those that follow. A client that
/// has the version `known` gets the differences from it, if they are kept.
fn begin(source: &dyn Zone, is_stream: bool, known: Option<Serial>, cx: &mut Cx<'_>) -> Step {
    let q = &cx.job.current;
    let flags = q.flags.reply().with(Flags::AA, true);
    let (qname, qtype, qclass) = (q.qname.clone(), q.qtype, q.qclass);
    let question = Question { id: cx.job.query.id, flags, qname, qtype, qclass };
    let Some(soa) = source.soa() else {
        return not_now(cx, extended_error::NOT_READY, "the zone is not loaded yet");
    };
    let mut transfer = match known {
        Some(known) if known >= soa.serial() || !is_stream => {
            nodens_zone::Transfer::soa_alone(question, soa)
        }
        _ => match known.and_then(|known| source.since(known)) {
            Some(differences) => nodens_zone::Transfer::differences(question, differences),
            None => match source.version() {
                Some(version) => nodens_zone::Transfer::whole(question, version),
                None => {
                    return not_now(cx, extended_error::NOT_READY, "the zone is not loaded yet");
                }
            },
        },
    };
    let client = cx.job.client().peer.ip();
    let Some(place) = cx.worker.shared.transfers.take(client) else {
        return not_now(cx, extended_error::OTHER, "too many transfers are under way");
    };
    transfer.reserve(cx.job.signer.as_ref().map_or(0, |signer| signer.record_len()));
    let deadline_ns = cx.now.plus(TRANSFER_TIME_MAX);
    let mut stream = Stream::new(transfer, deadline_ns, place, cx.worker.sink.clone());
    let response = &mut cx.job.current.response;
    if stream.next_message(cx.now, &mut response.wire).is_err() {
        return Step::Fail(Rcode::SERVFAIL);
    }
    response.rcode = Rcode::NOERROR;
    response.written = true;
    response.rest = Some(Box::new(stream));
    Step::Answered
}

/// Something that may be otherwise soon: the client asks again.
fn not_now(cx: &mut Cx<'_>, info_code: u16, reason: &str) -> Step {
    cx.job.current.response.extended_error(info_code, reason);
    reason.clone_into(&mut cx.job.error);
    Step::Fail(Rcode::SERVFAIL)
}
