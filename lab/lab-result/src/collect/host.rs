//! The machine, as Linux describes it in /proc and /sys.

use super::text;
use crate::Host;
use std::path::Path;

pub(super) fn look(root: &Path) -> Host {
    let allowed = field(root, "proc/self/status", "Cpus_allowed_list");
    let online = text(root, "sys/devices/system/cpu/online").unwrap_or_default();
    let counted = cpus(&online).len();
    Host {
        kernel: kernel(root),
        cpu_model: cpu_model(root),
        cpus_online: if counted > 0 { counted } else { available() },
        cpus_allowed: allowed.clone().unwrap_or_else(|| online.clone()),
        cpu_quota: cpu_quota(root),
        governors: governors(root, &allowed.unwrap_or(online)),
        clocksource: text(root, "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        virtualisation: virtualisation(root),
        steal: None,
        busy: None,
        memory: memory(root),
    }
}

fn available() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn kernel(root: &Path) -> String {
    let part = |name: &str| text(root, &format!("proc/sys/kernel/{name}"));
    let parts = [part("ostype"), part("osrelease"), part("version")];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() { std::env::consts::OS.to_owned() } else { parts.join(" ") }
}

/// The text behind `name:` in the first line of a file that has it.
fn field(root: &Path, path: &str, name: &str) -> Option<String> {
    let octets = std::fs::read(root.join(path)).ok()?;
    let text = String::from_utf8_lossy(&octets);
    let mut values = text.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    });
    values.next().filter(|value| !value.is_empty())
}

/// x86 names its model; ARM boards do in the device tree, or else only a part number.
fn cpu_model(root: &Path) -> Option<String> {
    let cpuinfo = |name| field(root, "proc/cpuinfo", name);
    cpuinfo("model name")
        .or_else(|| text(root, "sys/firmware/devicetree/base/model"))
        .or_else(|| Some(format!("{} part {}", std::env::consts::ARCH, cpuinfo("CPU part")?)))
        .map(|model| model.trim_end_matches('\0').to_owned())
}

/// The CPUs of a list as `0-3,6`; what is not a number is skipped.
pub(super) fn cpus(list: &str) -> Vec<usize> {
    let ranges = list.split(',').filter_map(|range| {
        let (first, last) = range.trim().split_once('-').unwrap_or((range.trim(), range.trim()));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flat_map(|range: std::ops::RangeInclusive<usize>| range.take(4_096)).collect()
}

fn governors(root: &Path, allowed: &str) -> Vec<String> {
    let path = |cpu| format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
    let mut found: Vec<_> = cpus(allowed).iter().filter_map(|cpu| text(root, &path(cpu))).collect();
    found.sort();
    found.dedup();
    found
}

/// CPUs' worth of time that the own control group may use: version 2, or version 1.
fn cpu_quota(root: &Path) -> Option<f64> {
    let group = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let own = group.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    // In a container of its own, the group's files are at the root of the mount.
    let limit = [format!("sys/fs/cgroup/{own}/cpu.max"), "sys/fs/cgroup/cpu.max".to_owned()];
    let (quota, period) = limit
        .iter()
        .find_map(|path| {
            let line = text(root, path)?;
            let (quota, period) = line.split_once(' ')?;
            Some((quota.to_owned(), period.to_owned()))
        })
        .or_else(|| {
            let v1 = |name: &str| text(root, &format!("sys/fs/cgroup/cpu/cpu.cfs_{name}_us"));
            Some((v1("quota")?, v1("period")?))
        })?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

fn virtualisation(root: &Path) -> Option<String> {
    let flags = field(root, "proc/cpuinfo", "flags");
    let product = || {
        let part = |name: &str| text(root, &format!("sys/class/dmi/id/{name}"));
        let parts: Vec<_> =
            [part("sys_vendor"), part("product_name")].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    };
    let hypervisor = text(root, "sys/hypervisor/type");
    let virtual_machine = match &flags {
        Some(flags) if flags.split(' ').any(|flag| flag == "hypervisor") => {
            Some(hypervisor.or_else(product).unwrap_or_else(|| "hypervisor".to_owned()))
        }
        _ => hypervisor,
    };
    let container = [("run/.containerenv", "podman"), (".dockerenv", "docker")]
        .into_iter()
        .find_map(|(path, name)| root.join(path).exists().then(|| name.to_owned()))
        .or_else(|| {
            let kubernetes = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
            kubernetes.then(|| "kubernetes".to_owned())
        });
    match (virtual_machine, container) {
        (Some(machine), Some(container)) => Some(format!("{machine}, {container}")),
        (Some(one), None) | (None, Some(one)) => Some(one),
        // Only on x86 does a missing flag mean that there is none.
        (None, None) => flags.map(|_| "none".to_owned()),
    }
}

fn memory(root: &Path) -> Option<u64> {
    let total = field(root, "proc/meminfo", "MemTotal")?;
    total.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Ticks of all CPUs since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuTime {
    all: u64,
    idle: u64,
    steal: u64,
}

impl CpuTime {
    /// The first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal; what
    /// follows is part of the first two.
    pub(super) fn read(root: &Path) -> Option<Self> {
        let line = std::fs::read_to_string(root.join("proc/stat")).ok()?;
        let mut words = line.lines().next()?.split_ascii_whitespace();
        if words.next()? != "cpu" {
            return None;
        }
        let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        let [.., idle, iowait, _, _, steal] = ticks[..] else { return None };
        Some(Self { all: ticks.iter().sum(), idle: idle + iowait, steal })
    }

    /// The parts of the time since `self` that were stolen, and that were used or stolen.
    pub(super) fn parts_until(self, after: Self) -> (Option<f64>, Option<f64>) {
        let all = after.all.saturating_sub(self.all);
        if all == 0 {
            return (None, None);
        }
        let part = |ticks: u64| Some((ticks as f64 / all as f64).min(1.0));
        let idle = after.idle.saturating_sub(self.idle);
        (part(after.steal.saturating_sub(self.steal)), part(all.saturating_sub(idle)))
    }
}
