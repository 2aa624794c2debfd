//! The verdict: whether the generator disturbed its own numbers.

use crate::run::{Config, Outcome, Pace, ThreadReport};
use crate::tally::RATE_STEP;
use crate::{SECOND, tally};

/// Queries later than this were not sent on schedule.
const LATE: u64 = 1_000_000;
/// The part of all queries that may be late.
const LATE_PART: f64 = 0.01;
/// How far the sent queries of a whole second may be from the planned ones.
const SECOND_ERROR: f64 = 0.005;
/// How far those of a tenth of a second may be.
const STEP_ERROR: f64 = 0.02;
/// The part of the seconds (or tenths) that may be further off.
const OFF_PART: f64 = 0.02;
/// Nanoseconds by which a whole run may be shorter or longer than planned: one waking up.
const SPAN_SLACK: u64 = 100_000;
/// The part of its time that a thread may wait for a CPU before a note reports it.
const ROBBED: f64 = 0.02;
/// How busy a thread may be that does not spin.
const BUSY: f64 = 0.8;

/// Reasons not to believe a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Why the numbers are no measurement of the server; empty if they are.
    pub invalid: Vec<String>,
    /// Whether all of them are about when queries left: latencies are biased then, and not what an
    /// answer costs the server.
    pub only_late: bool,
    /// Whether short pauses of the machine explain all of them: the rate of the whole run is the planned one, and no
    /// thread was as busy as it can be.
    pub only_paused: bool,
    /// What a reader should know and what does not spoil the run.
    pub notes: Vec<String>,
}

impl Verdict {
    /// Whether the generator vouches for the run.
    pub fn is_valid(&self) -> bool {
        self.invalid.is_empty()
    }
}

/// Judges a run by what it has counted.
pub fn judge(config: &Config, outcome: &Outcome) -> Verdict {
    let mut verdict = Verdict::default();
    let (tally, counts) = (&outcome.tally, &outcome.tally.counts);
    for what in tally.contradictions() {
        verdict.invalid.push(format!("internal error of the generator: {what} do not add up"));
    }
    let dropped: u64 = outcome.threads.iter().map(|thread| thread.dropped).sum();
    if dropped > 0 {
        let text = "answers were dropped because the generator did not read them in time";
        verdict.invalid.push(format!("{dropped} {text}"));
    }
    judge_connections(&tally.connections, &mut verdict);
    if counts.send_errors > 0 {
        verdict.invalid.push(format!("{} queries could not be sent", counts.send_errors));
    }
    let no_id = counts.skipped.saturating_sub(counts.overdue);
    if no_id > 0 && !outcome.interrupted {
        verdict.invalid.push(format!("{no_id} queries found no free ID"));
    }
    verdict.invalid.extend(overdue(tally));
    // The best latency and the least loss are those of no query at all.
    if counts.sent == 0 && !outcome.interrupted {
        verdict.invalid.push("no query was sent".to_owned());
    }
    let others = verdict.invalid.len();
    let mut is_slow = false;
    if let Pace::Open { .. } = config.pace {
        is_slow |= judge_schedule(tally, &mut verdict);
        for (at, thread) in outcome.threads.iter().enumerate().filter(|(_, thread)| !thread.spun) {
            let busy = thread.cpu.as_secs_f64() / thread.wall.as_secs_f64().max(1e-9);
            if busy > BUSY {
                let percent = busy * 100.0;
                verdict.invalid.push(format!("load thread {at} used {percent:.0} % of its CPU"));
                is_slow = true;
            }
        }
    } else {
        verdict.notes.push(little(config, outcome));
    }
    verdict.only_late = others == 0 && !verdict.invalid.is_empty();
    verdict.only_paused = verdict.only_late && !is_slow;
    for (at, thread) in outcome.threads.iter().enumerate() {
        let part = thread.waited.as_secs_f64() / thread.wall.as_secs_f64().max(1e-9);
        if part > ROBBED {
            let percent = part * 100.0;
            let text = "of the time for a CPU that other processes used";
            verdict.notes.push(format!("load thread {at} waited {percent:.0} % {text}"));
        }
    }
    verdict.notes.extend(nothing_listens(config, outcome));
    if outcome.interrupted {
        verdict.notes.push("the run was interrupted".to_owned());
    }
    let sum = |of: fn(&ThreadReport) -> u64| outcome.threads.iter().map(of).sum::<u64>();
    let blocked = sum(|thread| thread.blocked);
    if blocked > 0 {
        verdict.notes.push(format!("sending had to wait for the kernel {blocked} times"));
    }
    let unstamped = sum(|thread| thread.unstamped);
    if unstamped > 0 {
        let text =
            "answers had no usable timestamp of the kernel and were stamped when they were read";
        verdict.notes.push(format!("{unstamped} {text}"));
    }
    verdict.notes.extend(machine(outcome, dropped));
    verdict
}

