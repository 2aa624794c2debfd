//! Rule on file length, with the list of exceptions in `xtask/tidy-allow.txt`.
//!
//! The list only ratchets: a listed file may shrink but not grow, and leaves the list when it no longer needs it.

use super::tokens::{is_test_path, test_ranges};
use super::{File, Finding, Tree, finding};

const ALLOW_LIST: &str = "xtask/tidy-allow.txt";

/// Lines outside tests that a Rust file may have without a reason in the list.
const WANTED_LINES: usize = 400;
/// Lines that no source file may have, tests included.
const HARD_LINES: usize = 800;

const SOURCE_EXTENSIONS: &[&str] = &["rs", "py", "sh", "go", "c", "js"];

/// One exception: `PATH LINES REASON`.
struct Allowed<'a> {
    path: &'a str,
    lines: usize,
    at: usize,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let allowed = allow_list(tree, &mut findings);
    for extension in SOURCE_EXTENSIONS {
        for file in tree.with_extension(extension) {
            let all = file.text.lines().count();
            if all > HARD_LINES {
                findings.push(finding(
                    &file.path,
                    HARD_LINES + 1,
                    format!("{all} lines, at most {HARD_LINES} in any source file: split it"),
                ));
            }
        }
    }
    for file in tree.with_extension("rs").filter(|file| !is_test_path(&file.path)) {
        let lines = code_lines(file);
        let limit = allowed.iter().find(|a| a.path == file.path).map_or(WANTED_LINES, |a| a.lines);
        if lines > limit {
            let message = if limit == WANTED_LINES {
                format!(
                    "{lines} lines outside tests, at most {WANTED_LINES}: split it, or list it \
                     with a reason in {ALLOW_LIST}"
                )
            } else {
                format!("grew to {lines} lines outside tests, {ALLOW_LIST} allows {limit}")
            };
            findings.push(finding(&file.path, 1, message));
        }
    }
    for entry in &allowed {
        let lines = tree.file(entry.path).map_or(0, code_lines);
        if lines <= WANTED_LINES {
            let message = format!("'{}' no longer needs its entry: remove it", entry.path);
            findings.push(finding(ALLOW_LIST, entry.at, message));
        }
    }
    findings
}

fn allow_list<'a>(tree: &'a Tree, findings: &mut Vec<Finding>) -> Vec<Allowed<'a>> {
    let mut allowed = Vec::new();
    let text = tree.file(ALLOW_LIST).map_or("", |file| &file.text);
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split_whitespace();
        let path = words.next();
        let lines = words.next().and_then(|word| word.parse().ok());
        match (path, lines, words.next()) {
            (Some(path), Some(lines), Some(_reason)) => {
                allowed.push(Allowed { path, lines, at: index + 1 });
            }
            _ => findings.push(finding(ALLOW_LIST, index + 1, "expected: PATH LINES REASON")),
        }
    }
    allowed
}

/// Lines of the file outside `#[cfg(test)]`; all of them when the file does not lex, which is reported elsewhere.
fn code_lines(file: &File) -> usize {
    let tests = test_ranges(&file.text).unwrap_or_default();
    let in_tests: usize = tests.iter().map(|(first, last)| last - first + 1).sum();
    file.text.lines().count() - in_tests
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "crates/a/src/a.rs";

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(ToString::to_string).collect()
    }

    fn code(lines: usize) -> String {
        "// line\n".repeat(lines)
    }

    #[test]
    fn four_hundred_lines_without_a_reason() {
        assert!(findings(&[(A, &code(400))]).is_empty());
        assert!(findings(&[(A, &code(401))])[0].contains("401 lines outside tests"));
    }

    #[test]
    fn tests_do_not_count_towards_the_wanted_length() {
        let text = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", code(300), code(300));
        assert!(findings(&[(A, &text)]).is_empty());
        assert!(findings(&[("crates/a/src/tests.rs", &code(700))]).is_empty());
    }

    #[test]
    fn eight_hundred_lines_are_hard_for_tests_too() {
        let list = format!("{A} 900 it is what it is\n");
        assert!(findings(&[(A, &code(801)), (ALLOW_LIST, &list)])[0].contains("at most 800"));
        assert!(findings(&[("crates/a/tests/it.rs", &code(801))])[0].contains("at most 800"));
        assert!(findings(&[("scripts/a.py", &code(801))])[0].contains("at most 800"));
    }

    #[test]
    fn the_list_only_ratchets() {
        let list = format!("# path lines reason\n{A} 450 one state machine\n");
        assert!(findings(&[(A, &code(450)), (ALLOW_LIST, &list)]).is_empty());
        assert!(findings(&[(A, &code(451)), (ALLOW_LIST, &list)])[0].contains("grew to 451"));
        assert!(findings(&[(A, &code(399)), (ALLOW_LIST, &list)])[0].contains("remove it"));
        assert!(findings(&[(ALLOW_LIST, &list)])[0].contains("remove it"));
    }

    #[test]
    fn an_exception_without_a_reason_is_none() {
        let list = format!("{A} 450\n");
        assert!(findings(&[(ALLOW_LIST, &list)])[0].contains("tidy-allow.txt:1: expected"));
    }
}
