//! The text format of query files: a name and a type per line.
//!
//! As dnsperf reads it: columns are separated by spaces and tabs, `;` starts a comment line, empty
//! lines are skipped, names are absolute with or without a final dot and may have `\DDD` and `\c`, types
//! are mnemonics in any case or `TYPEnnn`. In addition
//!
//! - the type may be missing: it is drawn from those the caller gives;
//! - the third column may be `E` (EDNS) or `D` (EDNS with DO), as kxdpgun has it, or a client subnet
//!   as `192.0.2.0/24`, as flamethrower has it;
//! - a column that starts with `;` ends the line.

use crate::edns::Subnets;
use crate::text::{columns, printable};
use crate::types::TypeMix;
use crate::workload::{Style, Workload};
use lab_random as rng;
use nodens_wire::{Name, NameError, Type};
use std::borrow::Cow;

/// Purpose of the stream that types of lines without a type come from.
const TYPE_STREAM: u64 = 202;

/// A line that is not a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {fault}")]
pub struct LineError {
    /// The line, counted from 1.
    pub line: usize,
    /// Where the column starts, in octets counted from 1; octets beyond ASCII count as `\DDD`.
    pub column: usize,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The first column.
    #[error("{0}, expected a domain name")]
    Name(#[from] NameError),
    /// The second column.
    #[error("`{0}` is not a record type, expected a mnemonic such as A, or TYPEnnn")]
    Type(String),
    /// The third column.
    #[error(
        "`{0}` in the third column, expected E (EDNS), D (EDNS with DO) or a client subnet such as 192.0.2.0/24"
    )]
    Third(String),
    /// One too many.
    #[error("`{0}` after the third column, expected the end of the line")]
    Fourth(String),
}

/// Appends the queries in `text` to `workload` and returns the lines that are none.
///
/// Queries look like `style`, but for what their third column says. Lines without a type get one from
/// `types`, drawn with `seed` by the number of the line.
pub fn read(
    text: &[u8],
    style: &Style,
    types: &TypeMix,
    seed: u64,
    workload: &mut Workload,
) -> Vec<LineError> {
    let (mut errors, seed) = (Vec::new(), rng::at(seed, TYPE_STREAM));
    for (at, line) in text.split(|octet| *octet == b'\n').enumerate() {
        let line = printable(line);
        let fallback = types.draw(seed, at as u64);
        match read_line(&line, style, fallback) {
            Ok(None) => {}
            Ok(Some((name, qtype, style))) => {
                workload.push_question(name.view(), qtype, &style);
            }
            Err((column, fault)) => errors.push(LineError { line: at + 1, column, fault }),
        }
    }
    errors
}

/// A query and how it looks.
type Question<'s> = (Name, Type, Cow<'s, Style>);

/// The query of a line, `None` if the line has none, or the column and what is wrong with it.
fn read_line<'s>(
    line: &str,
    style: &'s Style,
    fallback: Type,
) -> Result<Option<Question<'s>>, (usize, Fault)> {
    let mut columns = columns(line).take_while(|(_, text)| !text.starts_with(';'));
    let Some((at, name)) = columns.next() else { return Ok(None) };
    let name = Name::parse(name).map_err(|error| (at, error.into()))?;
    let qtype = match columns.next() {
        Some((at, text)) => text.parse().map_err(|_| (at, Fault::Type(text.to_owned())))?,
        None => fallback,
    };
    let style = match columns.next() {
        Some((at, text)) => Cow::Owned(third(text, style).map_err(|fault| (at, fault))?),
        None => Cow::Borrowed(style),
    };
    match columns.next() {
        Some((at, text)) => Err((at, Fault::Fourth(text.to_owned()))),
        None => Ok(Some((name, qtype, style))),
    }
}

