//! `nodens-lab load --require`: whether a load at a rate met what was required of it, for CI.

use crate::term::{self, Style};
use anyhow::Result;
use lab_load::objective::{Lost, Objective};
use lab_result::{Requirement, ResultFile};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Arguments on requirements.
#[derive(clap::Args)]
pub(super) struct RequireArgs {
    /// What the run must achieve: p99<5ms,loss<0.1% (also p50, p99.9, max, and `<=`). The exit code is
    /// 5 if it does not.
    #[arg(long, value_name = "LIMITS", conflicts_with = "slo")]
    require: Option<Objective>,
    /// Write the outcome of each requirement as JUnit XML.
    #[arg(long, value_name = "FILE", requires = "require")]
    junit: Option<PathBuf>,
}

impl RequireArgs {
    /// Where the report goes.
    pub(super) fn report(&self) -> Option<&Path> {
        self.junit.as_deref()
    }

    /// Whether the place of the report can be written.
    pub(super) fn check(&self) -> Result<()> {
        self.junit.as_deref().map_or(Ok(()), super::check_place)
    }

    /// What became of each requirement.
    pub(super) fn judge(&self, result: &ResultFile) -> Vec<Requirement> {
        let lost = Lost { lost: result.counts.lost(), sent: result.counts.sent };
        let checks = self.require.iter().flat_map(|it| it.check(&result.response, lost));
        checks.map(|it| Requirement { limit: it.limit, found: it.found, met: it.met }).collect()
    }

    /// Writes the report, if one was asked for.
    pub(super) fn write(&self, result: &ResultFile) -> Result<()> {
        let Some(path) = &self.junit else { return Ok(()) };
        Ok(lab_result::write_text(path, &junit(result))?)
    }
}

/// `text` for XML.
pub(crate) fn escape(text: &str) -> String {
    // XML 1.0 allows no other control characters.
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A line for each requirement.
pub(super) fn lines(result: &ResultFile) -> Vec<String> {
    let line = |it: &Requirement| {
        let Requirement { limit, found, met } = it;
        let (style, word) = if *met { (Style::Good, "met") } else { (Style::Bad, "MISSED") };
        term::paint(style, &format!("  required   {limit}: {word}, {found}"))
    };
    result.requirements.iter().map(line).collect()
}

/// Why the run says nothing about the requirements, if so.
fn spoilt(result: &ResultFile) -> Option<String> {
    let interrupted = result.run.interrupted.then(|| "the run was interrupted".to_owned());
    interrupted.or_else(|| result.verdict.invalid_because.first().cloned())
}

/// A test case for each requirement; a run that says nothing about the server is an error, and its
/// requirements are skipped.
fn junit(result: &ResultFile) -> String {
    let spoilt = spoilt(result);
    let missed = result.requirements.iter().filter(|it| !it.met).count();
    let all = result.requirements.len();
    let (failures, skipped) = if spoilt.is_some() { (0, all) } else { (missed, 0) };
    let (tests, errors) = (all + 1, usize::from(spoilt.is_some()));
    let seconds = result.run.elapsed_ns as f64 / 1e9;
    let counts = format!(
        "tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\" \
         time=\"{seconds:.3}\""
    );
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    let name = escape(&result.plan.server);
    _ = writeln!(text, "<testsuites name=\"nodens-lab load\" {counts}>");
    _ = writeln!(text, "<testsuite name=\"{name}\" {counts}>");
    let mut case = |class: &str, name: &str, outcome: &str| {
        let name = escape(name);
        _ = writeln!(
            text,
            "<testcase classname=\"{class}\" name=\"{name}\" time=\"0\">{outcome}</testcase>"
        );
    };
    for Requirement { limit, found, met } in &result.requirements {
        let found = escape(found);
        let outcome = match (&spoilt, met) {
            (Some(_), _) => format!("<skipped message=\"{found}\"/>"),
            (None, false) => format!("<failure message=\"{found}\" type=\"missed\"/>"),
            (None, true) => format!("<system-out>{found}</system-out>"),
        };
        case("requirement", limit, &outcome);
    }
    let error = spoilt.map(|why| format!("<error message=\"{}\" type=\"invalid\"/>", escape(&why)));
    case("measurement", "valid", &error.unwrap_or_default());
    text.push_str("</testsuite>\n</testsuites>\n");
    text
}

/// Whether all requirements were met.
pub(super) fn is_met(result: &ResultFile) -> bool {
    result.requirements.iter().all(|it| it.met)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(met: bool) -> ResultFile {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab-result/testdata/small.json");
        let mut result = lab_result::read(Path::new(path)).unwrap();
        let requirement = |limit: &str, met| Requirement {
            limit: limit.to_owned(),
            found: "p99 ≥ 2.00 s".to_owned(),
            met,
        };
        result.requirements = vec![requirement("p99<5ms", met), requirement("loss<0.1%", true)];
        (result.verdict.invalid_because, result.run.interrupted) = (Vec::new(), false);
        result
    }

    #[test]
    fn a_missed_requirement_is_a_failure_and_one_of_an_invalid_run_is_skipped() {
        let report = junit(&example(false));
        assert!(report.contains("name=\"p99&lt;5ms\""), "{report}");
        assert!(report.contains("<failure message=\"p99 ≥ 2.00 s\""), "{report}");
        assert!(
            report.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"0\""),
            "{report}"
        );
        assert!(!junit(&example(true)).contains("<failure"));
        let mut spoilt = example(false);
        spoilt.verdict.invalid_because.push("late".to_owned());
        let report = junit(&spoilt);
        assert!(report.contains("failures=\"0\" errors=\"1\" skipped=\"2\""), "{report}");
        assert!(report.contains("<error message=\"late\""), "{report}");
        assert_eq!(
            (report.matches("<skipped").count(), report.matches("<failure").count()),
            (2, 0)
        );
        assert!(lines(&example(false))[0].contains("MISSED") && !is_met(&example(false)));
    }
}
