//! Tests of `forward`, with upstreams that follow a script and a clock that stands still.

mod attempts;
mod chaos;
mod config;
mod encryption;
mod coalescing;
mod health;
mod malformed;
mod over_quic;
mod questions;
mod retries;

use crate::job::Transport;
use crate::testing::{Bench, Reaction};
use crate::upstream::{Ask, Carrier, Fault};
use nodens_wire::{Class, Flags, Message, Name, Rcode, Record, Type};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// What was asked: when, whom, how.
type Log = Rc<RefCell<Vec<(u16, Carrier, bool)>>>;

/// `forward . TO... { BODY }` in a block of its own.
fn bench(to: &str, body: &str) -> Bench {
    Bench::new(&format!(".:53 {{\n prometheus\n forward . {to} {{\n{body}\n }}\n}}"))
}

/// The last octet of an upstream's address, which is how the tests call it.
fn number(ask: &Ask) -> u16 {
    match ask.upstream.key.address.ip() {
        std::net::IpAddr::V4(ip) => u16::from(ip.octets()[3]),
        std::net::IpAddr::V6(ip) => ip.segments()[7],
    }
}

/// `N` upstreams, 192.0.2.1 and on.
fn to(upstreams: usize) -> String {
    (1..=upstreams).map(|n| format!("192.0.2.{n}")).collect::<Vec<_>>().join(" ")
}

/// An answer with one address for each of `records`.
fn answer(question: &Message, rcode: Rcode, records: u8) -> Vec<u8> {
    let mut reply = question.clone();
    reply.flags = question.flags.reply().with(Flags::RA, true).with_rcode(rcode);
    reply.additional.clear();
    for n in 0..records {
        reply.answer.push(Record {
            owner: reply.questions[0].qname.clone(),
            rtype: Type::A,
            class: Class::IN,
            ttl: 60,
            rdata: vec![198, 51, 100, n],
        });
    }
    let mut out = Vec::new();
    reply.write(&mut out).unwrap();
    out
}

fn replies(question: &Message) -> Reaction {
    Reaction::Reply(answer(question, Rcode::NOERROR, 1))
}

fn refused(ask: &Ask) -> Reaction {
    let to = &ask.upstream.name;
    Reaction::Fail(match ask.carrier {
        Carrier::Udp => {
            Fault::Broken(format!("read udp 192.0.2.99:40000->{to}: read: connection refused"))
        }
        _ => Fault::Connect(format!("dial tcp {to}: connect: connection refused")),
    })
}

fn after(time: Duration, reaction: Reaction) -> Reaction {
    Reaction::After(time, Box::new(reaction))
}

/// Upstreams that do as `script` says; gives the log of what they were asked.
fn script(bench: &mut Bench, mut script: impl FnMut(&Ask, &Message) -> Reaction + 'static) -> Log {
    let log = Log::default();
    let seen = log.clone();
    bench.upstream(move |ask, question| {
        seen.borrow_mut().push((number(ask), ask.carrier, ask.elsewhere));
        script(ask, question)
    });
    log
}

fn asked(log: &Log) -> Vec<u16> {
    log.borrow_mut().drain(..).map(|(number, ..)| number).collect()
}

fn over_tcp(bench: &mut Bench) {
    bench.client.transport = Transport::Tcp;
}

fn rcode_of(bench: &mut Bench, question: &str) -> Rcode {
    bench.ask(question).flags.rcode()
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// The value of a metric line.
fn metric(bench: &Bench, series: &str) -> f64 {
    let text = bench.shared.registry.render();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}
