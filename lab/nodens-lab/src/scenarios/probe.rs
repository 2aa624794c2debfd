//! Who serves what: queries over UDP to one server, a few at a time.

use anyhow::{Context, Result, bail};
use lab_load::rng::Stream;
use lab_sys::batch::Batch;
use nodens_wire::{Builder, Class, Flags, HEADER_LEN, Header, Name, Rcode, Records, Section, Type};
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

/// Queries of one round, at most: an octet of the ID counts them.
const ROUND_MAX: usize = 256;
/// The same while another round is under way: a socket holds about so many datagrams as both have.
const ROUND_AHEAD_MAX: usize = 128;
const ROUND_MIN: usize = 16;
/// Datagrams that are sent or received with one call.
const BATCH: usize = 64;
/// Octets of a query: header, name, type and class.
const QUERY_LEN: usize = 12 + 255 + 4;
/// Octets of an answer that are read.
const ANSWER_LEN: usize = 4_096;
/// How long the answers of one round are waited for.
const ANSWER_MAX: Duration = Duration::from_millis(100);
/// Between two rounds while most is not served.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// Queries that were sent together.
struct Round {
    number: u8,
    names: Vec<Name>,
    /// Which of them had an answer that is taken.
    served: Vec<bool>,
    waiting: usize,
}

/// Asks one server.
pub(super) struct Probe {
    socket: UdpSocket,
    queries: Batch,
    answers: Batch,
    round: u8,
}

impl Probe {
    pub(super) fn new(server: SocketAddr) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(server).with_context(|| format!("cannot ask {server}"))?;
        socket.set_read_timeout(Some(ANSWER_MAX))?;
        let queries = Batch::connected(BATCH, QUERY_LEN);
        let answers = Batch::connected(BATCH, ANSWER_LEN);
        Ok(Self { socket, queries, answers, round: 0 })
    }

    /// Asks for these names; which of them had an answer that `accept` takes.
    fn ask(&mut self, names: Vec<Name>, qtype: Type, accept: impl Fn(&[u8]) -> bool) -> Vec<bool> {
        let mut round = self.begin(names, qtype);
        self.end(std::slice::from_mut(&mut round), accept);
        round.served
    }

    /// Sends a query for each name.
    fn begin(&mut self, names: Vec<Name>, qtype: Type) -> Round {
        self.round = self.round.wrapping_add(1);
        let waiting = self.send(&names, qtype);
        Round { number: self.round, served: vec![false; names.len()], names, waiting }
    }

    /// Waits until the first of these rounds has its answers, and takes those to the others that come meanwhile.
    fn end(&mut self, rounds: &mut [Round], accept: impl Fn(&[u8]) -> bool) {
        // Ends when nothing came in time, or nothing listens.
        while rounds.first().is_some_and(|first| first.waiting > 0) && self.receive().is_ok() {
            for message in (0..self.answers.len()).map(|at| self.answers.get(at)) {
                let Ok(header) = Header::read(message) else { continue };
                let [number, at] = header.id.to_be_bytes();
                let Some(round) = rounds.iter_mut().find(|round| round.number == number) else {
                    continue;
                };
                // The number comes again soon: an answer may be a late one to an earlier round.
                if !round.names.get(usize::from(at)).is_some_and(|name| is_for(message, name)) {
                    continue;
                }
                round.waiting = round.waiting.saturating_sub(1);
                let is_good = header.flags.rcode() == Rcode::NOERROR
                    && header.flags.has(Flags::AA)
                    && header.counts.get(1).is_some_and(|answers| *answers > 0)
                    && accept(message);
                if let Some(served) = round.served.get_mut(usize::from(at)) {
                    *served |= is_good;
                }
            }
        }
    }

    /// Sends a query for each name; how many left.
    fn send(&mut self, names: &[Name], qtype: Type) -> usize {
        let (mut out, mut sent, mut at) = (Vec::new(), 0, 0_u8);
        for names in names.chunks(BATCH).take(ROUND_MAX / BATCH) {
            self.queries.clear();
            for name in names {
                let id = u16::from_be_bytes([self.round, at]);
                let mut builder = Builder::new(&mut out, id, Flags::default());
                builder.question(name.view(), qtype, Class::IN);
                self.queries.push(&out);
                at = at.wrapping_add(1);
            }
            let mut first = 0;
            while first < self.queries.len() {
                // Refused while no process listens yet.
                let taken = self.queries.send(self.socket.as_fd(), first).unwrap_or_default();
                (sent, first) = (sent + taken, first + taken.max(1));
            }
        }
        sent
    }

    /// Waits for answers, and takes those that are there.
    fn receive(&mut self) -> io::Result<()> {
        self.socket.peek(&mut [0])?;
        self.answers.receive(self.socket.as_fd()).map(drop)
    }

    /// Whether it answers for this name with an address that `accept` takes, by its last two octets.
    pub(super) fn has(&mut self, name: &Name, accept: impl Fn(u16) -> bool) -> bool {
        let last_two = |message: &[u8]| last_octets(message).is_some_and(&accept);
        self.ask(vec![name.clone()], Type::A, last_two).first() == Some(&true)
    }
}

