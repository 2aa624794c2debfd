//! A DaemonSet with the pods of CoreDNS's Deployment, behind a Service of its own.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{BOTH_NAMES, DEPLOYMENT, OTHER, Swap, Workload};
use crate::node::checks::rolled_out;

pub(super) const DAEMONSET: Workload = Workload { kind: "daemonset", name: "dns-on-nodes" };

/// The address of its Service.
const ADDRESS: &str = "10.96.0.20";

/// Two releases of CoreDNS in a DaemonSet.
pub(super) fn run(swap: &Swap<'_>) -> Result<String> {
    let objects = objects(&swap.object(&DEPLOYMENT.path())?)?;
    swap.node.apply(&[], &objects.to_string())?;
    rolled_out(swap.node, "kube-system", &DAEMONSET.path())?;
    let compared = swap.compared("daemonset", DAEMONSET, OTHER, &BOTH_NAMES)?;
    for kind in ["daemonset", "service"] {
        swap.node.kubectl(&["delete", kind, DAEMONSET.name, "-n", "kube-system", "--wait"])?;
    }
    super::verdict(&compared)
}

fn objects(deployment: &Value) -> Result<Value> {
    let labels = json!({"k8s-app": DAEMONSET.name});
    let mut template =
        deployment.pointer("/spec/template").context("a Deployment without template")?.clone();
    *template.pointer_mut("/metadata/labels").context("a template without labels")? =
        labels.clone();
    let metadata = json!({"name": DAEMONSET.name, "namespace": "kube-system"});
    let port = |name: &str, protocol: &str| json!({"name": name, "port": 53, "protocol": protocol});
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": metadata,
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "clusterIP": ADDRESS,
                "selector": labels,
                "ports": [port("dns", "UDP"), port("dns-tcp", "TCP")],
            },
        },
    ]}))
}
