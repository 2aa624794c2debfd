//! What becomes of each answer: decided from a seed, without sockets or clock.

use crate::{Latency, SpecError, Truth};
use lab_random as rng;
use nodens_wire::header::set_flags;
use nodens_wire::{Class, Flags, HEADER_LEN, Header, Rcode, Type};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Numbers that one decision draws.
const DRAWS: u64 = 8;
/// Octets of a record of the root in front of its RDATA.
const RECORD_HEAD_LEN: usize = 11;
/// Where a message says how many additional records it has.
const ARCOUNT_AT: usize = 10;

/// A time during which the server does nothing, in nanoseconds after its first query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freeze {
    /// When it starts.
    pub at: u64,
    /// How long it lasts.
    pub length: u64,
    /// After how long it starts again; 0 for never.
    pub every: u64,
}

impl Freeze {
    /// The end of the freeze that `time` falls into, if it does.
    fn thaw(&self, time: u64) -> Option<u64> {
        let since = time.checked_sub(self.at)?;
        let round = since.checked_div(self.every).unwrap_or(0) * self.every;
        let within = since - round;
        (within < self.length).then(|| self.at + round + self.length)
    }
}

impl FromStr for Freeze {
    type Err = SpecError;

    /// Reads `at=5s,for=1s` and `at=5s,for=1s,every=10s`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut freeze = Self { at: 0, length: 0, every: 0 };
        for word in text.split(',') {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let into = match key.trim() {
                "at" => &mut freeze.at,
                "for" => &mut freeze.length,
                "every" => &mut freeze.every,
                _ => return Err(expected(word, text, "at=TIME,for=TIME[,every=TIME]")),
            };
            *into = lab_units::nanos(value)?;
        }
        if freeze.length == 0 {
            return Err(expected("for", text, "for=TIME, longer than nothing"));
        }
        if freeze.every != 0 && freeze.every <= freeze.length {
            return Err(expected("every", text, "every=TIME, longer than for=TIME"));
        }
        Ok(freeze)
    }
}

fn expected(word: &str, text: &str, expected: &'static str) -> SpecError {
    SpecError::Word { word: word.to_owned(), text: text.to_owned(), expected }
}

/// RCODEs, each with its part of all answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rcodes(Vec<(f64, Rcode)>);

impl FromStr for Rcodes {
    type Err = SpecError;

    /// Reads `1%:SERVFAIL,2%:NXDOMAIN`; the rest is NOERROR.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut rcodes = Vec::new();
        for word in text.split(',') {
            let wanted = "PART:RCODE with an RCODE of the header, as in 1%:SERVFAIL";
            let error = || expected(word, text, wanted);
            let (part, rcode) = word.split_once(':').ok_or_else(error)?;
            let rcode: Rcode = rcode.trim().parse().map_err(|_| error())?;
            if rcode.0 > 15 {
                return Err(error());
            }
            rcodes.push((lab_units::part(part)?, rcode));
        }
        let sum: f64 = rcodes.iter().map(|(part, _)| part).sum();
        if sum > 1.0 + 1e-9 {
            let (text, percent) = (text.to_owned(), sum * 100.0);
            return Err(SpecError::Sum { text, percent, expected: "at most 100 %" });
        }
        Ok(Self(rcodes))
    }
}

impl Rcodes {
    fn at(&self, which: f64) -> Rcode {
        let mut sum = 0.0;
        let found = self.0.iter().find(|(part, _)| {
            sum += part;
            which < sum
        });
        found.map_or(Rcode::NOERROR, |(_, rcode)| *rcode)
    }
}

/// What a decision follows from, besides the seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Key {
    /// How many queries came before on the same thread: draws are independent.
    #[default]
    Arrival,
    /// The octets of the message, ID included: the same message always has the same fate, on any
    /// thread and in any order. A client that asks again with the same ID is lost again.
    Message,
}

/// What to inject.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Injection {
    /// How long answers are held back; at once without it.
    pub latency: Option<Latency>,
    /// The part of the queries without an answer.
    pub loss: f64,
    /// The part of the answers that are sent twice.
    pub duplicate: f64,
    /// The part of the answers over UDP with the TC bit.
    pub truncate: f64,
    /// Answers with an RCODE other than NOERROR.
    pub rcodes: Rcodes,
    /// Times without answers.
    pub freezes: Vec<Freeze>,
    /// CPU time spent on each query in a datagram, besides what it takes to answer.
    pub work: Duration,
    /// How long each query is served: one after the other, on all threads together, so that no more than
    /// one is answered in this time. It costs no CPU time. No time is no limit.
    pub service: Duration,
    /// Seed of all of it.
    pub seed: u64,
    /// What a decision follows from.
    pub key: Key,
}

