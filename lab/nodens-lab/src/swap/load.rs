//! One load: a Job of the cluster, or a child of this process, both `nodens-lab load`; and the readings of
//! kubelets meanwhile.

use super::args::LoadFrom;
use super::queries::Set;
use anyhow::{Context, Result, anyhow, bail};
use lab_result::ResultFile;
use lab_result::comparison::Load;
use lab_swap::counters::Readings;
use lab_swap::job::{self, QUERIES, State};
use lab_swap::{Api, Claim, Cluster, Pod};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a Job may take until its program runs: its image may have to be pulled.
const START_MAX: Duration = Duration::from_secs(300);
/// How long a load may take beyond its length, timeout and warm-up.
const OVERTIME: Duration = Duration::from_secs(90);
/// How often its state is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How often kubelets are asked for their readings, at least and at most.
const POLL: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// Of a load so many times.
const POLLS: u32 = 20;
/// How often a load is made whose result cannot be read, as lines of its log are mixed up.
const TRIES: usize = 3;
/// Characters of a program's output that an error shows.
const TOLD_MAX: usize = 600;

/// How loads are made.
pub(super) struct Loader<'a> {
    pub(super) cluster: &'a Cluster,
    /// The same, asked again for a while when it does not answer.
    pub(super) patient: &'a dyn Api,
    pub(super) claim: &'a Claim,
    pub(super) from: LoadFrom,
    pub(super) image: &'a str,
    pub(super) program: &'a str,
    /// Where files of queries and outputs of loads from here are.
    pub(super) folder: PathBuf,
    /// The labels of the workload's pods.
    pub(super) apart_from: Value,
    pub(super) server: SocketAddr,
    pub(super) length: Duration,
    pub(super) timeout: Duration,
    pub(super) clients: usize,
    /// Loads so far: their names.
    pub(super) started: usize,
}

/// A load that runs.
enum Running {
    Job(String),
    Here(Child, PathBuf),
}

/// What a load has brought.
pub(super) struct Loaded {
    pub(super) result: ResultFile,
    pub(super) readings: Readings,
    /// Nodes whose kubelet could not be asked, with the reason.
    pub(super) silent: BTreeSet<String>,
}

