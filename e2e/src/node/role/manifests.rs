//! What is applied to the node, and how it is taken away.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{Role, processes};
use crate::node::checks::rolled_out;
use crate::node::images::{NODENS_NODE, repository};
use crate::node::machine::CLUSTER_DNS;
use crate::official;
use crate::sim::servers::START_TIMEOUT;
use crate::sim::state::attracts;

pub(super) const DAEMON_SET: &str = "daemonset/node-local-dns";
pub(super) const SELECTOR: &str = "k8s-app=node-local-dns";
const UPSTREAM: &str = "service/kube-dns-upstream";
const IMAGE: &str = "registry.k8s.io/dns/k8s-dns-node-cache:";

/// Two pods that declare the same port of a host would not be let onto one node. There is no readiness probe, so a new pod
/// counts as ready when its process runs, and the old one gets its signal in the middle of the hand-over.
const SURGE: &str = r#"[{"op": "remove", "path": "/spec/template/spec/containers/0/ports"},
    {"op": "add", "path": "/spec/template/spec/volumes/-",
     "value": {"name": "handover", "hostPath": {"path": "/run/nodens-handover", "type": "DirectoryOrCreate"}}},
    {"op": "add", "path": "/spec/template/spec/containers/0/volumeMounts/-",
     "value": {"name": "handover", "mountPath": "/run/nodens-handover"}},
    {"op": "replace", "path": "/spec/updateStrategy/rollingUpdate",
     "value": {"maxSurge": 1, "maxUnavailable": 0}}]"#;

/// Shorter than in our manifest, which only makes it harder: the old pod is there for less long.
const SOON: &str = r#"{"spec": {"minReadySeconds": 5}}"#;

const NAMES: &str =
    r#"[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "-top-pods"}]"#;

/// How Nodens comes to the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manifest {
    /// `nodelocaldns.yaml` with another image.
    Official,
    /// The same with `maxSurge`, which it does not have.
    Surging,
    /// `deploy/node/kube-proxy.yaml`.
    Own,
}

impl Role<'_> {
    /// Installs `wanted` on the node, and waits until the node answers queries.
    pub(super) fn provide(&mut self, wanted: Manifest) -> Result<()> {
        if self.applied != Some(wanted) {
            self.withdraw()?;
            match wanted {
                Manifest::Official | Manifest::Surging => self.node.apply(&[], &official()?)?,
                Manifest::Own => self.node.apply(&[], &own()?)?,
            };
            match wanted {
                Manifest::Official => {}
                Manifest::Surging => _ = self.patch("--type=json", SURGE)?,
                Manifest::Own => _ = self.patch("--type=merge", SOON)?,
            }
            rolled_out(self.node, "kube-system", DAEMON_SET)?;
            processes::alone(&[])?;
            self.applied = Some(wanted);
        }
        self.wait()
    }

    /// Gives our own manifest the right to see pods, and lets it use that.
    pub(super) fn name_clients(&mut self) -> Result<()> {
        self.node.apply(&[], &read("pods.yaml")?)?;
        self.patch("--type=json", NAMES)?;
        rolled_out(self.node, "kube-system", DAEMON_SET)?;
        processes::alone(&[])?;
        // It is not what the next one wants.
        self.applied = None;
        self.wait()
    }

    fn patch(&self, kind: &str, patch: &str) -> Result<String> {
        self.kubectl(&["patch", DAEMON_SET, kind, "-p", patch])
    }

    /// Takes the DaemonSet away and waits until nothing of it runs.
    pub(super) fn withdraw(&mut self) -> Result<()> {
        self.applied = None;
        self.kubectl(&["delete", DAEMON_SET, "--ignore-not-found", "--wait"])?;
        let begun = Instant::now();
        while attracts()? || !processes::running()?.is_empty() {
            ensure!(begun.elapsed() < START_TIMEOUT, "what was deleted still runs");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Takes the Service of the central servers away as well.
    pub(super) fn withdraw_upstream(&mut self) -> Result<()> {
        self.withdraw()?;
        self.kubectl(&["delete", UPSTREAM, "--ignore-not-found", "--wait"])?;
        // kube-proxy forgets it.
        thread::sleep(Duration::from_secs(2));
        Ok(())
    }

    /// Replaces all pods, which the manifest wants to overlap, and waits until only the new ones run.
    pub(super) fn update(&self) -> Result<()> {
        let before = processes::running()?;
        self.restart()?;
        self.updated(&before)
    }

    /// Begins to replace all pods.
    pub(super) fn restart(&self) -> Result<()> {
        self.kubectl(&["rollout", "restart", DAEMON_SET]).map(|_| ())
    }

    /// Waits until the pods are new, and what ran `before` is gone.
    pub(super) fn updated(&self, before: &[processes::Id]) -> Result<()> {
        rolled_out(self.node, "kube-system", DAEMON_SET)?;
        processes::alone(before)?;
        ensure!(attracts()?, "after an update it takes no queries");
        Ok(())
    }

    /// The name of the pod that was made last.
    pub(super) fn newest_pod(&self) -> Result<String> {
        let sort = "--sort-by=.metadata.creationTimestamp";
        let name = "jsonpath={.items[-1:].metadata.name}";
        self.kubectl(&["get", "pods", "-l", SELECTOR, sort, "-o", name])
    }
}

/// Kubernetes' manifest with the image of Nodens.
pub(super) fn official() -> Result<String> {
    let text = official::manifest(CLUSTER_DNS)?;
    let (before, rest) = text.split_once(IMAGE).context("no image")?;
    let (_, after) = rest.split_once('\n').context("no line after the image")?;
    Ok(format!("{before}{NODENS_NODE}\n{after}"))
}

/// Our own, with what has to be there first.
fn own() -> Result<String> {
    Ok(format!("{}---\n{}", read("upstream-service.yaml")?, read("kube-proxy.yaml")?))
}

fn read(name: &str) -> Result<String> {
    let path = repository().join("deploy/node").join(name);
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}
