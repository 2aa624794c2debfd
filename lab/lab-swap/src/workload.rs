//! A Deployment or DaemonSet: its container, its pods, and whether a rollout is over.

use crate::api::{Api, Error};
use crate::change::Change;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;

/// The annotation of the pods' template that makes every round start pods of its own.
pub const MARK: &str = "nodens-lab/round";

/// What runs pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// So many pods.
    Deployment,
    /// One pod on each node.
    DaemonSet,
}

impl Kind {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::DaemonSet => "DaemonSet",
        }
    }

    /// Its name on command lines.
    pub fn lower(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::DaemonSet => "daemonset",
        }
    }
}

/// A workload by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Its namespace.
    pub namespace: String,
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.kind.lower(), self.name)
    }
}

impl FromStr for Workload {
    type Err = Error;

    /// Reads `NAMESPACE/deployment/NAME` or `NAMESPACE/daemonset/NAME`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            let example = "kube-system/deployment/coredns";
            Error::new(
                format!("`{text}`"),
                format!("expected NAMESPACE/KIND/NAME, such as {example}"),
            )
        };
        let mut parts = text.split('/');
        let (Some(namespace), Some(kind), Some(name), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong());
        };
        let kind = match &*kind.to_ascii_lowercase() {
            "deployment" | "deployments" | "deploy" => Kind::Deployment,
            "daemonset" | "daemonsets" | "ds" => Kind::DaemonSet,
            _ => return Err(wrong()),
        };
        let is_name = |text: &str| {
            let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
            !text.is_empty() && text.len() <= 253 && text.chars().all(known)
        };
        if !is_name(namespace) || !is_name(name) {
            return Err(wrong());
        }
        Ok(Self { namespace: namespace.to_owned(), kind, name: name.to_owned() })
    }
}

/// A pod of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// The node that it runs on.
    pub node: String,
    /// The ID of the container that counts, without the runtime's name.
    pub container: String,
    /// The digest of its image, as the runtime says it.
    pub image_id: String,
    /// How often the container was started again.
    pub restarts: u64,
    /// Whether it is ready, has the mark that was asked for, and is not being deleted.
    pub is_wanted: bool,
}

impl Workload {
    /// Path of its URL.
    pub fn path(&self) -> String {
        let Self { namespace, kind, name } = self;
        format!("/apis/apps/v1/namespaces/{namespace}/{}s/{name}", kind.lower())
    }

    /// The object. One that cannot be rolled out is an error.
    ///
    /// # Errors
    ///
    /// What the server said, or why it cannot be rolled out.
    pub fn get(&self, api: &dyn Api) -> Result<Value, Error> {
        let wrong = |message: &str| Error::new(self.to_string(), message);
        let object = api.get(&self.path())?.ok_or_else(|| wrong("there is none"))?;
        if object.pointer("/spec/paused") == Some(&json!(true)) {
            return Err(wrong("it is paused (spec.paused): nothing would be rolled out"));
        }
        let strategy = object.pointer("/spec/updateStrategy/type").and_then(Value::as_str);
        if strategy == Some("OnDelete") {
            return Err(wrong("its update strategy is OnDelete: nothing would be rolled out"));
        }
        if self.wanted(&object) == 0 {
            return Err(wrong("it has no pods"));
        }
        Ok(object)
    }

    /// The container that answers DNS: the one called `name`, else the only one, else the one with a UDP
    /// port 53 or one called `dns…`. Returns its place and its name.
    ///
    /// # Errors
    ///
    /// Which containers there are.
    pub fn container(&self, object: &Value, name: Option<&str>) -> Result<(usize, String), Error> {
        let all = list(object, "/spec/template/spec/containers");
        let named = |one: &Value| text(one, "/name").to_owned();
        let is_dns = |port: &Value| {
            text(port, "/protocol") == "UDP"
                && (text(port, "/name").starts_with("dns")
                    || port.get("containerPort") == Some(&json!(53)))
        };
        let fits = |one: &Value| match name {
            Some(name) => text(one, "/name") == name,
            None => all.len() == 1 || list(one, "/ports").iter().any(is_dns),
        };
        let mut found = all.iter().enumerate().filter(|(_, one)| fits(one));
        match (found.next(), found.next()) {
            (Some((at, one)), None) => Ok((at, named(one))),
            _ => {
                let names: Vec<_> = all.iter().map(named).collect();
                let message = format!("name its container: one of {}", names.join(", "));
                Err(Error::new(self.to_string(), message))
            }
        }
    }

