//! node-cache's flags, which switch on the node role.

use super::{FlagError, bad, boolean, number};
use nodens_node::face::Service;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A ConfigMap that is used where it is mounted and `-kubednscm` names no other.
const KUBE_DNS_FOLDER: &str = "/etc/kube-dns";

/// `IFNAMSIZ` without the zero.
const LINK_NAME_LEN_MAX: usize = 15;

/// The flags as given, or node-cache's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeFlags {
    /// `-localip` as given.
    pub(crate) local: String,
    /// The addresses of `-localip`.
    pub(crate) addresses: Vec<IpAddr>,
    /// `-setupinterface`.
    pub(crate) setup_interface: bool,
    /// `-interfacename`.
    pub(crate) interface: String,
    /// `-setupiptables`.
    pub(crate) setup_rules: bool,
    /// `-syncinterval`.
    pub(crate) sync: Duration,
    /// `-metrics-listen-address`; empty for none.
    pub(crate) metrics: String,
    /// `-prometheus-listen-address`.
    pub(crate) prometheus: String,
    /// `-basecorefile`.
    pub(crate) base: PathBuf,
    /// Whether that was given: then the file has to be there.
    pub(crate) base_given: bool,
    /// `-kubednscm`; empty for [`KUBE_DNS_FOLDER`] where that exists.
    pub(crate) kube_dns: String,
    /// `-upstreamsvc`.
    pub(crate) upstream: String,
    /// `-health-port`.
    pub(crate) health_port: u16,
    /// `-skipteardown`.
    pub(crate) skip_teardown: bool,
    /// `-reloadwithsignal`.
    pub(crate) reload_at_once: bool,
    /// `-top-pods`.
    pub(crate) top_pods: bool,
}

impl Default for NodeFlags {
    fn default() -> Self {
        Self {
            local: String::new(),
            addresses: Vec::new(),
            setup_interface: true,
            interface: "nodelocaldns".to_owned(),
            setup_rules: true,
            sync: Duration::from_secs(60),
            metrics: "0.0.0.0:9353".to_owned(),
            prometheus: ":9253".to_owned(),
            base: PathBuf::from("/etc/coredns/Corefile.base"),
            base_given: false,
            kube_dns: String::new(),
            upstream: "kube-dns".to_owned(),
            health_port: 8080,
            skip_teardown: false,
            reload_at_once: false,
            top_pods: false,
        }
    }
}

/// Each flag with the kind of its value, if it takes one, and the text of `-help`.
pub(crate) const HELP: &[(&str, &str, &str)] = &[
    ("basecorefile", "FILE", "template of the Corefile (default: /etc/coredns/Corefile.base)"),
    ("corefile", "FILE", "accepted and ignored, as in node-cache: -conf names the Corefile"),
    ("health-port", "PORT", "port of health, kept out of connection tracking (default: 8080)"),
    ("interfacename", "NAME", "link that gets the local addresses (default: nodelocaldns)"),
    ("kubednscm", "FOLDER", "ConfigMap kube-dns (default: /etc/kube-dns where that exists)"),
    ("localip", "ADDRESSES", "local addresses, with commas between; switches on the node role"),
    (
        "metrics-listen-address",
        "ADDRESS",
        "setup errors, with all metrics; empty for none (default: 0.0.0.0:9353)",
    ),
    ("prometheus-listen-address", "ADDRESS", "for __PROMETHEUS__ENDPOINT__ (default: :9253)"),
    ("reloadwithsignal", "", "take up a changed template even where the Corefile has no reload"),
    ("setupinterface", "", "make the link with the local addresses (default: true)"),
    ("setupiptables", "", "make the packet filter's rules (default: true)"),
    ("skipteardown", "", "accepted and ignored: link and rules end with the process"),
    ("syncinterval", "TIME", "time between checks that nothing else prompts (default: 60s)"),
    (
        "top-pods",
        "",
        "name the clients that `nodens top` shows by their pods: watches the pods of this node",
    ),
    (
        "upstreamsvc",
        "SERVICE",
        "the central DNS: a Service, NAMESPACE/SERVICE, a host name or addresses (default: kube-dns)",
    ),
];

