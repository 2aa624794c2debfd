//! The load as a Job of the cluster: `nodens-lab load` in an image that has it.

use crate::api::{Api, Error};
use crate::record::Claim;
use serde_json::{Value, json};

/// Where the files with queries are in the Job's pod.
pub const QUERIES: &str = "/queries";
/// Octets of queries at most: a ConfigMap takes 1 MiB.
pub const QUERIES_LEN_MAX: usize = 1000 << 10;
/// Seconds after which a Job that has ended is deleted, should the Lease be left behind.
const KEPT_SECONDS: u32 = 600;

/// A Job to be.
#[derive(Clone, Debug)]
pub struct Load<'a> {
    /// Its name.
    pub name: &'a str,
    /// The image with `nodens-lab`.
    pub image: &'a str,
    /// What the container runs, the program first.
    pub command: &'a [String],
    /// Seconds after which it is ended.
    pub seconds: u64,
    /// Labels of the pods that it should not share a node with, if there are others.
    pub apart_from: &'a Value,
}

/// What has become of a Job's pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It does not run yet; why, if that is known.
    Waiting(String),
    /// It runs.
    Running,
    /// Its program has ended, and wrote this.
    Ended(String),
}

/// Creates the ConfigMap with the files of queries.
///
/// # Errors
///
/// What the server said, or that the files are too large.
pub fn queries(api: &dyn Api, claim: &Claim, files: &[(String, String)]) -> Result<(), Error> {
    let len: usize = files.iter().map(|(_, text)| text.len()).sum();
    if len > QUERIES_LEN_MAX {
        let message = format!("{len} octets of queries, expected at most {QUERIES_LEN_MAX}");
        return Err(Error::new("the ConfigMap of queries", message));
    }
    let data: serde_json::Map<String, Value> =
        files.iter().map(|(name, text)| (name.clone(), json!(text))).collect();
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": config_map(claim), "ownerReferences": claim.owner()},
        "data": data,
    });
    let namespace = &claim.record.workload.namespace;
    api.create(&format!("/api/v1/namespaces/{namespace}/configmaps"), &object).map(|_| ())
}

fn config_map(claim: &Claim) -> String {
    format!("nodens-lab-swap-{}", claim.record.run)
}

/// Creates a Job.
///
/// # Errors
///
/// What the server said.
pub fn start(api: &dyn Api, claim: &Claim, load: &Load<'_>) -> Result<(), Error> {
    let namespace = &claim.record.workload.namespace;
    api.create(&format!("/apis/batch/v1/namespaces/{namespace}/jobs"), &object(claim, load))
        .map(|_| ())
}

fn object(claim: &Claim, load: &Load<'_>) -> Value {
    let apart = json!({"preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 100,
        "podAffinityTerm": {
            "labelSelector": load.apart_from,
            "topologyKey": "kubernetes.io/hostname",
        },
    }]});
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": load.name, "ownerReferences": claim.owner()},
        "spec": {
            // A load that failed is told, not repeated.
            "backoffLimit": 0,
            "activeDeadlineSeconds": load.seconds,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {"spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": false,
                "dnsPolicy": "Default",
                "affinity": {"podAntiAffinity": apart},
                "containers": [{
                    "name": "load",
                    "image": load.image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": load.command,
                    "securityContext": {
                        "allowPrivilegeEscalation": false,
                        "capabilities": {"drop": ["ALL"]},
                        "runAsNonRoot": true,
                        "runAsUser": 65532,
                    },
                    "volumeMounts": [{"name": "queries", "mountPath": QUERIES, "readOnly": true}],
                }],
                "volumes": [{"name": "queries", "configMap": {"name": config_map(claim)}}],
            }},
        },
    })
}

/// What has become of the pod of a Job.
///
/// # Errors
///
/// What the server said.
pub fn state(api: &dyn Api, namespace: &str, job: &str) -> Result<State, Error> {
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let list = api.get(&format!("{pods}?labelSelector=job-name%3D{job}"))?.unwrap_or_default();
    let Some(pod) = list.pointer("/items/0") else {
        return Ok(State::Waiting("no pod yet".to_owned()));
    };
    let of = |pointer| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    match of("/status/phase") {
        "Succeeded" | "Failed" => {
            let log = format!("{pods}/{}/log?container=load", of("/metadata/name"));
            // Runtimes keep long lines in parts, and a line of standard error may stand between two of
            // them. Older API servers know no streams.
            let text = api.text(&format!("{log}&stream=Stdout"));
            text.or_else(|_| api.text(&log)).map(State::Ended)
        }
        "Running" => Ok(State::Running),
        _ => {
            let waiting = "/status/containerStatuses/0/state/waiting";
            let (reason, message) =
                (of(&format!("{waiting}/reason")), of(&format!("{waiting}/message")));
            let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
            let unscheduled = conditions
                .into_iter()
                .flatten()
                .find(|one| one.get("reason") == Some(&json!("Unschedulable")))
                .and_then(|one| one.get("message")?.as_str());
            let why = unscheduled.map_or_else(|| format!("{reason} {message}"), str::to_owned);
            Ok(State::Waiting(why.trim().to_owned()))
        }
    }
}

/// Deletes a Job and its pod.
///
/// # Errors
///
/// What the server said.
pub fn end(api: &dyn Api, namespace: &str, job: &str) -> Result<(), Error> {
    api.delete(&format!("/apis/batch/v1/namespaces/{namespace}/jobs/{job}"), None)
}