/// What a third column makes of `style`.
fn third(text: &str, style: &Style) -> Result<Style, Fault> {
    let mut edns = style.edns.clone().unwrap_or_default();
    match text {
        "E" | "e" => {}
        "D" | "d" => edns.dnssec_ok = true,
        _ => {
            let subnet = text.parse::<Subnets>().ok().filter(|subnet| !subnet.are_drawn());
            edns.set_subnets(subnet.ok_or_else(|| Fault::Third(text.to_owned()))?);
        }
    }
    Ok(Style { edns: Some(edns), ..style.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_wire::{Message, edns::code};
    use proptest::prelude::*;

    fn read_all(text: &[u8]) -> (Workload, Vec<String>) {
        let mut workload = Workload::new(0);
        let types = TypeMix::only(Type::A);
        let errors = read(text, &Style::default(), &types, 1, &mut workload);
        (workload, errors.iter().map(ToString::to_string).collect())
    }

    fn questions(workload: &Workload) -> Vec<String> {
        let question = |at| {
            let (name, qtype) = workload.question(at);
            format!("{name} {qtype}")
        };
        (0..workload.len()).map(question).collect()
    }

    #[test]
    fn good_lines_are_queries_and_bad_lines_are_named() {
        let text = b"; comment\n\nwww.example.com A\nexample.com.\tTYPE64 D\r\n\
            a..b A\n  example.org NOPE\nexample.org A x\n example.net ; behind\n\
            a.example https 192.0.2.0/24 y\n\\.\\097\xe9\\\xe8 any";
        let (workload, errors) = read_all(text);
        assert_eq!(
            errors,
            [
                "5:1: name has an empty label, expected a domain name",
                "6:15: `NOPE` is not a record type, expected a mnemonic such as A, or TYPEnnn",
                "7:15: `x` in the third column, expected E (EDNS), D (EDNS with DO) or a client subnet such as 192.0.2.0/24",
                "9:30: `y` after the third column, expected the end of the line",
            ]
        );
        assert_eq!(
            questions(&workload),
            ["www.example.com. A", "example.com. SVCB", "example.net. A", "\\.a\\233\\232. ANY"]
        );
    }

    #[test]
    fn the_third_column_adds_edns() {
        let (workload, errors) = read_all(b"a A\na A E\na A d\na A 10.1.2.3/20\na A 2001:db8::/32");
        assert_eq!(errors, [""; 0]);
        let asked = (0..5).map(|n| {
            let mut out = Vec::new();
            workload.append(n, 0, &mut out);
            let message = Message::parse(&out).unwrap();
            message.edns().map(|(edns, options)| {
                (edns.dnssec_ok(), options.map(|(code, data)| (code, data.to_vec())).collect())
            })
        });
        let asked: Vec<Option<(bool, Vec<_>)>> = asked.collect();
        let subnet = |data: &[u8]| Some((false, vec![(code::CLIENT_SUBNET, data.to_vec())]));
        assert_eq!(
            asked,
            [
                None,
                Some((false, vec![])),
                Some((true, vec![])),
                subnet(&[0, 1, 20, 0, 10, 1, 0]),
                subnet(&[0, 2, 32, 0, 0x20, 1, 0x0d, 0xb8]),
            ]
        );
    }

    #[test]
    fn types_that_are_missing_come_from_the_mix() {
        let text = "name\n".repeat(1_000);
        let mut workload = Workload::new(0);
        let types: TypeMix = "A=3,AAAA=1".parse().unwrap();
        assert_eq!(read(text.as_bytes(), &Style::default(), &types, 1, &mut workload), []);
        let a = (0..1_000).filter(|at| workload.question(*at).1 == Type::A).count();
        assert!((680..820).contains(&a), "{a}");
    }

    proptest! {
        #[test]
        fn every_line_is_a_query_or_named_or_empty(
            lines in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20),
        ) {
            let text = lines.join(&b'\n');
            let (workload, errors) = read_all(&text);
            let empty = text.split(|octet| *octet == b'\n').filter(|line| {
                let start = line.iter().find(|octet| !octet.is_ascii_whitespace());
                matches!(start, None | Some(b';'))
            });
            let count = text.split(|octet| *octet == b'\n').count();
            prop_assert_eq!(workload.len() + errors.len() + empty.count(), count);
        }

        #[test]
        fn written_queries_are_read(name in "[a-z]{1,20}(\\.[a-z]{1,20}){0,3}\\.?", qtype: u16) {
            let (workload, errors) = read_all(format!("{name}\t TYPE{qtype}\n").as_bytes());
            prop_assert_eq!(errors, Vec::<String>::new());
            let name = Name::parse(&name).unwrap();
            prop_assert_eq!(workload.question(0), (name.view(), Type(qtype)));
        }
    }
}
