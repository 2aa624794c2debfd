use super::*;
use lab_random::Stream;

const BOUNDS: Bounds = Bounds { floor: 100.0, ceiling: 1e6, precision: 0.03, probes_max: 60 };

/// A whole search, by what a probe at a rate says the first, second, … time overall.
fn search_by(start: f64, mut said: impl FnMut(f64, usize) -> Said) -> (Found, usize) {
    let mut search = Search::new(BOUNDS, start);
    let mut probes = 0;
    while let Some(rate) = search.rate() {
        assert!((BOUNDS.floor..=BOUNDS.ceiling).contains(&rate));
        probes += 1;
        assert!(probes <= BOUNDS.probes_max);
        search.take(said(rate, probes));
    }
    (search.found(), probes)
}

/// Searches against a server with this limit and a generator with that one.
fn search(start: f64, server: f64, generator: f64) -> (Found, usize) {
    search_by(start, |rate, _| match rate {
        rate if rate > generator => Said::Invalid,
        rate if rate > server => Said::Missed,
        _ => Said::Met,
    })
}

fn is_near(found: Option<f64>, limit: f64) -> bool {
    found.is_some_and(|rate| (rate / limit - 1.0).abs() <= 0.03)
}

#[test]
fn the_limit_of_a_server_is_found_from_any_start() {
    for limit in [123.0, 999.0, 54_321.0, 900_000.0] {
        for start in [1.0, 1_000.0, 50_000.0, 1e7] {
            let (found, probes) = search(start, limit, f64::INFINITY);
            assert!(is_near(found.rate, limit) && found.settled, "{limit} {start}: {found:?}");
            assert!(found.interval.unwrap().contains(limit), "{limit} {start}: {found:?}");
            assert_eq!(found.why, Above::Server);
            assert!(probes <= 32, "{limit} {start}: {probes}");
        }
    }
}

/// Where chance decides as asked: the limits of 100 servers, each with its own seed. How many searches
/// were within 3 %, how many intervals have the limit, and how many probes a search took on average.
fn simulate(scale: f64, disturbed: f64) -> (usize, usize, f64) {
    let (mut near, mut covered, mut all) = (0, 0, 0_u32);
    for seed in 0..100 {
        let mut random = Stream::new(seed, 7);
        let limit = 1_000.0 * 100_f64.powf(random.unit());
        let (found, probes) = search_by(1_000.0, |rate, _| {
            let meets = 1.0 / (1.0 + ((rate / limit).ln() / scale).exp());
            let draws = [random.unit(), random.unit()];
            let met = draws[0] < meets && draws[1] >= disturbed;
            if met { Said::Met } else { Said::Missed }
        });
        near += usize::from(is_near(found.rate, limit));
        covered += usize::from(found.interval.is_some_and(|it| it.contains(limit)));
        all += probes as u32;
    }
    (near, covered, f64::from(all) / 100.0)
}

#[test]
fn nineteen_of_twenty_searches_are_within_three_percent_though_chance_and_disturbances_decide() {
    for (scale, disturbed, probes_max) in
        [(1e-6, 0.0, 24.0), (0.003, 0.0, 27.0), (0.003, 0.05, 31.0), (0.01, 0.05, 46.0)]
    {
        let (near, covered, probes) = simulate(scale, disturbed);
        assert!(near >= 95, "{scale} {disturbed}: {near} of 100 within 3 %");
        assert!(covered >= 92, "{scale} {disturbed}: {covered} of 100 intervals");
        assert!(probes <= probes_max, "{scale} {disturbed}: {probes}");
    }
}

#[test]
fn where_chance_decides_far_around_the_limit_the_interval_is_wide_and_says_so() {
    let mut random = Stream::new(3, 7);
    let (found, probes) = search_by(1_000.0, |rate, _| {
        let meets = 1.0 / (1.0 + (rate / 20_000.0).powf(5.0));
        if random.unit() < meets { Said::Met } else { Said::Missed }
    });
    let interval = found.interval.unwrap();
    assert!(!found.settled && probes == BOUNDS.probes_max, "{found:?}");
    assert!(interval.high / interval.low > 1.05 && interval.contains(20_000.0), "{found:?}");
}

#[test]
fn a_server_without_a_limit_reaches_the_ceiling_and_a_bad_one_not_the_floor() {
    let (found, _) = search(1_000.0, f64::INFINITY, f64::INFINITY);
    assert_eq!((found.rate, found.above, found.why), (Some(1e6), None, Above::Ceiling));
    let (found, probes) = search(1_000.0, 99.0, f64::INFINITY);
    assert_eq!((found.rate, found.above, found.why), (None, Some(100.0), Above::Server));
    assert!(probes <= 7, "{probes}");
}

