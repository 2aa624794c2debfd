//! The table: medians of the repeats, with their range.

use super::{Bench, Cell, Route, Sample, Tool};
use crate::term::{self, Table};
use anyhow::{Context, Result, bail};
use lab_echo::arrivals::Spacing;
use std::path::Path;

/// Lines between which the table stands in a Markdown file.
const BEGIN: &str = "<!-- bench-lab: begin -->";
const END: &str = "<!-- bench-lab: end -->";
/// What a reader must know of a machine with more to do than CPUs.
const BUSY: &str = "the machine was busy with other work; compare CPU per query and the ratio, and \
                    measure rates, gaps and latencies again when it is quiet";

/// What a report is made of.
pub(super) struct Report<'a> {
    pub(super) bench: &'a Bench<'a>,
    pub(super) tools: &'a [Tool],
    pub(super) notes: &'a [String],
    pub(super) samples: &'a [Sample],
}

impl Report<'_> {
    /// The whole report, with tables as `render` makes them.
    pub(super) fn text(&self, render: &dyn Fn(&Table) -> String) -> String {
        let mut parts = Vec::new();
        for (route, title) in
            [(Route::Loopback, "Over loopback"), (Route::Veth, "Across a veth pair")]
        {
            if self.samples.iter().all(|sample| sample.route != route) {
                continue;
            }
            parts.push(format!("{title}, at the highest rate of one CPU:"));
            parts.push(render(&self.maximum(route)));
            parts.extend(self.ratio(route));
            let rate = term::count(self.bench.args.rate.into());
            parts.push(format!("{title}, {rate} QPS evenly, and the latency floor:"));
            parts.push(render(&self.pacing(route)));
        }
        parts.push(about(self.bench, self.tools, self.notes).join("\n"));
        parts.join("\n\n")
    }

    fn maximum(&self, route: Route) -> Table {
        let mut table = Table::new(&[
            "generator",
            "answers/s on one CPU",
            "CPU per query",
            "queries per CPU second",
        ]);
        for tool in self.tools.iter().filter(|tool| tool.can(Cell::Maximum, route)) {
            let of = |number: &dyn Fn(&Sample) -> Option<f64>| {
                self.median((tool.name, route, Cell::Maximum), number)
            };
            let seconds = f64::from(self.bench.args.seconds);
            table.row(vec![
                tool.name.to_owned(),
                rate(of(&|sample| Some(sample.answered as f64 / seconds))),
                nanos(of(&Sample::cost)),
                rate(of(&|sample| Some(1e9 / sample.cost()?))),
            ]);
        }
        table
    }

    fn pacing(&self, route: Route) -> Table {
        let mut table = Table::new(&[
            "generator",
            "rate seen",
            "gap off by, p50",
            "p99",
            "in 10 ms",
            "CPU per query",
            "lowest latency",
            "median",
        ]);
        for tool in self.tools.iter().filter(|tool| tool.can(Cell::Pacing, route)) {
            let spacing = |number: fn(&Spacing) -> Option<f64>| {
                let number = |sample: &Sample| number(sample.spacing.as_ref()?);
                self.median((tool.name, route, Cell::Pacing), &number)
            };
            let floor = |number: fn((u64, u64)) -> u64| {
                let number = |sample: &Sample| Some(number(sample.floor?) as f64);
                self.median((tool.name, route, Cell::Floor), &number)
            };
            let least = spacing(|spacing| Some(spacing.window.0 as f64));
            let most = spacing(|spacing| Some(spacing.window.1 as f64));
            let window = match (least, most) {
                (Some(least), Some(most)) => format!("{:.0} to {:.0}", least.middle, most.middle),
                _ => "–".to_owned(),
            };
            table.row(vec![
                tool.name.to_owned(),
                rate(spacing(|spacing| Some(spacing.rate))),
                nanos(spacing(|spacing| Some(spacing.deviation.quantile(0.5).nanos()? as f64))),
                nanos(spacing(|spacing| Some(spacing.deviation.quantile(0.99).nanos()? as f64))),
                window,
                nanos(self.median((tool.name, route, Cell::Pacing), &Sample::cost)),
                nanos(floor(|floor| floor.0)),
                nanos(floor(|floor| floor.1)),
            ]);
        }
        table
    }

    /// The median of `number` over the repeats of one measurement.
    fn median(
        &self,
        (tool, route, cell): (&str, Route, Cell),
        number: &dyn Fn(&Sample) -> Option<f64>,
    ) -> Option<Median> {
        let of = |s: &&Sample| s.tool == tool && s.route == route && s.cell == cell;
        Median::of(self.samples.iter().filter(of).filter_map(number).collect())
    }

    /// How many times as much one CPU does with this generator as with dnsperf, repeat by repeat.
    fn ratio(&self, route: Route) -> Option<String> {
        let costs = |name: &str| -> Vec<f64> {
            let of = |s: &&Sample| s.tool == name && s.route == route && s.cell == Cell::Maximum;
            self.samples.iter().filter(of).filter_map(Sample::cost).collect()
        };
        let (lab, dnsperf) = (costs("nodens-lab"), costs("dnsperf"));
        let ratios = lab.iter().zip(&dnsperf).map(|(lab, dnsperf)| dnsperf / lab).collect();
        let Median { middle, lowest, highest } = Median::of(ratios)?;
        Some(format!(
            "Per CPU second, nodens-lab sends and receives {middle:.1} times as many queries as \
             dnsperf ({lowest:.1} to {highest:.1} in the repeats)."
        ))
    }
}

