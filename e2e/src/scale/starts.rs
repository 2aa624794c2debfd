//! From the start of a server to its first right answer.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nodens_wire::Type;

use super::{CACHE, Cluster, median};
use crate::measure::memory::Memory;
use crate::measure::probe::{Answer, Probe};
use crate::measure::table::{self, Table};
use crate::measure::{Which, corefile, variables};
use crate::server::{Endpoint, Server};

/// How long a server may take.
const LIMIT: Duration = Duration::from_secs(180);

/// One start.
struct Start {
    /// Until `/ready` said so.
    ready: Duration,
    /// Until the service created last resolved.
    answer: Duration,
    memory: Memory,
}

impl Cluster<'_> {
    /// Starts servers in turn; the goals that Nodens misses.
    pub(super) async fn starts(&mut self) -> Result<Vec<String>> {
        let mut all: Vec<(Which, Vec<Start>)> =
            self.args.servers.iter().map(|which| (*which, Vec::new())).collect();
        for turn in 0..self.args.starts {
            for (which, starts) in &mut all {
                starts.push(self.start_once(*which, turn).await?);
            }
        }
        let mut table =
            Table::new(&["server", "starts", "first answer", "/ready", "peak memory until then"]);
        let mut medians = Vec::new();
        for (which, starts) in &all {
            let Some(answer) = median(starts.iter().map(|start| start.answer)) else { continue };
            medians.push((*which, answer));
            table.row([
                which.name().to_owned(),
                starts.len().to_string(),
                spread(starts.iter().map(|start| start.answer)),
                spread(starts.iter().map(|start| start.ready)),
                median(starts.iter().map(|start| start.memory.peak))
                    .map_or_else(String::new, table::mebibytes),
            ]);
        }
        println!("\nFrom the start of the process, median (lowest to highest):\n\n{table}");
        let of = |wanted| medians.iter().find(|(which, _)| *which == wanted).map(|it| it.1);
        Ok(match (of(Which::Nodens), of(Which::Coredns)) {
            (Some(nodens), Some(coredns)) if nodens > coredns => {
                vec![format!("ready after {nodens:.2?}, CoreDNS after {coredns:.2?}")]
            }
            _ => Vec::new(),
        })
    }

    async fn start_once(&self, which: Which, turn: usize) -> Result<Start> {
        let (last, program) = (self.population.services - 1, which.program()?);
        let name = format!("start-{}-{turn}", which.name());
        let (corefile, variables) = (corefile(CACHE), variables(&self.kubeconfig));
        let begin = Instant::now();
        let mut server = Server::start(self.sandbox, &program, &name, &corefile, &variables)?;
        let (mut ready, mut answer) = (None, None);
        let mut probe = Probe::new(server.address()).await?;
        let question = self.population.name(last);
        while ready.is_none() || answer.is_none() {
            if begin.elapsed() > LIMIT || !server.process().runs() {
                anyhow::bail!("{}: {}", which.name(), server.process().last_words());
            }
            if ready.is_none() && server.get(Endpoint::Ready).is_ok_and(|(status, _)| status == 200)
            {
                ready = Some(begin.elapsed());
            }
            if answer.is_none() {
                let got = probe.ask(&question, Type::A).await?;
                answer = got.filter(resolves).map(|_| begin.elapsed());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let memory = Memory::of(server.process().id())?;
        server.process().stop().await?;
        let (ready, answer) = (ready.context("never ready")?, answer.context("no answer")?);
        Ok(Start { ready, answer, memory })
    }
}

fn resolves(answer: &Answer) -> bool {
    !answer.addresses.is_empty()
}

fn spread(times: impl Iterator<Item = Duration> + Clone) -> String {
    let part = |value: Option<Duration>| value.map_or("–".to_owned(), table::duration);
    let (low, high) = (times.clone().min(), times.clone().max());
    format!("{} ({} to {})", part(median(times)), part(low), part(high))
}
