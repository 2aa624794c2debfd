//! The report: as text, and as JSON.

use crate::term::{self, Style, Table};
use lab_zones::notes::{Conflict, Note};
use lab_zones::{Differing, Rebuilt, Validation, output};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Lines of each part that are shown; the file has all.
const SHOWN: usize = 8;
/// Characters of an answer that are shown.
const ANSWER_WIDTH: usize = 48;

/// What was left out, with its number.
pub(super) fn left_out(rebuilt: &Rebuilt) -> Vec<String> {
    let one = |(why, count): (&lab_zones::LeftOut, &u64)| {
        format!("{} {}", term::count(*count), why.text())
    };
    rebuilt.left_out.iter().map(one).collect()
}

pub(super) fn text(rebuilt: &Rebuilt, folder: &Path) -> String {
    let records: usize = rebuilt.zones.values().map(lab_zones::Zone::count).sum();
    let addresses = output::all_addresses(&rebuilt.zones).len();
    let head = format!(
        "{} with {} at {}",
        term::of(rebuilt.zones.len(), "zone"),
        term::of(records, "record"),
        of_addresses(addresses)
    );
    let mut text = format!("{}, in {}\n", term::paint(Style::Bold, &head), folder.display());
    _ = writeln!(
        text,
        "  from {}, {} of them different",
        term::of(rebuilt.responses as usize, "response"),
        term::count(rebuilt.distinct as u64)
    );
    let left_out = left_out(rebuilt);
    if !left_out.is_empty() {
        _ = writeln!(text, "  left out: {}", left_out.join(", "));
    }
    if rebuilt.others > 0 {
        _ = writeln!(
            text,
            "  beside {} to other addresses",
            term::of(rebuilt.others as usize, "response")
        );
    }
    if rebuilt.foreign > 0 {
        let count = term::of(rebuilt.foreign as usize, "set");
        _ = writeln!(
            text,
            "  {count} of records left out: of zones that their server does not serve"
        );
    }
    text.push_str(&checked(rebuilt));
    notes(&mut text, "filled in", &rebuilt.notes.filled);
    notes(&mut text, "recorded, and not in the zones", &rebuilt.notes.dropped);
    conflicts(&mut text, &rebuilt.notes.conflicts);
    notes(&mut text, "recorded, and denied", &rebuilt.notes.contradictions);
    notes(&mut text, "wildcards that signatures show", &rebuilt.notes.wildcards);
    text.push_str(&validation(&rebuilt.validation));
    text.push_str("\nOther wildcards cannot be known: a name that was not recorded does not exist in these zones.\n");
    let folder = term::shell_word(&folder.display().to_string());
    _ = write!(
        text,
        "\nip -batch {folder}/addresses      # in the servers' network namespace\n\
         cd {folder} && nodens -conf Corefile\n"
    );
    text
}

/// What becomes of a resolver that validates.
fn validation(found: &Validation) -> String {
    if found.signed == 0 {
        return "\nNo signatures were recorded: the resolver has to run without validation.\n"
            .to_owned();
    }
    let mut text = format!("\n{}\n", term::paint(Style::Bold, "signed zones"));
    let [secure, insecure] =
        [&found.secure, &found.insecure].map(|all| term::count(all.len() as u64));
    _ = writeln!(
        text,
        "  with the keys of the recorded root, a resolver validates {secure}, and knows of {insecure} more that they are unsigned"
    );
    if let (Some(from), Some(until)) = (found.valid_from, found.valid_until) {
        let (from, until) = (date(from), date(until));
        _ = writeln!(
            text,
            "  its clock (Unbound: val-override-date) has to lie between {from} and {until}, UTC"
        );
    }
    if !found.rejected.is_empty() {
        text.push_str("  without validation it resolves what is rejected here, too\n");
    }
    notes(&mut text, "rejected by a resolver that validates", &found.rejected);
    notes(&mut text, "without a signature, and rejected by it", &found.unsigned);
    text
}

/// A time as signatures have it.
fn date(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|at| jiff::Timestamp::from_second(at).ok());
    time.map_or_else(|| seconds.to_string(), |time| time.strftime("%Y%m%d%H%M%S").to_string())
}

fn of_addresses(count: usize) -> String {
    if count == 1 {
        "1 address".to_owned()
    } else {
        format!("{} addresses", term::count(count as u64))
    }
}

fn checked(rebuilt: &Rebuilt) -> String {
    let check = &rebuilt.check;
    let part = check.same as f64 / check.questions.max(1) as f64;
    let style = if check.differing.is_empty() { Style::Good } else { Style::Plain };
    let mut text = format!(
        "\n{}\n",
        term::paint(
            style,
            &format!(
                "{} of {} questions to servers have the recorded answer ({})",
                term::count(check.same as u64),
                term::count(check.questions as u64),
                term::percent(part)
            )
        )
    );
    if check.differing.is_empty() {
        return text;
    }
    let mut table = Table::new(&["question", "server", "recorded", "rebuilt"]);
    for Differing { name, rtype, server, recorded, rebuilt } in check.differing.iter().take(SHOWN) {
        table.row(vec![
            format!("{name} {rtype}"),
            server.to_string(),
            term::cut(recorded, ANSWER_WIDTH),
            term::cut(rebuilt, ANSWER_WIDTH),
        ]);
    }
    _ = writeln!(text, "{}", table.framed());
    more(&mut text, check.differing.len());
    text
}

fn more(text: &mut String, all: usize) {
    if all > SHOWN {
        let count = term::count((all - SHOWN) as u64);
        _ = writeln!(text, "  and {count} more in report.json");
    }
}

/// Notes; the same one of several zones in one line.
fn notes(text: &mut String, title: &str, notes: &[Note]) {
    if notes.is_empty() {
        return;
    }
    let mut by_what: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for note in notes {
        by_what.entry(&note.what).or_default().push(&note.zone);
    }
    let mut lines: Vec<_> = by_what.into_iter().collect();
    lines.sort_by_key(|(what, zones)| (usize::MAX - zones.len(), *what));
    _ = writeln!(text, "\n{}", term::paint(Style::Bold, title));
    for (what, zones) in lines.iter().take(SHOWN) {
        let of = match &zones[..] {
            [zone] => (*zone).to_owned(),
            [first, rest @ ..] => format!("{first} and {} more", term::count(rest.len() as u64)),
            [] => continue,
        };
        _ = writeln!(text, "  {of}: {what}");
    }
    more(text, lines.len());
}

fn conflicts(text: &mut String, conflicts: &[Conflict]) {
    if conflicts.is_empty() {
        return;
    }
    _ = writeln!(text, "\n{}", term::paint(Style::Bold, "recorded in several versions"));
    for conflict in conflicts.iter().take(SHOWN) {
        let Conflict { name, rtype, versions, taken, responses, .. } = conflict;
        _ = writeln!(
            text,
            "  {name} {rtype}: {versions} versions, that of {} of {} responses is taken",
            term::count(*taken),
            term::count(*responses)
        );
    }
    more(text, conflicts.len());
}
