//! Seed 000's table: latency at the pods and questions at the central servers, without and with a node cache.

use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::World;
use super::load::{Load, Questions, failed, lost, quantile};
use super::proxy::CLUSTER_DNS;
use super::servers::Kind;
use crate::measure::table::Table;

/// What is asked, and which part of the questions that reached the central servers has to stay on the node.
///
/// There is no API server here, so nobody says which names the cluster has: denials are kept for as long as the Corefile
/// lets them be, five seconds, and names of search lists that nobody repeats pass. So neither goal is reached here yet.
const GOALS: [(&str, Questions, f64); 2] =
    [("pods", Questions::Pods, 0.97), ("search paths", Questions::Noise, 0.999)];

/// Seconds in which the pods have asked everything they ask once.
const WARM: u64 = 10;

/// What one run has shown.
struct Row {
    cells: Vec<String>,
    /// Questions a second at the servers of the cluster.
    central: f64,
}

/// Measures what the pods of one node ask, and names that search lists make, with nobody and with everybody in the role.
pub(super) fn run(world: &mut World) -> Result<String> {
    let (mut text, mut missed) = (String::new(), String::new());
    for (title, questions, goal) in GOALS {
        let before = measure(world, questions, "nobody")?;
        world.role.start()?;
        world.role.ready()?;
        let name = world.role.kind().to_string();
        let after = measure(world, questions, &name);
        world.role.clean();
        let after = after?;
        let head =
            ["in the role", "p50", "p90", "p99", "p99.9", "lost", "failed", "central a second"];
        let mut table = Table::new(&head);
        let fall = 1.0 - after.central / before.central;
        table.row(before.cells);
        table.row(after.cells);
        _ = write!(text, "\n{title}:\n{table}central questions fall by {:.2} %", fall * 100.0);
        if world.role.kind() == Kind::Nodens && fall < goal {
            _ = write!(missed, "\n{title}: wanted {:.1} %", goal * 100.0);
        }
    }
    ensure!(missed.is_empty(), "{text}{missed}");
    Ok(text)
}

fn measure(world: &World, questions: Questions, name: &str) -> Result<Row> {
    let seconds = world.times(20, 5);
    let load = || Load::start(questions, CLUSTER_DNS, world.args.rate, world.args.pods);
    // The first answers of a cache are not its own.
    let warm = load()?;
    thread::sleep(Duration::from_secs(if world.args.quick { 1 } else { WARM }));
    _ = warm.finish()?;
    let (before, start) = (world.centrals.questions()?, Instant::now());
    let running = load()?;
    thread::sleep(Duration::from_secs(u64::try_from(seconds)?));
    let outcome = running.finish()?;
    let (after, elapsed) = (world.centrals.questions()?, start.elapsed().as_secs_f64());
    let central = (after - before) as f64 / elapsed;
    let mut cells = vec![name.to_owned()];
    cells.extend([0.5, 0.9, 0.99, 0.999].map(|fraction| quantile(&outcome, fraction)));
    cells.extend([lost(&outcome), failed(&outcome, questions)].map(|count| count.to_string()));
    cells.push(format!("{central:.1}"));
    Ok(Row { cells, central })
}
