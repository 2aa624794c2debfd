use super::*;
use crate::tests::example;
use crate::workers::WorkerPart;
use lab_histogram::Histogram;

/// Result `index` of `of` equal ones.
fn part(index: usize, of: usize) -> ResultFile {
    let mut part = example();
    part.plan.worker = Some(WorkerPart { index, of });
    part.run.clock = Some(ClockOffset { offset_ns: 0, within_ns: 40_000 });
    part
}

fn parts(of: usize) -> Vec<ResultFile> {
    (0..of).map(|index| part(index, of)).collect()
}

#[test]
fn what_workers_have_measured_adds_up_bucket_by_bucket() {
    let one = example();
    let whole = merge(parts(3), &[]).unwrap();
    assert_eq!(whole.counts.sent, 3 * one.counts.sent);
    assert_eq!(whole.counts.answer_octets, 3 * one.counts.answer_octets);
    let three = |of: &Histogram| {
        let mut sum = Histogram::new();
        (0..3).for_each(|_| sum.merge(of));
        sum
    };
    assert_eq!(whole.response, three(&one.response));
    assert_eq!(whole.late, three(&one.late));
    assert_eq!(whole.by_qtype.len(), one.by_qtype.len());
    for (whole, one) in whole.by_qtype.iter().zip(&one.by_qtype) {
        assert_eq!((&whole.response, whole.sent), (&three(&one.response), 3 * one.sent));
    }
    for (whole, one) in whole.seconds.iter().zip(&one.seconds) {
        assert_eq!((whole.second, whole.sent), (one.second, 3 * one.sent));
        assert_eq!(whole.response, three(&one.response));
    }
    assert_eq!(whole.rate.steps, vec![[120, 120]; 30]);
    assert_eq!((whole.plan.clients, whole.plan.threads, whole.plan.worker), (32, 3, None));
    assert_eq!(whole.run, one.run, "at the same time");
    assert!(whole.verdict.valid && whole.workers.len() == 3);
    assert!((whole.answer_rate() / one.answer_rate() - 3.0).abs() < 1e-9);
    // Merged in another order it is the same.
    let mut other = parts(3);
    other.rotate_left(1);
    assert_eq!(merge(other, &[]).unwrap(), whole);
    let text = crate::to_json(&whole);
    assert_eq!(crate::from_json(std::path::Path::new("r"), text.as_bytes()).unwrap(), whole);
}

#[test]
fn groups_and_seconds_that_only_one_worker_has_are_kept() {
    let mut two = parts(2);
    two[0].seconds.remove(1);
    two[1].by_qtype.remove(0);
    two[1].rate.steps.push([5, 5]);
    let whole = merge(two, &[]).unwrap();
    let sent: Vec<_> = whole.seconds.iter().map(|s| (s.second, s.sent)).collect();
    assert_eq!(sent, [(0, 800), (1, 400), (2, 800)]);
    assert_eq!(whole.by_qtype.iter().map(|group| group.sent).collect::<Vec<_>>(), [600, 1_200]);
    assert_eq!(whole.rate.steps.last(), Some(&[5, 5]));
}

#[test]
fn counts_that_no_run_can_have_do_not_end_the_program() {
    let mut two = parts(2);
    for part in &mut two {
        (part.counts.sent, part.counts.timed_out, part.counts.refused) = (u64::MAX, u64::MAX, 7);
        part.seconds[0].sent = u64::MAX;
        part.rate.steps.push([u64::MAX, 1]);
    }
    let whole = merge(two, &[]).unwrap();
    assert_eq!((whole.counts.sent, whole.seconds[0].sent), (u64::MAX, u64::MAX));
    assert_eq!(whole.loss(), Some(1.0));
}

#[test]
fn a_worker_that_is_invalid_or_missing_makes_the_whole_invalid() {
    let mut two = parts(2);
    two[1].verdict.valid = false;
    two[1].verdict.invalid_because = vec!["it was late".to_owned()];
    two[1].verdict.only_late = true;
    let whole = merge(two, &[]).unwrap();
    assert!(!whole.verdict.valid && whole.verdict.only_late);
    assert_eq!(whole.verdict.invalid_because, ["worker 1: it was late"]);
    let three = vec![part(0, 3), part(2, 3)];
    let whole = merge(three.clone(), &[(1, "signal: 9 (SIGKILL)".to_owned())]).unwrap();
    let why = "worker 1 of 3 has no result: signal: 9 (SIGKILL)";
    assert_eq!((whole.verdict.valid, &*whole.verdict.invalid_because[0]), (false, why));
    assert!(!whole.verdict.only_late);
    let whole = merge(three, &[]).unwrap();
    assert_eq!(whole.verdict.invalid_because, ["worker 1 of 3 has no result"]);
}

