//! Rule on handlers: each directive's folder documents it, in sections that users of CoreDNS know.

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
    names.iter().flat_map(|name| check_handler(tree, name)).collect()
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
    fn empty_sections_and_headings_in_code_do_not_count() {
        let empty = readme("Metrics") + "## Metrics\n\n";
        assert!(findings(&[(PATH, &empty)])[0].contains("`Metrics` is empty"));
        let in_code = readme("Metrics") + "```\n## Metrics\nx\n```\n";
        assert!(findings(&[(PATH, &in_code)])[0].contains("`## Metrics` is missing"));
    }
}
