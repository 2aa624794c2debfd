//! Everything that adds up. What is beyond 64 bits stays at their end: files can have been written by anyone.

use crate::{ConnectionFates, Connections, Counts, Group, Rate, ResultFile, Run, Second};
use std::collections::BTreeMap;

/// Adds what another worker has measured.
pub(super) fn add(into: &mut ResultFile, from: &ResultFile) {
    counts(&mut into.counts, &from.counts);
    codes(&mut into.rcodes, &from.rcodes);
    into.response.merge(&from.response);
    into.service.merge(&from.service);
    into.lateness.merge(&from.lateness);
    into.late.merge(&from.late);
    into.connect.merge(&from.connect);
    option(&mut into.connections, from.connections.as_ref(), connections);
    option(&mut into.connection_fates, from.connection_fates.as_ref(), fates);
    groups(&mut into.by_qtype, &from.by_qtype);
    groups(&mut into.by_rcode, &from.by_rcode);
    groups(&mut into.by_transport, &from.by_transport);
    seconds(&mut into.seconds, &from.seconds);
    rate(&mut into.rate, &from.rate);
    run(&mut into.run, &from.run);
    into.threads.extend(&from.threads);
    into.plan.threads = into.plan.threads.saturating_add(from.plan.threads);
    for cpu in &from.plan.cpus {
        if !into.plan.cpus.contains(cpu) {
            into.plan.cpus.push(*cpu);
        }
    }
}

fn option<T: Clone>(into: &mut Option<T>, from: Option<&T>, add: impl Fn(&mut T, &T)) {
    match (into, from) {
        (Some(into), Some(from)) => add(into, from),
        (into @ None, from) => *into = from.cloned(),
        (Some(_), None) => {}
    }
}

