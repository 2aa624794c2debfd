//! The echo baseline of a load, if one was asked for.

use crate::server::Server;
use crate::term;
use anyhow::{Result, bail};
use lab_load::baseline::{self, Baseline, Options, Place};
use lab_load::{Config, Observer, Outcome, Workload};
use std::sync::atomic::AtomicBool;

/// Arguments on the baseline.
#[derive(clap::Args)]
pub(super) struct BaselineArgs {
    /// Run the same plan on an echo server before and after, for up to 5 seconds each and at 1.5
    /// times the rate for up to 2: it shows how much of the latency comes from the generator, and a
    /// generator that could not do more makes the run invalid.
    #[arg(long)]
    baseline: bool,
    /// The same on `nodens-lab echo` at this address, for instance beside the server.
    #[arg(long, value_name = "SERVER:PORT")]
    baseline_at: Option<Server>,
}

impl BaselineArgs {
    fn options(&self) -> Result<Option<Options>> {
        let place = match &self.baseline_at {
            Some(server) if server.port.is_none() => {
                bail!(
                    "--baseline-at: expected the port of `nodens-lab echo`, such as echo-host:5300"
                )
            }
            Some(server) => Some(Place::At(server.find_and_tell(0)?)),
            None => self.baseline.then_some(Place::Here),
        };
        Ok(place.map(|place| Options { place, ..Options::default() }))
    }

    /// The load, between two runs on an echo if that was asked for.
    pub(super) fn run(
        &self,
        (config, workload): (&Config, &Workload),
        stop: &AtomicBool,
        observer: &mut impl Observer,
    ) -> Result<(Outcome, Option<Baseline>)> {
        let Some(options) = self.options()? else {
            return Ok((lab_load::run_watched(config, workload, stop, observer)?, None));
        };
        let phase = |name: &str| {
            if name != "load" {
                term::note("  the same plan on an echo …");
            }
        };
        let (outcome, baseline) =
            baseline::run_between(config, workload, stop, options, phase, observer)?;
        Ok((outcome, Some(baseline)))
    }
}
