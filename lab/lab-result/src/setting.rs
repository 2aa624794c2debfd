//! The parts of the file that say where and how it was measured, and what was asked for.

use crate::workers::WorkerPart;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A program and its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// Name of the program.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Where and how it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// The command line.
    pub argv: Vec<String>,
    /// The machine of the generator.
    pub host: Host,
    /// The way to the server, if it could be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// Kernel settings by name, read back before the run.
    pub sysctls: BTreeMap<String, String>,
    /// The server's answer to `version.bind. TXT CH` before the run, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
}

/// The machine of the generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Operating system, kernel release and version.
    pub kernel: String,
    /// Model of the first CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// CPUs that are online.
    pub cpus_online: usize,
    /// CPUs that the generator may use, as `0-3,6`.
    pub cpus_allowed: String,
    /// CPUs' worth of time that its control group may use, if that is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<f64>,
    /// Scaling governors of these CPUs, each once.
    #[serde(default)]
    pub governors: Vec<String>,
    /// The kernel's clock source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clocksource: Option<String>,
    /// The hypervisor or container that is known to be around, `none` if there is known to be none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtualisation: Option<String>,
    /// Part of all CPU time during the run that the hypervisor gave to others, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal: Option<f64>,
    /// Part of all CPU time during the run in which a CPU was not idle, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// Octets of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

/// The way to the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Route {
    /// The network device.
    pub device: String,
    /// The local address.
    pub source: String,
    /// Octets of the largest packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The device's driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Megabits a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<u64>,
    /// Whether the server runs on the generator's machine and so shares its CPUs.
    pub local: bool,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Names the plan: the same hash is the same queries in the same order at the same times.
    pub hash: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Address and port of the server.
    pub server: String,
    /// What decides when a query is sent.
    pub pace: Pace,
    /// Which queries.
    pub workload: Workload,
    /// Transports with their shares, which add up to 1.
    pub transports: Vec<Share>,
    /// How long queries are sent.
    pub duration_ns: u64,
    /// The part of it at the start that is sent but not measured.
    #[serde(default)]
    pub warm_up_ns: u64,
    /// The number of queries after which the run ends early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queries: Option<u64>,
    /// When a query is given up.
    pub timeout_ns: u64,
    /// Clients, each with sockets or connections of its own.
    pub clients: usize,
    /// Threads of the generator.
    pub threads: usize,
    /// CPUs that they are pinned to, in turn.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// What an idle thread does: `auto`, `sleep` or `spin`.
    pub idle: String,
    /// Who stamps what is received: `user`, this program, or the `kernel`; absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamps: Option<String>,
    /// Addresses that clients send from, in turn; empty leaves it to the system.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// The port that the first client sends from, the next client from the next; absent if the system
    /// chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_port: Option<u16>,
    /// What connections are like; absent if the transport has none, and in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connecting: Option<Connecting>,
    /// Which part of the plan this result is of, if several processes share it; absent if it is of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerPart>,
}

/// What connections are like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Connecting {
    /// Whether each client's first connection was opened before the schedule began.
    pub connect_first: bool,
    /// When a client leaves a connection for a new one, in words of the command line: `persistent`, or
    /// limits like `queries=20`.
    pub life: String,
    /// Queries without an answer on one connection at once; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipelining: Option<usize>,
    /// How long setting up a connection may take.
    pub set_up_timeout_ns: u64,
    /// Whether sessions are resumed.
    pub resumption: bool,
    /// Whether queries are sent as early data where a ticket allows it.
    pub early_data: bool,
    /// The server's name in its certificate and in SNI; absent if it is its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_name: Option<String>,
    /// Whose certificates are taken: those that the `system` vouches for, a `file`, or `anyone`.
    pub trust: String,
    /// Path of DoH's resource.
    pub doh_path: String,
    /// Method of DoH's requests: `get` or `post`.
    pub doh_method: String,
}

/// What decides when a query is sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "loop", rename_all = "lowercase")]
pub enum Pace {
    /// A schedule that no answer and no loss of one can delay.
    Open {
        /// QPS, on average over the run.
        rate: f64,
        /// How they are spread: `uniform`, `poisson` or another process with its parameters.
        arrivals: String,
        /// How the rate changes, in words of the command line; absent if it does not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
    },
    /// Each client keeps this many queries in flight.
    Closed {
        /// Queries in flight per client.
        window_per_client: usize,
    },
}

/// Which queries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Where they come from, in a few words.
    pub source: String,
    /// Different queries; absent if every one is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub questions: Option<u64>,
    /// Queries until the order repeats; absent if it never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<u64>,
}

/// A transport and its share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// `udp`, `tcp`, `dot`, `doh`, `doq` or `doh3`.
    pub transport: String,
    /// The part of all queries, 0 to 1.
    pub share: f64,
    /// Address and port where the server takes it; absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}
