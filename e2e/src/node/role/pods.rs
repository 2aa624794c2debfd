//! Real pods: resolvers of applications with the `resolv.conf` that kubelet writes, and one that leaks.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Role;
use super::manifests::Manifest;
use crate::clients::programs;
use crate::node::OUTSIDE;
use crate::node::images::CLIENTS;
use crate::node::machine::CLUSTER_DNS;

/// What the pods' programs need of the machine.
const LIBRARIES: [&str; 3] = ["/usr", "/lib", "/lib64"];
/// What has to be found: two names of the cluster and one outside.
const ADDRESSES: [&str; 3] = ["10.96.0.1", CLUSTER_DNS, "192.0.2.80"];

/// A name that exists nowhere, and where a search list of a pod looks for it.
const LEAK: &str = "db.bad.invalid";
const DOMAINS: [&str; 4] = [".shop.svc.cluster.local", ".svc.cluster.local", ".cluster.local", ""];
/// The pod that does so.
const SHOP: [&str; 2] = ["-n", "shop"];
const CART: &str = "cart";
/// How soon a leak has to be seen.
const SEEN: Duration = Duration::from_secs(10);

/// Resolvers of applications in a pod, and dnsperf.
pub(super) fn clients(role: &mut Role<'_>) -> Result<String> {
    role.provide(Manifest::Official)?;
    let folder = role.sandbox.folder("clients")?;
    let names = ["kubernetes", "kube-dns.kube-system", OUTSIDE];
    let file = folder.join("names");
    let full = format!("kubernetes.default.svc.cluster.local A\n{OUTSIDE} A\n");
    fs::write(&file, full)?;
    let mut containers: Vec<(String, Vec<String>)> = programs::build(&folder)?
        .iter()
        // It wants more of the machine than its libraries, and asks as glibc does.
        .filter(|program| program.name != "Java")
        .map(|program| (program.name.to_lowercase(), program.command(&names)))
        .collect();
    for mode in ["udp", "tcp"] {
        let file = file.display().to_string();
        let words = ["dnsperf", "-s", CLUSTER_DNS, "-m", mode, "-Q", "500", "-l", "3", "-d", &file];
        containers.push((format!("dnsperf-{mode}"), words.map(str::to_owned).into()));
    }
    role.node.apply(&[], &pod_of_clients(&folder, &containers).to_string())?;
    let done = "--for=jsonpath={.status.phase}=Succeeded";
    let waited = role.node.kubectl(&["wait", "pod/clients", done, "--timeout=120s"]);
    let address = "jsonpath={.status.podIP}";
    let address = role.node.kubectl(&["get", "pod", "clients", "-o", address])?;
    let clients = role.top()?["clients"].take();
    for (name, _) in &containers {
        let output = role.node.kubectl(&["logs", "clients", "-c", name])?;
        let wanted: &[&str] = match name.strip_prefix("dnsperf-") {
            Some(_) => &["Queries lost:         0 ", "NOERROR"],
            None => &ADDRESSES,
        };
        let is_good = wanted.iter().all(|text| output.contains(text));
        ensure!(
            is_good && !output.contains("SERVFAIL"),
            "{name} does not have all of {wanted:?}: {output}"
        );
    }
    waited?;
    let is_client = |client: &Value| client["source"]["address"] == address;
    let asked_here = clients.as_array().is_some_and(|all| all.iter().any(is_client));
    ensure!(asked_here, "{address} did not ask the node: {clients}");
    role.node.kubectl(&["delete", "pod", "clients", "--now"])?;
    let names: Vec<&str> = containers.iter().map(|(name, _)| name.as_str()).collect();
    Ok(format!("all answered by the node: {}", names.join(", ")))
}

/// A pod with a container for each of these commands.
fn pod_of_clients(folder: &Path, containers: &[(String, Vec<String>)]) -> Value {
    let folder = folder.display().to_string();
    let shared = LIBRARIES.into_iter().filter(|path| Path::new(path).exists());
    let shared: Vec<&str> = shared.chain([folder.as_str()]).collect();
    let volume = |(number, path): (usize, &&str)| json!({"name": format!("shared-{number}"), "hostPath": {"path": path}});
    let mount = |(number, path): (usize, &&str)| json!({"name": format!("shared-{number}"), "mountPath": path, "readOnly": true});
    let volumes: Vec<Value> = shared.iter().enumerate().map(volume).collect();
    let mounts: Vec<Value> = shared.iter().enumerate().map(mount).collect();
    let container = |(name, command): &(String, Vec<String>)| {
        json!({
            "name": name, "image": CLIENTS, "imagePullPolicy": "Never", "command": command,
            "env": [{"name": "PATH", "value": "/usr/sbin:/usr/bin"}], "volumeMounts": mounts,
        })
    };
    let containers: Vec<Value> = containers.iter().map(container).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "clients", "namespace": "default"},
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
            "containers": containers, "volumes": volumes,
        },
    })
}

/// A pod looks for what does not exist: it is named first, with its namespace.
pub(super) fn leak(role: &mut Role<'_>) -> Result<String> {
    role.provide(Manifest::Own)?;
    role.name_clients()?;
    let names = DOMAINS.map(|domain| format!("{LEAK}{domain}")).join(",");
    let server = format!("{CLUSTER_DNS}:53");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": CART, "namespace": SHOP[1]},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{
            "name": CART, "image": CLIENTS, "imagePullPolicy": "Never",
            "args": ["steady", "--server", server, "--names", names],
        }]},
    });
    role.node.kubectl(&["create", "namespace", SHOP[1]])?;
    // Pods need the account that a controller makes.
    let account = ["wait", "--for=create", "serviceaccount/default", "--timeout=60s"];
    role.node.kubectl(&[&account[..], &SHOP].concat())?;
    role.node.apply(&[], &pod.to_string())?;
    let ready = ["wait", "pod", CART, "--for=condition=Ready", "--timeout=60s"];
    role.node.kubectl(&[&ready[..], &SHOP].concat())?;
    let begun = Instant::now();
    let seen = role.see_leak(begun);
    let took = begun.elapsed();
    role.node.kubectl(&["delete", "namespace", SHOP[1], "--wait=false"])?;
    Ok(format!("{}, {:.1} s after its start", seen?, took.as_secs_f64()))
}

impl Role<'_> {
    /// What `nodens top` says in the pod of the node cache.
    fn top(&self) -> Result<Value> {
        let pod = self.newest_pod()?;
        let words = ["exec", &pod, "-n", "kube-system", "--", "/nodens", "top", "-json"];
        let text = self.node.kubectl(&words)?;
        serde_json::from_str(&text).with_context(|| text.clone())
    }

    /// Waits until the leak is the first of all, with its pod.
    fn see_leak(&self, begun: Instant) -> Result<String> {
        loop {
            let report = self.top()?;
            let first = &report["leaks"][0];
            let place = &first["sources"][0]["place"];
            let name = first["name"].as_str().unwrap_or_default().trim_end_matches('.');
            if name == LEAK && place["pod"] == CART && place["namespace"] == SHOP[1] {
                let (rate, per) = (&first["rate"], &first["amplification"]);
                return Ok(format!("{LEAK} of {}/{CART}, {rate} a second, {per} each", SHOP[1]));
            }
            let leaks = &report["leaks"];
            ensure!(begun.elapsed() < SEEN, "{LEAK} of {CART} is not the first: {leaks}");
            thread::sleep(Duration::from_millis(200));
        }
    }
}
