//! How queries travel: the transports, their shares of the clients, and what connections are like.

use crate::life::Life;
use lab_random as rng;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The stream of random numbers that clients get their transports by.
const PURPOSE: u64 = 0x7472_616e;

/// How queries travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// One connected UDP socket per client.
    Udp,
    /// DNS over TCP, pipelined (RFC 7766).
    Tcp,
    /// DNS over TLS (RFC 7858).
    Dot,
    /// DNS over HTTPS (RFC 8484), HTTP/2.
    Doh,
    /// DNS over QUIC (RFC 9250).
    Doq,
    /// DNS over HTTPS (RFC 8484), HTTP/3.
    Doh3,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Udp, Self::Tcp, Self::Dot, Self::Doh, Self::Doq, Self::Doh3];

    /// Its name in options and results, as in dnsperf as far as that knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Dot => "dot",
            Self::Doh => "doh",
            Self::Doq => "doq",
            Self::Doh3 => "doh3",
        }
    }

    /// The port servers listen on if nothing else is said.
    pub fn port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp => 53,
            Self::Dot | Self::Doq => 853,
            Self::Doh | Self::Doh3 => 443,
        }
    }

    /// Whether it needs TLS and so a certificate of the server.
    pub fn is_encrypted(self) -> bool {
        matches!(self, Self::Dot | Self::Doh | Self::Doq | Self::Doh3)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|transport| transport.name() == text);
        found.ok_or_else(|| {
            format!("`{text}` is not a transport, expected udp, tcp, dot, doh, doq or doh3")
        })
    }
}

/// The clients that use one transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Their transport.
    pub transport: Transport,
    /// How many of the clients, relative to the weights of the other shares.
    pub weight: u32,
    /// Where the server takes this transport.
    pub server: SocketAddr,
}

/// What connections are like; of no meaning for UDP.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Streams {
    /// When a client leaves a connection for a new one.
    pub life: Life,
    /// Queries without an answer on one connection at once; `None` sets no limit of our own.
    pub pipelining: Option<NonZeroUsize>,
    /// Whether each client has its first connection before the schedule starts; `None` where
    /// connections persist.
    pub connect_first: Option<bool>,
    /// How long setting up a connection may take, handshake included; `None` is the timeout of
    /// queries.
    pub set_up_timeout: Option<Duration>,
    /// TLS of DoT, DoH, DoQ and HTTP/3.
    pub tls: Tls,
    /// Requests of DoH, HTTP/2 and HTTP/3.
    pub doh: Doh,
}

impl Streams {
    /// Whether each client has its first connection before the schedule starts.
    pub fn connects_first(&self) -> bool {
        self.connect_first.unwrap_or(self.life.is_endless())
    }
}

/// How the server is known and connections are resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Whose certificates are taken.
    pub trust: Trust,
    /// The server's name in its certificate and in SNI; `None` is its address.
    pub name: Option<String>,
    /// Whether every connection starts with a full handshake, even if the client has a ticket.
    pub no_resumption: bool,
    /// Whether queries are sent as early data (0-RTT) where a ticket allows it (DoQ, HTTP/3).
    pub early_data: bool,
}

/// Whose certificates are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those that the system's certificate authorities have signed.
    #[default]
    System,
    /// Those that a certificate in this PEM file vouches for, and those certificates themselves.
    File(PathBuf),
    /// Any: the server may be anybody.
    Anyone,
}

/// Requests of DoH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doh {
    /// The path of the resource.
    pub path: String,
    /// GET or POST.
    pub method: Method,
}

impl Default for Doh {
    fn default() -> Self {
        Self { path: "/dns-query".to_owned(), method: Method::Get }
    }
}

/// How DoH carries a query (RFC 8484 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// In the URI.
    Get,
    /// In the body.
    Post,
}

/// Which thread each client belongs to, and its number there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    places: Vec<(u32, u32)>,
    /// The share and the number of clients of each thread.
    shards: Vec<(usize, usize)>,
    /// The clients of each thread, in the order of their numbers there.
    members: Vec<Vec<u32>>,
}

impl Placement {
    /// Divides `clients` over the shares by weight, and those of each share over up to `threads`
    /// threads of its own. Who gets which transport depends on the seed alone.
    pub(crate) fn new(shares: &[Share], clients: usize, threads: usize, seed: u64) -> Self {
        let weights: Vec<_> = shares.iter().map(|share| share.weight).collect();
        let sizes = divide(&weights, clients);
        let mut owners: Vec<usize> = Vec::with_capacity(clients);
        for (share, size) in sizes.iter().enumerate() {
            owners.extend(std::iter::repeat_n(share, *size));
        }
        if shares.len() > 1 {
            let mut stream = rng::Stream::new(seed, PURPOSE);
            for last in (1..owners.len()).rev() {
                owners.swap(last, stream.below(last + 1));
            }
        }
        let (mut shards, mut first) = (Vec::new(), Vec::new());
        for (share, size) in sizes.iter().enumerate() {
            let count = threads.min(*size);
            first.push((shards.len(), count));
            shards.extend(std::iter::repeat_n((share, 0), count));
        }
        let mut seen = vec![0; shares.len()];
        let mut places = Vec::with_capacity(clients);
        let mut members = vec![Vec::new(); shards.len()];
        for share in owners {
            let (Some(&(start, count)), Some(seen)) = (first.get(share), seen.get_mut(share))
            else {
                continue;
            };
            let shard = start + *seen % count.max(1);
            *seen += 1;
            let (Some((_, clients)), Some(members)) =
                (shards.get_mut(shard), members.get_mut(shard))
            else {
                continue;
            };
            members.push(places.len() as u32);
            places.push((shard as u32, *clients as u32));
            *clients += 1;
        }
        Self { places, shards, members }
    }