/// That no server listens, if its host refused the queries.
fn nothing_listens(config: &Config, outcome: &Outcome) -> Option<String> {
    let (counts, connections) = (&outcome.tally.counts, &outcome.tally.connections);
    let server = config.server;
    if !outcome.nothing_listens() {
        return None;
    }
    Some(match counts.refused {
        0 => {
            format!("nothing listens at {server}: {} connections were refused", connections.refused)
        }
        refused => format!(
            "nothing listens at {server}: {refused} of {} queries were refused (ICMP)",
            counts.sent
        ),
    })
}

/// A rate that the generator could not keep up with.
fn overdue(tally: &tally::Tally) -> Option<String> {
    let (count, all) = (tally.counts.overdue, tally.counts.scheduled);
    let more = if tally.uncounted { ", and there was no time to count the rest" } else { "" };
    (count > 0 || tally.uncounted).then(|| {
        format!(
            "{count} of {all} queries had not been sent when the run was over{more}: this \
             generator cannot send at that rate"
        )
    })
}

/// What the machine did that a reader should know.
fn machine(outcome: &Outcome, dropped: u64) -> Vec<String> {
    let (host, mut notes) = (&outcome.host, Vec::new());
    if outcome.server_is_local {
        notes.push("the server runs on this machine and shares its CPUs".to_owned());
    }
    let others = host.udp_receive_full.saturating_sub(dropped);
    if others > 0 {
        let whose =
            if outcome.server_is_local { "the server's among them" } else { "none of this run's" };
        notes.push(format!(
            "{others} datagrams were dropped by full receive buffers of other sockets on this \
             machine, {whose}: queries may have been lost there"
        ));
    }
    if host.udp_send_full > 0 {
        let text = "datagrams were dropped by full send buffers on this machine";
        notes.push(format!("{} {text}", host.udp_send_full));
    }
    let listen = host.listen_overflows.max(host.listen_drops);
    if listen > 0 && outcome.server_is_local {
        let text = "connections were dropped by full listen queues on this machine";
        notes.push(format!("{listen} {text}: the server did not accept them in time"));
    }
    for (time, what) in [
        (host.stolen, "the hypervisor took the CPUs of this machine"),
        (host.throttled, "a CPU quota stopped the processes of this control group"),
    ] {
        let part = time.as_secs_f64() / outcome.elapsed.as_secs_f64().max(1e-9);
        if part > ROBBED / 2.0 {
            notes.push(format!("{what} for {:.2} s", time.as_secs_f64()));
        }
    }
    notes
}

