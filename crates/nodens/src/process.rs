//! Metrics about the process itself, under the names every dashboard knows.

use crate::VERSION;
use crate::logger::Logger;
use nodens_core::Shared;
use nodens_core::metrics::Gauge;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

/// Kernel clock ticks a second in `/proc`; the same on every Linux architecture we build for.
const TICKS_PER_SECOND: f64 = 100.0;
/// Octets of a page where the kernel does not say.
const PAGE_LEN: f64 = 4096.0;

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
        Arc::new(|| memory_pages(1) * PAGE_LEN),
    );
    gauge(
        "process_virtual_memory_bytes",
        "Octets of address space.",
        Arc::new(|| memory_pages(0) * PAGE_LEN),
    );
    shared.registry.total(
        "process_cpu_seconds_total",
        "CPU time used, in seconds.",
        Arc::new(cpu_seconds),
    );
    gauge("process_open_fds", "Open file descriptors.", Arc::new(open_files));
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
    ticks.filter_map(|word| word.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND
}

fn open_files() -> f64 {
    std::fs::read_dir("/proc/self/fd").map_or(0.0, |files| files.count() as f64)
}
