//! Services and pods.

use super::Key;
use nodens_wire::Name;
use std::net::IpAddr;
use std::sync::Arc;

/// A Service, or a ServiceImport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its name and namespace.
    pub key: Key,
    /// What its name stands for.
    pub kind: ServiceKind,
    /// Its cluster addresses, the primary one first; none if it has none.
    pub cluster_ips: Box<[IpAddr]>,
    /// Its ports.
    pub ports: Arc<[Port]>,
    /// Where it can be reached from outside: `spec.externalIPs`, then the load balancer's.
    pub external: Box<[External]>,
}

/// What the name of a service stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// Its cluster addresses.
    ClusterIp,
    /// Its endpoints.
    Headless,
    /// Another name, as written in `spec.externalName`.
    ExternalName(Box<str>),
}

/// A place outside the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum External {
    /// An address.
    Address(IpAddr),
    /// A host name, as load balancers may have.
    Host(Box<str>),
}

/// A port of a service or an endpoint slice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    /// Its name, empty if it has none.
    pub name: Box<str>,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number; `None` if it is left to who uses it.
    pub number: Option<u16>,
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP, also where nothing is said.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// The protocol as it is written in objects.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Tcp, Self::Udp, Self::Sctp]
            .into_iter()
            .find(|p| text.eq_ignore_ascii_case(p.label()))
    }

    /// As in the name of an SRV record, without the underscore.
    pub fn label(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

/// A pod that has addresses and is not about to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its addresses.
    pub ips: Box<[IpAddr]>,
    /// Its labels.
    pub labels: PodLabels,
    /// Where it looks for names.
    pub search: Search,
}

/// The labels of a pod, in one piece of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodLabels(Box<str>);

impl PodLabels {
    /// Keeps `labels`.
    pub fn new<'l>(labels: impl IntoIterator<Item = (&'l str, &'l str)>) -> Self {
        let mut text = String::new();
        for (key, value) in labels {
            // Neither may contain a line feed (the API server checks), so it can stand between.
            text.extend([key, "\n", value, "\n"]);
        }
        Self(text.into())
    }

    /// All labels.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut parts = self.0.split_terminator('\n');
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }

    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }
}

/// The search list in a pod's resolv.conf, as its specification makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// What it begins with.
    pub base: SearchBase,
    /// The domains that `dnsConfig.searches` adds, in order.
    pub added: Arc<[Name]>,
    /// Names with fewer dots are looked for along the list first: `ndots` of `dnsConfig.options`,
    /// or [`SearchBase::ndots`].
    pub ndots: u8,
}

/// What a search list begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SearchBase {
    /// `NAMESPACE.svc.ZONE`, `svc.ZONE`, `ZONE`, then the node's own (`dnsPolicy: ClusterFirst`;
    /// with the host's network `ClusterFirstWithHostNet`).
    #[default]
    Cluster,
    /// The node's own (`dnsPolicy: Default`, or `ClusterFirst` with the host's network); also on
    /// Windows, where it is not walked as elsewhere.
    Node,
    /// Nothing (`dnsPolicy: None`).
    Nothing,
}

impl SearchBase {
    /// `ndots` where a pod says nothing: what a kubelet writes, else what resolv.conf(5) says.
    pub fn ndots(self) -> u8 {
        match self {
            Self::Cluster => 5,
            Self::Node | Self::Nothing => 1,
        }
    }
}
