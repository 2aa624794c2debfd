//! Two network namespaces with a veth pair between them.

use crate::knob::Side;
use crate::tools;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Addresses that RFC 2544 sets apart for benchmarks; only the two namespaces see them.
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 54, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 54, 2);
/// The interface in both namespaces.
pub(crate) const DEVICE: &str = "lab0";
/// How long processes that are killed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// The names of a pair of namespaces; they exist between `make` and `remove`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Network {
    name: String,
}

impl Network {
    /// Names that no other process uses.
    pub(crate) fn name() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self { name: format!("nodens-lab-{}-{count}", std::process::id()) }
    }

    /// The namespace of one side.
    pub(crate) fn namespace(&self, side: Side) -> String {
        match side {
            Side::Server => format!("{}-s", self.name),
            Side::Client => format!("{}-c", self.name),
        }
    }

    /// The address of one side.
    pub(crate) fn address(side: Side) -> IpAddr {
        IpAddr::V4(match side {
            Side::Server => SERVER,
            Side::Client => CLIENT,
        })
    }

    /// Makes both and joins them. What was made before an error stays, for `remove`.
    pub(crate) fn make(&self) -> Result<(), String> {
        let (server, client) = (self.namespace(Side::Server), self.namespace(Side::Client));
        let (server, client) = (server.as_str(), client.as_str());
        for namespace in [server, client] {
            tools::ip(&["netns", "add", namespace])
                .map_err(|error| format!("{error} (network namespaces need root)"))?;
        }
        let near = ["link", "add", DEVICE, "netns", server];
        let far = ["type", "veth", "peer", "name", DEVICE, "netns", client];
        tools::ip(&[&near[..], &far[..]].concat())?;
        for (side, namespace) in [(Side::Server, server), (Side::Client, client)] {
            let address = format!("{}/24", Self::address(side));
            tools::ip(&["-n", namespace, "address", "add", &address, "dev", DEVICE])?;
            tools::ip(&["-n", namespace, "link", "set", "lo", "up"])?;
            tools::ip(&["-n", namespace, "link", "set", DEVICE, "up"])?;
        }
        Ok(())
    }

    /// Ends what still runs in the namespaces, and removes them. Nothing to do if there are none.
    pub(crate) fn remove(&self) -> Result<(), String> {
        let mut failed = Vec::new();
        for side in [Side::Client, Side::Server] {
            let namespace = self.namespace(side);
            let file = tools::namespace_file(&namespace);
            if !file.exists() {
                continue;
            }
            let removed = empty(&namespace).and_then(|()| tools::ip(&["netns", "del", &namespace]));
            match removed {
                Err(error) => failed.push(error),
                Ok(_) if file.exists() => {
                    failed.push(format!("network namespace {namespace} is still there"));
                }
                Ok(_) => {}
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }

    /// False for names that this program does not give: a journal could have been changed.
    pub(crate) fn is_ours(&self) -> bool {
        let rest = self.name.strip_prefix("nodens-lab-").unwrap_or("");
        let mut numbers = rest.split('-').map(|part| part.parse::<u32>().is_ok());
        numbers.next() == Some(true) && numbers.next() == Some(true) && numbers.next().is_none()
    }
}

/// Kills the processes of a namespace: whoever started them is gone.
fn empty(namespace: &str) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        let inside = tools::ip(&["netns", "pids", namespace]).unwrap_or_default();
        let inside: Vec<u32> = inside.split_whitespace().filter_map(|id| id.parse().ok()).collect();
        if inside.is_empty() {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            return Err(format!("processes of network namespace {namespace} do not end"));
        }
        for process in inside.into_iter().filter(|id| Path::new(&format!("/proc/{id}")).exists()) {
            _ = lab_sys::cpu::kill(process);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
