use super::*;

/// Dobson (1983): dried weight of plants under a control and two treatments; R has it as `PlantGrowth`.
fn plants() -> Vec<Vec<f64>> {
    vec![
        vec![4.17, 5.58, 5.18, 6.11, 4.50, 4.61, 5.17, 4.53, 5.33, 5.14],
        vec![4.81, 4.17, 4.41, 3.59, 5.87, 3.83, 6.03, 4.89, 4.32, 4.69],
        vec![6.31, 5.12, 5.54, 5.50, 5.37, 5.29, 4.92, 6.15, 5.80, 5.26],
    ]
}

#[track_caller]
fn close(got: f64, expected: f64, tolerance: f64) {
    assert!((got - expected).abs() <= tolerance, "got {got}, expected {expected}");
}

#[test]
fn the_published_example_of_hollander_and_wolfe() {
    // R's kruskal.test on half-times of mucociliary clearance: 0.77143, 2 degrees of freedom, p 0.68.
    let groups =
        [vec![2.9, 3.0, 2.5, 2.6, 3.2], vec![3.8, 2.7, 4.0, 2.4], vec![2.8, 3.4, 3.7, 2.2, 2.0]];
    let test = kruskal_wallis(&groups).unwrap();
    close(test.statistic, 0.77143, 5e-6);
    close(test.p, 0.68, 5e-3);
    assert_eq!(test.freedom, (2.0, None));
}

#[test]
fn tests_of_the_plants_are_those_that_r_prints() {
    let plants = plants();
    let test = kruskal_wallis(&plants).unwrap();
    close(test.statistic, 7.9882, 5e-5);
    close(test.p, 0.01842, 5e-6);
    let test = equal_variances(&plants).unwrap();
    close(test.statistic, 1.1192, 5e-5);
    close(test.p, 0.3412, 5e-5);
    let pairs = tukey(&plants, 0.05);
    // TukeyHSD: difference, lower and upper end, adjusted p.
    for (pair, (group, with, expected)) in pairs.iter().zip([
        (1, 0, [-0.371, -1.062_216_1, 0.320_216_1, 0.390_871_1]),
        (2, 0, [0.494, -0.197_216_1, 1.185_216_1, 0.197_996_0]),
        (2, 1, [0.865, 0.173_783_9, 1.556_216_1, 0.012_006_4]),
    ]) {
        assert_eq!((pair.group, pair.with), (group, with));
        let interval = pair.interval.unwrap();
        let got = [pair.difference, interval.low, interval.high, pair.p];
        got.iter().zip(expected).for_each(|(got, expected)| close(*got, expected, 2e-6));
    }
    // multcomp's glht with Dunnett's contrasts.
    let pairs = dunnett(&plants, 0, 0.05);
    assert_eq!(
        pairs.iter().map(|pair| (pair.group, pair.with)).collect::<Vec<_>>(),
        [(1, 0), (2, 0)]
    );
    close(pairs[0].p, 0.323, 1e-3);
    close(pairs[1].p, 0.153, 1e-3);
}

#[test]
fn dunns_statistic_is_the_difference_of_mean_ranks_over_its_error() {
    // Ranks 1, 2, 3 and 4, 5.5, 5.5: means 2 and 5, and one tie of two in six values.
    let groups = [vec![1.0, 2.0, 3.0], vec![4.0, 5.0, 5.0]];
    let variance = (6.0 * 7.0 / 12.0 - 6.0 / (12.0 * 5.0)) * (2.0 / 3.0);
    let pairs = dunn(&groups, None);
    assert_eq!(pairs.len(), 1);
    close(pairs[0].difference, 3.0, 1e-12);
    close(pairs[0].statistic, 3.0 / f64::sqrt(variance), 1e-12);
    // With two groups it is the test of Kruskal and Wallis.
    close(pairs[0].p, kruskal_wallis(&groups).unwrap().p, 1e-9);
}

#[test]
fn pairs_with_a_control_are_fewer_and_so_are_their_adjustments() {
    let plants = plants();
    let (all, with_control) = (dunn(&plants, None), dunn(&plants, Some(0)));
    assert_eq!((all.len(), with_control.len()), (3, 2));
    for pair in &with_control {
        let same = all.iter().find(|other| (other.group, other.with) == (pair.group, pair.with));
        let same = same.unwrap();
        close(pair.statistic, same.statistic, 1e-12);
        assert!(pair.p <= same.p);
    }
    assert!(dunnett(&plants, 2, 0.05).iter().all(|pair| pair.with == 2));
}

#[test]
fn means_are_compared_by_the_test_whose_assumption_is_not_refuted() {
    let plants = plants();
    let means = all_means(&plants, 0.05);
    assert_eq!((means.test, &means.pairs), (MeansTest::Tukey, &tukey(&plants, 0.05)));
    assert!(means.normality.unwrap().p > 0.05);
    let mut uneven = plants;
    uneven[1].iter_mut().for_each(|value| *value = (*value - 4.0) * 10.0);
    let means = all_means(&uneven, 0.05);
    assert_eq!(means.test, MeansTest::GamesHowell);
    assert_eq!(means.pairs, games_howell(&uneven, 0.05));
    // One group that never varies refutes equal variances and leaves no test of means.
    uneven[1].fill(4.0);
    assert!(all_means(&uneven, 0.05).pairs.is_empty());
    // Skewed values are not normal.
    let skewed: Vec<Vec<f64>> = plants_of(|value| (3.0 * value).exp()).into_iter().collect();
    assert!(normal_values(&skewed).unwrap().p < 0.05);
}

fn plants_of(map: impl Fn(f64) -> f64) -> Vec<Vec<f64>> {
    plants().into_iter().map(|group| group.into_iter().map(&map).collect()).collect()
}

#[test]
fn games_and_howell_of_two_groups_is_welchs_test() {
    // R's t.test of the control and the first treatment: t 1.1913, 16.524 degrees of freedom, p 0.2504,
    // interval -0.2875162 to 1.0295162.
    let pairs = games_howell(&plants()[..2], 0.05);
    let [pair] = &pairs[..] else { panic!("{pairs:?}") };
    close(pair.difference, -0.371, 1e-9);
    close(pair.statistic, -1.1913 * 2.0_f64.sqrt(), 1e-3);
    close(pair.p, 0.2504, 5e-5);
    close(pair.interval.unwrap().low, -1.029_516_2, 2e-6);
    close(pair.interval.unwrap().high, 0.287_516_2, 2e-6);
}

#[test]
fn groups_that_say_nothing_have_no_tests() {
    let same = [vec![1.0, 1.0], vec![1.0, 1.0]];
    for groups in [&[][..], &[vec![1.0, 2.0]], &[vec![1.0, 2.0], Vec::new()], &same] {
        assert_eq!(kruskal_wallis(groups), None, "{groups:?}");
        assert!(dunn(groups, None).is_empty());
        assert!(tukey(groups, 0.05).is_empty());
        assert!(games_howell(groups, 0.05).is_empty());
        assert!(dunnett(groups, 0, 0.05).is_empty());
        assert_eq!(equal_variances(groups), None);
        assert_eq!(normal_values(groups), None);
    }
    assert!(tukey(&[vec![1.0], vec![2.0]], 0.05).is_empty(), "one value has no variance");
    assert!(dunnett(&plants(), 3, 0.05).is_empty(), "there is no such control");
}
