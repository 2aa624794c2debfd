//! `nodens-e2e node-table`: seed 000's table, latency at the pods and queries at the central servers, without a node
//! cache, with Nodens and with CoreDNS.
//!
//! Namespaces and Services are those of an API server, which the central servers and Nodens watch, each with the rights
//! of its manifest. The node cache has the Corefile of the official manifest, the central servers that of kubeadm.
//! That central load grows with nodes is shown by `cargo run --example search-paths` of nodens-core; that it does not
//! grow with the pods of a node, here too.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args as Arguments;
use nodens_wire::Rcode;

use super::load::{Load, Questions, TIMEOUT, failed, lost, quantile};
use super::proxy::{CLUSTER_DNS, Proxy};
use super::role::{Kind, Role};
use super::servers::{Centrals, Names};
use super::{CENTRALS, Setup, cluster, net};
use crate::control_plane::{ControlPlane, Options, Store, node_role};
use crate::limit::Limit;
use crate::measure::table::Table;
use crate::sandbox::{NODE_V4, Sandbox};

/// What is asked, and which part of the queries that reached the central servers has to stay on the node.
const GOALS: [(&str, Questions, f64); 2] =
    [("pods", Questions::Pods, 0.97), ("search paths", Questions::Noise, 0.999)];

const HEAD: [&str; 10] = [
    "node cache",
    "p50",
    "p90",
    "p99",
    "p99.9",
    "lost",
    "failed",
    "first",
    "central QPS",
    "denials of it",
];

/// How far the part of the answers that deny a name may be from what it is without a node cache: the queries are the
/// same, but not quite as many.
const DENIALS: f64 = 0.01;

/// One pod in this many is left to see what more pods cost.
const FEWER: usize = 5;
/// What so many times the pods may cost the central servers: names that few pods ask for are asked for more often.
const GROWTH: f64 = 2.0;

/// How long one row may take beyond its own time, on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Arguments)]
pub(crate) struct Args {
    #[command(flatten)]
    setup: Setup,
    /// The store of the control plane.
    #[arg(long, value_enum, default_value_t)]
    store: Store,
    /// Seconds in which the pods ask before anything is measured, and four more for the last answers.
    #[arg(long, default_value_t = 10)]
    warm: u64,
    /// Seconds that are measured, and four more: longer than the 30 for which answers are kept.
    #[arg(long, default_value_t = 40)]
    seconds: u64,
}

/// A node whose central servers and cache know an API server.
struct Stage {
    args: Args,
    centrals: Centrals,
    /// Its rules are those of the Services.
    _proxy: Proxy,
    /// What is compared.
    roles: [Role; 2],
}

/// What one run has shown.
struct Row {
    cells: Vec<String>,
    /// QPS at the servers of the cluster.
    central: f64,
    /// The part of the answers that deny a name.
    denied: f64,
    lost: u64,
    /// Answers that say neither that a name exists nor that it does not.
    failed: u64,
}

