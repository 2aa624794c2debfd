//! Which queries are asked: messages, and the order in which they are used.

mod order;
mod question;

use crate::edns::{Edns, Subnets};
pub use crate::plan::PlanHash;
use crate::template::Template;
use crate::tsig::Key;
use crate::types::TypeMix;
use lab_random as rng;
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Class, Flags, HEADER_LEN, Header, Name, NameRef, Reader, Type};
pub use order::Step;
use order::step;
use question::{Made, QuestionBuffer, Span, UNIQUE_LEN, question_of};

/// Octets of a message that are no name: header, type, class, an OPT record with a subnet of its own.
const FRAME_LEN: usize = 64;

/// Purposes of streams of random numbers under the plan's seed; those of fields are 300 and more.
mod stream {
    pub(super) const SHUFFLE: u64 = 1;
    pub(super) const ZIPF: u64 = 2;
    pub(super) const TYPES: u64 = 3;
    pub(super) const MISSES: u64 = 5;
}

/// How queries look but for their name and type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    /// The flags of the header.
    pub flags: Flags,
    /// The class.
    pub class: Class,
    /// EDNS, if queries have it.
    pub edns: Option<Edns>,
}

impl Default for Style {
    /// Class IN with RD and no EDNS.
    fn default() -> Self {
        Self { flags: Flags(Flags::RD), class: Class::IN, edns: None }
    }
}

/// Queries and their order. The query of item `n` depends on nothing but `n` and the seed.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Whole messages with ID 0, one after the other.
    messages: Vec<u8>,
    spans: Vec<Span>,
    order: Order,
    seed: u64,
    /// The part of the items that asks for a message as it is; the rest gets a unique label.
    hit_rate: Option<f64>,
    /// Subnets of the messages that want one by position.
    subnets: Option<Subnets>,
    key: Option<Key>,
    /// When each item is to be sent, in nanoseconds from the start; empty if that is not part of it.
    times: Vec<u64>,
    longest: usize,
}

#[derive(Clone, Debug)]
enum Order {
    /// One message after the other, and again from the start.
    InTurn,
    /// As drawn, and again from the start.
    Steps(Vec<Step>),
    /// Each item has a message made for it.
    Made(Box<Made>),
}

impl Workload {
    /// No message yet, asked in turn.
    pub fn new(seed: u64) -> Self {
        Self {
            messages: Vec::new(),
            spans: Vec::new(),
            order: Order::InTurn,
            seed,
            hit_rate: None,
            subnets: None,
            key: None,
            times: Vec::new(),
            longest: 0,
        }
    }

    /// Appends a query of class IN with RD set and returns its index.
    pub fn push(&mut self, qname: NameRef<'_>, qtype: Type, edns: Option<Edns>) -> u32 {
        self.push_question(qname, qtype, &Style { edns, ..Style::default() })
    }

    /// Appends a query and returns its index.
    pub fn push_question(&mut self, qname: NameRef<'_>, qtype: Type, style: &Style) -> u32 {
        let start = self.messages.len();
        self.messages.extend(header(style));
        self.messages.extend(qname.as_wire());
        self.messages.extend(qtype.0.to_be_bytes());
        self.messages.extend(style.class.0.to_be_bytes());
        let question_len = self.messages.len() - start;
        let drawn = style.edns.as_ref().and_then(Edns::drawn_subnets);
        if let Some(edns) = &style.edns {
            edns.append(&mut self.messages);
        }
        self.subnets = drawn.or(self.subnets);
        self.close(
            start,
            Span {
                end: self.messages.len(),
                question_len: u16::try_from(question_len).unwrap_or(0),
                name_len: u8::try_from(qname.as_wire().len()).unwrap_or(0),
                drawn_subnet: drawn.is_some(),
            },
        )
    }

    /// Appends a message as it is, but for its ID, and returns its index. It need not be well-formed.
    pub fn push_message(&mut self, message: &[u8]) -> u32 {
        let start = self.messages.len();
        self.messages.extend(message);
        if let Some(written) = self.messages.get_mut(start..).filter(|written| written.len() > 1) {
            nodens_wire::header::set_id(written, 0);
        }
        let (question_len, name_len) = question_of(message).unwrap_or_default();
        let end = self.messages.len();
        self.close(start, Span { end, question_len, name_len, drawn_subnet: false })
    }

    fn close(&mut self, start: usize, span: Span) -> u32 {
        self.longest = self.longest.max(span.end - start);
        self.spans.push(span);
        u32::try_from(self.spans.len() - 1).unwrap_or(u32::MAX)
    }

    /// A name that was never asked before each time: a label drawn by position under `suffix`.
    pub fn unique(seed: u64, suffix: NameRef<'_>, qtype: Type) -> Result<Self, NameTooLong> {
        if suffix.as_wire().len() + 1 + UNIQUE_LEN > NAME_LEN_MAX {
            return Err(NameTooLong);
        }
        let mut workload = Self::new(seed);
        workload.push(suffix, qtype, None);
        workload.set_hit_rate(0.0);
        Ok(workload)
    }

