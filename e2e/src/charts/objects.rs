//! Objects as the API server completes them, and whether two sets of them say the same.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// Labels that name the tool that installed an object.
const OF_HELM: &[&str] = &[
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/name",
    "app.kubernetes.io/version",
    "helm.sh/chart",
];

/// Objects by `KIND NAMESPACE/NAME`, without what differs from one creation to the next.
#[derive(Debug, Default)]
pub(super) struct Objects(BTreeMap<String, Value>);

impl Objects {
    /// What kubectl wrote with `-o json`: one object, a list, or several one after the other.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut objects = Objects::default();
        for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
            let value = value.context("what kubectl wrote")?;
            match value.get("items").and_then(Value::as_array) {
                Some(items) => items.iter().try_for_each(|item| objects.add(item))?,
                None => objects.add(&value)?,
            }
        }
        Ok(objects)
    }

    pub(super) fn extend(&mut self, other: Objects) {
        self.0.extend(other.0);
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    fn add(&mut self, object: &Value) -> Result<()> {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        ensure!(!kind.is_empty() && !name.is_empty(), "an object without a kind or a name");
        let key = format!("{kind} {}/{name}", text("/metadata/namespace"));
        let mut object = object.clone();
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| {
                ["name", "namespace", "labels", "annotations"].contains(&&**field)
            });
            if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
                labels.retain(|label, _| !OF_HELM.contains(&&**label));
            }
        }
        // Drawn anew for each.
        for field in ["clusterIP", "clusterIPs"] {
            if let Some(spec) = object.pointer_mut("/spec").and_then(Value::as_object_mut)
                && kind == "Service"
                && spec.get("clusterIP") != Some(&"None".into())
            {
                spec.insert(field.to_owned(), Value::Null);
            }
        }
        ensure!(self.0.insert(key.clone(), object).is_none(), "{key} is there twice");
        Ok(())
    }
}

/// Checks that the kubelet can ask every probe of the pods: it puts brackets around an IPv6 address itself.
pub(super) fn can_be_asked(objects: &Objects) -> Result<()> {
    for (name, object) in &objects.0 {
        let containers = object.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        for container in containers.into_iter().flatten() {
            for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
                let host = container.pointer(&format!("/{probe}/httpGet/host"));
                let Some(host) = host.and_then(Value::as_str) else { continue };
                let address = host.parse::<IpAddr>();
                ensure!(address.is_ok(), "{name}: {probe}: {host:?} is no address");
            }
        }
    }
    Ok(())
}

/// Checks that both sets are the same; the error names the first place that differs.
pub(super) fn hold(left: &Objects, right: &Objects) -> Result<()> {
    let names = |objects: &Objects| objects.0.keys().cloned().collect::<Vec<_>>();
    ensure!(names(left) == names(right), "{:?} and {:?}", names(left), names(right));
    for (name, object) in &left.0 {
        if let Some(difference) = difference(object, &right.0[name], "") {
            bail!("{name}: {difference}");
        }
    }
    Ok(())
}

/// The first place where two values differ.
fn difference(left: &Value, right: &Value, place: &str) -> Option<String> {
    match (left, right) {
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            a.iter().find_map(|(key, value)| difference(value, &b[key], &format!("{place}.{key}")))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .find_map(|(n, (a, b))| difference(a, b, &format!("{place}[{n}]"))),
        _ if left == right => None,
        _ => Some(format!("{place}: {left} and {right}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = r#"{"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b", "uid": "1",
        "labels": {"helm.sh/chart": "x"}}, "data": {"k": ["v", "w"]}}"#;

    fn differ(left: &str, right: &str) -> Option<String> {
        let parse = |text| Objects::parse(text).unwrap();
        hold(&parse(left), &parse(right)).err().map(|error| error.to_string())
    }

    #[test]
    fn what_helm_or_the_api_server_adds_makes_no_difference() {
        let other = MAP.replace("\"uid\": \"1\"", "\"uid\": \"2\"").replace("\"x\"", "\"y\"");
        assert_eq!(differ(MAP, &other), None);
        let list = format!("{{\"kind\": \"List\", \"items\": [{MAP}]}}");
        assert_eq!(differ(MAP, &list), None);
    }

    #[test]
    fn the_place_that_differs_is_named() {
        let found = differ(MAP, &MAP.replace("\"w\"", "\"z\"")).unwrap();
        assert_eq!(found, "ConfigMap b/a: .data.k[1]: \"w\" and \"z\"");
        assert!(differ(MAP, &MAP.replace("\"k\"", "\"l\"")).unwrap().contains(".data"));
        assert!(differ(MAP, &MAP.replace("\"a\"", "\"c\"")).unwrap().contains("ConfigMap b/c"));
        assert!(Objects::parse(&format!("{MAP}{MAP}")).is_err());
    }

    #[test]
    fn a_probe_that_the_kubelet_cannot_ask_is_noticed() {
        let asked = |host: &str| {
            let probe = format!(r#"{{"httpGet": {{"host": "{host}", "port": 8080}}}}"#);
            let pod = format!(r#"{{"spec": {{"containers": [{{"livenessProbe": {probe}}}]}}}}"#);
            let text = format!(
                r#"{{"kind": "DaemonSet", "metadata": {{"name": "a", "namespace": "b"}}, "spec": {{"template": {pod}}}}}"#
            );
            can_be_asked(&Objects::parse(&text).unwrap()).map_err(|error| error.to_string())
        };
        assert_eq!(asked("169.254.20.10"), Ok(()));
        assert_eq!(asked("fd00:53::10"), Ok(()));
        let error = asked("[fd00:53::10]").unwrap_err();
        assert_eq!(error, "DaemonSet b/a: livenessProbe: \"[fd00:53::10]\" is no address");
        assert!(can_be_asked(&Objects::parse(MAP).unwrap()).is_ok());
    }
}
