use super::*;
use crate::host::Counters;
use crate::schedule::Arrivals;
use crate::tally::{RateStep, Span, Tally};
use std::time::{Duration, SystemTime};

const RATE: f64 = 1_000.0;

fn config() -> Config {
    let pace = Pace::Open { rate: RATE, arrivals: Arrivals::Uniform };
    Config { pace, ..Config::new("192.0.2.1:53".parse().unwrap(), RATE) }
}

/// Ten seconds on schedule.
fn outcome() -> Outcome {
    let rate = vec![RateStep { planned: 100, sent: 100 }; 100];
    let mut tally = Tally { rate, ..Tally::default() };
    tally.counts.scheduled = 10_000;
    tally.counts.sent = 10_000;
    tally.counts.answered = 10_000;
    tally.counts.received = 10_000;
    tally.lateness.record_n(1_000, 10_000);
    tally.service.record_n(20_000, 10_000);
    tally.rcodes.add(0, 10_000);
    for _ in 0..10_000 {
        tally.response.record(21_000);
    }
    for second in 0..10 {
        let cohort = tally.cohort(second * crate::SECOND).unwrap();
        (cohort.scheduled, cohort.sent, cohort.answered) = (1_000, 1_000, 1_000);
        cohort.rcodes.add(0, 1_000);
        cohort.response.record_n(21_000, 1_000);
        cohort.service.record_n(20_000, 1_000);
        cohort.lateness.record_n(1_000, 1_000);
    }
    let group = tally.by_qtype.entry(1).unwrap();
    (group.sent, group.answered) = (10_000, 10_000);
    group.response.record_n(21_000, 10_000);
    tally.by_rcode.entry(0).unwrap().record_n(21_000, 10_000);
    outcome_of(tally)
}

/// A run with these numbers and without fault.
pub(crate) fn outcome_of(tally: Tally) -> Outcome {
    Outcome {
        by_transport: Vec::new(),
        tally,
        started: SystemTime::UNIX_EPOCH,
        active: Duration::from_secs(10),
        elapsed: Duration::from_secs(10),
        server_is_local: false,
        host: Counters::default(),
        threads: vec![thread()],
        late_end: Duration::from_secs(6),
        plan_hash: 0,
        interrupted: false,
        verdict: Verdict::default(),
    }
}

fn thread() -> ThreadReport {
    ThreadReport {
        cpu: Duration::from_secs(3),
        waited: Duration::ZERO,
        wall: Duration::from_secs(10),
        spun: false,
        dropped: 0,
        blocked: 0,
        receive_buffer: 0,
        unstamped: 0,
    }
}

/// What is said about a run that `change` has spoilt: reasons and notes.
fn judged(change: impl FnOnce(&mut Outcome)) -> (String, String) {
    let mut outcome = outcome();
    change(&mut outcome);
    let verdict = judge(&config(), &outcome);
    assert_eq!(verdict.is_valid(), verdict.invalid.is_empty());
    (verdict.invalid.join("; "), verdict.notes.join("; "))
}

#[test]
fn a_run_on_schedule_is_valid_and_needs_no_note() {
    assert_eq!(judged(|_| {}), (String::new(), String::new()));
}

#[test]
fn answers_without_dns_are_told_by_status_and_those_that_were_none_by_count() {
    let http = [(200, 7), (503, 2)].into();
    let connections = tally::Connections { http, rejected: 5, ..tally::Connections::default() };
    let mut verdict = Verdict::default();
    judge_connections(&connections, &mut verdict);
    assert!(verdict.is_valid());
    let notes = verdict.notes.join("; ");
    assert!(
        notes.contains("2 requests were answered without DNS, with HTTP status 503"),
        "{notes}"
    );
    assert!(notes.contains("3 streams ended without a DNS message"), "{notes}");
}

