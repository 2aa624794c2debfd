//! Which questions are asked: a list of messages and the order in which they are used.

use crate::rng;
use nodens_wire::{Class, Flags, HEADER_LEN, Header, Name, NameRef, Type};

/// Octets of the label that makes a name unique: 16 hexadecimal digits.
const UNIQUE_LEN: usize = 16;
/// Where that label's octets start in a message.
const UNIQUE_AT: usize = HEADER_LEN + 1;

/// EDNS of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// Octets of UDP payload that the client says it takes.
    pub udp_size: u16,
    /// The DO bit.
    pub dnssec_ok: bool,
}

/// Questions and their order. The question of item `n` depends on nothing but `n` and the seed.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Whole messages with ID 0, one after the other.
    messages: Vec<u8>,
    /// Where each message ends, and where its question section ends, in `messages`.
    ends: Vec<(usize, usize)>,
    order: Order,
    seed: u64,
}

#[derive(Clone, Debug)]
enum Order {
    /// One message after the other, and again from the start.
    InTurn,
    /// As drawn, and again from the start.
    Steps(Vec<Step>),
    /// The first message with another first label each time.
    Unique,
}

/// One step of a scripted order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index of the message.
    pub message: u32,
    /// Which client asks; clients beyond those of the run wrap around.
    pub client: u32,
}

impl Workload {
    /// No message yet, asked in turn.
    pub fn new(seed: u64) -> Self {
        Self { messages: Vec::new(), ends: Vec::new(), order: Order::InTurn, seed }
    }

    /// Appends a question of class IN with RD set and returns its index.
    pub fn push(&mut self, qname: NameRef<'_>, qtype: Type, edns: Option<Edns>) -> u32 {
        let start = self.messages.len();
        let counts = [1, 0, 0, u16::from(edns.is_some())];
        self.messages.extend(Header { id: 0, flags: Flags(Flags::RD), counts }.to_bytes());
        self.messages.extend(qname.as_wire());
        self.messages.extend(qtype.0.to_be_bytes());
        self.messages.extend(Class::IN.0.to_be_bytes());
        let question_end = self.messages.len();
        if let Some(edns) = edns {
            // RFC 6891 section 6.1.2: root owner, TYPE, size as CLASS, flags as TTL, no options.
            self.messages.push(0);
            self.messages.extend(Type::OPT.0.to_be_bytes());
            self.messages.extend(edns.udp_size.to_be_bytes());
            let dnssec_ok = if edns.dnssec_ok { nodens_wire::edns::DO } else { 0 };
            self.messages.extend([0, 0]);
            self.messages.extend(dnssec_ok.to_be_bytes());
            self.messages.extend([0, 0]);
        }
        debug_assert!(self.messages.len() > start);
        self.ends.push((self.messages.len(), question_end));
        u32::try_from(self.ends.len() - 1).unwrap_or(u32::MAX)
    }

    /// Uses the messages in a scripted order.
    pub fn script(&mut self, steps: Vec<Step>) {
        self.order = if steps.is_empty() { Order::InTurn } else { Order::Steps(steps) };
    }

    /// Uses the messages as drawn from a uniform distribution; the order repeats after `length`.
    pub fn shuffle(&mut self, length: usize) {
        let (mut stream, count) = (rng::Stream::new(self.seed, 1), self.ends.len());
        self.draw(length, |_| stream.below(count));
    }

    /// Uses the messages as drawn by Zipf's law, the first most often; repeats after `length`.
    pub fn zipf(&mut self, exponent: f64, length: usize) {
        let zipf = rng::Zipf::new(self.ends.len(), exponent);
        let mut stream = rng::Stream::new(self.seed, 2);
        self.draw(length, |_| zipf.draw(&mut stream));
    }

    fn draw(&mut self, length: usize, mut message: impl FnMut(usize) -> usize) {
        let steps = (0..length).map(|at| {
            let message = u32::try_from(message(at)).unwrap_or(0);
            Step { message, client: u32::try_from(at).unwrap_or(u32::MAX) }
        });
        self.script(steps.collect());
    }

