use super::*;
use crate::limits::{BOOTSTRAP_MIN, PACED_BURST, PACED_INTERVAL, REFRESHES_AT_ONCE};
use nodens_wire::{Name, SharedName};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const TIMERS: Timers = Timers { refresh: 7200, retry: 900, expire: 86_400 };

fn done(serial: u32) -> End {
    End::Transferred(Serial(serial), TIMERS)
}

/// A zone of so many primaries whose version 7 came at second 0.
fn loaded(primaries: usize) -> Refresh {
    let mut zone = Refresh::new(primaries);
    assert_eq!(zone.poll(0), Some(Action::Transfer(0)));
    assert_eq!((zone.poll(0), zone.next_deadline()), (None, None));
    zone.ended(0, done(7), 0);
    zone
}

/// Polls at this second, and lets what is to be done end so.
fn step(zone: &mut Refresh, second: u64, action: Action, end: End) {
    assert_eq!(zone.poll(second * SECOND), Some(action), "{zone:?}");
    zone.ended(second * SECOND, end, 0);
}

fn rests_until(zone: &Refresh, second: u64) {
    assert_eq!(zone.next_deadline(), Some(second * SECOND), "{zone:?}");
}

#[test]
fn a_zone_is_looked_at_after_refresh_and_transferred_if_it_is_newer() {
    let mut zone = loaded(1);
    rests_until(&zone, 7200);
    assert_eq!(zone.poll(7199 * SECOND), None);
    step(&mut zone, 7200, Action::Query(0), End::Has(Serial(7)));
    rests_until(&zone, 14_400);
    step(&mut zone, 14_400, Action::Query(0), End::Has(Serial(8)));
    step(&mut zone, 14_401, Action::Transfer(0), done(8));
    assert_eq!(zone.serial(), Some(Serial(8)));
    rests_until(&zone, 21_601);
}

#[test]
fn pauses_are_shorter_by_up_to_a_quarter() {
    for (random, second) in [(0, 7200), (1 << 31, 6300), (u32::MAX, 5400)] {
        let mut zone = Refresh::new(1);
        zone.poll(0);
        zone.ended(0, done(7), random);
        assert_eq!(zone.next_deadline().unwrap() / SECOND, second);
    }
}

#[test]
fn a_zone_that_no_primary_answers_for_is_retried_and_expires() {
    let mut zone = loaded(1);
    let mut second = 7200;
    while second < 86_400 {
        step(&mut zone, second, Action::Query(0), End::Failed);
        second += 900;
        rests_until(&zone, second.min(86_400));
    }
    assert_eq!(zone.poll(86_400 * SECOND), Some(Action::Expire));
    assert_eq!(zone.serial(), None);
    // Without a version there is nothing to compare with.
    step(&mut zone, 86_400, Action::Transfer(0), End::Failed);
    // Nor is RETRY waited for, as nothing is served.
    rests_until(&zone, 86_410);
    step(&mut zone, 86_410, Action::Transfer(0), done(3));
    rests_until(&zone, 93_610);
    step(&mut zone, 93_610, Action::Query(0), End::Failed);
    rests_until(&zone, 94_510);
}

#[test]
fn an_answer_with_the_same_serial_keeps_a_zone_alive() {
    let mut zone = loaded(1);
    step(&mut zone, 80_000, Action::Query(0), End::Has(Serial(7)));
    for second in [87_200, 88_100] {
        step(&mut zone, second, Action::Query(0), End::Failed);
    }
    assert!(zone.poll(166_399 * SECOND).is_some_and(|action| action != Action::Expire));
    assert_eq!(zone.poll(166_400 * SECOND), Some(Action::Expire));
}

#[test]
fn a_zone_that_never_came_is_asked_for_at_growing_intervals() {
    let mut zone = Refresh::new(1);
    let (mut now, mut pauses) = (0, Vec::new());
    for _ in 0..8 {
        assert_eq!(zone.poll(now), Some(Action::Transfer(0)));
        zone.ended(now, End::Failed, 0);
        let next = zone.next_deadline().unwrap();
        pauses.push((next - now) / 1_000_000);
        now = next;
    }
    assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
}

