//! The rules in the tables of iptables, legacy or nft, for both families.

use super::programs::{Interrupt, find, run};
use super::rules::{ALLOW, Chain, End, Protocol, Rule, SKIP};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

/// Which of the two programs called iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    Legacy,
    Nft,
}

impl Flavour {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Legacy => "iptables-legacy",
            Self::Nft => "iptables-nft",
        }
    }
}

/// The programs of one flavour.
#[derive(Clone, Debug)]
pub(crate) struct Iptables {
    pub(crate) flavour: Flavour,
    v4: Option<Programs>,
    v6: Option<Programs>,
    interrupt: Interrupt,
}

#[derive(Clone, Debug)]
struct Programs {
    save: PathBuf,
    restore: PathBuf,
}

/// What putting the rules right took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Changes {
    pub(crate) added: usize,
    /// Leftovers, and rules that were there twice.
    pub(crate) removed: usize,
}

impl Iptables {
    /// The programs of a flavour, if there are any.
    pub(crate) fn find(flavour: Flavour, interrupt: &Interrupt) -> Option<Self> {
        let v4 = programs("iptables", flavour, interrupt);
        let v6 = programs("ip6tables", flavour, interrupt);
        let interrupt = interrupt.clone();
        (v4.is_some() || v6.is_some()).then_some(Self { flavour, v4, v6, interrupt })
    }

    /// Whether kube-proxy has its rules here.
    pub(crate) fn has_kube_proxy(&self) -> bool {
        [&self.v4, &self.v6].into_iter().flatten().any(|programs| {
            run(&programs.save, &["-t", "nat"], "", &self.interrupt)
                .is_ok_and(|rules| has_services(&rules))
        })
    }

    /// Makes the rules what they should be, table by table, each in one step. Rules with our
    /// comments for other addresses stay as long as `local` says that somebody has the address.
    pub(crate) fn reconcile(
        &self,
        wanted: &[Rule],
        ours: &[IpAddr],
        local: &dyn Fn(IpAddr) -> bool,
    ) -> io::Result<Changes> {
        let mut changes = Changes::default();
        for v6 in [false, true] {
            let Some(programs) = (if v6 { &self.v6 } else { &self.v4 }) else {
                if wanted.iter().any(|rule| rule.ip.is_ipv6() == v6) {
                    let program = if v6 { "ip6tables" } else { "iptables" };
                    let what = format!("no program {program} of {}", self.flavour.name());
                    return Err(io::Error::new(io::ErrorKind::NotFound, what));
                }
                continue;
            };
            let family: Vec<Rule> =
                wanted.iter().copied().filter(|rule| rule.ip.is_ipv6() == v6).collect();
            for table in ["raw", "filter"] {
                let wanted: Vec<Rule> =
                    family.iter().copied().filter(|rule| table_of(rule.chain) == table).collect();
                if wanted.is_empty() && !self.exists(table, v6) {
                    continue;
                }
                let saved = run(&programs.save, &["-t", table], "", &self.interrupt)?;
                let Some((script, done)) = script(table, &saved, &wanted, ours, local) else {
                    continue;
                };
                let arguments = ["--noflush", "--wait", "5"];
                run(&programs.restore, &arguments, &script, &self.interrupt)?;
                changes.added += done.added;
                changes.removed += done.removed;
            }
        }
        Ok(changes)
    }

    /// Whether there is such a table already; looking at one that is not there would make it.
    fn exists(&self, table: &str, v6: bool) -> bool {
        self.flavour == Flavour::Nft || has_legacy_table(table, v6)
    }
}

/// Whether the kernel has a table of iptables-legacy in this network.
pub(crate) fn has_legacy_table(table: &str, v6: bool) -> bool {
    let file = if v6 {
        "/proc/thread-self/net/ip6_tables_names"
    } else {
        "/proc/thread-self/net/ip_tables_names"
    };
    std::fs::read_to_string(file).is_ok_and(|names| names.lines().any(|name| name == table))
}

fn has_services(saved: &str) -> bool {
    saved.lines().any(|line| line.starts_with(":KUBE-SERVICES "))
}

/// The programs `FAMILY-FLAVOUR-save` and `-restore`, or those without a flavour in their name if
/// they say that they are of this one.
fn programs(family: &str, flavour: Flavour, interrupt: &Interrupt) -> Option<Programs> {
    let (word, said) = match flavour {
        Flavour::Legacy => ("legacy", "(legacy)"),
        Flavour::Nft => ("nft", "(nf_tables)"),
    };
    let pair = |name: &str| {
        let (save, restore) = (find(&format!("{name}-save"))?, find(&format!("{name}-restore"))?);
        Some(Programs { save, restore })
    };
    pair(&format!("{family}-{word}")).or_else(|| {
        let version = run(&find(family)?, &["--version"], "", interrupt).ok()?;
        version.contains(said).then(|| pair(family))?
    })
}

fn table_of(chain: Chain) -> &'static str {
    if chain.is_raw() { "raw" } else { "filter" }
}

fn chain_name(chain: Chain) -> &'static str {
    match chain {
        Chain::RawPrerouting => "PREROUTING",
        Chain::FilterInput => "INPUT",
        Chain::RawOutput | Chain::FilterOutput => "OUTPUT",
    }
}

