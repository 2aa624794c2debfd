//! What a process holds in memory.

use std::fs;

use anyhow::{Context, Result};

/// Octets of a process, from `/proc/PID/smaps_rollup` and `/proc/PID/status`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Resident, the pages of the program's file among them.
    pub(crate) resident: u64,
    /// Resident without the pages of files: what the process made itself.
    pub(crate) anonymous: u64,
    /// The most that was ever resident.
    pub(crate) peak: u64,
}

impl Memory {
    /// What process `id` holds now.
    pub(crate) fn of(id: u32) -> Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{id}/{file}");
            fs::read_to_string(&path).with_context(|| path.clone())
        };
        let (rollup, status) = (read("smaps_rollup")?, read("status")?);
        Ok(Memory {
            resident: kibibytes(&rollup, "Rss:")?,
            anonymous: kibibytes(&rollup, "Anonymous:")?,
            peak: kibibytes(&status, "VmHWM:")?,
        })
    }
}

fn kibibytes(text: &str, field: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.trim().strip_suffix("kB")).context(field.to_owned())?;
    Ok(number.trim().parse::<u64>()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_holds_something_and_never_held_less() {
        let memory = Memory::of(std::process::id()).unwrap();
        assert!(memory.anonymous > 0 && memory.resident > memory.anonymous, "{memory:?}");
        assert!(memory.peak >= memory.resident / 2, "{memory:?}");
    }
}
