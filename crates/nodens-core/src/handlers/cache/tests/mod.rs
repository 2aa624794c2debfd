//! The directive as a server sees it, with an upstream that follows a script.

mod answers;
mod keys;
mod lives;
mod options;
mod recursion;
mod refreshes;
mod stale;
mod store;
mod warm;
mod whole;

use crate::testing::{Bench, Reaction};
use crate::upstream::{Ask, Fault};
use nodens_wire::{Class, Flags, Message, Name, Rcode, Record, Type};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A server with `cache ARGS { BODY }` in front of one upstream that does as `script` says.
fn bench(cache: &str, script: impl FnMut(&Message) -> Reaction + 'static) -> Bench {
    let corefile = format!(".:53 {{\n {cache}\n forward . 192.0.2.9\n}}");
    let mut bench = Bench::new(&corefile);
    follow(&mut bench, script);
    bench
}

fn follow(bench: &mut Bench, mut script: impl FnMut(&Message) -> Reaction + 'static) {
    bench.upstream(move |_: &Ask, question| script(question));
}

/// A response being made.
struct Reply(Message);

/// A response with this RCODE and nothing in it.
fn reply(question: &Message, rcode: Rcode) -> Reply {
    let mut message = question.clone();
    message.flags = question.flags.reply().with(Flags::RA, true).with_rcode(rcode);
    message.additional.clear();
    Reply(message)
}

impl Reply {
    fn flag(mut self, mask: u16) -> Self {
        self.0.flags = self.0.flags.with(mask, true);
        self
    }

    fn record(&self, owner: &str, rtype: Type, ttl: u32, rdata: Vec<u8>) -> Record {
        let qname = self.0.questions[0].qname.clone();
        let owner = if owner == "@" { qname } else { name(owner) };
        Record { owner, rtype, class: Class::IN, ttl, rdata }
    }

    /// An address of the QNAME.
    fn a(mut self, ttl: u32, last: u8) -> Self {
        let record = self.record("@", Type::A, ttl, vec![192, 0, 2, last]);
        self.0.answer.push(record);
        self
    }

    fn answer(mut self, owner: &str, rtype: Type, ttl: u32, rdata: &[u8]) -> Self {
        let record = self.record(owner, rtype, ttl, rdata.to_vec());
        self.0.answer.push(record);
        self
    }

    fn cname(self, owner: &str, target: &str, ttl: u32) -> Self {
        let target = name(target);
        self.answer(owner, Type::CNAME, ttl, target.as_wire())
    }

    /// An SOA record in the authority section whose MINIMUM is no less than its TTL.
    fn soa(self, ttl: u32) -> Self {
        self.soa_of(ttl, u32::MAX)
    }

    fn soa_of(mut self, ttl: u32, minimum: u32) -> Self {
        let mut rdata = [name("ns.example.").as_wire(), name("h.example.").as_wire()].concat();
        rdata.extend([1_u32, 2, 3, 4, minimum].iter().flat_map(|field| field.to_be_bytes()));
        let record = self.record("example.", Type::SOA, ttl, rdata);
        self.0.authority.push(record);
        self
    }

    fn ns(mut self, ttl: u32) -> Self {
        let rdata = name("ns.example.").as_wire().to_vec();
        let record = self.record("example.", Type::NS, ttl, rdata);
        self.0.authority.push(record);
        self
    }

    fn glue(mut self, ttl: u32) -> Self {
        let record = self.record("ns.example.", Type::A, ttl, vec![192, 0, 2, 200]);
        self.0.additional.push(record);
        self
    }

    /// An OPT record in front of the other additional records.
    fn opt(mut self, options: &[u8]) -> Self {
        let owner = Name::root();
        let (rtype, class, rdata) = (Type::OPT, Class(1232), options.to_vec());
        self.0.additional.insert(0, Record { owner, rtype, class, ttl: 0x8000, rdata });
        self
    }

    fn send(self) -> Reaction {
        let mut out = Vec::new();
        self.0.write(&mut out).unwrap();
        Reaction::Reply(out)
    }
}

fn fails() -> Reaction {
    Reaction::Fail(Fault::Broken("EOF".to_owned()))
}

fn after(time: Duration, reaction: Reaction) -> Reaction {
    Reaction::After(time, Box::new(reaction))
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// The TTLs of all records but OPT.
fn ttls(message: &Message) -> Vec<u32> {
    let sections = [&message.answer, &message.authority, &message.additional];
    let records = sections.into_iter().flatten();
    records.filter(|record| record.rtype != Type::OPT).map(|record| record.ttl).collect()
}

/// Last octet and TTL of the first address.
fn first(message: &Message) -> (u8, u32) {
    let record = message.answer.first().expect("an answer");
    (*record.rdata.last().unwrap(), record.ttl)
}

/// The extended DNS errors of a response.
fn errors(message: &Message) -> Vec<u8> {
    let Some((_, options)) = message.edns() else { return Vec::new() };
    let of_errors = options.filter(|(code, _)| *code == nodens_wire::edns::code::EXTENDED_ERROR);
    of_errors.map(|(_, data)| data[1]).collect()
}

/// The sum of the values of all lines of a series whose labels contain `label`.
fn metric(bench: &Bench, series: &str, label: &str) -> f64 {
    let text = bench.shared.registry.render();
    let lines = text.lines().filter(|line| line.starts_with(series) && line.contains(label));
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

/// A counter the script and the test share.
fn counter() -> Rc<RefCell<u8>> {
    Rc::default()
}
