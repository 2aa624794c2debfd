//! What is measured, and under which arrangement of server, load and CPUs.

use lab_experiment::placement::Placement;
use lab_load::Transport;

/// Queries in flight on each connection of [`Cell::TcpDeep`].
const DEPTH: usize = 4;

/// How a server is set up for some cells; it is started anew for each arrangement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Arrangement {
    /// One CPU for the server, the upstream and the load elsewhere, over loopback.
    OneCpu,
    /// The same with two CPUs and as many threads, processes or sockets.
    TwoCpus,
    /// One CPU, and a name that the server itself knows.
    Internal,
    /// As [`Arrangement::Internal`], without a cache.
    Uncached,
    /// One CPU, an empty cache to be filled.
    Memory,
    /// Server and client on the same CPU, the client in a network namespace of its own, joined by
    /// veth: a pod and the cache of its node.
    SameCpu,
    /// One CPU, a hosts file of 100,000 lines, the Corefile watched.
    Busy,
    /// One CPU, `kubernetes` in the Corefile, and an API server.
    Kubernetes,
    /// As [`Arrangement::Kubernetes`], without a cache.
    UncachedKubernetes,
    /// One CPU, room for [`super::HELD`] connections.
    Held,
    /// One CPU, the upstream over TLS.
    ForwardDot,
    /// One CPU, the upstream over HTTPS, HTTP/2.
    ForwardDoh,
    /// One CPU, the upstream over QUIC.
    ForwardDoq,
    /// One CPU, DNS over TLS.
    Dot,
    /// One CPU, DNS over HTTPS, HTTP/2.
    Doh,
    /// One CPU, DNS over QUIC.
    Doq,
    /// One CPU, DNS over HTTPS, HTTP/3.
    Doh3,
    /// One CPU, a zone of many names from a file.
    LargeZone,
    /// One CPU, a zone like the root from a file.
    RootZone,
    /// One CPU, a signed zone from a file.
    SignedZone,
}

impl Arrangement {
    pub(super) const ALL: [Self; 20] = [
        Self::OneCpu,
        Self::TwoCpus,
        Self::Internal,
        Self::Uncached,
        Self::Memory,
        Self::SameCpu,
        Self::Busy,
        Self::Kubernetes,
        Self::UncachedKubernetes,
        Self::Held,
        Self::ForwardDot,
        Self::ForwardDoh,
        Self::ForwardDoq,
        Self::Dot,
        Self::Doh,
        Self::Doq,
        Self::Doh3,
        Self::LargeZone,
        Self::RootZone,
        Self::SignedZone,
    ];

    /// The transport that it is about, if that has TLS.
    pub(super) fn encrypted(self) -> Option<Transport> {
        match self {
            Self::Dot => Some(Transport::Dot),
            Self::Doh => Some(Transport::Doh),
            Self::Doq => Some(Transport::Doq),
            Self::Doh3 => Some(Transport::Doh3),
            _ => None,
        }
    }

    /// What is spoken with the upstream, if that is within TLS.
    pub(super) fn forwards(self) -> Option<Transport> {
        match self {
            Self::ForwardDot => Some(Transport::Dot),
            Self::ForwardDoh => Some(Transport::Doh),
            Self::ForwardDoq => Some(Transport::Doq),
            _ => None,
        }
    }

    /// Whether the server answers out of a zone of its own and of nothing else.
    pub(super) fn has_zone(self) -> bool {
        matches!(self, Self::LargeZone | Self::RootZone | Self::SignedZone)
    }

    /// Whether the server reads the names of Services from an API server.
    pub(super) fn watches_services(self) -> bool {
        matches!(self, Self::Kubernetes | Self::UncachedKubernetes)
    }

    /// Whether what will be asked for is asked for once before it is measured.
    pub(super) fn wants_warmth(self) -> bool {
        !matches!(self, Self::Memory | Self::Uncached | Self::Held) && self.forwards().is_none()
    }

    /// The CPUs of the server. With two of them the upstream, which hits do not need, gives its own.
    pub(super) fn cpus(self, placed: &Placement) -> Vec<usize> {
        match self {
            Self::TwoCpus => placed.subject.iter().chain(&placed.helper).copied().collect(),
            Self::SameCpu => placed.load.iter().take(1).copied().collect(),
            _ => placed.subject.clone(),
        }
    }

