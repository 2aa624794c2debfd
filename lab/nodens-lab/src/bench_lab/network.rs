//! Two network namespaces and a veth pair between them, removed with the value or with this program.

use crate::remover::Remover;
use anyhow::{Context, Result, bail};
use std::process::Command;

/// The address of the echo; 198.18.0.0/15 is for benchmarks (RFC 2544), and only these namespaces
/// see it.
pub(crate) const SERVER: &str = "198.18.0.2";
const CLIENT: &str = "198.18.0.1";

pub(crate) struct Network {
    /// The namespace of the generators.
    pub(crate) client: String,
    /// The namespace of the echo.
    pub(crate) server: String,
    /// The generators' end of the pair.
    pub(crate) interface: String,
    /// The pair goes with its namespaces.
    _remover: Remover,
}

impl Network {
    pub(crate) fn new() -> Result<Self> {
        let id = std::process::id();
        let names = [format!("nodens-lab-{id}-c"), format!("nodens-lab-{id}-s")];
        // From here on, dropping it removes whatever was made.
        let remover = Remover::start(&names.each_ref().map(String::as_str))?;
        let [client, server] = names;
        let interface = "lab0".to_owned();
        let network = Self { client, server, interface, _remover: remover };
        let (client, server) = (network.client.as_str(), network.server.as_str());
        ip(&["netns", "add", client]).context("network namespaces need root (CAP_SYS_ADMIN)")?;
        ip(&["netns", "add", server])?;
        // One queue each: kxdpgun starts a thread per queue, and each generator has one CPU.
        let one = ["numrxqueues", "1", "numtxqueues", "1"];
        let near = [&["link", "add", "lab0", "netns", client][..], &one].concat();
        let far = [&["type", "veth", "peer", "name", "lab1", "netns", server][..], &one].concat();
        ip(&[near, far].concat()).context("a veth pair needs CAP_NET_ADMIN")?;
        for (namespace, device, address) in [(client, "lab0", CLIENT), (server, "lab1", SERVER)] {
            ip(&["-n", namespace, "address", "add", &format!("{address}/24"), "dev", device])?;
            ip(&["-n", namespace, "link", "set", "lo", "up"])?;
            ip(&["-n", namespace, "link", "set", device, "up"])?;
        }
        Ok(network)
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output =
        Command::new("ip").args(arguments).output().context("the program `ip` is missing")?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("`ip {}`: {}", arguments.join(" "), error.trim());
    }
    Ok(())
}
