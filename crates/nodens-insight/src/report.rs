//! What there is to see at one moment, as plain data. Its JSON is what the local socket gives.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Everything there is to see. Rates are per second, over the last ten seconds or so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this format.
    pub format: u32,
    /// When, in seconds since 1970.
    pub unix_s: u64,
    /// Seconds since counting began.
    pub counted_s: u64,
    /// The host's name.
    pub host: String,
    /// The newest moment.
    pub now: Moment,
    /// The last two minutes, oldest first, a moment for each second.
    pub history: Vec<Moment>,
    /// Shares of RCODEs.
    pub rcodes: Vec<RcodeShare>,
    /// How long upstreams were waited for.
    pub latency: Vec<Bucket>,
    /// What is asked in vain, most costly first.
    pub leaks: Vec<Leak>,
    /// Leaks that a `template` of the Corefile answers.
    pub stopped: Vec<Leak>,
    /// Who asks most.
    pub clients: Vec<Client>,
    /// What is asked for most.
    pub names: Vec<Name>,
    /// What is waited for most, all waits together.
    pub slow: Vec<Name>,
}

/// Rates of one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Queries.
    pub questions: f64,
    /// Those that waited for an upstream.
    pub upstream: f64,
    /// Those answered NXDOMAIN.
    pub denied: f64,
    /// Those answered with another RCODE than NOERROR and NXDOMAIN.
    pub failed: f64,
}

/// How many answers have an RCODE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RcodeShare {
    /// Its mnemonic.
    pub rcode: String,
    /// Answers a second.
    pub rate: f64,
}

/// A bucket of latency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// Waits shorter than this many microseconds, and not in an earlier bucket.
    pub below_us: u64,
    /// Waits a second.
    pub rate: f64,
}

/// Where a client is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its namespace; empty if not known.
    pub namespace: String,
    /// Its pod, or what else runs there.
    pub pod: String,
}

/// Somebody who asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// The address.
    pub address: IpAddr,
    /// Whose it is, as far as anybody knows.
    pub place: Option<Place>,
    /// Queries a second.
    pub rate: f64,
}

/// Why queries are in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeakKind {
    /// A name that does not exist, wherever it is looked for.
    Name,
    /// A name that exists, looked for in search domains first.
    Search,
    /// Ever new names below one, none of which exists.
    Storm,
    /// A name whose answer is a failure.
    Failure,
}

/// Queries that no client gains from, by their cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Leak {
    /// What sort of leak.
    pub kind: LeakKind,
    /// The name that is looked for, without search domains; `*.NAME` for a storm below NAME.
    pub name: String,
    /// What it is told.
    pub rcode: String,
    /// Queries in vain a second.
    pub rate: f64,
    /// Those of them that went to an upstream.
    pub upstream: f64,
    /// Lookups of programs a second that cause them.
    pub lookups: f64,
    /// Queries in vain for each lookup.
    pub amplification: f64,
    /// What it is ranked by: queries, of which one to an upstream weighs as much as five.
    pub cost: f64,
    /// The domains it is looked for in, in the order of their use; without the name itself.
    pub domains: Vec<String>,
    /// Whether the name itself is asked for as well.
    pub bare: bool,
    /// Who asks, most first.
    pub sources: Vec<Source>,
    /// How many ask.
    pub source_count: usize,
    /// The command that stops it; empty if none does.
    pub command: String,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Who, and queries a second.
    pub source: Source,
    /// Of these, to an upstream.
    pub upstream: f64,
    /// Of these, answered NXDOMAIN.
    pub denied: f64,
    /// Of these, failed.
    pub failed: f64,
}

/// A name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Name {
    /// The name.
    pub name: String,
    /// Queries a second.
    pub rate: f64,
    /// Of these, to an upstream.
    pub upstream: f64,
    /// Of these, answered NXDOMAIN.
    pub denied: f64,
    /// Of these, failed.
    pub failed: f64,
    /// Milliseconds that one to an upstream waits on average.
    pub wait_ms: f64,
    /// The longest wait of the last minute or two, in milliseconds.
    pub wait_max_ms: f64,
}