#[test]
fn primaries_are_asked_one_after_the_other() {
    let mut zone = loaded(3);
    step(&mut zone, 7200, Action::Query(0), End::Failed);
    // One that lags behind.
    step(&mut zone, 7200, Action::Query(1), End::Has(Serial(5)));
    step(&mut zone, 7200, Action::Query(2), End::Has(Serial(9)));
    step(&mut zone, 7200, Action::Transfer(2), End::Failed);
    // One was reached, so that is not tried again soon.
    rests_until(&zone, 14_400);
    let mut zone = loaded(2);
    step(&mut zone, 7200, Action::Query(0), End::Has(Serial(8)));
    step(&mut zone, 7200, Action::Transfer(0), End::Failed);
    step(&mut zone, 7200, Action::Query(1), End::Has(Serial(8)));
    step(&mut zone, 7200, Action::Transfer(1), End::Failed);
    rests_until(&zone, 8100);
}

#[test]
fn a_primary_that_has_an_earlier_version_is_followed_once_the_zone_expires() {
    let mut zone = loaded(2);
    for at in (1..12).map(|round| 7200 * round) {
        step(&mut zone, at, Action::Query(0), End::Has(Serial(5)));
        step(&mut zone, at, Action::Query(1), End::Failed);
    }
    rests_until(&zone, 86_400);
    assert_eq!(zone.poll(86_400 * SECOND), Some(Action::Expire));
    step(&mut zone, 86_400, Action::Transfer(0), done(5));
    assert_eq!(zone.serial(), Some(Serial(5)));
}

#[test]
fn notify_is_followed_at_once_and_its_sender_is_asked_first() {
    let mut zone = loaded(3);
    // What is here already, and one that is no primary.
    zone.notified(2, Some(Serial(7)));
    zone.notified(3, None);
    rests_until(&zone, 7200);
    zone.notified(2, Some(Serial(8)));
    step(&mut zone, 10, Action::Query(2), End::Failed);
    step(&mut zone, 10, Action::Query(0), End::Has(Serial(8)));
    assert_eq!(zone.poll(10 * SECOND), Some(Action::Transfer(0)));
    // During a transfer: after it.
    zone.notified(1, None);
    assert_eq!(zone.poll(10 * SECOND), None);
    zone.ended(11 * SECOND, done(8), 0);
    // As soon as it may be.
    rests_until(&zone, 13);
    step(&mut zone, 13, Action::Query(1), End::Has(Serial(8)));
    rests_until(&zone, 7213);
}

#[test]
fn notify_shortens_no_pause_below_the_least() {
    let mut zone = loaded(2);
    step(&mut zone, 7200, Action::Query(0), End::Failed);
    assert_eq!(zone.poll(7200 * SECOND), Some(Action::Query(1)));
    zone.notified(1, None);
    zone.ended(7200 * SECOND, End::Failed, 0);
    rests_until(&zone, 7201);
    // Both primaries, in the order in which they said so.
    zone.notified(0, None);
    step(&mut zone, 7201, Action::Query(1), End::Has(Serial(7)));
    rests_until(&zone, 7203);
    step(&mut zone, 7203, Action::Query(0), End::Has(Serial(7)));
    rests_until(&zone, 14_403);
    zone.notified(0, None);
    rests_until(&zone, 7205);
    assert_eq!(zone.poll(7204 * SECOND), None);
    step(&mut zone, 7205, Action::Query(0), End::Has(Serial(7)));
}

#[test]
fn a_restored_zone_is_compared_at_once_and_keeps_its_age() {
    let name = Name::root();
    let soa = Soa::with(name.view(), 5, (&name, &name), [7, 7200, 900, 86_400, 5]);
    let restored = |age| {
        let mut zone = Refresh::new(1);
        zone.restore(SECOND, &soa, Duration::from_secs(age));
        zone
    };
    let mut zone = restored(86_000);
    step(&mut zone, 1, Action::Query(0), End::Failed);
    rests_until(&zone, 401);
    assert_eq!(restored(90_000).poll(SECOND), Some(Action::Expire));
}

