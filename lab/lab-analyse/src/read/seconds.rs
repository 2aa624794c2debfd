//! A line per second, as `nodens-lab export -f csv` writes it: one run.

use super::{Fault, Found, number, whole};
use crate::trial::{Figure, Measured, Trial};
use std::collections::BTreeMap;

const PERCENTILES: [&str; 4] = ["p50", "p90", "p99", "p99.9"];

pub(super) fn read(text: &str) -> Result<Found, Fault> {
    let mut lines = text.lines().zip(1..);
    let names: Vec<&str> =
        lines.next().map(|(line, _)| line.split(',').collect()).unwrap_or_default();
    let (mut parts, mut started) = (Vec::new(), None);
    let (mut all_sent, mut all_answered, mut all_lost) = (0_u64, 0_u64, 0_u64);
    for (line, at) in lines.filter(|(line, _)| !line.trim().is_empty()) {
        let cells: BTreeMap<&str, &str> = names.iter().copied().zip(line.split(',')).collect();
        if line.split(',').count() != names.len() {
            let message =
                format!("{} cells, expected {} as in line 1", line.split(',').count(), names.len());
            return Err(Fault::new(at, message));
        }
        let cell = |name: &str| {
            let missing = || Fault::new(1, format!("no column `{name}`"));
            cells.get(name).copied().ok_or_else(missing)
        };
        let counted = |name: &str| cell(name).and_then(|text| whole(text, at, name));
        let (sent, answered, lost) = (counted("sent")?, counted("answered")?, counted("lost")?);
        started = started.or(Some(counted("start_unix")?));
        for (all, more) in
            [(&mut all_sent, sent), (&mut all_answered, answered), (&mut all_lost, lost)]
        {
            *all = more.saturating_add(*all);
        }
        if cell("final")? != "1" || sent == 0 {
            continue;
        }
        let bounds: Vec<&str> = cell("at_least")?.split(' ').collect();
        let mut figures = vec![Figure::rate("qps", answered as f64)];
        for name in PERCENTILES {
            let text = cell(&format!("{name}_ns"))?;
            if !text.is_empty() {
                let is_bound = bounds.contains(&name);
                figures.push(Figure { is_bound, ..Figure::time(name, number(text, at, name)?) });
            }
        }
        figures.extend(Figure::part("loss", lost, sent));
        parts.push(Measured { figures, ..Measured::default() });
    }
    let mut found = Found::default();
    if parts.is_empty() {
        return Ok(found);
    }
    let mut figures = vec![Figure::rate("qps", all_answered as f64 / parts.len() as f64)];
    figures.extend(Figure::part("loss", all_lost, all_sent));
    found.trials.push(Trial {
        line: 2,
        started_unix_ns: started.map(|second| second.saturating_mul(1_000_000_000)),
        whole: Measured { figures, ..Measured::default() },
        parts,
        ..Trial::default()
    });
    found.assume(
        "it has percentiles of seconds and none of the run: a percentile of percentiles is none of the queries",
    );
    Ok(found)
}
