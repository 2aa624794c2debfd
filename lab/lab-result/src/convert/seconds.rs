//! How much the seconds of a long run may take in the file.

use crate::Second;
use lab_histogram::{BITS, BITS_MIN, Histogram};
use lab_load::tally::Room;

/// Of some 22 octets for each bucket, a file takes 30 MB at most for an hour.
pub(super) const ROOM: Room = lab_load::tally::ROOM;

/// Makes the histograms of seconds as coarse as it takes for the file to stay small; those of the whole
/// run stay as they are.
pub(super) fn bound(seconds: &mut [Second], room: Room) {
    let bits = precision(seconds, room.response, |second| [&second.response].into());
    let others = precision(seconds, room.others, |s| [&s.service, &s.lateness, &s.connect].into());
    for second in seconds {
        coarsen(&mut second.response, bits);
        coarsen(&mut second.service, others);
        coarsen(&mut second.lateness, others);
        coarsen(&mut second.connect, others);
    }
}

fn coarsen(histogram: &mut Histogram, bits: u32) {
    if histogram.bits() > bits {
        *histogram = histogram.coarsened(bits);
    }
}

/// The most bits with which all of these histograms have at most so many buckets.
fn precision(seconds: &[Second], most: usize, of: fn(&Second) -> Vec<&Histogram>) -> u32 {
    let fits = |bits: &u32| {
        let mut room = most;
        seconds.iter().flat_map(of).all(|histogram| {
            let left = room.checked_sub(histogram.coarsened(*bits).buckets().count());
            room = left.unwrap_or(0);
            left.is_some()
        })
    };
    (BITS_MIN..=BITS).rev().find(fits).unwrap_or(BITS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ResultFile;
    use crate::tests::example;
    use std::path::Path;

    /// A second of 2,000 queries with times from 50 µs to 50 ms, another one each time.
    fn second(second: u64) -> Second {
        let mut random = lab_load::rng::Stream::new(1, second);
        let mut times = |least: f64| {
            let mut histogram = Histogram::new();
            for _ in 0..2_000 {
                histogram.record((least * 1_000_f64.powf(random.unit())) as u64);
            }
            histogram
        };
        let (response, service, lateness) = (times(5e4), times(5e4), times(200.0));
        Second {
            second,
            sent: 2_000,
            answered: 2_000,
            response,
            service,
            lateness,
            ..Second::default()
        }
    }

    fn written(count: u64, room: Room) -> (ResultFile, usize) {
        let mut seconds: Vec<Second> = (0..count).map(second).collect();
        let whole = seconds.clone();
        bound(&mut seconds, room);
        for (coarse, whole) in seconds.iter().zip(&whole) {
            assert_eq!(coarse.response, whole.response.coarsened(coarse.response.bits()));
            let of = |second: &Second| {
                let service = &second.service;
                (service.recorded(), service.mean(), service.min(), service.max())
            };
            assert_eq!(of(coarse), of(whole), "what is no bucket is exact");
        }
        let mut result = ResultFile { seconds, ..example() };
        // The seconds are those of another run.
        result.verdict.valid = false;
        let text = crate::to_json(&result);
        let back = crate::from_json(Path::new("r.json"), text.as_bytes()).unwrap();
        assert_eq!(back, result);
        (result, text.len())
    }

    #[test]
    fn a_short_run_has_whole_seconds_and_a_long_one_a_small_file() {
        let bits = |result: &ResultFile| {
            let second = result.seconds.last().unwrap();
            (second.response.bits(), second.service.bits())
        };
        assert_eq!(bits(&written(3, ROOM).0), (BITS, BITS));
        // A hundredth of an hour in a hundredth of the room.
        let room = Room { response: ROOM.response / 100, others: ROOM.others / 100 };
        let (long, octets) = written(36, room);
        assert!(octets < 300_000, "{octets}");
        let (response, service) = bits(&long);
        assert!((3..BITS).contains(&response) && service < response, "{response} {service}");
    }
}
