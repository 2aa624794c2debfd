//! Templates of names: `{zipf:names.txt}.{rand:8}.example.`
//!
//! A template is a name in presentation format with fields in braces. Every field is drawn by the
//! position of the query and the seed, so the name of item `n` depends on nothing else.
//!
//! | field | becomes |
//! |---|---|
//! | `{seq}`, `{seq:START}` | the item's number, from 0 or START |
//! | `{rand:N}` | N random letters and digits, 1 to 63 |
//! | `{hex:N}` | N random hexadecimal digits, 1 to 63 |
//! | `{A-B}` | a number from A to B, as wide as A if A starts with 0: `{000-255}` |
//! | `{choice:a,b,c}` | one of the words, each as likely |
//! | `{uniform:FILE}`, `{uniform:N}` | a line of the file, or a number below N, each as likely |
//! | `{zipf:FILE}`, `{zipf:N}` | the same by Zipf's law: line or number `k` (from 0) as 1/(k+1) |
//! | `{zipf(S):FILE}`, `{zipf(S):N}` | with exponent S: as 1/(k+1)^S |
//! | `{turn:FILE}` | the lines in turn |
//!
//! A line of a file is its first column, which may be a name of several labels; empty lines and
//! lines that start with `;` or `#` are none. A file whose name is a number is written `./1000`. A brace
//! that is no field is written `\{`.

mod parse;

pub use parse::{Fault, TemplateError};

use lab_random::{self as rng, Zipf};
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Name, NameRef};

/// Purposes of the streams of a template's fields start here.
const FIELD_STREAM: u64 = 300;
/// Letters and digits of `{rand:N}`, those of a host name.
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
/// Digits of `{hex:N}`, and the first ten of them of numbers.
const HEX: &[u8; 16] = b"0123456789abcdef";
/// Characters drawn from one 64-bit number.
const PER_DRAW: usize = 12;

/// A template that makes a valid name for every item.
#[derive(Clone, Debug)]
pub struct Template {
    text: String,
    fields: Vec<Field>,
}

#[derive(Clone, Debug)]
enum Field {
    /// Pieces of labels; `true` ends the label before.
    Text(Vec<(bool, Vec<u8>)>),
    Random {
        hex: bool,
        len: usize,
    },
    Sequence {
        start: u64,
    },
    Number {
        draw: Draw,
        first: u64,
        count: u64,
        width: usize,
    },
    Words {
        draw: Draw,
        words: Vec<Name>,
    },
}

/// How one of several is drawn.
#[derive(Clone, Debug)]
enum Draw {
    Uniform,
    Turn,
    Zipf(Zipf),
}

impl Template {
    /// Reads a template; `load` gives the octets of the files it names.
    pub fn parse(
        text: &str,
        load: impl FnMut(&str) -> std::io::Result<Vec<u8>>,
    ) -> Result<Self, TemplateError> {
        parse::parse(text, load)
    }

    /// The template as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name of item `n` of the plan `seed`.
    pub fn name(&self, seed: u64, n: u64) -> Name {
        let mut buffer = NameBuffer::new();
        self.write(seed, n, &mut buffer);
        // What `parse` accepts makes names only; the root stands for what cannot be.
        Name::from_wire(buffer.finish()).unwrap_or_default()
    }

    /// Writes the name of item `n`.
    pub(crate) fn write(&self, seed: u64, n: u64, out: &mut NameBuffer) {
        for (field, purpose) in self.fields.iter().zip(FIELD_STREAM..) {
            field.write(rng::at(seed, purpose), n, out);
        }
    }

    /// Adds everything that decides which names are made to a plan's hash.
    pub(crate) fn hash_into(&self, write: &mut impl FnMut(&[u8])) {
        write(self.text.as_bytes());
        for field in &self.fields {
            if let Field::Words { words, .. } = field {
                words.iter().for_each(|word| write(word.as_wire()));
            }
        }
    }
}

