//! From the start of a server to its first right answer.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lab_sys::cpu::process_time;
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
    /// What the server computed until then, and the API server meanwhile.
    cpu: [Duration; 2],
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
        let mut table = Table::new(&[
            "server",
            "starts",
            "first answer",
            "/ready",
            "peak memory until then",
            "its CPU",
            "the API server's",
        ]);
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
                spread(starts.iter().map(|start| start.cpu[0])),
                spread(starts.iter().map(|start| start.cpu[1])),
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
        let api_server = process_named("kube-apiserver").context("there is no API server")?;
        let before = process_time(api_server)?;
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
        let id = server.process().id();
        let memory = Memory::of(id)?;
        let cpu = [process_time(id)?, process_time(api_server)?.saturating_sub(before)];
        server.process().stop().await?;
        let (ready, answer) = (ready.context("never ready")?, answer.context("no answer")?);
        Ok(Start { ready, answer, memory, cpu })
    }
}

/// The first process of the sandbox with this name.
pub(super) fn process_named(name: &str) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut ids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    ids.find(|id: &u32| {
        let path = format!("/proc/{id}/comm");
        std::fs::read_to_string(path).is_ok_and(|comm| comm.trim_end() == name)
    })
}

fn resolves(answer: &Answer) -> bool {
    !answer.addresses.is_empty()
}

fn spread(times: impl Iterator<Item = Duration> + Clone) -> String {
    let part = |value: Option<Duration>| value.map_or("–".to_owned(), table::duration);
    let (low, high) = (times.clone().min(), times.clone().max());
    format!("{} ({} to {})", part(median(times)), part(low), part(high))
}
