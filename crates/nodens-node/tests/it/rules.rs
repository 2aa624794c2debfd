//! Which rules there are, and where.

use crate::fixture::{alone, eventually, gone, has, plan, sh};
use nodens_node::network::{Backend, Network};
use std::sync::{Arc, Mutex};

const V4: &str = "169.254.20.10";
const V6: &str = "fd00:ec2::10";

/// The rules of an address in a table of nftables, with the family's word for it.
fn table(family: &str, ip: &str) -> [Vec<String>; 4] {
    let rule = |end: char, protocol: &str, port: u16, local: &str, verdict: &str| {
        let side = if end == 'd' { "dport" } else { "sport" };
        let comment = match verdict {
            "accept" => "NodeLocal DNS Cache: allow DNS traffic",
            _ => "NodeLocal DNS Cache: skip conntrack",
        };
        format!(
            "{family} {end}addr {ip} {protocol} {side} {port} {local}counter {verdict} comment \"{comment}\""
        )
    };
    let local = "fib daddr type local ";
    let both = |end, local, verdict| {
        ["tcp", "udp"].map(|protocol| rule(end, protocol, 53, local, verdict)).to_vec()
    };
    let mut output = both('s', "", "notrack");
    output.extend(both('d', local, "notrack"));
    output.push(rule('d', "tcp", 8080, local, "notrack"));
    output.push(rule('s', "tcp", 8080, "", "notrack"));
    [both('d', local, "notrack"), output, both('d', "", "accept"), both('s', "", "accept")]
}

#[test]
fn nftables_has_twelve_rules_for_each_address() {
    alone(|| {
        let network = Network::open(plan(Backend::Nftables, &[V4, V6]), None, |_, _| {});
        network.attract();
        assert!(network.attracting());
        let listed = sh("nft -s list table inet nodelocaldns");
        assert!(listed.contains("flags owner"), "{listed}");
        let chains = listed.split("chain ").skip(1).zip([
            ("raw-prerouting", "prerouting priority raw"),
            ("raw-output", "output priority raw"),
            ("filter-input", "input priority filter"),
            ("filter-output", "output priority filter"),
        ]);
        let (v4, v6) = (table("ip", V4), table("ip6", V6));
        let mut count = 0;
        for ((chain, (name, hook)), (v4, v6)) in chains.zip(v4.into_iter().zip(v6)) {
            assert!(chain.starts_with(name) && chain.contains(hook), "{chain}");
            let rules: Vec<&str> =
                chain.lines().map(str::trim).filter(|line| line.contains("comment")).collect();
            assert_eq!(rules, [v4, v6].concat(), "{name}");
            count += rules.len();
        }
        assert_eq!(count, 24);
        network.withdraw();
        network.release_rules();
        assert_eq!(sh("nft list tables"), "");
        assert!(!sh("ip link").contains("nodelocaldns"));
    });
}

/// The rules of an address as `iptables-save` shows them, chain by chain.
fn saved(program: &str, table: &str) -> Vec<String> {
    let lines = sh(&format!("{program}-save -t {table}"));
    let rules = lines.lines().filter(|line| line.starts_with("-A"));
    rules.map(|line| line.replace("-j CT --notrack", "-j NOTRACK")).collect()
}

fn iptables_has_twelve_rules(backend: Backend, flavour: &str) {
    for (family, ip, bits) in [("iptables", V4, 32), ("ip6tables", V6, 128)] {
        let program = format!("{family}-{flavour}");
        let network = Network::open(plan(backend, &[V4, V6]), None, |_, _| {});
        network.attract();
        assert!(network.attracting());
        let rule = |chain: &str, end: char, protocol: &str, port: u16, target: &str| {
            let side = if end == 'd' { "--dport" } else { "--sport" };
            let comment = match target {
                "ACCEPT" => "NodeLocal DNS Cache: allow DNS traffic",
                _ => "NodeLocal DNS Cache: skip conntrack",
            };
            let local = match (end, target) {
                ('d', "NOTRACK") => "-m addrtype --dst-type LOCAL ",
                _ => "",
            };
            format!(
                "-A {chain} -{end} {ip}/{bits} -p {protocol} -m {protocol} {side} {port} {local}\
                 -m comment --comment \"{comment}\" -j {target}"
            )
        };
        let raw = [
            rule("PREROUTING", 'd', "tcp", 53, "NOTRACK"),
            rule("PREROUTING", 'd', "udp", 53, "NOTRACK"),
            rule("OUTPUT", 's', "tcp", 53, "NOTRACK"),
            rule("OUTPUT", 's', "udp", 53, "NOTRACK"),
            rule("OUTPUT", 'd', "tcp", 53, "NOTRACK"),
            rule("OUTPUT", 'd', "udp", 53, "NOTRACK"),
            rule("OUTPUT", 'd', "tcp", 8080, "NOTRACK"),
            rule("OUTPUT", 's', "tcp", 8080, "NOTRACK"),
        ];
        let filter = [
            rule("INPUT", 'd', "tcp", 53, "ACCEPT"),
            rule("INPUT", 'd', "udp", 53, "ACCEPT"),
            rule("OUTPUT", 's', "tcp", 53, "ACCEPT"),
            rule("OUTPUT", 's', "udp", 53, "ACCEPT"),
        ];
        assert_eq!(saved(&program, "raw"), raw);
        assert_eq!(saved(&program, "filter"), filter);
        network.withdraw();
        network.release_rules();
        assert_eq!(saved(&program, "raw").len() + saved(&program, "filter").len(), 0);
    }
}

#[test]
fn iptables_nft_has_twelve_rules_for_each_address() {
    alone(|| iptables_has_twelve_rules(Backend::IptablesNft, "nft"));
}