impl Draw {
    /// An index below `count` for item `n` of the stream `seed`.
    fn index(&self, seed: u64, n: u64, count: u64) -> u64 {
        match self {
            Self::Turn => n % count.max(1),
            Self::Uniform => below(rng::at(seed, n), count),
            Self::Zipf(zipf) => zipf.rank(rng::unit(seed, n)) as u64,
        }
    }
}

/// A number below `count` from a random one, without the cost of a division (Lemire, 2019).
fn below(random: u64, count: u64) -> u64 {
    ((u128::from(random) * u128::from(count)) >> 64) as u64
}

impl Field {
    fn write(&self, seed: u64, n: u64, out: &mut NameBuffer) {
        match self {
            Self::Text(pieces) => pieces.iter().for_each(|(dot, octets)| {
                if *dot {
                    out.end_label();
                }
                out.push(octets);
            }),
            Self::Random { hex, len } => write_random(*hex, *len, rng::at(seed, n), out),
            Self::Sequence { start } => write_number(start.wrapping_add(n), 0, out),
            Self::Number { draw, first, count, width } => {
                write_number(first.wrapping_add(draw.index(seed, n, *count)), *width, out);
            }
            Self::Words { draw, words } => {
                let at = draw.index(seed, n, words.len() as u64) as usize;
                let labels = words.get(at).map_or(NameRef::root(), Name::view).labels();
                labels.enumerate().for_each(|(at, label)| {
                    if at > 0 {
                        out.end_label();
                    }
                    out.push(label);
                });
            }
        }
    }
}

fn write_random(hex: bool, len: usize, seed: u64, out: &mut NameBuffer) {
    let alphabet: &[u8] = if hex { HEX } else { ALPHABET };
    let base = alphabet.len() as u64;
    let (mut left, mut draw) = (len, 0);
    while left > 0 {
        let mut number = rng::at(seed, draw);
        for _ in 0..left.min(PER_DRAW) {
            let at = (number % base) as usize;
            out.push(alphabet.get(at..=at).unwrap_or_default());
            number /= base;
        }
        left = left.saturating_sub(PER_DRAW);
        draw += 1;
    }
}

fn write_number(number: u64, width: usize, out: &mut NameBuffer) {
    let mut digits = [b'0'; 20];
    let (mut number, mut len) = (number, 0);
    for digit in digits.iter_mut().rev() {
        if number == 0 && len >= width.max(1) {
            break;
        }
        *digit = b'0' + (number % 10) as u8;
        (number, len) = (number / 10, len + 1);
    }
    out.push(digits.get(digits.len() - len..).unwrap_or_default());
}

/// A name being written label by label, on the stack: no item allocates.
#[derive(Debug)]
pub(crate) struct NameBuffer {
    wire: [u8; NAME_LEN_MAX + 1],
    len: usize,
    /// Where the length octet of the open label is.
    label_at: usize,
}

impl NameBuffer {
    pub(crate) fn new() -> Self {
        Self { wire: [0; NAME_LEN_MAX + 1], len: 1, label_at: 0 }
    }

    /// Adds octets to the open label; what is beyond a name's length is left out.
    fn push(&mut self, octets: &[u8]) {
        let room = self.wire.get_mut(self.len..).unwrap_or_default();
        let count = octets.len().min(room.len());
        room.iter_mut().zip(octets).for_each(|(to, from)| *to = *from);
        self.len += count;
    }

    /// Ends the open label and opens the next.
    fn end_label(&mut self) {
        let len = (self.len - self.label_at).saturating_sub(1);
        if let (Some(slot), Ok(len)) = (self.wire.get_mut(self.label_at), u8::try_from(len)) {
            *slot = len;
        }
        self.label_at = self.len;
        self.push(&[0]);
    }

    /// Ends the name and returns its octets.
    pub(crate) fn finish(&mut self) -> &[u8] {
        if self.len - self.label_at > 1 {
            self.end_label();
        }
        self.wire.get(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
