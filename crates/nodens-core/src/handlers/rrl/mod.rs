//! `rrl`: limits how many responses of a kind a network of clients gets over UDP in a second, so that the
//! server is of little use to those who flood others with responses to forged queries.

mod config;
mod table;

use crate::compact::denies_name;
use crate::config::BlockBuilder;
use crate::cookie::Secret;
use crate::handler::{Cx, Handle, Job, Resolution, Spec, Step};
use crate::job::Recipient;
use crate::metrics::Counter;
use crate::transport::Transport;
use crate::zones::Zones;
use config::Options;
use nodens_corefile::{Directive, Error};
use nodens_wire::edns::code;
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Flags, Header, Opcode, Rcode, Records, Section, Type};
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use table::{Account, Outcome};

pub(crate) use table::Tables;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("rrl", setup);

/// The directive at work.
#[derive(Debug)]
pub struct Rrl {
    zones: Zones,
    options: Options,
    /// Whose tables of the workers these are: the same block's after a reload.
    id: Arc<u64>,
    /// The parts of all workers together are what the Corefile says.
    workers: u64,
    requests: Counter,
    responses: Counter,
    truncated: Counter,
}

fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    let (zones, options) = config::read(directive, &block.zones)?;
    let id = foldhash::fast::FixedState::default()
        .hash_one((block.fingerprint, block.server.as_str()));
    let labels = [("server", block.server.as_str())];
    let counter = |name, help| block.shared.registry.counter(name, help, &labels);
    let rrl = Rrl {
        zones,
        options,
        id: Arc::new(id),
        workers: block.shared.workers().max(1) as u64,
        requests: counter(
            "coredns_rrl_requests_exceeded_total",
            "Counter of queries beyond the rate that is allowed.",
        ),
        responses: counter(
            "coredns_rrl_responses_exceeded_total",
            "Counter of responses beyond the rate that is allowed.",
        ),
        truncated: counter(
            "nodens_rrl_truncated_total",
            "Counter of responses beyond the rate that were sent truncated.",
        ),
    };
    block.push(rrl);
    Ok(())
}

/// What responses are counted by, beside the name and the client's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Response,
    Nodata,
    Nxdomain,
    Referral,
    Error,
    /// Queries, of whatever name.
    Request,
}

impl Handle for Rrl {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        if self.options.requests == 0 || !self.is_limited(cx) {
            return Step::Next;
        }
        let network = self.network(cx.job.client().peer.ip());
        let key = self.key(cx, |hasher| (network, Kind::Request).hash(hasher));
        let passes = self.debit(cx, key, self.options.requests) == Outcome::Passes;
        if !passes {
            cx.worker.cells.add(self.requests, 1);
        }
        if passes || self.options.report_only { Step::Next } else { Step::Drop }
    }

    fn amend(&self, cx: &mut Cx<'_>) {
        // An update that is taken is done already: who hears nothing of it sends it again.
        let q = &cx.job.current;
        let is_done = q.flags.opcode() == Opcode::UPDATE && q.response.rcode == Rcode::NOERROR;
        if is_done || !self.is_limited(cx) {
            return;
        }
        let (kind, name) = classify(&cx.job.current, cx.block.settings.signs);
        let interval = self.options.interval(kind);
        if interval == 0 {
            return;
        }
        let network = self.network(cx.job.client().peer.ip());
        // All responses for a name that exists are the same by type. Errors, denials and referrals are the same for all types.
        let qtype = match kind {
            Kind::Response => type_of(&cx.job.current),
            _ => Type(0),
        };
        let mut owner = std::mem::take(&mut cx.worker.own.rrl.name);
        let mut buffer = [0; NAME_LEN_MAX];
        let name = fold(&cx.job.current, name, &mut owner, &mut buffer);
        let key = self.key(cx, |hasher| (network, kind, qtype.0, name).hash(hasher));
        cx.worker.own.rrl.name = owner;
        let outcome = self.debit(cx, key, interval);
        if outcome == Outcome::Passes {
            return;
        }
        cx.worker.cells.add(self.responses, 1);
        if self.options.report_only {
            return;
        }
        if outcome == Outcome::Slips {
            cx.worker.cells.add(self.truncated, 1);
            empty(cx.q());
        } else {
            cx.q().response.clear();
            cx.q().response.dropped = true;
        }
    }
}

impl Rrl {
    /// Whether the query of `cx` is counted: one over UDP, whose client's address may be forged, and
    /// not a lookup of the server's own. Who has signed it is known.
    fn is_limited(&self, cx: &Cx<'_>) -> bool {
        let (job, q) = (&cx.job, &cx.job.current);
        let is_clients = q.is_clients() && matches!(job.recipient, Recipient::Client(_));
        is_clients
            && job.client().transport == Transport::Udp
            && !q.response.dropped
            && self.zones.contains(q.qname.view())
            && job.verified_key().is_none()
            && !is_vouched_for(job, cx.worker.shared.cookies.get())
    }

    /// The address with what is not its network's taken out.
    fn network(&self, client: IpAddr) -> Ipv6Addr {
        let (octets, len) = match client.to_canonical() {
            IpAddr::V4(ip) => (ip.to_ipv6_mapped(), 96 + self.options.ipv4_len),
            IpAddr::V6(ip) => (ip, self.options.ipv6_len),
        };
        let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
        Ipv6Addr::from_bits(octets.to_bits() & mask)
    }

