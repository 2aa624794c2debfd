//! Which CPUs the server, its upstream and the load get.

use super::cells::Arrangement;
use anyhow::{Context, Result};

/// Who runs where.
pub(super) struct Cpus {
    pub(super) server: Vec<usize>,
    pub(super) upstream: Vec<usize>,
    pub(super) load: Vec<usize>,
    /// What a reader must know if there are too few.
    pub(super) shared: bool,
}

impl Cpus {
    pub(super) fn choose() -> Result<Self> {
        let all = lab_sys::cpu::allowed().context("cannot read the allowed CPUs")?;
        Ok(match &all[..] {
            [server, upstream, load @ ..] if !load.is_empty() => Self {
                server: vec![*server],
                upstream: vec![*upstream],
                load: load.iter().take(2).copied().collect(),
                shared: false,
            },
            [server, rest @ ..] if !rest.is_empty() => {
                let rest = rest.to_vec();
                Self { server: vec![*server], upstream: rest.clone(), load: rest, shared: true }
            }
            _ => Self { server: all.clone(), upstream: all.clone(), load: all, shared: true },
        })
    }

    /// The CPUs of the server. With two of them the upstream, which hits do not need, gives its own.
    pub(super) fn of(&self, arrangement: Arrangement) -> Vec<usize> {
        match arrangement {
            Arrangement::TwoCpus => self.server.iter().chain(&self.upstream).copied().collect(),
            Arrangement::SameCpu => self.load.iter().take(1).copied().collect(),
            _ => self.server.clone(),
        }
    }
}