/// Whether a message has this name as its first.
fn is_for(message: &[u8], name: &Name) -> bool {
    let octets = message.get(HEADER_LEN..).and_then(|rest| rest.get(..name.as_wire().len()));
    octets.is_some_and(|octets| octets.eq_ignore_ascii_case(name.as_wire()))
}

/// The last two octets of the address in an answer.
fn last_octets(message: &[u8]) -> Option<u16> {
    let mut records = Records::of(message).ok()?.flatten();
    let address = records.find(|view| (view.section, view.rtype) == (Section::Answer, Type::A))?;
    let record = address.to_record(message).ok()?;
    record.rdata.last_chunk().copied().map(u16::from_be_bytes)
}

/// Names that are asked for until all of them were answered once, in a random order.
pub(super) struct Sweep {
    probe: Probe,
    left: VecDeque<Name>,
    qtype: Type,
    /// Rounds that wait for answers.
    under_way: VecDeque<Round>,
    round: usize,
    /// Whether another round is begun before the answers to one are there, so that the server need not wait for this.
    is_ahead: bool,
}

impl Sweep {
    pub(super) fn new(server: SocketAddr, mut names: Vec<Name>, seed: u64) -> Result<Self> {
        let mut random = Stream::new(seed, 1);
        for at in (1..names.len()).rev() {
            names.swap(at, random.below(at + 1));
        }
        let (left, under_way) = (names.into(), VecDeque::new());
        let probe = Probe::new(server)?;
        let (qtype, round, is_ahead) = (Type::A, ROUND_MIN, false);
        Ok(Self { probe, left, qtype, under_way, round, is_ahead })
    }

    /// Names that were not answered yet.
    pub(super) fn left(&self) -> usize {
        self.left.len() + self.under_way.iter().map(|round| round.names.len()).sum::<usize>()
    }

    /// Asks for some of them, for more the next time if most were answered. Gives whether to go on at once.
    pub(super) fn step(&mut self) -> bool {
        let rounds = if self.is_ahead { 2 } else { 1 };
        while self.under_way.len() < rounds && !self.left.is_empty() {
            let asked = self.left.drain(..self.round.min(self.left.len())).collect();
            self.under_way.push_back(self.probe.begin(asked, self.qtype));
        }
        self.probe.end(self.under_way.make_contiguous(), |_| true);
        let Some(Round { names, served, .. }) = self.under_way.pop_front() else { return true };
        let (asked, count) = (names.len(), served.iter().filter(|served| **served).count());
        let waiting = names.into_iter().zip(served).filter(|(_, served)| !served);
        // Others first: one that takes long must not stand for all.
        self.left.extend(waiting.map(|(name, _)| name));
        self.is_ahead = count * 10 >= asked * 9;
        self.round = if self.is_ahead { self.round * 2 } else { self.round / 2 };
        self.round = self.round.clamp(ROUND_MIN, ROUND_AHEAD_MAX);
        self.is_ahead
    }

    /// Goes on until all are answered; `go_on` is asked between rounds.
    pub(super) fn finish(&mut self, mut go_on: impl FnMut(usize) -> Result<()>) -> Result<()> {
        while self.left() > 0 {
            if !self.step() {
                std::thread::sleep(PAUSE);
            }
            go_on(self.left())?;
        }
        Ok(())
    }
}

