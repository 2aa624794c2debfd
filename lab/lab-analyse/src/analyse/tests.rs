//! What is shown of made and of published values.

use super::*;
use crate::group::{By, groups};
use crate::read::tests::UNANSWERED;
use crate::read::{Given, from_octets};
use lab_result::analysis::{Contrast, Shown};
use std::fmt::Write as _;

fn analysed(texts: &[(&str, &str)], settings: &Settings) -> Result<AnalysisFile, AnalyseError> {
    let read = |(path, text): &(&str, &str)| {
        (None, from_octets(path, text.as_bytes(), &Given::default()).unwrap())
    };
    let files: Vec<_> = texts.iter().map(read).collect();
    let groups = groups(&files, &By::Found).unwrap();
    let files: Vec<_> = files.into_iter().map(|(_, file)| file).collect();
    analyse(&files, &groups, settings, Generator::default())
}

/// A table of groups with these means in milliseconds, row by row in blocks.
fn table(groups: &[(&str, &[f64])], has_blocks: bool) -> String {
    let mut text =
        if has_blocks { "group,mean [ms],block\n" } else { "group,mean [ms]\n" }.to_owned();
    for (name, values) in groups {
        for (block, value) in values.iter().enumerate() {
            let block = if has_blocks { format!(",{block}") } else { String::new() };
            _ = writeln!(text, "{name},{value}{block}");
        }
    }
    text
}

fn only(file: &AnalysisFile) -> &Contrast {
    let contrasts: Vec<&Contrast> =
        file.metrics.iter().flat_map(|metric| &metric.contrasts).collect();
    assert_eq!(contrasts.len(), 1, "{contrasts:?}");
    contrasts[0]
}

const A: [f64; 8] = [5.00, 5.03, 4.98, 5.06, 5.01, 4.95, 5.04, 4.99];

#[test]
fn a_difference_of_every_trial_is_shown_with_its_size() {
    let b = A.map(|value| value * 1.2 + 0.001);
    let file =
        analysed(&[("t", &table(&[("a", &A), ("b", &b)], false))], &Settings::default()).unwrap();
    let found = only(&file);
    assert_eq!((found.shown, found.test.as_str()), (Shown::Higher, "Mann–Whitney test"));
    assert!((found.estimate - 0.2).abs() < 0.01, "{found:?}");
    let [low, high] = found.interval.unwrap();
    assert!(low < 0.2 && 0.2 < high && high - low < 0.03, "{found:?}");
    assert_eq!((file.settings.unit.as_str(), file.settings.paired), ("run", false));
    let swapped =
        analysed(&[("t", &table(&[("b", &b), ("a", &A)], false))], &Settings::default()).unwrap();
    assert_eq!(only(&swapped).shown, Shown::Lower);
}

#[test]
fn what_is_the_same_is_equivalent_only_within_the_margin() {
    let b = [5.01, 4.97, 5.02, 5.00, 5.05, 4.96, 5.035, 4.985];
    let text = table(&[("a", &A), ("b", &b)], false);
    let settings =
        |margin| Settings { margins: vec![("mean".to_owned(), margin)], ..Settings::default() };
    let shown = |margin| only(&analysed(&[("t", &text)], &settings(margin)).unwrap()).shown;
    assert_eq!([0.02, 0.001].map(shown), [Shown::Equivalent, Shown::Inconclusive]);
}