fn nanos(median: Option<Median>) -> String {
    show(median, term::nanos)
}

fn rate(median: Option<Median>) -> String {
    show(median, |rate| term::count(rate.round() as u64))
}

impl Sample {
    /// Nanoseconds of CPU per answered query.
    fn cost(&self) -> Option<f64> {
        (self.answered > 0).then(|| self.cpu.as_nanos() as f64 / self.answered as f64)
    }
}

/// A median with the range of the values.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Median {
    middle: f64,
    lowest: f64,
    highest: f64,
}

impl Median {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (lowest, highest) = (*values.first()?, *values.last()?);
        let (low, high) = (values.get((values.len() - 1) / 2)?, values.get(values.len() / 2)?);
        Some(Self { middle: (low + high) / 2.0, lowest, highest })
    }
}

fn show(median: Option<Median>, number: impl Fn(f64) -> String) -> String {
    let Some(median) = median else { return "–".to_owned() };
    if median.lowest == median.highest {
        return number(median.middle);
    }
    let spread = (median.highest - median.lowest) / 2.0 / median.middle.max(1e-9) * 100.0;
    format!("{} ± {spread:.0} %", number(median.middle))
}

fn about(bench: &Bench<'_>, tools: &[Tool], notes: &[String]) -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model =
        cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let load = read("/proc/loadavg");
    let load: Vec<_> = load.split(' ').take(3).collect();
    let mut lines = vec![
        format!(
            "- {} repeats of {} s each, interleaved; medians, ± half the range",
            bench.args.repeats, bench.args.seconds
        ),
        format!("- CPUs: echo {:?}, generator {:?}", bench.cpus.subject, bench.cpus.load),
        format!(
            "- {}, Linux {}, load average at the end {}",
            model.trim_start_matches([' ', '\t', ':']),
            read("/proc/sys/kernel/osrelease").trim(),
            load.join(" ")
        ),
    ];
    let busy = load.first().and_then(|load| load.parse::<f64>().ok()).unwrap_or(0.0);
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if busy > cpus as f64 {
        lines.push(format!("- {cpus} CPUs: {BUSY}"));
    }
    let mut versions: Vec<_> = tools.iter().map(|tool| tool.version.as_str()).collect();
    versions.dedup();
    lines.push(format!("- versions: nodens-lab {}", versions.join(", ")));
    lines.extend(notes.iter().map(|note| format!("- {note}")));
    lines
}

/// Refuses a file without the markers before anything is measured.
pub(super) fn check(path: &Path) -> Result<()> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    split(&text).map(drop).with_context(|| path.display().to_string())
}

/// What stands before and behind the table.
fn split(text: &str) -> Result<(&str, &str)> {
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, behind) = rest.split_once(END)?;
        Some((before, behind))
    });
    match parts {
        Some(parts) => Ok(parts),
        None => bail!("expected the lines `{BEGIN}` and `{END}`"),
    }
}

/// Puts `table` between the markers of the file at `path`.
pub(super) fn replace(path: &Path, table: &str) -> Result<()> {
    let text = std::fs::read_to_string(path)?;
    let (before, behind) = split(&text)?;
    std::fs::write(path, format!("{before}{BEGIN}\n{table}\n{END}{behind}"))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_takes_the_place_of_the_old_one_and_nothing_else_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.md");
        std::fs::write(&path, "no markers\n").unwrap();
        assert!(format!("{:#}", check(&path).unwrap_err()).contains("bench-lab: begin"));
        std::fs::write(&path, format!("# a\n{BEGIN}\nold\n{END}\nz\n")).unwrap();
        check(&path).unwrap();
        replace(&path, "new").unwrap();
        replace(&path, "newer").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("# a\n{BEGIN}\nnewer\n{END}\nz\n"));
    }

    #[test]
    fn a_median_shows_its_range_and_nothing_is_a_dash() {
        let median = Median::of(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!((median.middle, median.lowest, median.highest), (2.0, 1.0, 3.0));
        assert_eq!(show(Some(median), |n| format!("{n}")), "2 ± 50 %");
        assert_eq!(show(Median::of(Vec::new()), |n| format!("{n}")), "–");
    }
}
