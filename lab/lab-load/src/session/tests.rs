mod simulation;

use super::*;
use lab_histogram::Quantile;
use nodens_wire::header::set_flags;
use nodens_wire::{Name, Type};
use proptest::prelude::*;

const TIMEOUT: u64 = 1_000;

fn workload() -> Workload {
    let mut workload = Workload::new(1);
    for name in ["a.example.", "b.example."] {
        workload.push(Name::parse(name).unwrap().view(), Type::A, None);
    }
    workload
}

fn session(workload: &Workload) -> Session<'_> {
    let rest = Rest { answered: 2 * TIMEOUT, given_up: 3 * TIMEOUT };
    Session::new(workload, 2, Limits { ids: 16, ids_max: 16, timeout: TIMEOUT, rest, seed: 1 })
}

/// Sends `item` from `client`, intended for `intended`, at `now`, and returns its response.
fn ask(session: &mut Session<'_>, client: usize, item: u64, intended: u64, now: u64) -> Vec<u8> {
    let mut message = Vec::new();
    session.schedule(intended);
    let id = session.issue(client, now, (item, intended), &mut message).unwrap();
    session.sent(client, id, now);
    set_flags(&mut message, Flags(Flags::QR | Flags::RD));
    message
}

/// Ends everything that `client` has in flight as the end of its connection does.
fn disconnect(session: &mut Session<'_>, client: usize) {
    (0..=u16::MAX).for_each(|id| _ = session.fail(client, 0, id));
}

#[test]
fn response_time_counts_from_the_intended_time_and_service_time_from_sending() {
    let workload = workload();
    let mut session = session(&workload);
    let answer = ask(&mut session, 0, 0, 100, 300);
    session.receive(0, &answer, 350);
    assert_eq!(session.tally.response.quantile(0.5), Quantile::Value(250));
    assert_eq!(session.tally.service.quantile(0.5), Quantile::Value(50));
    assert_eq!(session.tally.lateness.quantile(0.5), Quantile::Value(200));
    assert_eq!(session.tally.contradictions(), [""; 0]);
}

#[test]
fn each_message_has_its_own_counter() {
    let workload = workload();
    let mut session = session(&workload);
    let first = ask(&mut session, 0, 0, 0, 0);
    let second = ask(&mut session, 0, 1, 0, 0);
    let mut forged = first.clone();
    forged.splice(12.., second[12..].to_vec());
    session.receive(0, &forged, 10);
    let mut not_a_response = first.clone();
    set_flags(&mut not_a_response, Flags(Flags::RD));
    session.receive(0, &not_a_response, 10);
    assert_eq!((session.tally.counts.mismatched, session.tally.counts.not_responses), (2, 1));
    session.receive(1, &first, 10);
    assert_eq!(session.tally.counts.unknown, 1, "another socket does not know the ID");
    session.receive(0, &first[..11], 10);
    session.receive(0, &first[..12], 10);
    assert_eq!(session.tally.counts.malformed, 2);
    session.receive(0, &first, 10);
    session.receive(0, &first, 11);
    assert_eq!((session.tally.counts.answered, session.tally.counts.duplicate), (1, 1));
    assert!(!session.expire(TIMEOUT, |_, _, _| {}), "all of them may still be answered");
    assert!(
        session.expire(TIMEOUT + 1, |_, _, _| {}) && !session.expire(TIMEOUT + 2, |_, _, _| {})
    );
    session.receive(0, &second, TIMEOUT + 5);
    session.receive(0, &second, TIMEOUT + 6);
    let counts = session.tally.counts;
    assert_eq!((counts.timed_out, counts.late, counts.duplicate), (1, 1, 2));
    assert_eq!(session.tally.response.censored(), 1);
    assert_eq!(session.tally.contradictions(), [""; 0]);
}

#[test]
fn a_timeout_is_decided_by_the_receive_stamp() {
    let workload = workload();
    let mut session = session(&workload);
    let (first, second) = (ask(&mut session, 0, 0, 0, 0), ask(&mut session, 1, 1, 0, 0));
    session.receive(0, &first, TIMEOUT);
    session.receive(1, &second, TIMEOUT + 1);
    let counts = session.tally.counts;
    assert_eq!((counts.answered, counts.timed_out, counts.late), (1, 1, 1));
    assert_eq!(session.tally.contradictions(), [""; 0]);
}

#[test]
fn a_query_is_given_up_as_soon_as_its_timeout_is_over() {
    let workload = workload();
    let mut session = session(&workload);
    ask(&mut session, 0, 0, 0, 7);
    assert!(!session.expire(TIMEOUT + 7, |_, _, _| {}));
    assert!(session.expire(TIMEOUT + 8, |_, _, _| {}));
    assert_eq!(session.tally.counts.timed_out, 1);
}

