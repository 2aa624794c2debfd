//! The command line of `tune`.

use anyhow::{Result, bail};
use lab_knobs::Choice;
use lab_result::export::Format;
use std::path::PathBuf;

/// Arguments of `tune`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The command that starts the server, with {port} in place of its port. {config} is the file that
    /// is made of --config, {NAME} the level of a setting `server:NAME`.
    #[arg(long, value_name = "COMMAND", required_unless_present_any = ["list", "self_test"])]
    pub(crate) server_cmd: Option<String>,
    /// A configuration of the server with {port} and {NAME} in it, as in the command.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Settings to try, by name, with the levels that they come with.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) knobs: Vec<String>,
    /// A setting with levels of your own, as tcp_rmem='4096 131072 6291456,4096 131072 33554432' or
    /// server:workers=1,4 or sysctl:net.ipv4.tcp_ecn=0,1 (more than once for several).
    #[arg(long, value_name = "NAME=LOW,HIGH")]
    pub(crate) knob: Vec<String>,
    /// All settings that can be changed here.
    #[arg(long)]
    pub(crate) all_knobs: bool,
    /// Settings that --all-knobs leaves out.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', requires = "all_knobs")]
    pub(crate) without: Vec<String>,
    /// Print the settings that are known, with what has been said of them, and what cannot be changed
    /// here and why.
    #[arg(long)]
    pub(crate) list: bool,
    /// The load, as options of `nodens-lab load`.
    #[arg(
        long,
        value_name = "OPTIONS",
        allow_hyphen_values = true,
        default_value = "-m tcp --conn-life queries=1 -Q 1000"
    )]
    pub(crate) load: String,
    /// What decides: p50, p99, failures, failed_connects, cpu, qps (closed loop), resets, retransmits
    /// or overflows [default: p99, in a closed loop qps].
    #[arg(long, value_name = "METRIC")]
    pub(crate) primary: Option<String>,
    /// Length of a measurement.
    #[arg(short = 'l', long, value_name = "TIME", default_value = "2s", value_parser = lab_units::seconds)]
    pub(crate) measure: u64,
    /// Load before each measurement that is not measured.
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = lab_units::seconds)]
    pub(crate) warm_up: u64,
    /// Blocks of the screening: each has all combinations of levels.
    #[arg(long, default_value_t = 6)]
    pub(crate) blocks: usize,
    /// Measurements of the baseline in each block.
    #[arg(long, default_value_t = 2)]
    pub(crate) baselines: usize,
    /// Half the combinations: effects are then mixed up with those of two settings together.
    #[arg(long)]
    pub(crate) no_fold_over: bool,
    /// Level, for all settings together.
    #[arg(long, default_value_t = 0.05)]
    pub(crate) alpha: f64,
    /// Permutations for the verdict.
    #[arg(long, default_value_t = 9_999)]
    pub(crate) permutations: usize,
    /// Pairs on fresh data, at least, for each setting that is named.
    #[arg(long, value_name = "PAIRS", default_value_t = 12)]
    pub(crate) pairs_min: usize,
    /// Pairs on fresh data, at most; 0 leaves everything unconfirmed.
    #[arg(long, value_name = "PAIRS", default_value_t = 60)]
    pub(crate) pairs_max: usize,
    /// Wanted chance to confirm a real effect.
    #[arg(long, default_value_t = 0.9)]
    pub(crate) power: f64,
    /// How often a disturbed measurement is repeated.
    #[arg(long, default_value_t = 1)]
    pub(crate) retries: usize,
    /// CPUs of the load threads [default: the last ones, if there are enough].
    #[arg(long, value_delimiter = ',', value_parser = crate::server::cpu)]
    pub(crate) cpus: Vec<usize>,
    /// CPUs of the server [default: all others].
    #[arg(long, value_delimiter = ',', value_parser = crate::server::cpu)]
    pub(crate) server_cpus: Vec<usize>,
    /// Change settings of this machine, and not of network namespaces that are made for the trial.
    /// What will change is printed, and done only with --yes.
    #[arg(long)]
    pub(crate) host: bool,
    /// Network interface whose settings may be changed on the host.
    #[arg(long, value_name = "NAME", requires = "host")]
    pub(crate) device: Option<String>,
    /// Really change settings of this machine.
    #[arg(long, requires = "host")]
    pub(crate) yes: bool,
    /// Print what would be done, in which order, how long it would take and what would change, and do
    /// nothing.
    #[arg(long)]
    pub(crate) plan: bool,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Folder for plan.json and result.json [default: nodens-lab-tune, with a number behind it if there
    /// is one].
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Page of the trial [default: result.html in the folder].
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Make no page.
    #[arg(long, conflicts_with = "html")]
    pub(crate) no_html: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the measurements also as csv, or the result as json; may be repeated.
    #[arg(long, value_name = "FORMAT=FILE", value_parser = crate::export::format_and_file)]
    pub(crate) export: Vec<(Format, PathBuf)>,
    /// Tune this many simulated servers with three settings of 30 that matter, and as many without any,
    /// and count what is named.
    #[arg(long, value_name = "SERVERS")]
    pub(crate) self_test: Option<u64>,
}

