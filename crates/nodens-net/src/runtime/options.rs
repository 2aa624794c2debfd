//! What the owner of the runtime may choose.

use crate::limits::HELD_MAX;
use crate::listeners::InheritedListener;
use std::net::IpAddr;

/// What the owner of the runtime may choose.
#[derive(Debug)]
pub struct Options {
    /// Whether each worker stays on a CPU of its own; only if there are as many workers as CPUs.
    pub pin: bool,
    /// Client connections there may be at once; `None` derives it from the descriptor limit.
    pub connections_max: Option<usize>,
    /// Client connections one address may have at once; `None` is a share of all.
    pub connections_per_client: Option<usize>,
    /// Client connections one network, an IPv4 /24 or an IPv6 /64, may have at once; `None` is a share
    /// of all.
    pub connections_per_network: Option<usize>,
    /// Octets that all client connections together may hold: answers that clients do not read,
    /// and requests that wait for that.
    pub held_max: usize,
    /// Addresses that listeners may be bound to although no interface has them yet.
    pub transparent: Vec<IpAddr>,
    /// Listeners that another process opened. Those that the configuration has are taken as they
    /// are, with what waits in them; the others close.
    pub inherited: Vec<InheritedListener>,
    /// Whether no question is taken until [`Runtime::resume`](super::Runtime::resume).
    pub paused: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pin: true,
            connections_max: None,
            connections_per_client: None,
            connections_per_network: None,
            held_max: HELD_MAX,
            transparent: Vec::new(),
            inherited: Vec::new(),
            paused: false,
        }
    }
}
