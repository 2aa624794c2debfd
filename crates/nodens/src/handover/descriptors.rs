//! What descriptors are called on the way from one process to the next.

use super::Lack;
use nodens_net::Runtime;
use nodens_node::handover::{HandoverState, Named};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

/// What HTTP listeners and the network's descriptors are called.
const HTTP: &str = "http/";
const NETWORK: &str = "network/";
/// The lock of the name, and its socket.
const NAME: [&str; 2] = ["name/lock", "name/socket"];

/// What a successor needs to get ready.
pub(crate) fn state(
    runtime: &Runtime,
    http: Vec<(SocketAddr, OwnedFd)>,
    lacks: Vec<Lack>,
) -> HandoverState {
    let http = http.into_iter().map(|(address, fd)| (format!("{HTTP}{address}"), fd));
    let lacks = lacks.into_iter().map(|lack| (lack.kind.to_owned(), lack.count));
    HandoverState { listeners: runtime.export(), others: http.collect(), lacks: lacks.collect() }
}

/// The HTTP listeners of such a state.
pub(super) fn http(others: Named) -> Vec<(SocketAddr, TcpListener)> {
    let listener = |(name, fd): (String, OwnedFd)| {
        Some((name.strip_prefix(HTTP)?.parse().ok()?, TcpListener::from(fd)))
    };
    others.into_iter().filter_map(listener).collect()
}

/// What the predecessor gives with its last message: what brings queries to a process, and the name.
pub(super) fn last(network: Named, name: Option<&[OwnedFd; 2]>) -> io::Result<Named> {
    let network = network.into_iter().map(|(name, fd)| (format!("{NETWORK}{name}"), fd));
    let mut last: Named = network.collect();
    for (what, fd) in NAME.iter().zip(name.into_iter().flatten()) {
        last.push(((*what).to_owned(), fd.try_clone()?));
    }
    Ok(last)
}

/// The reverse of [`last`].
pub(super) fn sort(named: Named) -> (Named, Option<[OwnedFd; 2]>) {
    let (mut network, mut lock, mut socket) = (Named::new(), None, None);
    for (what, descriptor) in named {
        if let Some(what) = what.strip_prefix(NETWORK) {
            network.push((what.to_owned(), descriptor));
        } else if what == NAME[0] {
            lock = Some(descriptor);
        } else if what == NAME[1] {
            socket = Some(descriptor);
        }
    }
    (network, lock.zip(socket).map(<[OwnedFd; 2]>::from))
}
