//! Which CPUs this process may use, and how many of them are worth a thread.

use crate::{cgroup, sys};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The CPUs the process may run on, in ascending order; never empty.
pub fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// How many workers to run: one per allowed CPU, but no more than the control group's quota of CPU
/// time can keep busy, since threads beyond it only make the kernel throttle all of them.
pub fn workers() -> usize {
    let cpus = allowed().len();
    quota().map_or(cpus, |quota| cpus.min(quota.ceil() as usize)).max(1)
}

/// Keeps the calling thread on one CPU. Without the right to do so it stays where it may be.
pub(crate) fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    _ = sched_setaffinity(None, &set);
}

/// For how long a worker may run before others on its CPU get their turn, in nanoseconds; the
/// kernel's default is 2 to 3 ms. It does not change how much of the CPU a thread gets.
const SLICE_NS: u64 = 500_000;

/// Asks for short turns. Since Linux 6.12 a thread that wakes up with a shorter turn than that of
/// the thread at work need not wait for the end of the latter's: on a busy node a question waits
/// less. Older kernels ignore it.
pub(crate) fn take_short_turns() {
    // Where it is not allowed, all is as it was.
    _ = sys::set_slice(SLICE_NS);
}

/// How much nicer than a worker a thread beside the questions is: it gets a tenth of the weight.
const NICER: i32 = 10;

/// The same of a thread that works for seconds: it gets a seventieth of the weight. Linux lets a worker that wakes up
/// take the CPU from this thread only once both have had their shares since the worker's last turn. Otherwise the worker
/// waits for the next tick, up to 4 ms. After a turn of 0.5 ms it takes this thread 7 µs to have had its share, and one
/// that is nicer by [`NICER`] 54 µs.
const NICEST: i32 = 19;

/// Lets workers go first where they share a CPU with the calling thread, and with those it starts
/// from now on. A reload that takes 50 ms of CPU is then no pause of the questions. Of no other effect where the
/// calling thread, or the one that has started it, has done so before.
pub fn yield_to_workers() {
    be_nicer(NICER);
}

/// As [`yield_to_workers`], of a thread that works for seconds.
pub(crate) fn come_last() {
    be_nicer(NICEST);
}

fn be_nicer(by: i32) {
    static WORKERS: OnceLock<i32> = OnceLock::new();
    // Of the calling thread (setpriority(2)).
    let Ok(own) = rustix::process::getpriority_process(None) else { return };
    let wanted = WORKERS.get_or_init(|| own).saturating_add(by);
    if own < wanted {
        // Being nicer is always allowed; where the kernel says no, all is as it was.
        _ = rustix::process::nice(wanted - own);
    }
}

/// The CPU time per second of wall time that the control group allows, in CPUs.
fn quota() -> Option<f64> {
    tightest(&cgroup::own_folders("cpu"))
}

/// The tightest of the quotas written in these folders.
fn tightest(folders: &[(PathBuf, bool)]) -> Option<f64> {
    let read = |(folder, unified): &(PathBuf, bool)| {
        if *unified { unified_quota(folder) } else { legacy_quota(folder) }
    };
    folders.iter().filter_map(read).reduce(f64::min)
}

/// `cpu.max` holds `max` or the quota, then the period, in microseconds.
fn unified_quota(directory: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(directory.join("cpu.max")).ok()?;
    let mut words = text.split_whitespace();
    ratio(words.next()?, words.next()?)
}

fn legacy_quota(directory: &Path) -> Option<f64> {
    let read = |name| std::fs::read_to_string(directory.join(name)).ok();
    ratio(read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim())
}

fn ratio(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_calling_thread_and_its_children_are_nicer() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let before = niceness();
        let inside = std::thread::spawn(move || {
            yield_to_workers();
            yield_to_workers();
            let child = std::thread::spawn(move || {
                yield_to_workers();
                come_last();
                niceness()
            });
            (niceness(), child.join().unwrap())
        });
        let wanted = [NICER, NICEST].map(|by| (before + by).min(19));
        assert_eq!(inside.join().unwrap(), wanted.into());
        assert_eq!(niceness(), before);
    }

    #[test]
    fn short_turns_change_neither_niceness_nor_policy() {
        let inside = std::thread::spawn(|| {
            yield_to_workers();
            let before = sys::scheduling().unwrap();
            take_short_turns();
            (before, sys::scheduling().unwrap())
        });
        let (before, after) = inside.join().unwrap();
        assert_eq!(
            (before.sched_nice, before.sched_policy),
            (after.sched_nice, after.sched_policy)
        );
        // Kernels that know turns tell how long they are; others tell 0.
        let expected = if before.sched_runtime == 0 { 0 } else { SLICE_NS };
        assert_eq!(after.sched_runtime, expected);
    }

    #[test]
    fn there_is_always_a_cpu_and_a_worker() {
        assert!(!allowed().is_empty());
        assert!((1..=allowed().len()).contains(&workers()));
    }

    #[test]
    fn the_tightest_quota_of_the_hierarchy_counts() {
        let root = std::env::temp_dir().join(format!("nodens-cpu-{}", std::process::id()));
        let of = |groups| tightest(&cgroup::folders(groups, &root, "cpu"));
        let pod = root.join("kubepods/pod1");
        std::fs::create_dir_all(&pod).unwrap();
        std::fs::write(pod.join("cpu.max"), "250000 100000\n").unwrap();
        std::fs::write(root.join("kubepods/cpu.max"), "max 100000\n").unwrap();
        assert_eq!(of("0::/kubepods/pod1\n"), Some(2.5));
        std::fs::write(root.join("kubepods/cpu.max"), "100000 100000\n").unwrap();
        assert_eq!(of("0::/kubepods/pod1\n"), Some(1.0));
        assert_eq!(of("0::/elsewhere\n"), None);
        let legacy = root.join("cpu/kubepods");
        std::fs::create_dir_all(&legacy).unwrap();
        std::fs::write(legacy.join("cpu.cfs_quota_us"), "-1\n").unwrap();
        std::fs::write(legacy.join("cpu.cfs_period_us"), "100000\n").unwrap();
        assert_eq!(of("4:cpu,cpuacct:/kubepods\n"), None);
        std::fs::write(legacy.join("cpu.cfs_quota_us"), "50000\n").unwrap();
        assert_eq!(of("4:cpu,cpuacct:/kubepods\n"), Some(0.5));
        std::fs::remove_dir_all(root).unwrap();
    }
}