    /// A name that was never asked before each time: a label drawn by position under `suffix`.
    pub fn unique(seed: u64, suffix: NameRef<'_>, qtype: Type) -> Result<Self, NameTooLong> {
        let label = "0".repeat(UNIQUE_LEN);
        let name =
            Name::parse(&label).and_then(|label| label.join(suffix)).map_err(|_| NameTooLong)?;
        let mut workload = Self::new(seed);
        workload.push(name.view(), qtype, None);
        workload.order = Order::Unique;
        Ok(workload)
    }

    /// How many different messages there are, not counting the unique labels.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is nothing to ask.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many items there are before the order repeats; `None` if it never does.
    pub fn period(&self) -> Option<u64> {
        match &self.order {
            Order::InTurn => Some(self.ends.len() as u64),
            Order::Steps(steps) => Some(steps.len() as u64),
            Order::Unique => None,
        }
    }

    /// Which client asks item `n` of a run with `clients` clients.
    pub fn client(&self, n: u64, clients: usize) -> usize {
        let client = match &self.order {
            Order::Steps(steps) => {
                let at = (n % (steps.len() as u64).max(1)) as usize;
                steps.get(at).map_or(n, |step| u64::from(step.client))
            }
            Order::InTurn | Order::Unique => n,
        };
        (client % (clients as u64).max(1)) as usize
    }

    /// The index of the message of item `n`.
    pub fn message_of(&self, n: u64) -> usize {
        match &self.order {
            Order::InTurn => (n % (self.ends.len() as u64).max(1)) as usize,
            Order::Steps(steps) => {
                let at = (n % (steps.len() as u64).max(1)) as usize;
                steps.get(at).map_or(0, |step| step.message as usize)
            }
            Order::Unique => 0,
        }
    }

    /// Appends the message of item `n`, with `id`, to `out`.
    pub fn append(&self, n: u64, id: u16, out: &mut Vec<u8>) {
        let start = out.len();
        let (message, _) = self.message(self.message_of(n));
        out.extend_from_slice(message);
        let Some(written) = out.get_mut(start..) else { return };
        nodens_wire::header::set_id(written, id);
        if let (Order::Unique, Some(label)) =
            (&self.order, written.get_mut(UNIQUE_AT..UNIQUE_AT + UNIQUE_LEN))
        {
            label.copy_from_slice(&unique_label(self.seed, n));
        }
    }

    /// Whether the question section of `response` is that of item `n`, octet by octet.
    pub fn is_question_of(&self, n: u64, response: &[u8]) -> bool {
        let (message, question_end) = self.message(self.message_of(n));
        let asked = message.get(HEADER_LEN..question_end).unwrap_or_default();
        let Some(got) = response.get(HEADER_LEN..question_end) else { return false };
        if !matches!(self.order, Order::Unique) {
            return got == asked;
        }
        let label = unique_label(self.seed, n);
        got.get(1..1 + UNIQUE_LEN) == Some(&label[..])
            && got.first() == asked.first()
            && got.get(1 + UNIQUE_LEN..) == asked.get(1 + UNIQUE_LEN..)
    }

    /// The name and type of message `at`; the root and type 0 if there is none.
    pub fn question(&self, at: usize) -> (NameRef<'_>, Type) {
        let (message, question_end) = self.message(at);
        let question = message.get(HEADER_LEN..question_end).unwrap_or_default();
        let Some((name, rest)) = question.split_at_checked(question.len().saturating_sub(4)) else {
            return (NameRef::root(), Type(0));
        };
        let qtype = rest.first_chunk::<2>().map_or(0, |octets| u16::from_be_bytes(*octets));
        (NameRef::new(name).unwrap_or(NameRef::root()), Type(qtype))
    }

