//! The command line of `ab`.

use crate::server::Server;
use anyhow::{Result, bail};
use lab_result::export::Format;
use std::path::PathBuf;

/// Arguments of `ab`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Server A: an address or a name, with a port or without (53).
    #[arg(long, value_name = "SERVER")]
    pub(crate) a: Option<Server>,
    /// Server B: an address or a name, with a port or without (53).
    #[arg(long, value_name = "SERVER")]
    pub(crate) b: Option<Server>,
    /// Server A: a command to start it, with {port} in place of its port.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) a_cmd: Option<String>,
    /// Server B: a command to start it, with {port} in place of its port.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) b_cmd: Option<String>,
    /// Server A: pods, as kube-system/k8s-app=kube-dns.
    #[arg(long, value_name = "NAMESPACE/SELECTOR")]
    pub(crate) a_k8s: Option<String>,
    /// Server B: pods.
    #[arg(long, value_name = "NAMESPACE/SELECTOR")]
    pub(crate) b_k8s: Option<String>,
    /// Context of kubectl for A.
    #[arg(long, value_name = "CONTEXT")]
    pub(crate) a_context: Option<String>,
    /// Context of kubectl for B.
    #[arg(long, value_name = "CONTEXT")]
    pub(crate) b_context: Option<String>,
    /// The kubectl program.
    #[arg(long, value_name = "PROGRAM", default_value = "kubectl")]
    pub(crate) kubectl: String,
    /// Name of A in tables.
    #[arg(long, value_name = "NAME")]
    pub(crate) a_name: Option<String>,
    /// Name of B in tables.
    #[arg(long, value_name = "NAME")]
    pub(crate) b_name: Option<String>,
    /// Process whose CPU and memory are A's.
    #[arg(long, value_name = "PID")]
    pub(crate) a_pid: Option<u32>,
    /// Process whose CPU and memory are B's.
    #[arg(long, value_name = "PID")]
    pub(crate) b_pid: Option<u32>,
    /// Control group whose CPU and memory are A's.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) a_cgroup: Option<PathBuf>,
    /// Control group whose CPU and memory are B's.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) b_cgroup: Option<PathBuf>,
    /// Metrics page with A's CPU and memory, as http://10.0.0.2:9153/metrics.
    #[arg(long, value_name = "URL")]
    pub(crate) a_prometheus: Option<String>,
    /// Metrics page with B's CPU and memory.
    #[arg(long, value_name = "URL")]
    pub(crate) b_prometheus: Option<String>,
    /// Queries the server answers itself: a file of names and types, or a suffix to make names for.
    #[arg(long, value_name = "FILE|SUFFIX")]
    pub(crate) internal: Option<String>,
    /// Queries the server has to forward, likewise; measured apart.
    #[arg(long, value_name = "FILE|SUFFIX")]
    pub(crate) external: Option<String>,
    /// Any queries, likewise (default: the mix of a Kubernetes node).
    #[arg(short = 'd', long = "names", value_name = "FILE|SUFFIX")]
    pub(crate) names: Option<String>,
    /// Loads in percent of the smaller capacity of the two, which is searched for.
    #[arg(long, value_delimiter = ',', default_value = "10,50,80")]
    pub(crate) loads: Vec<f64>,
    /// Loads in QPS instead, as 500,20k.
    #[arg(long, value_delimiter = ',', value_parser = lab_units::rate, conflicts_with = "loads")]
    pub(crate) rates: Vec<f64>,
    /// Pairs of blocks (default: 12; with --sequential 100, which is the most then).
    #[arg(long)]
    pub(crate) pairs: Option<usize>,
    /// Read the verdict after every pair and end as soon as it is decided, at a level that holds for all
    /// these looks together. Each pair is ordered by a coin of its own. For noise of unknown size; where it
    /// is known, a fixed number of pairs needs fewer of them at most.
    #[arg(long)]
    pub(crate) sequential: bool,
    /// Load both servers at the same time, side by side, each with one half of the CPUs; a coin decides
    /// which, for every pair. What disturbs the machine then meets both. What they do to each other
    /// (caches, memory) does too, and the values of one side are not those of a server alone. Needs
    /// --rates.
    #[arg(long)]
    pub(crate) duet: bool,
    /// Pairs of A with itself; 0 leaves the noise unknown.
    #[arg(long, default_value_t = 8)]
    pub(crate) noise_pairs: usize,
    /// Pairs after which servers given as commands are started anew and pods take turns (default: 1;
    /// pairs of one start share what was random in it). For other servers, pairs between checks of
    /// the echo and of the use without load (default: 5).
    #[arg(long)]
    pub(crate) group: Option<usize>,
    /// Length of a block (default: 5s; 150ms in a self-test).
    #[arg(short = 'l', long, value_name = "TIME", value_parser = lab_units::seconds)]
    pub(crate) block: Option<u64>,
    /// Load before each block that is not measured (default: 500ms; none in a self-test).
    #[arg(long, value_name = "TIME", value_parser = lab_units::seconds)]
    pub(crate) warm_up: Option<u64>,
    /// When a query has timed out.
    #[arg(short, long, value_name = "TIME", default_value = "2s", value_parser = lab_units::seconds)]
    pub(crate) timeout: u64,
    /// What decides: METRIC, METRIC@LOAD, METRIC@LOAD@SET (cpu@50%@internal). Metrics: p50, p90, p99, p99.9, loss,
    /// cpu, memory.
    #[arg(long, value_name = "METRIC", default_value = "p50")]
    pub(crate) primary: String,
    /// Differences that do not matter, as p99=5%; for loss in points.
    #[arg(long, value_name = "METRIC=PART", value_delimiter = ',')]
    pub(crate) margin: Vec<String>,
    /// Level of the tests.
    #[arg(long, default_value_t = 0.05)]
    pub(crate) alpha: f64,
    /// Wanted chance to find a difference, for the estimate of further pairs.
    #[arg(long, default_value_t = 0.8)]
    pub(crate) power: f64,
    /// How often a pair is measured again after a disturbance of the machine or the generator.
    #[arg(long, default_value_t = 2)]
    pub(crate) retries: usize,
    /// Clients, each with a socket of its own.
    #[arg(short, long, default_value_t = 32)]
    pub(crate) clients: usize,
    /// Load threads.
    #[arg(short = 'T', long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// CPUs of the load threads (default: the last ones, if servers are started here).
    #[arg(long, value_delimiter = ',', value_parser = crate::server::cpu)]
    pub(crate) cpus: Vec<usize>,
    /// CPUs of servers that are started here (default: all others).
    #[arg(long, value_delimiter = ',', value_parser = crate::server::cpu)]
    pub(crate) server_cpus: Vec<usize>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Folder for plan.json, result.json, report.md and junit.xml [default: nodens-lab-ab, with a number
    /// behind it if there is one].
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Page of the comparison [default: result.html in the folder].
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Make no page.
    #[arg(long, conflicts_with = "html")]
    pub(crate) no_html: bool,
    /// Write the blocks also as csv, or the result as json; may be repeated.
    #[arg(long, value_name = "FORMAT=FILE", value_parser = crate::export::format_and_file)]
    pub(crate) export: Vec<(Format, PathBuf)>,
    /// Exit with 0 if B is no worse, 1 if it is worse, 2 if that is not known, 4 after an error.
    #[arg(long)]
    pub(crate) ci: bool,
    /// Compare an echo with itself this many times and count how often a difference is called.
    #[arg(long, value_name = "COMPARISONS")]
    pub(crate) self_test: Option<usize>,
    /// Compare it with one that takes this much more, as p50=5% or cpu=5%, with as many pairs as the
    /// noise says, and count how often that is found.
    #[arg(long, value_name = "METRIC=PART", requires = "self_test")]
    pub(crate) inject: Option<super::selftest::Change>,
    #[command(flatten)]
    pub(crate) capacity: super::capacity::CapacityArgs,
}

