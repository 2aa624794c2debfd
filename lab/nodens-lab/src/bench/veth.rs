//! A pod in small: a network namespace joined to this one by veth. Gone with the value, or with this program.

use crate::child::in_path;
use crate::remover::Remover;
use anyhow::{Context, Result, bail};
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

/// Addresses that RFC 2544 sets apart for benchmarks.
const HERE: Ipv4Addr = Ipv4Addr::new(198, 18, 53, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(198, 18, 53, 2);

pub(super) struct Pod {
    namespace: String,
    /// Takes the inner end of the link along.
    _remover: Remover,
}

impl Pod {
    /// Needs `ip` and the right to administer the network.
    pub(super) fn new() -> Result<Self> {
        if in_path("ip").is_none() {
            bail!("the program `ip` is missing (Debian package iproute2)");
        }
        let id = std::process::id();
        let (namespace, link) = (&*format!("nodens-bench-{id}"), &*format!("nb{id}"));
        let remover = Remover::start(&[&format!("link:{link}"), namespace])?;
        let pod = Self { namespace: namespace.to_owned(), _remover: remover };
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

fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(arguments).output().context("cannot run ip")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("ip {}: {}", arguments.join(" "), said.trim());
    }
    Ok(())
}