    /// Whether the server knows [`super::INTERNAL`] by itself.
    pub(super) fn knows_internal(self) -> bool {
        matches!(self, Self::Internal | Self::Uncached | Self::Busy)
    }
}

/// One thing that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    /// The highest QPS, one name.
    OneName,
    /// The highest QPS, [`super::NAMES`] names.
    ManyNames,
    /// 2,000 QPS from clients that sleep in between: where the CPU use of a node is read.
    Low,
    /// Latency at the given rate.
    Fixed,
    /// Latency at half of what this server reached in [`Cell::ManyNames`].
    Half,
    /// The highest QPS over 100 TCP connections.
    Tcp100,
    /// The same over 1,000.
    Tcp1000,
    /// The highest QPS over 100 TCP connections, several queries in flight on each.
    TcpDeep,
    /// The highest rate of new TCP connections with a query each.
    TcpNew,
    /// Two queries in one write on a fresh TCP connection: until the second answer.
    TcpPair,
    /// Memory per TCP connection that is held.
    TcpIdle,
    /// The highest QPS, no name twice.
    Misses,
    /// The same through an upstream over TLS.
    MissesDot,
    /// The same through an upstream over HTTPS.
    MissesDoh,
    /// The same through an upstream over QUIC.
    MissesDoq,
    /// [`Cell::ManyNames`] with two CPUs.
    TwoCpus,
    /// The highest QPS for the internal name.
    Internal,
    /// The same without a cache.
    UncachedInternal,
    /// The highest QPS for one name of the upstream's, without a cache.
    UncachedExternal,
    /// Memory per cached name.
    Memory,
    /// Latency at the given rate, server and client on one CPU, across veth.
    SameCpu,
    /// Latency at half of the most while nothing else happens.
    Quiet,
    /// The same under reloads, a changing hosts file, and scrapes.
    Disturbed,
    /// The highest QPS for names of Services.
    Services,
    /// The same for names that do not exist and that search lists make.
    SearchPath,
    /// [`Cell::Services`] without a cache.
    UncachedServices,
    /// [`Cell::SearchPath`] without a cache.
    UncachedSearchPath,
    /// The highest QPS over 100 connections of DNS over TLS.
    Dot100,
    /// The highest rate of new connections over TLS, each with a full handshake and one query.
    DotFull,
    /// The same with handshakes that resume a session.
    DotResumed,
    /// UDP at [`super::LOW_RATE`] beside idle listeners with TLS.
    BesideTls,
    /// The same while clients make one full handshake after the other.
    Storm,
    /// The highest QPS over 100 connections of DNS over HTTPS.
    Doh100,
    /// The same of DNS over QUIC.
    Doq100,
    /// The same of DNS over HTTPS on HTTP/3.
    DohThree100,
    /// The highest QPS for names of a large zone.
    Authority,
    /// The highest QPS for what resolvers ask the root.
    AuthorityRoot,
    /// The highest QPS for names of a signed zone, with signatures.
    AuthoritySigned,
}

impl Cell {
    pub(super) const ALL: [Self; 38] = [
        Self::OneName,
        Self::ManyNames,
        Self::Low,
        Self::Fixed,
        Self::Half,
        Self::Tcp100,
        Self::Tcp1000,
        Self::TcpDeep,
        Self::TcpNew,
        Self::TcpPair,
        Self::TcpIdle,
        Self::Misses,
        Self::MissesDot,
        Self::MissesDoh,
        Self::MissesDoq,
        Self::TwoCpus,
        Self::Internal,
        Self::UncachedInternal,
        Self::UncachedExternal,
        Self::Memory,
        Self::SameCpu,
        Self::Quiet,
        Self::Disturbed,
        Self::Services,
        Self::SearchPath,
        Self::UncachedServices,
        Self::UncachedSearchPath,
        Self::Dot100,
        Self::DotFull,
        Self::DotResumed,
        Self::BesideTls,
        Self::Storm,
        Self::Doh100,
        Self::Doq100,
        Self::DohThree100,
        Self::Authority,
        Self::AuthorityRoot,
        Self::AuthoritySigned,
    ];