/// Fails once `stop` is set.
pub(super) fn stopped(stop: &std::sync::atomic::AtomicBool) -> Result<()> {
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::primary::Primary;
    use crate::scenarios::zones::{Zones, member};

    #[test]
    fn the_address_is_that_of_the_answer_whatever_comes_after_it() {
        let (name, mut out) = (member(1).unwrap(), Vec::new());
        let mut builder = Builder::new(&mut out, 1, Flags::default());
        builder.question(name.view(), Type::A, Class::IN);
        let fields = (Type::A, Class::IN, 1);
        builder.record(Section::Answer, name.view(), fields, &[192, 0, 2, 7]).unwrap();
        assert_eq!(last_octets(&out), Some(0x0207));
        let mut builder = Builder::new(&mut out, 1, Flags::default());
        builder.question(name.view(), Type::A, Class::IN);
        builder.record(Section::Answer, name.view(), fields, &[192, 0, 2, 7]).unwrap();
        builder.record(Section::Additional, name.view(), fields, &[192, 0, 9, 9]).unwrap();
        assert_eq!(last_octets(&out), Some(0x0207));
    }

    #[test]
    fn a_sweep_ends_once_everything_was_answered_and_not_before() {
        let primary = Primary::start(Zones::new(600, 0, 0), &[]).unwrap();
        let names = |range: std::ops::Range<u32>| range.map(|n| member(n).unwrap()).collect();
        // The primary answers for SOA alone, which no probe asks for.
        let mut probe = Probe::new(primary.address).unwrap();
        let soa = |probe: &mut Probe, names: Vec<Name>| {
            let served = probe.ask(names, Type::SOA, |_| true);
            served.iter().filter(|served| **served).count()
        };
        assert_eq!(soa(&mut probe, names(400..600)), 200);
        assert_eq!(soa(&mut probe, names(500..700)), 100);
        let mut sweep = Sweep::new(primary.address, names(0..300), 1).unwrap();
        assert!(!sweep.step());
        assert_eq!(sweep.left(), 300);
        sweep.qtype = Type::SOA;
        let mut seen = Vec::new();
        sweep
            .finish(|left| {
                seen.push(left);
                Ok(())
            })
            .unwrap();
        // Several rounds, of which two are under way in the end.
        assert!(seen.len() > 3 && seen.is_sorted_by(|one, next| one > next), "{seen:?}");
        assert_eq!(seen.last(), Some(&0));
        // Of the last 100 there are none at the primary.
        let mut sweep = Sweep::new(primary.address, names(500..700), 1).unwrap();
        sweep.qtype = Type::SOA;
        for _ in 0..30 {
            sweep.step();
        }
        assert_eq!(sweep.left(), 100);
    }

    #[test]
    fn a_late_answer_does_not_count_for_another_name() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut probe = Probe::new(server.local_addr().unwrap()).unwrap();
        let mut next = |name: &Name| {
            let round = probe.begin(vec![name.clone()], Type::A);
            let mut query = [0; QUERY_LEN];
            let (len, client) = server.recv_from(&mut query).unwrap();
            (round, query[..len].to_vec(), client)
        };
        let (late, new) = (member(1).unwrap(), member(2).unwrap());
        let (first, old, client) = next(&late);
        // The octet that counts rounds begins anew meanwhile.
        (1..256).for_each(|_| drop(next(&new)));
        let (mut round, query, _) = next(&new);
        assert_eq!((round.number, &query[..2]), (first.number, &old[..2]));
        let answer = |name: &Name| {
            let mut out = Vec::new();
            let id = u16::from_be_bytes([first.number, 0]);
            let mut builder = Builder::new(&mut out, id, Flags(Flags::QR | Flags::AA));
            builder.question(name.view(), Type::A, Class::IN);
            let fields = (Type::A, Class::IN, 1);
            builder.record(Section::Answer, name.view(), fields, &[192, 0, 2, 7]).unwrap();
            server.send_to(&out, client).unwrap();
        };
        answer(&late);
        probe.end(std::slice::from_mut(&mut round), |_| true);
        assert_eq!((&round.served[..], round.waiting), (&[false][..], 1));
        answer(&new);
        probe.end(std::slice::from_mut(&mut round), |_| true);
        assert_eq!((&round.served[..], round.waiting), (&[true][..], 0));
    }
}
