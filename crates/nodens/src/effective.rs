//! `-print-effective`: the chain of each server block in the order in which it acts, and where
//! each part of it was written.

#![allow(clippy::print_stdout, reason = "this is the program's output")]

use crate::check;
use crate::face;
use crate::flags::Flags;
use nodens_core::directives::DIRECTIVES;
use nodens_corefile::{Directive, ServerBlock};
use std::fmt::Write;
use std::process::ExitCode;

/// Prints the chains, or why there are none.
pub(crate) fn run(flags: &Flags) -> ExitCode {
    match check::compile(flags) {
        Ok((loaded, config)) => {
            print!("{}", face::banner(&config, &[]));
            for block in &loaded.tree.blocks {
                print!("\n{}", render(block));
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
fn render(block: &ServerBlock) -> String {
    let keys: Vec<_> = block.keys.iter().map(|key| key.text.as_str()).collect();
    let mut rows = Vec::new();
    for spec in DIRECTIVES {
        for directive in block.directives.iter().filter(|d| d.name.text == spec.name) {
            row(directive, 1, &mut rows);
        }
    }
    let width = rows.iter().map(|(text, _)| text.chars().count()).max().unwrap_or(0);
    let mut out = format!("{} {{\n", keys.join(" "));
    for (text, origin) in rows {
        _ = writeln!(out, "{text:width$}  # {origin}");
    }
    out.push_str("}\n");
    out
}

fn row(directive: &Directive, depth: usize, rows: &mut Vec<(String, String)>) {
    let mut text = "    ".repeat(depth);
    text.push_str(&quoted(&directive.name.text));
    for arg in directive.args() {
        text.push(' ');
        text.push_str(&quoted(&arg.text));
    }
    if directive.body.is_some() {
        text.push_str(" {");
    }
    rows.push((text, origin(directive)));
    if let Some(body) = &directive.body {
        for line in body {
            row(line, depth + 1, rows);
        }
        rows.push((format!("{}}}", "    ".repeat(depth)), String::new()));
    }
}

/// `Corefile:3`, and through which imports the line came.
fn origin(directive: &Directive) -> String {
    let position = &directive.name.position;
    let mut text = format!("{}:{}", position.file, position.line);
    let mut import = directive.imported.as_ref();
    while let Some(step) = import {
        _ = write!(text, ", imported at {}:{}", step.position.file, step.position.line);
        import = step.outer.as_ref();
    }
    text
}

fn quoted(word: &str) -> String {
    let plain =
        !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || "\"#".contains(c));
    if plain { word.to_owned() } else { format!("\"{}\"", word.replace('"', "\\\"")) }
}
