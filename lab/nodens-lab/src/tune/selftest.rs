//! The whole trial on simulated servers whose truth is known.

use crate::term::{self, Live, Style};
use anyhow::{Result, bail};
use lab_tune::simulated::{KNOBS, TRUTH, Tally, trials};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tunes `servers` servers of each kind.
pub(super) fn run(servers: u64, seed: u64, stop: &AtomicBool) -> Result<ExitCode> {
    if servers == 0 {
        bail!("--self-test: expected at least 1");
    }
    let stopped = || stop.load(Ordering::Relaxed);
    let live = Live::new();
    let mut good = true;
    for (matters, seed) in [(true, seed), (false, seed.wrapping_add(1_000_000))] {
        let mut tally = Tally::default();
        for server in 0..servers {
            tally = sum(tally, trials(1, seed.wrapping_add(server), matters, &stopped));
            live.show(
                server as f64 + 1.0,
                servers as f64,
                &format!("server {} of {servers}", server + 1),
            );
        }
        live.clear();
        if stopped() {
            return Ok(ExitCode::from(crate::EXIT_INTERRUPTED));
        }
        let truth = TRUTH.map(|(_, part)| format!("{:+.0} %", part * 100.0)).join(", ");
        let title = match matters {
            true => format!("three of {KNOBS} settings matter ({truth}):"),
            false => format!("none of {KNOBS} settings matters:"),
        };
        let is_good = tally.is_good(matters);
        good &= is_good;
        term::out(&term::paint(if is_good { Style::Good } else { Style::Bad }, &title));
        let told = tally.sentences();
        // Without a setting that matters, naming exactly those is naming none.
        told.iter().for_each(|sentence| term::out(&format!("  {sentence}")));
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn sum(one: Tally, other: Tally) -> Tally {
    Tally {
        servers: one.servers + other.servers,
        named_exactly: one.named_exactly + other.named_exactly,
        named_falsely: one.named_falsely + other.named_falsely,
        confirmed_exactly: one.confirmed_exactly + other.confirmed_exactly,
        confirmed_falsely: one.confirmed_falsely + other.confirmed_falsely,
        right_way: one.right_way + other.right_way,
    }
}
