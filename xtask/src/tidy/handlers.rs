//! Rules on handlers: each directive's folder documents it, in sections that users of CoreDNS know; and one that says
//! that it looks at no question has no code for questions, which would never be called.

use std::collections::BTreeSet;

use super::{Finding, Tree, finding};

const HANDLERS: &str = "crates/nodens-core/src/handlers/";

const SECTIONS: &[&str] = &["Name", "Description", "Syntax", "Examples", "Metrics", "Differences"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let names: BTreeSet<&str> = tree
        .paths
        .iter()
        .filter_map(|path| path.strip_prefix(HANDLERS)?.split_once('/').map(|(name, _)| name))
        .collect();
    let documented = names.iter().flat_map(|name| check_handler(tree, name));
    let code = tree.with_extension("rs").filter(|file| file.path.starts_with(HANDLERS));
    documented.chain(code.flat_map(|file| unreached(&file.path, &file.text))).collect()
}

/// Each `answer` of a `Handle` that is passed without being called. The compiler sees to the opposite.
fn unreached(path: &str, text: &str) -> Vec<Finding> {
    let (mut passed, mut answer, mut findings) = (false, None, Vec::new());
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("impl") {
            (passed, answer) = (false, None);
        }
        let line = line.trim_start();
        passed |= line.starts_with("const LOOKS_AT_QUESTIONS: bool = false");
        if line.starts_with("fn answer(") {
            answer = Some(index + 1);
        }
        if let Some(at) = answer.take_if(|_| passed) {
            let message =
                "`answer` is never called where LOOKS_AT_QUESTIONS is false: remove one of the two";
            findings.push(finding(path, at, message));
        }
    }
    findings
}

fn check_handler(tree: &Tree, name: &str) -> Vec<Finding> {
    let path = format!("{HANDLERS}{name}/README.md");
    let Some(readme) = tree.file(&path) else {
        return vec![finding(&path, 1, format!("handler `{name}` has no README.md"))];
    };
    let sections: Vec<(usize, &str, bool)> = sections(&readme.text);
    let mut findings = Vec::new();
    for wanted in SECTIONS {
        match sections.iter().find(|(_, title, _)| title.eq_ignore_ascii_case(wanted)) {
            None => findings.push(finding(&path, 1, format!("section `## {wanted}` is missing"))),
            Some((line, _, false)) => {
                findings.push(finding(&path, *line, format!("section `{wanted}` is empty")));
            }
            Some(_) => {}
        }
    }
    findings
}

/// Second-level headings with their line and whether text follows before the next one.
fn sections(text: &str) -> Vec<(usize, &str, bool)> {
    let mut sections: Vec<(usize, &str, bool)> = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        let fence = line.starts_with("```") || line.starts_with("~~~");
        fenced ^= fence;
        let title = line.strip_prefix("## ").filter(|_| !fenced);
        if let Some(title) = title {
            sections.push((index + 1, title.trim(), false));
        } else if !line.trim().is_empty()
            && let Some(section) = sections.last_mut()
        {
            section.2 = true;
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "crates/nodens-core/src/handlers/any/README.md";

    fn readme(without: &str) -> String {
        SECTIONS.iter().filter(|s| **s != without).map(|s| format!("## {s}\n\nText.\n\n")).collect()
    }

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_section_is_wanted() {
        assert!(findings(&[(PATH, &readme(""))]).is_empty());
        for section in SECTIONS {
            let found = findings(&[(PATH, &readme(section))]);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(section));
        }
    }

    #[test]
    fn a_handler_without_readme() {
        let found = findings(&[("crates/nodens-core/src/handlers/any/mod.rs", "")]);
        assert!(found[0].contains("handler `any` has no README.md"));
        assert!(findings(&[("crates/nodens-core/src/handlers/mod.rs", "")]).is_empty());
    }

    #[test]
    fn an_answer_that_is_never_called() {
        let says = "const LOOKS_AT_QUESTIONS: bool = false;";
        let answers = "fn answer(&self, cx: &mut Cx<'_>) -> Step {\n        Step::Next\n    }";
        let code = |items: &[&str]| {
            let items: String = items.iter().map(|item| format!("    {item}\n\n")).collect();
            format!("impl Handle for Any {{\n{items}}}\n\nimpl Any {{\n    {answers}\n}}\n")
        };
        let lines = |text: &str| -> Vec<usize> {
            unreached("any.rs", text).iter().map(|finding| finding.line).collect()
        };
        assert_eq!(lines(&code(&[says, answers])), [4]);
        assert_eq!(lines(&code(&[answers, says])), [2]);
        assert!(lines(&code(&[says])).is_empty() && lines(&code(&[answers])).is_empty());
        let path = "crates/nodens-core/src/handlers/any/mod.rs";
        let found = findings(&[(path, &code(&[says, answers])), (PATH, &readme(""))]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn empty_sections_and_headings_in_code_do_not_count() {
        let empty = readme("Metrics") + "## Metrics\n\n";
        assert!(findings(&[(PATH, &empty)])[0].contains("`Metrics` is empty"));
        let in_code = readme("Metrics") + "```\n## Metrics\nx\n```\n";
        assert!(findings(&[(PATH, &in_code)])[0].contains("`## Metrics` is missing"));
    }
}