#[test]
fn times_of_nothing_are_not_taken_literally() {
    let mut zone = Refresh::new(1);
    zone.poll(0);
    let timers = Timers { refresh: 0, retry: 0, expire: 0 };
    zone.ended(0, End::Transferred(Serial(1), timers), 0);
    step(&mut zone, 2, Action::Query(0), End::Failed);
    assert_eq!(zone.poll(3 * SECOND), Some(Action::Expire));
    assert_eq!(Refresh::new(0).poll(0), None);
}

#[test]
fn a_zone_whose_expire_is_less_than_refresh_or_retry_is_kept_while_its_primary_answers() {
    for timers in [
        Timers { refresh: 86_400, retry: 900, expire: 3600 },
        Timers { refresh: 900, retry: 86_400, expire: 3600 },
    ] {
        let (refresh, retry) = (u64::from(timers.refresh), u64::from(timers.retry));
        let mut zone = Refresh::new(1);
        zone.poll(0);
        zone.ended(0, End::Transferred(Serial(7), timers), 0);
        step(&mut zone, refresh, Action::Query(0), End::Has(Serial(7)));
        step(&mut zone, 2 * refresh, Action::Query(0), End::Failed);
        rests_until(&zone, 2 * refresh + retry);
        assert_eq!(kept_for(timers), Duration::from_secs(refresh + retry));
    }
}

#[test]
fn an_expired_zone_is_asked_for_at_once() {
    let mut zone = loaded(1);
    // A pause of 7200 seconds begins just before the end.
    zone.timers = Some(Timers { refresh: 7200, retry: 7200, expire: 86_400 });
    step(&mut zone, 80_000, Action::Query(0), End::Failed);
    assert_eq!(zone.poll(86_400 * SECOND), Some(Action::Expire));
    assert_eq!(zone.poll(86_400 * SECOND), Some(Action::Transfer(0)));
}

#[test]
fn what_cannot_be_served_is_asked_for_less_and_less_often() {
    let mut zone = Refresh::new(1);
    let (mut now, mut pauses) = (0, Vec::new());
    for _ in 0..20 {
        assert_eq!(zone.poll(now), Some(Action::Transfer(0)));
        zone.ended(now, End::Useless, 0);
        let next = zone.next_deadline().unwrap();
        pauses.push((next - now) / SECOND);
        now = next;
    }
    assert_eq!(pauses[5..10], [8, 16, 32, 64, 128]);
    assert_eq!(pauses[19], 3600);
    // Unless it says that there is another version.
    zone.notified(0, None);
    assert!(zone.next_deadline().is_some_and(|at| at <= now));
}

#[test]
fn a_zone_that_all_primaries_refuse_is_asked_for_less_and_less_often() {
    let pauses = |ends: &[End]| {
        let mut zone = Refresh::new(ends.len());
        let (mut now, mut pauses) = (0, Vec::new());
        for _ in 0..14 {
            for end in ends {
                assert!(matches!(zone.poll(now), Some(Action::Transfer(_))));
                zone.ended(now, *end, 0);
            }
            let next = zone.next_deadline().unwrap();
            pauses.push((next - now) / SECOND);
            now = next;
        }
        zone.notified(0, None);
        assert!(zone.next_deadline().is_some_and(|at| at < now));
        pauses
    };
    assert_eq!(pauses(&[End::Refused])[4..12], [4, 8, 16, 32, 64, 128, 256, 300]);
    assert_eq!(pauses(&[End::Refused, End::Refused])[13], 300);
    // One that did not answer may have it.
    assert_eq!(pauses(&[End::Failed, End::Refused])[13], 10);
    // What is served stays as current as RETRY wants.
    let mut zone = loaded(1);
    step(&mut zone, 7200, Action::Query(0), End::Refused);
    rests_until(&zone, 8100);
}

