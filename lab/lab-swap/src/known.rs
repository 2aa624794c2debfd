//! Which changes a record may have: those that runs make.

use crate::change::Change;
use crate::workload::{MARK, Workload};
use serde_json::{Value, json};

/// What is changed beside the workload: path, field, and its value during a run. `*` is a name.
fn beside() -> [(&'static str, &'static str, Value); 5] {
    [
        ("/apis/operator.openshift.io/v1/dnses/*", "/spec/managementState", json!("Unmanaged")),
        (
            "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/*/kustomizations/*",
            "/spec/suspend",
            json!(true),
        ),
        (
            "/apis/helm.toolkit.fluxcd.io/v2/namespaces/*/helmreleases/*",
            "/spec/suspend",
            json!(true),
        ),
        (
            "/apis/argoproj.io/v1alpha1/namespaces/*/applications/*",
            "/spec/syncPolicy/automated",
            Value::Null,
        ),
        ("/apis/apps/v1/namespaces/*/deployments/*", "/spec/replicas", json!(0)),
    ]
}

/// Whether a run of `workload` makes such a change.
pub(crate) fn is_known(workload: &Workload, change: &Change) -> bool {
    (change.path == workload.path() && is_own(change)) || is_beside(change)
}

/// The image of a container that is known by its name, or the mark.
fn is_own(change: &Change) -> bool {
    let list = "/spec/template/spec/containers/";
    let mark = format!("/spec/template/metadata/annotations/{}", MARK.replace('/', "~1"));
    let Some((place, "image")) =
        change.pointer.strip_prefix(list).and_then(|rest| rest.split_once('/'))
    else {
        return change.pointer == mark && change.guard.is_none();
    };
    let name = format!("{list}{place}/name");
    let is_named =
        change.guard.as_ref().is_some_and(|(at, value)| *at == name && value.is_string());
    place.parse::<u16>().is_ok() && is_named
}

fn is_beside(change: &Change) -> bool {
    change.guard.is_none()
        && beside().iter().any(|(path, pointer, during)| {
            is_path(path, &change.path)
                && change.pointer == *pointer
                && change.during == [during.clone()]
        })
}

/// Whether `path` is one of `pattern`.
fn is_path(pattern: &str, path: &str) -> bool {
    let (wanted, found) = (pattern.split('/'), path.split('/'));
    wanted.clone().count() == found.clone().count()
        && wanted
            .zip(found)
            .all(|(wanted, found)| wanted == found || (wanted == "*" && is_name(found)))
}

/// A name of an object (RFC 1123 section 2.1): nothing that leads to another path.
fn is_name(text: &str) -> bool {
    let is_fine =
        |octet: u8| octet.is_ascii_lowercase() || octet.is_ascii_digit() || b"-.".contains(&octet);
    text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.bytes().all(is_fine)
}
