//! The list of the lab's invariants, each with what breaks it and the test that notices, and what
//! must be true of the list without running anything.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::fmt::Write;

/// The list.
pub(crate) const LIST: &str = "docs/truth.toml";
/// What is made from it.
pub(crate) const PAGE: &str = "docs/truth.md";
/// How many invariants there are.
pub(crate) const INVARIANTS: usize = 24;

const HEAD: &str = "\
# What keeps the lab honest

`nodens-lab` promises what is below about its numbers and about what it changes. Each has a test that was seen to fail: \
the code was broken on purpose as the third column says, and the test in the last column noticed. `make truth` breaks \
it again, one place after the other, in a copy of the repository, and prints how many promises were caught.

This page is made from `docs/truth.toml` by `cargo xtask mutations --write`.

| | promise | what was broken | the test that noticed |
|---|---|---|---|
";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    #[serde(rename = "invariant")]
    pub(crate) invariants: Vec<Invariant>,
}

/// A promise.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Invariant {
    /// `I1`, `I2` and so on.
    pub(crate) id: String,
    /// The promise in words.
    says: String,
    #[serde(rename = "mutation")]
    pub(crate) mutations: Vec<Mutation>,
}

/// A way to break a promise.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutation {
    /// What is wrong then, in words.
    pub(crate) what: String,
    /// The file, from the root of the repository.
    pub(crate) file: String,
    /// What stands there exactly once.
    pub(crate) from: String,
    /// What stands there instead.
    pub(crate) to: String,
    /// The crate whose test notices.
    pub(crate) package: String,
    /// The test with its modules, as `cargo test` prints it.
    pub(crate) test: String,
    /// Which of the crate's test programs has it: `lib` or `bin` for unit tests, or the name of one
    /// below `tests/`.
    #[serde(default = "lib")]
    target: String,
}

/// The arguments that build the program of a test, and the test.
pub(crate) type ProgramAndTest = (Vec<String>, String);

fn lib() -> String {
    "lib".to_owned()
}

impl Mutation {
    /// The arguments that make `cargo test` build and run the test's program.
    pub(crate) fn program(&self) -> Vec<&str> {
        let mut arguments = vec!["-p", &self.package];
        arguments.extend(match &*self.target {
            "lib" => vec!["--lib"],
            "bin" => vec!["--bin", &self.package],
            name => vec!["--test", name],
        });
        arguments
    }

    /// Which test of which program.
    pub(crate) fn program_and_test(&self) -> ProgramAndTest {
        let program = self.program().into_iter().map(str::to_owned).collect();
        (program, self.test.clone())
    }

    /// The folder of the crate that it breaks.
    pub(crate) fn crate_folder(&self) -> &str {
        self.file.split("/src/").next().unwrap_or(&self.file)
    }

    /// Where the source of the test's program may be.
    fn sources(&self) -> Vec<String> {
        let parts = match &*self.target {
            "lib" => vec!["src/lib.rs".to_owned()],
            "bin" => vec!["src/main.rs".to_owned()],
            name => vec![format!("tests/{name}.rs"), format!("tests/{name}/main.rs")],
        };
        parts.iter().map(|part| format!("lab/{}/{part}", self.package)).collect()
    }

    /// `text` with the mutation; an error unless what it replaces stands there exactly once.
    pub(crate) fn apply(&self, text: &str) -> std::result::Result<String, String> {
        match text.matches(&self.from).count() {
            _ if self.from == self.to || self.from.is_empty() => {
                Err("replaces nothing: `from` and `to` must differ".to_owned())
            }
            1 => Ok(text.replacen(&self.from, &self.to, 1)),
            count => Err(format!(
                "`{}` is {count} times in {}, expected once: adapt the mutation to the code",
                self.from.trim(),
                self.file
            )),
        }
    }
}

pub(crate) fn parse(text: &str) -> Result<List> {
    toml::from_str(text).with_context(|| LIST.to_owned())
}

/// The page.
pub(crate) fn page(list: &List) -> String {
    let mut page = HEAD.to_owned();
    for invariant in &list.invariants {
        for (at, mutation) in invariant.mutations.iter().enumerate() {
            let (id, says) = if at == 0 { (&*invariant.id, &*invariant.says) } else { ("", "") };
            let Mutation { what, file, package, test, .. } = mutation;
            // Writing to a string does not fail.
            _ = writeln!(page, "| {id} | {says} | {what} (`{file}`) | `{package}`: `{test}` |");
        }
    }
    page
}

