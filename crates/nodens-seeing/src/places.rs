//! Whose an address is, where no API server says it: what the host's processes tell of
//! themselves.
//!
//! A pod's address is that of its network namespace, and the processes in it say in their
//! environment what their host is called, which is the pod's name, and in a file which namespace of
//! the cluster they are in.

use crate::report::Place;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often processes are looked through, for addresses nobody knows.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The file in which a pod finds its namespace.
const NAMESPACE_FILE: &str = "root/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// What is known of addresses.
#[derive(Debug)]
pub struct Places {
    proc: PathBuf,
    known: HashMap<IpAddr, Place>,
    looked_at: Option<Instant>,
}

impl Default for Places {
    fn default() -> Self {
        Self::new(Path::new("/proc"))
    }
}

impl Places {
    /// Reads processes at `proc`, usually `/proc`.
    pub fn new(proc: &Path) -> Self {
        Self { proc: proc.to_owned(), known: HashMap::new(), looked_at: None }
    }

    /// Looks through the processes, if some of `addresses` is not known and that has not been done
    /// lately.
    pub fn look_for(&mut self, addresses: &[IpAddr]) {
        let unknown = addresses.iter().any(|address| !self.known.contains_key(address));
        let lately = self.looked_at.is_some_and(|at| at.elapsed() < LOOK_EVERY);
        if unknown && !lately {
            self.known = look(&self.proc);
            self.looked_at = Some(Instant::now());
        }
    }

    /// Whose an address is.
    pub fn get(&self, address: IpAddr) -> Option<Place> {
        self.known.get(&address).cloned()
    }
}

/// Every address of a network namespace other than our own, with who is there.
fn look(proc: &Path) -> HashMap<IpAddr, Place> {
    let namespace_of = |process: &Path| std::fs::read_link(process.join("ns/net")).ok();
    let mut seen = HashSet::new();
    seen.extend(namespace_of(&proc.join("self")));
    let mut found = HashMap::new();
    for entry in std::fs::read_dir(proc).into_iter().flatten().flatten() {
        let process = entry.path();
        let number = entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        let Some(namespace) = namespace_of(&process).filter(|_| number) else { continue };
        if seen.contains(&namespace) {
            continue;
        }
        let Some(place) = place_of(&process) else { continue };
        seen.insert(namespace);
        let v4 = std::fs::read_to_string(process.join("net/fib_trie")).unwrap_or_default();
        let v6 = std::fs::read_to_string(process.join("net/if_inet6")).unwrap_or_default();
        let v4 = local_v4(&v4).map(IpAddr::V4);
        let addresses = v4.chain(local_v6(&v6).map(IpAddr::V6));
        found.extend(addresses.map(|address| (address, place.clone())));
    }
    found
}

/// Who a process is. The first one of a pod may be the one that only holds its namespaces, which
/// says nothing: then another one is looked at.
fn place_of(process: &Path) -> Option<Place> {
    let environment = std::fs::read(process.join("environ")).unwrap_or_default();
    let variable = |name: &str| {
        let mut all = environment.split(|octet| *octet == 0);
        let value = all.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        value.map(|value| String::from_utf8_lossy(value).into_owned())
    };
    let file = || std::fs::read_to_string(process.join(NAMESPACE_FILE)).ok();
    let namespace = variable("POD_NAMESPACE").or_else(file).unwrap_or_default();
    let pod = variable("POD_NAME").or_else(|| variable("HOSTNAME"))?;
    Some(Place { namespace: namespace.trim().to_owned(), pod })
}

/// The addresses that `fib_trie` calls local: each stands on the line before it says so.
fn local_v4(fib_trie: &str) -> impl Iterator<Item = Ipv4Addr> {
    let lines = fib_trie.lines().zip(fib_trie.lines().skip(1));
    lines
        .filter(|(_, next)| next.contains("/32 host LOCAL"))
        .filter_map(|(line, _)| line.split_whitespace().last()?.parse().ok())
        .filter(|address: &Ipv4Addr| !address.is_loopback())
}

/// The addresses of `if_inet6`: 32 hexadecimal digits begin each line.
fn local_v6(if_inet6: &str) -> impl Iterator<Item = Ipv6Addr> {
    let digits = if_inet6.lines().filter_map(|line| line.split_whitespace().next());
    let address = digits.filter_map(|digits| u128::from_str_radix(digits, 16).ok());
    address.map(Ipv6Addr::from).filter(|a| !a.is_loopback() && !a.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n\
            Local:\n     |-- 10.0.0.7\n        /32 host LOCAL\n     |-- 10.0.0.255\n        \
            /32 link BROADCAST\n     |-- 127.0.0.1\n        /32 host LOCAL\n";
        assert_eq!(local_v4(trie).collect::<Vec<_>>(), [Ipv4Addr::new(10, 0, 0, 7)]);
        let inet6 = "00000000000000000000000000000001 01 80 10 80 lo\n\
            fd000000000000000000000000000007 02 40 00 80 eth0\n\
            fe8000000000000000fc00fffe000007 02 40 20 80 eth0\n";
        assert_eq!(local_v6(inet6).collect::<Vec<_>>(), ["fd00::7".parse::<Ipv6Addr>().unwrap()]);
    }

    #[test]
    fn our_own_addresses_are_nobody_elses() {
        let mut places = Places::default();
        places.look_for(&["127.0.0.1".parse().unwrap()]);
        assert_eq!(places.get("127.0.0.1".parse().unwrap()), None);
    }
}