    /// Makes every item's message from `template`, with a type drawn from `types`.
    pub fn generate(seed: u64, template: Template, types: TypeMix, style: &Style) -> Self {
        let mut workload = Self::new(seed);
        workload.subnets = style.edns.as_ref().and_then(Edns::drawn_subnets);
        let mut tail = Vec::new();
        if let Some(edns) = &style.edns {
            edns.append(&mut tail);
        }
        workload.longest = FRAME_LEN + NAME_LEN_MAX + tail.len();
        let drawn_subnet = workload.subnets.is_some();
        let (header, class) = (header(style), style.class);
        let made = Made { template, types, header, class, tail, drawn_subnet };
        workload.order = Order::Made(Box::new(made));
        workload
    }

    /// The part of the items, from 0 to 1, that asks for one of the messages; each of the others asks
    /// for the name of one of them with a label in front that no other item has.
    ///
    /// Messages made from a template are not touched. Names that have no room for the label lose as
    /// many of their first labels as it takes.
    pub fn set_hit_rate(&mut self, hit_rate: f64) {
        self.hit_rate = (hit_rate < 1.0).then_some(hit_rate);
    }

    /// Signs every message that is sent (RFC 8945).
    pub fn set_key(&mut self, key: Key) {
        self.key = Some(key);
    }

    /// Says when each item was sent, in nanoseconds from the start of a recording, never decreasing.
    pub fn set_times(&mut self, times: Vec<u64>) {
        self.times = times;
    }

    /// When item `n` was sent, in nanoseconds from the start of the recording; `None` behind its end
    /// and if nothing was recorded.
    pub fn time_of(&self, n: u64) -> Option<u64> {
        self.times.get(usize::try_from(n).ok()?).copied()
    }

    /// The times of the recording.
    pub fn times(&self) -> &[u64] {
        &self.times
    }

    /// The messages, each once and in turn, as a warm-up before this workload; `None` if every item
    /// has a message of its own.
    pub fn warm_up(&self) -> Option<Self> {
        if self.is_made() || self.hit_rate == Some(0.0) {
            return None;
        }
        Some(Self { order: Order::InTurn, hit_rate: None, times: Vec::new(), ..self.clone() })
    }

    fn is_made(&self) -> bool {
        matches!(self.order, Order::Made(_))
    }

