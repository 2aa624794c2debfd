//! Which clients of a recording take part, and which local addresses they have.

use lab_workload::recorded::Carrier;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// A part of the clients: each with all of its queries, or with none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The part that stays, from 0 to 1.
    pub part: f64,
    /// Another seed is another sample.
    pub seed: u64,
}

impl Sample {
    /// Whether the client with this address stays; its ports do not matter.
    pub fn has(&self, client: IpAddr) -> bool {
        self.part >= 1.0 || lab_random::unit(self.seed, fold(client)) < self.part
    }
}

/// An address as one number of 64 bits.
fn fold(address: IpAddr) -> u64 {
    let number = match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    };
    (number >> 64) as u64 ^ lab_random::at(number as u64, 0)
}

/// `10.1.0.0/16=127.1.0.0/16`: clients in the first prefix send from the second, with their own host bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewrite {
    from: IpAddr,
    to: IpAddr,
    bits: u32,
}

/// A text that is no rewriting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a rewriting of addresses, expected two prefixes of one family and length (10.1.0.0/16=127.1.0.0/16) or two addresses (192.0.2.7=127.0.0.7)"
)]
pub struct RewriteError(String);

impl FromStr for Rewrite {
    type Err = RewriteError;

    fn from_str(text: &str) -> Result<Self, RewriteError> {
        let read = || {
            let (from, to) = text.split_once('=')?;
            let ((from, bits), (to, also)) = (prefix(from.trim())?, prefix(to.trim())?);
            (from.is_ipv4() == to.is_ipv4() && bits == also).then_some(Self { from, to, bits })
        };
        read().ok_or_else(|| RewriteError(text.to_owned()))
    }
}

impl fmt::Display for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{bits}={}/{bits}", self.from, self.to, bits = self.bits)
    }
}

impl Rewrite {
    /// The address that `client` gets; `None` if it is not in the prefix.
    fn of(&self, client: IpAddr) -> Option<IpAddr> {
        match (client, self.from, self.to) {
            (IpAddr::V4(client), IpAddr::V4(from), IpAddr::V4(to)) => {
                let hosts = u32::MAX.checked_shr(self.bits).unwrap_or(0);
                let [client, from, to] = [client, from, to].map(u32::from);
                let within = client & !hosts == from & !hosts;
                within.then(|| Ipv4Addr::from(to & !hosts | client & hosts).into())
            }
            (IpAddr::V6(client), IpAddr::V6(from), IpAddr::V6(to)) => {
                let hosts = u128::MAX.checked_shr(self.bits).unwrap_or(0);
                let [client, from, to] = [client, from, to].map(u128::from);
                let within = client & !hosts == from & !hosts;
                within.then(|| Ipv6Addr::from(to & !hosts | client & hosts).into())
            }
            _ => None,
        }
    }
}

/// An address and the length of its prefix; the whole address if none is given.
fn prefix(text: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
    let address: IpAddr = address.parse().ok()?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(width), |bits| bits.parse().ok())?;
    (bits <= width).then_some((address, bits))
}

/// Another transport than the recorded one, for all queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Datagrams, from the recorded addresses and ports.
    Udp,
    /// Connections.
    Tcp,
    /// Connections with TLS (RFC 7858).
    Tls,
}

impl Over {
    /// What travels over connections does so: recorded ones are kept, and the queries that a client's address has
    /// sent over UDP share one, which has port 0 here.
    pub(crate) fn place(self, client: SocketAddr, recorded: Carrier) -> (SocketAddr, Carrier) {
        match (self, recorded) {
            (Self::Udp, _) => (client, Carrier::Udp),
            (_, Carrier::Tcp) => (client, Carrier::Tcp),
            (_, Carrier::Udp) => (SocketAddr::new(client.ip(), 0), Carrier::Tcp),
        }
    }
}

/// The local addresses of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Prefixes that become others, the first that fits.
    pub rewrites: Vec<Rewrite>,
    /// Addresses for all other clients, by a hash of the client's; empty leaves it to the system.
    pub sources: Vec<IpAddr>,
}

impl Addresses {
    /// Where `client` sends from; `None` leaves it to the system.
    pub fn of(&self, client: IpAddr) -> Option<IpAddr> {
        let rewritten = self.rewrites.iter().find_map(|rewrite| rewrite.of(client));
        rewritten.or_else(|| {
            let count = u64::try_from(self.sources.len()).unwrap_or(1);
            let at = lab_random::at(0, fold(client)).checked_rem(count)?;
            self.sources.get(usize::try_from(at).ok()?).copied()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_become_others_and_host_bits_stay() {
        let addresses = Addresses {
            rewrites: [
                "10.1.0.0/16=127.1.0.0/16",
                "10.0.0.0/8=127.9.0.0/8",
                "2001:db8::/64=fd00::/64",
            ]
            .map(|text| text.parse().unwrap())
            .to_vec(),
            sources: vec![ip("127.0.0.2"), ip("127.0.0.3")],
        };
        for (client, local) in
            [("10.1.2.3", "127.1.2.3"), ("10.2.2.3", "127.2.2.3"), ("2001:db8::9", "fd00::9")]
        {
            assert_eq!(addresses.of(ip(client)), Some(ip(local)), "{client}");
        }
        let others: Vec<_> =
            (0..64).map(|n| addresses.of(ip(&format!("192.0.2.{n}"))).unwrap()).collect();
        assert!(others.contains(&ip("127.0.0.2")) && others.contains(&ip("127.0.0.3")));
        assert_eq!(Addresses::default().of(ip("10.1.2.3")), None);
        let all: Rewrite = "0.0.0.0/0=0.0.0.0/0".parse().unwrap();
        assert_eq!(all.of(ip("10.1.2.3")), Some(ip("10.1.2.3")));
        let one: Rewrite = "10.1.2.3=127.0.0.7".parse().unwrap();
        assert_eq!((one.of(ip("10.1.2.3")), one.of(ip("10.1.2.4"))), (Some(ip("127.0.0.7")), None));
        assert_eq!(one.to_string(), "10.1.2.3/32=127.0.0.7/32");
    }

    #[test]
    fn what_is_no_rewriting_is_named() {
        for text in [
            "",
            "10.0.0.0/8",
            "10.0.0.0/8=127.0.0.0/16",
            "10.0.0.0/33=127.0.0.0/33",
            "10.0.0.1=::1",
            "x=127.0.0.1",
            "10.0.0.0/x=127.0.0.0/x",
            "10.0.0.1=127.0.0.0/8",
        ] {
            let error = text.parse::<Rewrite>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{text}` is not a rewriting")), "{error}");
        }
    }

    #[test]
    fn a_sample_has_its_part_of_the_clients_and_always_the_same() {
        let clients: Vec<IpAddr> =
            (0..20_000_u32).map(|n| Ipv4Addr::from(0x0a00_0000 + n).into()).collect();
        let sample = |seed| Sample { part: 0.1, seed };
        let has = |seed| clients.iter().filter(|client| sample(seed).has(**client)).count();
        assert!((1_850..2_150).contains(&has(1)), "{}", has(1));
        assert_eq!(has(1), has(1));
        let both =
            clients.iter().filter(|client| sample(1).has(**client) && sample(2).has(**client));
        assert!(both.count() < 400, "another seed is another sample");
        let all = Sample { part: 1.0, seed: 1 };
        assert!(clients.iter().all(|client| all.has(*client)));
        let none = Sample { part: 0.0, seed: 1 };
        assert!(!clients.iter().any(|client| none.has(*client)));
    }
}
