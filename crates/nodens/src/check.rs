//! `-check`: is this Corefile accepted?

#![allow(clippy::print_stdout, reason = "this is the program's output")]

use crate::flags::Flags;
use crate::load::{self, Loaded};
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
            let (s, listeners) = (if blocks == 1 { "" } else { "s" }, config.listeners.len());
            println!("{name}: accepted, {blocks} server block{s}, {listeners} to listen on");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// A configuration nobody serves.
pub(crate) fn compile(flags: &Flags) -> Result<(Loaded, Config), load::LoadError> {
    let (sender, _receiver) = sync_channel(1);
    let shared = Arc::new(Shared::new(1, Sink::new(sender)));
    let loaded = load::parse_first(load::read(flags)?, flags)?;
    let config = load::compile(&loaded, flags, &shared)?;
    Ok((loaded, config))
}