#[test]
fn blocks_find_what_drift_hides() {
    let drift = [1.0, 9.0, 2.0, 7.0, 3.0, 8.0, 4.0, 6.0, 5.0, 2.5];
    let b = drift.map(|value| value * 1.1);
    let groups: [(&str, &[f64]); 2] = [("a", &drift), ("b", &b)];
    let blocked = analysed(&[("t", &table(&groups, true))], &Settings::default()).unwrap();
    let found = only(&blocked);
    assert_eq!(
        (found.shown, found.values, blocked.settings.paired),
        (Shown::Higher, [10, 10], true)
    );
    assert!(found.test.contains("pairs") && (found.estimate - 0.1).abs() < 1e-9, "{found:?}");
    let unpaired = Settings { paired: Some(false), ..Settings::default() };
    assert_eq!(
        only(&analysed(&[("t", &table(&groups, true))], &unpaired).unwrap()).shown,
        Shown::Inconclusive
    );
    let asked = Settings { paired: Some(true), ..Settings::default() };
    assert_eq!(
        only(&analysed(&[("t", &table(&groups, false))], &asked).unwrap()).shown,
        Shown::Higher
    );
    let uneven = table(&[("a", &drift), ("b", &b[1..])], false);
    let error = analysed(&[("t", &uneven)], &asked).unwrap_err().to_string();
    assert!(error.starts_with("cannot pair a with b: mean has 10 and 9 values"), "{error}");
}

#[test]
fn blocks_that_a_group_has_more_than_once_are_not_paired() {
    let asked = Settings { paired: Some(true), ..Settings::default() };
    let twice = "group,mean [ms],block\na,1,x\na,2,x\na,3,y\nb,1,x\nb,2,y\nb,3,z\n";
    let error = analysed(&[("t", twice)], &asked).unwrap_err().to_string();
    let expected =
        "cannot pair mean of a: block `x` has 2 values, expected one for each block".to_owned();
    assert_eq!(error, expected);
    // Readings of a run have its block.
    let parts = "group,mean [ms],block,run\na,1,x,1\na,2,x,1\nb,1,x,1\nb,2,x,1\n";
    let asked = Settings { by_part: Some(true), ..asked };
    let error = analysed(&[("t", parts)], &asked).unwrap_err().to_string();
    assert_eq!(error, expected);
    let unpaired = Settings { paired: None, ..Settings::default() };
    assert!(!analysed(&[("t", twice)], &unpaired).unwrap().settings.paired);
}

#[test]
fn three_values_show_nothing_and_that_is_said() {
    let file = analysed(
        &[("t", &table(&[("a", &[1.0, 1.1, 1.2]), ("b", &[9.0, 9.1, 9.2])], false))],
        &Settings::default(),
    );
    let found = only(&file.unwrap()).clone();
    assert_eq!((found.shown, found.interval), (Shown::Inconclusive, None));
    assert_eq!(
        (found.p, found.because.as_str()),
        (Some(0.1), "with 3 and 3 values p is 0.10 at least")
    );
}

#[test]
fn few_values_that_tie_are_not_judged_and_cut_ones_are_never_equivalent() {
    let found = |a: &[f64], b: &[f64]| {
        let text = table(&[("a", a), ("b", b)], false);
        only(&analysed(&[("t", &text)], &Settings::default()).unwrap()).clone()
    };
    let higher = found(&[3.0; 3], &[4.0; 3]);
    assert_eq!((higher.shown, higher.p_exact), (Shown::Inconclusive, true), "{higher:?}");
    assert_eq!(higher.because, "with 3 and 3 values p is 0.10 at least");
    assert!((higher.p.unwrap() - 0.1).abs() < 1e-9, "{higher:?}");
    for few in [2, 3] {
        let same = found(&vec![3.001; few], &vec![3.001; few]);
        assert_eq!((same.shown, same.interval), (Shown::Inconclusive, None), "{same:?}");
    }
    // Of whole milliseconds, 3 is anything up to 4; of thousandths, it is what it says.
    assert_eq!(found(&[3.0; 10], &[3.0; 10]).shown, Shown::Inconclusive);
    assert_eq!(found(&[3.001; 10], &[3.001; 10]).shown, Shown::Equivalent);
    let text = table(&[("a", &[3.0; 10]), ("b", &[3.0; 10])], false);
    let notes = analysed(&[("t", &text)], &Settings::default()).unwrap().metrics[0].notes.clone();
    assert!(notes[0].starts_with("its last digits are 33.3 % wide"), "{notes:?}");
}

