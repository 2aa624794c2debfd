//! Result files of others and of the lab, analysed as users do.

use crate::lab;
use crate::schema::Schema;
use serde_json::Value;
use std::fmt::Write as _;
use std::process::Output;

/// A file of the tests of `lab-analyse`.
fn data(name: &str) -> String {
    format!("{}/../lab-analyse/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn text(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn error(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_file_of_an_analysis_is_what_its_schema_says() {
    for files in [&["dnscalc.res", "dnsperf.txt"][..], &["closed-loop.csv"], &["swap.csv"]] {
        let paths: Vec<String> = files.iter().map(|name| data(name)).collect();
        let mut arguments = vec!["analyse", "--json", "--unit", "part"];
        arguments.extend(paths.iter().map(String::as_str));
        let value: Value = serde_json::from_str(&text(&lab(&arguments))).unwrap();
        let faults = Schema::of("analysis").faults(&value);
        assert!(faults.is_empty(), "{files:?}: {faults:?}");
        assert!(value["assumptions"].as_array().is_some_and(|all| !all.is_empty()));
    }
}

#[test]
fn a_table_of_a_closed_loop_is_told_with_its_reason_on_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let said = text(&lab(&["analyse", &data("closed-loop.csv"), "--html", page.to_str().unwrap()]));
    assert!(said.contains("in 10 of 11 trials latency is queries in flight ÷ rate"), "{said}");
    assert!(said.contains("closed-loop.csv:11") && !said.contains("NaN"), "{said}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("Closed loops") && page.contains("in 10 of 11 trials"));
}

#[test]
fn files_are_only_read_and_results_are_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("a.txt");
    std::fs::copy(data("dnsperf.txt"), &copy).unwrap();
    let before = std::fs::read(&copy).unwrap();
    let path = copy.to_str().unwrap();
    text(&lab(&["analyse", path]));
    let refused = error(&["analyse", path, "--out", path]);
    assert!(refused.contains("is one of the files that are read"), "{refused}");
    assert_eq!(std::fs::read(&copy).unwrap(), before);
}

#[test]
fn groups_are_given_on_the_command_line_or_by_folder() {
    let folder = tempfile::tempdir().unwrap();
    let original = std::fs::read_to_string(data("dnsperf.txt")).unwrap();
    let mut listed: [Vec<String>; 2] = Default::default();
    for (group, name) in ["old", "new"].into_iter().enumerate() {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        for at in 0..5 {
            let rate = 19_544.0 + f64::from(at) * 10.0 + 9_000.0 * group as f64;
            let path = folder.path().join(name).join(format!("{at}.txt"));
            std::fs::write(&path, original.replace("19544.836950", &format!("{rate:.6}"))).unwrap();
            listed[group].push(path.display().to_string());
        }
    }
    let of = |arguments: &[&str]| -> Value {
        let value: Value = serde_json::from_str(&text(&lab(arguments))).unwrap();
        value["metrics"][0].clone()
    };
    let inside = folder.path().to_str().unwrap();
    let metric = of(&["analyse", "--json", "--metric", "qps", "--baseline", "old", inside]);
    let contrast = &metric["contrasts"][0];
    assert_eq!(
        (&metric["name"], &contrast["shown"]),
        (&"qps".into(), &"higher".into()),
        "{metric}"
    );
    assert_eq!((&contrast["group"], &contrast["with"]), (&"new".into(), &"old".into()));
    let mut arguments: Vec<String> =
        ["analyse", "--json", "--metric", "qps", "--group"].map(str::to_owned).into();
    for (name, paths) in ["before", "after"].iter().zip(&listed) {
        let first = arguments.len();
        arguments.extend(paths.iter().cloned());
        arguments[first] = format!("{name}={}", arguments[first]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let metric = of(&arguments);
    assert_eq!(metric["contrasts"][0]["group"], "after");
    assert_eq!(metric["contrasts"][0]["p"], contrast["p"]);
}

#[test]
fn what_is_no_result_is_refused_with_file_line_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.txt");
    let mut text = std::fs::read_to_string(data("dnscalc.res")).unwrap();
    _ = write!(text, "  Queries sent:         5\n  Queries completed:    4 (80.00%)\n");
    std::fs::write(&path, text).unwrap();
    let said = error(&["analyse", path.to_str().unwrap()]);
    assert!(said.contains("x.txt:") && said.contains("have no `Queries lost:`"), "{said}");
    assert!(error(&["analyse", "nowhere.txt"]).contains("cannot read nowhere.txt"));
    let table = data("swap.csv");
    assert!(
        error(&["analyse", &table, "--baseline", "x"])
            .contains("no group `x`, expected one of 1.11.3")
    );
    assert!(error(&["analyse", &table, "--margin", "cpu"]).contains("expected METRIC=PART"));
    assert!(error(&["analyse", &table, "--by", "cpu"]).contains("no label `cpu` to group by"));
    assert!(error(&["analyse", &table, "--group", "x.txt"]).contains("expected NAME=FILE"));
    assert_eq!(lab(&["analyse"]).status.code(), Some(2));
}
