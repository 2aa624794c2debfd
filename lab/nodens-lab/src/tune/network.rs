//! Network namespaces, and what the kernel counts in them.

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

/// This thread, and those that it starts, in another network namespace; back in its own when the value
/// goes.
pub(super) struct Inside {
    own: File,
}

impl Inside {
    /// Enters the namespace that `ip` knows by this name.
    pub(super) fn enter(name: &str) -> Result<Self> {
        let open = |path: &Path| {
            File::open(path).with_context(|| format!("cannot open {}", path.display()))
        };
        let own = open(Path::new("/proc/thread-self/ns/net"))?;
        let there = open(&Path::new("/run/netns").join(name))?;
        enter(&there).with_context(|| format!("cannot enter network namespace {name}"))?;
        Ok(Self { own })
    }
}

fn enter(namespace: &File) -> rustix::io::Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Nothing is done there any more; what follows only writes files.
        _ = enter(&self.own);
    }
}

/// What TCP has counted in a network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tcp {
    /// Segments sent with RST.
    pub(super) resets: u64,
    /// Segments sent again, SYN and SYN-ACK among them.
    pub(super) retransmits: u64,
    /// Connections that listeners dropped.
    pub(super) drops: u64,
}

impl Tcp {
    /// Of the namespace of a process or thread, by its folder under `/proc`.
    pub(super) fn read(process: &Path) -> Self {
        let file = |name: &str| {
            std::fs::read_to_string(process.join("net").join(name)).unwrap_or_default()
        };
        Self::parse(&file("snmp"), &file("netstat"))
    }

    fn parse(snmp: &str, netstat: &str) -> Self {
        Self {
            resets: in_table(snmp, "Tcp:", "OutRsts"),
            retransmits: in_table(snmp, "Tcp:", "RetransSegs"),
            // `ListenOverflows` are among them.
            drops: in_table(netstat, "TcpExt:", "ListenDrops"),
        }
    }

    /// What was added since `earlier`.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            resets: self.resets.saturating_sub(earlier.resets),
            retransmits: self.retransmits.saturating_sub(earlier.retransmits),
            drops: self.drops.saturating_sub(earlier.drops),
        }
    }
}

/// The number under `column` in a table of a line with names and a line with numbers, which both
/// start with `row`.
fn in_table(text: &str, row: &str, column: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.split(' ').next() == Some(row));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split(' ').zip(numbers.split(' '));
    let found = pairs.find(|(name, _)| *name == column);
    found.and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let snmp =
            "Ip: A OutRsts\nIp: 1 2\nTcp: RtoMin RetransSegs InErrs OutRsts\nTcp: 200 7 0 9\n";
        let netstat = "TcpExt: ListenOverflows ListenDrops\nTcpExt: 3 5\n";
        let found = Tcp::parse(snmp, netstat);
        assert_eq!(found, Tcp { resets: 9, retransmits: 7, drops: 5 });
        assert_eq!(found.since(Tcp { resets: 10, retransmits: 5, drops: 5 }).retransmits, 2);
        assert_eq!(Tcp::parse("", "TcpExt: ListenDrops\n"), Tcp::default());
    }
}
