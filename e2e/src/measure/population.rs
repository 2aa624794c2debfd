//! A cluster's worth of Services and endpoints, the same in every run.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use kube::Client;
use lab_load::Workload;
use nodens_wire::{Name, Type};
use serde_json::{Value, json};

use super::bulk::Write;

/// How many services there are for each namespace.
const SERVICES_PER_NAMESPACE: usize = 50;
/// One service of so many is headless.
const HEADLESS_EVERY: usize = 10;
/// Draws before the order of queries repeats.
const ORDER_LEN: usize = 1 << 18;

/// The most there may be: texts that differ from service to service are of the same length.
const SERVICES_MAX: usize = 50_000;
const ENDPOINTS_MAX: usize = 100;
const ADDRESSES_MAX: usize = 1_000_000;
/// Values of an octet that is three digits long in text.
const THREE_DIGITS: usize = 100;

/// The first octet of every pod's address, and where those that changed begin.
const FIRST: u64 = 11;
const CHANGED_FROM: u64 = 12;
const CHANGED: u64 = 80;

/// Services with one EndpointSlice each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Population {
    pub(crate) services: usize,
    /// Endpoints of each service.
    pub(crate) endpoints: usize,
}

impl Population {
    /// Whether there can be so many.
    pub(super) fn check(self) -> Result<()> {
        let Population { services, endpoints } = self;
        ensure!(
            (1..=SERVICES_MAX).contains(&services)
                && (1..=ENDPOINTS_MAX).contains(&endpoints)
                && services * endpoints <= ADDRESSES_MAX,
            "expected 1 to {SERVICES_MAX} services with 1 to {ENDPOINTS_MAX} endpoints, at most {ADDRESSES_MAX} in all"
        );
        Ok(())
    }

    /// How many namespaces it has.
    pub(super) fn namespaces(self) -> usize {
        self.services.div_ceil(SERVICES_PER_NAMESPACE)
    }

    /// The services that have an address of their own.
    pub(super) fn with_address(self) -> impl Iterator<Item = usize> {
        (0..self.services).filter(|n| !is_headless(*n))
    }

    /// Which service change number `number` is of: another one each time, a prime number further.
    pub(super) fn changed(self, number: u64) -> usize {
        (number as usize * 7919) % self.services
    }

