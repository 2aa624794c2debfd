//! Finds out where a load runs: machine, way to the server, kernel settings, the server's version.
//!
//! Nothing here can fail a run: what cannot be found out is left out.

mod host;
mod route;
mod version;

use crate::{Provenance, Route};
use lab_workload::tsig::Key;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

/// Kernel settings that have spoilt or explained a measurement of a DNS server before.
const SYSCTLS: &[&str] = &[
    "fs.nr_open",
    "kernel.numa_balancing",
    "kernel.sched_rt_runtime_us",
    "kernel.timer_migration",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.rps_sock_flow_entries",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_max_orphans",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_retries2",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syn_retries",
    "net.ipv4.tcp_synack_retries",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
    "net.ipv4.udp_mem",
    "net.ipv4.udp_rmem_min",
    "net.ipv4.udp_wmem_min",
    "net.netfilter.nf_conntrack_count",
    "net.netfilter.nf_conntrack_max",
    "net.netfilter.nf_conntrack_udp_timeout",
];

/// The command line without the secrets of the keys: result files are passed around. Which flags a
/// program has for keys, and how they may be spelt, is its own matter.
fn argv<'k>(
    arguments: impl Iterator<Item = String>,
    keys: impl IntoIterator<Item = &'k Key>,
) -> Vec<String> {
    let keys: Vec<_> = keys.into_iter().collect();
    arguments.map(|word| keys.iter().fold(word, |word, key| key.conceal(word))).collect()
}

/// What was found out before a load; [`Collector::finish`] adds what can be said only after it.
#[derive(Clone, Debug)]
pub struct Collector {
    provenance: Provenance,
    cpu: Option<host::CpuTime>,
}

impl Collector {
    /// Collects facts of this machine and, if `ask`, asks the server for its version, for at
    /// most [`version::PATIENCE`]. The secrets of `keys` are not kept.
    pub fn start<'k>(
        server: SocketAddr,
        ask: bool,
        keys: impl IntoIterator<Item = &'k Key>,
    ) -> Self {
        let root = Path::new("/");
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        Self {
            provenance: Provenance {
                argv: argv(words, keys),
                host: host::look(root),
                route: route::to(root, server),
                sysctls: sysctls(root),
                server_version: ask.then(|| version::ask(server)).flatten(),
            },
            cpu: host::CpuTime::read(root),
        }
    }

    /// The way to the server.
    pub fn route(&self) -> Option<&Route> {
        self.provenance.route.as_ref()
    }

    /// Everything, after the load.
    pub fn finish(mut self) -> Provenance {
        let after = host::CpuTime::read(Path::new("/"));
        if let (Some(before), Some(after)) = (self.cpu, after) {
            (self.provenance.host.steal, self.provenance.host.busy) = before.parts_until(after);
        }
        self.provenance
    }
}

fn sysctls(root: &Path) -> BTreeMap<String, String> {
    let read = |name: &&str| {
        let value = text(root, &format!("proc/sys/{}", name.replace('.', "/")))?;
        Some(((*name).to_owned(), value))
    };
    SYSCTLS.iter().filter_map(read).collect()
}

/// A small file's text without space at its ends and with single spaces inside; `None` if there is
/// nothing.
fn text(root: &Path, path: &str) -> Option<String> {
    let octets = std::fs::read(root.join(path)).ok()?;
    let text = String::from_utf8_lossy(&octets);
    let text = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests;