/// Prints the tables; the exit code says whether Nodens has reached the goals.
pub(crate) async fn run(args: &Args, sandbox: &Sandbox) -> Result<ExitCode> {
    let options = Options { store: args.store, ..Options::default() };
    let plane = ControlPlane::start(sandbox, options).await?;
    let kubeconfig = cluster::make(&plane).await?;
    plane.mount_node_role().await?;
    args.setup.make(sandbox)?;
    net::reach(NODE_V4, CENTRALS)?;
    let (centrals, proxy) = args.setup.start(sandbox, Names::Api(kubeconfig))?;
    let mut nodens = Role::new(sandbox, Kind::Nodens, args.setup.program.as_deref())?;
    nodens.set_variables(node_role::variables());
    let coredns = Role::new(sandbox, Kind::Coredns, None)?;
    let mut stage = Stage { args: args.clone(), centrals, _proxy: proxy, roles: [nodens, coredns] };
    // A load continues while its last answers are waited for.
    let [first, then] = [args.warm, args.seconds].map(|time| time + TIMEOUT.as_secs());
    println!(
        "{} pods send {} queries per second. Every cache begins empty: queries of the first {first} s are not measured, but \
         those that reached the central servers are shown (first). The {then} s after them are measured.",
        args.setup.pods, args.setup.rate
    );
    let missed = tokio::task::block_in_place(|| stage.tables())?;
    missed.iter().for_each(|what| println!("MISSED: {what}"));
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Stage {
    /// Prints everything and gives the goals that were missed.
    fn tables(&mut self) -> Result<Vec<String>> {
        let (pods, rate) = (self.args.setup.pods, self.args.setup.rate);
        let mut missed = Vec::new();
        for (title, questions, goal) in GOALS {
            let without = self.measure(None, questions, (pods, rate))?;
            let nodens = self.with_role(0, questions, (pods, rate))?;
            let coredns = self.with_role(1, questions, (pods, rate))?;
            let mut table = Table::new(&HEAD);
            let fall = |row: &Row| 100.0 * (1.0 - row.central / without.central);
            let (falls, beside) = (fall(&nodens), fall(&coredns));
            for row in [&without, &nodens, &coredns] {
                table.row(row.cells.clone());
            }
            println!(
                "\n{title}:\n{table}queries at the central servers fall by {falls:.2} % with Nodens, {beside:.2} % with CoreDNS"
            );
            let failures = nodens.missed(&without, goal);
            missed.extend(failures.into_iter().map(|what| format!("{title}: {what}")));
            if questions == Questions::Pods {
                missed.extend(self.grow(&nodens)?);
            }
        }
        Ok(missed)
    }

    /// Measures Nodens with fewer pods, beside `usual`, prints it and returns its faults.
    fn grow(&mut self, usual: &Row) -> Result<Option<String>> {
        let (pods, rate) = (self.args.setup.pods, self.args.setup.rate);
        let (pods, rate) = (pods.div_ceil(FEWER), rate / FEWER as f64);
        let fewer = self.with_role(0, Questions::Pods, (pods, rate))?;
        let growth = usual.central / fewer.central;
        println!(
            "With Nodens {pods} pods that send {rate} QPS cause {:.1} QPS at the central servers; {FEWER} times as many pods cause {growth:.2} times that.",
            fewer.central
        );
        let missed = growth.is_nan() || growth > GROWTH;
        Ok(missed.then(|| format!("more pods: wanted at most {GROWTH} times")))
    }

    /// Measures with one of the roles, which begins for this and ends after it.
    fn with_role(
        &mut self,
        number: usize,
        questions: Questions,
        size: (usize, f64),
    ) -> Result<Row> {
        self.roles[number].start()?;
        self.roles[number].ready()?;
        let row = self.measure(Some(&self.roles[number]), questions, size);
        let row = row.with_context(|| self.roles[number].last_words());
        self.roles[number].clean();
        row
    }

    fn measure(
        &self,
        role: Option<&Role>,
        questions: Questions,
        (pods, rate): (usize, f64),
    ) -> Result<Row> {
        let name = role.map_or("none".to_owned(), |role| role.kind().to_string());
        let time = Duration::from_secs(self.args.warm + self.args.seconds);
        let words = role.map(Role::log_tail);
        let words = || words.map(|words| words()).unwrap_or_default();
        let _limit = Limit::start(&name, time + PATIENCE, words);
        let load = || Load::start(questions, CLUSTER_DNS, rate, pods);
        let cold = self.centrals.questions()?;
        let warm = load()?;
        thread::sleep(Duration::from_secs(self.args.warm));
        _ = warm.finish()?;
        let (before, denials) = (self.centrals.questions()?, self.centrals.denials()?);
        let start = Instant::now();
        let running = load()?;
        thread::sleep(Duration::from_secs(self.args.seconds));
        let outcome = running.finish()?;
        let elapsed = start.elapsed().as_secs_f64();
        let central = (self.centrals.questions()? - before) as f64 / elapsed;
        let denials = (self.centrals.denials()? - denials) as f64 / elapsed;
        let answered = outcome.tally.counts.answered;
        ensure!(answered > 0, "{name} does not respond");
        let (lost, failed) = (lost(&outcome), failed(&outcome, questions));
        let mut cells = vec![name];
        cells.extend([0.5, 0.9, 0.99, 0.999].map(|fraction| quantile(&outcome, fraction)));
        cells.extend([lost, failed, before - cold].map(|count| count.to_string()));
        cells.extend([central, denials].map(|number| format!("{number:.1}")));
        let denied = outcome.tally.rcodes.get(Rcode::NXDOMAIN.0) as f64 / answered as f64;
        Ok(Row { cells, central, denied, lost, failed })
    }
}

impl Row {
    /// What falls short of a `goal` beside the row `without` a node cache.
    fn missed(&self, without: &Row, goal: f64) -> Vec<String> {
        let mut missed = Vec::new();
        // No comparison holds for a fall that is no number.
        let fall = 1.0 - self.central / without.central;
        if fall.is_nan() || fall < goal {
            missed.push(format!(
                "queries at the central servers should have fallen by {:.1} %",
                goal * 100.0
            ));
        }
        if self.failed > 0 || self.lost > without.lost {
            missed.push(format!("{} lost and {} failed", self.lost, self.failed));
        }
        // Who denies everything spares the central servers, too.
        if (self.denied - without.denied).abs() > DENIALS {
            let [denied, usual] = [self.denied, without.denied].map(|part| part * 100.0);
            missed.push(format!("{denied:.1} % of the answers deny a name, not {usual:.1} %"));
        }
        missed
    }
}
