use super::*;
use std::time::Duration;

/// Mean, coefficient of variation and lag-1 correlation of the gaps.
fn moments(times: &[u64]) -> (f64, f64, f64) {
    let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let count = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / count;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
    let lag = gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
    (mean, variance.sqrt() / mean, lag / count / variance)
}

fn times(arrivals: Arrivals, rate: f64, count: usize) -> Vec<u64> {
    Schedule::new(arrivals, rate, 1).take(count).collect()
}

/// How many of `times` lie in each of `count` windows of `length` nanoseconds.
fn counts(times: &[u64], length: u64, count: usize) -> Vec<u64> {
    let mut counts = vec![0; count];
    for time in times {
        if let Some(count) = counts.get_mut((time / length) as usize) {
            *count += 1;
        }
    }
    counts
}

#[test]
fn uniform_times_are_exact_after_any_number_of_items() {
    let times = times(Arrivals::Uniform, 300_000.0, 3_000_001);
    assert_eq!(times[0], 0);
    assert_eq!(times[3_000_000], 10 * SECOND);
    assert!(times.windows(2).all(|pair| (3_333..=3_334).contains(&(pair[1] - pair[0]))));
}

#[test]
fn poisson_gaps_have_the_right_mean_spread_shape_and_no_memory() {
    let times = times(Arrivals::Poisson, 1_000.0, 200_001);
    let (mean, cv, lag) = moments(&times);
    assert!((mean / 1e6 - 1.0).abs() < 0.01, "{mean}");
    assert!((cv - 1.0).abs() < 0.02, "{cv}");
    assert!(lag.abs() < 0.01, "{lag}");
    // Kolmogorov and Smirnov against the exponential distribution, at a level of 0.001.
    let mut gaps: Vec<f64> =
        times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
    gaps.sort_by(f64::total_cmp);
    let count = gaps.len() as f64;
    let off = |(rank, gap): (usize, &f64)| (1.0 - (-gap).exp() - (rank as f64 + 0.5) / count).abs();
    let distance = gaps.iter().enumerate().map(off).fold(0.0, f64::max);
    assert!(distance < 1.95 / count.sqrt(), "{distance}");
    // Counts of a Poisson process have a variance equal to their mean.
    let counts = counts(&times, SECOND / 10, 1_900);
    let mean = counts.iter().sum::<u64>() as f64 / 1_900.0;
    let variance = counts.iter().map(|c| (*c as f64 - mean).powi(2)).sum::<f64>() / 1_900.0;
    assert!((variance / mean - 1.0).abs() < 0.1, "{variance} {mean}");
}

#[test]
fn gamma_gaps_have_the_spread_of_their_shape() {
    for (shape, wanted) in [(0.25, 2.0), (0.1, 10_f64.sqrt()), (1.0, 1.0), (4.0, 0.5), (100.0, 0.1)]
    {
        let times = times(Arrivals::Bursty { shape }, 1_000.0, 200_001);
        let (mean, cv, lag) = moments(&times);
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "{shape}: {mean}");
        assert!((cv / wanted - 1.0).abs() < 0.02, "{shape}: {cv}");
        assert!(lag.abs() < 0.01, "{shape}: {lag}");
    }
}

#[test]
fn on_off_arrivals_keep_the_mean_rate_and_the_pauses() {
    let arrivals = Arrivals::OnOff { on: SECOND / 10, off: SECOND * 9 / 10 };
    let times = times(arrivals, 1_000.0, 100_000);
    assert!(times.is_sorted() && times.iter().all(|time| time % SECOND < SECOND / 10));
    let counts = counts(&times, SECOND, 90);
    let mean = counts.iter().sum::<u64>() as f64 / 90.0;
    assert!((mean / 1_000.0 - 1.0).abs() < 0.01, "{mean}");
    assert_eq!(arrivals.peak(), 10.0);
    // Inside the bursts it is a Poisson process of ten times the rate.
    let first: Vec<u64> = times.iter().copied().filter(|time| *time < SECOND).collect();
    let (gap, cv, _) = moments(&first);
    assert!((gap / 1e5 - 1.0).abs() < 0.1 && (cv - 1.0).abs() < 0.1, "{gap} {cv}");
}

