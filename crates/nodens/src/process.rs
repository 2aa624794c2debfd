//! Metrics about the process itself, under the names every dashboard knows.

use crate::VERSION;
use crate::logger::Logger;
use nodens_core::Shared;
use nodens_core::metrics::Gauge;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

/// Registers the gauges.
pub(crate) fn register(shared: &Arc<Shared>, logger: &Logger) {
    let gauge = |name, help, read: Gauge| shared.registry.gauge(name, help, &[], read);
    let labels = [
        ("version", VERSION),
        ("revision", env!("NODENS_COMMIT")),
        ("goversion", env!("NODENS_RUSTC")),
    ];
    let help = "Always 1: version, commit and compiler of this program.";
    shared.registry.gauge("coredns_build_info", help, &labels, Arc::new(|| 1.0));
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    gauge(
        "process_start_time_seconds",
        "When the process started, in seconds since 1970.",
        Arc::new(move || started),
    );
    gauge(
        "process_resident_memory_bytes",
        "Octets of memory in use.",
        Arc::new(|| memory_pages(1) * rustix::param::page_size() as f64),
    );
    gauge(
        "process_virtual_memory_bytes",
        "Octets of address space.",
        Arc::new(|| memory_pages(0) * rustix::param::page_size() as f64),
    );
    shared.registry.total(
        "process_cpu_seconds_total",
        "CPU time used, in seconds.",
        Arc::new(cpu_seconds),
    );
    gauge("process_open_fds", "Open file descriptors.", Arc::new(open_files));
    gauge(
        "process_max_fds",
        "File descriptors that may be open at once.",
        Arc::new(|| limit("Max open files")),
    );
    gauge(
        "process_virtual_memory_max_bytes",
        "Octets of address space that may be in use.",
        Arc::new(|| limit("Max address space")),
    );
    network(shared);
    let sink = shared.sink.clone();
    shared.registry.total(
        "nodens_log_dropped_total",
        "Log records dropped because the writer was behind.",
        Arc::new(move || sink.dropped() as f64),
    );
    let lost = logger.lost.clone();
    shared.registry.total(
        "nodens_log_write_errors_total",
        "Writes to the log that failed.",
        Arc::new(move || lost.load(Ordering::Relaxed) as f64),
    );
}

/// What the network namespace of the process has received and sent: the kernel does not count by
/// process, and these are the names under which others show it.
fn network(shared: &Arc<Shared>) {
    let octets = |field: &'static str| -> Gauge {
        Arc::new(move || {
            let text = std::fs::read_to_string("/proc/self/net/netstat").unwrap_or_default();
            netstat(&text, "IpExt:", field)
        })
    };
    shared.registry.total(
        "process_network_receive_bytes_total",
        "Octets of IPv4 that the network namespace of the process received.",
        octets("InOctets"),
    );
    shared.registry.total(
        "process_network_transmit_bytes_total",
        "Octets of IPv4 that the network namespace of the process sent.",
        octets("OutOctets"),
    );
}

/// A field of a protocol in `/proc/net/netstat`: a line of names, and a line of numbers.
fn netstat(text: &str, protocol: &str, field: &str) -> f64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let (names, numbers) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let place = names.split_whitespace().position(|name| name == field);
    let number = place.and_then(|place| numbers.split_whitespace().nth(place));
    number.and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// A soft limit of `/proc/self/limits`.
fn limit(name: &str) -> f64 {
    limit_in(&std::fs::read_to_string("/proc/self/limits").unwrap_or_default(), name)
}

/// The largest 64-bit number stands for none, as in Prometheus' Go client.
fn limit_in(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    match line.and_then(|line| line.split_whitespace().next()) {
        Some("unlimited") => u64::MAX as f64,
        Some(number) => number.parse().unwrap_or(0.0),
        None => 0.0,
    }
}

/// A field of `/proc/self/statm`, in pages.
fn memory_pages(field: usize) -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(field).and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// User and system time from `/proc/self/stat`, whose second field may contain spaces.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.filter_map(|word| word.parse::<f64>().ok()).sum::<f64>()
        / rustix::param::clock_ticks_per_second() as f64
}

fn open_files() -> f64 {
    std::fs::read_dir("/proc/self/fd").map_or(0.0, |files| files.count() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_counters_of_the_kernel() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            1024                 524288               files\n\
                      Max address space         unlimited            unlimited            bytes\n";
        assert_eq!(limit_in(limits, "Max open files"), 1024.0);
        assert_eq!(limit_in(limits, "Max address space"), u64::MAX as f64);
        let counters =
            "TcpExt: InOctets x\nTcpExt: 9 9\nIpExt: A InOctets OutOctets\nIpExt: 1 22 333\n";
        assert_eq!(netstat(counters, "IpExt:", "InOctets"), 22.0);
        assert_eq!(netstat(counters, "IpExt:", "OutOctets"), 333.0);
        assert_eq!(netstat(counters, "IpExt:", "Other"), 0.0);
    }
}