#[test]
fn several_metrics_and_groups_are_corrected_for_their_number() {
    let mut text = "group,mean [ms],p99 [ms],qps\n".to_owned();
    for (at, value) in A.iter().enumerate() {
        let noise = [0.3, -0.2, 0.1, 0.4, -0.3, 0.2, -0.1, 0.05][at];
        _ = writeln!(text, "a,{value},{},{}", 20.0 + noise, 1_000.0 + noise);
        _ = writeln!(text, "b,{},{},{}", value * 1.02 + 0.0005, 20.02 - noise, 1_000.1 - noise);
    }
    let settings = |primary: Option<&str>| Settings {
        primary: primary.map(str::to_owned),
        ..Settings::default()
    };
    let of = |primary| {
        let file = analysed(&[("t", &text)], &settings(primary)).unwrap();
        let mean = file.metrics.iter().find(|metric| metric.name == "mean").unwrap();
        (mean.contrasts[0].p.unwrap(), mean.contrasts[0].p_adjusted.unwrap())
    };
    let ((p, adjusted), primary) = (of(None), of(Some("mean")));
    assert!((adjusted / p - 3.0).abs() < 1e-9, "{p} {adjusted}");
    assert_eq!(primary, (p, p));
}

#[test]
fn several_groups_have_the_tests_of_papers_with_their_assumptions() {
    let near = A.map(|value| value + 0.002);
    let far = A.map(|value| value * 3.0 - 7.0);
    let groups: [(&str, &[f64]); 3] = [("default", &A), ("sack", &near), ("tso", &far)];
    let settings = Settings { baseline: Some("default".to_owned()), ..Settings::default() };
    let file = analysed(&[("t", &table(&groups, false))], &settings).unwrap();
    let metric = &file.metrics[0];
    let pairs: Vec<_> = metric.contrasts.iter().map(|c| (&*c.group, &*c.with, c.shown)).collect();
    assert_eq!(pairs, [("sack", "default", Shown::Equivalent), ("tso", "default", Shown::Higher)]);
    let names: Vec<&str> = metric.families.iter().map(|family| family.test.as_str()).collect();
    assert_eq!(
        names,
        [
            "Kruskal–Wallis",
            "Dunn, with the baseline, by Holm",
            "Games–Howell, all pairs of means",
            "Dunnett, means with the baseline",
        ]
    );
    let dunnett = &metric.families[3];
    let equal = dunnett.assumes.iter().find(|it| it.what == "equal variances").unwrap();
    assert_eq!(equal.refuted, Some(true), "{equal:?}");
    assert!(metric.families[0].p.unwrap() < 0.01);
    let blocked = analysed(&[("t", &table(&groups, true))], &Settings::default()).unwrap();
    let names: Vec<&str> =
        blocked.metrics[0].families.iter().map(|family| family.test.as_str()).collect();
    assert!(names.contains(&"Friedman, within blocks"), "{names:?}");
    assert_eq!(blocked.metrics[0].contrasts.len(), 3);
}

const SWAP: &str = include_str!("../../tests/data/swap.csv");
const CLOSED: &str = include_str!("../../tests/data/closed-loop.csv");

