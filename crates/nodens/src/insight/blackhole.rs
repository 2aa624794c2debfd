//! `nodens blackhole NAME`: the lines that answer a leaking name here, found, checked and, if
//! wanted, written.

#![allow(clippy::print_stdout, reason = "this is the program's output")]

use super::options::{Known, Options, usage};
use super::refusal::Refusal;
use crate::check;
use crate::flags::Flags;
use crate::load::{self, Source};
use nodens_core::handlers::template::denies;
use nodens_corefile::{Corefile, Directive, Position, ServerBlock, parse_key};
use nodens_wire::Name;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "blackhole NAME [FLAG…]: answer a name that leaks here, with NXDOMAIN";
const KNOWN: &[Known] = &[
    ("conf", "FILE", "the Corefile (default: Corefile)"),
    ("h", "", "the same as -help"),
    ("help", "", "explain the flags"),
    ("search", "DOMAINS", "search domains it is looked for in as well, separated by commas"),
    ("search-only", "DOMAINS", "the same, but the name by itself is left alone"),
    ("write", "", "put the lines into the Corefile instead of printing them"),
];

/// Prints or writes the lines, or says why not.
pub(crate) fn run(arguments: impl IntoIterator<Item = String>) -> ExitCode {
    let options = match Options::read(arguments, KNOWN) {
        Ok(options) if options.has("help") || options.has("h") => {
            print!("{}", usage(USAGE, KNOWN));
            return ExitCode::SUCCESS;
        }
        Ok(options) => options,
        Err(error) => {
            eprint!("{error}\n{}", usage(USAGE, KNOWN));
            return ExitCode::from(2);
        }
    };
    match act(&options) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("nodens blackhole: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A name, or all names below one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    name: Name,
    below: bool,
}

impl Target {
    /// A regular expression for the name as `template` sees it: in lower case, with final dot.
    fn pattern(&self) -> String {
        let text = self.name.to_folded().to_string();
        let mut pattern = String::from(if self.below { "[.]" } else { "^" });
        for character in text.chars() {
            match character {
                '.' => pattern.push_str("[.]"),
                c if c.is_ascii_alphanumeric() || c == '-' || c == '_' => pattern.push(c),
                c => pattern.extend(['[', c, ']']),
            }
        }
        pattern.push('$');
        pattern
    }

    /// A name that has to be refused.
    fn example(&self) -> Option<Name> {
        match self.below {
            true => "nodens-blackhole".parse::<Name>().ok()?.join(self.name.view()).ok(),
            false => Some(self.name.clone()),
        }
    }
}

fn act(options: &Options) -> Result<String, Refusal> {
    let targets = targets(options)?;
    let flags =
        Flags { conf: options.get("conf").unwrap_or_default().to_owned(), ..Flags::default() };
    let (loaded, before) = check::compile(&flags)?;
    let Source { name: file, text, path, .. } = &loaded.source;
    let plan = plan(&loaded.tree, targets)?;
    let mut places = Vec::new();
    for (block, targets) in &plan {
        let block = loaded.tree.blocks.get(*block).ok_or(Refusal::NoBlock)?;
        places.push((place(block, file, text)?, lines(targets), keys(block)));
    }
    let changed = insert(text, &places);
    let source = Source { text: changed.clone(), ..loaded.source.clone() };
    let new = load::parse_anew(source).map_err(Refusal::NotAccepted)?;
    let after = check::compile_loaded(&new, &flags).map_err(Refusal::NotAccepted)?;
    if !only_in(&plan, &loaded.tree, &new.tree) {
        return Err(Refusal::OtherBlocks);
    }
    for target in plan.values().flatten() {
        let Some(name) = target.example() else { continue };
        if !denies(&after, name.view()) {
            return Err(Refusal::AnsweredBefore(name));
        }
        // The lines must not take more than they are meant to.
        let beside = beside(&name).filter(|_| !target.below);
        if let Some(other) =
            beside.filter(|n| denies(&after, n.view()) && !denies(&before, n.view()))
        {
            return Err(Refusal::TakesMore(other));
        }
    }
    match (options.has("write"), path) {
        (false, _) => Ok(explain(&places, file)),
        (true, Some(path)) => {
            write(path, &changed).map_err(|error| Refusal::Write { path: path.clone(), error })?;
            let text =
                "The server takes it up by itself if its Corefile has `reload`, else on SIGUSR1.";
            Ok(format!("{file}: written. {text}\n"))
        }
        (true, None) => Err(Refusal::NotWritable(file.clone())),
    }
}

/// Another name with the same parent.
fn beside(name: &Name) -> Option<Name> {
    "nodens-other-name".parse::<Name>().ok()?.join(name.view().parent()?).ok()
}

/// What is to be refused.
fn targets(options: &Options) -> Result<Vec<Target>, Refusal> {
    let [name] = &*options.words else {
        return Err(Refusal::Words);
    };
    let (text, below) = match name.strip_prefix("*.") {
        Some(rest) => (rest, true),
        None => (&**name, false),
    };
    let base: Name = parse(text, name)?;
    if base.view().is_root() {
        return Err(Refusal::EveryName(name.clone()));
    }
    let only = options.get("search-only");
    let mut targets = Vec::new();
    if only.is_none() {
        targets.push(Target { name: base.clone(), below });
    }
    let domains = [options.get("search"), only];
    for domain in domains.into_iter().flatten().flat_map(|list| list.split(',')) {
        let domain = domain.trim();
        if domain.is_empty() {
            continue;
        }
        let domain = parse(domain, domain)?;
        let joined = base.join(domain.view());
        let name =
            joined.map_err(|error| Refusal::Joined { name: format!("{text}.{domain}"), error })?;
        targets.push(Target { name, below });
    }
    Ok(targets)
}

/// The name `text`, which was written as `written`.
fn parse(text: &str, written: &str) -> Result<Name, Refusal> {
    text.parse().map_err(|error| Refusal::NoName { written: written.to_owned(), error })
}

/// Which server block each name belongs to, by the longest zone.
fn plan(tree: &Corefile, targets: Vec<Target>) -> Result<BTreeMap<usize, Vec<Target>>, Refusal> {
    let mut zones = Vec::new();
    for (index, block) in tree.blocks.iter().enumerate() {
        for key in &block.keys {
            for zone in parse_key(key)? {
                zones.extend(zone.zone.parse::<Name>().ok().map(|zone| (zone, index)));
            }
        }
    }
    let mut plan: BTreeMap<usize, Vec<Target>> = BTreeMap::new();
    for target in targets {
        let serves = zones.iter().filter(|(zone, _)| target.name.view().is_in_domain(zone.view()));
        let longest = serves.clone().map(|(zone, _)| zone.view().label_count()).max();
        let mut blocks: Vec<_> = serves
            .filter(|(zone, _)| Some(zone.view().label_count()) == longest)
            .map(|(_, block)| *block)
            .collect();
        blocks.dedup();
        if blocks.is_empty() {
            return Err(Refusal::NotServed(target.name));
        }
        for block in blocks {
            plan.entry(block).or_default().push(target.clone());
        }
    }
    Ok(plan)
}

/// The index of the line in front of which lines can be put into a block: that of its first
/// directive that stands in the file itself.
fn place(block: &ServerBlock, file: &str, text: &str) -> Result<usize, Refusal> {
    let lines: Vec<&str> = text.lines().collect();
    let first = |directive: &&Directive| {
        let position = written_at(directive);
        &*position.file == file
            && lines.get(position.line as usize - 1).is_some_and(|line| {
                line.chars().take(position.column as usize - 1).all(char::is_whitespace)
            })
    };
    let directive = block.directives.iter().find(first);
    let directive = directive.ok_or_else(|| Refusal::NoLine(keys(block)))?;
    Ok(written_at(directive).line as usize - 1)
}

/// Where the block itself has the directive, or the `import` that leads to it: snippets on the way
/// may belong to other blocks too.
fn written_at(directive: &Directive) -> &Position {
    let Some(mut import) = directive.imported.as_deref() else { return &directive.name.position };
    while let Some(outer) = import.outer.as_deref() {
        import = outer;
    }
    &import.position
}

/// Whether the lines stand in the blocks of `plan`, once each, and in no other.
fn only_in(plan: &BTreeMap<usize, Vec<Target>>, before: &Corefile, after: &Corefile) -> bool {
    let mut blocks = before.blocks.iter().zip(&after.blocks).enumerate();
    let grown = |(index, (before, after)): (usize, (&ServerBlock, &ServerBlock))| {
        let lines = usize::from(plan.contains_key(&index));
        after.directives.len() == before.directives.len() + lines
    };
    before.blocks.len() == after.blocks.len() && blocks.all(grown)
}

fn keys(block: &ServerBlock) -> String {
    block.keys.iter().map(|key| key.text.as_str()).collect::<Vec<_>>().join(" ")
}

fn lines(targets: &[Target]) -> String {
    let mut text = String::from("    template IN ANY {\n");
    for target in targets {
        text.push_str(&format!("        match {}\n", target.pattern()));
    }
    text.push_str("        rcode NXDOMAIN\n        fallthrough\n    }\n");
    text
}

/// The Corefile with the lines in it.
fn insert(text: &str, places: &[(usize, String, String)]) -> String {
    let mut changed = String::new();
    for (index, line) in text.lines().enumerate() {
        for (_, lines, _) in places.iter().filter(|(at, ..)| *at == index) {
            changed.push_str(lines);
        }
        changed.push_str(line);
        changed.push('\n');
    }
    changed
}

fn explain(places: &[(usize, String, String)], file: &str) -> String {
    let mut text = String::new();
    for (at, lines, keys) in places {
        text.push_str(&format!(
            "# in {file}, server block `{keys}`, before line {}:\n{lines}\n",
            at + 1
        ));
    }
    text.push_str(
        "# Checked: the Corefile is accepted with these lines, and they refuse what they should.\n",
    );
    text.push_str("# -write puts them there. Take them out again when the client is mended.\n");
    text
}

/// Replaces the file whole, or not at all.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let target = std::fs::canonicalize(path)?;
    let mut name = target.clone().into_os_string();
    name.push(".nodens-new");
    let permissions = std::fs::metadata(&target)?.permissions();
    std::fs::write(&name, text)?;
    std::fs::set_permissions(&name, permissions)?;
    std::fs::rename(&name, &target)
}
