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
    let (mut all_sent, mut all_lost) = (0_u64, 0_u64);
    let mut final_seconds: Vec<Option<u64>> = Vec::new();
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
        for (all, more) in [(&mut all_sent, sent), (&mut all_lost, lost)] {
            *all = more.saturating_add(*all);
        }
        let is_final = cell("final")? == "1";
        final_seconds.push(is_final.then_some(answered));
        if !is_final || sent == 0 {
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
    let mut figures = Vec::from_iter(rate(&final_seconds));
    figures.extend(Figure::part("loss", all_lost, all_sent));
    found.trials.push(Trial {
        line: 2,
        started_unix_ns: started.map(|second| second.saturating_mul(1_000_000_000)),
        whole: Measured { figures, ..Measured::default() },
        parts,
        ..Trial::default()
    });
    found.assume(
        "it has the percentiles of each second, which do not give the percentile of the whole run",
    );
    found.assume("the last second may not be a whole one: where there are others, the rate of the run is theirs");
    Ok(found)
}

/// Answers of a second, over the seconds that are final. A run ends when its time is over, and the file does
/// not say how much of the last second that was.
fn rate(seconds: &[Option<u64>]) -> Option<Figure> {
    let whole = match seconds.split_last() {
        Some((_, others)) if others.iter().any(Option::is_some) => others,
        _ => seconds,
    };
    let answered: Vec<u64> = whole.iter().copied().flatten().collect();
    let all = answered.iter().map(|answered| *answered as f64).sum::<f64>();
    (!answered.is_empty()).then(|| Figure::rate("qps", all / answered.len() as f64))
}