#[test]
fn one_swap_of_versions_shows_its_means_and_no_more() {
    let file = analysed(&[("swap.csv", SWAP)], &Settings::default()).unwrap();
    let means: Vec<f64> =
        file.metrics.iter().flat_map(|metric| &metric.samples).map(|s| s.mean.floor()).collect();
    assert_eq!(means, [283.0, 296.0, 282.0, 303.0]);
    let contrasts: Vec<&Contrast> =
        file.metrics.iter().flat_map(|metric| &metric.contrasts).collect();
    assert!(contrasts.iter().all(|found| found.shown == Shown::Unjudged && found.p.is_none()));
    assert!((contrasts[0].estimate - 0.0445).abs() < 0.001, "{:?}", contrasts[0]);
    assert!(
        file.warnings.iter().any(|text| text.contains("one after the other")),
        "{:?}",
        file.warnings
    );
    // Every reading as a value has a tiny p-value, which is one of readings and not of versions.
    let parts = Settings { by_part: Some(true), ..Settings::default() };
    let file = analysed(&[("swap.csv", SWAP)], &parts).unwrap();
    let found = &file.metrics[0].contrasts[0];
    assert!(found.p.unwrap() < 0.0001 && found.shown == Shown::Unjudged, "{found:?}");
    assert!(
        file.warnings.iter().any(|text| text.contains("a gauge that was read more often")),
        "{:?}",
        file.warnings
    );
    // Once for each change there are three of each, which cannot show anything.
    let once = Settings { once: true, ..parts };
    let file = analysed(&[("swap.csv", SWAP)], &once).unwrap();
    let found = &file.metrics[0].contrasts[0];
    assert_eq!((found.values, found.p), ([3, 3], Some(0.1)));
}

#[test]
fn a_published_table_of_a_closed_loop_says_one_number_twice() {
    let file = analysed(&[("closed-loop.csv", CLOSED)], &Settings::default()).unwrap();
    let explained: Vec<bool> = file.loops.iter().map(|check| check.explained).collect();
    let expected = [true, true, true, true, true, true, true, false, true, true, true];
    assert_eq!(explained, expected);
    let outlier = &file.loops[7];
    assert!((outlier.predicted_ns / 1e6 - 245.1).abs() < 0.2, "{outlier:?}");
    assert!(
        file.warnings.iter().any(|text| text.contains("in 10 of 11 trials")),
        "{:?}",
        file.warnings
    );
    let mut all = file.metrics.iter().flat_map(|metric| &metric.contrasts);
    assert!(all.all(|found| found.shown == Shown::Unjudged && found.p.is_none()));
}

