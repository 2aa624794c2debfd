//! `-check`: is this Corefile accepted?

#![allow(clippy::print_stdout, reason = "this is the program's output")]

use crate::budget::Cache;
use crate::flags::Flags;
use crate::load::{self, Loaded};
use crate::node;
use crate::serve::budget;
use nodens_core::log::Sink;
use nodens_core::{Config, Shared};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

/// Reads, parses and compiles; opens no socket.
pub(crate) fn run(flags: &Flags) -> ExitCode {
    match compile(flags) {
        Ok((loaded, config)) => {
            for warning in &loaded.tree.warnings {
                println!("warning: {warning}");
            }
            let (name, blocks) = (&loaded.source.name, loaded.tree.blocks.len());
            let (blocks, addresses) = (
                counted(blocks, "server block", "server blocks"),
                counted(config.listeners.len(), "address", "addresses"),
            );
            let (budget, cache) = (budget(flags), Cache::of(&config));
            for warning in budget.warnings(cache) {
                println!("warning: {warning}");
            }
            println!("memory: {}", budget.describe(cache));
            println!("{name}: accepted, {blocks} on {addresses}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// A configuration nobody serves.
pub(crate) fn compile(flags: &Flags) -> Result<(Loaded, Config), load::LoadError> {
    let source = match &flags.node {
        Some(node) => node::preview(flags, node)?,
        None => load::read(flags)?,
    };
    let loaded = load::parse_first(source, flags)?;
    let config = compile_loaded(&loaded, flags)?;
    Ok((loaded, config))
}

/// A configuration nobody serves, of what was parsed.
pub(crate) fn compile_loaded(loaded: &Loaded, flags: &Flags) -> Result<Config, load::LoadError> {
    let (sender, _receiver) = sync_channel(1);
    load::compile(loaded, flags, &Arc::new(Shared::new(1, Sink::new(sender))))
}
