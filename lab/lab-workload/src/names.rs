//! The text format of dnsperf's query files: a name and a type per line.
//!
//! As dnsperf: `;` starts a comment line, empty lines are skipped, names are absolute with or
//! without a final dot, types are mnemonics or `TYPEnnn`. In addition a third column `E` asks for
//! EDNS and `D` for EDNS with DO, as kxdpgun has it; the type may be missing (A).

use crate::workload::{Edns, Workload};
use nodens_wire::{Name, NameError, Type};

/// The UDP payload size that questions with EDNS announce.
const UDP_SIZE: u16 = 1232;

/// A line that is not a question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct LineError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The first column.
    #[error("{0}")]
    Name(#[from] NameError),
    /// The second column.
    #[error("`{0}` is no type, expected a mnemonic as A or TYPEnnn")]
    Type(String),
    /// The third column.
    #[error("`{0}` in the third column, expected E (EDNS) or D (DO)")]
    Column(String),
}

/// Appends the questions in `text` to `workload` and returns the lines that are none.
///
/// Questions without a third column get `edns`.
pub fn read(text: &str, edns: Option<Edns>, workload: &mut Workload) -> Vec<LineError> {
    let mut errors = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line_text = line.trim();
        if line_text.is_empty() || line_text.starts_with(';') {
            continue;
        }
        if let Err(fault) = read_line(line_text, edns, workload) {
            errors.push(LineError { line: at + 1, fault });
        }
    }
    errors
}

fn read_line(line: &str, edns: Option<Edns>, workload: &mut Workload) -> Result<(), Fault> {
    let mut columns = line.split_ascii_whitespace();
    let name = Name::parse(columns.next().unwrap_or_default())?;
    let qtype = match columns.next() {
        Some(text) => text.parse().map_err(|_| Fault::Type(text.to_owned()))?,
        None => Type::A,
    };
    let edns = match columns.next() {
        None => edns,
        Some("E") => Some(Edns { udp_size: UDP_SIZE, dnssec_ok: false }),
        Some("D") => Some(Edns { udp_size: UDP_SIZE, dnssec_ok: true }),
        Some(text) => return Err(Fault::Column(text.to_owned())),
    };
    workload.push(name.view(), qtype, edns);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_lines_are_questions_and_bad_lines_are_named() {
        let text = "; comment\n\nwww.example.com A\nexample.com.\tTYPE64 D\n\
                    a..b A\nexample.org NOPE\nexample.org A x\n example.net\n";
        let mut workload = Workload::new(0);
        let errors = read(text, None, &mut workload);
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "line 5: name has an empty label",
                "line 6: `NOPE` is no type, expected a mnemonic as A or TYPEnnn",
                "line 7: `x` in the third column, expected E (EDNS) or D (DO)",
            ]
        );
        let questions: Vec<_> = (0..workload.len())
            .map(|at| {
                let (name, qtype) = workload.question(at);
                format!("{name} {qtype}")
            })
            .collect();
        assert_eq!(questions, ["www.example.com. A", "example.com. SVCB", "example.net. A"]);
    }
}
