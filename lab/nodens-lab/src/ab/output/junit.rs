//! The comparison for programs that read the results of tests.

use super::*;
use crate::load::escape;

/// One test case for each finding: worse is a failure, inconclusive is skipped.
pub(crate) fn junit(file: &ComparisonFile) -> String {
    let count = |verdict| file.findings.iter().filter(|f| f.verdict == verdict).count();
    let (failures, skipped) = (count(Verdict::Slower), count(Verdict::Inconclusive));
    let seconds = file.finished_unix_ns.saturating_sub(file.started_unix_ns) as f64 / 1e9;
    let errors = usize::from(!file.invalid_because.is_empty());
    let tests = file.findings.len() + errors;
    let name = escape(&format!("{} compared with {}", file.b.name, file.a.name));
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    let counts = format!(
        "tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\" time=\"{seconds:.3}\""
    );
    line(&mut text, &format!("<testsuites name=\"nodens-lab ab\" {counts}>"));
    line(&mut text, &format!("<testsuite name=\"{name}\" {counts}>"));
    for finding in &file.findings {
        let cell = &finding.cell;
        let class = escape(&format!("{}.{}", cell.set, cell.load.replace(' ', "")));
        let by = format!("{} ({})", estimate(finding), interval(finding));
        let message =
            escape(&format!("{}: {by}, p {}", verdict(finding), p_of(finding.p_adjusted)));
        let outcome = match finding.verdict {
            Verdict::Slower => format!("<failure message=\"{message}\" type=\"worse\"/>"),
            Verdict::Inconclusive => format!("<skipped message=\"{message}\"/>"),
            _ => format!("<system-out>{message}</system-out>"),
        };
        let metric = escape(&cell.metric);
        line(
            &mut text,
            &format!(
                "<testcase classname=\"{class}\" name=\"{metric}\" time=\"0\">{outcome}</testcase>"
            ),
        );
    }
    for why in file.invalid_because.iter().take(1) {
        let why = escape(why);
        line(
            &mut text,
            &format!(
                "<testcase classname=\"measurement\" name=\"valid\" time=\"0\"><error message=\"{why}\" type=\"invalid\"/></testcase>"
            ),
        );
    }
    text.push_str("</testsuite>\n</testsuites>\n");
    text
}
