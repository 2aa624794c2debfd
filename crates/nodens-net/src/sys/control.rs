//! Control messages with packet information: which local address a datagram was sent to, or is
//! to be sent from (RFC 3542 section 6; `ip(7)`).

use libc::c_int;
use std::mem::{offset_of, size_of};
use std::net::IpAddr;

/// Room for two control messages: a stamp, and either kind of packet information.
pub(super) const CONTROL_LEN: usize = 80;

/// A buffer for control messages, aligned as their header is.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(super) struct Control(pub(super) [u8; CONTROL_LEN]);

/// The control message at `at`, as read from its octets: level, type, and where its data is.
fn control_header(control: &Control, at: usize, len: usize) -> Option<(c_int, c_int, usize)> {
    let octets = control.0.get(..len)?.get(at..)?;
    let field = |at: usize| -> Option<[u8; 4]> { octets.get(at..at + 4)?.try_into().ok() };
    let level = c_int::from_ne_bytes(field(offset_of!(libc::cmsghdr, cmsg_level))?);
    let kind = c_int::from_ne_bytes(field(offset_of!(libc::cmsghdr, cmsg_type))?);
    Some((level, kind, at + CONTROL_DATA))
}

/// Where the message with packet information is among those received. The kernel puts the stamp
/// in front of it.
pub(super) fn packet_info_at(control: &Control, len: usize) -> usize {
    match control_header(control, 0, len) {
        Some((libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, _)) => STAMP_SPACE,
        _ => 0,
    }
}

/// The date at which a datagram arrived, in nanoseconds since 1970, if the kernel says so.
pub(super) fn read_stamp(control: &Control, len: usize) -> Option<u64> {
    let (level, kind, data) = control_header(control, 0, len)?;
    if (level, kind) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
        return None;
    }
    let octets = control.0.get(..len)?.get(data..data + size_of::<libc::timespec>())?;
    let (seconds, nanos) = octets.split_at(size_of::<libc::timespec>() / 2);
    let (seconds, nanos) = (seconds.try_into().ok()?, nanos.try_into().ok()?);
    let (seconds, nanos) = (u64::from_ne_bytes(seconds), u64::from_ne_bytes(nanos));
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// Where the data of a control message starts: the header's length is a multiple of its
/// alignment on every Linux target.
const CONTROL_DATA: usize = size_of::<libc::cmsghdr>();
const _: () = assert!(CONTROL_DATA.is_multiple_of(align_of::<usize>()));
/// What a stamp takes: two numbers of 64 bits on every target there is an image for.
const STAMP_SPACE: usize = CONTROL_DATA + size_of::<libc::timespec>();
const _: () = assert!(size_of::<libc::timespec>() == 16 && STAMP_SPACE.is_multiple_of(8));
const _: () =
    assert!(STAMP_SPACE + CONTROL_DATA + size_of::<libc::in6_pktinfo>() + 4 <= CONTROL_LEN);

/// The address a datagram was sent to, from its control message.
pub(super) fn read_packet_info(control: &Control, len: usize) -> Option<IpAddr> {
    let at = packet_info_at(control, len);
    let (level, kind, data) = control_header(control, at, len)?;
    match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let at = data + offset_of!(libc::in_pktinfo, ipi_spec_dst);
            let octets: [u8; 4] = control.0.get(at..at + 4)?.try_into().ok()?;
            Some(IpAddr::from(octets))
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let at = data + offset_of!(libc::in6_pktinfo, ipi6_addr);
            let octets: [u8; 16] = control.0.get(at..at + 16)?.try_into().ok()?;
            Some(IpAddr::from(octets).to_canonical())
        }
        _ => None,
    }
}

/// Turns received packet information into that of the answer: from the same address, but over
/// whichever interface the routes say, unless the address means something only on one interface.
pub(super) fn strip_interface(control: &mut Control, len: usize) {
    let at = packet_info_at(control, len);
    let Some((level, kind, data)) = control_header(control, at, len) else { return };
    let local = read_packet_info(control, len);
    let at = match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => data + offset_of!(libc::in_pktinfo, ipi_ifindex),
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            if matches!(local, Some(IpAddr::V6(ip)) if ip.is_unicast_link_local()) {
                return;
            }
            data + offset_of!(libc::in6_pktinfo, ipi6_ifindex)
        }
        _ => return,
    };
    if let Some(interface) = control.0.get_mut(at..at + 4) {
        interface.fill(0);
    }
}

/// Writes packet information for a datagram from `ip`; gives the length of the control buffer.
pub(super) fn write_packet_info(
    control: &mut Control,
    ip: IpAddr,
    scope: u32,
    mapped: bool,
) -> usize {
    let (level, kind, len) = match ip {
        IpAddr::V4(_) if !mapped => {
            (libc::IPPROTO_IP, libc::IP_PKTINFO, size_of::<libc::in_pktinfo>())
        }
        _ => (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, size_of::<libc::in6_pktinfo>()),
    };
    let mut put = |at: usize, octets: &[u8]| {
        if let Some(place) = control.0.get_mut(at..at + octets.len()) {
            place.copy_from_slice(octets);
        }
    };
    put(offset_of!(libc::cmsghdr, cmsg_len), &(CONTROL_DATA + len).to_ne_bytes());
    put(offset_of!(libc::cmsghdr, cmsg_level), &level.to_ne_bytes());
    put(offset_of!(libc::cmsghdr, cmsg_type), &kind.to_ne_bytes());
    match ip {
        IpAddr::V4(ip) if !mapped => {
            put(CONTROL_DATA + offset_of!(libc::in_pktinfo, ipi_spec_dst), &ip.octets());
        }
        IpAddr::V4(ip) => {
            let at = CONTROL_DATA + offset_of!(libc::in6_pktinfo, ipi6_addr);
            put(at, &ip.to_ipv6_mapped().octets());
        }
        IpAddr::V6(ip) => {
            put(CONTROL_DATA + offset_of!(libc::in6_pktinfo, ipi6_addr), &ip.octets());
            let at = CONTROL_DATA + offset_of!(libc::in6_pktinfo, ipi6_ifindex);
            put(at, &scope.to_ne_bytes());
        }
    }
    (CONTROL_DATA + len).next_multiple_of(align_of::<usize>())
}