impl Loader<'_> {
    /// Writes the files of queries to where loads find them.
    pub(super) fn provide(&self, sets: &[Set]) -> Result<()> {
        let files: Vec<(String, String)> =
            sets.iter().map(|set| (set.file(), set.text.clone())).collect();
        if self.from == LoadFrom::Job {
            job::queries(self.cluster, self.claim, &files)?;
            return Ok(());
        }
        for (name, text) in files {
            let path = self.folder.join(name);
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    fn arguments(&self, load: &Load, seed: u64) -> Vec<String> {
        let folder = match self.from {
            LoadFrom::Job => Path::new(QUERIES),
            LoadFrom::Here => &self.folder,
        };
        let queries = folder.join(format!("{}.txt", load.set)).display().to_string();
        let (server, rate) = (self.server.to_string(), load.rate.to_string());
        let [length, timeout] =
            [self.length, self.timeout].map(|time| format!("{}ms", time.as_millis()));
        let (clients, seed) = (self.clients.to_string(), seed.to_string());
        [
            "load",
            "-s",
            &server,
            "-d",
            &queries,
            "-Q",
            &rate,
            "-l",
            &length,
            "-t",
            &timeout,
            "-c",
            &clients,
            "--seed",
            &seed,
            "--quiet",
            "--warm-up",
            "--no-version",
            "--json",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn start(&mut self, load: &Load, seed: u64) -> Result<Running> {
        self.started += 1;
        let arguments = self.arguments(load, seed);
        if self.from == LoadFrom::Here {
            let path = self.folder.join(format!("load-{}.json", self.started));
            let output =
                File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
            let mut command = Command::new(std::env::current_exe()?);
            command.args(arguments).stdin(Stdio::null()).stdout(output).stderr(Stdio::null());
            let child =
                lab_sys::cpu::spawn_confined(&mut command, &[]).context("cannot start a load")?;
            return Ok(Running::Here(child, path));
        }
        let name = format!("nodens-lab-load-{}-{}", self.claim.record.run, self.started);
        let command: Vec<String> = [self.program.to_owned()].into_iter().chain(arguments).collect();
        let spec = job::Load {
            name: &name,
            image: self.image,
            command: &command,
            seconds: (START_MAX + self.most()).as_secs(),
            apart_from: &self.apart_from,
        };
        job::start(self.cluster, self.claim, &spec)?;
        Ok(Running::Job(name))
    }

    /// How long a load that has started may take.
    fn most(&self) -> Duration {
        self.length + self.timeout + OVERTIME
    }

    /// Makes one load, again if its result cannot be read; `None` if it was stopped.
    pub(super) fn run(
        &mut self,
        load: &Load,
        seed: u64,
        pods: &[Pod],
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Loaded>> {
        for _ in 1..TRIES {
            match self.once(load, seed, pods, stop) {
                Err(error) if error.is::<lab_result::ReadError>() => {
                    crate::term::note(&format!("the load is repeated: {error}"));
                }
                done => return done,
            }
        }
        self.once(load, seed, pods, stop)
    }

    /// Makes one load and reads the counters of `pods` meanwhile; `None` if it was stopped.
    fn once(
        &mut self,
        load: &Load,
        seed: u64,
        pods: &[Pod],
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Loaded>> {
        let mut running = self.start(load, seed)?;
        let mut polls = Polls::new(self.length, pods);
        let begun = Instant::now();
        let (mut since, mut waits_for) = (begun, String::new());
        let ended = loop {
            match self.state(&mut running) {
                Ok(State::Ended(text)) => break Ok(Some(text)),
                Ok(State::Running) => {}
                Ok(State::Waiting(why)) => (since, waits_for) = (Instant::now(), why),
                Err(_) if stop() => break Ok(None),
                Err(error) => break Err(error),
            }
            if stop() {
                break Ok(None);
            }
            if begun.elapsed().saturating_sub(since.elapsed()) > START_MAX {
                break Err(anyhow!("the load has not started: {waits_for}"));
            }
            if since.elapsed() > self.most() {
                break Err(anyhow!("the load does not end"));
            }
            polls.poll(self.cluster, pods);
            std::thread::sleep(LOOK);
        };
        // Whatever happened, it must not go on. What has ended and cannot be deleted goes with the Lease.
        let deleted = self.end(running);
        let Some(text) = ended? else { return deleted.map(|()| None) };
        if let Err(error) = deleted {
            crate::term::note(&format!("a load that has ended is left until the end: {error:#}"));
        }
        let Polls { readings, silent, .. } = polls;
        Ok(Some(Loaded { result: read(&text)?, readings, silent }))
    }

    fn state(&self, running: &mut Running) -> Result<State> {
        match running {
            Running::Job(name) => {
                let namespace = &self.claim.record.workload.namespace;
                Ok(job::state(self.patient, namespace, name)?)
            }
            Running::Here(child, path) => Ok(match child.try_wait()? {
                Some(_) => State::Ended(std::fs::read_to_string(path)?),
                None => State::Running,
            }),
        }
    }

    fn end(&self, running: Running) -> Result<()> {
        match running {
            Running::Job(name) => {
                job::end(self.cluster, &self.claim.record.workload.namespace, &name)?;
            }
            Running::Here(mut child, path) => {
                // It has ended, unless it was stopped.
                _ = child.kill();
                child.wait()?;
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// The result in what a load wrote, which may have lines for people before it.
fn read(text: &str) -> Result<ResultFile> {
    let begin = if text.starts_with('{') { Some(0) } else { text.find("\n{").map(|at| at + 1) };
    let end = text.rfind('}').map(|at| at + 1);
    let json = begin.zip(end).and_then(|(begin, end)| text.get(begin..end));
    let Some(json) = json else {
        let told: String = text.trim().chars().take(TOLD_MAX).collect();
        bail!("the load ended without a result: {told}");
    };
    Ok(lab_result::from_json(Path::new("the result of the load"), json.as_bytes())?)
}

/// Asks the kubelets of pods now and then.
struct Polls {
    readings: Readings,
    silent: BTreeSet<String>,
    every: Duration,
    last: Option<Instant>,
    nodes: BTreeSet<String>,
}

impl Polls {
    fn new(length: Duration, pods: &[Pod]) -> Self {
        Self {
            readings: Readings::default(),
            silent: BTreeSet::new(),
            every: (length / POLLS).clamp(POLL.0, POLL.1),
            last: None,
            nodes: pods.iter().map(|pod| pod.node.clone()).collect(),
        }
    }

    fn poll(&mut self, cluster: &Cluster, pods: &[Pod]) {
        if self.last.is_some_and(|last| last.elapsed() < self.every) {
            return;
        }
        self.last = Some(Instant::now());
        let containers: Vec<&str> = pods.iter().map(|pod| pod.container.as_str()).collect();
        for node in &self.nodes {
            let path = format!("/api/v1/nodes/{node}/proxy/metrics/cadvisor");
            match cluster.text(&path) {
                Ok(page) => self.readings.add(&page, &containers),
                Err(error) => _ = self.silent.insert(format!("{node}: {}", error.message)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_failed_is_told_with_its_words() {
        let error = read("nodens-lab: `nope` is no server\n").unwrap_err().to_string();
        assert!(error.contains("without a result: nodens-lab: `nope` is no server"), "{error}");
        let error = read("warming up\n{\"schema\": 1}\n").unwrap_err().to_string();
        assert!(error.contains("the result of the load"), "{error}");
    }
}
