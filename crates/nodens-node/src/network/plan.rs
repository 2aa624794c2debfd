//! What the network should look like.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// What the network should look like while queries are to come here.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of the link that owns the addresses, at most 15 octets.
    pub interface: String,
    /// The local addresses, of either family.
    pub addresses: Vec<IpAddr>,
    /// Port of the queries.
    pub dns_port: u16,
    /// TCP port of the health endpoint, which connection tracking leaves alone too.
    pub health_port: u16,
    /// Whether link and addresses are ours to make. If not, another program directs queries here.
    pub setup_interface: bool,
    /// Whether the packet filter's rules are ours to make.
    pub setup_rules: bool,
    /// Where the rules go.
    pub backend: Backend,
    /// How often what no event tells of is looked at.
    pub sync: Duration,
}

/// Where the rules go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Backend {
    /// Where kube-proxy has its own; a table of nftables where there is no kube-proxy.
    #[default]
    Auto,
    /// A table of nftables of our own, which the kernel removes with its owner.
    Nftables,
    /// The tables of `iptables-nft`.
    IptablesNft,
    /// The tables of `iptables-legacy`.
    IptablesLegacy,
}

/// How much what is said matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What was chosen or done.
    Info,
    /// Something is not as it should be, and it is served all the same.
    Warning,
    /// Something that was asked for is not possible.
    Error,
}

/// Open files by name: what the state of the network hangs on.
pub type Descriptors = Vec<(String, OwnedFd)>;
