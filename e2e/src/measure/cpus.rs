//! Who runs on which CPUs, so that the control plane does not take those of the measured server.

use std::fs;

use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// CPUs of a run.
#[derive(Debug, Clone)]
pub(crate) struct Cpus {
    pub(crate) server: Vec<usize>,
    pub(crate) load: Vec<usize>,
    pub(crate) others: Vec<usize>,
    all: Vec<usize>,
}

impl Cpus {
    /// Shares out the allowed CPUs; nothing if there are fewer than four.
    pub(crate) fn choose() -> Result<Option<Self>> {
        let all = lab_sys::cpu::allowed().context("cannot read the allowed CPUs")?;
        Ok(match &all[..] {
            [server, load, others @ ..] if others.len() >= 2 => Some(Cpus {
                server: vec![*server],
                load: vec![*load],
                others: others.to_vec(),
                all: all.clone(),
            }),
            _ => None,
        })
    }

    /// Confines every process of the sandbox, this one among them, to the CPUs of the others.
    pub(crate) fn confine_others(&self) -> Result<()> {
        let mut set = CpuSet::new();
        self.others.iter().for_each(|cpu| set.set(*cpu));
        for process in numbers("/proc") {
            for thread in numbers(&format!("/proc/{process}/task")) {
                // One that has ended meanwhile needs no CPU.
                _ = sched_setaffinity(Pid::from_raw(thread), &set);
            }
        }
        Ok(())
    }

    /// Calls `start` so that the process it starts runs on the CPUs of the server.
    pub(crate) fn for_server<T>(&self, start: impl FnOnce() -> Result<T>) -> Result<T> {
        lab_sys::cpu::pin(&self.server).context("cannot choose a CPU")?;
        let started = start();
        lab_sys::cpu::pin(&self.others).context("cannot choose a CPU")?;
        started
    }
}

impl Drop for Cpus {
    fn drop(&mut self) {
        // The thread may do something else afterwards.
        _ = lab_sys::cpu::pin(&self.all);
    }
}

/// The entries of a folder that are numbers.
fn numbers(folder: &str) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
