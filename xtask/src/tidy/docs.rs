//! Rules on documents: the architecture's invariants name their check, every difference from CoreDNS can be known when it
//! is seen, links resolve, no path of one machine.

use super::{File, Finding, Tree, finding};
use nodens_judge::differences::Differences;

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const DIFFERENCES: &str = "docs/differences.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = invariants(tree);
    findings.extend(differences(tree));
    for file in tree.with_extension("md") {
        findings.extend(links(tree, file));
    }
    for file in &tree.files {
        findings.extend(machine_paths(file));
    }
    findings
}

/// Each numbered item under a heading that says "Invariants" ends in ``Check: `…` ``, where what is in backquotes is a
/// command (`cargo …`, `make …`), a path of the repository, or a Rust name that occurs in it.
fn invariants(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(ARCHITECTURE) else {
        return vec![finding(ARCHITECTURE, 1, "is missing: it is the map, with the invariants")];
    };
    let items = numbered_items(&file.text);
    if items.is_empty() {
        return vec![finding(ARCHITECTURE, 1, "has no numbered list under a heading `Invariants`")];
    }
    let mut findings = Vec::new();
    for (line, text) in items {
        let Some((_, check)) = text.rsplit_once("Check:") else {
            findings.push(finding(ARCHITECTURE, line, "invariant names no check: add Check: `…`"));
            continue;
        };
        let names: Vec<&str> = check.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            findings.push(finding(ARCHITECTURE, line, "nothing in backquotes follows `Check:`"));
        }
        for name in names.iter().filter(|name| !is_known_check(tree, name)) {
            let message = format!(
                "check `{name}` is no cargo or make command, path or Rust name of this tree"
            );
            findings.push(finding(ARCHITECTURE, line, message));
        }
    }
    findings
}

fn numbered_items(text: &str) -> Vec<(usize, String)> {
    let mut items: Vec<(usize, String)> = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('#') {
            inside = line.to_lowercase().contains("invariants");
        } else if inside {
            let number = line.split_once(". ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
            if number {
                items.push((index + 1, line.to_owned()));
            } else if let Some((_, item)) = items.last_mut() {
                item.push(' ');
                item.push_str(line.trim());
            }
        }
    }
    items
}

fn is_known_check(tree: &Tree, name: &str) -> bool {
    if name.starts_with("cargo ") || name.starts_with("make ") || tree.has_path(name) {
        return true;
    }
    let last = name.rsplit("::").next().unwrap_or(name);
    let is_name = !last.is_empty() && last.chars().all(|c| c.is_alphanumeric() || c == '_');
    let definitions = [format!("fn {last}("), format!("mod {last} "), format!("mod {last};")];
    is_name
        && tree.with_extension("rs").any(|file| definitions.iter().any(|d| file.text.contains(d)))
}

/// The list of differences is read as the checks read it that ask both servers: they begin with it and take long.
fn differences(tree: &Tree) -> Option<Finding> {
    let Some(file) = tree.file(DIFFERENCES) else {
        return Some(finding(DIFFERENCES, 1, "is missing: the checks against CoreDNS go by it"));
    };
    let error = Differences::parse(&file.text).err()?;
    Some(finding(DIFFERENCES, 1, format!("{error:#}")))
}

/// Every link to a file of the repository resolves, its anchor too.
fn links(tree: &Tree, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, target) in link_targets(&file.text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() { file.path.clone() } else { resolve(&file.path, path) };
        if !tree.has_path(&path) {
            findings.push(finding(&file.path, line, format!("link `{target}` leads nowhere")));
        } else if !anchor.is_empty()
            && let Some(linked) = tree.file(&path)
            && path.ends_with(".md")
            && !anchors(&linked.text).iter().any(|a| a == anchor)
        {
            let message = format!("link `{target}`: no such heading in {path}");
            findings.push(finding(&file.path, line, message));
        }
    }
    findings
}

/// Targets of `[text](target)` and `[label]: target` outside code.
fn link_targets(text: &str) -> Vec<(usize, &str)> {
    let mut targets = Vec::new();
    for (index, line) in prose(text) {
        // Pieces at odd places are between backquotes.
        for piece in line.split('`').step_by(2) {
            let inline = piece.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            targets.extend(inline.map(|(target, _)| (index, first_word(target))));
        }
        let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        targets.extend(definition.map(|(_, target)| (index, first_word(target))));
    }
    targets
}

/// A target without the title that may follow it.
fn first_word(target: &str) -> &str {
    target.split_whitespace().next().unwrap_or("")
}

