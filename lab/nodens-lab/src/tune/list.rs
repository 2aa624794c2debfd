//! The settings that are known: what has been said of them, and which of them can be changed here.

use super::Args;
use crate::term::{self, Style, Table};
use anyhow::{Context, Result};
use lab_knobs::{Choice, Claim, Earlier, Keeper, Knob};
use std::process::ExitCode;

/// Prints the settings, or those that were named.
pub(super) fn run(args: &Args, keeper: &Keeper) -> Result<ExitCode> {
    let named = !args.knobs.is_empty() || !args.knob.is_empty();
    let choices: Vec<Choice> = if named {
        args.choices()?
    } else {
        lab_knobs::knobs().iter().map(Choice::of).collect::<Result<_, _>>()?
    };
    let found = super::survey(args, keeper, &choices, Earlier::Report)?;
    let mut table = Table::new(&["setting", "low", "high", "here", "takes effect", "claimed"]);
    let mut missing = Vec::new();
    for (choice, found) in choices.iter().zip(found) {
        let Choice { knob, low, high } = choice;
        let (style, here) = match found.present {
            Ok(value) => (None, value.map_or("the server's".to_owned(), |value| value.to_string())),
            Err(why) => {
                missing.push(format!("{}: {why}", knob.name));
                (Some(Style::Dim), "–".to_owned())
            }
        };
        let takes = knob.takes_effect.words().to_owned();
        let (name, low, high) = (knob.name.to_string(), low.to_string(), high.to_string());
        let cells = vec![name, low, high, here, takes, claimed(knob)];
        match style {
            Some(style) => table.styled(style, cells),
            None => table.row(cells),
        }
    }
    let mut text = table.framed() + "\n";
    if !missing.is_empty() {
        text.push_str("\ncannot be changed here:\n");
        missing.iter().for_each(|why| text.push_str(&format!("  {why}\n")));
    }
    text.push_str("\nwhat has been said of them:\n");
    for Choice { knob, .. } in choices.iter().filter(|choice| !choice.knob.claims.is_empty()) {
        text.push_str(&format!("  {}: {}\n", term::paint(Style::Bold, &knob.name), knob.about));
        knob.claims.iter().for_each(|claim| text.push_str(&told(claim)));
    }
    term::all(&text).context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}

fn told(claim: &Claim) -> String {
    let Claim { by, value, expects, says, source } = claim;
    format!("    {by}: {value}, {}: {says} ({source})\n", expects.words())
}

fn claimed(knob: &Knob) -> String {
    let all = knob.claims.iter().map(|claim| (claim.expects.words(), claim.by));
    super::output::by_expectation(all)
}
