//! From a packet to the datagram or segment in it.

use super::Fault;
use etherparse::{EtherType, IpNumber, LaxSlicedPacket, NetSlice, SlicedPacket, TransportSlice};
use std::net::IpAddr;

/// Link types (<https://www.tcpdump.org/linktypes.html>).
mod link {
    pub(super) const NULL: i32 = 0;
    pub(super) const ETHERNET: i32 = 1;
    pub(super) const RAW: [i32; 5] = [12, 14, 101, 228, 229];
    pub(super) const LOOP: i32 = 108;
    pub(super) const LINUX_SLL: i32 = 113;
    pub(super) const LINUX_SLL2: i32 = 276;
}

/// Octets in front of the IP packet: the address family of BSD loopback, and Linux cooked versions 1 and 2.
const LOOPBACK_LEN: usize = 4;
const SLL_LEN: usize = 16;
const SLL2_LEN: usize = 20;
/// Where Linux cooked versions 1 and 2 have the EtherType, on devices of every kind.
const SLL_TYPE_AT: usize = 14;
const SLL2_TYPE_AT: usize = 0;
/// Octets of the two ports at the start of a datagram or segment.
const PORTS_LEN: usize = 4;

/// An address and a port.
pub(super) type Peer = (IpAddr, u16);

/// What was sent from one peer to another.
pub(super) struct Datagram<'a> {
    pub(super) from: Peer,
    pub(super) to: Peer,
    pub(super) kind: Kind,
    pub(super) payload: &'a [u8],
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Udp,
    Tcp(Segment),
}

/// Of a TCP segment what it takes to put a stream together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) sequence: u32,
    pub(super) syn: bool,
    pub(super) end: bool,
}

/// What the octets of a packet start with.
#[derive(Clone, Copy)]
enum Start {
    Ethernet,
    Ip,
    Content(EtherType),
}

impl Start {
    /// By the link type, with the octets from there on.
    fn of(link: i32, octets: &[u8]) -> Result<(Self, &[u8]), Fault> {
        let behind = |len| octets.get(len..).unwrap_or_default();
        let cooked = |at, len: usize| {
            let kind = octets.get(at..).and_then(|octets| octets.first_chunk::<2>());
            let short =
                || Fault::Headers(format!("{} octets, expected {len} or more", octets.len()));
            let kind = kind.filter(|_| octets.len() >= len).ok_or_else(short)?;
            Ok((Self::Content(EtherType(u16::from_be_bytes(*kind))), behind(len)))
        };
        match link {
            link::ETHERNET => Ok((Self::Ethernet, octets)),
            link::NULL | link::LOOP => Ok((Self::Ip, behind(LOOPBACK_LEN))),
            link::LINUX_SLL => cooked(SLL_TYPE_AT, SLL_LEN),
            link::LINUX_SLL2 => cooked(SLL2_TYPE_AT, SLL2_LEN),
            _ if link::RAW.contains(&link) => Ok((Self::Ip, octets)),
            _ => Err(Fault::Link(link)),
        }
    }

    fn slice(self, octets: &[u8]) -> Result<SlicedPacket<'_>, Fault> {
        let sliced = match self {
            Self::Ethernet => SlicedPacket::from_ethernet(octets),
            Self::Ip => SlicedPacket::from_ip(octets),
            Self::Content(kind) => SlicedPacket::from_ether_type(kind, octets),
        };
        sliced.map_err(|error| Fault::Headers(error.to_string()))
    }

    /// Whether a packet that is cut has nothing to do with the servers' port: captures cut long packets, and it is
    /// enough that the ports are there.
    fn is_other(self, octets: &[u8], port: u16) -> bool {
        let lax = match self {
            Self::Ethernet => LaxSlicedPacket::from_ethernet(octets).ok(),
            Self::Ip => LaxSlicedPacket::from_ip(octets).ok(),
            Self::Content(kind) => Some(LaxSlicedPacket::from_ether_type(kind, octets)),
        };
        let net = lax.and_then(|lax| lax.net);
        let Some(ip) = net.as_ref().and_then(|net| net.ip_payload_ref()) else { return false };
        if ip.fragmented {
            return false;
        }
        if ![IpNumber::UDP, IpNumber::TCP].contains(&ip.ip_number) {
            return true;
        }
        let ports = ip.payload.first_chunk::<PORTS_LEN>();
        let is_servers =
            |ports: &[u8; PORTS_LEN]| ports.chunks(2).any(|one| one == port.to_be_bytes());
        ports.is_some_and(|ports| !is_servers(ports))
    }
}

/// The datagram or segment of a packet; `None` if it is of another protocol. Of packets that are cut, those are named
/// that may belong to the servers' `port`.
pub(super) fn read(link: i32, octets: &[u8], port: u16) -> Result<Option<Datagram<'_>>, Fault> {
    let (start, octets) = Start::of(link, octets)?;
    let sliced = match start.slice(octets) {
        Err(_) if start.is_other(octets, port) => return Ok(None),
        sliced => sliced?,
    };
    let (from, to, fragmented) = match &sliced.net {
        Some(NetSlice::Ipv4(net)) => {
            let header = net.header();
            let (from, to) = (header.source_addr(), header.destination_addr());
            (IpAddr::V4(from), IpAddr::V4(to), net.payload().fragmented)
        }
        Some(NetSlice::Ipv6(net)) => {
            let header = net.header();
            let (from, to) = (header.source_addr(), header.destination_addr());
            (IpAddr::V6(from), IpAddr::V6(to), net.payload().fragmented)
        }
        _ => return Ok(None),
    };
    if fragmented {
        return Err(Fault::Fragment);
    }
    Ok(match &sliced.transport {
        Some(TransportSlice::Udp(udp)) => Some(Datagram {
            from: (from, udp.source_port()),
            to: (to, udp.destination_port()),
            kind: Kind::Udp,
            payload: udp.payload(),
        }),
        Some(TransportSlice::Tcp(tcp)) => Some(Datagram {
            from: (from, tcp.source_port()),
            to: (to, tcp.destination_port()),
            kind: Kind::Tcp(Segment {
                sequence: tcp.sequence_number(),
                syn: tcp.syn(),
                end: tcp.fin() || tcp.rst(),
            }),
            payload: tcp.payload(),
        }),
        _ => None,
    })
}
