//! Rules on the modules of `nodens-core`: none names a handler, and few import each other in a
//! circle.
//!
//! A module is a file or folder in `src`, and so is each folder in `src/handlers`. A reference is a
//! path through `crate`, `super`, `self`, a module below or an imported one, tests left out. The
//! enum of handlers and the list of directives name every handler, which is what they are for:
//! these references do not count. So a handler is in a circle only if something that it uses names
//! it.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::tokens::{is_cfg_test, is_punct, is_test_path, item_length};
use super::{Finding, Tree, finding};

const SOURCES: &str = "crates/nodens-core/src/";
const ROOT: &str = "crates/nodens-core/src/lib.rs";
const HANDLERS: &str = "handlers";
/// The modules that name every handler.
const REGISTRIES: [&str; 2] = [HANDLERS, "directives"];
/// The most modules in one circle. It only ever falls.
const CIRCLE_MAX: usize = 8;

/// Which modules each module names, and where first.
type Graph = BTreeMap<String, BTreeMap<String, Place>>;

/// A file and a line.
type Place = (String, usize);

/// A module or an item by its names from the root of the crate.
type Path = Vec<String>;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let graph = graph(tree);
    let mut findings = upwards(&graph);
    findings.extend(judge(&largest_circle(&graph), CIRCLE_MAX));
    findings
}

/// The circle in one line.
pub(super) fn summary(tree: &Tree) -> String {
    let circle = largest_circle(&graph(tree));
    format!("{} modules of nodens-core import each other: {}", circle.len(), list(&circle))
}

fn judge(circle: &BTreeSet<String>, most: usize) -> Option<Finding> {
    let count = circle.len();
    if count < most {
        let message = format!("the circle has {count} modules: set CIRCLE_MAX to that");
        return Some(finding("xtask/src/tidy/floors.rs", 1, message));
    }
    let names = list(circle);
    let message = format!("{count} modules import each other, at most {most}: {names}");
    (count > most).then(|| finding(ROOT, 1, message))
}

/// Where modules that handlers stand on name one of them.
fn upwards(graph: &Graph) -> Vec<Finding> {
    let lower = graph.iter().filter(|(from, _)| !is_handler(from));
    let named =
        lower.flat_map(|(from, targets)| targets.iter().map(move |(to, at)| (from, to, at)));
    let upward = named.filter(|(_, to, _)| is_handler(to));
    let message = |from: &str, to: &str| {
        format!(
            "`{from}` names `{to}`, which stands above it: let the handler declare what it needs"
        )
    };
    upward.map(|(from, to, (path, line))| finding(path, *line, message(from, to))).collect()
}

