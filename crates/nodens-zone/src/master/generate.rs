//! `$GENERATE START-STOP[/STEP] TEMPLATE`: records with a number in them, as BIND has them.

use super::MasterFault;
use crate::limits::{MASTER_DIGITS_MAX, MASTER_GENERATED_MAX};
use crate::presentation::tokens::{Token, Tokens};
use crate::presentation::{PresentationError, head};
use nodens_wire::{NameRef, Type};
use std::borrow::Cow;
use std::fmt::Write;

/// The most a number with its offset may be, as in CoreDNS.
const NUMBER_MAX: i64 = i32::MAX as i64;

/// The records that are left to make.
pub(super) struct Generate {
    /// The line of the directive.
    pub(super) line: usize,
    parts: Vec<Part>,
    next: i64,
    stop: i64,
    step: i64,
}

/// A part of the template.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Number { offset: i64, width: usize, base: Base },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Decimal,
    Octal,
    Lower,
    Upper,
    /// Hexadecimal digits as labels, the last one first, as names below `ip6.arpa` have them.
    LowerLabels,
    UpperLabels,
}

impl Generate {
    /// Reads what stands behind `$GENERATE` in an entry that begins at `line`.
    pub(super) fn read(tokens: &mut Tokens<'_>, line: usize) -> Result<Self, MasterFault> {
        let word = tokens.expect("a range such as 1-10 or 1-10/2")?;
        let wrong = || word.unlike("a range such as 1-10 or 1-10/2 of at most 65536 numbers");
        let (next, stop, step) = range(word.raw).ok_or_else(wrong)?;
        let template = tokens.rest().trim_start().trim_end_matches(['\r', '\n']);
        let parts = parts(&word, &unquoted(template), (next, stop))?;
        tokens.clone().expect("a record")?;
        Ok(Self { line, parts, next, stop, step })
    }

    /// Appends the next record to `text`; false if there is none.
    pub(super) fn next_entry(&mut self, text: &mut Vec<u8>) -> Result<bool, MasterFault> {
        if self.next > self.stop {
            return Ok(false);
        }
        for part in &self.parts {
            match part {
                Part::Text(octets) => text.extend_from_slice(octets.as_bytes()),
                Part::Number { offset, width, base } => {
                    let (number, width, mut digits) = (self.next + offset, *width, String::new());
                    // Writing to a String cannot fail.
                    _ = match base {
                        Base::Decimal => write!(digits, "{number:0width$}"),
                        Base::Octal => write!(digits, "{number:0width$o}"),
                        Base::Lower => write!(digits, "{number:0width$x}"),
                        Base::Upper => write!(digits, "{number:0width$X}"),
                        Base::LowerLabels => write!(digits, "{}", labels(number, width)),
                        Base::UpperLabels => {
                            write!(digits, "{}", labels(number, width).to_ascii_uppercase())
                        }
                    };
                    text.extend_from_slice(digits.as_bytes());
                }
            }
        }
        self.next = self.next.saturating_add(self.step);
        Ok(true)
    }
}

/// First, last and step of `START-STOP[/STEP]`.
fn range(text: &str) -> Option<(i64, i64, i64)> {
    let (range, step) = text.split_once('/').unwrap_or((text, "1"));
    let (start, stop) = range.split_once('-')?;
    let number = |text: &str| text.parse::<u32>().ok().map(i64::from);
    let (start, stop, step) = (number(start)?, number(stop)?, number(step)?);
    let count = u64::try_from((stop - start).checked_div(step)?).ok()?;
    (start <= stop && count < MASTER_GENERATED_MAX).then_some((start, stop, step))
}

/// The template without the quotes around RDATA of several fields, which BIND takes as one word (`MX "10 mail-$"`).
/// Text keeps them, as CoreDNS has it.
fn unquoted(template: &str) -> Cow<'_, str> {
    without_quotes(template).map_or(Cow::Borrowed(template), Cow::Owned)
}

fn without_quotes(template: &str) -> Option<String> {
    let mut tokens = Tokens::relative_to(NameRef::root(), template);
    tokens.next().ok()??;
    let rtype = head(&mut tokens).ok()?.rtype;
    let rdata = tokens.next().ok()?.filter(|word| word.quoted)?;
    let before = template.get(..tokens.position())?;
    let is_all = matches!(tokens.next(), Ok(None));
    (is_all && !is_text(rtype)).then(|| format!("{before}{}", rdata.raw))
}

/// Whether one word in quotes is RDATA of the type.
fn is_text(rtype: Type) -> bool {
    matches!(
        rtype,
        Type::TXT
            | Type::SPF
            | Type::AVC
            | Type::NINFO
            | Type::RESINFO
            | Type::HINFO
            | Type::ISDN
            | Type::X25
            | Type::UINFO
    )
}

/// A number as labels of one hexadecimal digit, with so many octets at least.
fn labels(number: i64, width: usize) -> String {
    let digits: Vec<char> = format!("{number:x}").chars().rev().collect();
    let last = digits.len() - 1;
    let len = (2 * last + 1).max(width);
    // A dot behind each digit, and as many zeros as are missing.
    let octet =
        |at: usize| if at % 2 == 1 { '.' } else { digits.get(at / 2).copied().unwrap_or('0') };
    (0..len).map(octet).collect()
}

/// Cuts the template at its numbers; `\$` and `$$` are a dollar sign.
fn parts(
    word: &Token<'_>,
    template: &str,
    (start, stop): (i64, i64),
) -> Result<Vec<Part>, PresentationError> {
    let expected = "a number such as $ or ${0,2,d}";
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find(['\\', '$']) {
        let (head, tail) = rest.split_at(at);
        text.push_str(head);
        rest = tail;
        if let Some(behind) = rest.strip_prefix("$$").or_else(|| rest.strip_prefix("\\$")) {
            text.push('$');
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix('\\') {
            // An escape stays one.
            let len = 1 + behind.chars().next().map_or(0, char::len_utf8);
            let (escape, behind) = rest.split_at(len);
            text.push_str(escape);
            rest = behind;
        } else {
            let behind = rest.strip_prefix('$').unwrap_or_default();
            let (modifier, behind) = match behind.strip_prefix('{') {
                Some(inner) => inner.split_once('}').ok_or_else(|| word.unlike(expected))?,
                None => ("0", behind),
            };
            let wrong = || PresentationError::Expected { expected, found: modifier.to_owned() };
            let number = number(modifier, (start, stop)).ok_or_else(wrong)?;
            parts.extend([Part::Text(std::mem::take(&mut text)), number]);
            rest = behind;
        }
    }
    text.push_str(rest);
    parts.push(Part::Text(text));
    Ok(parts)
}

/// `OFFSET[,WIDTH[,BASE]]`.
fn number(text: &str, (start, stop): (i64, i64)) -> Option<Part> {
    let mut fields = text.split(',');
    let offset: i64 = fields.next()?.parse().ok()?;
    let width: usize = fields.next().unwrap_or("0").parse().ok()?;
    let base = match fields.next().unwrap_or("d") {
        "d" => Base::Decimal,
        "o" => Base::Octal,
        "x" => Base::Lower,
        "X" => Base::Upper,
        "n" => Base::LowerLabels,
        "N" => Base::UpperLabels,
        _ => return None,
    };
    let fits = start.checked_add(offset)? >= 0 && stop.checked_add(offset)? <= NUMBER_MAX;
    let is_all = fields.next().is_none() && width <= MASTER_DIGITS_MAX;
    (fits && is_all).then_some(Part::Number { offset, width, base })
}