/// Lines outside fenced code with their number from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let start = line.trim_start();
        let fence = start.starts_with("```") || start.starts_with("~~~");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

/// The path that `link` in the document at `from` means, relative to the root.
fn resolve(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if link.starts_with('/') {
        parts.clear();
    }
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors that a forge gives to the headings of a document.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// Folders whose presence in a text says that it holds on one machine only.
const MACHINE_FOLDERS: &[&str] =
    &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/Use", "rs/")];

fn machine_paths(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for folder in MACHINE_FOLDERS {
            let absolute = line.match_indices(folder).any(|(at, _)| {
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}~*/".contains(c))
            });
            if absolute {
                let message = format!("path of one machine (`{folder}`): make it relative");
                findings.push(finding(&file.path, index + 1, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(findings: Vec<Finding>) -> Vec<String> {
        findings.iter().map(ToString::to_string).collect()
    }

    fn invariants_of(list: &str) -> Vec<String> {
        let text = format!("# Map\n\n## Invariants\n\n{list}\n\n## Libraries\n\n1. Not one.\n");
        let code = "mod clock {}\nfn never_waits() {}\n";
        texts(invariants(&Tree::of(&[(ARCHITECTURE, &text), ("crates/a/src/lib.rs", code)])))
    }

    #[test]
    fn an_invariant_names_a_check_that_exists() {
        let good = "1. No clock\n   in the core. Check: `cargo xtask tidy`.\n\
                    2. B. Check: `a::never_waits`, `crates/a/src/lib.rs`";
        assert_eq!(invariants_of(good), [""; 0]);
        assert!(invariants_of("1. No clock.")[0].contains("ARCHITECTURE.md:5: invariant names no"));
        assert!(invariants_of("1. No clock. Check: by hand")[0].contains("nothing in backquotes"));
        assert!(invariants_of("1. No clock. Check: `a::gone`")[0].contains("`a::gone` is no"));
        assert!(invariants_of("None.")[0].contains("no numbered list"));
        assert!(texts(invariants(&Tree::of(&[])))[0].contains("is missing"));
    }

    #[test]
    fn a_difference_can_be_known_when_it_is_seen() {
        let row = "| id | CoreDNS | Nodens | reason |\n|---|---|---|---|\n| `late` | a | b | RFC 1035 |\n";
        let block = "```difference\nid: late\nfield: answer\n```\n";
        let of = |text: &str| differences(&Tree::of(&[(DIFFERENCES, text)])).map(|f| f.to_string());
        assert_eq!(of(&format!("{row}\n{block}")), None);
        let message = of(row).unwrap();
        assert!(message.starts_with("docs/differences.md:1: difference 'late' has no block"));
        assert!(of(block).unwrap().contains("which no row of the table has"));
        assert!(
            of(&format!("{row}\n{}", block.replace("field", "feild"))).unwrap().contains("feild")
        );
        assert!(differences(&Tree::of(&[])).is_some());
    }

    fn links_of(text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("docs/a.md", text),
            ("docs/b.md", "# Why so?\n\n```\n# not one\n```\n"),
            ("deploy/x/y.yaml", ""),
        ]);
        texts(links(&tree, &tree.files[0]))
    }

    #[test]
    fn links_resolve() {
        let good =
            "[b](b.md) [c](../deploy/x) [d](b.md#why-so) [e](https://x.org/gone)\n[f]: ./b.md\n";
        assert_eq!(links_of(good), [""; 0]);
        assert!(links_of("\n[b](gone.md)")[0].contains("docs/a.md:2: link `gone.md`"));
        assert!(links_of("[b](../../b.md)")[0].contains("leads nowhere"));
        assert!(links_of("[b](b.md#not-one)")[0].contains("no such heading"));
        assert!(links_of("[b]: gone.md")[0].contains("leads nowhere"));
        assert_eq!(links_of("`[b](gone.md)`\n```\n[b](gone.md)\n```\n"), [""; 0]);
    }

    #[test]
    fn paths_of_a_machine() {
        let check = |text: &str| {
            let file = File { path: "a.txt".into(), text: text.into() };
            machine_paths(&file).len()
        };
        for folder in MACHINE_FOLDERS {
            assert_eq!(check(&format!("ok\nsee {folder}me/x")), 1);
            assert_eq!(check(&format!("\"{folder}me\"")), 1);
            assert_eq!(check(&format!("https://example.org{folder}x and crates{folder}x")), 0);
        }
    }
}
