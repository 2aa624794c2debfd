//! The kernel's accounts of containers: CPU time, throttling and memory of their control groups.
//!
//! Kubelets publish them at `/metrics/cadvisor`, with the time at which each was read. So the CPU that a
//! container used between two readings is known exactly, however long the page took to get here. A
//! kubelet reads every container about every 10 s unless it was told otherwise
//! (`--housekeeping-interval`).

use std::collections::BTreeMap;

/// One reading of a container's control group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// CPU time used since its start, in seconds.
    pub cpu: f64,
    /// Time that it was kept from running by its CPU limit, in seconds.
    pub throttled: f64,
    /// Periods of the CPU limit, and those in which it was throttled.
    pub periods: f64,
    /// See above.
    pub throttled_periods: f64,
    /// Octets of memory that cannot be taken back easily.
    pub working_set: u64,
    /// Octets of anonymous memory.
    pub rss: u64,
}

impl Reading {
    /// Whether a counter is lower than in `other`: these are not readings of one group in the order of time.
    fn is_before(&self, other: &Self) -> bool {
        self.cpu < other.cpu
            || self.throttled < other.throttled
            || self.periods < other.periods
            || self.throttled_periods < other.throttled_periods
    }
}

/// Readings of containers by ID and time in milliseconds since 1970-01-01 UTC, by the nodes' clocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings(BTreeMap<String, BTreeMap<i64, Reading>>);

/// What the containers of a workload used together between two times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// CPU seconds a second, of all containers together.
    pub cpu: f64,
    /// Throttled seconds a second, of all containers together.
    pub throttled: f64,
    /// The part of the limit's periods in which a container was throttled; 0 without a limit.
    pub throttled_periods: f64,
    /// Octets at the last reading, of all containers together.
    pub working_set: u64,
    /// The same of anonymous memory.
    pub rss: u64,
    /// Readings of the container that has fewest.
    pub readings: usize,
    /// Seconds from the first to the last reading, of the container with the shortest time.
    pub seconds: f64,
}

impl Readings {
    /// Adds what a page says of the containers with these IDs. Lines without time are left out: it is
    /// not known when they were read.
    pub fn add(&mut self, page: &str, containers: &[&str]) {
        for line in page.lines() {
            let Some((name, rest)) = line.split_once('{') else { continue };
            let Some(field) = field(name) else { continue };
            // A label's value may have any character.
            let Some((labels, values)) = rest.rsplit_once('}') else { continue };
            let Some(id) = label(labels, "id") else { continue };
            let Some(container) = containers.iter().find(|one| is_group_of(id, one)) else {
                continue;
            };
            let mut values = values.split_ascii_whitespace();
            let (Some(value), Some(time)) = (
                values.next().and_then(|value| value.parse::<f64>().ok()),
                values.next().and_then(|time| time.parse::<i64>().ok()),
            ) else {
                continue;
            };
            let of = self.0.entry((*container).to_owned()).or_default();
            field(of.entry(time).or_default(), value);
        }
    }

    /// What `containers` used from `from` to `to`, by the readings in between; `None` if one of them
    /// has fewer than two, or has a counter that goes back.
    pub fn used(&self, containers: &[&str], from: i64, to: i64) -> Option<Used> {
        let mut all = Used { readings: usize::MAX, seconds: f64::INFINITY, ..Used::default() };
        let (mut periods, mut throttled_periods) = (0.0, 0.0);
        if containers.is_empty() || from >= to {
            return None;
        }
        for container in containers {
            let inside = || self.0.get(*container).map(|of| of.range(from..=to));
            let (first, last) = (inside()?.next()?, inside()?.next_back()?);
            let seconds = (last.0 - first.0) as f64 / 1e3;
            if seconds <= 0.0 {
                return None;
            }
            if inside()?.zip(inside()?.skip(1)).any(|((_, one), (_, next))| next.is_before(one)) {
                return None;
            }
            let (first, last) = (first.1, last.1);
            all.cpu += (last.cpu - first.cpu) / seconds;
            all.throttled += (last.throttled - first.throttled) / seconds;
            all.working_set += last.working_set;
            all.rss += last.rss;
            periods += last.periods - first.periods;
            throttled_periods += last.throttled_periods - first.throttled_periods;
            all.readings = all.readings.min(inside()?.count());
            all.seconds = all.seconds.min(seconds);
        }
        if periods > 0.0 {
            all.throttled_periods = throttled_periods / periods;
        }
        Some(all)
    }
}

/// Whether the path `group` is that of the container itself. CRI-O has groups with its ID in their names below
/// it, and beside it that of the process that watches it.
fn is_group_of(group: &str, container: &str) -> bool {
    let name = group.rsplit('/').next().unwrap_or_default();
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let of = |runtime: &str| name.strip_prefix(runtime) == Some(container);
    !container.is_empty() && ["", "cri-containerd-", "crio-", "docker-"].into_iter().any(of)
}

/// Where a sample goes.
type Put = fn(&mut Reading, f64);

