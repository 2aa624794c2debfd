//! What kube-proxy does for the two Services of DNS, in each of its modes, without an API server.

use std::fmt::Write;
use std::net::Ipv4Addr;

use anyhow::Result;
use clap::ValueEnum;

use super::net::{NODE, tool};

/// The address of the Service `kube-dns`.
pub(super) const CLUSTER_DNS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// The address of the Service `kube-dns-upstream`.
pub(super) const UPSTREAM: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 11);

/// How kube-proxy configures the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    Nftables,
    IptablesNft,
    IptablesLegacy,
}

impl Mode {
    fn restore(self) -> &'static str {
        match self {
            Mode::Nftables => "nft -f -",
            Mode::IptablesNft => "iptables-nft-restore --noflush",
            Mode::IptablesLegacy => "iptables-legacy-restore --noflush",
        }
    }

    fn rules(self, services: &[Ipv4Addr], endpoints: &[Ipv4Addr]) -> String {
        match self {
            Mode::Nftables => nftables(services, endpoints),
            Mode::IptablesNft | Mode::IptablesLegacy => iptables(services, endpoints),
        }
    }
}

/// A table without chains but those of the kernel, for `iptables-restore`.
const EMPTY: &str = "*nat\nCOMMIT\n";

/// kube-proxy, as far as the kernel can tell.
#[derive(Debug)]
pub(super) struct Proxy {
    mode: Mode,
    endpoints: Vec<Ipv4Addr>,
}

impl Proxy {
    /// One that has done nothing yet.
    pub(super) fn new(mode: Mode) -> Self {
        Proxy { mode, endpoints: Vec::new() }
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// Does the same in another way from now on.
    pub(super) fn change(&mut self, mode: Mode) -> Result<()> {
        let endpoints = self.endpoints.clone();
        match self.mode {
            Mode::Nftables => tool(NODE, "nft delete table ip kube-proxy", "")?,
            Mode::IptablesNft => tool(NODE, "iptables-nft-restore", EMPTY)?,
            Mode::IptablesLegacy => tool(NODE, "iptables-legacy-restore", EMPTY)?,
        };
        *self = Proxy::new(mode);
        self.set(&endpoints)
    }

    /// Makes both Services lead to these servers.
    pub(super) fn set(&mut self, endpoints: &[Ipv4Addr]) -> Result<()> {
        self.set_services(&[CLUSTER_DNS, UPSTREAM], endpoints)
    }

    /// Makes these Services, and no others, lead to these servers, and forgets flows to others, as kube-proxy does.
    pub(super) fn set_services(
        &mut self,
        services: &[Ipv4Addr],
        endpoints: &[Ipv4Addr],
    ) -> Result<()> {
        if self.endpoints.is_empty() && self.mode != Mode::Nftables {
            let jump = "*nat\n:KUBE-SERVICES - [0:0]\n-A PREROUTING -j KUBE-SERVICES\n\
                        -A OUTPUT -j KUBE-SERVICES\nCOMMIT\n";
            tool(NODE, self.mode.restore(), jump)?;
        }
        tool(NODE, self.mode.restore(), &self.mode.rules(services, endpoints))?;
        for gone in self.endpoints.iter().filter(|old| !endpoints.contains(old)) {
            // It fails when there is no such flow.
            _ = tool(NODE, &format!("conntrack -D -p udp --reply-src {gone}"), "");
        }
        self.endpoints = endpoints.to_vec();
        Ok(())
    }
}

fn nftables(services: &[Ipv4Addr], endpoints: &[Ipv4Addr]) -> String {
    let mut map = String::new();
    for (number, endpoint) in endpoints.iter().enumerate() {
        _ = write!(map, "{number} : {endpoint}, ");
    }
    let to = format!("dnat to numgen random mod {} map {{ {map} }}", endpoints.len());
    let services: Vec<String> = services.iter().map(ToString::to_string).collect();
    let services = format!("{{ {} }}", services.join(", "));
    format!(
        "table ip kube-proxy {{}}
        delete table ip kube-proxy
        table ip kube-proxy {{
            chain services {{
                ip daddr {services} udp dport 53 {to}
                ip daddr {services} tcp dport 53 {to}
            }}
            chain nat-prerouting {{
                type nat hook prerouting priority dstnat; policy accept;
                jump services
            }}
            chain nat-output {{
                type nat hook output priority -100; policy accept;
                jump services
            }}
        }}\n"
    )
}

fn iptables(services: &[Ipv4Addr], endpoints: &[Ipv4Addr]) -> String {
    let mut text = String::from("*nat\n:KUBE-SERVICES - [0:0]\n");
    let mut rules = String::new();
    for (number, service) in services.iter().enumerate() {
        for protocol in ["udp", "tcp"] {
            let chain = format!("KUBE-SVC-{number}-{}", protocol.to_uppercase());
            _ = writeln!(text, ":{chain} - [0:0]");
            let to = format!("-d {service}/32 -p {protocol} -m {protocol} --dport 53");
            _ = writeln!(rules, "-A KUBE-SERVICES {to} -j {chain}");
            for (number, endpoint) in endpoints.iter().enumerate() {
                let share = 1.0 / (endpoints.len() - number) as f64;
                let random = format!("-m statistic --mode random --probability {share:.5}");
                let dnat = format!("-p {protocol} -j DNAT --to-destination {endpoint}:53");
                _ = writeln!(rules, "-A {chain} {random} {dnat}");
            }
        }
    }
    format!("{text}{rules}COMMIT\n")
}