fn codes<K: Ord + Clone>(into: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (code, count) in from {
        let sum = into.entry(code.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
}

fn counts(into: &mut Counts, from: &Counts) {
    let Counts {
        scheduled,
        skipped,
        overdue,
        send_errors,
        sent,
        answered,
        timed_out,
        refused,
        connection_failed,
        interrupted,
        received,
        late,
        duplicate,
        mismatched,
        unknown,
        malformed,
        truncated,
        answer_octets,
        question_octets,
    } = from;
    into.scheduled = into.scheduled.saturating_add(*scheduled);
    into.skipped = into.skipped.saturating_add(*skipped);
    into.overdue = into.overdue.saturating_add(*overdue);
    into.send_errors = into.send_errors.saturating_add(*send_errors);
    into.sent = into.sent.saturating_add(*sent);
    into.answered = into.answered.saturating_add(*answered);
    into.timed_out = into.timed_out.saturating_add(*timed_out);
    into.refused = into.refused.saturating_add(*refused);
    into.connection_failed = into.connection_failed.saturating_add(*connection_failed);
    into.interrupted = into.interrupted.saturating_add(*interrupted);
    into.received = into.received.saturating_add(*received);
    into.late = into.late.saturating_add(*late);
    into.duplicate = into.duplicate.saturating_add(*duplicate);
    into.mismatched = into.mismatched.saturating_add(*mismatched);
    into.unknown = into.unknown.saturating_add(*unknown);
    into.malformed = into.malformed.saturating_add(*malformed);
    into.truncated = into.truncated.saturating_add(*truncated);
    into.answer_octets = into.answer_octets.saturating_add(*answer_octets);
    into.question_octets = into.question_octets.saturating_add(*question_octets);
}

fn connections(into: &mut Connections, from: &Connections) {
    let Connections {
        active,
        attempted,
        opened,
        failed,
        resumed,
        early_data_sent,
        early_data_answered,
    } = from;
    into.active = into.active.saturating_add(*active);
    into.attempted = into.attempted.saturating_add(*attempted);
    into.opened = into.opened.saturating_add(*opened);
    into.failed = into.failed.saturating_add(*failed);
    into.resumed = into.resumed.saturating_add(*resumed);
    into.early_data_sent = into.early_data_sent.saturating_add(*early_data_sent);
    into.early_data_answered = into.early_data_answered.saturating_add(*early_data_answered);
}

fn fates(into: &mut ConnectionFates, from: &ConnectionFates) {
    let pairs = [
        (&mut into.refused, from.refused),
        (&mut into.reset, from.reset),
        (&mut into.handshake_failed, from.handshake_failed),
        (&mut into.timed_out, from.timed_out),
        (&mut into.not_tried, from.not_tried),
        (&mut into.unfinished, from.unfinished),
        (&mut into.closed_by_server, from.closed_by_server),
        (&mut into.closed_by_client, from.closed_by_client),
        (&mut into.broken, from.broken),
        (&mut into.left_open, from.left_open),
        (&mut into.early_offered, from.early_offered),
        (&mut into.early_accepted, from.early_accepted),
        (&mut into.half_written, from.half_written),
        (&mut into.asked_again, from.asked_again),
        (&mut into.rejected, from.rejected),
        (&mut into.stream_waits, from.stream_waits),
    ];
    pairs.into_iter().for_each(|(into, from)| *into = into.saturating_add(from));
    option(&mut into.streams_allowed, from.streams_allowed.as_ref(), |into, from| {
        *into = (into.0.min(from.0), into.1.max(from.1));
    });
    codes(&mut into.http, &from.http);
    codes(&mut into.failures, &from.failures);
    into.tcp.merge(&from.tcp);
    into.tls.merge(&from.tls);
    into.waited.merge(&from.waited);
}

fn groups(into: &mut Vec<Group>, from: &[Group]) {
    for group in from {
        match into.iter_mut().find(|have| have.name == group.name) {
            Some(have) => {
                have.sent = have.sent.saturating_add(group.sent);
                have.answered = have.answered.saturating_add(group.answered);
                have.lost = have.lost.saturating_add(group.lost);
                have.response.merge(&group.response);
            }
            None => into.push(group.clone()),
        }
    }
}

fn seconds(into: &mut Vec<Second>, from: &[Second]) {
    for second in from {
        match into.iter_mut().find(|have| have.second == second.second) {
            Some(have) => add_second(have, second),
            None => into.push(second.clone()),
        }
    }
    into.sort_by_key(|second| second.second);
}

fn add_second(into: &mut Second, from: &Second) {
    into.is_final &= from.is_final;
    into.sent = into.sent.saturating_add(from.sent);
    into.answered = into.answered.saturating_add(from.answered);
    into.lost = into.lost.saturating_add(from.lost);
    into.timed_out = into.timed_out.saturating_add(from.timed_out);
    into.refused = into.refused.saturating_add(from.refused);
    into.connection_failed = into.connection_failed.saturating_add(from.connection_failed);
    into.interrupted = into.interrupted.saturating_add(from.interrupted);
    into.unsent = into.unsent.saturating_add(from.unsent);
    codes(&mut into.rcodes, &from.rcodes);
    into.response.merge(&from.response);
    into.service.merge(&from.service);
    into.lateness.merge(&from.lateness);
    into.connect.merge(&from.connect);
    option(&mut into.connections, from.connections.as_ref(), connections);
}

fn rate(into: &mut Rate, from: &Rate) {
    if into.steps.len() < from.steps.len() {
        into.steps.resize(from.steps.len(), [0, 0]);
    }
    for ([planned, sent], from) in into.steps.iter_mut().zip(&from.steps) {
        *planned = planned.saturating_add(from[0]);
        *sent = sent.saturating_add(from[1]);
    }
}

fn run(into: &mut Run, from: &Run) {
    into.started_unix_ns = into.started_unix_ns.min(from.started_unix_ns);
    into.finished_unix_ns = into.finished_unix_ns.max(from.finished_unix_ns);
    into.active_ns = into.active_ns.max(from.active_ns);
    into.elapsed_ns = into.elapsed_ns.max(from.elapsed_ns);
    into.interrupted |= from.interrupted;
}