/// What is wrong with the list: line numbers are those of the list. `read` gives a file of the
/// repository; `has_test` says whether a crate has a function of this name.
pub(crate) fn check<'t>(
    text: &str,
    page_text: &str,
    read: impl Fn(&str) -> Option<&'t str>,
    has_test: impl Fn(&str, &str) -> bool,
) -> Vec<(usize, String)> {
    let list = match parse(text) {
        Ok(list) => list,
        Err(error) => return vec![(1, format!("{error:#}"))],
    };
    let mut found = Vec::new();
    let count = list.invariants.len().max(INVARIANTS);
    let wanted = (1..=count).map(|number| format!("I{number}"));
    if !wanted.eq(list.invariants.iter().map(|invariant| invariant.id.clone())) {
        found.push((1, format!("expected I1 to I{count}, each once and in order")));
    }
    for invariant in &list.invariants {
        let at = line_of(text, &format!("id = \"{}\"", invariant.id));
        if invariant.mutations.is_empty() {
            found.push((at, format!("{} has no mutation", invariant.id)));
        }
        for mutation in &invariant.mutations {
            let at = line_of(text, &mutation.what);
            let applied = read(&mutation.file)
                .ok_or_else(|| format!("there is no file {}", mutation.file))
                .and_then(|code| mutation.apply(code));
            found.extend(applied.err().map(|message| (at, format!("{}: {message}", invariant.id))));
            let programs = mutation.sources();
            if programs.iter().all(|path| read(path).is_none()) {
                let text = format!("{}: there is no file {}", invariant.id, programs.join(" or "));
                found.push((at, text));
            }
            let name = mutation.test.rsplit("::").next().unwrap_or_default();
            if !has_test(&mutation.package, name) {
                let Mutation { package, .. } = mutation;
                found.push((at, format!("{}: {package} has no test `{name}`", invariant.id)));
            }
        }
    }
    if page(&list) != page_text {
        found.push((1, format!("{PAGE} is not what the list says: cargo xtask mutations --write")));
    }
    found
}

fn line_of(text: &str, part: &str) -> usize {
    text.find(part).map_or(1, |at| text[..at].matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(count: usize, from: &str) -> String {
        let mut text = String::new();
        for number in 1..=count {
            text += &format!(
                "[[invariant]]\nid = \"I{number}\"\nsays = \"it holds\"\n[[invariant.mutation]]\n\
                 what = \"it breaks\"\nfile = \"a.rs\"\nfrom = '{from}'\nto = 'b'\n\
                 package = \"p\"\ntest = \"m::t\"\n\n"
            );
        }
        text
    }

    fn found(text: &str, code: Option<&str>) -> Vec<String> {
        let page = parse(text).map(|list| page(&list)).unwrap_or_default();
        let has_test = |package: &str, name: &str| (package, name) == ("p", "t");
        check(text, &page, |_| code, has_test).into_iter().map(|(_, message)| message).collect()
    }

    #[test]
    fn a_whole_list_has_no_fault_and_each_part_of_it_is_needed() {
        assert!(found(&list(24, "a"), Some("x a y")).is_empty());
        assert!(found(&list(26, "a"), Some("x a y")).is_empty());
        let twice = list(26, "a").replace("\"I26\"", "\"I25\"");
        assert!(found(&twice, Some("a"))[0].contains("expected I1 to I26"));
        assert!(found(&list(23, "a"), Some("a"))[0].contains("expected I1 to I24"));
        assert!(found(&list(24, "a"), Some("a a"))[0].contains("is 2 times in a.rs"));
        assert!(found(&list(24, "a"), Some("z"))[0].contains("is 0 times in a.rs"));
        assert!(found(&list(24, "b"), Some("b"))[0].contains("must differ"));
        assert!(found(&list(24, "a"), None)[0].contains("no file a.rs"));
        let other = list(24, "a").replace("m::t", "m::u");
        assert!(found(&other, Some("a"))[0].contains("p has no test `u`"));
        assert!(found("what", None)[0].contains(LIST));
        let no_program = |path: &str| (!path.ends_with("lib.rs")).then_some("a");
        let page = page(&parse(&list(24, "a")).unwrap());
        let found = check(&list(24, "a"), &page, no_program, |_, _| true);
        assert!(found[0].1.contains("no file lab/p/src/lib.rs"), "{found:?}");
        let stale = check(&list(24, "a"), "old", |_| Some("a"), |_, _| true);
        assert!(stale[0].1.contains("--write"));
    }

    #[test]
    fn a_mutation_changes_one_place() {
        let list = parse(&list(1, "a")).unwrap();
        assert_eq!(list.invariants[0].mutations[0].apply("x a y").unwrap(), "x b y");
        assert_eq!(list.invariants[0].mutations[0].program(), ["-p", "p", "--lib"]);
        assert!(page(&list).ends_with("| I1 | it holds | it breaks (`a.rs`) | `p`: `m::t` |\n"));
    }
}
