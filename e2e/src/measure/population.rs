//! A cluster's worth of Services and endpoints, the same in every run.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use lab_load::Workload;
use nodens_wire::{Name, Type};
use serde_json::{Value, json};

use super::bulk::{self, Write};

/// How many services there are for each namespace.
const SERVICES_PER_NAMESPACE: usize = 50;
/// One service of so many is headless.
const HEADLESS_EVERY: usize = 10;
/// Draws before the order of questions repeats.
const ORDER_LEN: usize = 1 << 18;

/// Services with one EndpointSlice each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Population {
    pub(crate) services: usize,
    /// Endpoints of each service.
    pub(crate) endpoints: usize,
}

impl Population {
    /// Creates it; how long that took.
    pub(crate) async fn create(self, client: &Client) -> Result<Duration> {
        let namespaces = (0..self.services.div_ceil(SERVICES_PER_NAMESPACE)).map(|n| {
            let name = format!("scale-{n:03}");
            Write::create("/api/v1/namespaces", json!({"metadata": {"name": name}}))
        });
        let mut took = bulk::all(client, namespaces).await?;
        let services = (0..self.services).map(|n| {
            let path = format!("/api/v1/namespaces/{}/services", namespace(n));
            Write::create(path, service(n))
        });
        took += bulk::all(client, services).await?;
        let slices = (0..self.services).map(move |n| {
            let path = slices(&namespace(n));
            Write::create(path, self.slice(n, 0))
        });
        took += bulk::all(client, slices).await?;
        Ok(took)
    }

    /// The EndpointSlice of service `n`. Each `version` has another address at one place.
    fn slice(self, n: usize, version: u64) -> Value {
        let endpoint = |at: usize| {
            let pod = format!("service-{n:05}-7d9c8b6f5d-{at:05}");
            let changed = version > 0 && at == (version as usize) % self.endpoints;
            let number = (n * self.endpoints + at) as u64;
            json!({
                "addresses": [address(if changed { (1 << 22) + number + version } else { number })],
                "conditions": {"ready": true, "serving": true, "terminating": false},
                "nodeName": format!("node-{:03}", (n + at) % 200),
                "zone": format!("zone-{}", (n + at) % 3),
                "targetRef": {
                    "kind": "Pod", "namespace": namespace(n), "name": pod,
                    "uid": format!("00000000-0000-4000-8000-{number:012x}"),
                },
            })
        };
        let metadata = json!({
            "name": slice_name(n),
            "labels": {
                "kubernetes.io/service-name": service_name(n),
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
        });
        json!({
            "metadata": metadata,
            "addressType": "IPv4",
            "endpoints": (0..self.endpoints).map(endpoint).collect::<Vec<_>>(),
            "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
        })
    }

    /// Change number `number` of an endpoint, each time of another service.
    pub(crate) fn change(self, number: u64) -> Write {
        // A prime number of services further each time.
        let n = (number as usize * 7919) % self.services;
        let path = format!("{}/{}", slices(&namespace(n)), slice_name(n));
        let version = 1 + number / self.services as u64;
        Write::replace(path, self.slice(n, version))
    }

    /// Every service's name, asked for its addresses: each once, and drawn at random.
    pub(crate) fn questions(self, seed: u64) -> Result<(Workload, Workload)> {
        let mut once = Workload::new(seed);
        for n in 0..self.services {
            once.push(Name::parse(&self.name(n))?.view(), Type::A, None);
        }
        let mut drawn = once.clone();
        drawn.shuffle(ORDER_LEN);
        Ok((once, drawn))
    }

    /// The name of service `n`.
    pub(crate) fn name(self, n: usize) -> String {
        format!("{}.{}.svc.cluster.local.", service_name(n), namespace(n))
    }
}

/// The namespace of service `n`.
pub(crate) fn namespace(n: usize) -> String {
    format!("scale-{:03}", n / SERVICES_PER_NAMESPACE)
}

fn service_name(n: usize) -> String {
    format!("service-{n:05}")
}

fn slice_name(n: usize) -> String {
    format!("service-{n:05}-x7k2p")
}

/// The key of the EndpointSlice of service `n` in the store.
pub(crate) fn stored_slice(n: usize) -> String {
    format!("/registry/endpointslices/{}/{}", namespace(n), slice_name(n))
}

fn slices(namespace: &str) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices")
}

/// An address of a pod.
fn address(number: u64) -> IpAddr {
    Ipv4Addr::from_bits(0x0b00_0000 + (number as u32 & 0xff_ffff)).into()
}

fn service(n: usize) -> Value {
    let mut spec = json!({"ports": [{"name": "http", "port": 80, "targetPort": 8080}]});
    if n.is_multiple_of(HEADLESS_EVERY) {
        spec["clusterIP"] = json!("None");
    }
    json!({
        "metadata": {"name": service_name(n), "labels": {"app": service_name(n)}},
        "spec": spec,
    })
}

/// A Service without endpoints, its cluster address chosen by the API server; the address.
pub(crate) async fn create_service(client: &Client, namespace: &str, name: &str) -> Result<IpAddr> {
    let path = format!("/api/v1/namespaces/{namespace}/services");
    let body = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    let object = Write::create(path, body).send(client).await?;
    let address = object["spec"]["clusterIP"].as_str().context("a Service without address")?;
    address.parse().context("the address of a Service")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_at_one_endpoint_and_every_service_has_its_turn() {
        let population = Population { services: 100, endpoints: 10 };
        let mut changed = std::collections::HashSet::new();
        for number in 0..100 {
            let write = population.change(number);
            assert!(changed.insert(write.path.clone()), "{} twice", write.path);
            let text = write.body.to_string();
            assert_eq!(text.matches("\"11.64.").count(), 1, "{text}");
        }
        assert_ne!(population.slice(3, 1), population.slice(3, 2));
    }
}