#[test]
fn zones_that_are_not_there_are_asked_for_again_one_after_the_other() {
    let (mut schedule, all) = (Schedule::default(), 3000);
    for n in 0..all {
        schedule.insert(name(n), Refresh::new(1));
    }
    // The first attempts are made as soon as possible.
    while let Some((zone, _, token)) = schedule.poll(0) {
        schedule.ended(&zone, token, 0, End::Refused, 0);
    }
    let first = nanoseconds(BOOTSTRAP_MIN);
    assert_eq!((schedule.next_deadline(), schedule.orders.paced.len()), (Some(first), all));
    let asked = |schedule: &mut Schedule, now: u64| {
        let next = || {
            let (zone, _, token) = schedule.poll(now)?;
            schedule.ended(&zone, token, now, done(7), 0);
            Some(zone)
        };
        std::iter::from_fn(next).collect::<Vec<_>>()
    };
    let burst = (PACED_BURST.as_nanos() / PACED_INTERVAL.as_nanos()) as usize + 1;
    assert_eq!(asked(&mut schedule, first).len(), burst);
    let later = schedule.next_deadline().unwrap();
    assert!(later > first && later <= first + nanoseconds(PACED_INTERVAL));
    // One that a primary has changed, and one that is new.
    let changed = schedule.orders.paced.last().unwrap().1.clone();
    schedule.notified(&changed, 0, None);
    schedule.insert(name(all), Refresh::new(1));
    let second = first + SECOND;
    let soon = asked(&mut schedule, second);
    assert!(soon.contains(&changed) && soon.contains(&name(all)) && soon.len() == burst + 2);
    let rest = (1..1000).map(|ms| asked(&mut schedule, second + ms * SECOND / 1000).len());
    assert_eq!(rest.sum::<usize>(), 1998);
    for n in 0..=all {
        schedule.remove(&name(n));
    }
    assert!(schedule.orders.paced.is_empty() && schedule.orders.due.is_empty());
}

#[test]
fn a_zone_that_is_added_again_takes_the_place_of_the_first() {
    let mut schedule = Schedule::default();
    for _ in 0..2 {
        assert_eq!(schedule.insert(name(1), Refresh::new(1)), (Some(0), None));
        assert_eq!(schedule.times(&name(1)), (Some(0), None));
    }
    let (_, _, token) = schedule.poll(0).unwrap();
    assert_eq!((schedule.poll(0), schedule.orders.under_way), (None, 1));
    // What is under way is not for the one that takes its place.
    schedule.insert(name(1), Refresh::new(1));
    assert_eq!((schedule.is_current(&name(1), token), schedule.orders.under_way), (false, 0));
    assert!(schedule.poll(0).is_some());
    schedule.remove(&name(1));
    assert!(schedule.orders.due.is_empty() && schedule.orders.under_way == 0);
}

fn name(n: usize) -> SharedName {
    SharedName::from(format!("z{n}.test.").parse::<Name>().unwrap())
}

#[test]
fn a_schedule_does_what_is_due_within_its_bound() {
    let mut schedule = Schedule::default();
    let zones = REFRESHES_AT_ONCE + 10;
    for n in 0..zones {
        schedule.insert(name(n), Refresh::new(1));
    }
    let poll = |schedule: &mut Schedule, second: u64| {
        let next = || schedule.poll(second * SECOND);
        std::iter::from_fn(next).map(|(zone, _, token)| (zone, token)).collect::<Vec<_>>()
    };
    let first = poll(&mut schedule, 0);
    assert_eq!((first.len(), schedule.next_deadline()), (REFRESHES_AT_ONCE, None));
    for (zone, token) in &first {
        schedule.ended(zone, *token, 0, done(7), 0);
    }
    let second = poll(&mut schedule, 0);
    assert_eq!(second.len(), 10);
    assert_eq!(schedule.next_deadline(), Some(7200 * SECOND));
    schedule.remove(&second[0].0);
    schedule.notified(&first[0].0, 0, None);
    let third = poll(&mut schedule, 2);
    assert!(third.len() == 1 && third[0].0 == first[0].0, "{third:?}");
    assert_eq!(schedule.orders.under_way, 10);
    for n in 0..zones {
        schedule.remove(&name(n));
    }
    assert!(
        schedule.orders.due.is_empty()
            && schedule.zones.is_empty()
            && schedule.orders.under_way == 0
    );
    assert!(schedule.orders.expiring.is_empty());
}