fn list(circle: &BTreeSet<String>) -> String {
    circle.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn is_handler(module: &str) -> bool {
    module.starts_with("handlers::")
}

fn graph(tree: &Tree) -> Graph {
    let files = || {
        tree.with_extension("rs").filter_map(|file| {
            let inside = file.path.strip_prefix(SOURCES)?;
            (!is_test_path(&file.path)).then_some((file, inside))
        })
    };
    let mut modules = Modules::of(files().map(|(_, inside)| inside));
    modules.exported = tree.file(ROOT).map(|root| modules.exports(&root.text)).unwrap_or_default();
    let mut graph = Graph::new();
    for (file, inside) in files() {
        let own = module_path(inside);
        let Some(from) = modules.counted(&own) else { continue };
        for (path, line) in modules.references(&own, &file.text) {
            let Some(to) = modules.counted(&path) else { continue };
            let is_listed = REGISTRIES.contains(&from.as_str()) && is_handler(&to);
            if to != from && !is_listed {
                let place = (file.path.clone(), line);
                graph.entry(from.clone()).or_default().entry(to).or_insert(place);
            }
        }
    }
    graph
}

/// `handlers/cache/mod.rs` → `handlers`, `cache`; nothing for the root.
fn module_path(inside: &str) -> Path {
    let path = inside.strip_suffix(".rs").unwrap_or(inside);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.split('/').filter(|part| *part != "lib").map(str::to_owned).collect()
}

/// The modules of the crate.
#[derive(Default)]
struct Modules {
    all: BTreeSet<Path>,
    /// Folders of `handlers`.
    handlers: BTreeSet<String>,
    /// Names that the root re-exports, and where they come from.
    exported: BTreeMap<String, Path>,
}

impl Modules {
    fn of<'a>(files: impl Iterator<Item = &'a str>) -> Self {
        let mut modules = Self::default();
        for inside in files {
            let path = module_path(inside);
            modules.all.extend((1..=path.len()).map(|len| path[..len].to_vec()));
            if let [HANDLERS, handler, _, ..] = *inside.split('/').collect::<Vec<_>>() {
                modules.handlers.insert(handler.to_owned());
            }
        }
        modules
    }

    /// What the root re-exports.
    fn exports(&self, text: &str) -> BTreeMap<String, Path> {
        let names = self.references(&[], text).into_iter();
        names.filter_map(|(path, _)| Some((path.last()?.clone(), path.clone()))).collect()
    }

    /// The name of the module that counts for `path`.
    fn counted(&self, path: &[String]) -> Option<String> {
        match path {
            [first, second, ..] if first == HANDLERS && self.handlers.contains(second) => {
                Some(format!("{HANDLERS}::{second}"))
            }
            [name] if !self.all.contains(path) => self.counted(self.exported.get(name)?),
            [first, ..] => self.all.contains(&path[..1]).then(|| first.clone()),
            [] => None,
        }
    }

    /// What the module `own` names, with lines.
    fn references(&self, own: &[String], text: &str) -> Vec<(Path, usize)> {
        // What does not lex is a finding of another rule.
        let Ok(stream) = text.parse() else { return Vec::new() };
        let mut written = Vec::new();
        paths_in(stream, &mut written);
        let mut imported: BTreeMap<String, Path> = BTreeMap::new();
        for (path, _) in &written {
            if let Some(path) = absolute(path, own)
                && self.all.contains(&path)
                && let Some(name) = path.last()
            {
                imported.insert(name.clone(), path.clone());
            }
        }
        let resolve = |(path, line): (Path, usize)| {
            let resolved = absolute(&path, own).or_else(|| {
                let (head, rest) = path.split_first()?;
                let below = [own, std::slice::from_ref(head)].concat();
                let module = if self.all.contains(&below) { &below } else { imported.get(head)? };
                Some([module.as_slice(), rest].concat())
            });
            Some((resolved?, line))
        };
        written.into_iter().filter_map(resolve).collect()
    }
}

/// The path from the root, of one that begins with `crate`, `self` or `super` in the module `own`.
fn absolute(path: &[String], own: &[String]) -> Option<Path> {
    let (head, mut rest) = path.split_first()?;
    let mut module = own.to_vec();
    match head.as_str() {
        "crate" => module.clear(),
        "self" => {}
        "super" => _ = module.pop(),
        _ => return None,
    }
    while let Some(("super", behind)) = rest.split_first().map(|(name, rest)| (name.as_str(), rest))
    {
        module.pop();
        rest = behind;
    }
    // `use crate::stream::{self, Stream}`
    module.extend(rest.iter().filter(|name| *name != "self").cloned());
    Some(module)
}

/// Collects the paths of two names or more, those of a `use` with braces one by one.
fn paths_in(stream: TokenStream, into: &mut Vec<(Path, usize)>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        let rest = &tokens[at..];
        if is_cfg_test(rest) {
            at += item_length(rest);
            continue;
        }
        match &tokens[at] {
            TokenTree::Ident(_) if has_colons(&tokens[at + 1..]) => {
                at += path_at(rest, &[], into);
                continue;
            }
            TokenTree::Group(group) => paths_in(group.stream(), into),
            _ => {}
        }
        at += 1;
    }
}

fn has_colons(rest: &[TokenTree]) -> bool {
    is_punct(rest.first(), ':') && is_punct(rest.get(1), ':')
}

/// Reads the path at the start of `rest`, below `prefix`, and says how many tokens it takes.
fn path_at(rest: &[TokenTree], prefix: &[String], into: &mut Vec<(Path, usize)>) -> usize {
    let mut path = prefix.to_vec();
    let line = rest.first().map_or(0, |token| token.span().start().line);
    let mut at = 0;
    while let Some(TokenTree::Ident(name)) = rest.get(at) {
        path.push(name.to_string());
        at += 1;
        if !has_colons(&rest[at..]) {
            break;
        }
        at += 2;
    }
    match rest.get(at) {
        Some(TokenTree::Group(group))
            if group.delimiter() == Delimiter::Brace
                && has_colons(&rest[at.saturating_sub(2)..]) =>
        {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            for part in inner.split(|token| is_punct(Some(token), ',')) {
                path_at(part, &path, into);
            }
            at + 1
        }
        _ => {
            if path.len() > prefix.len() {
                into.push((path, line));
            }
            at.max(1)
        }
    }
}

