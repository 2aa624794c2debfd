//! Who has said what, and where.

use crate::knob::{Claim, Expect};

/// The page that quotes the others.
const PAGE: &str = "the page \"Tuning DNS for TCP queries\"";

/// Advice from the paper on LDplayer.
pub(super) const fn ldplayer(value: &'static str, says: &'static str) -> Claim {
    let source = "doi:10.1145/3278532.3278544 (IMC 2018), as quoted by the page \"Tuning DNS for TCP queries\"";
    Claim { by: "Zhu and Heidemann", value, expects: Expect::Better, says, source }
}

/// Advice from ESnet's pages for hosts with fast networks.
pub(super) const fn esnet(value: &'static str, says: &'static str) -> Claim {
    let source = "https://fasterdata.es.net/host-tuning/linux/";
    Claim { by: "ESnet", value, expects: Expect::Better, says, source }
}

/// The configuration of an authoritative server's operator.
pub(super) const fn operator(value: &'static str, says: &'static str) -> Claim {
    Claim { by: "an authoritative operator", value, expects: Expect::Better, says, source: PAGE }
}

/// What the same operator advises against.
pub(super) const fn not_operator(value: &'static str, says: &'static str) -> Claim {
    Claim { by: "an authoritative operator", value, expects: Expect::Worse, says, source: PAGE }
}

/// Measurements of 2023: at least twenty trials of five minutes each, Dunn's and Tukey's tests.
pub(super) const fn trials(value: &'static str, expects: Expect, says: &'static str) -> Claim {
    let source =
        "the page \"Tuning DNS for TCP queries\"; https://github.com/BlankCanvasStudio/DNScalc";
    Claim { by: "Stingley 2023", value, expects, says, source }
}

/// The groups of Zhu and Heidemann and of ESnet in those measurements.
pub(super) const SPREAD: Claim = trials(
    "its whole group",
    Expect::NoChange,
    "latency looks lower, but differs so much from trial to trial that no test confirms it",
);

/// The operator's two groups in those measurements.
pub(super) const LIKE_SACK: Claim = trials(
    "its whole group",
    Expect::NoChange,
    "latency and rate look better, as with tcp_sack; no test confirms it",
);
