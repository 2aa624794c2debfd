use super::*;
use proptest::prelude::*;

#[test]
fn buckets_are_adjacent_and_narrow_from_zero_to_the_largest_value() {
    for bits in BITS_MIN..=BITS {
        let mut expected = 0;
        for at in 0..=index(u64::MAX, bits) {
            let (low, high) = bounds(at, bits);
            assert_eq!(low, expected, "bucket {at}");
            assert_eq!((index(low, bits), index(high, bits)), (at, at));
            assert!((high - low) as f64 <= low as f64 / f64::from(1 << bits));
            expected = high.wrapping_add(1);
        }
        assert_eq!(expected, 0, "the last bucket ends at the largest value");
    }
    let (low, high) = bounds(index(1_000_000, BITS), BITS);
    assert!((high - low) as f64 <= 0.004 * low as f64, "{low} to {high}");
}

#[test]
fn buckets_refine_those_of_hg64_with_five_bits() {
    for at in 0..=index(10_000_000_000, BITS) {
        let (low, high) = bounds(at, BITS);
        let coarse = |value: u64| value >> value.max(64).ilog2().saturating_sub(5);
        assert_eq!(coarse(low), coarse(high));
    }
}

#[test]
fn timeouts_count_in_percentiles_as_at_least_the_timeout() {
    let mut histogram = Histogram::new();
    (0..980).for_each(|_| histogram.record(1_000));
    (0..20).for_each(|_| histogram.record_censored(5_000_000_000));
    assert_eq!(histogram.quantile(0.5), Quantile::Value(1_000));
    assert_eq!(histogram.quantile(0.98), Quantile::Value(1_000));
    assert_eq!(histogram.quantile(0.99), Quantile::AtLeast(5_000_000_000));
    assert_eq!(histogram.max(), Some(1_000));
}

#[test]
fn a_value_whose_order_to_a_censored_one_is_unknown_is_not_named() {
    let mut histogram = Histogram::new();
    histogram.record(10);
    histogram.record(900);
    histogram.record_censored(500);
    assert_eq!(histogram.quantile(0.3), Quantile::Value(10));
    assert_eq!(histogram.quantile(0.6), Quantile::AtLeast(500));
}

#[test]
fn nothing_recorded_has_no_statistics() {
    let histogram = Histogram::new();
    assert_eq!(histogram.quantile(0.5), Quantile::Empty);
    assert_eq!((histogram.min(), histogram.max(), histogram.mean()), (None, None, None));
}

proptest! {
    #[test]
    fn quantiles_are_those_of_the_sorted_values(
        mut values in prop::collection::vec(0_u64..100_000_000_000, 1..300), fraction in 0.0_f64..=1.0
    ) {
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| histogram.record(*value));
        values.sort_unstable();
        let rank = ((fraction * values.len() as f64).ceil() as usize).max(1);
        let exact = values[rank - 1] as f64;
        let Quantile::Value(found) = histogram.quantile(fraction) else { panic!() };
        prop_assert!((found as f64 - exact).abs() <= 0.004 * exact, "{} for {}", found, exact);
        prop_assert_eq!(histogram.max(), values.last().copied());
        prop_assert_eq!(histogram.buckets().map(|bucket| bucket.2).sum::<u64>(), values.len() as u64);
    }

    #[test]
    fn merging_parts_equals_recording_the_whole(
        values in prop::collection::vec(any::<u64>(), 0..200), cut in any::<prop::sample::Index>()
    ) {
        let record = |values: &[u64]| {
            let mut histogram = Histogram::new();
            for value in values {
                if value % 5 == 0 { histogram.record_censored(*value) } else { histogram.record(*value) }
            }
            histogram
        };
        let (left, right) = values.split_at(cut.index(values.len() + 1));
        let mut forward = record(left);
        forward.merge(&record(right));
        let mut backward = record(right);
        backward.merge(&record(left));
        prop_assert_eq!(&forward, &record(&values));
        prop_assert_eq!(&forward, &backward);
    }

    #[test]
    fn coarser_buckets_are_unions_of_finer_ones(
        values in prop::collection::vec((any::<u64>(), 0_u32..64), 1..200), bits in BITS_MIN..=BITS
    ) {
        let (mut fine, mut recorded) = (Histogram::new(), Histogram::new().coarsened(bits));
        let mut half = Histogram::new();
        for (at, value) in values.iter().map(|(value, shift)| value >> shift).enumerate() {
            fine.record(value);
            if at % 2 == 0 { recorded.record(value) } else { half.record(value) }
        }
        recorded.merge(&half);
        let coarse = fine.coarsened(bits);
        prop_assert_eq!(&coarse, &recorded, "however it comes about");
        prop_assert_eq!((coarse.bits(), coarse.recorded()), (bits, fine.recorded()));
        prop_assert_eq!((coarse.min(), coarse.max(), coarse.mean()), (fine.min(), fine.max(), fine.mean()));
        prop_assert!(coarse.buckets().count() <= fine.buckets().count());
        prop_assert_eq!(&Histogram::from_parts(&coarse.to_parts()).unwrap(), &coarse);
        prop_assert_eq!(coarse.coarsened(BITS), coarse, "what is lost is lost");
    }
}

