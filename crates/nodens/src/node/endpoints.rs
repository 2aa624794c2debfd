//! The upstream service's own servers, as the API server tells of them.

use nodens_core::cluster::{
    Feed, Key, Link, ObjectError, Protocol, Scope, Slice, Snapshot, Source,
};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// What the kubelet puts into every pod that may ask the API server.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The most servers that are asked; a few connections to each are enough for a node.
const SERVERS_MAX: usize = 15;
/// The port that need not be written.
const DNS_PORT: u16 = 53;

/// The namespace of this pod, if this is a pod that may ask the API server.
pub(crate) fn own_namespace() -> Option<String> {
    let folder = Path::new(ACCOUNT);
    let text = std::fs::read_to_string(folder.join("namespace")).ok()?;
    let asks =
        folder.join("token").exists() && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    Some(text.trim().to_owned()).filter(|name| asks && !name.is_empty())
}

/// What has to be watched for the service, and by which key its endpoints are found; whether they are
/// `needed`, because its address is not known.
///
/// # Errors
/// Names that no object has.
pub(crate) fn source(
    namespace: &str,
    service: &str,
    needed: bool,
) -> Result<(Source, Key), ObjectError> {
    let key = Key::new(namespace, service)?;
    let scope = Scope::SlicesOf { namespace: namespace.into(), service: service.into() };
    Ok((Source { scope, needed, endpoints: true, ..Source::default() }, key))
}

/// The ready servers, as `forward` takes them. None if there are none, or if nobody can say
/// whether what was known still holds.
pub(crate) fn servers(feed: &Feed, key: &Key, chooser: &RandomState) -> Vec<String> {
    match feed.is_current() {
        true => servers_in(&feed.load(), key, chooser),
        false => Vec::new(),
    }
}

/// Where to ask while nobody says where the servers are: at the `last` that were known, which may still answer,
/// and at the `address` of the service.
pub(crate) fn beside(last: &[String], address: Option<&String>) -> Vec<String> {
    let last = last.iter().take(SERVERS_MAX - usize::from(address.is_some()));
    last.chain(address).cloned().collect()
}

/// Why there are no servers.
pub(crate) fn why_not(feed: &Feed) -> String {
    match &*feed.link() {
        Link::Connecting => "the Kubernetes API has not answered yet".to_owned(),
        Link::Lost { reason, .. } => format!("the Kubernetes API does not say: {reason}"),
        Link::Connected => "it has no ready endpoints".to_owned(),
    }
}

fn servers_in(snapshot: &Snapshot, key: &Key, chooser: &RandomState) -> Vec<String> {
    let slices = snapshot.service(key.as_wire()).map(|entry| entry.slices.clone());
    let slices = slices.iter().flat_map(|slices| slices.iter());
    let servers: BTreeSet<_> = slices.flat_map(|slice| servers_of(slice)).collect();
    let mut servers: Vec<_> = servers.into_iter().collect();
    if servers.len() > SERVERS_MAX {
        // Every node takes others, and the same as long as they are there.
        servers.sort_by_cached_key(|server| chooser.hash_one(server));
        servers.truncate(SERVERS_MAX);
        servers.sort_unstable();
    }
    let text = |(ip, port): (IpAddr, u16)| match port {
        DNS_PORT => ip.to_string(),
        port => SocketAddr::new(ip, port).to_string(),
    };
    servers.into_iter().map(text).collect()
}

/// Addresses with the port for TCP, which clusters ask over, or else that for UDP.
fn servers_of(slice: &Slice) -> impl Iterator<Item = (IpAddr, u16)> {
    let port_of = |protocol| {
        let mut ports = slice.ports().iter().filter(move |port| port.protocol == protocol);
        // Among others, as for metrics, DNS has its name.
        let named = ports.clone().find(|port| port.name.starts_with("dns"));
        named.or_else(|| ports.next()).map(|port| port.number.unwrap_or(DNS_PORT))
    };
    let port = port_of(Protocol::Tcp).or_else(|| port_of(Protocol::Udp)).unwrap_or(DNS_PORT);
    slice.endpoints().map(move |endpoint| (endpoint.address, port))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use nodens_core::cluster::{Editor, NewEndpoint, Port};

    pub(crate) fn snapshot(key: &Key, number: u16, hosts: impl Iterator<Item = u8>) -> Snapshot {
        let mut editor = Editor::default();
        let port = |name: &str, protocol, number| Port {
            name: name.into(),
            protocol,
            number: Some(number),
        };
        let ports = [
            port("metrics", Protocol::Tcp, 9153),
            port("dns", Protocol::Udp, DNS_PORT),
            port("dns-tcp", Protocol::Tcp, number),
        ];
        let id = editor.slice_id(key.clone(), "dns-1");
        let endpoint = |host| NewEndpoint {
            address: IpAddr::from([10, 244, 0, host]),
            hostname: "",
            pod: "",
            zone: "",
        };
        editor.set_slice(Slice::new(id, "", ports.into(), hosts.map(endpoint)));
        editor.snapshot(0)
    }

    #[test]
    fn ready_servers_are_asked_at_the_port_for_dns() {
        let (_, key) = source("kube-system", "kube-dns-upstream", false).unwrap();
        let chooser = RandomState::new();
        let two = snapshot(&key, 53, [2, 1].into_iter());
        assert_eq!(servers_in(&two, &key, &chooser), ["10.244.0.1", "10.244.0.2"]);
        let moved = snapshot(&key, 1053, [1].into_iter());
        assert_eq!(servers_in(&moved, &key, &chooser), ["10.244.0.1:1053"]);
        let (_, other) = source("default", "kube-dns-upstream", false).unwrap();
        assert!(servers_in(&two, &other, &chooser).is_empty());
    }

    #[test]
    fn of_very_many_servers_some_are_asked_and_always_the_same() {
        let (_, key) = source("kube-system", "kube-dns", false).unwrap();
        let chooser = RandomState::new();
        let many = snapshot(&key, 53, 0..200);
        let chosen = servers_in(&many, &key, &chooser);
        assert_eq!(chosen.len(), SERVERS_MAX);
        assert_eq!(servers_in(&many, &key, &chooser), chosen);
        // `forward` takes no more, whatever is asked beside them.
        let address = "10.96.0.11".to_owned();
        assert_eq!(beside(&chosen, None), chosen);
        let beside = beside(&chosen, Some(&address));
        assert_eq!((beside.len(), beside.last()), (SERVERS_MAX, Some(&address)));
        assert!(source("kube-system", &"x".repeat(64), false).is_err());
    }

    #[test]
    fn nothing_is_known_of_a_service_that_nobody_watches() {
        let shared = nodens_core::cluster::Clusters::default();
        let (source, key) = source("kube-system", "kube-dns", false).unwrap();
        let feed = shared.feed(&source);
        assert!(servers(&feed, &key, &RandomState::new()).is_empty());
        assert_eq!(why_not(&feed), "the Kubernetes API has not answered yet");
    }

    #[test]
    fn endpoints_are_optional_where_the_address_of_the_service_is_known() {
        let is_optional =
            |needed| source("kube-system", "kube-dns", needed).unwrap().0.is_optional();
        assert!(is_optional(false) && !is_optional(true));
    }
}
