//! What the account of a run must be allowed to do, asked before anything is changed: a right that is found to be
//! missing in the middle of a run is missing for putting back, too.

use crate::api::{Api, Error};
use crate::record::{Record, lease_path};
use crate::workload::Kind;
use serde_json::{Value, json};
use std::fmt;

/// Where it is asked. Every account may ask for its own rights, unless that was taken away.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// A right, as roles give it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Right {
    verb: &'static str,
    group: String,
    /// With its subresource: `pods/log`.
    resource: String,
    namespace: String,
    /// Of one object; empty for all.
    name: String,
}

impl Right {
    /// To read what the kubelets say of containers.
    pub fn counters() -> Self {
        Self { verb: "get", resource: "nodes/proxy".to_owned(), ..Self::default() }
    }

    /// Of the object at `path`: `/api/VERSION/…` or `/apis/GROUP/VERSION/…`.
    fn of(verb: &'static str, path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        let (group, rest) = match &*parts {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => return None,
        };
        let (namespace, resource, name) = match rest {
            ["namespaces", namespace, resource, name] => (*namespace, *resource, *name),
            [resource, name] => ("", *resource, *name),
            _ => return None,
        };
        let [group, resource, namespace, name] =
            [group, resource, namespace, name].map(str::to_owned);
        Some(Self { verb, group, resource, namespace, name })
    }

    /// Of all objects of a kind in a namespace.
    fn all(verb: &'static str, [group, resource, namespace]: [&str; 3]) -> Self {
        let [group, resource, namespace] = [group, resource, namespace].map(str::to_owned);
        Self { verb, group, resource, namespace, name: String::new() }
    }

    fn review(&self) -> Value {
        let (resource, sub) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "verb": self.verb,
                "group": self.group,
                "resource": resource,
                "subresource": sub,
                "namespace": self.namespace,
                "name": self.name,
            }},
        })
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if !self.name.is_empty() {
            write!(f, " {}", self.name)?;
        }
        if !self.namespace.is_empty() {
            write!(f, " in {}", self.namespace)?;
        }
        Ok(())
    }
}

/// What a run with this record has to be allowed to do to make its changes and to put them back, with the load from a
/// Job of the cluster (`by_job`) or not.
pub fn needed(record: &Record, by_job: bool) -> Vec<Right> {
    let workload = &record.workload;
    let namespace = &*workload.namespace;
    let mut paths: Vec<String> = vec![workload.path()];
    for change in &record.changes {
        if !paths.contains(&change.path) {
            paths.push(change.path.clone());
        }
    }
    let mut all = Vec::new();
    let mut of = |path: &str, verbs: &[&'static str]| {
        all.extend(verbs.iter().filter_map(|verb| Right::of(verb, path)));
    };
    paths.iter().for_each(|path| of(path, &["get", "patch"]));
    of(&lease_path(workload), &["get", "patch", "delete"]);
    let mut more = vec![
        ("create", ["coordination.k8s.io", "leases", namespace]),
        ("list", ["", "pods", namespace]),
    ];
    if workload.kind == Kind::Deployment {
        more.extend(["list", "delete"].map(|verb| (verb, ["apps", "replicasets", namespace])));
    }
    if by_job {
        more.extend(["create", "delete"].map(|verb| (verb, ["batch", "jobs", namespace])));
        more.push(("create", ["", "configmaps", namespace]));
        more.push(("get", ["", "pods/log", namespace]));
    }
    all.extend(more.into_iter().map(|(verb, of)| Right::all(verb, of)));
    all
}

/// Those of `rights` that this account does not have.
///
/// # Errors
///
/// What the server said.
pub fn missing(api: &dyn Api, rights: &[Right]) -> Result<Vec<Right>, Error> {
    let mut missing = Vec::new();
    for right in rights {
        let answer = api.create(REVIEWS, &right.review())?;
        if answer.pointer("/status/allowed") != Some(&json!(true)) {
            missing.push(right.clone());
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;

    /// A server that denies what these words say: verb, resource with subresource.
    struct Denying(&'static [[&'static str; 2]]);

    impl Api for Denying {
        fn get(&self, path: &str) -> Result<Option<Value>, Error> {
            Err(Error::new(path, "not asked for"))
        }

        fn text(&self, path: &str) -> Result<String, Error> {
            Err(Error::new(path, "not asked for"))
        }

        fn create(&self, path: &str, object: &Value) -> Result<Value, Error> {
            assert_eq!(path, REVIEWS);
            let of = |name: &str| object["spec"]["resourceAttributes"][name].as_str().unwrap();
            let resource = match of("subresource") {
                "" => of("resource").to_owned(),
                sub => format!("{}/{sub}", of("resource")),
            };
            let is_denied = self.0.iter().any(|denied| *denied == [of("verb"), &*resource]);
            Ok(json!({"status": {"allowed": !is_denied}}))
        }

        fn patch(&self, path: &str, _: &Value) -> Result<Value, Error> {
            Err(Error::new(path, "not asked for"))
        }

        fn delete(&self, path: &str, _: Option<&str>) -> Result<(), Error> {
            Err(Error::new(path, "not asked for"))
        }
    }

    fn record(workload: &str) -> Record {
        let workload = workload.parse().unwrap();
        let dns = "/apis/operator.openshift.io/v1/dnses/default";
        let object = json!({"spec": {}});
        let mut changes = vec![Change::of("dns", dns, &object, "/spec/x", vec![json!(1)])];
        changes.extend(crate::Workload::changes(&workload, &object, (0, "dns"), &[("new", "b1")]));
        Record::new("r", &workload, changes)
    }

    #[test]
    fn all_that_is_missing_is_told_at_once() {
        let denying = Denying(&[
            ["patch", "dnses"],
            ["delete", "leases"],
            ["create", "jobs"],
            ["get", "pods/log"],
            ["get", "nodes/proxy"],
        ]);
        let told = |workload: &str, by_job: bool| {
            let mut rights = needed(&record(workload), by_job);
            rights.push(Right::counters());
            let missing = missing(&denying, &rights).unwrap();
            missing.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let ours = [
            "patch dnses.operator.openshift.io default",
            "delete leases.coordination.k8s.io nodens-lab-swap-deployment-coredns in kube-system",
            "create jobs.batch in kube-system",
            "get pods/log in kube-system",
            "get nodes/proxy",
        ];
        assert_eq!(told("kube-system/deployment/coredns", true), ours);
        assert_eq!(told("kube-system/deployment/coredns", false), [ours[0], ours[1], ours[4]]);
    }

    #[test]
    fn each_kind_of_workload_has_its_rights_once() {
        let told = |workload: &str| {
            let all = needed(&record(workload), true);
            all.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let of = |all: &[String], part: &str| all.iter().filter(|one| one.contains(part)).count();
        let all = told("kube-system/deployment/coredns");
        assert_eq!(all[0], "get deployments.apps coredns in kube-system");
        assert_eq!((of(&all, "deployments.apps"), of(&all, "replicasets")), (2, 2));
        let all = told("kube-system/daemonset/coredns");
        assert_eq!((of(&all, "daemonsets.apps"), of(&all, "replicasets")), (2, 0));
    }
}