    /// The thread of `client` and its number there.
    pub(crate) fn of(&self, client: usize) -> Option<(usize, usize)> {
        self.places.get(client).map(|(shard, number)| (*shard as usize, *number as usize))
    }

    /// The client with this number on a thread: the reverse of [`Placement::of`].
    pub(crate) fn client(&self, shard: usize, number: usize) -> u64 {
        let client = self.members.get(shard).and_then(|members| members.get(number));
        client.map_or(u64::MAX, |client| u64::from(*client))
    }

    /// The share and the number of clients of each thread.
    pub(crate) fn shards(&self) -> &[(usize, usize)] {
        &self.shards
    }
}

/// Divides `total` by `weights`: the largest remainders are rounded up, and whoever has a weight
/// gets at least one as far as there are enough.
fn divide(weights: &[u32], total: usize) -> Vec<usize> {
    let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum::<u64>().max(1);
    let exact = |weight: u32| total as u64 * u64::from(weight);
    let mut sizes: Vec<usize> =
        weights.iter().map(|weight| (exact(*weight) / sum) as usize).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|at| {
        let weight = weights.get(*at).copied().unwrap_or(0);
        let none_yet = weight > 0 && exact(weight) < sum;
        (!none_yet, std::cmp::Reverse(exact(weight) % sum))
    });
    let mut left = total.saturating_sub(sizes.iter().sum());
    for at in &order {
        if left > 0 && weights.get(*at).is_some_and(|weight| *weight > 0) {
            sizes[*at] += 1;
            left -= 1;
        }
    }
    // A small share may still have none; the largest gives one.
    for at in order {
        if sizes[at] == 0 && weights[at] > 0 {
            let largest = (0..sizes.len()).max_by_key(|at| sizes[*at]).unwrap_or(at);
            if sizes[largest] > 1 {
                sizes[largest] -= 1;
                sizes[at] += 1;
            }
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(weights: &[u32]) -> Vec<Share> {
        let server = SocketAddr::from(([127, 0, 0, 1], 53));
        let share =
            |(weight, transport): (&u32, Transport)| Share { transport, weight: *weight, server };
        weights.iter().zip(Transport::ALL).map(share).collect()
    }

    #[test]
    fn clients_are_divided_by_weight_and_none_is_lost() {
        assert_eq!(divide(&[80, 15, 5], 100), [80, 15, 5]);
        assert_eq!(divide(&[80, 15, 5], 10), [8, 1, 1]);
        assert_eq!(divide(&[98, 1, 1], 4), [2, 1, 1]);
        assert_eq!(divide(&[1, 0], 3), [3, 0]);
        assert_eq!(divide(&[5, 5], 1).iter().sum::<usize>(), 1);
        for total in 0..50 {
            assert_eq!(divide(&[7, 3, 1, 1], total).iter().sum::<usize>(), total);
        }
    }

    #[test]
    fn a_client_keeps_its_transport_whatever_the_number_of_threads() {
        let transport = |threads| {
            let placement = Placement::new(&shares(&[6, 3, 1]), 100, threads, 9);
            let share =
                |client| placement.shards()[placement.of(client).map_or(0, |(shard, _)| shard)].0;
            let clients: usize = placement.shards().iter().map(|(_, clients)| clients).sum();
            assert_eq!(clients, 100);
            (0..100).map(share).collect::<Vec<_>>()
        };
        assert_eq!(transport(1), transport(4));
        assert_eq!(transport(1).iter().filter(|share| **share == 0).count(), 60);
    }

    #[test]
    fn one_transport_is_placed_as_without_a_mix() {
        let placement = Placement::new(&shares(&[1]), 10, 3, 1);
        for client in 0..10 {
            assert_eq!(placement.of(client), Some((client % 3, client / 3)));
            assert_eq!(placement.client(client % 3, client / 3), client as u64);
        }
        assert_eq!(placement.shards(), [(0, 4), (0, 3), (0, 3)]);
        assert_eq!(Placement::new(&shares(&[1]), 2, 3, 1).shards().len(), 2);
    }

    #[test]
    fn names_are_those_of_dnsperf() {
        for transport in Transport::ALL {
            assert_eq!(transport.name().parse(), Ok(transport));
        }
        assert!("tls".parse::<Transport>().unwrap_err().contains("dot"));
    }
}