#[test]
fn a_loss_belongs_to_the_second_that_it_was_intended_for() {
    let workload = workload();
    let mut session = session(&workload);
    ask(&mut session, 0, 0, 2 * crate::SECOND, 2 * crate::SECOND);
    session.expire(9 * crate::SECOND, |_, _, _| {});
    let lost: Vec<_> = session.tally.cohorts.iter().map(|cohort| cohort.timed_out).collect();
    assert_eq!(lost, [0, 0, 1]);
}

#[test]
fn an_answer_belongs_to_the_second_that_its_query_was_intended_for() {
    let workload = workload();
    let mut session = session(&workload);
    let end = crate::SECOND - 10;
    let answer = ask(&mut session, 0, 0, end, end + 100);
    session.receive(0, &answer, end + 200);
    let [first] = &session.tally.cohorts[..] else { panic!("one second, not two") };
    assert_eq!((first.sent, first.answered, first.response.recorded()), (1, 1, 1));
}

#[test]
fn refused_and_interrupted_are_outcomes_of_their_own() {
    let workload = workload();
    let mut session = session(&workload);
    let refused = ask(&mut session, 0, 0, 0, 0);
    ask(&mut session, 0, 1, 0, 0);
    ask(&mut session, 1, 0, 0, 0);
    session.refuse(0, &refused);
    disconnect(&mut session, 1);
    session.interrupt();
    let counts = session.tally.counts;
    assert_eq!((counts.refused, counts.connection_failed, counts.interrupted), (1, 1, 1));
    assert_eq!(session.tally.contradictions(), [""; 0]);
}

#[test]
fn an_answer_after_three_timeouts_or_a_failure_answers_nothing() {
    let workload = workload();
    let mut session = session(&workload);
    let answers = [0, 1].map(|client| ask(&mut session, client, 0, 0, 0));
    session.expire(TIMEOUT + 1, |_, _, _| {});
    session.receive(0, &answers[0], 3 * TIMEOUT);
    session.receive(1, &answers[1], 3 * TIMEOUT + 1);
    let counts = session.tally.counts;
    assert_eq!((counts.timed_out, counts.late, counts.unknown), (2, 1, 1));
    assert_eq!(session.tally.late.max(), Some(3 * TIMEOUT));
    let refused = ask(&mut session, 0, 0, 9 * TIMEOUT, 9 * TIMEOUT);
    session.refuse(0, &refused);
    session.receive(0, &refused, 9 * TIMEOUT + 1);
    let counts = session.tally.counts;
    assert_eq!((counts.refused, counts.late, counts.unknown), (1, 1, 2));
    assert_eq!(session.tally.contradictions(), [""; 0]);
}

#[test]
fn answers_are_counted_by_qtype_and_by_the_whole_rcode() {
    let mut workload = workload();
    workload.push(Name::parse("a.example.").unwrap().view(), Type::AAAA, None);
    let mut session = session(&workload);
    let opt = |upper: u8| [&[0, 0, 41, 4, 208, upper][..], &[0; 5]].concat();
    let record = [&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4][..], &[192, 0, 2, 1]].concat();
    // Item, flags, records behind the query and their counts, and the RCODE they make.
    let badvers = 1;
    for (at, (item, flags, tail, counts, rcode)) in [
        (0, Flags::QR, record.clone(), [1_u8, 0, 0], 0),
        (1, Flags::QR | 3, Vec::new(), [0; 3], 3),
        (2, Flags::QR, [record, opt(badvers)].concat(), [1, 0, 1], 16),
        (2, Flags::QR | 7, opt(badvers), [0, 0, 1], 23),
        (0, Flags::QR | 2, opt(badvers)[..4].to_vec(), [0, 0, 1], 2),
    ]
    .into_iter()
    .enumerate()
    {
        let mut answer = ask(&mut session, 0, item, at as u64, at as u64);
        set_flags(&mut answer, Flags(flags));
        (answer[7], answer[9], answer[11]) = (counts[0], counts[1], counts[2]);
        answer.extend(tail);
        session.receive(0, &answer, 10 + at as u64);
        assert_eq!(session.tally.rcodes.get(rcode), 1, "{rcode}: {:?}", session.tally.rcodes);
    }
    let groups: Vec<_> = session.tally.by_qtype.iter().map(|(q, g)| (q, g.answered)).collect();
    assert_eq!(groups, [(Type::A.0, 3), (Type::AAAA.0, 2)]);
    assert_eq!(session.tally.by_rcode.get(16).unwrap().max(), Some(10));
    assert_eq!(session.tally.contradictions(), [""; 0]);
}

