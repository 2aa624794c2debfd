//! Pods as servers, found with `kubectl`.

use crate::counters::Endpoint;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};

/// How pods are named: `NAMESPACE/SELECTOR`, in a context of the user's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(crate) namespace: String,
    pub(crate) labels: String,
    pub(crate) context: Option<String>,
    /// The kubectl program.
    pub(crate) program: String,
}

/// A pod that answers queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) metrics: Option<Endpoint>,
    pub(crate) images: Vec<String>,
}

impl Selector {
    /// Reads `NAMESPACE/SELECTOR`, as in `kube-system/k8s-app=kube-dns`.
    pub(crate) fn parse(text: &str, context: Option<&str>, program: &str) -> Result<Self> {
        let (namespace, labels) = text
            .split_once('/')
            .filter(|(namespace, labels)| !namespace.is_empty() && !labels.is_empty())
            .with_context(|| {
                let example = "kube-system/k8s-app=kube-dns";
                format!("`{text}`: expected NAMESPACE/SELECTOR, such as {example}")
            })?;
        Ok(Self {
            namespace: namespace.to_owned(),
            labels: labels.to_owned(),
            context: context.map(str::to_owned),
            program: program.to_owned(),
        })
    }

    /// The pods that run and are ready, by name. None is an error.
    pub(crate) fn pods(&self) -> Result<Vec<Pod>> {
        let mut command = Command::new(&self.program);
        if let Some(context) = &self.context {
            command.args(["--context", context]);
        }
        command.args(["--namespace", &self.namespace, "get", "pods"]);
        command.args(["--selector", &self.labels, "--output", "json"]);
        let output = command
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {}", self.program))?;
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr);
            bail!("{} ended with {}: {}", self.program, output.status, told.trim());
        }
        let list: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{} did not answer with JSON", self.program))?;
        pods(&list).with_context(|| format!("pods `{}` in {}", self.labels, self.namespace))
    }
}

