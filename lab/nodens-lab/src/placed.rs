//! Which of the CPUs that this process may use are whose.

use anyhow::{Context, Result};
use lab_experiment::placement::{Placement, Wish};

pub(crate) fn choose(wish: &Wish) -> Result<Placement> {
    let allowed = lab_sys::cpu::allowed().context("cannot read the allowed CPUs")?;
    Ok(Placement::choose(&allowed, wish))
}