impl NodeFlags {
    /// Takes up one flag of [`HELP`].
    pub(super) fn set(
        &mut self,
        name: &str,
        value: Option<String>,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(), FlagError> {
        let flag = match name {
            "setupinterface" => Some(&mut self.setup_interface),
            "setupiptables" => Some(&mut self.setup_rules),
            "skipteardown" => Some(&mut self.skip_teardown),
            "reloadwithsignal" => Some(&mut self.reload_at_once),
            "top-pods" => Some(&mut self.top_pods),
            _ => None,
        };
        if let Some(flag) = flag {
            *flag = boolean(name, value)?;
            return Ok(());
        }
        let value = value.or_else(|| rest.next());
        let value = value.ok_or_else(|| FlagError::NoValue(name.to_owned()))?;
        match name {
            "basecorefile" => (self.base, self.base_given) = (PathBuf::from(value), true),
            "health-port" => {
                self.health_port = number(name, value, "a port from 0 to 65535")?;
            }
            "interfacename" => self.interface = link_name(value)?,
            "kubednscm" => self.kube_dns = value,
            "localip" => self.local = value,
            "metrics-listen-address" => self.metrics = value,
            "prometheus-listen-address" => self.prometheus = value,
            "syncinterval" => self.sync = interval(value)?,
            "upstreamsvc" => self.upstream = service(value)?,
            // `corefile`.
            _ => {}
        }
        Ok(())
    }

    /// Reads the addresses; both families may be among them.
    pub(super) fn finish(&mut self) -> Result<(), FlagError> {
        for text in self.local.split(',') {
            let given = text.parse().ok();
            // Where another program brings the queries, `bind` has such an address too.
            let made = self.setup_interface || self.setup_rules;
            let address = given.filter(|address| !made || is_of_one_machine(*address));
            let address = address.ok_or_else(|| FlagError::LocalIp(text.to_owned()))?;
            // Twice the same is no reason to bind twice.
            if !self.addresses.contains(&address) {
                self.addresses.push(address);
            }
        }
        Ok(())
    }

    /// The folder of the ConfigMap `kube-dns`, if there is one.
    pub(crate) fn kube_dns_folder(&self) -> Option<PathBuf> {
        if !self.kube_dns.is_empty() {
            return Some(PathBuf::from(&self.kube_dns));
        }
        Some(PathBuf::from(KUBE_DNS_FOLDER)).filter(|folder| folder.exists())
    }
}

/// Whether a link can have the address: none can have one that stands for all or for several machines.
fn is_of_one_machine(address: IpAddr) -> bool {
    let all = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_unspecified() || address.is_multicast() || all)
}

/// What can name the central servers.
fn service(value: String) -> Result<String, FlagError> {
    if Service::parse(&value).can_exist() {
        return Ok(value);
    }
    let expected = "a Service such as kube-dns or kube-system/kube-dns, a host name, or addresses";
    Err(bad("upstreamsvc", value, expected))
}

/// A name that the kernel gives to a link as it is: with `%` it would choose another one. The octet 0xa0 is white space to it,
/// also within a character of UTF-8.
fn link_name(value: String) -> Result<String, FlagError> {
    let fits = (1..=LINK_NAME_LEN_MAX).contains(&value.len()) && !matches!(&*value, "." | "..");
    let refused = |c: char| "/:%".contains(c) || c.is_whitespace() || c.is_control();
    if fits && !value.contains(refused) && !value.bytes().any(|octet| octet == 0xa0) {
        return Ok(value);
    }
    let expected = "1 to 15 octets without white space (the octet 0xa0 is some), control characters, '/', ':' and '%'";
    Err(bad("interfacename", value, expected))
}

/// `60`, `60s`, `1m`, and `60ns`, which are 60 seconds in node-cache: there the flag is a duration
/// that counts nanoseconds, and its value is multiplied by a second.
fn interval(value: String) -> Result<Duration, FlagError> {
    let seconds = value.parse::<u64>().ok().map(|seconds| seconds.saturating_mul(1_000_000_000));
    let count = seconds.or_else(|| duration(&value));
    let nanoseconds = match count {
        Some(count @ 1..1_000_000) => Some(count.saturating_mul(1_000_000_000)),
        Some(0) | None => None,
        count => count,
    };
    let expected = "a time above zero such as 60s";
    nanoseconds.map(Duration::from_nanos).ok_or_else(|| bad("syncinterval", value, expected))
}

