//! Pods as clients see them: an address of their own, and the `resolv.conf` that a kubelet writes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod as PodObject;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, call};

/// Search domains of the node, which its pods inherit.
pub(super) const NODE_DOMAINS: [&str; 2] = ["corp.test", "node.test"];
/// The bridge of the pods, and its address.
const BRIDGE: (&str, &str) = ("br-pods", "10.244.0.1");

/// A pod of the cluster.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) name: &'static str,
    pub(super) namespace: &'static str,
    pub(super) address: &'static str,
    /// What its specification says about DNS.
    spec: Value,
    /// The search domains of its `resolv.conf`.
    pub(super) search: Vec<&'static str>,
    pub(super) ndots: usize,
    /// Whether its search list can be known from its specification.
    pub(super) is_known: bool,
}

const CLUSTER: [&str; 3] = ["default.svc.cluster.local", "svc.cluster.local", "cluster.local"];

/// One pod for each way that a search list comes about.
pub(super) fn all() -> Vec<Pod> {
    let pod = |name, address, spec, search: &[&[&'static str]], ndots, is_known| Pod {
        name,
        namespace: "default",
        address,
        spec,
        search: search.concat(),
        ndots,
        is_known,
    };
    let five = [&CLUSTER[..], &NODE_DOMAINS[..]];
    let ndots = |value: &str| json!([{"name": "ndots", "value": value}]);
    let more = json!({"dnsConfig": {"searches": ["lab.test", "svc.cluster.local"]}});
    let fewer_dots = json!({"dnsConfig": {"options": ndots("2")}});
    let own_list = json!({"dnsPolicy": "None", "dnsConfig": {
        "nameservers": ["10.96.0.10"],
        "searches": ["lab.test", "default.svc.cluster.local", "corp.test"],
        "options": ndots("4"),
    }});
    let own = ["lab.test", CLUSTER[0], "corp.test"];
    let host = json!({"hostNetwork": true});
    vec![
        pod("usual", "10.244.0.10", json!({}), &five, 5, true),
        pod("more", "10.244.0.11", more, &[five[0], five[1], &["lab.test"]], 5, true),
        pod("dots", "10.244.0.12", fewer_dots, &five, 2, true),
        pod("own", "10.244.0.13", own_list, &[&own], 4, true),
        pod("node", "10.244.0.14", json!({"dnsPolicy": "Default"}), &[&NODE_DOMAINS], 1, false),
        // What runs on a node has the node's list, whichever pods share its address.
        pod("host", "10.244.0.15", host, &[&NODE_DOMAINS], 1, false),
        pod("on-host", "10.244.0.15", host_of_cluster(), &five, 5, false),
    ]
}

/// A pod in another namespace that is given the address of the first.
pub(super) fn successor() -> Pod {
    let cluster = ["other.svc.cluster.local", CLUSTER[1], CLUSTER[2]];
    Pod {
        name: "successor",
        namespace: "other",
        address: "10.244.0.10",
        spec: json!({}),
        search: [&cluster[..], &NODE_DOMAINS[..]].concat(),
        ndots: 5,
        is_known: true,
    }
}

fn host_of_cluster() -> Value {
    json!({"hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet"})
}

impl Pod {
    /// Creates it, and says as a kubelet would that it runs.
    pub(super) async fn create(&self, client: &Client) -> Result<()> {
        let pods: Api<PodObject> = Api::namespaced(client.clone(), self.namespace);
        let mut spec = json!({
            "containers": [{"name": "main", "image": "none"}],
            "automountServiceAccountToken": false,
        });
        if let (Value::Object(spec), Value::Object(more)) = (&mut spec, self.spec.clone()) {
            spec.extend(more);
        }
        let labels = json!({"app": self.name});
        let pod = json!({"metadata": {"name": self.name, "labels": labels}, "spec": spec});
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?)
            .await
            .with_context(|| format!("pod {}", self.name))?;
        let ips = json!([{"ip": self.address}]);
        let status = json!({"status": {"phase": "Running", "podIP": self.address, "podIPs": ips}});
        pods.patch_status(self.name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    /// Deletes it.
    pub(super) async fn delete(&self, client: &Client) -> Result<()> {
        let pods: Api<PodObject> = Api::namespaced(client.clone(), self.namespace);
        pods.delete(self.name, &DeleteParams::default().grace_period(0)).await?;
        Ok(())
    }

    /// Gives it a network: a namespace with its address, a bridge to everything else.
    pub(super) fn connect(&self) -> Result<()> {
        let (name, link) = (self.name, format!("v-{}", self.name));
        call("ip", &["netns", "add", name])?;
        let peer = ["type", "veth", "peer", "name", "eth0", "netns", name];
        call("ip", &[&["link", "add", &link][..], &peer].concat())?;
        call("ip", &["link", "set", &link, "master", BRIDGE.0, "up"])?;
        let address = format!("{}/24", self.address);
        call("ip", &["-n", name, "address", "add", &address, "dev", "eth0"])?;
        for device in ["lo", "eth0"] {
            call("ip", &["-n", name, "link", "set", device, "up"])?;
        }
        call("ip", &["-n", name, "route", "add", "default", "via", BRIDGE.1])
    }

    /// Takes its network away, so that another pod can have its address.
    pub(super) fn disconnect(&self) -> Result<()> {
        call("ip", &["netns", "delete", self.name])
    }

    /// Runs `command` in it with `server` as its name server, and gives what it wrote.
    pub(super) fn run(&self, folder: &Path, server: &str, command: &[String]) -> Result<String> {
        let (search, ndots) = (self.search.join(" "), self.ndots);
        // The long time is for busy machines: a query that is sent again counts twice.
        let options = format!("options ndots:{ndots} timeout:30");
        let text = format!("nameserver {server}\nsearch {search}\n{options}\n");
        let file = folder.join(format!("{}.resolv.conf", self.name));
        std::fs::write(&file, text)?;
        let network = format!("--net=/run/netns/{}", self.name);
        let script = "mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"";
        let output = Command::new("nsenter")
            .args([&network, "unshare", "--mount", "sh", "-c", script, "sh"])
            .arg(&file)
            .args(command)
            .output()
            .context("cannot run nsenter (Debian's util-linux)")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        // dig's exit code is zero if there was a response; its output shows the answer.
        if !errors.is_empty() {
            bail!("{command:?} in pod {}: {errors}", self.name);
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Prepares the network of the sandbox for pods, and the addresses of servers.
pub(super) fn network(sandbox: &Sandbox, servers: &[&str]) -> Result<PathBuf> {
    call("ip", &["link", "add", BRIDGE.0, "type", "bridge"])?;
    call("ip", &["address", "add", &format!("{}/24", BRIDGE.1), "dev", BRIDGE.0])?;
    call("ip", &["link", "set", BRIDGE.0, "up"])?;
    for server in servers {
        call("ip", &["address", "add", &format!("{server}/32"), "dev", "lo"])?;
    }
    let folder = sandbox.folder("clients")?;
    // Servers run with their node's resolv.conf.
    let file = folder.join("node.resolv.conf");
    std::fs::write(&file, format!("nameserver 127.0.0.1\nsearch {}\n", NODE_DOMAINS.join(" ")))?;
    call("mount", &["--bind", &file.display().to_string(), "/etc/resolv.conf"])?;
    Ok(folder)
}
