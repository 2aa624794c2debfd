//! `-print-effective`: the chain of each server block in the order in which it acts, and where
//! each part of it was written. What it prints is a Corefile itself.

#![allow(clippy::print_stdout, reason = "this is the program's output")]

use crate::check;
use crate::face;
use crate::flags::Flags;
use nodens_core::config::SearchMode;
use nodens_core::directives::DIRECTIVES;
use nodens_corefile::{Directive, ServerBlock};
use std::fmt::Write;
use std::process::ExitCode;

/// Prints the chains, or why there are none.
pub(crate) fn run(flags: &Flags) -> ExitCode {
    match check::compile(flags) {
        Ok((loaded, config)) => {
            for line in face::banner(&config, &[]).iter().flat_map(|text| text.lines()) {
                println!("# {line}");
            }
            for (source, block) in loaded.tree.blocks.iter().enumerate() {
                let compiled = config.blocks.iter().find(|compiled| compiled.source == source);
                let search = compiled.and_then(nodens_core::handlers::search::of);
                print!("\n{}", render(block, search_note(flags, block, search)));
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// One server block: its keys, then its directives in the order in which they act.
fn render(block: &ServerBlock, note: Option<String>) -> String {
    let keys: Vec<_> = block.keys.iter().map(ToString::to_string).collect();
    let mut rows = Vec::new();
    for spec in DIRECTIVES {
        if spec.name == "search"
            && let Some(note) = &note
        {
            rows.push((format!("    # {note}"), None));
        }
        for directive in block.directives.iter().filter(|d| d.name.text == spec.name) {
            row(directive, 1, &mut rows);
        }
    }
    let width = rows.iter().map(|(text, _)| text.chars().count()).max().unwrap_or(0);
    let mut out = format!("{} {{\n", keys.join(" "));
    for (text, origin) in rows {
        _ = match origin {
            Some(origin) => writeln!(out, "{text:width$}  # {origin}"),
            None => writeln!(out, "{text}"),
        };
    }
    out.push_str("}\n");
    out
}

/// What `search` does that the block does not say: as a comment, so that the Corefile stays one that
/// CoreDNS takes.
fn search_note(
    flags: &Flags,
    block: &ServerBlock,
    search: Option<(bool, SearchMode)>,
) -> Option<String> {
    let is_written = block.directives.iter().any(|directive| directive.name.text == "search");
    match search {
        Some((true, SearchMode::DryRun)) => Some(
            "search, by itself in the node role: dry run, counts what it would deny".to_owned(),
        ),
        Some((true, _)) => {
            Some("search, by itself in the node role: on (off with -search=off)".to_owned())
        }
        Some((false, SearchMode::DryRun)) => {
            Some("search is written and in a dry run (-search, NODENS_SEARCH)".to_owned())
        }
        None if is_written && flags.search == Some(SearchMode::Off) => {
            Some("search is written and switched off (-search, NODENS_SEARCH)".to_owned())
        }
        _ => None,
    }
}

/// A line with its origin for each line of the directive; one that only closes a block has none.
fn row(directive: &Directive, depth: usize, rows: &mut Vec<(String, Option<String>)>) {
    let mut text = format!("{}{}", "    ".repeat(depth), directive.name);
    for arg in directive.args() {
        _ = write!(text, " {arg}");
    }
    if directive.body.is_some() {
        text.push_str(" {");
    }
    rows.push((text, Some(origin(directive))));
    if let Some(body) = &directive.body {
        for line in body {
            row(line, depth + 1, rows);
        }
        rows.push((format!("{}}}", "    ".repeat(depth)), None));
    }
}

/// `common:3, imported at Corefile:7`: where the line is, and through which imports it came.
fn origin(directive: &Directive) -> String {
    let position = &directive.name.position;
    let mut text = format!("{}:{}", position.file, position.line);
    let mut import = directive.imported.as_ref();
    let mut joint = ", imported at ";
    while let Some(step) = import {
        _ = write!(text, "{joint}{}:{}", step.position.file, step.position.line);
        import = step.outer.as_ref();
        joint = ", in turn at ";
    }
    text
}
