//! A line per second: what programs that draw tables want.

use crate::{ResultFile, SECOND};
use lab_histogram::Quantile;
use std::fmt::Write as _;

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
/// RCODEs with a column of their own; the others share one.
const RCODES: [&str; 4] = ["NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED"];
const HEADER: &str = "second,start_unix,final,sent,answered,lost,timed_out,icmp_refused,\
    connection_failed,interrupted,unsent,noerror,nxdomain,servfail,refused_rcode,other_rcodes,\
    min_ns,p50_ns,p90_ns,p99_ns,p99.9_ns,max_ns,at_least";

/// Latencies are response times, from the intended time; a cell without a value is empty. The last
/// column names the percentiles of which only a lower bound is known, since they lie among the lost
/// queries.
pub(super) fn text(result: &ResultFile) -> String {
    let mut out = format!("{HEADER}\n");
    for second in &result.seconds {
        let start = result.run.started_unix_ns / SECOND + second.second;
        let rcode = |name: &str| second.rcodes.get(name).copied().unwrap_or(0);
        let [noerror, nxdomain, servfail, refused] = RCODES.map(rcode);
        let others = second.answered.saturating_sub(RCODES.map(rcode).iter().sum());
        let quantiles = QUANTILES.map(|(name, part)| (name, second.response.quantile(part)));
        let cell = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
        let [p50, p90, p99, p999] = quantiles.map(|(_, quantile)| cell(quantile.nanos()));
        let bounds = quantiles.iter().filter(|(_, found)| matches!(found, Quantile::AtLeast(_)));
        let bounds: Vec<_> = bounds.map(|(name, _)| *name).collect();
        _ = writeln!(
            out,
            "{},{start},{},{},{},{},{},{},{},{},{},{noerror},{nxdomain},{servfail},{refused},\
             {others},{},{p50},{p90},{p99},{p999},{},{}",
            second.second,
            u8::from(second.is_final),
            second.sent,
            second.answered,
            second.lost,
            second.timed_out,
            second.refused,
            second.connection_failed,
            second.interrupted,
            second.unsent,
            cell(second.response.min()),
            cell(second.response.max()),
            bounds.join(" "),
        );
    }
    out
}
