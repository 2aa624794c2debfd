//! How the descriptors that the process may open are shared out.

use crate::limits::{
    CONNECTIONS_CLIENT_FEW, CONNECTIONS_CLIENT_SHARE, CONNECTIONS_MAX, CONNECTIONS_NETWORK_TENTHS,
    DESCRIPTOR_RESERVE,
};
use rustix::process::{Resource, getrlimit, setrlimit};

/// How many descriptors clients may have, and how many are kept for everything else, after making
/// the most of the descriptor limit.
pub(crate) fn share(connections_max: Option<usize>) -> (usize, usize) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
        // If it cannot be raised, the limit stays what it is.
        _ = setrlimit(Resource::Nofile, raised);
    }
    let descriptors = getrlimit(Resource::Nofile).current;
    let descriptors = descriptors.map_or(CONNECTIONS_MAX, |n| usize::try_from(n).unwrap_or(0));
    let reserve = DESCRIPTOR_RESERVE.max(descriptors / 4).min(descriptors / 2);
    let max = connections_max.unwrap_or(CONNECTIONS_MAX);
    (max.min(descriptors - reserve), reserve)
}

/// How many client connections there are descriptors for, after making the most of their limit.
pub fn connections_max() -> usize {
    share(None).0
}

/// How many of so many client connections one address may have where nothing else is said.
pub fn connections_per_client(connections: usize) -> usize {
    let few = CONNECTIONS_CLIENT_FEW.min(connections / 2);
    few.max(connections / CONNECTIONS_CLIENT_SHARE).max(1)
}

/// How many of so many client connections one network (an IPv4 /24, an IPv6 /64) may have where
/// nothing else is said.
pub fn connections_per_network(connections: usize) -> usize {
    (connections * CONNECTIONS_NETWORK_TENTHS / 10).max(1)
}