#[test]
fn zones_that_were_restored_are_asked_for_one_after_the_other() {
    let (mut schedule, interval) = (Schedule::default(), nanoseconds(PACED_INTERVAL));
    let root = Name::root();
    let soa = Soa::with(root.view(), 5, (&root, &root), [7, 7200, 900, 86_400, 5]);
    let restored = |second: u64, age| {
        let mut refresh = Refresh::new(1);
        refresh.restore(second * SECOND, &soa, Duration::from_secs(age));
        refresh
    };
    let all = 3000;
    for n in 0..all {
        schedule.insert(name(n), restored(1, 0));
    }
    // One that may not be served for long, one that a primary has changed, and one that is not here.
    schedule.insert(name(all), restored(1, 86_400 - 60));
    schedule.insert(name(all + 1), Refresh::new(1));
    schedule.notified(&name(9), 0, None);
    let asked = |schedule: &mut Schedule, now| -> Vec<_> {
        let next = || {
            let (zone, _, token) = schedule.poll(now)?;
            schedule.ended(&zone, token, now, done(7), 0);
            Some(zone)
        };
        std::iter::from_fn(next).collect()
    };
    // Their reading has taken three seconds, for which nothing is made up.
    let first = asked(&mut schedule, 4 * SECOND);
    let burst = (PACED_BURST.as_nanos() / PACED_INTERVAL.as_nanos()) as usize + 1;
    assert_eq!(first.len(), burst + 3);
    assert!([all, all + 1, 9].iter().all(|n| first.contains(&name(*n))), "{first:?}");
    for n in 1..9 {
        assert!(asked(&mut schedule, 4 * SECOND + n * interval - 1).is_empty());
        assert_eq!(asked(&mut schedule, 4 * SECOND + n * interval).len(), 1);
    }
    let rest = (5..2000).map(|ms| asked(&mut schedule, 4 * SECOND + ms * SECOND / 1000).len());
    assert_eq!(burst + 3 + 8 + rest.sum::<usize>(), all + 2);
    // The next time they are asked for when REFRESH says so.
    assert_eq!(schedule.orders.paced.len(), 0);
    assert_eq!(asked(&mut schedule, 7300 * SECOND).len(), all + 2);
}

#[test]
fn zones_expire_while_as_many_primaries_are_asked_as_may_be() {
    let mut schedule = Schedule::default();
    schedule.insert(name(0), loaded(1));
    for n in 2..=REFRESHES_AT_ONCE {
        schedule.insert(name(n), Refresh::new(1));
        assert!(schedule.poll(0).is_some());
    }
    schedule.insert(name(1), Refresh::new(1));
    let (_, _, token) = schedule.poll(0).unwrap();
    let poll = |schedule: &mut Schedule, second: u64| {
        schedule.poll(second * SECOND).map(|(zone, action, _)| (zone, action))
    };
    assert_eq!(schedule.next_deadline(), Some(86_400 * SECOND));
    assert_eq!(schedule.poll(86_399 * SECOND), None);
    assert_eq!(poll(&mut schedule, 86_400), Some((name(0), Action::Expire)));
    // It is asked for once there is room.
    assert_eq!((schedule.poll(86_400 * SECOND), schedule.next_deadline()), (None, None));
    schedule.ended(&name(1), token, 86_400 * SECOND, End::Failed, 0);
    assert_eq!(poll(&mut schedule, 86_400), Some((name(0), Action::Transfer(0))));
}

#[test]
fn what_waits_for_its_turn_keeps_no_other_from_being_asked() {
    let mut schedule = Schedule::default();
    for n in 0..=REFRESHES_AT_ONCE {
        schedule.insert(name(n), Refresh::new(1));
    }
    let all: Vec<_> = std::iter::from_fn(|| schedule.poll(0)).collect();
    assert!(all.len() == REFRESHES_AT_ONCE && !schedule.has_room());
    let (zone, _, token) = &all[0];
    assert!(schedule.hold(zone, *token, true) && schedule.has_room());
    let (last, _, other) = schedule.poll(0).unwrap();
    assert!(!schedule.has_room() && !schedule.hold(zone, other, false));
    schedule.ended(&last, other, 0, done(7), 0);
    assert!(schedule.hold(zone, *token, false) && !schedule.has_room());
    schedule.ended(zone, *token, 0, done(7), 0);
    assert_eq!(schedule.orders.under_way, REFRESHES_AT_ONCE - 1);
    // One that goes while it waits.
    let (zone, _, token) = &all[1];
    schedule.hold(zone, *token, true);
    schedule.remove(zone);
    assert!(!schedule.hold(zone, *token, false));
    assert_eq!(schedule.orders.under_way, REFRESHES_AT_ONCE - 2);
}

