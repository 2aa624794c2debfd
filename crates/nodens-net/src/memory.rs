//! How much memory there is for this process.

use crate::limits::LARGE_BLOCK;
use crate::{cgroup, sys};
use std::path::PathBuf;

/// What version 1 of control groups writes where there is no limit is a page less than this.
const NO_LIMIT: usize = 1 << 62;

/// The octets of memory the process may use: what its control group allows, or all the machine
/// has. `None` if neither can be found out.
pub fn limit() -> Option<usize> {
    let group = tightest(&cgroup::own_folders("memory"));
    let machine = std::fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.and_then(|text| total(&text));
    group.into_iter().chain(machine).min()
}

/// The octets of memory that are in use by the control group that has the tightest limit, without
/// files that the kernel can forget. `None` if no group has a limit.
pub fn used() -> Option<usize> {
    usage(&cgroup::own_folders("memory"))
}

/// Gives the kernel back memory that was in use for a while and is free now. The allocator does so
/// by itself only at the end of its heaps, where something that stays may keep it from it.
pub fn give_back() {
    sys::trim_heap();
}

/// To be called once, as the process starts: what is large goes back to the kernel as soon as it is
/// free.
///
/// glibc would map large blocks by themselves only until the first of them is freed, and take them
/// from its heap from then on. Entries of the cache settle between them there, so that a burst of
/// large answers cost several times what the answers held.
pub fn keep_large_blocks_apart() {
    sys::map_blocks_from(LARGE_BLOCK);
}

/// The least of the limits written in these folders.
fn tightest(folders: &[(PathBuf, bool)]) -> Option<usize> {
    folders.iter().filter_map(limit_in).min()
}

/// What is used of the least of these limits, without files.
fn usage(folders: &[(PathBuf, bool)]) -> Option<usize> {
    let limits = folders.iter().filter_map(|folder| Some((limit_in(folder)?, folder)));
    let (_, (folder, unified)) = limits.min_by_key(|(limit, _)| *limit)?;
    let name = if *unified { "memory.current" } else { "memory.usage_in_bytes" };
    let used: usize = std::fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()?;
    let stat = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let (active, inactive) = if *unified {
        ("active_file ", "inactive_file ")
    } else {
        ("total_active_file ", "total_inactive_file ")
    };
    let field = |name| stat.lines().find_map(|line| line.strip_prefix(name)?.parse::<usize>().ok());
    let files = field(active).unwrap_or(0) + field(inactive).unwrap_or(0);
    Some(used.saturating_sub(files))
}

/// The limit written in a folder.
fn limit_in((folder, unified): &(PathBuf, bool)) -> Option<usize> {
    let name = if *unified { "memory.max" } else { "memory.limit_in_bytes" };
    // `max`, which is no number, or 2^63 less a page, which is more than any machine has.
    let limit = std::fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()?;
    (limit < NO_LIMIT).then_some(limit)
}

/// `MemTotal` of `/proc/meminfo`, in octets.
fn total(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_memory() {
        assert!(limit().unwrap() > 1 << 20);
        assert_eq!(total("MemTotal:       24635492 kB\nMemFree: 1 kB\n"), Some(24_635_492 << 10));
        assert_eq!(total("MemFree: 1 kB\n"), None);
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn large_blocks_are_mapped_by_themselves_whatever_was_freed_before() {
        keep_large_blocks_apart();
        // Without that the first block that is freed makes glibc take the others from its heap.
        drop(vec![1_u8; 8 << 20]);
        let blocks: Vec<Vec<u8>> = (0..64).map(|_| vec![1_u8; 1 << 20]).collect();
        // A block of its own begins with a page, which begins with its size.
        let apart = |block: &Vec<u8>| block.as_ptr().addr() % 4096 == 2 * size_of::<usize>();
        // What the heap has free is still used first.
        let apart = blocks.iter().filter(|block| apart(block)).count();
        assert!(apart > 56, "{apart} of {} blocks", blocks.len());
    }

    /// Octets of this process that are in memory and no file's.
    #[cfg(target_env = "gnu")]
    fn resident() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().strip_suffix("kB").unwrap().trim().parse::<usize>().unwrap() << 10
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn what_lies_free_below_something_that_stays_is_given_back() {
        const PIECES: usize = 1 << 12;
        let given = || {
            let mut pieces: Vec<Vec<u8>> = (0..PIECES).map(|_| vec![1; 8 << 10]).collect();
            let _stays = pieces.pop();
            pieces.clear();
            let before = resident();
            give_back();
            before.saturating_sub(resident())
        };
        // Tests beside this one take memory of the same process meanwhile: not each time.
        let mut tries = Vec::new();
        while tries.last().is_none_or(|given| *given <= PIECES * (4 << 10)) {
            assert!(tries.len() < 10, "octets given back: {tries:?}");
            tries.push(given());
        }
    }

    #[test]
    fn the_tightest_limit_of_the_hierarchy_counts() {
        let root = std::env::temp_dir().join(format!("nodens-memory-{}", std::process::id()));
        let pod = root.join("kubepods/pod1");
        std::fs::create_dir_all(&pod).unwrap();
        std::fs::write(pod.join("memory.max"), "max\n").unwrap();
        let of = |groups| tightest(&cgroup::folders(groups, &root, "memory"));
        assert_eq!(of("0::/kubepods/pod1\n"), None);
        std::fs::write(root.join("kubepods/memory.max"), "178257920\n").unwrap();
        assert_eq!(of("0::/kubepods/pod1\n"), Some(170 << 20));
        std::fs::write(root.join("kubepods/memory.current"), "9000\n").unwrap();
        let stat = "anon 4000\nfile 3000\ninactive_file 2000\nactive_file 1000\n";
        std::fs::write(root.join("kubepods/memory.stat"), stat).unwrap();
        let used = |groups| usage(&cgroup::folders(groups, &root, "memory"));
        assert_eq!(used("0::/kubepods/pod1\n"), Some(6000));
        let legacy = root.join("memory/kubepods");
        std::fs::create_dir_all(&legacy).unwrap();
        std::fs::write(legacy.join("memory.limit_in_bytes"), "1048576\n").unwrap();
        assert_eq!(of("4:cpu,memory:/kubepods\n"), Some(1 << 20));
        std::fs::remove_dir_all(root).unwrap();
    }
}