    fn key(&self, cx: &Cx<'_>, add: impl FnOnce(&mut foldhash::fast::FoldHasher<'_>)) -> u64 {
        let mut hasher = cx.worker.own.rrl.hasher();
        add(&mut hasher);
        hasher.finish()
    }

    fn debit(&self, cx: &mut Cx<'_>, key: u64, interval: u64) -> Outcome {
        let Options { window, table_len, slip, .. } = self.options;
        let len = table_len / usize::try_from(self.workers).unwrap_or(usize::MAX);
        let account = Account::new(interval, self.workers, window, slip);
        cx.worker.own.rrl.debit((&self.id, len), key, cx.now.mono_ns, account)
    }
}

/// Whether the client has shown a cookie that it can only have received at its address (RFC 7873).
fn is_vouched_for(job: &Job, secret: Option<&Secret>) -> bool {
    let Some(edns) = job.query.edns.as_ref().filter(|edns| !edns.options.is_empty()) else {
        return false;
    };
    let cookie = edns.options(&job.request).find(|(option, _)| *option == code::COOKIE);
    let (client, now) = (job.client().peer.ip(), job.received.unix_s);
    secret.zip(cookie).is_some_and(|(secret, (_, data))| secret.vouches(data, client, now))
}

/// The name that a response is counted under.
enum Counted {
    /// The qname, but for so many octets at its front for which a wildcard or a DNAME record stands.
    Question(usize),
    /// The owner of the first record of the authority section.
    Authority(usize),
    Nothing,
}

/// What kind of response it is, and under which name it is counted: what an attacker can vary at will
/// must not make another response of it.
fn classify(q: &Resolution, signs: bool) -> (Kind, Counted) {
    let response = &q.response;
    let header = Header::read(&response.wire).ok().filter(|_| response.written);
    let [_, answers, authority, _] = header.map(|header| header.counts).unwrap_or_default();
    let first = || {
        let mut records = Records::of(&response.wire).ok()?;
        records.next()?.ok().filter(|record| record.section == Section::Authority)
    };
    let made = match usize::from(response.below_wildcard) {
        0 => 0,
        below => q.qname.as_wire().len().saturating_sub(below),
    };
    match response.rcode {
        _ if answers > 0 => (Kind::Response, Counted::Question(made)),
        Rcode::NXDOMAIN if authority > 0 => {
            let name = first().map_or(Counted::Nothing, |soa| Counted::Authority(soa.owner_at));
            (Kind::Nxdomain, name)
        }
        Rcode::NXDOMAIN => (Kind::Nxdomain, Counted::Nothing),
        Rcode::NOERROR if response.written => match first() {
            Some(ns) if ns.rtype == Type::NS => (Kind::Referral, Counted::Authority(ns.owner_at)),
            // Signed, names that do not exist are denied as those that do: the zone has denied all of them.
            Some(soa) if signs && soa.rtype == Type::SOA && denies_name(&response.wire) => {
                (Kind::Nodata, Counted::Authority(soa.owner_at))
            }
            _ => (Kind::Nodata, Counted::Question(made)),
        },
        _ => (Kind::Error, Counted::Nothing),
    }
}

/// The type that a response with answers is counted under: that of the query, unless there are only aliases, which are given
/// for any type.
fn type_of(q: &Resolution) -> Type {
    let answers = || {
        let records = Records::of(&q.response.wire).ok()?;
        Some(records.flatten().take_while(|record| record.section == Section::Answer))
    };
    let is_given = answers().is_some_and(|mut answers| answers.any(|own| own.rtype == q.qtype));
    let first = answers().and_then(|mut answers| answers.next()).map(|own| own.rtype);
    if is_given { q.qtype } else { first.unwrap_or(q.qtype) }
}

/// The name in lower case.
fn fold<'b>(
    q: &Resolution,
    name: Counted,
    owner: &mut Vec<u8>,
    buffer: &'b mut [u8; NAME_LEN_MAX],
) -> &'b [u8] {
    owner.clear();
    let wire = match name {
        Counted::Question(skip) => q.qname.as_wire().get(skip..).unwrap_or_default(),
        Counted::Authority(at) => {
            _ = nodens_wire::reader::Reader::new(&q.response.wire, at).name(owner);
            owner
        }
        Counted::Nothing => &[],
    };
    let folded = buffer.get_mut(..wire.len()).unwrap_or_default();
    folded.copy_from_slice(wire);
    folded.make_ascii_lowercase();
    folded
}

/// Leaves nothing but the question, and says that more would be had over TCP.
fn empty(q: &mut Resolution) {
    if !q.response.written {
        q.reply(q.response.rcode, false);
    }
    let wire = &mut q.response.wire;
    let Ok(mut header) = Header::read(wire) else { return };
    let Ok(records) = Records::of(wire) else { return };
    let end = records.at();
    wire.truncate(end);
    header.counts[1..].fill(0);
    header.flags = header.flags.with(Flags::TC, true);
    header.write_to(wire);
}
