//! Whose an address is, where no API server says it: what the host's processes tell of
//! themselves.
//!
//! A pod's address is that of its network namespace, and the processes in it say in their
//! environment what their host is called, which is the pod's name, and in a file which namespace of
//! the cluster they are in.

use crate::limits::{ENVIRONMENT_LEN_MAX, NAME_LEN_MAX, SEEN_FILE_LEN_MAX};
use crate::report::Place;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often processes are looked through, for addresses nobody knows.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The file in which a pod finds its namespace.
const NAMESPACE_FILE: &str = "var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Who is at which address.
pub type Found = HashMap<IpAddr, Place>;

/// What is known of addresses.
#[derive(Debug, Default)]
pub struct Places {
    known: Found,
    looked_at: Option<Instant>,
    is_looking: bool,
}

impl Places {
    /// Whether somebody has to [`look`] because of `addresses`, and give what was found to
    /// [`Places::take_up`]: some of them is not known, nobody is looking, and nobody has lately.
    pub fn begin(&mut self, addresses: &[IpAddr]) -> bool {
        let unknown = addresses.iter().any(|address| !self.known.contains_key(address));
        let lately = self.looked_at.is_some_and(|at| at.elapsed() < LOOK_EVERY);
        let begins = unknown && !lately && !self.is_looking;
        self.is_looking |= begins;
        begins
    }

    /// Knows what was found, and nothing else.
    pub fn take_up(&mut self, found: Found) {
        *self = Self { known: found, looked_at: Some(Instant::now()), is_looking: false };
    }

    /// Whose an address is.
    pub fn get(&self, address: IpAddr) -> Option<Place> {
        self.known.get(&address).cloned()
    }
}

/// Every address of a network namespace other than our own, with who is there, as far as the
/// processes at `proc`, usually `/proc`, tell. Some process may never answer, so this may not end.
pub fn look(proc: &Path) -> Found {
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
        let text = |file: &str| {
            let octets = beginning(File::open(process.join(file)).ok()?, SEEN_FILE_LEN_MAX)?;
            String::from_utf8(octets).ok()
        };
        let v4 = text("net/fib_trie").unwrap_or_default();
        let v6 = text("net/if_inet6").unwrap_or_default();
        let v4 = local_v4(&v4).map(IpAddr::V4);
        let addresses = v4.chain(local_v6(&v6).map(IpAddr::V6));
        found.extend(addresses.map(|address| (address, place.clone())));
    }
    found
}

/// Who a process is. The first one of a pod may be the one that only holds its namespaces, which
/// says nothing: then another one is looked at.
fn place_of(process: &Path) -> Option<Place> {
    let environment = File::open(process.join("environ")).ok();
    let environment = environment.and_then(|file| beginning(file, ENVIRONMENT_LEN_MAX));
    let environment = environment.unwrap_or_default();
    let variable = |name: &str| {
        let mut all = environment.split(|octet| *octet == 0);
        as_name(all.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?)
    };
    let pod = variable("POD_NAME").or_else(|| variable("HOSTNAME"))?;
    let namespace = variable("POD_NAMESPACE").or_else(|| namespace_in(&process.join("root")));
    Some(Place { namespace: namespace.unwrap_or_default(), pod })
}