    /// What stands at a place of the objects of service `n`. Each `version` but 0 has another
    /// address at one endpoint.
    pub(super) fn text(self, place: Place, n: usize, version: u64) -> String {
        let number = |at: usize| n * self.endpoints + at;
        let digits = |number: usize| {
            let octet = |size: usize| THREE_DIGITS + number / size % THREE_DIGITS;
            format!("{}.{}.{}", octet(THREE_DIGITS * THREE_DIGITS), octet(THREE_DIGITS), octet(1))
        };
        match place {
            Place::Namespace => namespace(n),
            Place::Service => service_name(n),
            Place::Uid => format!("10000000-0000-4000-8000-{n:012x}"),
            Place::ClusterAddress => format!("10.{}", digits(n)),
            Place::Address(at) => {
                let is_changed = version > 0 && at as u64 == version % self.endpoints as u64;
                let first = if is_changed { CHANGED_FROM + version % CHANGED } else { FIRST };
                format!("{first}.{}", digits(number(at)))
            }
            Place::Node(at) => format!("node-{:03}", (n + at) % 200),
            Place::Zone(at) => format!("zone-{}", (n + at) % 3),
            Place::PodUid(at) => format!("00000000-0000-4000-8000-{:012x}", number(at)),
            Place::Time => format!("{:.9}", jiff::Timestamp::now()),
        }
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

/// Something in an object that is another for each service. Those with a number are of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Namespace,
    Service,
    Uid,
    ClusterAddress,
    Address(usize),
    Node(usize),
    Zone(usize),
    PodUid(usize),
    /// When what led to the last change of the endpoints happened.
    Time,
}

/// What stands at places of a template: as long as what will stand there, and nowhere else.
pub(super) const NAMESPACE: &str = "scale-ttt";
pub(super) const SERVICE: &str = "service-ttttt";
pub(super) const CLUSTER_ADDRESS: &str = "10.109.199.199";
/// Those of endpoints: all of them begin so.
pub(super) const ADDRESS: &str = "11.199.199.";
pub(super) const NODE: &str = "node-ttt";
pub(super) const ZONE: &str = "zone-t";
pub(super) const POD_UID: &str = "00000000-0000-4000-8000-";
pub(super) const TIME: &str = "2000-01-01T00:00:00.000000001Z";

/// The namespace of service `n`.
pub(crate) fn namespace(n: usize) -> String {
    format!("scale-{:03}", n / SERVICES_PER_NAMESPACE)
}

/// The first service of a namespace.
pub(super) fn first_of(namespace: usize) -> usize {
    namespace * SERVICES_PER_NAMESPACE
}

pub(super) fn is_headless(n: usize) -> bool {
    n.is_multiple_of(HEADLESS_EVERY)
}

fn service_name(n: usize) -> String {
    format!("service-{n:05}")
}

/// The name of the EndpointSlice of a service.
pub(super) fn slice_name(service: &str) -> String {
    format!("{service}-x7k2p")
}

/// A template of a Service.
pub(super) fn service(is_headless: bool) -> Value {
    let address = if is_headless { "None" } else { CLUSTER_ADDRESS };
    json!({
        "metadata": {"name": SERVICE, "labels": {"app": SERVICE}},
        "spec": {"clusterIP": address, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    })
}

/// A template of an EndpointSlice, as the controller writes it.
pub(super) fn slice(endpoints: usize) -> Value {
    let endpoint = |at: usize| {
        json!({
            "addresses": [format!("{ADDRESS}{}", THREE_DIGITS + at)],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": NODE,
            "zone": ZONE,
            "targetRef": {
                "kind": "Pod",
                "namespace": NAMESPACE,
                "name": format!("{SERVICE}-7d9c8b6f5d-{at:05}"),
                "uid": format!("{POD_UID}{at:012x}"),
            },
        })
    };
    json!({
        "metadata": {
            "name": slice_name(SERVICE),
            "labels": {
                "kubernetes.io/service-name": SERVICE,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": TIME},
        },
        "addressType": "IPv4",
        "endpoints": (0..endpoints).map(endpoint).collect::<Vec<_>>(),
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
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

    const POPULATION: Population = Population { services: 10_000, endpoints: 10 };

    #[test]
    fn a_change_is_at_one_endpoint_and_every_service_has_its_turn() {
        let turns: std::collections::HashSet<_> =
            (0..10_000).map(|number| POPULATION.changed(number)).collect();
        assert_eq!(turns.len(), 10_000);
        for version in 1..200 {
            let differs = |at: &usize| {
                let text = |version| POPULATION.text(Place::Address(*at), 4321, version);
                text(version) != text(0)
            };
            assert_eq!((0..10).filter(differs).count(), 1, "{version}");
        }
    }

    #[test]
    fn texts_are_as_long_as_those_of_the_template_and_addresses_are_each_of_one_endpoint() {
        let mut addresses = std::collections::HashSet::new();
        for n in [0, 1, 99, 100, 5_555, 9_999] {
            for (place, len) in [
                (Place::Namespace, NAMESPACE.len()),
                (Place::Service, SERVICE.len()),
                (Place::ClusterAddress, CLUSTER_ADDRESS.len()),
                (Place::Node(9), NODE.len()),
                (Place::Zone(9), ZONE.len()),
                (Place::PodUid(9), POD_UID.len() + 12),
                (Place::Uid, POD_UID.len() + 12),
                (Place::Time, TIME.len()),
            ] {
                assert_eq!(POPULATION.text(place, n, 79).len(), len, "{place:?}");
            }
            for (at, version) in (0..10).flat_map(|at| (0..160).map(move |version| (at, version))) {
                let address = POPULATION.text(Place::Address(at), n, version);
                assert_eq!(address.len(), ADDRESS.len() + 3);
                assert!(address.parse::<IpAddr>().is_ok(), "{address}");
                addresses.insert((address[2..].to_owned(), n, at));
            }
        }
        assert_eq!(addresses.len(), 60);
    }

    #[test]
    fn a_population_that_texts_are_too_short_for_is_refused() {
        assert!(POPULATION.check().is_ok());
        for (services, endpoints) in [(0, 1), (1, 0), (50_001, 1), (1, 101), (20_000, 51)] {
            assert!(Population { services, endpoints }.check().is_err(), "{services} {endpoints}");
        }
    }
}
