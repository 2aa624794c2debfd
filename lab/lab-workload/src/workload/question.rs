//! The octets of one query: where they are, or how they are made.

use super::stream;
use crate::template::{NameBuffer, Template};
use crate::types::TypeMix;
use lab_random as rng;
use nodens_wire::name::{LABEL_LEN_MAX, NAME_LEN_MAX};
use nodens_wire::{Class, HEADER_LEN, Header, Reader};

/// Octets of the label that makes a name unique: 16 hexadecimal digits.
pub(super) const UNIQUE_LEN: usize = 16;

/// Where a message and its parts end in the messages of a workload.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub(super) end: usize,
    /// Octets of header and question; 0 if the message has no readable question.
    pub(super) question_len: u16,
    /// Octets of the name in the query.
    pub(super) name_len: u8,
    /// Whether its client subnet is drawn by position.
    pub(super) drawn_subnet: bool,
}

/// What makes the messages of items.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) template: Template,
    pub(super) types: TypeMix,
    pub(super) header: [u8; HEADER_LEN],
    pub(super) class: Class,
    /// The OPT record.
    pub(super) tail: Vec<u8>,
    pub(super) drawn_subnet: bool,
}

/// Octets of header and question and of the name of a message with one plain question.
pub(super) fn question_of(message: &[u8]) -> Option<(u16, u8)> {
    let header = Header::read(message).ok()?;
    let mut reader = Reader::new(message, HEADER_LEN);
    let mut name = Vec::new();
    reader.name(&mut name).ok()?;
    // A name with a pointer is no plain name: a response need not repeat it octet by octet.
    let plain = reader.at() - HEADER_LEN == name.len();
    reader.take(4, "question").ok()?;
    let lens = u16::try_from(reader.at()).ok().zip(u8::try_from(name.len()).ok());
    lens.filter(|_| plain && header.counts[0] == 1)
}

/// A query being written, on the stack: no item allocates.
pub(super) struct QuestionBuffer {
    octets: [u8; NAME_LEN_MAX + 4],
    len: usize,
}

impl Default for QuestionBuffer {
    fn default() -> Self {
        Self { octets: [0; NAME_LEN_MAX + 4], len: 0 }
    }
}

impl QuestionBuffer {
    fn push(&mut self, octets: &[u8]) {
        let room = self.octets.get_mut(self.len..).unwrap_or_default();
        room.iter_mut().zip(octets).for_each(|(to, from)| *to = *from);
        self.len = (self.len + octets.len()).min(self.octets.len());
    }

    fn written(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }

    /// The query that a template makes.
    pub(super) fn made(&mut self, seed: u64, n: u64, made: &Made) -> &[u8] {
        let mut name = NameBuffer::new();
        made.template.write(seed, n, &mut name);
        self.push(name.finish());
        let qtype = made.types.draw(rng::at(seed, stream::TYPES), n);
        self.push(&qtype.0.to_be_bytes());
        self.push(&made.class.0.to_be_bytes());
        self.written()
    }

    /// The question of `head`, header and question, with a unique label in front.
    pub(super) fn with_label(&mut self, seed: u64, n: u64, head: &[u8], span: Span) -> &[u8] {
        self.push(&[UNIQUE_LEN as u8]);
        self.push(&unique_label(seed, n));
        let mut name_len = usize::from(span.name_len);
        let mut question = head.get(HEADER_LEN..).unwrap_or_default();
        while name_len + 1 + UNIQUE_LEN > NAME_LEN_MAX {
            let label = 1 + usize::from(question.first().copied().unwrap_or(0)).min(LABEL_LEN_MAX);
            question = question.get(label..).unwrap_or_default();
            name_len = name_len.saturating_sub(label);
        }
        self.push(question);
        self.written()
    }
}

fn unique_label(seed: u64, n: u64) -> [u8; UNIQUE_LEN] {
    let mut digits = [0; UNIQUE_LEN];
    let number = rng::at(seed, n);
    for (at, digit) in digits.iter_mut().enumerate() {
        let nibble = (number >> (60 - 4 * at)) as u8 & 15;
        *digit = if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
    }
    digits
}