/// The usable pods of a `PodList`.
fn pods(list: &Value) -> Result<Vec<Pod>> {
    let items = list.get("items").and_then(Value::as_array).context("expected a list of pods")?;
    let mut found = Vec::new();
    let mut unusable = Vec::new();
    for item in items {
        match pod(item) {
            Ok(pod) => found.push(pod),
            Err(why) => unusable.push(format!("{}: {why:#}", text(item, "/metadata/name"))),
        }
    }
    if found.is_empty() {
        let why =
            if unusable.is_empty() { "there are none".to_owned() } else { unusable.join("; ") };
        bail!("no pod can be measured: {why}");
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn pod(item: &Value) -> Result<Pod> {
    let phase = text(item, "/status/phase");
    if phase != "Running" || item.pointer("/metadata/deletionTimestamp").is_some() {
        bail!("its phase is {phase}, expected Running and not deleted");
    }
    let mut conditions = list(item, "/status/conditions");
    if !conditions.any(|one| text(one, "/type") == "Ready" && text(one, "/status") == "True") {
        bail!("it is not ready");
    }
    let ip: IpAddr = text(item, "/status/podIP").parse().context("it has no address")?;
    let ports: Vec<&Value> =
        list(item, "/spec/containers").flat_map(|one| list(one, "/ports")).collect();
    let port = dns_port(&ports).context("no container has a UDP port")?;
    Ok(Pod {
        name: text(item, "/metadata/name").to_owned(),
        address: SocketAddr::new(ip, port),
        metrics: metrics(item, ip, &ports),
        images: list(item, "/spec/containers").map(|one| text(one, "/image").to_owned()).collect(),
    })
}

/// The UDP port named `dns…`, else 53, else the first.
fn dns_port(ports: &[&Value]) -> Option<u16> {
    let udp = || ports.iter().filter(|port| text(port, "/protocol") == "UDP");
    let number = |port: &&&Value| number(port.pointer("/containerPort"));
    let named = udp().find(|port| text(port, "/name").starts_with("dns"));
    let usual = || udp().find(|port| number(port) == Some(53));
    named.or_else(usual).or_else(|| udp().next()).as_ref().and_then(number)
}

/// Where `prometheus.io/…` annotations or a port named `metrics` say that metrics are; HTTP only.
fn metrics(item: &Value, ip: IpAddr, ports: &[&Value]) -> Option<Endpoint> {
    let annotation = |name: &str| {
        item.pointer("/metadata/annotations")?.get(format!("prometheus.io/{name}"))?.as_str()
    };
    if annotation("scheme").is_some_and(|scheme| scheme != "http") {
        return None;
    }
    let annotated = annotation("port").and_then(|port| port.parse().ok());
    let named = || {
        let port = ports.iter().find(|port| text(port, "/name").ends_with("metrics"))?;
        number(port.pointer("/containerPort"))
    };
    let address = SocketAddr::new(ip, annotated.or_else(named)?);
    let path = annotation("path").unwrap_or("/metrics");
    Some(Endpoint::new(address.to_string(), path.to_owned()))
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn number(value: Option<&Value>) -> Option<u16> {
    value.and_then(Value::as_u64).and_then(|number| u16::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `kubectl get pods -n kube-system -l k8s-app=kube-dns -o json` says of a kubeadm cluster,
    /// without what nobody reads; the second pod is on its way out.
    const KUBEADM: &str = include_str!("testdata/pods.json");

    #[test]
    fn ready_pods_are_found_with_port_and_metrics() {
        let found = pods(&serde_json::from_str(KUBEADM).unwrap()).unwrap();
        let metrics = Endpoint::new("10.244.0.2:9153".into(), "/metrics".into());
        let expected = Pod {
            name: "coredns-668d6bf9bc-8xk2v".into(),
            address: "10.244.0.2:53".parse().unwrap(),
            metrics: Some(metrics),
            images: vec!["registry.k8s.io/coredns/coredns:v1.11.3".into()],
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_pod_that_cannot_be_measured_says_why() {
        let mut list: Value = serde_json::from_str(KUBEADM).unwrap();
        list["items"][0]["status"]["conditions"][2]["status"] = "False".into();
        let error = pods(&list).unwrap_err().to_string();
        assert!(error.contains("coredns-668d6bf9bc-8xk2v: it is not ready"), "{error}");
        let error = pods(&serde_json::json!({ "items": [] })).unwrap_err().to_string();
        assert!(error.contains("there are none"), "{error}");
    }

    #[test]
    fn annotations_beat_names_and_https_is_left_alone() {
        let mut list: Value = serde_json::from_str(KUBEADM).unwrap();
        let annotations = serde_json::json!({
            "prometheus.io/port": "9253", "prometheus.io/path": "/m", "prometheus.io/scheme": "http"
        });
        list["items"][0]["metadata"]["annotations"] = annotations;
        let metrics = |list: &Value| pods(list).unwrap().remove(0).metrics;
        let endpoint = Endpoint::new("10.244.0.2:9253".into(), "/m".into());
        assert_eq!(metrics(&list), Some(endpoint));
        list["items"][0]["metadata"]["annotations"]["prometheus.io/scheme"] = "https".into();
        assert_eq!(metrics(&list), None);
    }

    #[test]
    fn selectors_have_two_parts() {
        let selector =
            Selector::parse("kube-system/k8s-app=kube-dns", Some("c"), "kubectl").unwrap();
        assert_eq!((&*selector.namespace, &*selector.labels), ("kube-system", "k8s-app=kube-dns"));
        assert!(Selector::parse("k8s-app=kube-dns", None, "kubectl").is_err());
        let error = Selector::parse("a/b=c", None, "/nonexistent/kubectl").unwrap().pods();
        assert!(error.unwrap_err().to_string().contains("/nonexistent/kubectl"));
    }
}
