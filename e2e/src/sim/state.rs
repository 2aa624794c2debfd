//! What the node role does to its node: an address and rules; to look at it, to imitate it and to take it away.

use std::net::Ipv4Addr;

use anyhow::{Result, ensure};

use super::net::{NODE, inside, ip, tool};
use super::proxy::CLUSTER_DNS;
use crate::official::LOCAL_DNS;
use crate::sandbox::call;

/// Takes away by hand what a server left behind.
pub(crate) fn clean() {
    // Either may be gone already, as intended.
    _ = ip(NODE, "link del nodelocaldns");
    for table in ["raw", "filter"] {
        _ = tool(NODE, &format!("iptables-nft -w -t {table} -F"), "");
    }
    for table in legacy_tables() {
        _ = tool(NODE, &format!("iptables-legacy -w -t {table} -F"), "");
    }
    _ = tool(NODE, "nft delete table inet nodelocaldns", "");
}

/// The tables for filtering of iptables-legacy that there are; looking at one with the program would make it.
fn legacy_tables() -> Vec<&'static str> {
    let names =
        inside(NODE, || Ok(std::fs::read_to_string("/proc/thread-self/net/ip_tables_names")?));
    let names = names.unwrap_or_default();
    ["raw", "filter"].into_iter().filter(|table| names.lines().any(|name| name == *table)).collect()
}

/// An error if rules, the address or the link of a server that has ended are still there.
pub(crate) fn nothing_left() -> Result<()> {
    let left = rules()?;
    ensure!(left.is_empty(), "rules are left:\n{}", left.join("\n"));
    ensure!(!attracts()?, "the address is left");
    let links = tool(NODE, "ip -o link", "")?;
    ensure!(!links.contains("nodelocaldns"), "the link is left:\n{links}");
    Ok(())
}

/// Whether the node itself has an address, so that what is sent to it ends here.
pub(crate) fn has_address(address: Ipv4Addr) -> Result<bool> {
    let text = tool(NODE, &format!("ip route get {address}"), "").unwrap_or_default();
    Ok(text.starts_with("local "))
}

/// Whether queries of pods end on the node: it has the address, and kube-proxy's rules do not see them.
pub(crate) fn attracts() -> Result<bool> {
    let address = CLUSTER_DNS.to_string();
    Ok(has_address(CLUSTER_DNS)? && rules()?.iter().any(|rule| is_diversion(rule, &address)))
}

fn is_diversion(rule: &str, address: &str) -> bool {
    rule.contains(address) && rule.to_lowercase().contains("notrack")
}

/// All rules of the node about the local addresses but those of kube-proxy, in the form of the program that made them.
pub(crate) fn rules() -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut table = String::new();
    for line in tool(NODE, "nft list ruleset", "")?.lines().map(str::trim) {
        // The owner of a table follows as a comment.
        if let Some((name, _)) = line.strip_prefix("table ").and_then(|rest| rest.split_once(" {"))
        {
            table = name.to_owned();
        } else if line.contains(" daddr ") || line.contains(" saddr ") {
            found.push(format!("{table}: {line}"));
        }
    }
    for table in legacy_tables() {
        let saved = tool(NODE, &format!("iptables-legacy-save -t {table}"), "").unwrap_or_default();
        let rules = saved.lines().filter(|line| line.starts_with("-A "));
        found.extend(rules.map(|rule| format!("legacy {table}: {rule}")));
    }
    let services = ["ip kube-proxy:", "ip nat:"];
    let local = CLUSTER_DNS.to_string();
    found.retain(|rule| {
        let is_ours = rule.contains(LOCAL_DNS) || rule.contains(&local);
        is_ours && !services.iter().any(|table| rule.starts_with(table))
    });
    Ok(found)
}

/// node-cache's rules for each address: a table, and the rest with `ADDR` for the address.
const RULES: [(&str, &str); 12] = [
    ("raw", "PREROUTING -d ADDR -p tcp --dport 53 -j NOTRACK"),
    ("raw", "PREROUTING -d ADDR -p udp --dport 53 -j NOTRACK"),
    ("filter", "INPUT -d ADDR -p tcp --dport 53 -j ACCEPT"),
    ("filter", "INPUT -d ADDR -p udp --dport 53 -j ACCEPT"),
    ("raw", "OUTPUT -s ADDR -p tcp --sport 53 -j NOTRACK"),
    ("raw", "OUTPUT -s ADDR -p udp --sport 53 -j NOTRACK"),
    ("filter", "OUTPUT -s ADDR -p tcp --sport 53 -j ACCEPT"),
    ("filter", "OUTPUT -s ADDR -p udp --sport 53 -j ACCEPT"),
    ("raw", "OUTPUT -d ADDR -p tcp --dport 53 -j NOTRACK"),
    ("raw", "OUTPUT -d ADDR -p udp --dport 53 -j NOTRACK"),
    ("raw", "OUTPUT -d ADDR -p tcp --dport 8080 -j NOTRACK"),
    ("raw", "OUTPUT -s ADDR -p tcp --sport 8080 -j NOTRACK"),
];

fn with_addresses(rule: &(&'static str, &'static str)) -> [(&'static str, String); 2] {
    [LOCAL_DNS.to_owned(), CLUSTER_DNS.to_string()]
        .map(|address| (rule.0, rule.1.replace("ADDR", &address)))
}

/// The link with both addresses, if it is not there; a bridge without ports is as good as a dummy.
pub(crate) fn add_link() -> Result<()> {
    if has_address(CLUSTER_DNS)? {
        return Ok(());
    }
    call("ip", &["-n", NODE, "link", "add", "nodelocaldns", "type", "bridge"])?;
    for address in [LOCAL_DNS.to_owned(), CLUSTER_DNS.to_string()] {
        ip(NODE, &format!("address add {address}/32 dev nodelocaldns"))?;
    }
    ip(NODE, "link set nodelocaldns up")
}

/// What node-cache does to the node, for a CoreDNS beside: the link, and the rules.
pub(crate) fn as_node_cache() -> Result<()> {
    if has_address(CLUSTER_DNS)? {
        return Ok(());
    }
    add_link()?;
    for (table, rule) in RULES.iter().flat_map(with_addresses) {
        tool(NODE, &format!("iptables-nft -w -t {table} -I {rule}"), "")?;
    }
    Ok(())
}