    /// The image of the container at `place`.
    pub fn image(object: &Value, place: usize) -> &str {
        text(object, &format!("/spec/template/spec/containers/{place}/image"))
    }

    /// The two fields that a run changes of it: the image of the container, and the mark. `pairs` are what it
    /// gives both.
    pub fn changes(
        &self,
        object: &Value,
        (place, container): (usize, &str),
        pairs: &[(&str, &str)],
    ) -> Vec<Change> {
        let at = format!("/spec/template/spec/containers/{place}");
        let pointer = format!("/spec/template/metadata/annotations/{}", MARK.replace('/', "~1"));
        let (images, marks): (Vec<Value>, Vec<Value>) =
            pairs.iter().map(|(image, mark)| (json!(image), json!(mark))).unzip();
        let (path, what) = (self.path(), format!("image of {container} in {self}"));
        let both = images.iter().cloned().zip(marks.iter().cloned()).collect();
        let image = Change::of(&what, &path, object, &format!("{at}/image"), images)
            .guarded(&format!("{at}/name"), container.into())
            .together(&pointer, both);
        let mark = Change::of(&format!("mark of pods of {self}"), &path, object, &pointer, marks);
        vec![image, mark]
    }

    /// How many pods there should be.
    pub fn wanted(&self, object: &Value) -> u64 {
        match self.kind {
            Kind::Deployment => number(object, "/spec/replicas"),
            Kind::DaemonSet => number(object, "/status/desiredNumberScheduled"),
        }
    }

    /// What is missing until all pods are those of the latest template; `None` if nothing is.
    pub fn missing(&self, object: &Value, pods: &[Pod]) -> Option<String> {
        let seen = number(object, "/status/observedGeneration");
        if seen < number(object, "/metadata/generation") {
            return Some("the change has not been seen yet".to_owned());
        }
        let wanted = self.wanted(object);
        let (updated, available) = match self.kind {
            Kind::Deployment => ("/status/updatedReplicas", "/status/availableReplicas"),
            Kind::DaemonSet => ("/status/updatedNumberScheduled", "/status/numberAvailable"),
        };
        let (updated, available) = (number(object, updated), number(object, available));
        if updated < wanted || available < wanted {
            return Some(format!("{updated} of {wanted} pods updated, {available} available"));
        }
        let ready = pods.iter().filter(|pod| pod.is_wanted).count() as u64;
        let others = pods.len() as u64 - ready;
        if others > 0 || ready != wanted {
            return Some(format!("{ready} of {wanted} pods ready, {others} of before not ended"));
        }
        None
    }

    /// The labels that its pods have, as a list request takes them.
    fn selector(&self, object: &Value) -> String {
        let labels = object.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
        let mut parts: Vec<String> = labels
            .into_iter()
            .flatten()
            .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
            .collect();
        for one in list(object, "/spec/selector/matchExpressions") {
            let key = text(one, "/key");
            let values: Vec<_> = list(one, "/values").iter().filter_map(Value::as_str).collect();
            let values = values.join(",");
            parts.push(match text(one, "/operator") {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "DoesNotExist" => format!("!{key}"),
                _ => key.to_owned(),
            });
        }
        parts.join(",")
    }

    /// Its pods; those are wanted that have `mark` and `image` in `container`.
    ///
    /// # Errors
    ///
    /// What the server said.
    pub fn pods(
        &self,
        api: &dyn Api,
        object: &Value,
        container: &str,
        (image, mark): (&str, &str),
    ) -> Result<Vec<Pod>, Error> {
        let selector = encoded(&self.selector(object));
        let path = format!("/api/v1/namespaces/{}/pods?labelSelector={selector}", self.namespace);
        let found = api.get(&path)?.unwrap_or_default();
        let pod = |item: &Value| {
            let status = list(item, "/status/containerStatuses");
            let status = status.iter().find(|one| text(one, "/name") == container);
            let of = |pointer| status.map_or("", |status| text(status, pointer));
            let annotations = item.pointer("/metadata/annotations");
            let specs = list(item, "/spec/containers");
            let spec = specs.iter().find(|one| text(one, "/name") == container);
            Pod {
                name: text(item, "/metadata/name").to_owned(),
                node: text(item, "/spec/nodeName").to_owned(),
                container: of("/containerID").rsplit('/').next().unwrap_or_default().to_owned(),
                image_id: of("/imageID").to_owned(),
                restarts: status.map_or(0, |status| number(status, "/restartCount")),
                is_wanted: item.pointer("/metadata/deletionTimestamp").is_none()
                    && annotations.is_some_and(|all| all.get(MARK) == Some(&json!(mark)))
                    && spec.is_some_and(|one| text(one, "/image") == image)
                    && status.is_some_and(|one| one.get("ready") == Some(&json!(true))),
            }
        };
        // Pods that have ended, evicted ones for example, stay in the list.
        let ended = |item: &&Value| ["Failed", "Succeeded"].contains(&text(item, "/status/phase"));
        Ok(list(&found, "/items").iter().filter(|item| !ended(item)).map(pod).collect())
    }