#[test]
fn what_the_generator_cannot_send_is_no_limit_of_the_server() {
    let (found, _) = search(1_000.0, 90_000.0, 40_000.0);
    assert_eq!((found.why, found.interval), (Above::Generator, None));
    assert!((38_000.0..=40_000.0).contains(&found.rate.unwrap()));
    let (found, _) = search(1_000.0, 30_000.0, 40_000.0);
    assert_eq!(found.why, Above::Server);
    let (found, _) = search(1_000.0, 90_000.0, 50.0);
    assert_eq!((found.rate, found.above, found.why), (None, Some(100.0), Above::Generator));
}

#[test]
fn a_search_that_ran_out_of_probes_has_no_reason_but_that() {
    let found = |probes_max, said: fn(f64) -> Said| {
        let mut search = Search::new(Bounds { probes_max, ..BOUNDS }, 1_000.0);
        while let Some(rate) = search.rate() {
            search.take(said(rate));
        }
        let found = search.found();
        (found.rate, found.above, found.why)
    };
    // Neither the floor nor the ceiling was tried.
    for probes in 1..=2 {
        assert_eq!(found(probes, |_| Said::Invalid), (None, None, Above::Probes));
    }
    assert_eq!(found(3, |_| Said::Invalid), (None, Some(1_000.0), Above::Probes));
    assert_eq!(found(3, |_| Said::Missed), (None, Some(250.0), Above::Probes));
    assert_eq!(found(3, |_| Said::Met), (Some(4_000.0), None, Above::Probes));
    // The floor missed it once: that may be chance.
    assert_eq!(found(5, |_| Said::Missed), (None, Some(100.0), Above::Probes));
    assert_eq!(found(6, |_| Said::Missed), (None, Some(100.0), Above::Server));
    assert_eq!(found(60, |_| Said::Met), (Some(1e6), None, Above::Ceiling));
    assert_eq!(found(60, |_| Said::Invalid), (None, Some(100.0), Above::Generator));
}

#[test]
fn a_probe_that_chance_has_spoilt_is_taken_again() {
    let mut search = Search::new(BOUNDS, 1_000.0);
    search.take(Said::Invalid);
    search.take(Said::Invalid);
    assert_eq!(search.rate(), Some(1_000.0));
    search.take(Said::Met);
    assert_eq!((search.rate(), search.found().rate), (Some(2_000.0), Some(1_000.0)));
}

#[test]
fn invalid_probes_below_a_valid_miss_are_no_bound_and_do_not_make_the_generator_the_limit() {
    // The server does 30,000; around 20,000 to 27,000, the run is INVALID.
    let (found, _) = search_by(16_000.0, |rate, _| match rate {
        20_000.0..27_000.0 => Said::Invalid,
        rate if rate > 30_000.0 => Said::Missed,
        _ => Said::Met,
    });
    assert_eq!(found.why, Above::Server);
    assert!(is_near(found.rate, 30_000.0), "{found:?}");
    // Nothing between 16,000 and 32,000 is valid: the bounds are those of valid probes.
    let (found, _) = search_by(16_000.0, |rate, _| match rate {
        rate if rate <= 16_000.0 => Said::Met,
        rate if rate >= 32_000.0 => Said::Missed,
        _ => Said::Invalid,
    });
    assert_eq!((found.rate, found.above, found.why), (Some(16e3), Some(32e3), Above::Between));
}

#[test]
fn a_disturbance_that_has_passed_does_not_bias_the_result_down() {
    // The generator is disturbed during the second to the fourth probe only.
    let (found, _) = search_by(1_000.0, |rate, probe| match (rate, probe) {
        (_, 2..=4) => Said::Invalid,
        (rate, _) if rate > 30_000.0 => Said::Missed,
        _ => Said::Met,
    });
    assert_eq!(found.why, Above::Server);
    assert!(is_near(found.rate, 30_000.0), "{found:?}");
    // The server is disturbed during these.
    let (found, _) = search_by(1_000.0, |rate, probe| match (rate, probe) {
        (_, 3 | 4) => Said::Missed,
        (rate, _) if rate > 30_000.0 => Said::Missed,
        _ => Said::Met,
    });
    assert!(is_near(found.rate, 30_000.0), "{found:?}");
}

#[test]
fn a_rate_that_cannot_be_is_given_up_at_once() {
    let mut search = Search::new(BOUNDS, 1_000.0);
    search.take(Said::Met);
    search.give_up();
    assert!(search.rate().unwrap() < 2_000.0);
}
