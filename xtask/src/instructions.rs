//! `cargo xtask bench-instructions`: how many instructions one question costs, chain by chain, and whether that is
//! within the budget of `bench/instructions.txt`.
//!
//! The example `hits` of `nodens-core` is run under callgrind, which counts the same whatever else the machine does.

use crate::repo;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

#[cfg(test)]
mod tests;

const USAGE: &str = "usage: cargo xtask bench-instructions [OPTION]
  (nothing)         print instructions per question
  --check           and fail if one is over its budget in bench/instructions.txt
  --save FILE       and write them to FILE
  --budget          and write them to bench/instructions.txt as the new budget
  --profile NAME    print where the instructions of one scenario go, by function
  compare A B       print the difference between two git revisions or saved results
                    ('.' is the working tree)";

/// The budget: what a question of each scenario may cost.
const BUDGET: &str = "bench/instructions.txt";
/// How far above its budget a count may be: another processor makes the C library choose other routines.
const TOLERANCE: f64 = 0.05;
/// The same where memory is allocated, which costs more or less with what lies where.
const TOLERANCE_ALLOCATING: f64 = 0.10;
/// The scenarios that allocate.
const ALLOCATING: [&str; 3] = ["cluster-change", "rewrite", "template"];
/// Questions that are counted for each scenario.
const QUESTIONS: u32 = 1280;
/// The function whose instructions are counted.
const MEASURED: &str = "*hits*measured*";

/// Instructions per question by scenario.
type Counts = BTreeMap<String, f64>;

pub(crate) fn run(args: &[String]) -> Result<bool> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if !matches!(args.as_slice(), ["compare", ..]) && !have_valgrind() {
        // On a machine where it cannot be had, everything else is still worth checking.
        eprintln!(
            "\n*** INSTRUCTIONS NOT COUNTED: valgrind is missing and cannot be installed ***\n"
        );
        return Ok(args.as_slice() == ["--check"]);
    }
    match args.as_slice() {
        [] => print(&count(&repo::root())?, None),
        ["--check"] => return check(),
        ["--save", file] => {
            let counts = count(&repo::root())?;
            print(&counts, None);
            std::fs::write(file, text_of(&counts)).with_context(|| format!("write {file}"))?;
        }
        ["--budget"] => {
            let counts = count(&repo::root())?;
            let path = repo::root().join(BUDGET);
            print(&counts, Some(&read(&path)?));
            let text = format!("{}{}", comments(&path)?, text_of(&counts));
            std::fs::write(&path, text).with_context(|| format!("write {BUDGET}"))?;
        }
        ["--profile", scenario] => profile(scenario)?,
        ["compare", before, after] => print(&counts_of(after)?, Some(&counts_of(before)?)),
        _ => bail!("{USAGE}"),
    }
    Ok(true)
}

fn have_valgrind() -> bool {
    repo::find_program("valgrind").is_some()
        || (crate::peers::run(&["valgrind".to_owned()]).is_ok()
            && repo::find_program("valgrind").is_some())
}

fn check() -> Result<bool> {
    let budget = read(&repo::root().join(BUDGET))?;
    let counts = count(&repo::root())?;
    let over = over_budget(&counts, &budget);
    if over.is_empty() {
        println!("instructions per question: {} scenarios within their budget", counts.len());
        return Ok(true);
    }
    print(&counts, Some(&budget));
    for line in &over {
        println!("{BUDGET}: {line}");
    }
    println!("See where they go with `cargo xtask bench-instructions --profile NAME`.");
    Ok(false)
}

/// What is wrong with `counts`: over the budget, without one, or gone.
fn over_budget(counts: &Counts, budget: &Counts) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, count) in counts {
        let allocates = ALLOCATING.contains(&name.as_str());
        let tolerance = if allocates { TOLERANCE_ALLOCATING } else { TOLERANCE };
        match budget.get(name) {
            None => wrong.push(format!("{name} has no budget; it takes {count:.0} instructions")),
            Some(most) if *count > most * (1.0 + tolerance) => {
                wrong.push(format!(
                    "{name} takes {count:.0} instructions, expected at most {most:.0}"
                ));
            }
            Some(_) => {}
        }
    }
    let gone = budget.keys().filter(|name| !counts.contains_key(*name));
    wrong.extend(gone.map(|name| format!("{name} is not measured any more")));
    wrong
}

fn print(counts: &Counts, before: Option<&Counts>) {
    let title = if before.is_some() {
        "     before      after     change"
    } else {
        "instructions/question"
    };
    println!("{:<22} {title}", "scenario");
    for (name, count) in counts {
        match before.map(|before| before.get(name)) {
            None => println!("{name:<22} {count:>21.0}"),
            Some(None) => println!("{name:<22} {:>10} {count:>10.0}        new", "-"),
            Some(Some(old)) => {
                let change = (count / old - 1.0) * 100.0;
                println!("{name:<22} {old:>10.0} {count:>10.0} {change:>+9.1}%");
            }
        }
    }
}

/// A saved result, or a git revision that is checked out beside the repository and measured.
fn counts_of(what: &str) -> Result<Counts> {
    if Path::new(what).is_file() {
        return read(Path::new(what));
    }
    if !have_valgrind() {
        bail!("counting instructions needs valgrind");
    }
    if what == "." {
        return count(&repo::root());
    }
    let root = repo::root();
    let git =
        |arguments: &[&str]| repo::output(Command::new("git").current_dir(&root).args(arguments));
    let revision = git(&["rev-parse", "--verify", "--quiet", &format!("{what}^{{commit}}")])
        .with_context(|| format!("'{what}' is neither a file nor a revision"))?;
    let tree = repo::target_of(&root).join(format!("instructions-{}", &revision.trim()[..12]));
    if !tree.exists() {
        let path = tree.to_string_lossy();
        git(&["worktree", "add", "--detach", &path, revision.trim()])?;
    }
    let counts = count(&tree);
    git(&["worktree", "remove", "--force", &tree.to_string_lossy()])?;
    counts
}