impl Injection {
    /// Whether every query is to be answered at once and as it is.
    pub fn is_plain(&self) -> bool {
        let Self { latency, loss, duplicate, truncate, rcodes, freezes, .. } = self;
        let costs_time = !self.work.is_zero() || !self.service.is_zero();
        latency.is_none()
            && [loss, duplicate, truncate].iter().all(|part| **part == 0.0)
            && rcodes.0.is_empty()
            && freezes.is_empty()
            && !costs_time
    }
}

/// How a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// In a datagram: may be truncated.
    Datagram,
    /// On a stream: TC means nothing there.
    Stream,
}

/// What becomes of one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// How often it is answered: 0, 1 or 2 times.
    pub copies: u8,
    /// When, in nanoseconds on the caller's clock.
    pub at: u64,
    /// With the TC bit.
    pub truncated: bool,
    /// With this RCODE.
    pub rcode: Rcode,
}

/// Decides for one thread what becomes of its queries, and counts it.
#[derive(Clone, Debug)]
pub struct Injector {
    injection: Arc<Injection>,
    seed: u64,
    next: u64,
    /// When the first query of any thread came.
    first: Arc<OnceLock<u64>>,
    /// Until when the queries so far are served.
    busy: Arc<AtomicU64>,
    /// What was decided and what happened.
    pub truth: Truth,
}

impl Injector {
    /// CPU time that each query in a datagram is to cost besides.
    pub(crate) fn work(&self) -> Duration {
        self.injection.work
    }

    /// One injector for each of `threads`; all freeze at the same time.
    pub fn for_threads(injection: Injection, threads: usize) -> Vec<Self> {
        let (injection, first) = (Arc::new(injection), Arc::new(OnceLock::new()));
        let busy = Arc::new(AtomicU64::new(0));
        let one = |thread: u64| {
            let purpose = match injection.key {
                Key::Arrival => 100 + thread,
                Key::Message => 100,
            };
            let (injection, first) = (injection.clone(), first.clone());
            let (seed, busy) = (rng::at(injection.seed, purpose), busy.clone());
            Self { injection, seed, next: 0, first, busy, truth: Truth::default() }
        };
        (0..threads as u64).map(one).collect()
    }

    /// Decides the fate of a query that arrived at `now`; `None` if `message` is none.
    ///
    /// A response is none: two echoes must never answer each other for ever.
    pub fn decide(&mut self, now: u64, message: &[u8], medium: Medium) -> Option<Fate> {
        if !is_question(message) {
            self.truth.ignored += 1;
            return None;
        }
        self.truth.questions += 1;
        let number = match self.injection.key {
            Key::Arrival => self.next,
            Key::Message => hash(message),
        };
        self.next += 1;
        let draw =
            |which: u64| rng::unit(self.seed, number.wrapping_mul(DRAWS).wrapping_add(which));
        let injection = &self.injection;
        if draw(0) < injection.loss {
            self.truth.lost += 1;
            return Some(Fate { copies: 0, at: now, truncated: false, rcode: Rcode::NOERROR });
        }
        let twice = draw(1) < injection.duplicate;
        let truncated = medium == Medium::Datagram && draw(2) < injection.truncate;
        let rcode = injection.rcodes.at(draw(3));
        let delay = injection.latency.as_ref().map_or(0, |l| l.at(draw(4), draw(5), draw(6)));
        let begun = self.thaw(now);
        let served = self.serve(begun);
        let at = self.thaw(served.saturating_add(delay));
        let frozen = begun > now || at.saturating_sub(served) > delay;
        let truth = &mut self.truth;
        truth.duplicated += u64::from(twice);
        truth.truncated += u64::from(truncated);
        truth.frozen += u64::from(frozen);
        if let Some(count) = truth.rcodes.get_mut(usize::from(rcode.0)) {
            *count += 1;
        }
        truth.chosen.record(at.saturating_sub(now));
        Some(Fate { copies: 1 + u8::from(twice), at, truncated, rcode })
    }

    /// When a query that came at `time` has been served, after those before it.
    fn serve(&self, time: u64) -> u64 {
        let service = u64::try_from(self.injection.service.as_nanos()).unwrap_or(u64::MAX);
        if service == 0 {
            return time;
        }
        let until = |busy: u64| busy.max(time).saturating_add(service);
        let before =
            self.busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |busy| Some(until(busy)));
        until(before.unwrap_or_else(|busy| busy))
    }

    /// `time`, or the end of the freezes that it falls into.
    fn thaw(&self, mut time: u64) -> u64 {
        if self.injection.freezes.is_empty() {
            return time;
        }
        let first = *self.first.get_or_init(|| time);
        // One freeze may end in the next; each can move the time once.
        for _ in 0..=self.injection.freezes.len() {
            let since = time.saturating_sub(first);
            match self.injection.freezes.iter().find_map(|freeze| freeze.thaw(since)) {
                Some(end) => time = first + end,
                None => break,
            }
        }
        time
    }
}

