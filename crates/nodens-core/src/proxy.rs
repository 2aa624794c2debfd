//! Clients behind proxies: what a server makes of PROXY protocol headers, whom it believes, and who
//! sends datagrams by a session that began with a header.

mod sessions;

#[cfg(test)]
mod tests;

use crate::networks::Networks;
use nodens_corefile::take::Cidr;
use nodens_wire::proxy::{Beginning, Origin, ProxyError, ProxyHeader, beginning, tlv_vector};
use sessions::Sessions;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// What a server block says of it (`proxyproto`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// The only addresses that are believed; if there are none and nothing else is said, all are.
    pub allow: Vec<Cidr>,
    /// What becomes of connections from all others.
    pub others: Option<ProxyPolicy>,
    /// For how long a header counts for the datagrams that follow it; zero if for its own alone.
    pub tracking: Duration,
    /// Sessions that may be kept for that.
    pub sessions_max: Option<usize>,
    /// Whether TLVs are kept for the metadata.
    pub tlvs: bool,
}

/// What becomes of a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyPolicy {
    /// It says who the client is.
    Use,
    /// It is taken off and means nothing.
    #[default]
    Ignore,
    /// Whoever sends it is refused.
    Reject,
    /// Nobody looks for it.
    Skip,
}

/// What holds for the connections and datagrams of a server.
#[derive(Debug)]
pub struct ProxyRules {
    allow: Networks,
    /// What holds where `allow` does not name the address.
    others: ProxyPolicy,
    sessions: Option<Sessions>,
    tlvs: bool,
}

/// Whom a connection or a datagram is from, by its header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxied {
    /// The client and the address it asked, if the header says so and is believed.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// The header's TLVs, if they are wanted.
    pub tlvs: Option<Arc<[u8]>>,
}

/// What the first octets of a connection are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// There have to be so many octets before more can be said.
    Wait(usize),
    /// There is no header.
    Bare,
    /// A header of so many octets.
    Headed(usize, Proxied),
}

/// What a datagram is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enveloped<'o> {
    /// A message of the client.
    Message(&'o [u8], Proxied),
    /// A header that announces the messages of the next datagrams.
    Announcement,
}

/// Why a connection or a datagram is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyRefusal {
    /// The header cannot be used.
    #[error("PROXY protocol header: {0}")]
    Invalid(#[from] ProxyError),
    /// `proxyproto` refuses it from this address.
    #[error("PROXY protocol header from an address that may not send one")]
    Rejected,
    /// The datagram ends within the header.
    #[error("PROXY protocol header: cut short")]
    Cut,
    /// The header is not one of datagrams.
    #[error("PROXY protocol header: not of version 2 and a datagram's")]
    NoDatagram,
}

