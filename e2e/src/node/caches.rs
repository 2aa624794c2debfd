//! The manifests of the node role, one after the other: applied, asked, replaced by `maxSurge`, removed without a trace.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nodens_wire::Type;

use super::checks::{KUBEADM, rolled_out};
use super::images::{NODENS, repository};
use super::machine::{CLUSTER_DNS, Node};
use crate::measure::probe::Probe;
use crate::sandbox::call;

/// The address of the node itself in the manifests.
const LOCAL: &str = "169.254.20.10";

/// The image in the manifests, which differs from [`NODENS`] in its user; the manifests name the user themselves.
const IMAGE: &str = "localhost/nodens-node:0.1.0";

const DAEMON_SET: &str = "daemonset/node-local-dns";
const SELECTOR: &str = "k8s-app=node-local-dns";

/// The Service of the API server.
const KUBERNETES: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1));

/// How long an answer may take to be right: queries go back to the central servers meanwhile.
const PATIENCE: Duration = Duration::from_secs(30);

/// Manifests with the addresses that they own on the node; a pod's own address where they own none.
const MANIFESTS: &[(&str, &[&str])] =
    &[("kube-proxy.yaml", &[LOCAL, CLUSTER_DNS]), ("ipvs.yaml", &[LOCAL]), ("cilium.yaml", &[])];

pub(super) async fn manifests(node: &Node) -> Result<String> {
    let namespace = ["-n", "kube-system"];
    if node.kubectl(&[&["get", "service", "kube-dns"], &namespace[..]].concat()).is_err() {
        node.apply(&[], KUBEADM)?;
        rolled_out(node, "kube-system", "deployment/coredns")?;
    }
    node.apply(&[], &manifest("upstream-service.yaml")?)?;
    for (name, owned) in MANIFESTS {
        node.apply(&[], &manifest(name)?)?;
        for update in [false, true] {
            if update {
                node.kubectl(&[&["rollout", "restart", DAEMON_SET], &namespace[..]].concat())?;
            }
            rolled_out(node, "kube-system", DAEMON_SET)?;
            ask(node, owned).await.with_context(|| format!("{name}, updated: {update}"))?;
        }
        node.kubectl(&[&["delete", DAEMON_SET, "--wait"], &namespace[..]].concat())?;
        let gone = ["wait", "--for=delete", "pod", "-l", SELECTOR, "--timeout=60s"];
        node.kubectl(&[&gone[..], &namespace].concat())?;
        ensure!(!has_link(), "{name}: the link nodelocaldns is left behind");
        ask_at(CLUSTER_DNS).await.context("the central servers afterwards")?;
    }
    Ok(format!("{} applied, updated and removed", MANIFESTS.len()))
}

/// A manifest with the image that is on the node.
fn manifest(name: &str) -> Result<String> {
    let path = repository().join("deploy/node").join(name);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(text.replace(IMAGE, NODENS))
}

/// Asks at the addresses that a manifest owns, or at that of its pod.
async fn ask(node: &Node, owned: &[&str]) -> Result<()> {
    let begun = Instant::now();
    while has_link() == owned.is_empty() {
        ensure!(
            begun.elapsed() < PATIENCE,
            "no link nodelocaldns for {owned:?}, or one without addresses"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    if owned.is_empty() {
        // The one that is replaced may not have ended yet.
        let (sort, path) =
            ("--sort-by=.metadata.creationTimestamp", "jsonpath={.items[-1:].status.podIP}");
        let pods = ["get", "pods", "-n", "kube-system", "-l", SELECTOR, sort, "-o", path];
        return ask_at(&node.kubectl(&pods)?).await;
    }
    for address in owned {
        ask_at(address).await?;
    }
    Ok(())
}

async fn ask_at(address: &str) -> Result<()> {
    let server = SocketAddr::new(address.parse().with_context(|| address.to_owned())?, 53);
    let question = ("kubernetes.default.svc.cluster.local.", Type::A);
    let mut probe = Probe::new(server).await?;
    probe.until(question, PATIENCE, |answer| answer.is(&[KUBERNETES])).await?;
    Ok(())
}

/// The sandbox is the node.
fn has_link() -> bool {
    call("ip", &["link", "show", "nodelocaldns"]).is_ok()
}