    /// How many different messages there are, not counting unique labels and made ones.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is nothing to ask.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty() && !self.is_made()
    }

    /// How long a message can be, in octets.
    pub fn message_len_max(&self) -> usize {
        let label = if self.hit_rate.is_some() { 1 + UNIQUE_LEN } else { 0 };
        self.longest + label + self.key.as_ref().map_or(0, Key::record_len)
    }

    /// How many items there are before the order repeats; `None` if it never does.
    pub fn period(&self) -> Option<u64> {
        match &self.order {
            _ if self.hit_rate.is_some() => None,
            Order::InTurn => Some(self.spans.len() as u64),
            Order::Steps(steps) => Some(steps.len() as u64),
            Order::Made(_) => None,
        }
    }

    /// Which client asks item `n` of a run with `clients` clients.
    pub fn client(&self, n: u64, clients: usize) -> usize {
        let client = match &self.order {
            Order::Steps(steps) => step(steps, n).map_or(n, |step| u64::from(step.client)),
            Order::InTurn | Order::Made(_) => n,
        };
        (client % (clients as u64).max(1)) as usize
    }

    /// The index of the message of item `n`; 0 if it is made from a template.
    pub fn message_of(&self, n: u64) -> usize {
        match &self.order {
            Order::InTurn => (n % (self.spans.len() as u64).max(1)) as usize,
            Order::Steps(steps) => step(steps, n).map_or(0, |step| step.message as usize),
            Order::Made(_) => 0,
        }
    }

    /// The type that item `n` asks for; 0 if its message has no readable question.
    pub fn qtype_of(&self, n: u64) -> Type {
        match &self.order {
            Order::Made(made) => made.types.draw(rng::at(self.seed, stream::TYPES), n),
            Order::InTurn | Order::Steps(_) => self.question(self.message_of(n)).1,
        }
    }

    /// Whether item `n` gets a label that no other item has.
    fn is_unique(&self, n: u64) -> bool {
        self.hit_rate.is_some_and(|hit_rate| {
            !self.is_made() && rng::unit(rng::at(self.seed, stream::MISSES), n) >= hit_rate
        })
    }

    /// Appends the message of item `n`, with `id`, to `out`; if it is signed, as of 1970.
    pub fn append(&self, n: u64, id: u16, out: &mut Vec<u8>) {
        self.append_at(n, id, 0, out);
    }

    /// Appends the message of item `n`, with `id`, to `out`. `unix_s` is the time of its signature, in
    /// seconds since 1970, and decides about nothing else.
    pub fn append_at(&self, n: u64, id: u16, unix_s: u64, out: &mut Vec<u8>) {
        let start = out.len();
        let drawn_subnet = match &self.order {
            Order::Made(made) => self.append_made(made, n, out),
            Order::InTurn | Order::Steps(_) => self.append_message(n, out),
        };
        let Some(written) = out.get_mut(start..).filter(|written| written.len() > 1) else {
            return;
        };
        nodens_wire::header::set_id(written, id);
        if let Some(subnets) = self.subnets.filter(|_| drawn_subnet) {
            subnets.draw(self.seed, n, written);
        }
        if let Some(key) = &self.key {
            key.sign(unix_s, start, out);
        }
    }

    /// Appends one of the messages, perhaps with a unique label; returns whether its subnet is drawn.
    fn append_message(&self, n: u64, out: &mut Vec<u8>) -> bool {
        let (message, span) = self.message(self.message_of(n));
        match message.split_at_checked(usize::from(span.question_len)) {
            Some((head, tail)) if span.question_len > 0 && self.is_unique(n) => {
                out.extend_from_slice(head.get(..HEADER_LEN).unwrap_or_default());
                let mut question = QuestionBuffer::default();
                out.extend_from_slice(question.with_label(self.seed, n, head, span));
                out.extend_from_slice(tail);
            }
            _ => out.extend_from_slice(message),
        }
        span.drawn_subnet
    }

    fn append_made(&self, made: &Made, n: u64, out: &mut Vec<u8>) -> bool {
        let mut question = QuestionBuffer::default();
        out.extend_from_slice(&made.header);
        out.extend_from_slice(question.made(self.seed, n, made));
        out.extend_from_slice(&made.tail);
        made.drawn_subnet
    }

    /// Whether the question section of `response` is that of item `n`, octet by octet.
    pub fn is_question_of(&self, n: u64, response: &[u8]) -> bool {
        let is = |asked: &[u8]| {
            let got = response.get(HEADER_LEN..HEADER_LEN + asked.len());
            !asked.is_empty() && got == Some(asked)
        };
        // A buffer is cleared before use, so only what needs one has one.
        match &self.order {
            Order::Made(made) => is(QuestionBuffer::default().made(self.seed, n, made)),
            Order::InTurn | Order::Steps(_) => {
                let (message, span) = self.message(self.message_of(n));
                let head = message.get(..usize::from(span.question_len)).unwrap_or_default();
                if self.is_unique(n) && !head.is_empty() {
                    is(QuestionBuffer::default().with_label(self.seed, n, head, span))
                } else {
                    is(head.get(HEADER_LEN..).unwrap_or_default())
                }
            }
        }
    }

    /// The name and type of message `at`; the root and type 0 if there is none.
    pub fn question(&self, at: usize) -> (NameRef<'_>, Type) {
        let (message, span) = self.message(at);
        let question = message.get(HEADER_LEN..usize::from(span.question_len)).unwrap_or_default();
        let Some((name, rest)) = question.split_at_checked(question.len().saturating_sub(4)) else {
            return (NameRef::root(), Type(0));
        };
        let qtype = rest.first_chunk::<2>().map_or(0, |octets| u16::from_be_bytes(*octets));
        (NameRef::new(name).unwrap_or(NameRef::root()), Type(qtype))
    }

    /// Message `at` and its parts.
    fn message(&self, at: usize) -> (&[u8], Span) {
        let before = at.checked_sub(1).and_then(|before| self.spans.get(before));
        let Some(span) = self.spans.get(at) else { return (&[], Span::default()) };
        let start = before.map_or(0, |before| before.end);
        (self.messages.get(start..span.end).unwrap_or_default(), *span)
    }

    /// Adds everything that decides which octets are sent to `hash`, but for secrets.
    pub fn hash_into(&self, hash: &mut PlanHash) {
        hash.write(&self.messages);
        self.spans.iter().for_each(|span| hash.write(&(span.end as u64).to_be_bytes()));
        hash.write(&self.seed.to_be_bytes());
        match &self.order {
            Order::InTurn => hash.write(b"in turn"),
            Order::Steps(steps) => steps.iter().for_each(|step| {
                hash.write(&step.message.to_be_bytes());
                hash.write(&step.client.to_be_bytes());
            }),
            Order::Made(made) => {
                made.template.hash_into(&mut |octets| hash.write(octets));
                made.types.octets().for_each(|octet| hash.write(&[octet]));
                hash.write(&made.header);
                hash.write(&made.class.0.to_be_bytes());
                hash.write(&made.tail);
            }
        }
        let other =
            (self.hit_rate.map(f64::to_bits), self.subnets, self.key.as_ref().map(Key::name));
        hash.write(format!("{other:?}").as_bytes());
    }
}

fn header(style: &Style) -> [u8; HEADER_LEN] {
    let counts = [1, 0, 0, u16::from(style.edns.is_some())];
    Header { id: 0, flags: style.flags, counts }.to_bytes()
}

/// A name with the unique label in front would be longer than 255 octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("suffix leaves no room for a label of {UNIQUE_LEN} octets in 255")]
pub struct NameTooLong;

impl Workload {
    /// The name that item `n` asks for; the root if its message has no readable question.
    pub fn name_of(&self, n: u64) -> Name {
        let mut message = Vec::new();
        self.append(n, 0, &mut message);
        let mut name = Vec::new();
        let read = Reader::new(&message, HEADER_LEN).name(&mut name);
        read.ok().and_then(|()| Name::from_wire(&name).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