#[test]
fn a_stall_shows_in_the_rate_and_a_late_edge_does_not() {
    let mut rate = vec![RateStep { planned: 100, sent: 100 }; 20];
    assert_eq!(off_rate(&rate, 1, STEP_ERROR), (0, 20));
    rate[3].sent = 98;
    rate[4].sent = 102;
    assert_eq!(off_rate(&rate, 1, STEP_ERROR), (0, 20));
    rate[7].sent = 0;
    rate[8].sent = 200;
    assert_eq!(off_rate(&rate, 1, STEP_ERROR), (2, 20));
    assert_eq!(off_rate(&rate, 10, SECOND_ERROR), (0, 2), "it was made up within the second");
}

#[test]
fn a_rate_that_is_off_makes_the_run_invalid() {
    // Six queries of a thousand, from one second into the next: 0.6 %.
    let (why, _) = judged(|outcome| {
        for second in [2, 6] {
            outcome.tally.rate[10 * second].sent -= 6;
            outcome.tally.rate[10 * second + 10].sent += 6;
        }
    });
    assert!(why.contains("more than 0.5 % in 4 of 10 seconds"), "{why}");
    let (why, _) = judged(|outcome| {
        for step in [10, 30, 50] {
            outcome.tally.rate[step].sent -= 5;
            outcome.tally.rate[step + 1].sent += 5;
        }
    });
    assert!(why.contains("more than 2 % in 6 of 100 tenths"), "{why}");
}

#[test]
fn the_rate_of_a_few_queries_is_judged_from_the_first_to_the_last() {
    // 300 queries planned within 300 µs, all of them less than 1 ms late.
    let took = |nanos: u64| {
        let mut outcome = outcome_of(Tally::default());
        outcome.tally.rate = vec![RateStep { planned: 300, sent: 300 }];
        (outcome.tally.counts.scheduled, outcome.tally.counts.sent) = (300, 300);
        outcome.tally.lateness.record_n(900_000, 300);
        outcome.tally.span = Some(Span { intended: (0, 300_000), sent: (50_000, 50_000 + nanos) });
        judge(&config(), &outcome).invalid.join("; ")
    };
    let wanted = "the rate of all 300 queries was off by";
    assert!(!took(300_000).contains(wanted) && !took(400_000).contains(wanted));
    assert!(took(1_020_000).contains("the rate of all 300 queries was off by 61 %"));
    // Too fast is no better.
    assert!(took(100_000).contains(wanted));
}

#[test]
fn queries_that_left_late_make_the_run_invalid() {
    let late = |part: u64| {
        judged(|outcome| {
            outcome.tally.lateness.clear();
            outcome.tally.lateness.record_n(1_000, 10_000 - part);
            outcome.tally.lateness.record_n(2_000_000, part);
            let cohorts = &mut outcome.tally.cohorts;
            cohorts.iter_mut().for_each(|cohort| cohort.lateness.clear());
            cohorts[0].lateness = outcome.tally.lateness.clone();
        })
    };
    assert_eq!(late(100).0, "");
    assert!(late(101).0.contains("left more than 1 ms after their time"));
}

#[test]
fn a_late_run_says_whether_that_is_all_there_is_against_it() {
    let only_late = |change: fn(&mut Outcome)| {
        let mut outcome = outcome();
        change(&mut outcome);
        let verdict = judge(&config(), &outcome);
        (verdict.is_valid(), verdict.only_late)
    };
    let late = |outcome: &mut Outcome| {
        outcome.tally.lateness.clear();
        outcome.tally.lateness.record_n(2_000_000, 10_000);
        let cohorts = &mut outcome.tally.cohorts;
        cohorts.iter_mut().for_each(|cohort| cohort.lateness.clear());
        cohorts[0].lateness = outcome.tally.lateness.clone();
    };
    assert_eq!(only_late(|_| {}), (true, false));
    assert_eq!(
        only_late(|outcome| outcome.threads[0].cpu = outcome.threads[0].wall),
        (false, true)
    );
    assert_eq!(only_late(|outcome| outcome.threads[0].dropped = 1), (false, false));
    let mut both = outcome();
    late(&mut both);
    assert!(judge(&config(), &both).only_late && judge(&config(), &both).only_paused);
    let mut busy = both.clone();
    busy.threads[0].cpu = busy.threads[0].wall;
    assert!(judge(&config(), &busy).only_late && !judge(&config(), &busy).only_paused);
    both.threads[0].dropped = 1;
    assert!(!judge(&config(), &both).only_late);
}

