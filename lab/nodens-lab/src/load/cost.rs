//! What a load costs the server: CPU time and memory, from counters read before and after.

use crate::counters::{Counters, Endpoint, Reading};
use crate::term;
use anyhow::{Context, Result};
use lab_result::{ResultFile, ServerCost};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Arguments on the server's counters.
#[derive(clap::Args)]
#[command(next_help_heading = "Cost of the server")]
#[group(id = "server_counters", multiple = false)]
pub(super) struct CostArgs {
    /// Process whose CPU time and memory are the server's.
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// Control group (version 2) whose CPU time and memory are the server's.
    #[arg(long, value_name = "FOLDER")]
    server_cgroup: Option<PathBuf>,
    /// Metrics page with the server's process_cpu_seconds_total and process_resident_memory_bytes, as
    /// http://10.0.0.2:9153/metrics.
    #[arg(long, value_name = "URL")]
    server_metrics: Option<Endpoint>,
}

impl CostArgs {
    /// The counters, if some were named; those that cannot be read are an error before the load.
    pub(super) fn open(&self) -> Result<Cost> {
        let process = self.server_pid.map(Counters::Process);
        let cgroup = || self.server_cgroup.clone().map(Counters::Cgroup);
        let metrics = || self.server_metrics.clone().map(Counters::Prometheus);
        let counters = process.or_else(cgroup).or_else(metrics);
        let began = Instant::now();
        if let Some(counters) = &counters {
            let read = counters.refuse_own().and_then(|()| counters.read());
            read.context("the cost of the server cannot be measured")?;
        }
        let took = began.elapsed();
        Ok(Cost { counters, took, before: None, after: None, peak: None, fault: None })
    }
}

/// Before a start, besides twice the time for reading the counters.
const AHEAD: Duration = Duration::from_millis(200);

/// The counters of a load.
pub(super) struct Cost {
    counters: Option<Counters>,
    /// How long they took to read at first.
    took: Duration,
    before: Option<(Instant, Reading)>,
    after: Option<(Instant, Reading)>,
    peak: Option<u64>,
    /// Why they could not be read.
    fault: Option<String>,
}

impl Cost {
    fn read(&mut self) -> Option<(Instant, Reading)> {
        let counters = self.counters.as_ref()?;
        match counters.read() {
            Ok(reading) => {
                // What is looked at every second is compared with its like.
                let memory = counters.memory().or(reading.memory);
                self.peak = self.peak.max(memory);
                Some((Instant::now(), Reading { memory, ..reading }))
            }
            Err(error) => {
                self.fault.get_or_insert_with(|| format!("{error:#}"));
                None
            }
        }
    }

    /// How long before the start of a load its counters must be read. Without any there is no reason to
    /// come close to the start.
    pub(super) fn ahead(&self) -> Duration {
        self.counters.as_ref().map_or(Duration::MAX, |_| AHEAD + 2 * self.took)
    }

    /// The load begins.
    pub(super) fn begin(&mut self) {
        self.peak = None;
        self.before = self.read();
    }

    /// A second of it is over. The server is not asked: its answer would be a part of what is measured.
    pub(super) fn look(&mut self) {
        self.peak = self.peak.max(self.counters.as_ref().and_then(Counters::memory));
    }

    /// The load is over.
    pub(super) fn end(&mut self) {
        self.after = self.read();
    }

    /// Puts into `result` what the load has cost.
    pub(super) fn put(&self, result: &mut ResultFile) {
        let Some(counters) = &self.counters else { return };
        let both = self.before.zip(self.after).and_then(|((began, before), (ended, after))| {
            let same = before.started == after.started;
            Some((ended - began, before, after.cpu?.checked_sub(before.cpu?).filter(|_| same)?))
        });
        let Some((wall, before, cpu)) = both else {
            let why = self.fault.as_deref().unwrap_or("the server was restarted");
            let note =
                format!("the cost of the server is unknown, reading its counters failed: {why}");
            return result.verdict.notes.push(note);
        };
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let memory = match counters {
            Counters::Prometheus(_) => ", memory read before and after only",
            _ => "",
        };
        result.server_cost = Some(ServerCost {
            source: format!("{counters}, idle time included{memory}"),
            cpu_ns: nanos(cpu),
            wall_ns: nanos(wall),
            cpu_per_answer_ns: nanos(cpu).checked_div(result.counts.answered),
            memory_before: before.memory,
            memory_peak: self.peak,
        });
    }
}

