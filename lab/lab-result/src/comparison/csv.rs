//! The blocks of a comparison as a table.

use super::{Block, ComparisonFile};
use lab_histogram::Quantile;
use std::fmt::Write as _;

/// The blocks as a table for other programs: a line each.
pub fn csv(comparison: &ComparisonFile) -> String {
    let mut text =
        "phase,pair,first,side,set,load,rate,attempt,used,started_unix_ns,elapsed_ns,sent,\
                    answered,lost,p50_ns,p90_ns,p99_ns,p99.9_ns,lowest_bound_ns,cpu_ns,memory,\
                    p50_is_bound,p90_is_bound,p99_is_bound,p99.9_is_bound\n"
            .to_owned();
    for block in &comparison.blocks {
        let Block { phase, pair, first, side, set, load, rate, attempt, used, .. } = block;
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let (set, load) = (quoted(set), quoted(load));
        _ = write!(text, "{phase},{pair},{first},{side},{set},{load},{rate},{attempt},{used}");
        let Block { started_unix_ns, elapsed_ns, sent, answered, lost, .. } = block;
        _ = write!(text, ",{started_unix_ns},{elapsed_ns},{sent},{answered},{lost}");
        let number = |number: Option<u64>| number.map_or(String::new(), |n| n.to_string());
        let quantiles = [0.5, 0.9, 0.99, 0.999].map(|part| block.response.quantile(part));
        quantiles.iter().for_each(|it| _ = write!(text, ",{}", number(it.nanos())));
        // What lies among lost queries is at least this.
        let bound = (block.response.censored() > 0).then(|| block.response.to_parts().floor);
        _ = write!(text, ",{},{},{}", number(bound), number(block.cpu_ns), number(block.memory));
        let is_bound = |it: &Quantile| matches!(it, Quantile::AtLeast(_));
        quantiles.iter().for_each(|it| _ = write!(text, ",{}", is_bound(it)));
        text.push('\n');
    }
    text
}
