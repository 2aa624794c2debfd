//! The small charts of the page, as SVG or bars.

use crate::report::{Bucket, RcodeShare};
use crate::text::{percent, rate};
use maud::{Markup, html};
use std::fmt::Write;

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 44.0;

/// The last two minutes, newest on the right.
pub(super) fn spark(values: &[f64]) -> Markup {
    let most = values.iter().copied().fold(1.0, f64::max);
    let step = WIDTH / (crate::limits::HISTORY - 1) as f64;
    let start = WIDTH - step * values.len().saturating_sub(1) as f64;
    let mut line = String::new();
    for (index, value) in values.iter().enumerate() {
        let (x, y) = (start + step * index as f64, HEIGHT - 2.0 - (HEIGHT - 6.0) * value / most);
        _ = write!(line, "{}{x:.1},{y:.1}", if index == 0 { "M" } else { "L" });
    }
    let area = format!("{line}L{WIDTH},{HEIGHT}L{start:.1},{HEIGHT}Z");
    html! {
        svg.spark viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none"
            role="img" aria-label="the last two minutes" {
            @if values.len() > 1 {
                path.area d=(area) {}
                path.line d=(line) {}
            }
        }
    }
}

/// Waits by how long they take.
pub(super) fn latency(buckets: &[Bucket]) -> Markup {
    let most = buckets.iter().map(|bucket| bucket.rate).fold(1e-9, f64::max);
    let all: f64 = buckets.iter().map(|bucket| bucket.rate).sum();
    html! {
        @if buckets.is_empty() {
            p.empty { "No upstream was asked." }
        } @else {
            div.histogram {
                @for bucket in buckets {
                    div title=(format!("{}/s, {}", rate(bucket.rate), percent(bucket.rate, all))) {
                        div style=(format!("height:{:.1}%", 100.0 * bucket.rate / most)) {}
                        span { (below(bucket.below_us)) }
                    }
                }
            }
        }
    }
}

/// The upper bound of a bucket.
fn below(us: u64) -> String {
    match us {
        0..1000 => format!("{us} µs"),
        1000..1_000_000 => format!("{} ms", us / 1000),
        _ => format!("{} s", us / 1_000_000),
    }
}

/// Answers by RCODE, as one bar.
pub(super) fn rcodes(shares: &[RcodeShare]) -> Markup {
    let all: f64 = shares.iter().map(|share| share.rate).sum();
    let width = |share: &RcodeShare| format!("width:{:.2}%", 100.0 * share.rate / all.max(1e-9));
    html! {
        @if shares.is_empty() {
            p.empty { "No answer yet." }
        } @else {
            div.rcodes {
                @for share in shares { div class=(class(share)) style=(width(share)) {} }
            }
            ul.legend {
                @for share in shares {
                    li { span class=(class(share)) {} (share.rcode) " "
                        b { (percent(share.rate, all)) } }
                }
            }
        }
    }
}

fn class(share: &RcodeShare) -> &'static str {
    match share.rcode.as_str() {
        "NOERROR" => "rc-good",
        "NXDOMAIN" => "rc-denied",
        "SERVFAIL" => "rc-failed",
        _ => "rc-other",
    }
}