    /// Its name in tables, files and `--cells`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OneName => "hits-1-name",
            Self::ManyNames => "hits",
            Self::Low => "2000-per-second",
            Self::Fixed => "latency",
            Self::Half => "latency-at-half",
            Self::Tcp100 => "tcp-100",
            Self::Tcp1000 => "tcp-1000",
            Self::TcpDeep => "tcp-deep",
            Self::TcpNew => "tcp-new",
            Self::TcpPair => "tcp-pair",
            Self::TcpIdle => "tcp-idle",
            Self::Misses => "misses",
            Self::MissesDot => "misses-dot",
            Self::MissesDoh => "misses-doh",
            Self::MissesDoq => "misses-doq",
            Self::TwoCpus => "hits-2-cpus",
            Self::Internal => "internal",
            Self::UncachedInternal => "uncached-internal",
            Self::UncachedExternal => "uncached-external",
            Self::Memory => "memory",
            Self::SameCpu => "same-cpu",
            Self::Quiet => "quiet",
            Self::Disturbed => "disturbed",
            Self::Services => "services",
            Self::SearchPath => "search-path",
            Self::UncachedServices => "uncached-services",
            Self::UncachedSearchPath => "uncached-search-path",
            Self::Dot100 => "dot-100",
            Self::DotFull => "dot-full-handshakes",
            Self::DotResumed => "dot-resumed-handshakes",
            Self::BesideTls => "udp-beside-tls",
            Self::Storm => "udp-under-handshakes",
            Self::Doh100 => "doh-100",
            Self::Doq100 => "doq-100",
            Self::DohThree100 => "doh3-100",
            Self::Authority => "authority-100k",
            Self::AuthorityRoot => "authority-root",
            Self::AuthoritySigned => "authority-signed-do",
        }
    }

    pub(super) fn arrangement(self) -> Arrangement {
        match self {
            Self::TwoCpus => Arrangement::TwoCpus,
            Self::Internal => Arrangement::Internal,
            Self::UncachedInternal | Self::UncachedExternal => Arrangement::Uncached,
            Self::Memory => Arrangement::Memory,
            Self::SameCpu => Arrangement::SameCpu,
            Self::Quiet | Self::Disturbed => Arrangement::Busy,
            Self::Services | Self::SearchPath => Arrangement::Kubernetes,
            Self::UncachedServices | Self::UncachedSearchPath => Arrangement::UncachedKubernetes,
            Self::TcpIdle => Arrangement::Held,
            Self::MissesDot => Arrangement::ForwardDot,
            Self::MissesDoh => Arrangement::ForwardDoh,
            Self::MissesDoq => Arrangement::ForwardDoq,
            Self::Dot100 | Self::DotFull | Self::DotResumed | Self::BesideTls | Self::Storm => {
                Arrangement::Dot
            }
            Self::Doh100 => Arrangement::Doh,
            Self::Doq100 => Arrangement::Doq,
            Self::DohThree100 => Arrangement::Doh3,
            Self::Authority => Arrangement::LargeZone,
            Self::AuthorityRoot => Arrangement::RootZone,
            Self::AuthoritySigned => Arrangement::SignedZone,
            _ => Arrangement::OneCpu,
        }
    }

    /// Whether every answer is meant to come from the server's own memory.
    pub(super) fn wants_hits(self) -> bool {
        let of_others =
            matches!(self, Self::Misses | Self::MissesDot | Self::MissesDoh | Self::MissesDoq);
        !of_others && !matches!(self, Self::UncachedExternal | Self::Memory)
    }

    /// Whether it needs a server that was just started: a cache that is full cannot be filled again, and
    /// the memory for connections stays.
    pub(super) fn fills(self) -> bool {
        matches!(self, Self::Memory | Self::TcpIdle)
    }

    /// Whether its latency counts from sending: the client's own wake-ups are another matter.
    pub(super) fn counts_from_sending(self) -> bool {
        matches!(self, Self::SameCpu | Self::BesideTls | Self::Storm)
    }

    /// For cells that keep connections busy: how many, and queries in flight on each.
    pub(super) fn connections(self) -> Option<(usize, usize)> {
        match self {
            Self::Tcp100 | Self::Dot100 | Self::Doh100 | Self::Doq100 | Self::DohThree100 => {
                Some((100, 1))
            }
            Self::Tcp1000 => Some((1_000, 1)),
            Self::TcpDeep => Some((100, DEPTH)),
            _ => None,
        }
    }

    /// The cell of this name.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|cell| cell.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|cell| cell.name()).collect();
            format!("expected one of {}", names.join(", "))
        })
    }
}
