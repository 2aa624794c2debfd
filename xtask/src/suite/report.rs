//! What `cargo test` prints: which tests failed, and of which target.

use std::borrow::Cow;
use std::fmt;

/// A test that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    /// What `cargo test` calls the target: `-p nodens --test it`.
    target: String,
    name: String,
}

impl Failed {
    /// Arguments of `cargo test` that run this test and no other; of a target of examples, all of them.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = self.target.split(' ').map(str::to_owned).collect();
        if !arguments.iter().any(|argument| argument == "--doc") {
            arguments.extend(["--", "--exact", &self.name].map(str::to_owned));
        }
        arguments
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.target)
    }
}

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    passed: u64,
    /// The names under the latest `failures:`; the last such list of a program has nothing but names.
    names: Vec<String>,
    lists_names: bool,
    /// The names of each program with failures, in order.
    failed: Vec<Vec<String>>,
    /// The targets with failures in the same order, as cargo tells them at its end.
    targets: Vec<String>,
    lists_targets: bool,
}

impl Report {
    /// Reads a line and gives it as it is to be shown: a failure is no verdict yet.
    pub(super) fn take<'l>(&mut self, line: &'l str) -> Cow<'l, str> {
        let text = line.trim_end();
        self.take_lists(text);
        if let Some(counts) = text.strip_prefix("test result: ") {
            return self.take_result(counts, line);
        }
        match text.strip_suffix(" ... FAILED").filter(|_| text.starts_with("test ")) {
            Some(test) => Cow::Owned(format!("{test} ... failed, see the end of the run\n")),
            None => Cow::Borrowed(line),
        }
    }

    fn take_lists(&mut self, text: &str) {
        if text == "failures:" {
            (self.lists_names, self.names) = (true, Vec::new());
            return;
        }
        if text.starts_with("error: ") && text.ends_with(" failed:") && text.contains(" target") {
            self.lists_targets = true;
            return;
        }
        let item = text.strip_prefix("    ");
        if self.lists_names {
            self.names.extend(item.map(str::to_owned));
            self.lists_names = item.is_some();
        } else if self.lists_targets {
            let target = item.and_then(|item| item.strip_prefix('`')?.strip_suffix('`'));
            self.targets.extend(target.map(str::to_owned));
            self.lists_targets = target.is_some();
        }
    }

    fn take_result<'l>(&mut self, counts: &str, line: &'l str) -> Cow<'l, str> {
        let words: Vec<&str> = counts.split(' ').collect();
        let passed =
            words.iter().position(|word| *word == "passed;").and_then(|at| at.checked_sub(1));
        self.passed += passed.and_then(|at| words.get(at)?.parse::<u64>().ok()).unwrap_or(0);
        let Some(counts) = counts.strip_prefix("FAILED.") else { return Cow::Borrowed(line) };
        self.failed.push(std::mem::take(&mut self.names));
        Cow::Owned(format!("test result: not all passed.{counts}\n"))
    }

    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// Whether a program ended without a result, or did not say what failed.
    pub(super) fn has_crashed(&self) -> bool {
        self.failed.len() != self.targets.len() || self.failed.iter().any(Vec::is_empty)
    }

    pub(super) fn failed(&self) -> Vec<Failed> {
        let of = |(target, names): (&String, &Vec<String>)| {
            let target = target.clone();
            names
                .iter()
                .map(move |name| Failed { target: target.clone(), name: name.clone() })
                .collect::<Vec<_>>()
        };
        self.targets.iter().zip(&self.failed).flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Report, String) {
        let mut report = Report::default();
        let shown = text.split_inclusive('\n').map(|line| report.take(line).into_owned()).collect();
        (report, shown)
    }

    const TEXT: &str = "     Running unittests src/lib.rs (target/debug/deps/a-1)\n\
        test a::b ... ok\n\
        test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
        \x20    Running tests/it/main.rs (target/debug/deps/it-2)\n\
        test x::y ... FAILED\n\
        \nfailures:\n\n---- x::y stdout ----\n    0: a line of a trace\n\n\nfailures:\n    x::y\n    z\n\n\
        test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s\n\n\
        error: test failed, to rerun pass `-p nodens --test it`\n\
        error: 1 target failed:\n    `-p nodens --test it`\n";

    #[test]
    fn failures_have_their_target_and_are_shown_as_no_verdict() {
        let (report, shown) = read(TEXT);
        let target = || "-p nodens --test it".to_owned();
        let failed = |name: &str| Failed { target: target(), name: name.to_owned() };
        assert_eq!(report.failed(), [failed("x::y"), failed("z")]);
        assert_eq!((report.passed(), report.has_crashed()), (7, false));
        let expected = ["-p", "nodens", "--test", "it", "--", "--exact", "z"];
        assert_eq!(failed("z").arguments(), expected);
        assert!(!shown.contains("FAILED") && shown.contains("x::y ... failed"), "{shown}");
        assert_eq!(shown.lines().count(), TEXT.lines().count());
    }

    #[test]
    fn a_program_that_ends_without_a_result_has_crashed() {
        let text = TEXT.replace("target failed:", "targets failed:") + "    `-p other --lib`\n";
        let (report, _) = read(&text);
        assert!(report.has_crashed());
        let (report, _) = read("error: could not compile `x`\n");
        assert_eq!((report.failed(), report.has_crashed()), (Vec::new(), false));
    }
}