/// The cost on a line.
pub(super) fn line(result: &ResultFile) -> Option<String> {
    let cost = result.server_cost.as_ref()?;
    let mib = |octets: u64| format!("{:.1} MiB", octets as f64 / f64::from(1 << 20));
    let each = cost.cpu_per_answer_ns.map_or("n/a".to_owned(), |nanos| term::nanos(nanos as f64));
    let part = cost.cpu_ns as f64 / (cost.wall_ns as f64).max(1.0) * 100.0;
    let memory = match (cost.memory_before, cost.memory_peak) {
        (Some(before), Some(peak)) => {
            format!("  memory {} before, {} at most", mib(before), mib(peak))
        }
        _ => String::new(),
    };
    Some(format!(
        "  cost       {each} of CPU per answer  {part:.1} % of a CPU{memory}  ({})",
        cost.source
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    #[test]
    fn a_page_of_metrics_is_fetched_before_and_after_and_never_in_between() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let args = CostArgs {
            server_pid: None,
            server_cgroup: None,
            server_metrics: Some(url.parse().unwrap()),
        };
        // The last of the pages is of another process, whose counter is higher already.
        let server = std::thread::spawn(move || {
            for (cpu, started) in [(1, 5), (2, 5), (3, 5), (9, 8)] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
                write!(
                    stream,
                    "HTTP/1.1 200 OK\r\n\r\nprocess_cpu_seconds_total {cpu}\n\
                     process_start_time_seconds {started}\n"
                )
                .unwrap();
            }
            listener
        });
        let mut cost = args.open().unwrap();
        cost.begin();
        // Each of these would take a page away from the readings.
        (0..10).for_each(|_| cost.look());
        cost.end();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab-result/testdata/small.json");
        let mut result = lab_result::read(path.as_ref()).unwrap();
        let mut spoilt = result.clone();
        cost.put(&mut result);
        let found = result.server_cost.as_ref().unwrap();
        assert_eq!(found.cpu_ns, 1_000_000_000);
        assert!(found.source.contains("idle time included"), "{}", found.source);
        spoilt.server_cost = None;
        cost.end();
        cost.put(&mut spoilt);
        assert!(spoilt.server_cost.is_none(), "{:?}", spoilt.server_cost);
        assert!(spoilt.verdict.notes.iter().any(|note| note.contains("restarted")));
        drop(server.join().unwrap());
    }

    #[test]
    fn the_cost_is_what_the_counters_went_up_by_and_counters_that_failed_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let args = CostArgs {
            server_pid: None,
            server_cgroup: Some(folder.path().to_owned()),
            server_metrics: None,
        };
        assert!(args.open().err().unwrap().to_string().contains("cannot be measured"));
        let none = CostArgs { server_pid: None, server_cgroup: None, server_metrics: None };
        assert_eq!(none.open().unwrap().ahead(), Duration::MAX);
        write("cpu.stat", "usage_usec 500\n");
        write("memory.stat", "anon 1048576\n");
        let mut cost = args.open().unwrap();
        assert!(cost.ahead() >= AHEAD && cost.ahead() < Duration::MAX);
        cost.begin();
        write("memory.stat", "anon 4194304\n");
        cost.look();
        write("memory.stat", "anon 2097152\n");
        write("cpu.stat", "usage_usec 1500\n");
        cost.end();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab-result/testdata/small.json");
        let mut result = lab_result::read(path.as_ref()).unwrap();
        (result.server_cost, result.counts.answered) = (None, 4);
        let mut spoilt = result.clone();
        cost.put(&mut result);
        let found = result.server_cost.as_ref().unwrap();
        assert_eq!((found.cpu_ns, found.cpu_per_answer_ns), (1_000_000, Some(250_000)));
        assert_eq!((found.memory_before, found.memory_peak), (Some(1 << 20), Some(4 << 20)));
        let line = line(&result).unwrap();
        assert!(line.contains("250 µs of CPU per answer"), "{line}");
        assert!(line.contains("memory 1.0 MiB before, 4.0 MiB at most"), "{line}");
        // Counters that went back are of another process.
        write("cpu.stat", "usage_usec 100\n");
        cost.end();
        cost.put(&mut spoilt);
        assert!(spoilt.server_cost.is_none());
        assert!(spoilt.verdict.notes.iter().any(|note| note.contains("restarted")));
    }
}
