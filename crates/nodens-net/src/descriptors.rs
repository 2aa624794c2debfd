//! How the descriptors that the process may open are shared out.

use crate::limits::{CONNECTIONS_MAX, DESCRIPTOR_RESERVE};
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
