//! What a configuration depends on that is not in the Corefile.

use nodens_corefile::Corefile;
use nodens_wire::Name;
use nodens_zone::Zone;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// What is not in the Corefile.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Port of keys that name none and whose scheme is `dns` (`-dns.port`).
    pub port: u16,
    /// Addresses of each network interface, for `bind eth0`.
    pub interfaces: HashMap<String, Vec<IpAddr>>,
    /// This host's name, for `nsid` and `chaos`.
    pub hostname: String,
    /// Random octets for names that nobody may guess (`loop`); fresh for every build.
    pub secret: [u8; 16],
    /// Finds the addresses of a host that a directive names, asking the given servers, or the
    /// system's if there are none. Called while a configuration is built; may block for seconds.
    pub lookup_host: LookupHost,
    /// The system's resolv.conf(5), for `autopath @kubernetes`.
    pub resolv_conf: PathBuf,
    /// Where systemd-resolved writes the servers it asks itself.
    pub resolved_conf: PathBuf,
    /// Whether blocks that forward a cluster's zone have `search` without saying so: the server
    /// stands on a node, between pods and the cluster's servers.
    pub ends_search_paths: bool,
    /// What `search` does, written or not.
    pub search: SearchMode,
    /// The node it runs on, for `autopath @node`.
    pub node: String,
    /// Zones that `transfer` hands on beside those of the Corefile's directives, for programs that
    /// have some of their own.
    pub zones: Vec<(Name, Arc<dyn Zone>)>,
    /// What server blocks are known by over reloads and hand-overs, where that is not what they say: the same
    /// blocks, in the same order, with a word in the place of what may change without making another block of it.
    pub known_as: Option<Corefile>,
}

/// What `search` does in all blocks that have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchMode {
    /// It denies names.
    #[default]
    On,
    /// It counts what it would have denied, and what the servers said to that.
    DryRun,
    /// Nothing: it is not there.
    Off,
}

/// See [`BuildOptions::lookup_host`].
pub type LookupHost = fn(&str, &[SocketAddr]) -> Result<Vec<IpAddr>, String>;

fn no_lookup(_host: &str, _servers: &[SocketAddr]) -> Result<Vec<IpAddr>, String> {
    Err("host names are not looked up here, expected an IP address or a file".to_owned())
}

impl Default for BuildOptions {
    fn default() -> Self {
        let (interfaces, hostname) = (HashMap::new(), "localhost".to_owned());
        Self {
            port: 53,
            interfaces,
            hostname,
            secret: [0; 16],
            lookup_host: no_lookup,
            resolv_conf: PathBuf::from("/etc/resolv.conf"),
            resolved_conf: PathBuf::from("/run/systemd/resolve/resolv.conf"),
            ends_search_paths: false,
            search: SearchMode::default(),
            node: "localhost".to_owned(),
            zones: Vec::new(),
            known_as: None,
        }
    }
}
