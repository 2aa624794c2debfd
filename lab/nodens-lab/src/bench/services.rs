//! The Services of the Kubernetes rows, and the queries about them.

use super::apiserver::{ApiServer, Listing};
use anyhow::{Result, bail};
use lab_load::{Outcome, Workload};
use nodens_wire::{Name, Type};

/// Services; as many names that search lists make are asked.
const SERVICES: usize = 5_000;
/// Namespaces that they lie in.
const NAMESPACES: usize = 50;
/// Draws before the order of names repeats.
const ORDER_LEN: usize = 1 << 18;

/// Services with a cluster address, a port and two ready endpoints each.
pub(super) struct Population {
    services: usize,
}

impl Population {
    pub(super) fn new(services: usize) -> Self {
        Self { services }
    }

    /// The name of a Service in the cluster's zone.
    fn name(n: usize) -> String {
        format!("service-{n:04}.ns-{:02}.svc.cluster.local.", n % NAMESPACES)
    }

    /// Everything the API server lists.
    pub(super) fn listings(&self) -> Vec<Listing> {
        let all = |of: fn(usize) -> String| (0..self.services).map(of).collect();
        let listing = |path, api_version, kind, items| Listing { path, api_version, kind, items };
        let namespaces = (0..NAMESPACES).map(namespace).collect();
        let slices = "/apis/discovery.k8s.io/v1/endpointslices";
        vec![
            listing("/api/v1/namespaces", "v1", "Namespace", namespaces),
            listing("/api/v1/services", "v1", "Service", all(service)),
            listing("/api/v1/pods", "v1", "Pod", Vec::new()),
            listing(slices, "discovery.k8s.io/v1", "EndpointSlice", all(slice)),
        ]
    }
}

/// `metadata` of object `name` in the namespace of Service `n`, with more fields in `rest`.
fn metadata(name: &str, n: usize, rest: &str) -> String {
    format!(
        r#""metadata":{{"name":"{name}","namespace":"ns-{:02}","uid":"{name}","resourceVersion":"{}","creationTimestamp":"2026-01-01T00:00:00Z"{rest}}}"#,
        n % NAMESPACES,
        n + 1
    )
}

fn namespace(n: usize) -> String {
    format!(
        r#"{{"metadata":{{"name":"ns-{n:02}","uid":"ns-{n}","resourceVersion":"{}","creationTimestamp":"2026-01-01T00:00:00Z"}},"spec":{{}},"status":{{"phase":"Active"}}}}"#,
        n + 1
    )
}

fn service(n: usize) -> String {
    let address = format!("10.96.{}.{}", (n >> 8) & 255, n & 255);
    format!(
        r#"{{{},"spec":{{"type":"ClusterIP","clusterIP":"{address}","clusterIPs":["{address}"],"ipFamilies":["IPv4"],"ports":[{{"name":"http","protocol":"TCP","port":80,"targetPort":8080}}]}},"status":{{"loadBalancer":{{}}}}}}"#,
        metadata(&format!("service-{n:04}"), n, "")
    )
}

fn slice(n: usize) -> String {
    let endpoint = |at: usize| {
        format!(
            r#"{{"addresses":["10.244.{}.{}"],"conditions":{{"ready":true}}}}"#,
            ((2 * n) >> 8) & 255,
            (2 * n + at) & 255
        )
    };
    let service = format!("service-{n:04}");
    let label = format!(r#","labels":{{"kubernetes.io/service-name":"{service}"}}"#);
    format!(
        r#"{{{},"addressType":"IPv4","endpoints":[{},{}],"ports":[{{"name":"http","protocol":"TCP","port":8080}}]}}"#,
        metadata(&format!("{service}-x"), n, &label),
        endpoint(0),
        endpoint(1)
    )
}

/// The API server and the queries of the Kubernetes rows.
pub(super) struct Services {
    pub(super) api: ApiServer,
    /// Services' names, and the same each once.
    pub(super) names: (Workload, Workload),
    /// Names that search lists make of `www.example-N.com` and that do not exist; each once.
    pub(super) noise: (Workload, Workload),
    /// The Service that comes last: a server that knows it knows all.
    pub(super) last: Name,
}

impl Services {
    pub(super) fn start(seed: u64) -> Result<Self> {
        let workload = |name: fn(usize) -> String| -> Result<(Workload, Workload)> {
            let mut once = Workload::new(seed);
            for n in 0..SERVICES {
                once.push(Name::parse(&name(n))?.view(), Type::A, None);
            }
            let mut drawn = once.clone();
            drawn.shuffle(ORDER_LEN);
            Ok((drawn, once))
        };
        Ok(Self {
            api: ApiServer::start(&Population::new(SERVICES))?,
            names: workload(Population::name)?,
            noise: workload(|n| {
                let search = ["svc.cluster.local.", "cluster.local."];
                let namespace = format!("ns-{:02}.svc.cluster.local.", n % NAMESPACES);
                let suffix = search.get(n % 3).copied().unwrap_or(&namespace);
                format!("www.example-{n:04}.com.{suffix}")
            })?,
            last: Name::parse(&Population::name(SERVICES - 1))?,
        })
    }
}

/// Refuses an outcome in which an answer had another RCODE than these.
pub(super) fn expect_rcodes(outcome: Outcome, expected: &[u16]) -> Result<Outcome> {
    let rcodes = &outcome.tally.rcodes;
    let others = rcodes.total() - expected.iter().map(|rcode| rcodes.get(*rcode)).sum::<u64>();
    if others > 0 || rcodes.total() == 0 {
        bail!(
            "expected RCODE {expected:?} in every answer, but {others} of {} had another: {rcodes:?}",
            rcodes.total()
        );
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_is_json_and_names_are_those_of_services() {
        for listing in Population::new(300).listings() {
            for item in &listing.items {
                let object: serde_json::Value = serde_json::from_str(item).unwrap();
                assert!(object["metadata"]["name"].is_string(), "{item}");
            }
        }
        assert_eq!(Population::name(51), "service-0051.ns-01.svc.cluster.local.");
        let slice: serde_json::Value = serde_json::from_str(&slice(200)).unwrap();
        assert_eq!(slice["endpoints"][1]["addresses"][0], "10.244.1.145");
        assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "service-0200");
    }
}
