//! Who would undo a change of a workload, and the change that pauses them.

use crate::api::{Api, Error};
use crate::change::Change;
use crate::workload::Workload;
use serde_json::{Value, json};

/// Who watches over a workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Owner {
    /// Can be paused by a change of an object.
    Pausable {
        /// Its name.
        name: String,
        /// The change.
        change: Change,
    },
    /// Would undo the change and cannot be paused from here.
    Undoes {
        /// Its name.
        name: String,
        /// What can be done instead.
        hint: String,
    },
    /// Lets changes be, but there is something to know.
    Known {
        /// Its name.
        name: String,
        /// What.
        note: String,
    },
}

/// The owners of a workload by its labels, annotations and owner references.
///
/// # Errors
///
/// What the server said, or that an object that should pause an owner is not there.
pub fn owners(api: &dyn Api, workload: &Workload, object: &Value) -> Result<Vec<Owner>, Error> {
    let mut owners = Vec::new();
    owners.extend(openshift(api, object)?);
    owners.extend(flux(api, object)?);
    owners.extend(argo(api, workload, object)?);
    owners.extend(addons(object));
    let known = owners.iter().any(|owner| matches!(owner, Owner::Pausable { .. }));
    owners.extend(controller(object).filter(|_| !known));
    Ok(owners)
}

/// A Deployment that is scaled to 0 for the time of the run: `NAMESPACE/NAME`.
///
/// # Errors
///
/// What the server said, or that there is no such Deployment.
pub fn scaled_down(api: &dyn Api, text: &str) -> Result<Change, Error> {
    let wrong = |message: &str| Error::new(format!("`{text}`"), message);
    let (namespace, name) = text
        .split_once('/')
        .filter(|(_, name)| !name.contains('/'))
        .ok_or_else(|| wrong("expected NAMESPACE/DEPLOYMENT"))?;
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}");
    let object = api.get(&path)?.ok_or_else(|| wrong("there is no such Deployment"))?;
    let what = format!("replicas of {text}");
    Ok(Change::of(&what, &path, &object, "/spec/replicas", vec![json!(0)]))
}

/// OpenShift's DNS operator leaves a DNS alone whose `managementState` is `Unmanaged`.
fn openshift(api: &dyn Api, object: &Value) -> Result<Option<Owner>, Error> {
    let Some(dns) = labelled(object, "labels", "dns.operator.openshift.io/owning-dns") else {
        return Ok(None);
    };
    let path = format!("/apis/operator.openshift.io/v1/dnses/{dns}");
    let (what, pointer) = (format!("managementState of DNS {dns}"), "/spec/managementState");
    let change = change(api, &what, &path, pointer, json!("Unmanaged"))?;
    Ok(Some(Owner::Pausable { name: "OpenShift's DNS operator".to_owned(), change }))
}

/// Flux suspends what has `spec.suspend`.
fn flux(api: &dyn Api, object: &Value) -> Result<Vec<Owner>, Error> {
    let mut owners = Vec::new();
    for (group, version, plural, kind) in [
        ("kustomize", "v1", "kustomizations", "Kustomization"),
        ("helm", "v2", "helmreleases", "HelmRelease"),
    ] {
        let group = format!("{group}.toolkit.fluxcd.io");
        let of = |what: &str| labelled(object, "labels", &format!("{group}/{what}"));
        let (Some(name), Some(namespace)) = (of("name"), of("namespace")) else { continue };
        let path = format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}");
        let what = format!("suspend of {kind} {namespace}/{name}");
        let change = change(api, &what, &path, "/spec/suspend", json!(true))?;
        owners.push(Owner::Pausable { name: format!("Flux's {kind} {namespace}/{name}"), change });
    }
    Ok(owners)
}

/// Argo CD syncs by itself where an Application has `spec.syncPolicy.automated`.
fn argo(api: &dyn Api, workload: &Workload, object: &Value) -> Result<Vec<Owner>, Error> {
    let tracked = labelled(object, "annotations", "argocd.argoproj.io/tracking-id");
    let instance = labelled(object, "labels", "app.kubernetes.io/instance")
        .or_else(|| labelled(object, "labels", "argocd.argoproj.io/instance"));
    if tracked.is_none() && instance.is_none() {
        return Ok(Vec::new());
    }
    // Without Argo CD there is no such collection.
    let Some(list) = api.get("/apis/argoproj.io/v1alpha1/applications")? else {
        return Ok(Vec::new());
    };
    let apps = list.pointer("/items").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut owners = Vec::new();
    for app in apps.iter().filter(|app| deploys(app, workload)) {
        let of = |pointer| app.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (namespace, name) = (of("/metadata/namespace"), of("/metadata/name"));
        let path = format!("/apis/argoproj.io/v1alpha1/namespaces/{namespace}/applications/{name}");
        let what = format!("automated sync of Application {namespace}/{name}");
        let pointer = "/spec/syncPolicy/automated";
        if app.pointer(pointer).is_some_and(|automated| !automated.is_null()) {
            let change = Change::of(&what, &path, app, pointer, vec![Value::Null]);
            owners.push(Owner::Pausable {
                name: format!("Argo CD's Application {namespace}/{name}"),
                change,
            });
        }
    }
    Ok(owners)
}

/// Whether an Application says that the workload is one of its resources.
fn deploys(app: &Value, workload: &Workload) -> bool {
    let resources = app.pointer("/status/resources").and_then(Value::as_array);
    resources.into_iter().flatten().any(|resource| {
        let is = |key: &str, value: &str| resource.get(key).and_then(Value::as_str) == Some(value);
        is("kind", workload.kind.name())
            && is("namespace", &workload.namespace)
            && is("name", &workload.name)
    })
}

/// Managers of clouds, which run outside of the cluster.
fn addons(object: &Value) -> Option<Owner> {
    if labelled(object, "labels", "addonmanager.kubernetes.io/mode") == Some("Reconcile") {
        let hint = "it runs outside of the cluster and puts its own image back; measure a Deployment \
                    of your own beside it, or give --owned-anyway and watch the result";
        let name = "the addon manager (GKE, AKS)".to_owned();
        return Some(Owner::Undoes { name, hint: hint.to_owned() });
    }
    let component = labelled(object, "labels", "eks.amazonaws.com/component")?;
    let note = "it overwrites the image when the add-on is updated: leave it alone during the run";
    Some(Owner::Known { name: format!("EKS ({component})"), note: note.to_owned() })
}

/// An object that says that it controls the workload.
fn controller(object: &Value) -> Option<Owner> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let controller = owners.iter().find(|one| one.get("controller") == Some(&json!(true)))?;
    let of = |key: &str| controller.get(key).and_then(Value::as_str).unwrap_or_default();
    let name = format!("{} {} ({})", of("kind"), of("name"), of("apiVersion"));
    let hint = "its operator may put the image back: stop it with --scale-down NAMESPACE/DEPLOYMENT, \
                or give --owned-anyway and watch the result";
    Some(Owner::Undoes { name, hint: hint.to_owned() })
}

fn change(
    api: &dyn Api,
    what: &str,
    path: &str,
    pointer: &str,
    during: Value,
) -> Result<Change, Error> {
    let object = api.get(path)?.ok_or_else(|| Error::new(what, format!("there is no {path}")))?;
    Ok(Change::of(what, path, &object, pointer, vec![during]))
}

fn labelled<'v>(object: &'v Value, part: &str, name: &str) -> Option<&'v str> {
    object.pointer("/metadata")?.get(part)?.get(name)?.as_str()
}