#[test]
fn clocks_that_differ_are_said_and_starts_that_do_make_the_whole_invalid() {
    let mut two = parts(2);
    let second = 1_000_000_000;
    // Its clock is ahead by two seconds, and so is its start by its own clock.
    two[1].run.clock = Some(ClockOffset { offset_ns: 2 * second, within_ns: 300_000 });
    two[1].run.started_unix_ns += 2 * second as u64 + 1_000_000;
    let whole = merge(two.clone(), &[]).unwrap();
    assert!(whole.verdict.valid);
    let note = whole.verdict.notes.last().unwrap();
    assert!(note.contains("2 workers started within 1.34ms of each other"), "{note}");
    assert!(note.contains("differ by up to 2s, known to within 300µs"), "{note}");
    two[1].run.started_unix_ns += second as u64 / 5;
    let whole = merge(two.clone(), &[]).unwrap();
    let why = &whole.verdict.invalid_because[0];
    assert!(!whole.verdict.valid && why.contains("up to 201.34ms apart"), "{why}");
}

#[test]
fn starts_by_clocks_that_were_not_compared_are_said_and_must_be_one_by_these_clocks() {
    let mut two = parts(2);
    two.iter_mut().for_each(|part| part.run.clock = None);
    let whole = merge(two.clone(), &[]).unwrap();
    let note = whole.verdict.notes.last().unwrap();
    assert!(whole.verdict.valid && note.contains("which were not compared"), "{note}");
    two[1].run.started_unix_ns += 3_000_000_000;
    for clock in [None, Some(ClockOffset { offset_ns: 0, within_ns: 40_000 })] {
        two[0].run.clock = clock;
        let whole = merge(two.clone(), &[]).unwrap();
        let why = &whole.verdict.invalid_because[0];
        assert!(why.contains("may have started up to 3"), "{why}");
        assert!(whole.verdict.notes.last().unwrap().contains("which were not compared"));
    }
}

#[test]
fn two_clocks_may_each_be_off_by_what_they_are_known_to() {
    assert_eq!((apart(&[]), apart(&[(5, 60)])), (0, 0));
    // Both may be off, in opposite directions.
    assert_eq!(apart(&[(0, 60), (0, 50)]), 110);
    // The one that may be earliest is also the one that may be latest.
    assert_eq!(apart(&[(0, 100), (10, 1), (20, 2)]), 122);
    assert_eq!(apart(&[(0, 1), (10, 100), (-30, 2)]), 142);
    let mut two = parts(2);
    for part in &mut two {
        part.run.clock = Some(ClockOffset { offset_ns: 0, within_ns: 60_000_000 });
    }
    let whole = merge(two, &[]).unwrap();
    assert!(whole.verdict.invalid_because[0].contains("up to 120ms apart"), "{:?}", whole.verdict);
}

#[test]
fn notes_of_every_worker_stand_once_and_others_with_their_worker() {
    let mut two = parts(2);
    two[1].verdict.notes.push("busy".to_owned());
    let notes = merge(two, &[]).unwrap().verdict.notes;
    assert_eq!(notes[..2], ["an example", "worker 1: busy"]);
}

#[test]
fn requirements_are_checked_on_the_whole() {
    let mut two = parts(2);
    let requirement = |met| Requirement { limit: "loss=0.2%".into(), found: String::new(), met };
    two[0].requirements = vec![requirement(true)];
    two[1].requirements = vec![requirement(true)];
    let whole = merge(two, &[]).unwrap();
    let [it] = &whole.requirements[..] else { panic!("{:?}", whole.requirements) };
    assert_eq!((&*it.limit, &*it.found, it.met), ("loss=0.2%", "loss 0.2500 %", false));
}

#[test]
fn what_are_no_parts_of_one_plan_is_refused() {
    let refused = |change: fn(&mut Vec<ResultFile>)| {
        let mut two = parts(2);
        change(&mut two);
        merge(two, &[]).unwrap_err().to_string()
    };
    for (text, wanted) in [
        (refused(Vec::clear), "no result of a worker"),
        (refused(|two| two[1].plan.worker = None), "result 2 is that of a whole plan"),
        (refused(|two| two[1] = two[0].clone()), "worker 0 has two results"),
        (refused(|two| two[1].plan.hash = "ff".into()), "worker 1 has another plan"),
        (refused(|two| two[1].plan.seed = 2), "another setting of the plan"),
        (refused(|two| two[1].plan.server = "192.0.2.2:53".into()), "another server"),
        (refused(|two| two[1] = part(1, 3)), "another number of workers"),
        (refused(|two| two[1].generator.version = "0".into()), "another version"),
    ] {
        assert!(text.contains(wanted), "{text}");
    }
}
