//! A pod in small: a network namespace joined to this one by veth. Gone with the value.

use crate::child::in_path;
use anyhow::{Context, Result, bail};
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

/// Addresses that RFC 2544 sets apart for benchmarks.
const HERE: Ipv4Addr = Ipv4Addr::new(198, 18, 53, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(198, 18, 53, 2);

pub(super) struct Pod {
    namespace: String,
    link: String,
}

impl Pod {
    /// Needs `ip` and the right to administer the network.
    pub(super) fn new() -> Result<Self> {
        if in_path("ip").is_none() {
            bail!("the program `ip` is missing (Debian package iproute2)");
        }
        let id = std::process::id();
        let pod = Self { namespace: format!("nodens-bench-{id}"), link: format!("nb{id}") };
        let (namespace, link) = (&pod.namespace, &pod.link);
        let inside = format!("{link}p");
        let here = format!("{HERE}/30");
        let there = format!("{THERE}/30");
        let steps: [&[&str]; 7] = [
            &["netns", "add", namespace],
            &["link", "add", link, "type", "veth", "peer", "name", &inside, "netns", namespace],
            &["addr", "add", &here, "dev", link],
            &["link", "set", link, "up"],
            &["-n", namespace, "addr", "add", &there, "dev", &inside],
            &["-n", namespace, "link", "set", &inside, "up"],
            &["-n", namespace, "link", "set", "lo", "up"],
        ];
        for step in steps {
            ip(step)?;
        }
        Ok(pod)
    }

    /// The address of this side, where the server listens.
    pub(super) fn server(&self) -> IpAddr {
        IpAddr::V4(HERE)
    }

    /// A command that runs `program` inside.
    pub(super) fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(program);
        command
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        // Takes the inner end of the link along; what was never created cannot be removed.
        _ = ip(&["link", "del", &self.link]);
        _ = ip(&["netns", "del", &self.namespace]);
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(arguments).output().context("cannot run ip")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("ip {}: {}", arguments.join(" "), said.trim());
    }
    Ok(())
}
