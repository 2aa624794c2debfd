//! What a name is, for rules of `docs/differences.md` that hold only for some: ` (KIND)` after the question.

use std::collections::HashSet;

use super::object::base;
use super::settle::State;

/// Knows the objects.
pub(crate) struct About {
    aliases: HashSet<String>,
    imports: HashSet<String>,
}

/// Zones of clusters, with dots around them.
const ZONES: [&str; 3] = [".cluster.local.", ".clusterset.local.", ".other.example."];

impl About {
    pub(crate) fn new(state: &State) -> Self {
        let alias = |service: &&serde_json::Value| service["spec"]["type"] == "ExternalName";
        let aliases = state.services.iter().filter(alias).map(base).collect();
        let addresses = |slice: &serde_json::Value| {
            let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
            let address = |endpoint: &serde_json::Value| {
                endpoint["addresses"][0].as_str().and_then(|text| text.parse().ok())
            };
            endpoints
                .iter()
                .filter_map(address)
                .map(super::object::reverse_name)
                .collect::<Vec<_>>()
        };
        let imported = |slice: &&serde_json::Value| {
            slice["metadata"]["labels"]["kubernetes.io/service-name"].is_null()
        };
        let imports = state.slices.iter().filter(imported).flat_map(addresses).collect();
        About { aliases, imports }
    }

    /// ` (structure)` for names that a cluster's zone has whatever is in it, and those of namespaces; ` (alias)` for
    /// ExternalName Services; ` (import)` for addresses of endpoints that are only a ServiceImport's; else nothing.
    pub(crate) fn of(&self, qname: &str) -> &'static str {
        let name = format!(".{}", qname.to_ascii_lowercase());
        if self.imports.contains(&name[1..]) {
            return " (import)";
        }
        let Some(inside) = ZONES.iter().find_map(|zone| {
            // The dot before the zone is that before the name when it is the zone itself.
            name.strip_suffix(&zone[1..])?.strip_suffix('.')
        }) else {
            return "";
        };
        let labels: Vec<&str> = inside.split('.').skip(1).collect();
        match labels[..] {
            [] | [_] | [_, "svc" | "pod" | "dns"] | [.., "dns-version"] => " (structure)",
            // Labels of a port and a protocol without names stand for any.
            [ref ports @ .., service, namespace, "svc"]
                if ports.iter().all(|label| *label == "_") && self.is_alias(service, namespace) =>
            {
                " (alias)"
            }
            _ => "",
        }
    }

    fn is_alias(&self, service: &str, namespace: &str) -> bool {
        self.aliases.contains(&format!("{service}.{namespace}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_of_each_kind() {
        let metadata = json!({"name": "far", "namespace": "default"});
        let alias = json!({"metadata": metadata, "spec": {"type": "ExternalName"}});
        let slice = json!({"metadata": {}, "endpoints": [{"addresses": ["10.0.0.7"]}]});
        let state = State { services: vec![alias], slices: vec![slice], ..State::default() };
        let about = About::new(&state);
        for name in [
            "Cluster.local.",
            "svc.cluster.local.",
            "default.svc.cluster.local.",
            "ns.dns.clusterset.local.",
        ] {
            assert_eq!(about.of(name), " (structure)", "{name}");
        }
        assert_eq!(about.of("far.default.svc.cluster.local."), " (alias)");
        assert_eq!(about.of("7.0.0.10.in-addr.arpa."), " (import)");
        for name in
            ["near.default.svc.cluster.local.", "example.org.", "x.far.default.svc.cluster.local."]
        {
            assert_eq!(about.of(name), "", "{name}");
        }
    }
}