/// Turns a query into its answer.
pub fn answer(message: &mut [u8], fate: &Fate) {
    let Ok(header) = Header::read(message) else { return };
    let flags = header.flags.with(Flags::QR, true).with(Flags::TC, fate.truncated);
    set_flags(message, flags.with_rcode(fate.rcode));
}

/// Makes a record of type NULL (RFC 1035 section 3.3.10) of what stands behind the first `len` octets of an answer. False, and
/// nothing is changed, if that is too short for one.
pub fn fill(answer: &mut [u8], len: usize) -> bool {
    let Some((message, rest)) = answer.split_at_mut_checked(len) else { return false };
    let Some((head, rdata)) = rest.split_first_chunk_mut::<RECORD_HEAD_LEN>() else { return false };
    let (Ok(rdlength), Ok(header)) = (u16::try_from(rdata.len()), Header::read(message)) else {
        return false;
    };
    let [.., additional] = header.counts;
    let Some(records) = additional.checked_add(1) else { return false };
    let (count, records) = (message.iter_mut().skip(ARCOUNT_AT), records.to_be_bytes());
    count.zip(records).for_each(|(to, octet)| *to = octet);
    let [rtype, class] = [Type::NULL.0, Class::IN.0].map(u16::to_be_bytes);
    // The root as its owner; TTL 0.
    let record = [0].into_iter().chain(rtype).chain(class).chain([0; 4]);
    let record = record.chain(rdlength.to_be_bytes());
    head.iter_mut().zip(record).for_each(|(to, octet)| *to = octet);
    true
}

/// Whether `message` has a header and is no response.
pub fn is_question(message: &[u8]) -> bool {
    Header::read(message).is_ok_and(|header| !header.flags.has(Flags::QR))
}

