//! Which CPUs the server, its upstream and the load get.

use super::cells::Arrangement;
use anyhow::{Context, Result};
use lab_experiment::placement::{Placement, Sharing, Wish};

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
        let wish = Wish { subject: 1..=1, helper: 1..=1, load: 1..=2 };
        let Placement { subject, helper, load, sharing } = Placement::choose(&all, &wish);
        Ok(Self { server: subject, upstream: helper, load, shared: sharing != Sharing::None })
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
