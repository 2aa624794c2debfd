use crate::log::{Level, Record};
use crate::testing::Bench;

#[test]
fn the_last_path_counts_and_one_that_does_not_exist_is_only_a_warning() {
    let bench = Bench::new(". {\n root /\n root /nonexistent/for/sure\n whoami\n}");
    let settings = &bench.worker.config().blocks[0].settings;
    assert_eq!(settings.root, std::path::Path::new("/nonexistent/for/sure"));
    let record = bench.log.try_iter().next();
    let Some(Record::Line { level: Level::Warning, origin: "root", text }) = record else {
        panic!("{record:?}");
    };
    assert_eq!(text, "Root path does not exist: /nonexistent/for/sure");
}

#[test]
fn one_path_is_wanted_and_it_must_be_accessible() {
    let cases = [
        ("root", "2:2: Wrong argument count after 'root': expected 1, found 0"),
        ("root / /tmp", "2:9: Wrong argument count"),
        ("root / {\n }", "2:2: 'root' takes no block"),
        ("root /proc/version/x", "2:7: unable to access root path"),
    ];
    for (line, wanted) in cases {
        let error = Bench::try_new(&format!(". {{\n {line}\n}}")).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}