/// 64-bit FNV-1a of ID and everything behind the flags.
fn hash(message: &[u8]) -> u64 {
    let id = message.iter().take(2);
    let octets = id.chain(message.iter().skip(HEADER_LEN));
    octets.fold(0xcbf2_9ce4_8422_2325, |hash, octet| {
        (hash ^ u64::from(*octet)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: [u8; 17] = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1];

    fn injector(injection: Injection) -> Injector {
        Injector::for_threads(injection, 1).remove(0)
    }

    fn fates(injection: &Injection, count: u64) -> Vec<Fate> {
        let mut injector = injector(injection.clone());
        let mut decide = |now| injector.decide(now, &QUESTION, Medium::Datagram).unwrap();
        (0..count).map(|n| decide(n * 1_000)).collect()
    }

    #[test]
    fn parts_are_met_and_counted_exactly() {
        let injection = Injection {
            loss: 0.01,
            duplicate: 0.02,
            truncate: 0.03,
            rcodes: "4%:SERVFAIL,5%:NXDOMAIN".parse().unwrap(),
            latency: Some(Latency::constant(500)),
            seed: 9,
            ..Injection::default()
        };
        let mut injector = injector(injection);
        let mut seen = Truth::default();
        for n in 0..100_000 {
            let fate = injector.decide(n, &QUESTION, Medium::Datagram).unwrap();
            if fate.copies == 0 {
                seen.lost += 1;
                continue;
            }
            assert_eq!(fate.at, n + 500);
            seen.duplicated += u64::from(fate.copies == 2);
            seen.truncated += u64::from(fate.truncated);
            seen.rcodes[usize::from(fate.rcode.0)] += 1;
        }
        let truth = &injector.truth;
        assert_eq!((seen.lost, seen.duplicated), (truth.lost, truth.duplicated));
        assert_eq!((seen.truncated, seen.rcodes), (truth.truncated, truth.rcodes));
        // Four standard deviations of a binomial count are below 4 · sqrt(n · p).
        let wanted = [(seen.lost, 1e3), (seen.duplicated, 2e3), (seen.truncated, 3e3)];
        let rcodes = [(seen.rcodes[2], 4e3), (seen.rcodes[3], 5e3)];
        for (got, wanted) in wanted.into_iter().chain(rcodes) {
            assert!((got as f64 - wanted).abs() < 4.0 * f64::sqrt(wanted), "{got} {wanted}");
        }
    }

    #[test]
    fn a_seed_is_a_fate_and_threads_differ() {
        let injection = |seed| Injection { loss: 0.5, seed, ..Injection::default() };
        assert_eq!(fates(&injection(1), 100), fates(&injection(1), 100));
        assert_ne!(fates(&injection(1), 100), fates(&injection(2), 100));
        let mut threads = Injector::for_threads(injection(1), 2);
        let mut copies = |thread: usize| -> Vec<u8> {
            let mut one = || threads[thread].decide(0, &QUESTION, Medium::Stream).unwrap();
            (0..64).map(|_| one().copies).collect()
        };
        assert_ne!(copies(0), copies(1));
    }

    #[test]
    fn by_message_the_same_message_has_the_same_fate_everywhere() {
        let injection = Injection { loss: 0.5, key: Key::Message, ..Injection::default() };
        let mut threads = Injector::for_threads(injection, 2);
        let fates: Vec<_> = (0..=255)
            .map(|id| {
                let mut question = QUESTION;
                question[0] = id;
                let first = threads[0].decide(5, &question, Medium::Datagram);
                // The flags may change on the way (a forwarder sets RD); the fate does not.
                question[2] = 0;
                assert_eq!(first, threads[1].decide(5, &question, Medium::Datagram));
                first.unwrap().copies
            })
            .collect();
        let lost = fates.iter().filter(|copies| **copies == 0).count();
        assert!((90..=166).contains(&lost), "{lost}");
    }

    #[test]
    fn queries_are_served_one_after_the_other_on_all_threads_together() {
        let injection = Injection { service: Duration::from_nanos(100), ..Injection::default() };
        assert!(!injection.is_plain());
        let mut threads = Injector::for_threads(injection, 2);
        let mut served = |thread: usize, now: u64| {
            threads[thread].decide(now, &QUESTION, Medium::Stream).unwrap().at
        };
        // 10 queries at once, then one when there is nothing to wait for.
        let at: Vec<u64> = (0..10).map(|n| served(n % 2, 1_000)).collect();
        assert_eq!(at, (1..=10).map(|n| 1_000 + 100 * n).collect::<Vec<_>>());
        assert_eq!(served(0, 1_950), 2_100, "after those before it");
        assert_eq!(served(1, 5_000), 5_100);
        assert_eq!(threads[0].truth.frozen + threads[1].truth.frozen, 0);
    }

    #[test]
    fn a_freeze_moves_answers_to_its_end_and_repeats() {
        let second = 1_000_000_000;
        let injection = Injection {
            latency: Some(Latency::constant(second / 10)),
            freezes: vec!["at=5s,for=1s,every=10s".parse().unwrap()],
            ..Injection::default()
        };
        let mut injector = injector(injection);
        let start = 77 * second;
        let mut at = |tenths: u64| {
            let now = start + tenths * second / 10;
            let fate = injector.decide(now, &QUESTION, Medium::Datagram).unwrap();
            (fate.at - start) / (second / 10)
        };
        assert_eq!(at(0), 1);
        assert_eq!(at(48), 49);
        assert_eq!(at(49), 60, "it would leave during the freeze");
        assert_eq!(at(50), 61, "it is looked at after the freeze");
        assert_eq!(at(59), 61);
        assert_eq!(at(60), 61);
        assert_eq!(at(155), 161, "again after ten seconds");
        assert_eq!(injector.truth.frozen, 4);
    }

    #[test]
    fn only_queries_are_answered() {
        let mut injector = injector(Injection::default());
        let mut response = QUESTION;
        response[2] |= 0x80;
        assert_eq!(injector.decide(0, &response, Medium::Datagram), None);
        assert_eq!(injector.decide(0, &QUESTION[..11], Medium::Datagram), None);
        assert_eq!((injector.truth.ignored, injector.truth.questions), (2, 0));
        let fate = Fate { copies: 1, at: 0, truncated: true, rcode: Rcode::REFUSED };
        let mut message = QUESTION;
        answer(&mut message, &fate);
        assert_eq!(message[..4], [0, 7, 0x83, 5]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let freeze = |text: &str| text.parse::<Freeze>().unwrap_err().to_string();
        assert!(freeze("at=5s").contains("expected for=TIME"));
        assert!(freeze("from=5s,for=1s").contains("`from=5s` in"));
        assert!(freeze("at=5,for=1s").contains("`5` is not a duration"));
        assert!(freeze("at=5s,for=2s,every=1s").contains("longer than for"));
        let rcodes = |text: &str| text.parse::<Rcodes>().unwrap_err().to_string();
        assert!(rcodes("SERVFAIL").contains("expected PART:RCODE"));
        assert!(rcodes("1%:BADVERS").contains("RCODE of the header"));
        assert!(rcodes("60%:SERVFAIL,50%:REFUSED").contains("110.0000 %"));
    }
}