#[test]
fn empty_truncated_and_bare_answers_are_answers_with_a_counter() {
    let workload = workload();
    let mut session = session(&workload);
    let empty = ask(&mut session, 0, 0, 0, 0);
    let mut truncated = ask(&mut session, 0, 1, 0, 0);
    set_flags(&mut truncated, Flags(Flags::QR | Flags::TC));
    let mut bare = ask(&mut session, 0, 0, 0, 0)[..12].to_vec();
    set_flags(&mut bare, Flags(Flags::QR | 1));
    bare[5] = 0;
    for message in [empty, truncated, bare] {
        session.receive(0, &message, 5);
    }
    let c = session.tally.counts;
    assert_eq!((c.answered, c.empty, c.truncated, c.without_question), (3, 2, 1, 1));
    assert_eq!(c.mismatched, 0);
}

#[test]
fn an_answer_with_the_name_in_another_case_is_no_answer() {
    let mut workload = Workload::new(1);
    workload.push(Name::parse("wWw.eXample.").unwrap().view(), Type::A, None);
    let mut session = session(&workload);
    let answer = ask(&mut session, 0, 0, 0, 0);
    let mut folded = answer.clone();
    folded.make_ascii_lowercase();
    folded[..12].copy_from_slice(&answer[..12]);
    session.receive(0, &folded, 1);
    assert_eq!((session.tally.counts.answered, session.tally.counts.mismatched), (0, 1));
    session.receive(0, &answer, 2);
    assert_eq!((session.tally.counts.answered, session.tally.counts.mismatched), (1, 1));
}

#[test]
fn what_threads_have_measured_adds_up_bucket_by_bucket() {
    let workload = workload();
    let tally = |delay: u64| {
        let mut session = session(&workload);
        for n in 0..12 {
            let at = n * crate::SECOND / 4;
            let answer = ask(&mut session, 0, n, at, at + 3);
            if n % 4 != 0 {
                session.receive(0, &answer, at + delay * (n + 1));
            }
            session.expire(at + 10 * TIMEOUT, |_, _, _| {});
        }
        session.tally
    };
    let parts = [tally(10), tally(17), tally(41)];
    let mut forward = Tally::default();
    parts.iter().for_each(|part| forward.merge(part));
    let mut backward = Tally::default();
    parts.iter().rev().for_each(|part| backward.merge(part));
    assert!(forward == backward, "the order of the threads does not matter");
    assert_eq!(forward.contradictions(), [""; 0]);
    assert_eq!((forward.counts.answered, forward.counts.timed_out), (27, 9));
    let second: Vec<_> = parts.iter().map(|part| part.cohorts[1].response.recorded()).collect();
    assert_eq!(forward.cohorts[1].response.recorded(), second.iter().sum::<u64>());
}

proptest! {
    // Up to 200 events each: enough for every pair of them, and quick without optimisation.
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a server does to the queries, every count adds up and no late answer is moved
    /// back to the answered.
    #[test]
    fn counts_add_up_under_any_treatment(events in prop::collection::vec((0_usize..2, 0_u8..9, 1_u64..600), 1..200)) {
        let workload = workload();
        // IDs rest so long that some items find none.
        let rest = Rest { answered: 20 * TIMEOUT, given_up: 20 * TIMEOUT };
        let limits = Limits { ids: 16, ids_max: 16, timeout: TIMEOUT, rest, seed: 1 };
        let mut session = Session::new(&workload, 2, limits);
        let (mut now, mut pool): (u64, Vec<(usize, Vec<u8>)>) = (0, Vec::new());
        for (item, (client, action, step)) in events.into_iter().enumerate() {
            now += step;
            session.expire(now, |_, _, _| {});
            let mut message = Vec::new();
            let intended = now.saturating_sub(step / 2);
            session.schedule(intended);
            match session.issue(client, now, (item as u64, intended), &mut message) {
                Some(id) if action == 8 => {
                    session.withdraw(client, id);
                    session.send_error(intended);
                }
                Some(id) => {
                    session.sent(client, id, now);
                    set_flags(&mut message, Flags(Flags::QR));
                    pool.push((client, message));
                }
                None => session.skip(intended),
            }
            let Some((client, mut message)) = pool.pop() else { continue };
            match action {
                0 => session.receive(client, &message, now),
                1 => {
                    session.receive(client, &message, now + 1);
                    session.receive(client, &message, now + 2);
                }
                2 => pool.insert(0, (client, message)),
                3 => session.receive(1 - client, &message, now),
                4 => session.refuse(client, &message),
                5 => {
                    message.truncate(now as usize % message.len());
                    session.receive(client, &message, now);
                }
                6 => disconnect(&mut session, client),
                7 => session.receive(client, &message, now + 2 * TIMEOUT),
                _ => {}
            }
            if let Some((client, message)) = pool.first().filter(|_| step > 500).cloned() {
                session.receive(client, &message, now);
            }
        }
        session.interrupt();
        prop_assert_eq!(session.tally.contradictions(), [""; 0]);
    }
}
