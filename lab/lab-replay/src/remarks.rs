//! What a reader should know of how a recording was followed.

use crate::engine::Report;
use crate::feed::Read;

/// Lateness in nanoseconds that is counted.
const LATE: u64 = 1_000_000;
/// The part of the queries that may leave at another time than recorded, as with those that leave late; and of
/// the connections that may be closed for want of sockets.
const PART_MAX: f64 = 0.01;

/// Why the replay is no measurement, beside what is wrong with every load.
pub(crate) fn faults(report: &Report, read: &Read, queries: u64) -> Vec<String> {
    let mut faults = Vec::new();
    for (text, count) in &report.errors {
        faults.push(format!("{count} queries could not be sent: {text}"));
    }
    if read.disorder as f64 > PART_MAX * queries as f64 {
        let (moved, why) = (read.disorder, "they stand too far behind later ones");
        faults.push(format!("{moved} of {queries} queries were sent when they were read: {why}"));
    }
    let opened = report.books.tcp.connections.attempts;
    if report.closed as f64 > PART_MAX * opened as f64 {
        let (closed, most) = (report.closed, report.sockets_max);
        faults.push(format!(
            "{closed} of {opened} connections were closed for want of sockets, of which there are {most}: \
             connections that were not recorded took their place"
        ));
    }
    faults
}

/// What does not make it invalid.
pub(crate) fn notes(report: &Report, read: &Read) -> Vec<String> {
    let mut late = report.books.udp.lateness.clone();
    late.merge(&report.books.tcp.lateness);
    let most = report.sockets_max;
    let all = [
        (late.count_above(LATE), "queries left more than 1 ms after their time".to_owned()),
        (report.starved, "of them were not read yet when their time came".to_owned()),
        (
            report.reused,
            format!("times a socket was given to another source: there were {most} sockets at most"),
        ),
        (
            report.closed,
            format!("connections were closed for want of sockets: there were {most} at most"),
        ),
        (
            report.other_ids,
            "queries had another ID than recorded, which was in use on their socket".to_owned(),
        ),
        (
            read.disorder,
            "queries stand behind later ones in the recording by more than 100 ms: they left when they were read"
                .to_owned(),
        ),
    ];
    let some = all.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, text)| format!("{count} {text}")).collect()
}
