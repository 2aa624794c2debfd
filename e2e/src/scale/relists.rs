//! What the servers hold in memory, and what lists that are read again add to it.
//!
//! A relist is forced as it happens in clusters: the API server is killed, its successor knows no
//! history, and answers 410 Gone to clients that want to continue from an earlier version.

use std::time::Duration;

use anyhow::Result;
use nodens_wire::Type;

use super::{CACHE, Cluster, median};
use crate::control_plane::Component;
use crate::measure::memory::Memory;
use crate::measure::population;
use crate::measure::probe::Probe;
use crate::measure::steady::Steady;
use crate::measure::table::{Table, mebibytes};
use crate::measure::{Which, start, whole_lists};
use crate::server::Server;

/// How a goal about memory that was missed begins.
pub(super) const MEMORY: &str = "memory";
/// The part of CoreDNS's memory that Nodens may take.
const PART: f64 = 1.0 / 3.0;
/// How much more memory the last relists may leave than the first ones.
const GROWTH: f64 = 1.1;
/// Time in which a server may free what it no longer needs.
const SETTLE: Duration = Duration::from_secs(5);
/// How long a server may take to follow a new API server.
const FOLLOW: Duration = Duration::from_secs(120);
/// QPS of the load that queries every service once.
const TOUCH_RATE: f64 = 2_000.0;

/// One server and its memory at several times.
struct Held {
    which: Which,
    server: Server,
    memory: Vec<Memory>,
}

impl Held {
    fn measure(&mut self) -> Result<()> {
        self.memory.push(Memory::of(self.server.process().id())?);
        Ok(())
    }
}

impl Cluster<'_> {
    /// Runs all servers at once through the relists; the goals that Nodens misses.
    pub(super) async fn relists(&mut self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for which in &self.args.servers {
            let name = format!("memory-{}", which.name());
            let server = start(self.sandbox, *which, &name, (CACHE, &self.kubeconfig)).await?;
            all.push(Held { which: *which, server, memory: Vec::new() });
        }
        let (once, _) = self.population.questions(1)?;
        tokio::time::sleep(SETTLE).await;
        all.iter_mut().try_for_each(Held::measure)?;
        for held in &all {
            let seconds = once.len() as f64 / TOUCH_RATE;
            let load = Steady {
                server: held.server.address(),
                rate: TOUCH_RATE,
                duration: Duration::from_secs_f64(seconds),
                cpus: Vec::new(),
                seed: 1,
            };
            load.start(&once).outcome().await?;
        }
        tokio::time::sleep(SETTLE).await;
        all.iter_mut().try_for_each(Held::measure)?;
        let mut lists = Vec::new();
        for relist in 0..self.args.relists {
            lists.push(self.relist(relist, &all).await?);
            tokio::time::sleep(SETTLE).await;
            all.iter_mut().try_for_each(Held::measure)?;
        }
        println!("\nResident memory (in brackets without pages of files), all servers at once:\n");
        println!("{}", table(&all));
        println!(
            "Whole lists of EndpointSlices that {} servers asked the API server for, after each of its \
             starts: {lists:?}",
            all.len()
        );
        Ok(missed(&all))
    }

    /// Restarts the API server and waits until all servers know what it says; how many lists of
    /// EndpointSlices it served.
    async fn relist(&mut self, number: usize, all: &[Held]) -> Result<u64> {
        let namespace = population::namespace(0);
        // Something has to happen that the servers may not have heard of.
        let name = format!("relist-{number}-before");
        population::create_service(&self.client, &namespace, &name).await?;
        self.plane.kill(Component::ApiServer)?;
        self.plane.start_component(Component::ApiServer)?;
        self.plane.ready().await?;
        self.client = self.plane.admin().await?;
        let name = format!("relist-{number}");
        let address = population::create_service(&self.client, &namespace, &name).await?;
        let question = format!("{name}.{namespace}.svc.cluster.local.");
        for held in all {
            let mut probe = Probe::new(held.server.address()).await?;
            let wanted = |answer: &crate::measure::probe::Answer| answer.is(&[address]);
            probe.until((&question, Type::A), FOLLOW, wanted).await?;
        }
        whole_lists(&self.client).await
    }
}

fn table(all: &[Held]) -> Table {
    let relists = all.first().map_or(0, |held| held.memory.len().saturating_sub(2));
    let mut shown: Vec<usize> = [1, 5, 10, 15, 20].into_iter().filter(|n| *n <= relists).collect();
    if !shown.contains(&relists) && relists > 0 {
        shown.push(relists);
    }
    let mut head = vec!["server".to_owned(), "ready".to_owned(), "every name asked".to_owned()];
    head.extend(shown.iter().map(|n| format!("relist {n}")));
    head.push("peak".to_owned());
    let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for held in all {
        let cell = |memory: &Memory| {
            format!("{} ({})", mebibytes(memory.resident), mebibytes(memory.anonymous))
        };
        let at = [0, 1].into_iter().chain(shown.iter().map(|n| n + 1));
        let cells = at.filter_map(|at| held.memory.get(at)).map(cell);
        let peak = held.memory.last().map(|memory| mebibytes(memory.peak));
        table.row([held.which.name().to_owned()].into_iter().chain(cells).chain(peak));
    }
    table
}

fn missed(all: &[Held]) -> Vec<String> {
    let mut missed = Vec::new();
    let of = |wanted| all.iter().find(|held| held.which == wanted);
    let Some(nodens) = of(Which::Nodens) else { return missed };
    let last = |held: &Held| held.memory.last().map_or(0, |memory| memory.resident);
    if let Some(coredns) = of(Which::Coredns) {
        let part = last(nodens) as f64 / last(coredns) as f64;
        println!("Nodens holds {part:.2} of what CoreDNS holds.");
        if part > PART {
            missed.push(format!("{MEMORY} is {part:.2} of CoreDNS's, wanted at most {PART:.2}"));
        }
    }
    let after: Vec<u64> = nodens.memory.iter().skip(2).map(|memory| memory.resident).collect();
    let third = after.len().div_ceil(3);
    let first = median(after.iter().take(third).copied());
    let end = median(after.iter().rev().take(third).copied());
    if let (Some(first), Some(end)) = (first, end) {
        let growth = end as f64 / first as f64;
        println!(
            "From the first to the last third of the relists it changes to {growth:.3} of that."
        );
        if growth > GROWTH {
            missed.push(format!("{MEMORY} grows to {growth:.2} times over the relists"));
        }
    }
    missed
}
