//! Where servers listen, and what they are called for it.

use crate::transport::ListenerKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// `dns://:53`, or `dns://192.0.2.1:53` for a bound address.
pub(super) fn server_label(kind: ListenerKind, listen: SocketAddr) -> String {
    let scheme = kind.scheme();
    if listen.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        format!("{scheme}://:{}", listen.port())
    } else {
        format!("{scheme}://{listen}")
    }
}

/// Where the server at `address` listens. `0.0.0.0` means all addresses of both families, as in Go:
/// those who wrote it want to be reached, and some of their clients have IPv6 alone. Where another of
/// the `servers` of the same kind is at all addresses of IPv6, each keeps its own.
pub(super) fn listen_at(
    (kind, address): (ListenerKind, SocketAddr),
    servers: &[(ListenerKind, SocketAddr)],
) -> SocketAddr {
    let everywhere = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), address.port());
    let is_wide = address.ip() == IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    if is_wide && !servers.contains(&(kind, everywhere)) { everywhere } else { address }
}