    /// Who wrote the image of the container last, by `metadata.managedFields`.
    pub fn image_writer(object: &Value) -> Option<&str> {
        let mut writers: Vec<&Value> = list(object, "/metadata/managedFields")
            .iter()
            .filter(|one| one.get("fieldsV1").is_some_and(|f| f.to_string().contains("f:image\"")))
            .collect();
        writers.sort_by_key(|one| text(one, "/time").to_owned());
        writers.last().map(|one| text(one, "/manager"))
    }
}

/// A selector as part of a URL.
fn encoded(text: &str) -> String {
    let plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-._~".contains(&octet);
    text.bytes()
        .map(|octet| match plain(octet) {
            true => char::from(octet).to_string(),
            false => format!("%{octet:02X}"),
        })
        .collect()
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_have_three_parts() {
        for (text, shown) in [
            ("kube-system/deployment/coredns", "kube-system/deployment/coredns"),
            ("openshift-dns/ds/dns-default", "openshift-dns/daemonset/dns-default"),
            ("a/Deploy/b.c", "a/deployment/b.c"),
        ] {
            assert_eq!(text.parse::<Workload>().unwrap().to_string(), shown);
        }
        for text in [
            "coredns",
            "a/b",
            "a/pod/b",
            "/deploy/b",
            "a/deploy/",
            "a/ds/b/c",
            "a/ds/b?x",
            "A/ds/b",
        ] {
            let error = text.parse::<Workload>().unwrap_err().to_string();
            assert!(error.contains("kube-system/deployment/coredns"), "{error}");
        }
    }

    fn workload() -> Workload {
        "kube-system/deployment/coredns".parse().unwrap()
    }

    #[test]
    fn the_container_is_the_one_that_answers_dns() {
        let one =
            |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let dns = json!({"name": "dns", "ports": [{"containerPort": 53, "protocol": "UDP"}]});
        let proxy = json!({"name": "kube-rbac-proxy", "ports": [{"containerPort": 9154}]});
        let found = |object: &Value, name| workload().container(object, name).map(|found| found.0);
        assert_eq!(found(&one(json!([proxy])), None), Ok(0));
        assert_eq!(found(&one(json!([proxy, dns])), None), Ok(1));
        assert_eq!(found(&one(json!([proxy, dns])), Some("kube-rbac-proxy")), Ok(0));
        let error = found(&one(json!([proxy, proxy])), None).unwrap_err().to_string();
        assert!(error.contains("one of kube-rbac-proxy, kube-rbac-proxy"), "{error}");
        assert!(found(&one(json!([dns])), Some("other")).is_err());
    }

    #[test]
    fn a_rollout_is_over_when_the_last_pod_of_before_has_ended() {
        let mut object = json!({
            "metadata": {"generation": 4},
            "spec": {"replicas": 2},
            "status": {"observedGeneration": 3, "updatedReplicas": 2, "availableReplicas": 2},
        });
        let pod = |is_wanted| Pod {
            name: String::new(),
            node: String::new(),
            container: String::new(),
            image_id: String::new(),
            restarts: 0,
            is_wanted,
        };
        let both = [pod(true), pod(true)];
        let missing = |object: &Value, pods: &[Pod]| workload().missing(object, pods);
        assert!(missing(&object, &both).unwrap().contains("not been seen"));
        object["status"]["observedGeneration"] = json!(4);
        assert_eq!(missing(&object, &both), None);
        let old = [pod(true), pod(true), pod(false)];
        assert!(missing(&object, &old).unwrap().contains("1 of before"));
        object["status"]["availableReplicas"] = json!(1);
        assert!(missing(&object, &both).unwrap().contains("1 available"));
    }

    #[test]
    fn selectors_are_parts_of_urls() {
        let object = json!({"spec": {"selector": {
            "matchLabels": {"k8s-app": "kube-dns"},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["x", "y"]},
                {"key": "b", "operator": "DoesNotExist"},
            ],
        }}});
        let selector = workload().selector(&object);
        assert_eq!(selector, "k8s-app=kube-dns,a in (x,y),!b");
        assert_eq!(encoded("a in (x)"), "a%20in%20%28x%29");
    }
}
