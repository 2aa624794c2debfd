//! The generator against servers whose behaviour is known, by real sockets.

use super::{PATIENCE, SOCKET_HOLDS, Server, config, impatient, measure, workload};
use lab_echo::udp::{Echo, Options};
use lab_echo::{Injection, Latency};
use lab_histogram::Quantile;
use lab_load::schedule::Arrivals;
use lab_load::{Config, Pace, Stamps, run_by};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// A wall clock that is set an hour forward or back every few readings.
fn stepping() -> SystemTime {
    static READINGS: AtomicU64 = AtomicU64::new(0);
    let step = READINGS.fetch_add(1, Ordering::Relaxed) / 3 % 3;
    SystemTime::now() + Duration::from_secs(3_600) * u32::try_from(step).unwrap()
        - Duration::from_secs(3_600)
}

#[test]
fn setting_the_wall_clock_changes_no_duration() {
    let server = Server::udp(|socket, message, peer| _ = socket.send_to(message, peer));
    for stamps in [Stamps::User, Stamps::Kernel] {
        let config = Config { stamps, ..config(&server, 500.0, 600) };
        let began = Instant::now();
        let outcome =
            run_by(stepping, &config, &workload(), &AtomicBool::new(false), |_| {}).unwrap();
        let whole = u64::try_from(began.elapsed().as_nanos()).unwrap();
        let tally = &outcome.tally;
        assert_eq!(tally.contradictions(), [""; 0]);
        assert_eq!((tally.counts.sent, tally.counts.answered), (300, 300));
        for times in [&tally.response, &tally.service, &tally.lateness, &tally.receive_wait] {
            assert!(times.max().is_none_or(|max| max < whole), "{:?}", times.max());
        }
        assert!(outcome.elapsed >= config.duration.mul_f64(0.9));
        assert!(outcome.elapsed.as_nanos() <= u128::from(whole));
        let unstamped = outcome.threads[0].unstamped;
        assert_eq!(unstamped > 0, stamps == Stamps::Kernel, "{unstamped}");
    }
}

/// The mixture of the issue, injected by the echo and counted there as it really happened: 1 % of
/// the answers take 50 ms, 0.1 % never come.
#[test]
fn percentiles_and_loss_are_those_that_the_server_says_it_made() {
    let latency: Latency = "1%:50ms,uniform:4ms-6ms".parse().unwrap();
    let injection =
        Injection { latency: Some(latency), loss: 0.001, seed: 3, ..Injection::default() };
    let options = Options { injection, ..Options::default() };
    let echo = Echo::start("127.0.0.1:0".parse().unwrap(), options).unwrap();
    let timeout = Duration::from_secs(3);
    let config = Config {
        duration: Duration::from_secs(4),
        timeout,
        stamps: Stamps::Kernel,
        ..Config::new(echo.address, 1_000.0)
    };
    let outcome = measure(&config);
    let truth = echo.stop().unwrap().truth;
    let (tally, counts) = (&outcome.tally, &outcome.tally.counts);
    // On a busy machine, queries may be lost on their way to the server, too.
    let unseen = counts.sent - truth.questions;
    assert!(truth.lost > 0 && counts.timed_out >= truth.lost + unseen, "{counts:?} {truth:?}");
    assert_eq!(counts.timed_out + counts.answered, counts.sent);
    for part in [0.1, 0.5, 0.9, 0.98, 0.995] {
        // The same rank, with the lost queries behind the slowest answer.
        let rank = part * counts.sent as f64 / truth.held.recorded() as f64;
        let held = truth.held.quantile(rank).nanos().unwrap() as f64;
        let Quantile::Value(found) = tally.service.quantile(part) else { panic!("{part}") };
        let found = found as f64;
        // No answer can be measured shorter than it was held, and only the ways to and fro, some
        // microseconds on a free machine, can make it longer.
        assert!(found >= held * 0.99, "{part}: {found} held {held}");
        let disturbed = disturbance(tally) as f64;
        assert!(found <= held * 1.024 + disturbed, "{part}: {found} held {held} + {disturbed}");
    }
}

/// How long the machine kept the generator and the server from their work, as the generator saw it:
/// nothing much on a free machine.
fn disturbance(tally: &lab_load::tally::Tally) -> u64 {
    let worst = |times: &lab_histogram::Histogram| times.max().unwrap_or(0);
    100_000 + worst(&tally.lateness) + worst(&tally.receive_wait)
}

#[test]
fn a_run_against_silence_ends_after_its_duration_and_timeout() {
    let server = Server::udp(|_, _, _| {});
    let config = impatient(config(&server, 300.0, 500));
    let began = Instant::now();
    let outcome = measure(&config);
    // 0.8 s; the rest is for a machine that is busy with other things.
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    let counts = outcome.tally.counts;
    assert_eq!((counts.sent, counts.timed_out, counts.answered), (150, 150, 0));
    assert_eq!(outcome.tally.response.quantile(0.5), Quantile::AtLeast(300_000_000));
    assert!(outcome.tally.cohorts.iter().all(|cohort| cohort.is_final));
    assert!((outcome.loss(), outcome.answer_rate()) == (Some(1.0), 0.0));
}

/// The real counterpart of the simulated freeze. How late queries leave depends on the machine;
/// that they leave although nothing is answered does not.
#[test]
fn a_frozen_server_does_not_stop_the_queries() {
    // Frozen until so many queries wait: a closed loop with a window of 8 would never send them.
    const WAITING: usize = 200;
    let (mut held, mut seen) = (Vec::new(), 0);
    let server = Server::udp(move |socket, message, peer| {
        seen += 1;
        held.push((message.to_vec(), peer));
        if seen <= 50 || seen >= 50 + WAITING {
            held.drain(..).for_each(|(message, peer)| _ = socket.send_to(&message, peer));
        }
    });
    let outcome = measure(&config(&server, 200.0, 1_500));
    let counts = &outcome.tally.counts;
    assert_eq!((counts.sent, counts.answered), (SOCKET_HOLDS, SOCKET_HOLDS));
}

/// No machine sends so many. What was not sent is counted, and nothing waits for it.
#[test]
fn a_rate_beyond_the_generator_makes_the_run_no_longer_and_is_counted() {
    let server = Server::udp(|_, _, _| {});
    let pace = Pace::Open { rate: 10_000_000.0, arrivals: Arrivals::Uniform };
    let clients = 128;
    let config = Config { clients, pace, ..impatient(config(&server, 1.0, 1_000)) };
    let outcome = measure(&config);
    let counts = outcome.tally.counts;
    // One second, one more, the timeout; the rest is for a machine with other things to do.
    let most = Duration::from_secs(8);
    assert!(outcome.elapsed < most, "{:?} {counts:?}", outcome.elapsed);
    assert!(counts.overdue > 0 && counts.sent > 0, "{counts:?}");
    assert!(outcome.tally.uncounted || counts.scheduled == 10_000_000, "{counts:?}");
    let why = outcome.verdict.invalid.join("; ");
    assert!(why.contains("had not been sent when the run was over"), "{why}");
}