impl Args {
    /// What the parser cannot see.
    pub(super) fn check(&self) -> Result<()> {
        crate::export::only_tables(
            "a trial of settings",
            self.export.iter().map(|(format, _)| *format),
        )?;
        let places = self.html.iter().chain(self.export.iter().map(|(_, path)| path));
        places.into_iter().try_for_each(|path| crate::load::check_place(path))?;
        let command = self.server_cmd.as_deref().unwrap_or_default();
        let has_port = command.contains("{port}") || self.config.is_some();
        if !self.list && self.self_test.is_none() && !has_port {
            bail!("--server-cmd has no {{port}} for the port that the server is to use");
        }
        if self.config.is_some() && !command.contains("{config}") {
            bail!("--server-cmd has no {{config}} for the file that is made of --config");
        }
        if self.measure < 200_000_000 {
            bail!("--measure: expected at least 200ms");
        }
        if self.blocks == 0 {
            bail!("--blocks: expected at least 1");
        }
        if !(0.0..1.0).contains(&self.alpha) || self.alpha == 0.0 {
            bail!("--alpha: expected a number between 0 and 1");
        }
        if !(0.5..1.0).contains(&self.power) {
            bail!("--power: expected a number from 0.5 to below 1");
        }
        self.check_numbers()
    }

    /// What could show nothing, whatever is measured.
    fn check_numbers(&self) -> Result<()> {
        let (alpha, most) = (self.alpha, self.pairs_max);
        let least = lab_stats::screening::least_permutations(alpha);
        if self.permutations < least {
            bail!(
                "--permutations {}: expected at least {least} for a level of {alpha}",
                self.permutations
            );
        }
        let fewest = lab_stats::power::Plan { alpha, power: self.power }.fewest();
        if most > 0 && most < fewest {
            bail!(
                "--pairs-max {most} cannot confirm anything at a level of {alpha}: expected at least {fewest}, or 0 \
                 for a trial without fresh data"
            );
        }
        Ok(())
    }

    /// The settings that were named, each once.
    pub(super) fn choices(&self) -> Result<Vec<Choice>> {
        let texts = self.knobs.iter().chain(&self.knob);
        let mut all: Vec<Choice> =
            texts.map(|text| Choice::parse(text)).collect::<Result<_, _>>()?;
        for name in &self.without {
            lab_knobs::Knob::find(name)?;
        }
        if self.all_knobs {
            let others = lab_knobs::knobs().iter().filter(|knob| {
                let is = |choice: &Choice| choice.knob.name == knob.name;
                !self.without.iter().any(|name| *name == knob.name) && !all.iter().any(is)
            });
            let others: Vec<Choice> = others.map(Choice::of).collect::<Result<_, _>>()?;
            all.extend(others);
        }
        let mut names: Vec<&str> = all.iter().map(|choice| &*choice.knob.name).collect();
        names.sort_unstable();
        if let Some([twice, _]) = names.windows(2).find(|pair| pair.first() == pair.last()) {
            bail!("the setting `{twice}` is given twice");
        }
        if all.is_empty() {
            bail!(
                "no settings: expected --knobs, --knob or --all-knobs (--list shows those that are known)"
            );
        }
        Ok(all)
    }
}
