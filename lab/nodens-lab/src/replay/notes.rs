//! What a reader should know of a capture, and of responses beside the recorded ones.

use crate::term;
use lab_replay::{Comparison, Survey};

/// Servers that are named.
const SERVERS_NAMED: usize = 3;

/// What the capture has beside the queries of clients to one server.
pub(super) fn survey(survey: &Survey) -> Vec<String> {
    let mut notes = Vec::new();
    if survey.by_server.len() > 1 {
        let most = survey.by_server.iter().take(SERVERS_NAMED);
        let most: Vec<_> =
            most.map(|(server, count)| format!("{} to {server}", term::count(*count))).collect();
        notes.push(format!(
            "queries to {} servers were sent to one ({}{}): --server chooses",
            term::count(survey.by_server.len() as u64),
            most.join(", "),
            if survey.by_server.len() > SERVERS_NAMED { ", …" } else { "" },
        ));
    }
    if survey.copies > 0 {
        notes.push(format!(
            "{} copies of queries were left out: the same datagrams within 1 ms, from several devices",
            term::count(survey.copies)
        ));
    }
    notes
}

/// What the comparison says, the differences last.
pub(super) fn comparison(comparison: &Comparison) -> Vec<String> {
    if comparison.compared() == 0 {
        return vec!["the capture has no responses to compare with".to_owned()];
    }
    let counts = [
        ("the same", comparison.same),
        ("with another RCODE", comparison.other_rcode),
        ("with other flags", comparison.other_flags),
        ("with other records", comparison.other_records),
        ("missing", comparison.missing),
        ("unreadable", comparison.unreadable),
    ];
    let shown = counts.iter().filter(|(what, count)| *count > 0 || *what == "the same");
    let parts: Vec<_> =
        shown.map(|(what, count)| format!("{} {what}", term::count(*count))).collect();
    let mut text = format!(
        "of {} recorded responses {}",
        term::count(comparison.compared()),
        parts.join(", ")
    );
    if comparison.not_recorded > 0 {
        text +=
            &format!("; {} responses have no recorded one", term::count(comparison.not_recorded));
    }
    std::iter::once(text).chain(comparison.named.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_servers_and_copies_are_told() {
        let server = |last: u8, count| ([10, 0, 0, last].into(), count);
        let mut of = Survey::default();
        of.by_server = vec![server(1, 50)];
        assert_eq!(survey(&of), [""; 0]);
        of.by_server.extend((2..6).map(|last| server(last, 7)));
        of.copies = 3;
        let told = survey(&of);
        let expected = "queries to 5 servers were sent to one (50 to 10.0.0.1, 7 to 10.0.0.2, 7 to 10.0.0.3, …): \
                        --server chooses";
        assert_eq!((told.len(), told[0].as_str()), (2, expected));
        assert!(told[1].starts_with("3 copies of queries were left out"));
    }
}