#[test]
fn what_the_generator_dropped_or_could_not_send_makes_the_run_invalid() {
    let (why, _) = judged(|outcome| {
        outcome.threads[0].dropped = 3;
        outcome.host.udp_receive_full = 3;
    });
    assert!(why.starts_with("3 answers were dropped because the generator"), "{why}");
    let (why, _) = judged(|outcome| {
        outcome.tally.counts.scheduled += 7;
        outcome.tally.counts.send_errors += 3;
        outcome.tally.counts.skipped += 4;
        let cohort = &mut outcome.tally.cohorts[0];
        (cohort.scheduled, cohort.send_errors, cohort.skipped) = (1_007, 3, 4);
        outcome.tally.rate[0].planned += 7;
    });
    assert!(why.contains("3 queries could not be sent; 4 queries found no free ID"), "{why}");
}

#[test]
fn a_run_that_sent_no_query_is_invalid_unless_it_was_interrupted() {
    let silent = |interrupted| {
        let mut outcome = outcome_of(Tally::default());
        outcome.interrupted = interrupted;
        let verdict = judge(&config(), &outcome);
        (verdict.invalid.join("; "), verdict.only_late, outcome.loss())
    };
    assert_eq!(silent(false), ("no query was sent".to_owned(), false, None));
    assert_eq!(silent(true).0, "");
}

#[test]
fn numbers_that_do_not_add_up_are_a_fault_of_the_generator() {
    let (why, _) = judged(|outcome| outcome.tally.counts.answered -= 1);
    assert!(why.contains("internal error of the generator: sent items do not add up"), "{why}");
    let (why, _) = judged(|outcome| outcome.tally.cohorts[3].response.record(5));
    assert!(why.contains("response times of all seconds, bucket by bucket"), "{why}");
}

#[test]
fn a_busy_thread_makes_the_run_invalid_unless_it_spins() {
    let busy = |spun| {
        judged(|outcome| {
            outcome.threads[0].cpu = Duration::from_millis(8_100);
            outcome.threads[0].spun = spun;
        })
    };
    assert!(busy(false).0.contains("load thread 0 used 81 % of its CPU"));
    assert_eq!(busy(true).0, "");
}

#[test]
fn what_the_machine_did_is_disclosed() {
    let (why, notes) = judged(|outcome| {
        outcome.server_is_local = true;
        outcome.threads[0].waited = Duration::from_millis(500);
        outcome.threads[0].blocked = 9;
        outcome.threads[0].unstamped = 8;
        outcome.host = Counters {
            udp_receive_full: 5,
            udp_send_full: 6,
            listen_overflows: 7,
            listen_drops: 7,
            stolen: Duration::from_millis(1_500),
            throttled: Duration::from_millis(2_500),
        };
    });
    assert_eq!(why, "");
    for text in [
        "the server runs on this machine",
        "load thread 0 waited 5 % of the time for a CPU",
        "wait for the kernel 9 times",
        "8 answers had no usable timestamp",
        "5 datagrams were dropped by full receive buffers of other sockets",
        "the server's among them",
        "6 datagrams were dropped by full send buffers",
        "7 connections were dropped by full listen queues",
        "the hypervisor took the CPUs of this machine for 1.50 s",
        "a CPU quota stopped the processes of this control group for 2.50 s",
    ] {
        assert!(notes.contains(text), "{text} in {notes}");
    }
}

#[test]
fn a_listen_queue_of_another_machine_is_not_blamed() {
    let (_, notes) = judged(|outcome| outcome.host.listen_overflows = 7);
    assert_eq!(notes, "");
}