/// Go's notation of a duration, in nanoseconds: `1m30s`, `1.5h`, `60ns`.
fn duration(text: &str) -> Option<u64> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut sum = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (value, unit_and_rest) = rest.split_at_checked(number)?;
        let unit = unit_and_rest.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, next) = unit_and_rest.split_at_checked(unit.unwrap_or(unit_and_rest.len()))?;
        let scale = match unit {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return None,
        };
        sum += value.parse::<f64>().ok()? * scale;
        rest = next;
    }
    Some(sum as u64)
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Flags};
    use super::*;

    fn parse(args: &[&str]) -> Result<Flags, FlagError> {
        Flags::parse("/usr/bin/nodens", args.iter().map(|arg| (*arg).to_owned()))
    }

    fn node(args: &[&str]) -> NodeFlags {
        parse(args).unwrap().node.unwrap()
    }

    #[test]
    fn the_manifest_s_arguments_switch_on_the_node_role() {
        let line = "-localip 169.254.20.10,10.96.0.10 -conf /etc/Corefile \
                    -upstreamsvc kube-dns-upstream -pidfile /tmp/node-cache.pid";
        let args: Vec<_> = line.split_whitespace().collect();
        let flags = parse(&args).unwrap();
        let node = flags.node.unwrap();
        assert_eq!(
            (flags.conf.as_str(), node.upstream.as_str()),
            ("/etc/Corefile", "kube-dns-upstream")
        );
        assert_eq!(
            node.addresses,
            ["169.254.20.10", "10.96.0.10"].map(|ip| ip.parse::<IpAddr>().unwrap())
        );
        assert_eq!(
            (node.setup_interface, node.setup_rules, node.skip_teardown),
            (true, true, false)
        );
        assert_eq!(parse(&["-conf", "x"]).unwrap().node, None);
    }

    #[test]
    fn cilium_s_arguments_are_understood() {
        let flags = node(&[
            "-localip=169.254.20.10",
            "-skipteardown=true",
            "-setupinterface=false",
            "--setupiptables=F",
        ]);
        assert_eq!(
            (flags.setup_interface, flags.setup_rules, flags.skip_teardown),
            (false, false, true)
        );
    }

    #[test]
    fn the_interval_is_read_in_every_way_people_write_it() {
        for (text, seconds) in
            [("60", 60.0), ("60s", 60.0), ("60ns", 60.0), ("1m30s", 90.0), ("0.5s", 0.5)]
        {
            let flags = node(&["-localip", "::1", "-syncinterval", text]);
            assert_eq!(flags.sync, Duration::from_secs_f64(seconds), "{text}");
        }
        for text in ["", "0", "x", "-5s", "5x", "s"] {
            let error = parse(&["-localip", "::1", "-syncinterval", text]).unwrap_err();
            assert!(matches!(error, FlagError::BadValue { .. }), "{text}");
        }
    }

    #[test]
    fn addresses_are_wanted_and_may_be_of_both_families() {
        let two = node(&["-localip", "169.254.20.10,fd00::a,169.254.20.10"]);
        assert_eq!(two.addresses.len(), 2);
        assert_eq!(two.local, "169.254.20.10,fd00::a,169.254.20.10");
        let wrong = parse(&["-localip", "169.254.20.10, 10.0.0.1"]).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "Error parsing flags - invalid localip specified - \" 10.0.0.1\", Exiting"
        );
        // Any of node-cache's flags, or its name, wants an address too.
        assert_eq!(parse(&["-skipteardown"]).unwrap_err(), FlagError::LocalIp(String::new()));
        let named = Flags::parse("/node-cache", std::iter::empty());
        assert_eq!(named.unwrap_err(), FlagError::LocalIp(String::new()));
        // But not in order to say which version this is.
        let version = Flags::parse("/node-cache", ["-version".to_owned()]);
        assert_eq!(version.unwrap().command, Command::Version);
    }

    #[test]
    fn what_no_link_can_have_is_refused() {
        for address in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255"] {
            let error = parse(&["-localip", &format!("169.254.20.10,{address}")]).unwrap_err();
            assert_eq!(error, FlagError::LocalIp(address.to_owned()));
        }
        node(&["-localip", "0.0.0.0", "-setupinterface=false", "-setupiptables=false"]);
        let name = |name: &str| parse(&["-localip", "::1", "-interfacename", name]);
        for wrong in [
            "",
            ".",
            "..",
            "a/b",
            "a:b",
            "a b",
            "a\tb",
            "node%d",
            "sixteen-octets-1",
            "a\u{b}b",
            "a\u{a0}b",
            "voil\u{e0}",
            "a\u{1b}b",
            "a\u{7f}",
            "a\u{2003}b",
        ] {
            let error = name(wrong).unwrap_err().to_string();
            assert!(error.contains("for flag -interfacename: expected 1 to 15 octets"), "{error}");
        }
        for right in ["nodelocaldns", "fifteen-octets1", "…"] {
            assert_eq!(name(right).unwrap().node.unwrap().interface, right);
        }
    }

    #[test]
    fn a_service_that_cannot_exist_is_refused() {
        let service = |name: &str| parse(&["-localip", "::1", "-upstreamsvc", name]);
        for wrong in ["ns/", "/", "", "ns/kube dns", "10.96.0.10,"] {
            let error = service(wrong).unwrap_err().to_string();
            assert!(error.contains("for flag -upstreamsvc: expected a Service such as"), "{error}");
        }
        for right in ["kube-system/kube-dns", "/kube-dns", "10.96.0.10, fd00::a", "dns.example.org"]
        {
            assert_eq!(service(right).unwrap().node.unwrap().upstream, right);
        }
    }

    #[test]
    fn the_page_of_the_node_role_has_every_argument() {
        let page = include_str!("../../../../docs/node.md");
        for (name, ..) in HELP {
            let row = page.lines().find(|line| {
                let cell = line.strip_prefix("| ").and_then(|line| line.split(" | ").next());
                cell.is_some_and(|cell| {
                    let mut words = cell.split(['`', ' ', '=', ',']);
                    words.any(|word| word.strip_prefix('-') == Some(*name))
                })
            });
            assert!(row.is_some(), "-{name} is in no row of docs/node.md");
        }
    }

    #[test]
    fn the_corefile_flag_is_overruled() {
        let flags =
            parse(&["-localip", "::1", "-corefile", "/etc/other", "-conf", "/etc/Corefile"]);
        assert_eq!(flags.unwrap().conf, "/etc/Corefile");
    }
}