#[test]
fn what_was_asked_for_a_zone_that_is_gone_does_not_count_for_its_successor() {
    let mut schedule = Schedule::default();
    schedule.insert(name(0), Refresh::new(1));
    let (_, _, old) = schedule.poll(0).unwrap();
    schedule.remove(&name(0));
    schedule.insert(name(0), Refresh::new(1));
    let (_, _, new) = schedule.poll(0).unwrap();
    assert!(schedule.is_current(&name(0), new) && !schedule.is_current(&name(0), old));
    schedule.ended(&name(0), old, 0, done(7), 0);
    assert_eq!(schedule.zones[&name(0)].refresh.serial(), None);
    schedule.ended(&name(0), new, 0, done(8), 0);
    assert_eq!(schedule.zones[&name(0)].refresh.serial(), Some(Serial(8)));
}

#[derive(Clone, Debug)]
enum Input {
    /// So many seconds pass.
    Pass(u32),
    End(End),
    Notify(usize, Option<u32>),
}

fn input() -> impl Strategy<Value = Input> {
    let serial = 0..20_u32;
    let timers = (0..50_u32, 0..20_u32, 0..200_u32);
    let timers = timers.prop_map(|(refresh, retry, expire)| Timers { refresh, retry, expire });
    prop_oneof![
        (0..100_u32).prop_map(Input::Pass),
        Just(Input::End(End::Failed)),
        Just(Input::End(End::Refused)),
        serial.clone().prop_map(|serial| Input::End(End::Has(Serial(serial)))),
        (serial.clone(), timers)
            .prop_map(|(n, timers)| Input::End(End::Transferred(Serial(n), timers))),
        (0..4_usize, prop::option::of(serial)).prop_map(|(n, serial)| Input::Notify(n, serial)),
    ]
}

#[test]
fn a_zone_that_expires_during_a_query_is_not_kept_by_what_was_said_before() {
    let mut zone = loaded(2);
    step(&mut zone, 86_399, Action::Query(0), End::Has(Serial(6)));
    assert_eq!(zone.poll(86_399 * SECOND), Some(Action::Query(1)));
    assert_eq!(zone.poll(86_400 * SECOND), Some(Action::Expire));
    zone.ended(86_400 * SECOND, End::Failed, 0);
    assert_eq!(zone.next_deadline(), Some(86_400 * SECOND + SECOND / 4), "{zone:?}");
}

proptest! {
    #[test]
    fn whatever_happens_a_zone_expires_in_time_and_is_never_forgotten(
        primaries in 1..4_usize,
        inputs in prop::collection::vec((input(), any::<u32>()), 1..200),
    ) {
        let (mut zone, mut now) = (Refresh::new(primaries), 0);
        let mut under_way = None;
        for (input, random) in inputs {
            match input {
                Input::Pass(seconds) => now += u64::from(seconds) * SECOND,
                // Transfers alone bring versions.
                Input::End(End::Transferred(..)) if matches!(under_way, Some(Action::Query(_))) => {}
                Input::End(end) => {
                    let before = zone.serial();
                    zone.ended(now, end, random);
                    let came = under_way.is_some() && matches!(end, End::Transferred(..));
                    prop_assert!(came || zone.serial() == before);
                    under_way = None;
                }
                Input::Notify(primary, serial) => zone.notified(primary, serial.map(Serial)),
            }
            while let Some(action) = zone.poll(now) {
                match action {
                    Action::Expire => prop_assert_eq!(zone.serial(), None),
                    Action::Query(primary) | Action::Transfer(primary) => {
                        prop_assert!(under_way.is_none() && primary < primaries);
                        under_way = Some(action);
                    }
                }
            }
            // A version has an end, and what is not under way has a time.
            prop_assert_eq!(zone.serial().is_some(), zone.expires_at.is_some());
            prop_assert!(zone.expires_at.is_none_or(|at| at > now));
            prop_assert!(under_way.is_some() || zone.next_deadline().is_some_and(|at| at > now));
        }
    }
}