impl ProxyRules {
    /// What holds for a server whose blocks say this: of each setting, the last of them that says something.
    pub(crate) fn of<'b>(blocks: impl Iterator<Item = &'b ProxySettings>) -> Option<Arc<Self>> {
        let mut rules: Option<ProxySettings> = None;
        for own in blocks {
            let all = rules.get_or_insert_default();
            (all.allow, all.others) = (own.allow.clone(), own.others);
            all.tlvs |= own.tlvs;
            all.sessions_max = own.sessions_max.or(all.sessions_max);
            if !own.tracking.is_zero() {
                all.tracking = own.tracking;
            }
        }
        rules.map(|settings| Arc::new(Self::new(&settings)))
    }

    fn new(settings: &ProxySettings) -> Self {
        let everyone = settings.allow.is_empty() && settings.others.is_none();
        let others = if everyone { ProxyPolicy::Use } else { settings.others.unwrap_or_default() };
        let tracking = settings.tracking;
        let sessions =
            (!tracking.is_zero()).then(|| Sessions::new(tracking, settings.sessions_max));
        let allow = Networks::new(settings.allow.iter().copied());
        Self { allow, others, sessions, tlvs: settings.tlvs }
    }

    /// What becomes of a header from this address.
    pub fn policy(&self, peer: IpAddr) -> ProxyPolicy {
        if self.allow.contain(peer.to_canonical()) { ProxyPolicy::Use } else { self.others }
    }

    /// Looks at the first octets of a connection, which are only to be taken if there is a header.
    ///
    /// # Errors
    /// The connection is refused.
    pub fn open(&self, peer: IpAddr, octets: &[u8]) -> Result<Opening, ProxyRefusal> {
        let policy = self.policy(peer);
        if policy == ProxyPolicy::Skip {
            return Ok(Opening::Bare);
        }
        match beginning(octets)? {
            Beginning::Absent => Ok(Opening::Bare),
            Beginning::Part { wanted, .. } => Ok(Opening::Wait(wanted)),
            Beginning::Header(header) => match policy {
                ProxyPolicy::Reject => Err(ProxyRefusal::Rejected),
                ProxyPolicy::Use => Ok(Opening::Headed(header.len, self.proxied(&header))),
                _ => Ok(Opening::Headed(header.len, Proxied::default())),
            },
        }
    }

    /// Takes the header off a datagram from `peer` that arrived at `now_ns` on the monotonic clock.
    ///
    /// # Errors
    /// The datagram is dropped.
    pub fn unwrap<'o>(
        &self,
        now_ns: u64,
        peer: SocketAddr,
        octets: &'o [u8],
    ) -> Result<Enveloped<'o>, ProxyRefusal> {
        let policy = self.policy(peer.ip());
        let found =
            if policy == ProxyPolicy::Skip { Beginning::Absent } else { beginning(octets)? };
        let header = match found {
            Beginning::Part { certain: true, .. } => return Err(ProxyRefusal::Cut),
            Beginning::Absent | Beginning::Part { .. } => {
                let sessions = self.sessions.as_ref().filter(|_| policy == ProxyPolicy::Use);
                let session = sessions.and_then(|sessions| sessions.find(now_ns, peer));
                return Ok(Enveloped::Message(octets, session.unwrap_or_default()));
            }
            Beginning::Header(header) => header,
        };
        if !is_of_datagram(&header) {
            return Err(ProxyRefusal::NoDatagram);
        }
        let message = octets.get(header.len..).unwrap_or_default();
        match policy {
            ProxyPolicy::Reject => Err(ProxyRefusal::Rejected),
            ProxyPolicy::Use => Ok(self.announced(now_ns, peer, &header, message)),
            _ => Ok(Enveloped::Message(message, Proxied::default())),
        }
    }

    /// A datagram whose header is believed.
    fn announced<'o>(
        &self,
        now_ns: u64,
        peer: SocketAddr,
        header: &ProxyHeader<'_>,
        message: &'o [u8],
    ) -> Enveloped<'o> {
        let proxied = self.proxied(header);
        let Some(sessions) = &self.sessions else { return Enveloped::Message(message, proxied) };
        if proxied.addresses.is_some() {
            sessions.keep(now_ns, peer, proxied.clone());
        }
        if message.is_empty() {
            return Enveloped::Announcement;
        }
        Enveloped::Message(message, proxied)
    }

    fn proxied(&self, header: &ProxyHeader<'_>) -> Proxied {
        let Origin::Client { source, destination, .. } = header.origin else {
            return Proxied::default();
        };
        let tlvs = self.tlvs.then(|| tlv_vector(header.tlvs)).flatten();
        Proxied { addresses: Some((source, destination)), tlvs: tlvs.map(Arc::from) }
    }
}

/// Whether a header may stand in front of a datagram. The proxy's own queries say nothing of
/// transports.
fn is_of_datagram(header: &ProxyHeader<'_>) -> bool {
    let of_datagram = match header.origin {
        Origin::Proxy => true,
        Origin::Client { datagram, .. } => datagram,
        Origin::Unix => false,
    };
    header.version == 2 && of_datagram
}
