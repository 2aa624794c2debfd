//! Serves a Corefile until standard input ends: `serve FILE [PORT]`. For trying things with dig.

use nodens_core::config::BuildOptions;
use nodens_core::log::{Record, Sink};
use nodens_core::{Shared, build};
use nodens_net::{Options, Runtime, cpu};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: serve FILE [PORT]")?;
    let port = arguments.next().map_or(Ok(53), |port| port.parse())?;
    let tree = nodens_corefile::parse(
        &file,
        &std::fs::read_to_string(&file)?,
        &nodens_corefile::SystemSources,
    )?;
    let (sender, records) = std::sync::mpsc::sync_channel(1024);
    std::thread::spawn(move || {
        for record in records {
            if let Record::Line { text, .. } = record {
                eprintln!("{text}");
            }
        }
    });
    let shared = Arc::new(Shared::new(cpu::workers(), Sink::new(sender)));
    let options = BuildOptions { port, ..BuildOptions::default() };
    let config = Arc::new(build(&tree, &options, &shared)?);
    let runtime = Runtime::start(shared.clone(), config, Options::default())?;
    for address in runtime.local_addresses() {
        eprintln!("listening on {address}");
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    runtime.shutdown(Duration::from_secs(5));
    eprint!("{}", shared.registry.render());
    Ok(())
}