#[test]
fn values_among_lost_queries_are_bounds_and_never_equivalent() {
    let text = |slow: u64, lost: u64| {
        let mut array = vec!["0".to_owned(); 2_001];
        array[slow as usize] = (1_000 - lost).to_string();
        array[2_000] = lost.to_string();
        let stats = format!(
            "{{\"since_ms\":0,\"until_ms\":1000,\"requests\":1000,\"answers\":{},\"latency\":[{}]}}",
            1_000 - lost,
            array.join(",")
        );
        format!(
            "{{\"version\":20200527,\"timeout_ms\":2000,\"stats_sum\":{stats},\"stats_periodic\":[]}}"
        )
    };
    let mut files = Vec::new();
    for at in 0..6 {
        files.push((format!("a/{at}"), text(200 + at, 1)));
        files.push((format!("b/{at}"), text(200 + at, 400)));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    let settings = Settings { metrics: vec!["p90".to_owned()], ..Settings::default() };
    let file = analysed(&files, &settings).unwrap();
    let metric = &file.metrics[0];
    assert_eq!(metric.samples.iter().map(|sample| sample.bounds).collect::<Vec<_>>(), [0, 6]);
    assert_eq!((only(&file).shown, only(&file).interval), (Shown::Higher, None));
    assert!(
        metric.notes.iter().any(|note| note.contains("at least the timeout")),
        "{:?}",
        metric.notes
    );
    // Steps of a millisecond are too wide for a margin of 2 % of 200 ms: never equivalent.
    let same: Vec<(&str, &str)> =
        files.iter().filter(|(path, _)| path.starts_with('a')).copied().collect();
    let renamed: Vec<(String, String)> =
        same.iter().map(|(path, text)| (path.replace('a', "c"), format!("{text}\n"))).collect();
    let mut both = same.clone();
    both.extend(renamed.iter().map(|(path, text)| (&**path, &**text)));
    let coarse = Settings { margins: vec![("p90".to_owned(), 0.02)], ..settings };
    let file = analysed(&both, &coarse).unwrap();
    assert_eq!(only(&file).shown, Shown::Inconclusive);
    assert!(
        file.metrics[0].notes.iter().any(|note| note.contains("buckets")),
        "{:?}",
        file.metrics[0].notes
    );
}

#[test]
fn bounds_below_values_of_the_other_group_are_not_judged() {
    // Six runs of A with a timeout of one second, and of B with a longer one: B may be faster or slower.
    let text = |timeout_ms: usize, slow_ms: usize, lost: u64| {
        let mut array = vec!["0".to_owned(); timeout_ms + 1];
        array[slow_ms] = (1_000 - lost).to_string();
        array[timeout_ms] = lost.to_string();
        let stats = format!(
            "{{\"since_ms\":0,\"until_ms\":1000,\"requests\":1000,\"answers\":{},\"latency\":[{}]}}",
            1_000 - lost,
            array.join(",")
        );
        format!(
            "{{\"version\":20200527,\"timeout_ms\":{timeout_ms},\"stats_sum\":{stats},\"stats_periodic\":[]}}"
        )
    };
    let found = |b: &dyn Fn(usize) -> String| {
        let files: Vec<(String, String)> = (0..6)
            .flat_map(|at| {
                [(format!("a/{at}"), text(1_000, 200 + at, 400)), (format!("b/{at}"), b(at))]
            })
            .collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
        let settings = Settings { metrics: vec!["p90".to_owned()], ..Settings::default() };
        only(&analysed(&files, &settings).unwrap()).clone()
    };
    let later = found(&|at| text(5_000, 3_100 + at, 0));
    assert_eq!((later.shown, later.interval), (Shown::Unjudged, None), "{later:?}");
    assert!(later.because.contains("their bound is not above all"), "{later:?}");
    let sooner = found(&|at| text(5_000, 700 + at, 0));
    assert_eq!(sooner.shown, Shown::Lower, "{sooner:?}");
}

#[test]
fn what_does_not_exist_is_refused_with_what_does() {
    let text = table(&[("a", &A), ("b", &A)], false);
    let refused =
        |settings: Settings| analysed(&[("t", &text)], &settings).unwrap_err().to_string();
    let baseline = Settings { baseline: Some("c".to_owned()), ..Settings::default() };
    assert_eq!(refused(baseline), "no group `c`, expected one of a, b");
    let metric = Settings { metrics: vec!["p50".to_owned()], ..Settings::default() };
    assert_eq!(refused(metric), "no trial has the metric `p50`, expected one of mean");
    let many = (0..70).map(|at| format!("g{at},1\n")).collect::<String>();
    let error =
        analysed(&[("t", &format!("group,qps\n{many}"))], &Settings::default()).unwrap_err();
    assert_eq!(error.to_string(), "70 groups, expected at most 64");
}

#[test]
fn the_same_files_make_the_same_analysis() {
    let text = table(&[("a", &A), ("b", &A.map(|value| value * 1.01))], true);
    let made =
        || lab_result::analysis::to_json(&analysed(&[("t", &text)], &Settings::default()).unwrap());
    assert_eq!(made(), made());
}

#[test]
fn a_run_without_an_answer_does_not_win() {
    let good = include_str!("../../tests/data/dnsperf.txt");
    let mut texts = vec![("t".to_owned(), UNANSWERED.to_owned())];
    // Lines that are empty make them different files.
    texts.extend((0..5).map(|run| ("t".to_owned(), good.to_owned() + &"\n".repeat(run))));
    let read = |(path, text): &(String, String)| {
        (Some(path.clone()), from_octets(path, text.as_bytes(), &Given::default()).unwrap())
    };
    let files: Vec<_> = texts.iter().map(read).collect();
    let groups = groups(&files, &By::Found).unwrap();
    let files: Vec<_> = files.into_iter().map(|(_, file)| file).collect();
    let file = analyse(&files, &groups, &Settings::default(), Generator::default()).unwrap();
    let mean = file.metrics.iter().find(|metric| metric.name == "mean").unwrap();
    let values: Vec<_> = mean.samples.iter().flat_map(|sample| &sample.values).collect();
    assert!(values.len() == 5 && values.iter().all(|value| **value > 0.0), "{values:?}");
    let about = file.warnings.iter().filter(|text| text.contains("no query was answered"));
    assert_eq!(about.count(), 1);
}

#[test]
fn a_run_counts_once() {
    let text = table(&[("a", &A)], false);
    let twice = [("x/a.csv", text.as_str()), ("x/b.csv", text.as_str())];
    let error = analysed(&twice, &Settings::default()).unwrap_err().to_string();
    assert!(error.starts_with("x/a.csv and x/b.csv have the same content"), "{error}");
}

#[test]
fn a_run_in_two_formats_is_told() {
    let seconds = |start: u32| {
        let head = "second,start_unix,final,sent,answered,lost,p50_ns,p90_ns,p99_ns,p99.9_ns,max_ns,at_least";
        let row = |second: u32| format!("{second},{},1,9,9,0,5,5,5,5,5,", start + second);
        [head, &row(0), &row(1), ""].join("\n")
    };
    let table = |time: &str| format!("group,qps,started\nt,9,2026-11-28T{time}\n");
    let told = |files: &[(&str, &str)]| {
        let all = analysed(files, &Settings::default()).unwrap().warnings;
        all.iter().filter(|text| text.contains("one run in two formats")).count()
    };
    let [csv, same, other] = [seconds(1_795_904_615), table("22:23:35"), table("22:25:00")];
    assert_eq!(told(&[("x/a.csv", &csv), ("x/b.txt", &same)]), 1);
    assert_eq!(told(&[("x/a.csv", &csv), ("x/a.txt", &other)]), 1);
    assert_eq!(told(&[("x/a.csv", &csv), ("y/a.txt", &other)]), 0);
    assert_eq!(told(&[("x/a.csv", &csv), ("x/b.csv", &seconds(1_795_904_616))]), 0);
}

#[test]
fn a_rate_that_was_asked_for_is_none_of_the_servers() {
    // Runs of dnsperf with `-Q rate`, which had so many answers a second.
    let run = |rate: u32, answers: f64, number: usize| {
        let text = include_str!("../../tests/data/dnsperf.txt");
        let line = text.lines().find(|line| line.contains("Queries per second:")).unwrap();
        let command = text.lines().find(|line| line.contains("Command line:")).unwrap();
        let text = text.replace(line, &format!("  Queries per second:   {answers:.6}"));
        text.replace(command, &format!("{command} -Q {rate}")) + &"\n".repeat(number)
    };
    let shown = |a: (u32, f64), b: (u32, f64)| {
        let mut files = Vec::new();
        for (folder, (rate, answers)) in [("a", a), ("b", b)] {
            for at in 0..6 {
                let text = run(rate, answers * (1.0 + at as f64 / 1e4), at);
                files.push((format!("{folder}/{at}"), text));
            }
        }
        let files: Vec<_> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
        let settings = Settings { metrics: vec!["qps".to_owned()], ..Settings::default() };
        let file = analysed(&files, &settings).unwrap();
        let is_told = file.warnings.iter().any(|text| text.contains("different rates"));
        (only(&file).shown, is_told)
    };
    assert_eq!(shown((1_000, 999.0), (2_000, 1_999.0)), (Shown::Unjudged, true));
    assert_eq!(shown((1_000, 999.0), (5_000, 1_500.0)), (Shown::Unjudged, true));
    // What was not kept is what the server could do.
    assert_eq!(shown((5_000, 1_000.0), (6_000, 1_500.0)), (Shown::Higher, true));
    assert_eq!(shown((1_000, 999.0), (1_000, 700.0)), (Shown::Lower, false));
}