#[test]
fn iptables_legacy_has_twelve_rules_for_each_address() {
    alone(|| iptables_has_twelve_rules(Backend::IptablesLegacy, "legacy"));
}

/// What is said when the rules go where they belong by themselves.
fn chosen(prepare: &str) -> String {
    alone(|| {
        sh(prepare);
        let said = Arc::new(Mutex::new(String::new()));
        let all = Arc::clone(&said);
        let say = move |_, text: &str| *all.lock().unwrap() += text;
        let network = Network::open(plan(Backend::Auto, &[V4]), None, say);
        network.attract();
        assert!(network.attracting());
        said.lock().unwrap().clone()
    })
}

#[test]
fn the_rules_go_where_kube_proxy_has_its_own() {
    for (prepare, expected) in [
        ("true", "table inet nodelocaldns, which ends with this process (no rules of kube-proxy"),
        ("nft add table ip kube-proxy", "which ends with this process (as kube-proxy does)"),
        ("iptables-nft -t nat -N KUBE-SERVICES", "12 rules in iptables-nft"),
        ("iptables-legacy -t nat -N KUBE-SERVICES", "12 rules in iptables-legacy"),
        ("iptables-legacy -t nat -N OTHER", "(no rules of kube-proxy"),
    ] {
        let said = chosen(prepare);
        assert!(said.contains(expected), "{prepare}: {said}");
    }
}

/// What node-cache leaves behind when it is killed.
fn left_by_node_cache(program: &str) -> String {
    let skip = "-m comment --comment 'NodeLocal DNS Cache: skip conntrack' -j NOTRACK";
    let allow = "-m comment --comment 'NodeLocal DNS Cache: allow DNS traffic' -j ACCEPT";
    let mut script =
        "ip link add nodelocaldns type bridge\nip link set nodelocaldns up\n".to_owned();
    script += &format!("ip addr add {V4}/32 dev nodelocaldns\n");
    for protocol in ["tcp", "udp"] {
        script += &format!(
            "{program} -t raw -I PREROUTING -p {protocol} -d {V4} --dport 53 {skip}
            {program} -t raw -I OUTPUT -p {protocol} -d {V4} --dport 53 {skip}
            {program} -t raw -I OUTPUT -p {protocol} -s {V4} --sport 53 {skip}
            {program} -I INPUT -p {protocol} -d {V4} --dport 53 {allow}
            {program} -I OUTPUT -p {protocol} -s {V4} --sport 53 {allow}\n"
        );
    }
    script
}

#[test]
fn what_node_cache_left_behind_is_replaced() {
    for program in ["iptables-nft", "iptables-legacy"] {
        for backend in [Backend::Nftables, Backend::IptablesNft, Backend::IptablesLegacy] {
            alone(|| {
                sh(&left_by_node_cache(program));
                let foreign = format!("{program} -A INPUT -s 192.0.2.1 -j ACCEPT");
                sh(&foreign);
                let network = Network::open(plan(backend, &[V4]), None, |_, _| {});
                network.attract();
                assert!(network.attracting());
                assert!(sh("ip -d link show nodelocaldns").contains("tun type tun"));
                let ours = |flavour| match backend {
                    Backend::IptablesNft => flavour == "iptables-nft",
                    Backend::IptablesLegacy => flavour == "iptables-legacy",
                    _ => false,
                };
                let count = saved(program, "raw").len();
                assert_eq!(count, if ours(program) { 8 } else { 0 }, "{program} {backend:?}");
                let count = saved(program, "filter").len();
                assert_eq!(count, if ours(program) { 5 } else { 1 }, "{program} {backend:?}");
                drop(network);
                gone();
            });
        }
    }
}

#[test]
fn what_others_take_away_is_put_back() {
    for (backend, rules, take) in [
        (Backend::IptablesNft, "iptables-nft-save -t raw", "iptables-nft -t raw -F PREROUTING"),
        (Backend::IptablesNft, "iptables-nft-save -t raw", "iptables-nft -t raw -D OUTPUT 1"),
        (Backend::IptablesLegacy, "iptables-legacy-save -t raw", "iptables-legacy -t raw -F"),
    ] {
        alone(|| {
            let network = Network::open(plan(backend, &[V4]), None, |_, _| {});
            network.attract();
            let rules = || sh(&format!("{rules} | grep ^-A || true"));
            let before = rules();
            sh(take);
            // iptables-legacy tells nobody, so its rules are looked at with the addresses.
            sh(&format!("ip addr del {V4}/32 dev nodelocaldns"));
            eventually("the rules are back", || rules() == before);
            eventually("they are counted", || {
                let counts = network.counts();
                counts.rules_put_back > 0 && counts.addresses_put_back > 0
            });
            assert_eq!(rules(), before);
        });
    }
}

#[test]
fn a_node_cache_that_ends_later_takes_nothing_for_long() {
    alone(|| {
        let network = Network::open(plan(Backend::IptablesLegacy, &[V4]), None, |_, _| {});
        network.attract();
        let rules = || saved("iptables-legacy", "raw");
        let before = rules();
        sh("ip link delete nodelocaldns");
        eventually("the address is back", || has(V4));
        // No event tells of this.
        sh("iptables-legacy -t raw -F");
        eventually("the rules are back", || rules() == before);
    });
}

#[test]
fn nobody_else_can_change_our_table() {
    alone(|| {
        let network = Network::open(plan(Backend::Nftables, &[V4]), None, |_, _| {});
        network.attract();
        let before = sh("nft list table inet nodelocaldns");
        let failed = sh("nft flush table inet nodelocaldns 2>&1 || echo refused");
        assert!(failed.contains("refused"), "{failed}");
        sh("nft flush ruleset");
        assert_eq!(sh("nft list table inet nodelocaldns"), before);
    });
}
