//! dnsperf's lines about single queries: with `-v` one for each, else one for each that timed out.

use super::options::Options;
use crate::term;
use lab_load::Workload;
use lab_load::fates::{End, Fate, Fates};
use lab_result::export::dnsperf as text;
use std::collections::BTreeSet;
use std::sync::mpsc::Receiver;

/// Lines put together before they are written.
const LINES_MAX: usize = 1_024;

/// What single queries are called, and which of them have a line.
pub(super) struct Lines {
    /// The query of each message as the input has it; empty if it has none to show.
    names: Vec<String>,
    verbose: bool,
    /// What was sent: "Query" or "Update".
    what: &'static str,
}

impl Lines {
    /// The lines that `options` want, if any, and the source of the queries' fates.
    pub(super) fn wanted(
        options: &Options,
        names: Vec<String>,
    ) -> Option<(Self, Fates, Receiver<Fate>)> {
        let verbose = options.verbose && !names.is_empty();
        if options.json || options.quiet_timeouts && !verbose {
            return None;
        }
        let (fates, receiver) = Fates::channel(verbose);
        let what = if options.updates { "Update" } else { "Query" };
        Some((Self { names, verbose, what }, fates, receiver))
    }

    /// Prints until nothing more can come.
    pub(super) fn print(&self, workload: &Workload, fates: &Receiver<Fate>) {
        while let Ok(first) = fates.recv() {
            let more = fates.try_iter().take(LINES_MAX - 1);
            let lines = std::iter::once(first).chain(more);
            let lines: String =
                lines.filter_map(|fate| self.line(workload.message_of(fate.item), fate)).collect();
            // A reader that is gone is noticed at the end.
            _ = term::all(&lines);
        }
    }

    fn line(&self, message: usize, Fate { id, end, .. }: Fate) -> Option<String> {
        let name = self.names.get(message).filter(|_| self.verbose);
        Some(match (end, name) {
            (End::Answered { rcode, service }, name) => text::answer_line(rcode, name?, service),
            (End::Interrupted, name) => format!("> I {}\n", name?),
            (End::Lost, Some(name)) => format!("> T {name}\n"),
            (End::Lost, None) => format!("[Timeout] {} timed out: msg id {id}\n", self.what),
        })
    }
}

/// The lines of a query file that are queries, as they are written; `faulty` ones, by number from 1,
/// are none.
pub(super) fn queries(octets: &[u8], faulty: &BTreeSet<usize>) -> Vec<String> {
    let lines = octets.split(|octet| *octet == b'\n').enumerate();
    let lines = lines.filter(|(at, _)| !faulty.contains(&(at + 1)));
    let lines = lines.map(|(_, line)| String::from_utf8_lossy(line));
    let queries = lines.filter(|line| {
        let line = line.trim_start_matches(|c: char| c.is_ascii_whitespace());
        !line.is_empty() && !line.starts_with(';')
    });
    queries.map(|line| line.trim_end_matches('\r').to_owned()).collect()
}

/// The zones of updates.
pub(super) fn zones(workload: &Workload) -> Vec<String> {
    let zone = |at| {
        let name = workload.question(at).0.to_string();
        name.strip_suffix('.').filter(|name| !name.is_empty()).unwrap_or(&name).to_owned()
    };
    (0..workload.len()).map(zone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_shown_as_they_are_written_and_in_their_order() {
        let text = b"; comment\n\na.example. A\nx..y A\nb.example\tTYPE28\r\n   \n";
        let names = queries(text, &BTreeSet::from([4]));
        assert_eq!(names, ["a.example. A", "b.example\tTYPE28"]);
        let lines = Lines { names, verbose: true, what: "Query" };
        let line = |message, end| lines.line(message, Fate { item: 0, id: 7, end });
        let answered = End::Answered { rcode: 3, service: 1_234_567 };
        assert_eq!(line(0, answered).unwrap(), "> NXDOMAIN a.example. A 0.001234\n");
        let odd = End::Answered { rcode: 12, service: 0 };
        assert_eq!(line(1, odd).unwrap(), "> rcode12 b.example\tTYPE28 0.000000\n");
        assert_eq!(line(1, End::Lost).unwrap(), "> T b.example\tTYPE28\n");
        assert_eq!(line(0, End::Interrupted).unwrap(), "> I a.example. A\n");
        let quiet = Lines { verbose: false, ..lines };
        let line = |end| quiet.line(0, Fate { item: 0, id: 7, end });
        assert_eq!(line(answered), None);
        assert_eq!(line(End::Lost).unwrap(), "[Timeout] Query timed out: msg id 7\n");
    }
}