/// Builds the example of the tree at `root`; gives the program.
fn build(root: &Path) -> Result<PathBuf> {
    // Not `cargo build` as it is usually called: these settings are part of what is measured.
    let mut cargo = repo::cargo();
    cargo.current_dir(root).args(["build", "--quiet", "--release", "--example", "hits"]);
    cargo.args(["-p", "nodens-core"]).env_remove("RUSTFLAGS");
    repo::run(&mut cargo)?;
    Ok(repo::target_of(root).join("release/examples/hits"))
}

/// Instructions per question of every scenario, several at a time.
fn count(root: &Path) -> Result<Counts> {
    let program = build(root)?;
    let scenarios = repo::output(&mut Command::new(&program))?;
    let scenarios: Vec<&str> = scenarios.lines().collect();
    let folder = repo::target_of(root).join("instructions");
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut counts = Counts::new();
    for group in scenarios.chunks(threads) {
        let measured = std::thread::scope(|scope| {
            let mut running = Vec::new();
            for name in group.iter().copied() {
                let (program, folder) = (&program, &folder);
                running.push((name, scope.spawn(move || measure(program, name, folder))));
            }
            let ended = running.into_iter().map(|(name, thread)| (name, thread.join()));
            ended.collect::<Vec<_>>()
        });
        for (name, profile) in measured {
            let profile = profile.map_err(|_| anyhow::anyhow!("a thread panicked"))??;
            let counted = total(&profile);
            let counted =
                counted.with_context(|| format!("callgrind counted nothing in '{name}'"))?;
            counts.insert(name.to_owned(), counted as f64 / f64::from(QUESTIONS));
        }
    }
    Ok(counts)
}

/// Runs one scenario under callgrind; gives the profile.
fn measure(program: &Path, scenario: &str, folder: &Path) -> Result<String> {
    let out = folder.join(format!("{scenario}-{}.out", std::process::id()));
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind", "--collect-atstart=no"]);
    valgrind.arg(format!("--toggle-collect={MEASURED}"));
    valgrind.arg(format!("--callgrind-out-file={}", out.display()));
    valgrind.arg(program).arg(scenario).arg(QUESTIONS.to_string());
    repo::output(&mut valgrind)?;
    let text = std::fs::read_to_string(&out).with_context(|| format!("read {}", out.display()))?;
    // It is small, but there is one for each run.
    _ = std::fs::remove_file(&out);
    Ok(text)
}

/// The instructions counted in all, from a profile.
fn total(profile: &str) -> Option<u64> {
    let line = profile.lines().find_map(|line| line.strip_prefix("totals: "))?;
    line.trim().parse().ok().filter(|total| *total > 0)
}

/// Prints the functions of a scenario with the instructions each executes itself.
fn profile(scenario: &str) -> Result<()> {
    let root = repo::root();
    let folder = repo::target_of(&root).join("instructions");
    std::fs::create_dir_all(&folder)?;
    let text = measure(&build(&root)?, scenario, &folder)?;
    let mut functions: Vec<(String, u64)> = by_function(&text).into_iter().collect();
    functions.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
    println!("{:>12}  function", "per question");
    for (name, cost) in functions.iter().take(60) {
        let name: String = name.chars().take(140).collect();
        println!("{:>12.1}  {name}", *cost as f64 / f64::from(QUESTIONS));
    }
    Ok(())
}

/// Instructions by function, those of functions inlined into it included, those of functions it calls not.
///
/// The format is described in Valgrind's manual, "Callgrind Format Specification": `fn=(N) NAME` begins a function,
/// `calls=` announces that the next line is the cost of a call, and every other line that begins with a position
/// (a number, `+N`, `-N` or `*`) ends with a cost.
fn by_function(profile: &str) -> BTreeMap<String, u64> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut costs: BTreeMap<String, u64> = BTreeMap::new();
    let mut current = "";
    let mut skip = false;
    for line in profile.lines() {
        if let Some(rest) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
            let (number, name) = rest.split_once(' ').unwrap_or((rest, ""));
            if !name.is_empty() {
                names.insert(number, name);
            }
            if line.starts_with("fn=") {
                current = names.get(number).copied().unwrap_or(number);
            }
        } else if line.starts_with("calls=") {
            skip = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost = line.split_whitespace().nth(1).and_then(|cost| cost.parse::<u64>().ok());
            if let Some(cost) = cost.filter(|_| !skip) {
                *costs.entry(current.to_owned()).or_default() += cost;
            }
            skip = false;
        }
    }
    costs
}

/// Saved counts: `NAME COUNT` in lines, `#` begins a comment.
fn read(path: &Path) -> Result<Counts> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> Result<Counts> {
    let mut counts = Counts::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let entry = line.split_once(char::is_whitespace);
        let entry = entry.and_then(|(name, count)| Some((name, count.trim().parse().ok()?)));
        let Some((name, count)) = entry else {
            bail!("line {number}: expected a scenario and a number, got '{line}'");
        };
        counts.insert(name.to_owned(), count);
    }
    Ok(counts)
}

fn text_of(counts: &Counts) -> String {
    counts.iter().map(|(name, count)| format!("{name:<22} {count:.0}\n")).collect()
}

/// The comments at the head of the budget, which stay.
fn comments(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    Ok(text
        .lines()
        .take_while(|line| line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect())
}