/// The largest set of modules of which each leads to each other; empty if there is no circle.
fn largest_circle(graph: &Graph) -> BTreeSet<String> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|module| (module, reach(graph, module))).collect();
    let circle = |module: &String| -> BTreeSet<String> {
        let back = |other: &&&String| reached.get(**other).is_some_and(|all| all.contains(module));
        let ahead = reached.get(module).into_iter().flatten();
        ahead.filter(back).map(|other| (*other).clone()).collect()
    };
    graph.keys().map(circle).max_by_key(BTreeSet::len).unwrap_or_default()
}

/// All modules to which there is a way from `start`.
fn reach<'g>(graph: &'g Graph, start: &String) -> BTreeSet<&'g String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = graph.get(start).into_iter().flat_map(BTreeMap::keys).collect();
    while let Some(module) = open.pop() {
        if reached.insert(module) {
            open.extend(graph.get(module).into_iter().flat_map(BTreeMap::keys));
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(files: &[(&str, &str)]) -> String {
        let files: Vec<_> =
            files.iter().map(|(path, text)| (format!("{SOURCES}{path}"), *text)).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        list(&largest_circle(&graph(&Tree::of(&files))))
    }

    #[test]
    fn modules_that_import_each_other_are_a_circle() {
        let job = ("job.rs", "use crate::time::Now;\npub struct Job(crate::config::Config);");
        let config = ("config/build.rs", "use crate::{job::{self, Job}, time};");
        assert_eq!(circle(&[job, config, ("config/mod.rs", ""), ("time.rs", "")]), "config, job");
        assert_eq!(circle(&[job, ("config/mod.rs", "use super::time;"), ("time.rs", "")]), "");
        let through = ("config/mod.rs", "use super::job;\nfn f(job: job::Job) {}");
        assert_eq!(circle(&[job, through]), "config, job");
        let exported = ("config/mod.rs", "use crate::Job;");
        assert_eq!(
            circle(&[job, exported, ("lib.rs", "pub use job::{Asker, Job};")]),
            "config, job"
        );
    }

    #[test]
    fn tests_and_comments_do_not_count() {
        let job = ("job.rs", "use crate::config::Config;");
        let tested =
            "/// [`crate::job`]\n#[cfg(test)]\nmod tests { use crate::job::Job; }\nfn f() {}";
        assert_eq!(circle(&[job, ("config/mod.rs", tested)]), "");
        assert_eq!(circle(&[job, ("config/tests/mod.rs", "use crate::job::Job;")]), "");
    }

    const WHOAMI: (&str, &str) = ("handlers/whoami/mod.rs", "use crate::job::Job;");

    #[test]
    fn a_handler_is_in_a_circle_if_what_it_uses_names_it() {
        let list =
            ("handlers/mod.rs", "handlers! { whoami::Whoami = \"whoami\" }\nuse crate::job;");
        let job = ("job.rs", "use crate::handlers::Handler;");
        assert_eq!(circle(&[WHOAMI, list, job]), "handlers, job");
        let naming = ("job.rs", "use crate::handlers;\nstruct Job(handlers::whoami::State);");
        assert_eq!(circle(&[WHOAMI, list, naming]), "handlers, handlers::whoami, job");
    }

    #[test]
    fn one_more_module_is_a_finding_and_so_is_one_less() {
        let circle = BTreeSet::from(["config".to_owned(), "job".to_owned()]);
        let found = |most| judge(&circle, most).map(|finding| finding.to_string());
        assert_eq!(found(2), None);
        assert!(found(1).unwrap().contains("2 modules import each other, at most 1: config, job"));
        assert!(found(3).unwrap().contains("set CIRCLE_MAX to that"));
    }

    #[test]
    fn only_the_lists_of_handlers_and_handlers_name_a_handler() {
        let upwards = |files: &[(&'static str, &'static str)]| {
            let path =
                |(path, text): &(&'static str, &'static str)| (format!("{SOURCES}{path}"), *text);
            let files: Vec<(String, &'static str)> = files.iter().map(path).collect();
            let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
            let findings = upwards(&graph(&Tree::of(&files))).into_iter();
            findings.map(|finding| finding.to_string()).collect::<Vec<_>>()
        };
        let other = ("handlers/any/mod.rs", "use super::whoami::Whoami;");
        let list = ("directives.rs", "use crate::handlers;\nconst A: Spec = handlers::any::SPEC;");
        assert!(upwards(&[WHOAMI, other, list]).is_empty());
        let found = upwards(&[WHOAMI, ("job.rs", "\nuse crate::handlers::whoami::State;")]);
        assert!(found[0].starts_with("crates/nodens-core/src/job.rs:2: `job` names"), "{found:?}");
    }
}