/// Connections that this machine could not even ask for say nothing about the server.
fn judge_connections(connections: &tally::Connections, verdict: &mut Verdict) {
    for (status, count) in connections.http.iter().filter(|(status, _)| **status != 200) {
        let text = "requests were answered without DNS, with HTTP status";
        verdict.notes.push(format!("{count} {text} {status}"));
    }
    let told: u64 = connections.http.iter().filter(|(s, _)| **s != 200).map(|(_, n)| n).sum();
    let others = connections.rejected.saturating_sub(told);
    if others > 0 {
        let text = "streams ended without a DNS message: they were reset, or what came is not of the \
                    type application/dns-message, or is no message";
        verdict.notes.push(format!("{others} {text}"));
    }
    if connections.not_tried > 0 {
        let whys: Vec<_> = connections.failures.keys().map(String::as_str).collect();
        let (count, whys) = (connections.not_tried, whys.join("; "));
        verdict.invalid.push(format!("this machine could not open {count} connections: {whys}"));
    } else if connections.failed() + connections.broken > 0 {
        for (why, count) in &connections.failures {
            verdict.notes.push(format!("{count} connections failed: {why}"));
        }
    }
}

/// Judges when queries left. Gives whether the rate of the whole run was off.
fn judge_schedule(tally: &tally::Tally, verdict: &mut Verdict) -> bool {
    let late = tally.lateness.count_above(LATE);
    let part = late as f64 / (tally.lateness.recorded() as f64).max(1.0);
    if part > LATE_PART {
        let percent = part * 100.0;
        let text = "of the queries left more than 1 ms after their time";
        verdict.invalid.push(format!("{percent:.1} % {text}"));
    }
    let off = off_span(tally);
    if let Some(off) = off {
        let (sent, percent) = (tally.counts.sent, off * 100.0);
        verdict.invalid.push(format!("the rate of all {sent} queries was off by {percent:.0} %"));
    }
    let steps = (SECOND / RATE_STEP) as usize;
    for (size, error, what) in
        [(steps, SECOND_ERROR, "seconds"), (1, STEP_ERROR, "tenths of a second")]
    {
        let (off, all) = off_rate(&tally.rate, size, error);
        if off as f64 > OFF_PART * all as f64 && off > 1 {
            let percent = error * 100.0;
            verdict.invalid.push(format!(
                "the rate was off by more than {percent} % in {off} of {all} {what}"
            ));
        }
    }
    off.is_some()
}

/// By what part the rate of a whole run, from its first to its last query, is off, if that is too
/// much. A run of few queries may be over before its lateness or a tenth of a second tell.
fn off_span(tally: &tally::Tally) -> Option<f64> {
    let span = tally.span?;
    let planned = span.intended.1 - span.intended.0;
    let took = span.sent.1 - span.sent.0;
    // Two queries are always allowed here, too.
    let two = 2 * planned / tally.counts.sent.max(1);
    let off = took.abs_diff(planned).saturating_sub(two + SPAN_SLACK) as f64;
    let off = off / planned.max(took).max(1) as f64;
    (off > STEP_ERROR).then_some(off)
}

/// In how many groups of `size` steps the sent queries are further than `error` from the planned
/// ones; two queries are always allowed, a group's edge may fall between planning and sending.
fn off_rate(rate: &[tally::RateStep], size: usize, error: f64) -> (usize, usize) {
    let groups = rate.chunks(size).map(|steps| {
        let planned: u64 = steps.iter().map(|step| step.planned).sum();
        let sent: u64 = steps.iter().map(|step| step.sent).sum();
        planned.abs_diff(sent) as f64 > (error * planned as f64).max(2.0)
    });
    (groups.filter(|off| *off).count(), rate.len().div_ceil(size))
}

/// In a closed loop, rate and latency are one number (Little's law).
fn little(config: &Config, outcome: &Outcome) -> String {
    let Pace::Closed { window } = config.pace else { return String::new() };
    let mean = outcome.tally.service.mean().unwrap_or(0.0) / SECOND as f64;
    let product = outcome.answer_rate() * mean;
    let all = window * config.own_clients();
    format!(
        "closed loop: rate x mean latency = {product:.0} of {all} queries in flight; the latency \
         says how full the window was, not how fast the server is"
    )
}

#[cfg(test)]
pub(crate) mod tests;
