//! Limits of the machine that are below what the configuration makes use of, and packets that do not
//! arrive where the workers are. Checked once, at the start; what cannot be read is left out.
//! `docs/machine.md` explains each warning.

mod interrupts;
#[cfg(test)]
mod tests;

use nodens_core::Config;
use nodens_core::handlers::Handler;
use nodens_net::limits::{BACKLOG, RECEIVE_BUFFER};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What the server wants to make use of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Client connections that there is memory for.
    pub(crate) connections: usize,
    /// Client connections that there may be.
    pub(crate) allowed: usize,
    /// The CPU of each worker, if each stays on its own and queries come from other machines.
    pub(crate) pinned: Option<Vec<usize>>,
    /// UDP ports that may be open towards upstreams.
    pub(crate) ports: usize,
}

impl Wanted {
    /// UDP ports that so many workers may open towards the upstreams of `config`.
    pub(crate) fn ports(config: &Config, workers: usize) -> usize {
        let mut handlers = config.blocks.iter().flat_map(|block| &block.handlers);
        let forwards = handlers.any(|handler| matches!(handler, Handler::Forward(_)));
        if forwards { nodens_net::upstream_ports(workers) } else { 0 }
    }
}

/// A machine, by its files.
pub(crate) struct Machine {
    root: PathBuf,
}

impl Machine {
    /// This one.
    pub(crate) fn here() -> Self {
        Self::at(Path::new("/"))
    }

    /// The one whose `/proc` and `/sys` are below `root`.
    fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// What is too little, or in the wrong place, in one sentence each.
    pub(crate) fn warnings(&self, wanted: &Wanted) -> Vec<String> {
        let limits = [
            descriptors(wanted),
            self.backlog(),
            self.receive_buffer(),
            self.ports(wanted),
            self.tracked(wanted),
        ];
        limits.into_iter().flatten().chain(self.interrupts(wanted)).collect()
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok().map(|text| text.trim().to_owned())
    }

    fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Connections that wait to be accepted.
    fn backlog(&self) -> Option<String> {
        let found: i64 = self.number("proc/sys/net/core/somaxconn")?;
        let wanted = i64::from(BACKLOG);
        (found < wanted).then(|| {
            format!(
                "net.core.somaxconn is {found}, below the {wanted} connections that may wait to be \
                 accepted at each socket: set it with sysctl -w net.core.somaxconn={wanted}"
            )
        })
    }

    /// Queries over UDP that wait to be read. The kernel does not say so in other network namespaces
    /// than its first.
    fn receive_buffer(&self) -> Option<String> {
        let found: usize = self.number("proc/sys/net/core/rmem_max")?;
        (found < RECEIVE_BUFFER).then(|| {
            format!(
                "net.core.rmem_max is {found}, below the {RECEIVE_BUFFER} octets of queries that may \
                 wait at each UDP socket: set it with sysctl -w net.core.rmem_max={RECEIVE_BUFFER}"
            )
        })
    }

    /// Ports for queries to upstreams.
    fn ports(&self, wanted: &Wanted) -> Option<String> {
        let range = self.text("proc/sys/net/ipv4/ip_local_port_range")?;
        let mut ends = range.split_whitespace().map(usize::from_str);
        let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
        let (found, wanted) = ((last + 1).saturating_sub(first), wanted.ports);
        (found < wanted).then(|| {
            format!(
                "net.ipv4.ip_local_port_range has {found} ports, fewer than the {wanted} that may be open \
                 towards upstreams: set it with sysctl -w net.ipv4.ip_local_port_range=\"10240 65535\""
            )
        })
    }

    /// Entries of the table of connections, where the packet filter keeps one.
    fn tracked(&self, wanted: &Wanted) -> Option<String> {
        let used: usize = self.number("proc/sys/net/netfilter/nf_conntrack_count")?;
        let most: usize = self.number("proc/sys/net/netfilter/nf_conntrack_max")?;
        let needed = wanted.connections + wanted.ports;
        if used == 0 || (most >= needed && used / 9 < most / 10) {
            return None;
        }
        let advice = 2 * needed.max(most);
        Some(format!(
            "net.netfilter.nf_conntrack_max is {most}, and {used} connections are tracked: there may \
             be {needed} of this server, besides the queries over UDP; packets are dropped when the table is full: set \
             it with sysctl -w net.netfilter.nf_conntrack_max={advice}, or do not track port 53"
        ))
    }
}

/// Client connections that there are no descriptors for.
fn descriptors(wanted: &Wanted) -> Option<String> {
    let Wanted { connections, allowed, .. } = *wanted;
    (allowed < connections).then(|| {
        let needed = nodens_net::descriptors_for(connections);
        format!(
            "RLIMIT_NOFILE allows {allowed} client connections, and there is memory for {connections}: set \
             it to {needed} (LimitNOFILE={needed} in a systemd unit, ulimit -n {needed} in a shell)"
        )
    })
}
