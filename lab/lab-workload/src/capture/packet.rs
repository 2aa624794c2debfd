//! From a packet to the datagram or segment in it.

use super::Fault;
use etherparse::{EtherType, NetSlice, SlicedPacket, TransportSlice};
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

/// Octets in front of the IP packet: the address family of BSD loopback, and Linux cooked version 2.
const LOOPBACK_LEN: usize = 4;
const SLL2_LEN: usize = 20;

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

/// The datagram or segment of a packet; `None` if it is of another protocol.
pub(super) fn read(link: i32, octets: &[u8]) -> Result<Option<Datagram<'_>>, Fault> {
    let behind = |len| octets.get(len..).unwrap_or_default();
    let sliced = match link {
        link::ETHERNET => SlicedPacket::from_ethernet(octets),
        link::NULL | link::LOOP => SlicedPacket::from_ip(behind(LOOPBACK_LEN)),
        link::LINUX_SLL => SlicedPacket::from_linux_sll(octets),
        link::LINUX_SLL2 => {
            let protocol =
                octets.first_chunk::<2>().map_or(0, |octets| u16::from_be_bytes(*octets));
            SlicedPacket::from_ether_type(EtherType(protocol), behind(SLL2_LEN))
        }
        _ if link::RAW.contains(&link) => SlicedPacket::from_ip(octets),
        _ => return Err(Fault::Link(link)),
    };
    let sliced = sliced.map_err(|error| Fault::Headers(error.to_string()))?;
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
