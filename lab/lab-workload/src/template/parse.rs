//! From text to fields, with a proof that every choice of words gives a name.

use super::{Draw, Field, Template};
use lab_random::Zipf;
use nodens_wire::name::{LABEL_LEN_MAX, NAME_LEN_MAX};
use nodens_wire::{Name, NameError};
use std::io;

/// Words that a file may have: Zipf's law needs a number for each.
const WORDS_MAX: u64 = 10_000_000;

/// Why text is no template.
#[derive(Debug, thiserror::Error)]
#[error("template, column {column}: {fault}")]
pub struct TemplateError {
    /// The octet of the template, counted from 1.
    pub column: usize,
    /// What is wrong there.
    pub fault: Fault,
}

/// What is wrong with a template.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// `{` without `}`.
    #[error(
        "`{{` without a `}}` after it, expected a field such as {{rand:8}} (write a literal brace as \\{{)"
    )]
    Open,
    /// No field has this name.
    #[error(
        "`{0}` is not a template field, expected seq, rand:N, hex:N, A-B, choice:WORDS, uniform:FILE, \
         zipf:FILE or turn:FILE"
    )]
    Field(String),
    /// A number that is none or out of bounds.
    #[error("`{0}`, expected {1}")]
    Number(String, &'static str),
    /// A word or piece of text.
    #[error("{0}")]
    Name(#[from] NameError),
    /// A file that cannot be read.
    #[error("cannot read {0}: {1}")]
    File(String, io::Error),
    /// A line of a file.
    #[error("{file}, line {line}: {fault}")]
    Line {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with its first column.
        fault: NameError,
    },
    /// A file without a word.
    #[error("{0} contains no name, expected one name per line")]
    Empty(String),
    /// Some choice of words gives a label of more than 63 octets.
    #[error("a label can become {0} octets long, expected at most 63")]
    LabelTooLong(usize),
    /// Some choice of words gives a name of more than 255 octets.
    #[error("the name can become {0} octets long, expected at most 255")]
    NameTooLong(usize),
}

pub(super) fn parse(
    text: &str,
    mut load: impl FnMut(&str) -> io::Result<Vec<u8>>,
) -> Result<Template, TemplateError> {
    let (mut fields, mut bounds, mut at) = (Vec::new(), Bounds::default(), 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let error = |fault| TemplateError { column: at + 1, fault };
        let (field, len) = match rest.strip_prefix('{') {
            Some(rest) => {
                let len = rest.find('}').ok_or_else(|| error(Fault::Open))?;
                let inner = rest.get(..len).unwrap_or_default();
                (field(inner, &mut load).map_err(error)?, len + 2)
            }
            None => {
                let len = literal_len(rest);
                let pieces = literal(rest.get(..len).unwrap_or_default()).map_err(error)?;
                (Field::Text(pieces), len)
            }
        };
        bounds.add(&field).map_err(error)?;
        fields.push(field);
        at += len;
    }
    let error = |fault| TemplateError { column: at.max(1), fault };
    bounds.end().map_err(error)?;
    Ok(Template { text: text.to_owned(), fields })
}

/// How far text reaches before the next field.
fn literal_len(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().position(|octet| {
        let ends = octet == b'{' && !escaped;
        escaped = octet == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(text.len())
}

/// Text as pieces of labels; the first and the last need not be whole labels.
fn literal(text: &str) -> Result<Vec<(bool, Vec<u8>)>, Fault> {
    let (mut pieces, mut dot) = (Vec::new(), false);
    let mut rest = text;
    loop {
        let len = piece_len(rest);
        let piece = rest.get(..len).unwrap_or_default();
        // A piece has no dot of its own, so it is one label, or the root if it is empty.
        let label = Name::parse(piece)?;
        pieces.push((dot, label.view().labels().next().unwrap_or_default().to_vec()));
        match rest.get(len + 1..) {
            Some(behind) => (rest, dot) = (behind, true),
            None => return Ok(pieces),
        }
    }
}

fn piece_len(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().position(|octet| {
        let ends = octet == b'.' && !escaped;
        escaped = octet == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(text.len())
}

fn field(inner: &str, load: &mut impl FnMut(&str) -> io::Result<Vec<u8>>) -> Result<Field, Fault> {
    let unknown = || Fault::Field(inner.to_owned());
    let (kind, argument) = match inner.split_once(':') {
        Some((kind, argument)) => (kind, Some(argument)),
        None => (inner, None),
    };
    match (kind, argument) {
        ("seq", None) => Ok(Field::Sequence { start: 0 }),
        ("seq", Some(start)) => {
            Ok(Field::Sequence { start: number(start, "a number to start at")? })
        }
        ("rand" | "hex", Some(len)) => {
            let wanted = "a length from 1 to 63";
            let len = number(len, wanted)? as usize;
            if !(1..=LABEL_LEN_MAX).contains(&len) {
                return Err(Fault::Number(len.to_string(), wanted));
            }
            Ok(Field::Random { hex: kind == "hex", len })
        }
        ("choice", Some(words)) => {
            let words = words.split(',').map(word).collect::<Result<Vec<_>, _>>()?;
            Ok(Field::Words { draw: Draw::Uniform, words })
        }
        ("uniform" | "turn", Some(of)) => {
            let turn = kind == "turn";
            drawn(of, load, |_| if turn { Draw::Turn } else { Draw::Uniform })
        }
        ("zipf", Some(of)) => drawn(of, load, |count| Draw::Zipf(Zipf::new(count, 1.0))),
        (_, None) => range(inner).ok_or_else(unknown)?,
        (_, Some(of)) => {
            let exponent = kind.strip_prefix("zipf(").and_then(|rest| rest.strip_suffix(')'));
            let text = exponent.ok_or_else(unknown)?;
            let wanted = "an exponent from 0 to 10 as in {zipf(1.1):FILE}";
            let exponent: f64 = text.parse().unwrap_or(f64::NAN);
            if !(0.0..=10.0).contains(&exponent) {
                return Err(Fault::Number(text.to_owned(), wanted));
            }
            drawn(of, load, |count| Draw::Zipf(Zipf::new(count, exponent)))
        }
    }
}

fn number(text: &str, wanted: &'static str) -> Result<u64, Fault> {
    let digits = text.bytes().all(|octet| octet.is_ascii_digit());
    let number = text.parse().ok().filter(|_| digits);
    number.ok_or_else(|| Fault::Number(text.to_owned(), wanted))
}

/// `A-B`; `None` if it is no such thing at all.
fn range(text: &str) -> Option<Result<Field, Fault>> {
    let (first, last) = text.split_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
    if !digits(first) || !digits(last) {
        return None;
    }
    let wrong = || Fault::Number(text.to_owned(), "A-B with A <= B, both below 2^63");
    let width = if first.len() > 1 && first.starts_with('0') { first.len() } else { 0 };
    let bound = |text: &str| text.parse().ok().filter(|number| *number < 1_u64 << 63);
    let bounds = bound(first).zip(bound(last)).filter(|(first, last)| first <= last && width <= 20);
    let field = |(first, last)| Field::Number {
        draw: Draw::Uniform,
        first,
        count: last - first + 1,
        width,
    };
    Some(bounds.map(field).ok_or_else(wrong))
}

/// The words of a file, or the numbers below `of`.
fn drawn(
    of: &str,
    load: &mut impl FnMut(&str) -> io::Result<Vec<u8>>,
    draw: impl FnOnce(usize) -> Draw,
) -> Result<Field, Fault> {
    if !of.is_empty() && of.bytes().all(|octet| octet.is_ascii_digit()) {
        let wanted = "a count from 1 to 10000000, or a file";
        let count = number(of, wanted)?;
        if !(1..=WORDS_MAX).contains(&count) {
            return Err(Fault::Number(of.to_owned(), wanted));
        }
        return Ok(Field::Number { draw: draw(count as usize), first: 0, count, width: 0 });
    }
    let octets = load(of).map_err(|error| Fault::File(of.to_owned(), error))?;
    let mut words = Vec::new();
    for (at, line) in octets.split(|octet| *octet == b'\n').enumerate() {
        let text = crate::text::printable(line);
        let Some(column) = text.split_ascii_whitespace().next() else { continue };
        if column.starts_with([';', '#']) {
            continue;
        }
        let fault = |fault| Fault::Line { file: of.to_owned(), line: at + 1, fault };
        words.push(word(column).map_err(fault)?);
    }
    if words.is_empty() {
        return Err(Fault::Empty(of.to_owned()));
    }
    Ok(Field::Words { draw: draw(words.len()), words })
}

/// A name that is not the root.
fn word(text: &str) -> Result<Name, NameError> {
    Name::parse(text)
        .and_then(|name| if name.view().is_root() { Err(NameError::EmptyLabel) } else { Ok(name) })
}

/// The shortest and the longest that the label being written, and the longest that the name, can be.
#[derive(Default)]
struct Bounds {
    label_min: usize,
    label_max: usize,
    /// Octets of all ended labels with their length octets.
    ended_max: usize,
}

impl Bounds {
    fn add(&mut self, field: &Field) -> Result<(), Fault> {
        match field {
            Field::Text(pieces) => pieces.iter().try_for_each(|(dot, octets)| {
                if *dot {
                    self.end_label()?;
                }
                self.grow(octets.len(), octets.len())
            }),
            Field::Random { len, .. } => self.grow(*len, *len),
            Field::Sequence { .. } => self.grow(1, 20),
            Field::Number { first, count, width, .. } => {
                let digits = |number: u64| number.checked_ilog10().unwrap_or(0) as usize + 1;
                let last = first.saturating_add(count - 1);
                self.grow(digits(*first).max(*width), digits(last).max(*width))
            }
            Field::Words { words, .. } => self.add_words(words),
        }
    }

    fn add_words(&mut self, words: &[Name]) -> Result<(), Fault> {
        let (label_min, label_max, ended) = (self.label_min, self.label_max, self.ended_max);
        let mut after = Self { label_min: usize::MAX, label_max: 0, ended_max: 0 };
        // The longest of everything counts, even if no single word brings all of it.
        let mut whole_max = 0;
        for word in words {
            let (mut min, mut max) = (label_min, label_max);
            for (at, label) in word.view().labels().enumerate() {
                if at > 0 {
                    (min, max) = (0, 0);
                }
                (min, max) = (min + label.len(), max + label.len());
                if max > LABEL_LEN_MAX {
                    return Err(Fault::LabelTooLong(max));
                }
            }
            after.label_min = after.label_min.min(min);
            after.label_max = after.label_max.max(max);
            // Without its root label and the length octet of its first label.
            whole_max = whole_max.max(word.as_wire().len() - 2);
        }
        // The whole name with this word, less what will be counted when its last label ends.
        after.ended_max = (ended + label_max + whole_max).saturating_sub(after.label_max);
        *self = after;
        self.check()
    }

    fn grow(&mut self, min: usize, max: usize) -> Result<(), Fault> {
        self.label_min += min;
        self.label_max += max;
        self.check()
    }

    fn end_label(&mut self) -> Result<(), Fault> {
        if self.label_min == 0 {
            return Err(Fault::Name(NameError::EmptyLabel));
        }
        self.ended_max += 1 + self.label_max;
        (self.label_min, self.label_max) = (0, 0);
        Ok(())
    }

    fn check(&self) -> Result<(), Fault> {
        if self.label_max > LABEL_LEN_MAX {
            return Err(Fault::LabelTooLong(self.label_max));
        }
        let open = if self.label_max > 0 { 1 + self.label_max } else { 0 };
        let whole = self.ended_max + open + 1;
        if whole > NAME_LEN_MAX { Err(Fault::NameTooLong(whole)) } else { Ok(()) }
    }

    fn end(&self) -> Result<(), Fault> {
        if self.ended_max == 0 && self.label_max == 0 {
            return Err(Fault::Name(NameError::EmptyLabel));
        }
        self.check()
    }
}