impl Args {
    /// Nanoseconds of a block.
    pub(crate) fn block(&self) -> u64 {
        let short = 150_000_000;
        self.block.unwrap_or(if self.self_test.is_some() { short } else { 5 * lab_load::SECOND })
    }

    /// Pairs of blocks, or the most of them.
    pub(crate) fn pairs(&self) -> usize {
        self.pairs.unwrap_or(if self.sequential { 100 } else { 12 })
    }

    /// Nanoseconds of load before a block.
    pub(crate) fn warm_up(&self) -> u64 {
        let usual = lab_load::SECOND / 2;
        self.warm_up.unwrap_or(if self.self_test.is_some() { 0 } else { usual })
    }

    /// What the parser cannot see.
    pub(super) fn check(&self) -> Result<()> {
        crate::export::only_tables("a comparison", self.export.iter().map(|(format, _)| *format))?;
        let places = self.html.iter().chain(self.export.iter().map(|(_, path)| path));
        places.into_iter().try_for_each(|path| crate::load::check_place(path))?;
        self.capacity.check()?;
        if self.duet && self.rates.is_empty() && self.self_test.is_none() {
            bail!(
                "--duet: expected --rates, because what one server can take alone is not what two can"
            );
        }
        if self.block() < 100_000_000 {
            bail!("--block: expected at least 100ms");
        }
        if self.timeout == 0 || self.clients == 0 || self.threads == 0 {
            bail!("expected a positive timeout and number of clients and threads");
        }
        let positive = |values: &[f64]| values.iter().all(|v| v.is_finite() && *v > 0.0);
        if !positive(&self.loads) || !positive(&self.rates) {
            bail!("--loads and --rates: expected numbers above 0");
        }
        Ok(())
    }
}