/// What turns a table as it was saved into one with just the wanted rules of ours.
fn script(
    table: &str,
    saved: &str,
    wanted: &[Rule],
    ours: &[IpAddr],
    local: &dyn Fn(IpAddr) -> bool,
) -> Option<(String, Changes)> {
    let mut missing = wanted.to_vec();
    let mut lines = Vec::new();
    let mut changes = Changes::default();
    for line in saved.lines().filter(|line| line.contains(SKIP) || line.contains(ALLOW)) {
        let Some(seen) = seen(table, line) else { continue };
        let place = missing
            .iter()
            .position(|rule| *rule == seen.rule && rule.only_if_local() == seen.only_if_local);
        if let Some(place) = place {
            missing.remove(place);
        } else if ours.contains(&seen.rule.ip) || !local(seen.rule.ip) {
            lines.push(line.replacen("-A ", "-D ", 1));
            changes.removed += 1;
        }
    }
    changes.added = missing.len();
    // Each goes to the top, so the last one first keeps their order.
    lines.extend(missing.iter().rev().map(|rule| format!("-I {}", written(rule))));
    let script = format!("*{table}\n{}\nCOMMIT\n", lines.join("\n"));
    (!lines.is_empty()).then_some((script, changes))
}

/// A rule as iptables reads it, from the chain's name on.
fn written(rule: &Rule) -> String {
    let chain = chain_name(rule.chain);
    let (end, port) = match rule.end {
        End::Destination => ("-d", "--dport"),
        End::Source => ("-s", "--sport"),
    };
    let bits = if rule.ip.is_ipv4() { 32 } else { 128 };
    let protocol = match rule.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    };
    let local = if rule.only_if_local() { " -m addrtype --dst-type LOCAL" } else { "" };
    let target = if rule.chain.is_raw() { "NOTRACK" } else { "ACCEPT" };
    let (ip, number, comment) = (rule.ip, rule.port, rule.chain.comment());
    format!(
        "{chain} {end} {ip}/{bits} -p {protocol} -m {protocol} {port} {number}{local} \
         -m comment --comment \"{comment}\" -j {target}"
    )
}

/// A rule of a table, with whether it applies only while its address is local.
struct Seen {
    rule: Rule,
    only_if_local: bool,
}

/// Reads a line of `iptables-save`, if it could be one of ours or of node-cache.
fn seen(table: &str, line: &str) -> Option<Seen> {
    let mut words = words(line).into_iter();
    (words.next()? == "-A").then_some(())?;
    let chain = match (table, words.next()?.as_str()) {
        ("raw", "PREROUTING") => Chain::RawPrerouting,
        ("raw", "OUTPUT") => Chain::RawOutput,
        ("filter", "INPUT") => Chain::FilterInput,
        ("filter", "OUTPUT") => Chain::FilterOutput,
        _ => return None,
    };
    let (mut end, mut ip, mut protocol, mut port, mut only_if_local) =
        (None, None, None, None, false);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-d" | "-s" => {
                end = Some(if word == "-d" { End::Destination } else { End::Source });
                ip = words.next()?.split('/').next()?.parse().ok();
            }
            "-p" => {
                protocol = match words.next()?.as_str() {
                    "tcp" => Some(Protocol::Tcp),
                    "udp" => Some(Protocol::Udp),
                    _ => None,
                }
            }
            "--dport" | "--sport" => port = words.next()?.parse().ok(),
            "--dst-type" => only_if_local = words.next()? == "LOCAL",
            _ => {}
        }
    }
    let rule = Rule { chain, protocol: protocol?, end: end?, ip: ip?, port: port? };
    Some(Seen { rule, only_if_local })
}

/// The words of a line; quotes hold some together.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('"').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(chain: Chain, end: End) -> Rule {
        let ip = "169.254.20.10".parse().unwrap();
        Rule { chain, protocol: Protocol::Udp, end, ip, port: 53 }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (table, chain, end) in [
            ("raw", Chain::RawPrerouting, End::Destination),
            ("raw", Chain::RawOutput, End::Source),
            ("filter", Chain::FilterInput, End::Destination),
        ] {
            let rule = rule(chain, end);
            let seen = seen(table, &format!("-A {}", written(&rule))).unwrap();
            assert_eq!((seen.rule, seen.only_if_local), (rule, rule.only_if_local()));
        }
    }

    #[test]
    fn leftovers_go_and_what_is_right_stays() {
        let wanted = [rule(Chain::RawPrerouting, End::Destination)];
        let right = format!("-A {}", written(&wanted[0]));
        let of_node_cache = right.replace(" -m addrtype --dst-type LOCAL", "");
        let foreign = right.replace("20.10", "99.99");
        let other = "-A PREROUTING -d 10.0.0.1/32 -j ACCEPT";
        let saved = |lines: &[&str]| format!("*raw\n{}\nCOMMIT\n", lines.join("\n"));
        let ours = [wanted[0].ip];
        let run =
            |lines: &[&str], local: bool| script("raw", &saved(lines), &wanted, &ours, &|_| local);
        assert_eq!(run(&[&right, other], false), None);
        let (script, changes) = run(&[other], false).unwrap();
        assert_eq!(changes, Changes { added: 1, removed: 0 });
        assert!(script.contains("-I PREROUTING -d 169.254.20.10/32 -p udp"), "{script}");
        let (script, changes) = run(&[&of_node_cache, other, &right, &right], false).unwrap();
        assert_eq!(changes, Changes { added: 0, removed: 2 });
        assert!(script.contains("-D PREROUTING -d 169.254.20.10/32 -p udp"), "{script}");
        assert_eq!(run(&[&right, &foreign], true), None);
        assert_eq!(run(&[&right, &foreign], false).unwrap().1.removed, 1);
    }
}
