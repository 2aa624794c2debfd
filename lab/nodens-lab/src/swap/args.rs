//! The command line of `swap`.

use anyhow::{Result, bail};
use clap::ValueEnum;
use lab_swap::Workload;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Arguments of `swap`.
#[derive(clap::Args)]
#[command(after_help = "\
Everything that will be changed is written to a Lease beside the workload first. It is put back at the \
end, also after an error or Ctrl-C; if this program is killed, by a process that it leaves on this \
machine; and else by the next start, or by --restore. See docs/swapping.md.")]
pub(crate) struct Args {
    /// The workload: NAMESPACE/deployment/NAME or NAMESPACE/daemonset/NAME.
    #[arg(value_name = "WORKLOAD", required_unless_present_any = ["restore", "guard"])]
    pub(super) workload: Option<Workload>,
    /// Image in question.
    #[arg(long, value_name = "IMAGE", required_unless_present_any = ["restore", "guard"])]
    pub(super) candidate: Option<String>,
    /// Image compared with [default: the workload's].
    #[arg(long, value_name = "IMAGE")]
    pub(super) baseline: Option<String>,
    /// Container [default: the only one, or the one with a UDP port 53].
    #[arg(long, value_name = "NAME")]
    pub(super) container: Option<String>,
    /// Kubeconfig [default: as kubectl's].
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
    /// Where the load comes from: a Job in the cluster, or this machine.
    #[arg(long, value_enum, default_value = "job")]
    pub(super) load_from: LoadFrom,
    /// Image with nodens-lab, for the Job.
    #[arg(long, value_name = "IMAGE")]
    pub(super) lab_image: Option<String>,
    /// The program in that image.
    #[arg(long, value_name = "PATH", default_value = "/nodens-lab")]
    pub(super) lab_program: String,
    /// Server to ask [default: the cluster IP of the Service in front of the workload].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(super) server: Option<SocketAddr>,
    /// Queries that the server answers itself: a file of names and types, or a suffix to make names for
    /// [default: the Services of the cluster].
    #[arg(long, value_name = "FILE|SUFFIX")]
    pub(super) internal: Option<String>,
    /// Queries that it has to forward, likewise; measured apart.
    #[arg(long, value_name = "FILE|SUFFIX")]
    pub(super) external: Option<String>,
    /// Domain of the cluster.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    pub(super) domain: String,
    /// Loads in QPS, as 500,20k.
    #[arg(long, value_delimiter = ',', value_parser = lab_units::rate, default_value = "2000")]
    pub(super) rates: Vec<f64>,
    /// Length of each load: long enough for two readings of the kubelet, which are 10 s to 15 s apart
    /// unless it was told otherwise.
    #[arg(short = 'l', long, value_name = "TIME", default_value = "60s", value_parser = lab_units::seconds)]
    pub(super) length: u64,
    /// Rounds: in each, both images are rolled out and measured, in an order that a coin decides.
    #[arg(long, default_value_t = 8)]
    pub(super) rounds: usize,
    /// Rounds of the baseline with itself, before.
    #[arg(long, default_value_t = 6)]
    pub(super) noise_rounds: usize,
    /// How long to wait after a rollout.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = lab_units::seconds)]
    pub(super) settle: u64,
    /// How long a rollout may take.
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = lab_units::seconds)]
    pub(super) rollout_max: u64,
    /// What decides: METRIC, METRIC@LOAD, METRIC@LOAD@SET (cpu@2000/s@internal). Metrics: p50, p90, p99,
    /// p99.9, loss, cpu, memory.
    #[arg(long, value_name = "METRIC", default_value = "cpu")]
    pub(super) primary: String,
    /// Differences that do not matter, as cpu=3%; for loss in points.
    #[arg(long, value_name = "METRIC=PART", value_delimiter = ',')]
    pub(super) margin: Vec<String>,
    /// Level of the tests.
    #[arg(long, default_value_t = 0.05)]
    pub(super) alpha: f64,
    /// Wanted chance to find a difference, for the estimate of further rounds.
    #[arg(long, default_value_t = 0.8)]
    pub(super) power: f64,
    /// How often a disturbed load is measured again, with the same pods.
    #[arg(long, default_value_t = 1)]
    pub(super) retries: usize,
    /// Clients, each with a socket of its own.
    #[arg(short, long, default_value_t = 32)]
    pub(super) clients: usize,
    /// When a query has timed out.
    #[arg(short, long, value_name = "TIME", default_value = "2s", value_parser = lab_units::seconds)]
    pub(super) timeout: u64,
    /// Deployment that would undo the change and is scaled to 0 meanwhile; may be repeated.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(super) scale_down: Vec<String>,
    /// Go on although the workload has an owner that may undo the change and cannot be paused.
    #[arg(long)]
    pub(super) owned_anyway: bool,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Folder for plan.json, result.json, report.md and junit.xml [default: nodens-lab-swap, with a
    /// number behind it if there is one].
    #[arg(short, long, value_name = "FOLDER")]
    pub(super) out: Option<PathBuf>,
    /// Page of the comparison [default: result.html in the folder].
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Make no page.
    #[arg(long, conflicts_with = "html")]
    pub(super) no_html: bool,
    /// Exit with 0 if the candidate is no worse, 1 if it is worse, 2 if that is not known.
    #[arg(long)]
    pub(super) ci: bool,
    /// Only say what would be changed.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Put back what an earlier run left changed, of WORKLOAD or of all workloads.
    #[arg(long, conflicts_with_all = ["candidate", "dry_run"])]
    pub(super) restore: bool,
    /// Wait for the end of another process of this program and put back what its run left.
    #[arg(long, value_name = "RUN", hide = true)]
    pub(super) guard: Option<String>,
}

/// Where the load comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LoadFrom {
    /// A Job of the cluster.
    Job,
    /// This machine.
    Here,
}

impl LoadFrom {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Here => "here",
        }
    }
}

impl Args {
    /// What the parser cannot see.
    pub(super) fn check(&self) -> Result<()> {
        if self.load_from == LoadFrom::Job && self.lab_image.is_none() && !self.dry_run {
            bail!(
                "--lab-image: expected an image with nodens-lab for the Job, or --load-from here"
            );
        }
        let second = lab_load::SECOND;
        if self.length < second || self.timeout == 0 || self.clients == 0 {
            bail!(
                "expected a --length of at least 1s, and a positive timeout and number of clients"
            );
        }
        if !self.rates.iter().all(|rate| rate.is_finite() && *rate > 0.0) {
            bail!("--rates: expected numbers above 0");
        }
        if !(self.alpha > 0.0 && self.alpha < 0.5 && self.power > 0.0 && self.power < 1.0) {
            bail!("expected a level above 0 and below 0.5 and a power above 0 and below 1");
        }
        let power = lab_stats::power::Plan { alpha: self.alpha, power: self.power };
        let (fewest, rounds) = (power.fewest(), self.rounds);
        if rounds < fewest {
            let alpha = self.alpha;
            bail!(
                "{rounds} rounds cannot show any difference at a level of {alpha}: expected at least {fewest}"
            );
        }
        self.html.iter().try_for_each(|path| crate::load::check_place(path))
    }
}
