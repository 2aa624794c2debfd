//! Whether the numbers of a result add up, as those of every run do.
//!
//! A file can have been changed, joined from two or cut by hand since it was written. Rates, losses and
//! percentiles of such a file contradict each other, and none of them says so.

use crate::{Counts, Group, ResultFile, Second};
use lab_histogram::Histogram;
use std::collections::BTreeMap;

/// A field whose number is not what others add up to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Path of the field, as `seconds[3].sent`.
    pub(crate) field: String,
    /// The number, and what is expected.
    pub(crate) message: String,
}

/// The first number that does not add up. A run that found its own numbers at odds is INVALID and says so.
pub(crate) fn check(result: &ResultFile) -> Result<(), Fault> {
    if !result.verdict.valid {
        return Ok(());
    }
    of_counts(&result.counts)?;
    let (answered, lost) = (result.counts.answered, result.counts.lost());
    codes("rcodes", &result.rcodes, answered)?;
    times("response", &result.response, answered, lost)?;
    times("service", &result.service, answered, lost)?;
    equal("lateness.recorded", result.lateness.recorded(), "counts.sent", result.counts.sent)?;
    equal("late.recorded", result.late.recorded(), "counts.late", result.counts.late)?;
    for (at, second) in result.seconds.iter().enumerate() {
        of_second(&format!("seconds[{at}]"), second)?;
    }
    seconds(result)?;
    let groups = [
        ("by_qtype", &result.by_qtype),
        ("by_rcode", &result.by_rcode),
        ("by_transport", &result.by_transport),
    ];
    for (name, groups) in groups {
        for (at, group) in groups.iter().enumerate() {
            of_group(&format!("{name}[{at}]"), group)?;
        }
    }
    Ok(())
}

fn of_counts(c: &Counts) -> Result<(), Fault> {
    let scheduled = sum([c.sent, c.skipped, c.send_errors]);
    equal("counts.scheduled", c.scheduled, "sent, skipped and send_errors", scheduled)?;
    let sent = sum([c.answered, c.timed_out, c.refused, c.connection_failed, c.interrupted]);
    let outcomes = "answered, timed_out, icmp_refused, connection_failed and interrupted";
    equal("counts.sent", c.sent, outcomes, sent)?;
    let received = sum([c.answered, c.late, c.duplicate, c.mismatched, c.unknown, c.malformed]);
    let messages = "answered, late, duplicate, mismatched, unknown and malformed";
    equal("counts.received", c.received, messages, received)
}

fn of_second(at: &str, second: &Second) -> Result<(), Fault> {
    let lost = sum([second.timed_out, second.refused, second.connection_failed]);
    let causes = "timed_out, icmp_refused and connection_failed";
    equal(&format!("{at}.lost"), second.lost, causes, lost)?;
    let sent = sum([second.answered, second.lost, second.interrupted]);
    equal(&format!("{at}.sent"), second.sent, "answered, lost and interrupted", sent)?;
    codes(&format!("{at}.rcodes"), &second.rcodes, second.answered)?;
    times(&format!("{at}.response"), &second.response, second.answered, second.lost)
}

/// All seconds together are the run.
fn seconds(result: &ResultFile) -> Result<(), Fault> {
    let all = |of: fn(&Second) -> u64| sum(result.seconds.iter().map(of));
    for (field, found, of) in [
        ("counts.sent", result.counts.sent, all(|second| second.sent)),
        ("counts.answered", result.counts.answered, all(|second| second.answered)),
    ] {
        equal(field, found, "those of all seconds", of)?;
    }
    Ok(())
}

fn of_group(at: &str, group: &Group) -> Result<(), Fault> {
    let outcomes = group.answered.saturating_add(group.lost);
    if outcomes > group.sent {
        let message = format!("is {}, but answered and lost add up to {outcomes}", group.sent);
        return Err(Fault { field: format!("{at}.sent"), message });
    }
    times(&format!("{at}.response"), &group.response, group.answered, group.lost)
}

fn codes(field: &str, codes: &BTreeMap<String, u64>, answered: u64) -> Result<(), Fault> {
    let found = sum(codes.values().copied());
    if found == answered {
        return Ok(());
    }
    let message = format!("add up to {found}, but answered is {answered}");
    Err(Fault { field: field.to_owned(), message })
}

fn times(field: &str, times: &Histogram, answered: u64, lost: u64) -> Result<(), Fault> {
    equal(&format!("{field}.recorded"), times.recorded(), "answered", answered)?;
    equal(&format!("{field}.censored"), times.censored(), "lost", lost)
}

fn equal(field: &str, found: u64, what: &str, expected: u64) -> Result<(), Fault> {
    if found == expected {
        return Ok(());
    }
    let message = format!("is {found}, but {what} say {expected}");
    Err(Fault { field: field.to_owned(), message })
}

/// What is beyond 64 bits stays at their end: files can have been written by anyone.
fn sum(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::example;

    #[test]
    fn a_number_that_does_not_add_up_is_named() {
        assert_eq!(check(&example()), Ok(()));
        type Change = fn(&mut ResultFile);
        let cases: [(&str, Change); 10] = [
            ("counts.sent", |it| it.counts.answered += 1),
            ("counts.scheduled", |it| it.counts.sent -= 1),
            ("counts.received", |it| it.counts.late += 1),
            ("rcodes", |it| *it.rcodes.entry("SERVFAIL".into()).or_default() += 1),
            ("response.recorded", |it| it.response.record(1)),
            ("service.censored", |it| it.service.record_censored(1)),
            ("lateness.recorded", |it| it.lateness.record(1)),
            ("seconds[1].sent", |it| it.seconds[1].sent = 1),
            ("counts.sent", |it| drop(it.seconds.pop())),
            ("by_qtype[0].sent", |it| it.by_qtype[0].sent = 3),
        ];
        for (field, change) in cases {
            let mut result = example();
            change(&mut result);
            assert_eq!(check(&result).unwrap_err().field, field);
            // What a run says of itself is not said again.
            result.verdict.valid = false;
            assert_eq!(check(&result), Ok(()));
        }
    }
}
