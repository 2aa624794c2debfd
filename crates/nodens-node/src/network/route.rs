//! Links and addresses, as the kernel has them.

use super::netlink::{
    ACK, Attributes, Body, CREATE, EXCLUSIVE, Events, Message, REPLACE, Refused, Requests, Socket,
};
use rustix::net::Protocol;
use std::io;
use std::net::IpAddr;

/// `NETLINK_ROUTE` is 0, which is what no protocol means too.
const ROUTE: Option<Protocol> = None;

const NEWLINK: u16 = 16;
const DELLINK: u16 = 17;
const GETLINK: u16 = 18;
const NEWADDR: u16 = 20;
const DELADDR: u16 = 21;
const GETADDR: u16 = 22;

const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
/// No link-local address: nobody is there to be reached by it.
const ADDR_GEN_NONE: u8 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_CACHEINFO: u16 = 6;
const IFA_FLAGS: u16 = 8;
/// Usable at once: there is nobody on the link who could have the same address.
const IFA_F_NODAD: u32 = 2;
const IFF_UP: u32 = 1;
const IFF_LOWER_UP: u32 = 1 << 16;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// Links, and addresses of both families.
const GROUPS: u32 = 1 | 1 << 4 | 1 << 8;

/// A link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// `tun`, `dummy`, `bridge` and so on; empty for hardware.
    pub(crate) kind: String,
    /// The index of the bridge that it is a port of, or of whatever else it is part of.
    pub(crate) master: Option<u32>,
    pub(crate) up: bool,
    /// For a TUN link: whether a process holds it.
    pub(crate) carrier: bool,
}

/// An address of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) index: u32,
    pub(crate) ip: IpAddr,
}

/// The kernel's side of links and addresses.
pub(crate) struct Route(Socket);

impl Route {
    pub(crate) fn open() -> io::Result<Self> {
        Socket::open(ROUTE).map(Self)
    }

    #[cfg(test)]
    pub(crate) fn of(socket: Socket) -> Self {
        Self(socket)
    }

    /// Every link.
    pub(crate) fn links(&self) -> io::Result<Vec<Link>> {
        let list = self.0.list(GETLINK, &[0; 16])?;
        Ok(list.iter().filter(|message| message.kind == NEWLINK).filter_map(link).collect())
    }

    /// Every address.
    pub(crate) fn addresses(&self) -> io::Result<Vec<Address>> {
        let list = self.0.list(GETADDR, &[0; 8])?;
        Ok(list.iter().filter(|message| message.kind == NEWADDR).filter_map(address).collect())
    }

    /// Makes a link that needs no more than its kind.
    pub(crate) fn create(&self, name: &str, kind: &str) -> io::Result<()> {
        self.one(NEWLINK, ACK | CREATE | EXCLUSIVE, |body| {
            body.octets(&about_link(0, 0)).text(IFLA_IFNAME, name).nested(IFLA_LINKINFO, |info| {
                info.text(IFLA_INFO_KIND, kind);
            });
        })
    }

    /// Takes a link up, without an address that nobody asked for.
    pub(crate) fn up(&self, index: u32) -> io::Result<()> {
        let quiet = self.one(NEWLINK, ACK, |body| {
            body.octets(&about_link(index, 0)).nested(IFLA_AF_SPEC, |families| {
                families.nested(AF_INET6.into(), |v6| {
                    v6.attribute(IFLA_INET6_ADDR_GEN_MODE, &[ADDR_GEN_NONE]);
                });
            });
        });
        // A kernel without IPv6 makes no such address.
        drop(quiet);
        self.one(NEWLINK, ACK, |body| {
            body.octets(&about_link(index, IFF_UP));
        })
    }

    pub(crate) fn delete(&self, index: u32) -> io::Result<()> {
        self.one(DELLINK, ACK, |body| {
            body.octets(&about_link(index, 0));
        })
    }

    /// Gives a link an address, for `lease` seconds from now if not for good.
    pub(crate) fn add(&self, index: u32, ip: IpAddr, lease: Option<u32>) -> io::Result<()> {
        self.one(NEWADDR, ACK | CREATE | REPLACE, |body| {
            about_address(body, index, ip);
            body.attribute(IFA_FLAGS, &IFA_F_NODAD.to_ne_bytes());
            if let Some(seconds) = lease {
                let times = [seconds, seconds, 0, 0];
                body.attribute(IFA_CACHEINFO, times.map(u32::to_ne_bytes).as_flattened());
            }
        })
    }

    pub(crate) fn remove(&self, index: u32, ip: IpAddr) -> io::Result<()> {
        self.one(DELADDR, ACK, |body| about_address(body, index, ip))
    }

    fn one(&self, kind: u16, flags: u16, body: impl FnOnce(&mut Body)) -> io::Result<()> {
        let mut requests = Requests::default();
        requests.add(kind, flags, body);
        self.0.change(requests, 0).map_err(|Refused { error, .. }| error)
    }
}

/// Says when links and addresses change.
pub(crate) fn events() -> io::Result<Events> {
    Events::open(ROUTE, GROUPS)
}

/// `struct ifinfomsg`
fn about_link(index: u32, flags: u32) -> [u8; 16] {
    let mut fixed = [0; 16];
    for (place, value) in fixed.as_chunks_mut().0.iter_mut().zip([0, index, flags, flags]) {
        *place = value.to_ne_bytes();
    }
    fixed
}

/// `struct ifaddrmsg` and the address, which is alone in its network.
fn about_address(body: &mut Body, index: u32, ip: IpAddr) {
    let (family, bits) = if ip.is_ipv4() { (AF_INET, 32) } else { (AF_INET6, 128) };
    body.octets(&[family, bits, 0, 0]).octets(&index.to_ne_bytes());
    let octets = match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    body.attribute(IFA_LOCAL, &octets).attribute(IFA_ADDRESS, &octets);
}

/// What an event is about.
pub(crate) enum Change {
    Link(Link),
    Address { address: Address, gone: bool },
}

/// Which link or address came, went or changed.
pub(crate) fn change(message: &Message) -> Option<Change> {
    match message.kind {
        NEWLINK | DELLINK => link(message).map(Change::Link),
        NEWADDR | DELADDR => {
            let gone = message.kind == DELADDR;
            address(message).map(|address| Change::Address { address, gone })
        }
        _ => None,
    }
}

fn link(message: &Message) -> Option<Link> {
    let attributes = message.attributes(16);
    let flags = u32::from_ne_bytes(message.part(8)?);
    Some(Link {
        index: u32::from_ne_bytes(message.part(4)?),
        name: attributes.text(IFLA_IFNAME)?.to_owned(),
        kind: kind_of(attributes),
        master: attributes
            .get(IFLA_MASTER)
            .and_then(|index| index.try_into().ok())
            .map(u32::from_ne_bytes),
        up: flags & IFF_UP != 0,
        carrier: flags & IFF_LOWER_UP != 0,
    })
}

fn kind_of(attributes: Attributes<'_>) -> String {
    attributes.nested(IFLA_LINKINFO).text(IFLA_INFO_KIND).unwrap_or_default().to_owned()
}

fn address(message: &Message) -> Option<Address> {
    let attributes = message.attributes(8);
    let octets = attributes.get(IFA_LOCAL).or_else(|| attributes.get(IFA_ADDRESS))?;
    let ip = match octets.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(octets).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(octets).ok()?),
    };
    Some(Address { index: u32::from_ne_bytes(message.part(4)?), ip })
}