fn field(name: &str) -> Option<Put> {
    Some(match name {
        "container_cpu_usage_seconds_total" => |reading, value| reading.cpu = value,
        "container_cpu_cfs_throttled_seconds_total" => |reading, value| reading.throttled = value,
        "container_cpu_cfs_periods_total" => |reading, value| reading.periods = value,
        "container_cpu_cfs_throttled_periods_total" => {
            |reading, value| reading.throttled_periods = value
        }
        "container_memory_working_set_bytes" => |reading, value| reading.working_set = value as u64,
        "container_memory_rss" => |reading, value| reading.rss = value as u64,
        _ => return None,
    })
}

/// The value of a label, as it is written.
fn label<'l>(labels: &'l str, name: &str) -> Option<&'l str> {
    let start = format!("{name}=\"");
    let at = match labels.strip_prefix(&start) {
        Some(rest) => rest,
        None => labels.split_once(&format!(",{start}"))?.1,
    };
    at.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4f6c1e2b";

    fn page(cpu: f64, time: i64) -> String {
        let labels = |id: &str| {
            format!(
                "container=\"dns\",cpu=\"total\",id=\"/kubepods/burstable/pod7/{id}\",pod=\"a\""
            )
        };
        let (mine, other) = (labels(ID), labels("99"));
        format!(
            "# TYPE container_cpu_usage_seconds_total counter\n\
             container_cpu_usage_seconds_total{{{mine}}} {cpu} {time}\n\
             container_cpu_usage_seconds_total{{{other}}} 77 {time}\n\
             container_cpu_cfs_periods_total{{{mine}}} {} {time}\n\
             container_cpu_cfs_throttled_periods_total{{{mine}}} {} {time}\n\
             container_memory_working_set_bytes{{{mine}}} 1.5e+07 {time}\n\
             container_memory_rss{{id=\"/kubepods/burstable/pod7/{ID}\"}} 1e+07\n",
            cpu * 10.0,
            cpu * 5.0,
        )
    }

    #[test]
    fn cpu_is_counted_between_readings_inside_of_the_load() {
        let mut readings = Readings::default();
        // The first and the last one are outside, where the server is idle.
        for (cpu, time) in
            [(1.0, 1_000), (1.0, 10_000), (4.0, 20_000), (7.0, 30_000), (7.0, 90_000)]
        {
            readings.add(&page(cpu, time), &[ID]);
            readings.add(&page(cpu, time), &[ID]);
        }
        let used = readings.used(&[ID], 9_500, 31_000).unwrap();
        assert_eq!((used.readings, used.seconds, used.throttled_periods), (3, 20.0, 0.5));
        assert_eq!(used.cpu, 0.3, "{used:?}");
        assert_eq!((used.working_set, used.rss), (15_000_000, 0), "a line without time counts");
    }

    #[test]
    fn groups_beside_and_below_a_container_are_not_the_container() {
        let line = |group: &str, cpu: f64, time: i64| {
            let id = format!("/kubepods.slice/pod7.slice/{group}");
            format!("container_cpu_usage_seconds_total{{id=\"{id}\"}} {cpu} {time}\n")
        };
        let mut readings = Readings::default();
        for time in [1_000, 11_000, 21_000] {
            let (own, conmon) = (format!("crio-{ID}.scope"), format!("crio-conmon-{ID}.scope"));
            let page = line(&own, time as f64 / 1e4, time)
                + &line(&conmon, 0.5, time - 500)
                + &line(&format!("{own}/container"), 100.0, time + 500);
            readings.add(&page, &[ID]);
        }
        let used = readings.used(&[ID], 0, 30_000).unwrap();
        assert_eq!((used.readings, used.seconds, used.cpu), (3, 20.0, 0.1));
        for (group, is) in [
            ("4f6c1e2b", true),
            ("cri-containerd-4f6c1e2b.scope", true),
            ("docker-4f6c1e2b.scope", true),
            ("4f6c1e2b0", false),
            ("crio-conmon-4f6c1e2b.scope", false),
        ] {
            assert_eq!(is_group_of(&format!("/kubepods/pod7/{group}"), ID), is, "{group}");
        }
        assert!(!is_group_of("/kubepods/", ""));
    }

    #[test]
    fn counters_that_go_back_are_no_measurement() {
        let mut readings = Readings::default();
        for (cpu, time) in [(5.0, 1_000), (1.0, 11_000), (9.0, 21_000)] {
            readings.add(&page(cpu, time), &[ID]);
        }
        assert!(readings.used(&[ID], 0, 30_000).is_none());
        assert!(readings.used(&[ID], 5_000, 30_000).is_some());
    }

    #[test]
    fn too_few_readings_are_no_measurement() {
        let mut readings = Readings::default();
        readings.add(&page(1.0, 1_000), &[ID]);
        readings.add(&page(2.0, 11_000), &[ID]);
        assert!(readings.used(&[ID], 0, 10_000).is_none());
        assert!(
            readings.used(&[ID, "99"], 0, 20_000).is_none(),
            "one of two containers is missing"
        );
        assert!(readings.used(&[], 0, 20_000).is_none());
        assert!(readings.used(&[ID], 0, 20_000).is_some());
        readings.add("container_cpu_usage_seconds_total{id=\"x\"} nonsense 5\n}{\n", &["x"]);
    }
}
