use super::*;

/// Looks at worker 0 as often as there are turns: each with the turn, and whether it has work.
fn looks(watch: &mut Watch, turns: &[(u64, bool)]) -> Vec<(Option<Change>, bool)> {
    turns.iter().map(|(turn, work)| watch.look(0, *turn, || *work)).collect()
}

#[test]
fn a_worker_that_makes_turns_is_well_however_much_it_has_to_do() {
    let turns: Vec<_> = (1..100).map(|turn| (turn, true)).collect();
    assert!(looks(&mut Watch::new(1), &turns).iter().all(|seen| *seen == (None, false)));
}

#[test]
fn a_worker_with_nothing_to_do_is_well_and_woken_now_and_then() {
    let turns = vec![(7, false); 1 + 3 * IDLE_LOOKS_MAX as usize];
    let seen = looks(&mut Watch::new(1), &turns);
    assert!(seen.iter().all(|(change, _)| change.is_none()));
    assert_eq!(seen.iter().filter(|(_, wake)| *wake).count(), 3);
}

#[test]
fn a_worker_is_stuck_after_some_looks_without_a_turn_and_is_said_to_be_so_once() {
    let mut watch = Watch::new(1);
    let silent = SILENT_LOOKS_MAX as usize;
    let seen = looks(&mut watch, &vec![(7, true); 1 + silent - 1]);
    assert!(seen.iter().all(|(change, _)| change.is_none()), "{seen:?}");
    assert_eq!(watch.look(0, 7, || true), (Some(Change::Stalled), true));
    assert_eq!(watch.look(0, 7, || false), (None, true));
    // A single turn is no recovery.
    assert_eq!(watch.look(0, 8, || true), (None, true));
    assert_eq!(watch.look(0, 8, || true), (None, true));
    let well: Vec<_> = (9..).map(|turn| (turn, false)).take(RECOVERED_LOOKS as usize).collect();
    let seen = looks(&mut watch, &well);
    assert_eq!(seen.last(), Some(&(Some(Change::Recovered), false)));
    assert!(seen.iter().rev().skip(1).all(|seen| *seen == (None, true)));
}

#[test]
fn work_that_is_taken_up_in_time_counts_for_nothing() {
    let mut watch = Watch::new(1);
    for turn in 1..20 {
        let mut turns = vec![(turn, true); SILENT_LOOKS_MAX as usize];
        turns.push((turn, false));
        assert!(looks(&mut watch, &turns).iter().all(|(change, _)| change.is_none()));
    }
}

#[test]
fn freed_memory_is_given_back_at_once_and_then_not_too_often() {
    let mut returns = Returns::default();
    assert!(!returns.look(false) && returns.look(true));
    let due: Vec<bool> = (0..3 * RETURN_LOOKS).map(|look| returns.look(look < 5)).collect();
    let at: Vec<usize> =
        due.iter().enumerate().filter(|(_, due)| **due).map(|(at, _)| at).collect();
    assert_eq!(at, [RETURN_LOOKS as usize - 1]);
}