proptest! {
    #[test]
    fn a_packed_histogram_is_the_same_whatever_is_done_with_it(
        values in prop::collection::vec((any::<u64>(), 0_u32..64), 0..200), bits in BITS_MIN..=BITS,
        cut in any::<prop::sample::Index>(), fraction in 0.0_f64..=1.0, packs: (bool, bool),
    ) {
        let values: Vec<_> = values.iter().map(|(value, shift)| value >> shift).collect();
        let record = |values: &[u64], packed: bool| {
            let mut histogram = Histogram::new();
            values.iter().for_each(|value| histogram.record(*value));
            if packed { histogram.pack() }
            histogram
        };
        let (left, right) = values.split_at(cut.index(values.len() + 1));
        let whole = record(&values, false);
        let mut packed = record(left, packs.0);
        packed.merge(&record(right, packs.1));
        prop_assert_eq!(&packed, &whole);
        let mut packed = record(left, true);
        right.iter().for_each(|value| packed.record(*value));
        prop_assert_eq!(&packed, &whole, "recorded in a packed one");
        packed.pack();
        prop_assert_eq!(packed.coarsened(bits), whole.coarsened(bits));
        prop_assert_eq!(packed.quantile(fraction), whole.quantile(fraction));
        let nanos = values.first().copied().unwrap_or(1);
        prop_assert_eq!(packed.count_above(nanos), whole.count_above(nanos));
        prop_assert_eq!(packed.to_parts(), whole.to_parts());
        prop_assert_eq!(packed == record(left, true), right.is_empty());
    }
}

#[test]
fn a_packed_histogram_takes_few_octets() {
    let mut histogram = Histogram::new();
    // A second of 50,000 response times from 20 µs to 1 ms.
    (0..50_000_u64).for_each(|n| histogram.record(20_000 + n * n * n % 980_000));
    let before = histogram.octets();
    histogram.pack();
    let (buckets, octets) = (histogram.buckets().count(), histogram.octets());
    assert!(
        octets <= 3 * buckets && octets * 6 < before,
        "{octets} of {before}, {buckets} buckets"
    );
    let again = histogram.clone();
    histogram.pack();
    assert_eq!(histogram, again);
    histogram.clear();
    assert_eq!((histogram.octets(), histogram == Histogram::new()), (0, true));
}

#[test]
fn parts_make_the_same_histogram_and_wrong_ones_none() {
    let mut histogram = Histogram::new();
    [0, 511, 512, 1_000_000, 1_000_001, u64::MAX].iter().for_each(|value| histogram.record(*value));
    histogram.record_censored(7);
    let parts = histogram.to_parts();
    assert_eq!(Histogram::from_parts(&parts), Ok(histogram));
    assert_eq!(Histogram::from_parts(&Parts::default()), Ok(Histogram::new()));
    let with = |change: fn(&mut Parts)| {
        let mut parts = parts.clone();
        change(&mut parts);
        Histogram::from_parts(&parts).unwrap_err()
    };
    assert_eq!(with(|parts| parts.buckets[2].1 += 1), PartsError::Bucket(2));
    assert_eq!(with(|parts| parts.buckets[1].2 = 0), PartsError::Bucket(1));
    assert_eq!(with(|parts| parts.buckets.swap(0, 1)), PartsError::Bucket(1));
    assert_eq!(with(|parts| parts.buckets[1].2 = u64::MAX), PartsError::Bucket(1));
    assert_eq!(with(|parts| parts.censored = u64::MAX), PartsError::Count);
    assert_eq!(with(|parts| parts.censored = COUNT_MAX - 5), PartsError::Count);
    assert_eq!(with(|parts| parts.coarser = BITS), PartsError::Bits);
    assert_eq!(with(|parts| parts.coarser = 1), PartsError::Bucket(1));
    assert_eq!(with(|parts| parts.min = 1), PartsError::Extremes);
    assert_eq!(with(|parts| parts.sum = 1), PartsError::Sum);
}

#[test]
fn parts_of_few_buckets_take_few_octets_however_high_these_are() {
    let mut histogram = Histogram::new();
    histogram.record(u64::MAX);
    let small = Histogram::from_parts(&histogram.to_parts()).unwrap();
    assert!(small.octets() <= 16 && histogram.octets() > 100_000, "{}", small.octets());
    assert_eq!(small, histogram);
}

#[test]
fn files_with_the_most_values_can_be_merged_without_end() {
    let most = Parts { censored: COUNT_MAX, floor: 1, ..Parts::default() };
    let mut sum = Histogram::from_parts(&most).unwrap();
    for _ in 0..16 {
        sum.merge(&sum.clone());
    }
    assert_eq!(sum.censored(), u64::MAX);
    sum.merge(&Histogram::from_parts(&most).unwrap());
    assert_eq!(sum.quantile(0.5), Quantile::AtLeast(1));
}

#[test]
fn the_lowest_and_the_highest_rank_are_the_exact_extremes() {
    let mut histogram = Histogram::new();
    // Three values of one bucket.
    [1_000_001, 1_000_500, 1_000_900].into_iter().for_each(|value| histogram.record(value));
    assert_eq!(histogram.buckets().count(), 1);
    assert_eq!(histogram.quantile(1.0), Quantile::Value(1_000_900));
    assert_eq!(histogram.quantile(0.0), Quantile::Value(1_000_001));
    histogram.record_censored(2_000_000_000);
    assert_eq!(histogram.quantile(0.75), Quantile::Value(1_000_900));
    assert_eq!(histogram.quantile(1.0), Quantile::AtLeast(2_000_000_000));
}
