//! How the descriptors that the process may open are shared out.

use crate::limits::{
    CONNECTIONS_CLIENT_FEW, CONNECTIONS_CLIENT_SHARE, CONNECTIONS_MAX, CONNECTIONS_NETWORK_TENTHS,
    DESCRIPTOR_RESERVE, FRESH_PORTS, PORTS_PER_WORKER,
};
use rustix::io::Errno;
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
    let reserve = reserve(descriptors);
    let max = connections_max.unwrap_or(CONNECTIONS_MAX);
    (max.min(descriptors - reserve), reserve)
}

/// How many descriptors clients may have by the limit as it is now: it may have been lowered.
pub(crate) fn connections_now() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    let descriptors = limit.map_or(CONNECTIONS_MAX, |n| usize::try_from(n).unwrap_or(0));
    descriptors - reserve(descriptors)
}

/// Whether an error means that descriptors, or the kernel's memory for them, are used up.
pub(crate) fn is_short(error: Option<Errno>) -> bool {
    matches!(error, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

/// How many of so many descriptors are kept for everything but clients.
fn reserve(descriptors: usize) -> usize {
    DESCRIPTOR_RESERVE.max(descriptors / 4).min(descriptors / 2)
}

/// How many UDP ports each of so many workers may have open towards upstreams.
pub(crate) fn ports_per_worker(reserve: usize, workers: usize) -> usize {
    (reserve / 2 / workers.max(1)).clamp(FRESH_PORTS, PORTS_PER_WORKER)
}

/// How many UDP ports so many workers together may have open towards upstreams.
pub fn upstream_ports(workers: usize) -> usize {
    workers * ports_per_worker(share(None).1, workers)
}

/// How many client connections there are descriptors for, after making the most of their limit.
pub fn connections_max() -> usize {
    share(None).0
}

/// The descriptor limit that leaves so many client connections.
pub fn descriptors_for(connections: usize) -> usize {
    (connections + DESCRIPTOR_RESERVE).max((4 * connections).div_ceil(3))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_for_connections_leaves_so_many() {
        for connections in [1, 2, 500, 1024, 3071, 3072, 3073, 20_000, 21_845, 1 << 20] {
            let limit = descriptors_for(connections);
            assert!(limit - reserve(limit) >= connections, "{connections}: {limit}");
            // And no more than needed, but for few.
            let less = limit - 3;
            let is_least = less - reserve(less) < connections;
            assert!(is_least || connections < DESCRIPTOR_RESERVE, "{connections}: {limit}");
        }
    }

    #[test]
    fn workers_share_the_ports_that_there_are_descriptors_for() {
        assert_eq!(ports_per_worker(16_384, 8), 1024);
        assert_eq!(ports_per_worker(16_384, 16), 512);
        assert_eq!(ports_per_worker(512, 64), FRESH_PORTS);
        assert_eq!(ports_per_worker(1 << 20, 1), PORTS_PER_WORKER);
    }
}
