//! The way to the server: local address, network device, and what the device says of itself.

use super::text;
use crate::Route;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

/// Asks the kernel by connecting a socket, which sends nothing.
pub(super) fn to(root: &Path, server: SocketAddr) -> Option<Route> {
    let any = match server {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(server).ok()?;
    let source = socket.local_addr().ok()?.ip();
    let addresses = if_addrs::get_if_addrs().unwrap_or_default();
    let own = |ip: IpAddr| addresses.iter().find(|address| address.ip() == ip);
    let local = server.ip().is_loopback() || own(server.ip()).is_some();
    let loopback = || addresses.iter().find(|address| address.is_loopback());
    // What goes to an address of this machine goes through the loopback device, whatever device has
    // the address.
    let device = if local { loopback() } else { own(source) };
    let device = device.map(|address| address.name.clone())?;
    Some(describe(root, device, source, local))
}

pub(super) fn describe(root: &Path, device: String, source: IpAddr, local: bool) -> Route {
    let about = |what: &str| text(root, &format!("sys/class/net/{device}/{what}"));
    let driver = std::fs::read_link(root.join(format!("sys/class/net/{device}/device/driver")))
        .ok()
        .and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()));
    Route {
        mtu: about("mtu").and_then(|mtu| mtu.parse().ok()),
        // A device without a speed says -1 or nothing.
        speed: about("speed").and_then(|speed| speed.parse().ok()),
        driver,
        source: source.to_string(),
        local,
        device,
    }
}