#[test]
fn steps_have_their_rates_and_a_pause_is_silent() {
    let profile = Profile::steps("1000:2s,0:1s,5000:500ms").unwrap();
    assert_eq!((profile.mean(9.0), profile.peak(9.0)), (4_500.0 / 3.5, 5_000.0));
    assert_eq!(profile.length().unwrap().as_millis(), 3_500);
    let schedule = Schedule::with_profile(Arrivals::Uniform, &profile, 1.0, 1);
    let times: Vec<u64> = schedule.collect();
    assert_eq!(counts(&times, SECOND / 2, 8), [500, 500, 500, 500, 0, 0, 2_500, 0]);
    assert_eq!(times[2_000], 3 * SECOND, "the first after the pause");
    let schedule = Schedule::with_profile(Arrivals::Poisson, &profile, 1.0, 1);
    let counts = counts(&schedule.collect::<Vec<_>>(), SECOND, 4);
    assert!(counts[2] == 0 && counts[0].abs_diff(1_000) < 130, "{counts:?}");
    assert!(counts[3].abs_diff(2_500) < 200, "{counts:?}");
}

#[test]
fn a_ramp_grows_in_a_straight_line_up_and_down() {
    for (text, wanted) in [("0:1000", [50, 150, 950]), ("1000:0", [950, 850, 50])] {
        let profile = Profile::ramp(text, 10 * SECOND).unwrap();
        let schedule = Schedule::with_profile(Arrivals::Uniform, &profile, 1.0, 1);
        let times: Vec<u64> = schedule.collect();
        assert_eq!(times.len(), 5_000);
        let counts = counts(&times, SECOND, 10);
        let got = [counts[0], counts[1], counts[9]];
        let near = got.iter().zip(wanted).all(|(got, wanted)| got.abs_diff(wanted) <= 1);
        assert!(near && times.is_sorted(), "{counts:?}");
    }
}

#[test]
fn times_never_go_back_whatever_the_process() {
    for text in ["uniform", "poisson", "bursty:0.05", "on-off:1ms/3ms", "on-off:7us/13us"] {
        let arrivals: Arrivals = text.parse().unwrap();
        assert!(times(arrivals, 50_000.0, 100_000).is_sorted(), "{text}");
        let ramp = Profile::ramp("10:90000", SECOND).unwrap();
        let times: Vec<u64> = Schedule::with_profile(arrivals, &ramp, 1.0, 1).collect();
        assert!(times.is_sorted() && times.last() < Some(&SECOND), "{text}");
    }
}

#[test]
fn what_is_written_is_read_again_and_what_is_wrong_is_named() {
    for text in ["uniform", "poisson", "bursty:0.25", "on-off:100ms/900ms", "on-off:1500us/0s"] {
        assert_eq!(text.parse::<Arrivals>().unwrap().to_string(), text);
    }
    for text in ["", "even", "bursty", "bursty:0", "bursty:NaN", "on-off:1s", "on-off:0s/1s"] {
        let error = text.parse::<Arrivals>().unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("expected uniform, poisson"), "{error}");
    }
    let steps = Profile::steps("1000:10s,5000:1500ms").unwrap();
    assert_eq!(steps.to_string(), "steps 1000:10s,5000:1500ms");
    for text in ["", "1000", "1000:10", "-1:10s", "0:10s", "inf:1s", "1000:0s", "1000:1s,"] {
        assert!(Profile::steps(text).is_err(), "{text}");
    }
    let ramp = Profile::ramp("1000:50000", 30 * SECOND).unwrap();
    assert_eq!(ramp.to_string(), "ramp 1000:50000 in 30s");
    for text in ["", "1000", "0:0", "-5:10", "a:b"] {
        assert!(Profile::ramp(text, SECOND).is_err(), "{text}");
    }
    assert!(Profile::ramp("1:2", 0).is_err());
}

#[test]
fn a_profile_that_is_made_shorter_keeps_all_of_its_rates() {
    let within =
        |profile: Profile, seconds: u64| profile.within(Duration::from_secs(seconds)).to_string();
    let steps = Profile::steps("1000:10s,5000:30s").unwrap();
    assert_eq!(within(steps.clone(), 4), "steps 1000:1s,5000:3s");
    assert_eq!(within(steps.clone(), 40), steps.to_string());
    assert_eq!(within(Profile::ramp("10:50", 20 * SECOND).unwrap(), 5), "ramp 10:50 in 5s");
    assert_eq!(within(Profile::Constant, 1), "constant");
}
