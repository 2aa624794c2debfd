//! A node, its pods and servers elsewhere, as network namespaces joined by veth.
//!
//! ```text
//! pods (10.244.0.100 …) ── cni0 [node] eth0 ── fabric ── central-1 … central-3, outside
//! ```
//!
//! The namespaces lie below `/run` of the sandbox and vanish with it.

use std::fs::{self, File};
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::sandbox::call;

/// The node's own namespace, which is that of pods with `hostNetwork`.
pub(crate) const NODE: &str = "node";
/// Where every pod's addresses are: the kernel of the node sees as many pods as addresses.
pub(crate) const PODS: &str = "pods";
/// The server outside of the cluster.
pub(crate) const OUTSIDE: &str = "outside";

const NODE_ADDRESS: &str = "10.98.0.1";
/// Where the server outside of the cluster is.
pub(crate) const OUTSIDE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 53);
/// Where everything goes that has no route: nothing is there, as with an address of a Service without rules.
const NOWHERE: &str = "10.98.0.254";
/// The address of the node where its pods send what is for elsewhere.
pub(crate) const GATEWAY: &str = "10.244.0.1";
const FABRIC: &str = "fabric";
/// The address on the fabric of the namespace that all others were made from.
const BESIDE: &str = "10.98.0.2";

/// The last part of the address of the first pod; a real node gives its pods those below.
const FIRST_POD: u8 = 100;

/// The name of the namespace of the central server `number`.
pub(crate) fn central(number: usize) -> String {
    format!("central-{}", number + 1)
}

/// The address of the central server `number`.
pub(crate) fn central_address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 98, 0, 11 + u8::try_from(number).unwrap_or(0))
}

/// The address of the pod `number`.
pub(crate) fn pod_address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 244, 0, FIRST_POD + u8::try_from(number).unwrap_or(0))
}

/// Makes the namespaces and joins them; `pods` is at most 150.
pub(crate) fn make(pods: usize, centrals: usize) -> Result<()> {
    call("ip", &["link", "add", FABRIC, "type", "bridge"])?;
    call("ip", &["link", "set", FABRIC, "up"])?;
    attach(NODE, NODE_ADDRESS)?;
    attach(OUTSIDE, &OUTSIDE_ADDRESS.to_string())?;
    for number in 0..centrals {
        attach(&central(number), &central_address(number).to_string())?;
    }
    ip(NODE, "link add cni0 type bridge")?;
    ip(NODE, &format!("address add {GATEWAY}/24 dev cni0"))?;
    ip(NODE, "link set cni0 up")?;
    ip(NODE, &format!("route add default via {NOWHERE}"))?;
    add_pods(pods)?;
    inside(NODE, || {
        fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("cannot forward packets")
    })
}

/// Gives the node and the central servers a way to an address of the namespace that all others were made from, where a
/// control plane is.
pub(crate) fn reach(address: &str, centrals: usize) -> Result<()> {
    call("ip", &["address", "add", &format!("{BESIDE}/24"), "dev", FABRIC])?;
    let mut namespaces = (0..centrals).map(central).chain([NODE.to_owned()]);
    namespaces.try_for_each(|name| ip(&name, &format!("route add {address}/32 via {BESIDE}")))
}

/// Makes the namespace of pods and joins it to the bridge of the node, whose namespace has its name already.
pub(crate) fn add_pods(pods: usize) -> Result<()> {
    call("ip", &["netns", "add", PODS])?;
    ip(NODE, &format!("link add v-pods type veth peer name eth0 netns {PODS}"))?;
    ip(NODE, "link set v-pods master cni0 up")?;
    for number in 0..pods {
        ip(PODS, &format!("address add {}/24 dev eth0", pod_address(number)))?;
    }
    ip(PODS, "link set lo up")?;
    ip(PODS, "link set eth0 up")?;
    ip(PODS, &format!("route add default via {GATEWAY}"))
}

/// Makes a namespace with an address on the fabric; pods are behind the node.
fn attach(name: &str, address: &str) -> Result<()> {
    call("ip", &["netns", "add", name])?;
    let link = format!("v-{name}");
    let peer = ["type", "veth", "peer", "name", "eth0", "netns", name];
    call("ip", &[&["link", "add", &link][..], &peer].concat())?;
    call("ip", &["link", "set", &link, "master", FABRIC, "up"])?;
    ip(name, &format!("address add {address}/24 dev eth0"))?;
    ip(name, "link set lo up")?;
    ip(name, "link set eth0 up")?;
    match name {
        NODE => Ok(()),
        _ => ip(name, &format!("route add 10.244.0.0/24 via {NODE_ADDRESS}")),
    }
}

/// Runs `ip` for a namespace; its arguments are separated by spaces.
pub(crate) fn ip(namespace: &str, arguments: &str) -> Result<()> {
    let mut all = vec!["-n", namespace];
    all.extend(arguments.split(' '));
    call("ip", &all)
}

/// A command that will run in a namespace, with the same process ID as what is started.
pub(crate) fn command(namespace: &str, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{namespace}")).arg(program);
    command
}

/// Runs a tool in a namespace to its end, with `input`, and gives what it wrote.
pub(crate) fn tool(namespace: &str, line: &str, input: &str) -> Result<String> {
    let mut words = line.split(' ');
    let mut command = command(namespace, words.next().unwrap_or_default());
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| line.to_owned())?;
    child.stdin.take().context("no input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("{line}: {}: {}", output.status, error.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Does something in a namespace, on a thread that ends with it; threads that it starts are there, too.
pub(crate) fn inside<T: Send>(
    namespace: &str,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    let path = format!("/run/netns/{namespace}");
    let file = File::open(&path).context(path)?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            work()
        });
        thread.join().map_err(|_| anyhow!("a thread panicked"))?
    })
}