    /// Message `at` and where its question section ends.
    fn message(&self, at: usize) -> (&[u8], usize) {
        let start =
            at.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| end.0);
        let Some(&(end, question_end)) = self.ends.get(at) else { return (&[], 0) };
        (self.messages.get(start..end).unwrap_or_default(), question_end.saturating_sub(start))
    }

    /// Adds everything that decides which octets are sent to `hash`.
    pub fn hash_into(&self, hash: &mut PlanHash) {
        hash.write(&self.messages);
        hash.write(&self.seed.to_be_bytes());
        match &self.order {
            Order::InTurn => hash.write(b"in turn"),
            Order::Unique => hash.write(b"unique"),
            Order::Steps(steps) => {
                for step in steps {
                    hash.write(&step.message.to_be_bytes());
                    hash.write(&step.client.to_be_bytes());
                }
            }
        }
    }
}

/// A name with the unique label in front would be longer than 255 octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("suffix leaves no room for a label of {UNIQUE_LEN} octets in 255")]
pub struct NameTooLong;

fn unique_label(seed: u64, n: u64) -> [u8; UNIQUE_LEN] {
    let mut digits = [0; UNIQUE_LEN];
    let number = rng::at(seed, n);
    for (at, digit) in digits.iter_mut().enumerate() {
        let nibble = (number >> (60 - 4 * at)) as u8 & 15;
        *digit = if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
    }
    digits
}

/// A hash that names a plan: 64-bit FNV-1a. It guards against mistakes, not against forgery.
#[derive(Clone, Debug)]
pub struct PlanHash(u64);

impl Default for PlanHash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl PlanHash {
    /// Adds `octets`.
    pub fn write(&mut self, octets: &[u8]) {
        for octet in octets {
            self.0 = (self.0 ^ u64::from(*octet)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// The hash so far.
    pub fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::{Admission, admit};

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn messages_are_admissible_and_match_their_own_question_only() {
        let mut workload = Workload::new(1);
        let edns = Edns { udp_size: 1232, dnssec_ok: true };
        workload.push(name("a.example.").view(), Type::A, None);
        workload.push(name("a.example.").view(), Type::AAAA, Some(edns));
        for item in 0..4 {
            let mut message = Vec::new();
            workload.append(item, 0x1234, &mut message);
            let Admission::Accept(query) = admit(&message) else { panic!() };
            assert_eq!(
                (query.id, query.udp_size()),
                (0x1234, if item % 2 == 0 { 512 } else { 1232 })
            );
            assert_eq!(query.dnssec_ok(), item % 2 == 1);
            assert!(workload.is_question_of(item, &message));
            assert!(!workload.is_question_of(item + 1, &message));
            assert!(!workload.is_question_of(item, &message[..20]));
        }
        assert_eq!(workload.question(1), (name("a.example.").view(), Type::AAAA));
    }

    #[test]
    fn unique_names_differ_and_match_by_item() {
        let workload = Workload::unique(7, name("miss.test.").view(), Type::A).unwrap();
        let names: std::collections::HashSet<Vec<u8>> = (0..1_000)
            .map(|item| {
                let mut message = Vec::new();
                workload.append(item, 0, &mut message);
                assert!(matches!(admit(&message), Admission::Accept(_)));
                assert!(workload.is_question_of(item, &message));
                assert!(!workload.is_question_of(item + 1, &message));
                message
            })
            .collect();
        assert_eq!(names.len(), 1_000);
        let long = name(&"a.".repeat(125));
        assert!(Workload::unique(7, long.view(), Type::A).is_err());
    }

    #[test]
    fn the_same_seed_is_the_same_plan_and_another_seed_another() {
        let hash = |seed| {
            let mut workload = Workload::new(seed);
            for n in 0..100 {
                workload.push(name(&format!("n{n}.example.")).view(), Type::A, None);
            }
            workload.zipf(1.0, 10_000);
            let mut hash = PlanHash::default();
            workload.hash_into(&mut hash);
            hash.finish()
        };
        assert_eq!(hash(1), hash(1));
        assert_ne!(hash(1), hash(2));
    }
}