/// What the file system at `root` says the namespace is. It belongs to the pod, which may have put
/// anything there: links that lead out of it, pipes and devices, or a file without an end.
fn namespace_in(root: &Path) -> Option<String> {
    let at = OFlags::PATH | OFlags::CLOEXEC;
    let root = openat(CWD, root, at | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let file = openat2(&root, NAMESPACE_FILE, at, Mode::empty(), ResolveFlags::IN_ROOT).ok()?;
    // Opening a pipe or a device would be felt by somebody: first see what it is.
    if FileType::from_raw_mode(fstat(&file).ok()?.st_mode) != FileType::RegularFile {
        return None;
    }
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    let file = open(again, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    as_name(&beginning(file.into(), NAME_LEN_MAX + 1)?)
}

/// The first octets of a file, at most `len`.
fn beginning(file: File, len: usize) -> Option<Vec<u8>> {
    let mut octets = Vec::new();
    file.take(len as u64).read_to_end(&mut octets).ok()?;
    Some(octets)
}

/// A name as Kubernetes and hosts have them; nothing else is shown.
fn as_name(octets: &[u8]) -> Option<String> {
    let name = octets.trim_ascii();
    let plain = |octet: &u8| octet.is_ascii_alphanumeric() || b"-._".contains(octet);
    let is_name = !name.is_empty() && name.len() <= NAME_LEN_MAX && name.iter().all(plain);
    is_name.then(|| String::from_utf8_lossy(name).into_owned())
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
        let own = "127.0.0.1".parse().unwrap();
        let mut places = Places::default();
        assert!(places.begin(&[own]) && !places.begin(&[own]));
        places.take_up(look(Path::new("/proc")));
        assert_eq!(places.get(own), None);
        assert!(!places.begin(&[own]), "not again at once");
    }

    /// A process as `/proc` shows it, with a file system that has `namespace` in its place.
    fn process(folder: &Path, environment: &str, namespace: impl FnOnce(&Path)) -> Option<Place> {
        let process = folder.join("17");
        let file = process.join("root").join(NAMESPACE_FILE);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(process.join("environ"), environment).unwrap();
        namespace(&file);
        let place = place_of(&process);
        std::fs::remove_dir_all(&process).unwrap();
        place
    }

    #[test]
    fn a_pod_is_named_by_its_environment_and_its_own_file() {
        let folder = tempfile::tempdir().unwrap();
        let place = |environment: &str, namespace: &dyn Fn(&Path)| {
            let place = process(folder.path(), environment, namespace)?;
            Some(format!("{}/{}", place.namespace, place.pod))
        };
        let shop = |file: &Path| std::fs::write(file, "shop\n").unwrap();
        assert_eq!(place("A=b\0HOSTNAME=web-0\0", &shop).as_deref(), Some("shop/web-0"));
        let own = "HOSTNAME=h\0POD_NAMESPACE=own\0POD_NAME=p\0";
        assert_eq!(place(own, &shop).as_deref(), Some("own/p"));
        assert_eq!(place("A=b\0", &shop), None);
        // What is no name is not shown.
        assert_eq!(place("HOSTNAME=\x1b[2J\0", &shop), None);
        let long = format!("HOSTNAME={}\0", "x".repeat(NAME_LEN_MAX + 1));
        assert_eq!(place(&long, &shop), None);
    }

    #[test]
    fn what_a_pod_puts_in_the_place_of_its_namespace_harms_nobody() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        std::fs::write(&outside, "stolen").unwrap();
        let namespace = |put: &dyn Fn(&Path)| {
            process(folder.path(), "HOSTNAME=web-0\0", put).unwrap().namespace
        };
        // A pipe that nobody writes to would be waited for; a device would be opened.
        assert_eq!(
            namespace(&|file| {
                let kind = FileType::Fifo;
                rustix::fs::mknodat(CWD, file, kind, Mode::RUSR | Mode::WUSR, 0).unwrap();
            }),
            ""
        );
        assert_eq!(namespace(&|file| symlink("/dev/zero", file).unwrap()), "");
        // Links are followed in the pod's own file system alone.
        assert_eq!(namespace(&|file| symlink(&outside, file).unwrap()), "");
        let up = "../".repeat(20) + outside.to_str().unwrap().trim_start_matches('/');
        assert_eq!(namespace(&|file| symlink(&up, file).unwrap()), "");
        assert_eq!(
            namespace(&|file| {
                let root = file.ancestors().nth(6).unwrap();
                std::fs::write(root.join("mine"), "mine").unwrap();
                symlink("/mine", file).unwrap();
            }),
            "mine"
        );
        // And a file has no end, as far as anybody can tell.
        let endless = |file: &Path| File::create(file).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(namespace(&endless), "");
    }
}
