//! What a test program prints: how many tests passed, and which failed.

/// What a program of tests has come to.
#[derive(Debug, Default)]
pub(super) struct Report {
    passed: u64,
    failed: Vec<String>,
    has_crashed: bool,
    /// What it printed, if there is a reason to read it.
    shown: String,
}

impl Report {
    /// Reads the whole output of a program that `ended_well`, or did not.
    pub(super) fn read(text: &str, ended_well: bool) -> Self {
        let (mut report, mut has_result) = (Self::default(), false);
        for line in text.lines() {
            if let Some(counts) = line.strip_prefix("test result: ") {
                has_result = true;
                report.passed += passed(counts);
            }
        }
        report.failed = failed(text);
        // A program that prints no result has ended before its last test. One that ends with an error and names no
        // failed test cannot be run again test by test.
        report.has_crashed = !has_result || (!ended_well && report.failed.is_empty());
        if !ended_well || report.has_crashed {
            report.shown = text.lines().map(|line| without_verdict(line) + "\n").collect();
        }
        report
    }

    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// The names of tests that failed.
    pub(super) fn failed(&self) -> &[String] {
        &self.failed
    }

    /// Whether the program ended without a result, or did not say what failed.
    pub(super) fn has_crashed(&self) -> bool {
        self.has_crashed
    }

    /// What the program printed, a failure as no verdict: the test may pass alone. Empty if all passed.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }
}

/// The number in `ok. 3 passed; 0 failed; …`.
fn passed(counts: &str) -> u64 {
    let words: Vec<&str> = counts.split(' ').collect();
    let at = words.iter().position(|word| *word == "passed;").and_then(|at| at.checked_sub(1));
    at.and_then(|at| words.get(at)?.parse().ok()).unwrap_or(0)
}

/// The names under each `failures:` that a result follows; other such lists hold what the tests printed.
fn failed(text: &str) -> Vec<String> {
    let (mut all, mut names, mut lists) = (Vec::new(), Vec::new(), false);
    for line in text.lines() {
        let name = line.strip_prefix("    ");
        if line == "failures:" {
            (lists, names) = (true, Vec::new());
        } else if line.starts_with("test result: ") {
            all.append(&mut names);
        } else if lists {
            names.extend(name.map(str::to_owned));
            lists = name.is_some() || line.is_empty();
        }
    }
    all
}

fn without_verdict(line: &str) -> String {
    if let Some(test) = line.strip_suffix(" ... FAILED").filter(|_| line.starts_with("test ")) {
        return format!("{test} ... failed, see the end of the run");
    }
    match line.strip_prefix("test result: FAILED.") {
        Some(counts) => format!("test result: not all passed.{counts}"),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "running 7 tests\n\
        test a::b ... ok\n\
        test x::y ... FAILED\n\
        \nfailures:\n\n---- x::y stdout ----\n    0: a line of a trace\n\n\nfailures:\n    x::y\n    z\n\n\
        test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s\n";

    #[test]
    fn failures_are_named_and_are_shown_as_no_verdict() {
        let report = Report::read(TEXT, false);
        assert_eq!(report.failed(), ["x::y", "z"]);
        assert_eq!((report.passed(), report.has_crashed()), (4, false));
        let shown = report.shown();
        assert!(!shown.contains("FAILED") && shown.contains("x::y ... failed"), "{shown}");
        assert_eq!(shown.lines().count(), TEXT.lines().count());
    }

    #[test]
    fn what_passed_is_counted_and_not_shown() {
        let one =
            "running 3 tests\ntest a ... ok\n\ntest result: ok. 3 passed; 0 failed; 0 ignored\n";
        let report = Report::read(&(one.to_owned() + one), true);
        assert_eq!((report.passed(), report.has_crashed(), report.shown()), (6, false, ""));
        assert!(report.failed().is_empty());
    }

    #[test]
    fn a_program_that_ends_without_a_result_has_crashed() {
        let cut = TEXT.split("test result").next().unwrap_or_default();
        assert!(Report::read(cut, false).has_crashed());
        assert!(Report::read(cut, true).has_crashed());
        // A result without names: killed by what it started, say.
        let nameless = "test result: ok. 3 passed; 0 failed; 0 ignored\n";
        assert!(Report::read(nameless, false).has_crashed());
    }
}
