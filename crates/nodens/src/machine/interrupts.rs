//! On which CPUs packets arrive, and whether these are the workers'.
//!
//! The kernel gives a datagram or connection to the socket of the worker on whose CPU it arrived
//! (`SO_INCOMING_CPU`; older kernels ignore it), and spreads what arrives elsewhere by a hash. Packets of a queue arrive on the
//! CPU that gets its interrupts, or on those that `rps_cpus` names. Only what is certain is said:
//! interrupts of a device are those of all its queues, so packets may arrive on fewer CPUs than these go
//! to, but on no others.

use super::{Machine, Wanted};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

type Cpus = BTreeSet<usize>;

/// Where the packets of an interface arrive.
struct Arrival {
    interface: String,
    queues: usize,
    /// The CPUs, as far as they are known.
    cpus: Option<Cpus>,
    /// Whether `rps_cpus` names those of any queue.
    spread: bool,
}

impl Machine {
    /// Interfaces whose packets arrive where there are no workers, or one alone.
    pub(super) fn interrupts(&self, wanted: &Wanted) -> Vec<String> {
        let workers: Cpus = wanted.pinned.iter().flatten().copied().collect();
        if workers.len() < 2 {
            return Vec::new();
        }
        let mut found: Vec<_> =
            self.arrivals().iter().filter_map(|own| own.fault(&workers)).collect();
        found.sort_unstable();
        found
    }

    fn arrivals(&self) -> Vec<Arrival> {
        let Ok(interfaces) = fs::read_dir(self.root.join("sys/class/net")) else {
            return Vec::new();
        };
        let arrival = |entry: fs::DirEntry| {
            let interface = entry.file_name().into_string().ok()?;
            self.arrival(interface, &entry.path())
        };
        interfaces.flatten().filter_map(arrival).collect()
    }

    /// Of an interface that has a device and is in use.
    fn arrival(&self, interface: String, folder: &Path) -> Option<Arrival> {
        let text = |name| fs::read_to_string(folder.join(name)).unwrap_or_default();
        // With `threaded`, packets are taken by a thread, on whatever CPU it runs.
        let is_known = text("operstate").trim() == "up" && text("threaded").trim() != "1";
        if !is_known || !folder.join("device").exists() {
            return None;
        }
        let queues = fs::read_dir(folder.join("queues")).ok()?.flatten();
        let is_receive =
            |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("rx-");
        let masks: Vec<Cpus> = queues
            .filter(is_receive)
            .map(|queue| fs::read_to_string(queue.path().join("rps_cpus")).ok())
            .map(|mask| mask.map_or(Some(Cpus::new()), |mask| from_mask(mask.trim())))
            .collect::<Option<_>>()?;
        let spread = masks.iter().any(|mask| !mask.is_empty());
        let by_interrupt = masks.iter().any(Cpus::is_empty);
        let named: Cpus = masks.iter().flatten().copied().collect();
        let cpus = match by_interrupt {
            false => Some(named),
            true => self.interrupted(folder).map(|mut cpus| {
                cpus.extend(named);
                cpus
            }),
        };
        Some(Arrival { interface, queues: masks.len(), cpus, spread })
    }

    /// The CPUs that get the interrupts of an interface's device.
    fn interrupted(&self, folder: &Path) -> Option<Cpus> {
        let device = folder.join("device");
        let bus = fs::read_link(device.join("subsystem")).ok();
        // The interrupts of a virtio device are those of the PCI device that carries it.
        let is_virtio = bus.is_some_and(|bus| bus.file_name().is_some_and(|name| name == "virtio"));
        let device = if is_virtio { device.join("..") } else { device };
        let mut cpus = Cpus::new();
        for entry in fs::read_dir(device.join("msi_irqs")).ok()?.flatten() {
            let number: u32 = entry.file_name().to_str()?.parse().ok()?;
            let path = format!("proc/irq/{number}/effective_affinity_list");
            cpus.extend(from_list(&self.text(&path)?)?);
        }
        Some(cpus).filter(|cpus| !cpus.is_empty())
    }
}

impl Arrival {
    fn fault(&self, workers: &Cpus) -> Option<String> {
        let Self { interface, queues, .. } = self;
        let (count, first) = (workers.len(), workers.first()?);
        let places = format!("{count} workers run on CPUs {first} to {}", workers.last()?);
        let remedy = format!(
            "give it more queues (ethtool -L {interface} combined {count}) or spread them \
             (/sys/class/net/{interface}/queues/rx-*/rps_cpus)"
        );
        let cpus = self.cpus.as_ref();
        if let Some(cpus) = cpus.filter(|cpus| cpus.is_disjoint(workers)) {
            let names: Vec<String> = cpus.iter().map(usize::to_string).collect();
            let names = names.join(", ");
            return Some(format!(
                "packets of {interface} arrive on CPUs without a worker ({names}), and {places}, so that \
                 every query wakes another CPU: let its interrupts go there (/proc/irq/*/smp_affinity_list), \
                 or let the process run on the others"
            ));
        }
        if let Some(cpu) = cpus.filter(|cpus| cpus.len() == 1).and_then(|cpus| cpus.first()) {
            return Some(format!(
                "all packets of {interface} arrive on CPU {cpu}, and {places}: {remedy}"
            ));
        }
        let alone = *queues == 1 && !self.spread;
        alone.then(|| {
            format!(
                "{interface} has one receive queue, whose packets arrive on one CPU at a time, and \
                 {places}: {remedy}"
            )
        })
    }
}

/// A mask in hexadecimal digits, in groups with commas between: CPU 0 is the last bit.
fn from_mask(mask: &str) -> Option<Cpus> {
    let digits = mask.chars().rev().filter(|digit| *digit != ',');
    let mut cpus = Cpus::new();
    for (place, digit) in digits.enumerate() {
        let bits = digit.to_digit(16)?;
        cpus.extend((0..4).filter(|bit| bits >> bit & 1 == 1).map(|bit| 4 * place + bit));
    }
    Some(cpus)
}

/// A list such as `0-3,8`.
fn from_list(list: &str) -> Option<Cpus> {
    let mut cpus = Cpus::new();
    for range in list.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let [first, last] = [first, last].map(|cpu| cpu.parse::<u16>().ok().map(usize::from));
        cpus.extend(first?..=last?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_lists_name_cpus() {
        let set = |cpus: &[usize]| Some(cpus.iter().copied().collect::<Cpus>());
        assert_eq!(from_mask("00000000"), set(&[]));
        assert_eq!(from_mask("5"), set(&[0, 2]));
        assert_eq!(from_mask("00000001,80000000"), set(&[31, 32]));
        assert_eq!(from_mask("x"), None);
        assert_eq!(from_list("0-2,8"), set(&[0, 1, 2, 8]));
        assert_eq!(from_list(""), set(&[]));
        assert_eq!(from_list("3"), set(&[3]));
        assert_eq!(from_list("a-b"), None);
        assert_eq!(from_list("99999999999"), None);
    }
}
