//! A population, and changes of its endpoints, written into the store past the API server, which sees them like
//! anything else that is written there.
//!
//! Through the API server, a write costs several times as much CPU as all that follows from it: reading, checking and
//! converting an object, then a transaction. What is measured are the watchers of objects. The API server makes one
//! object of each kind; the others are copies of what it stored, with texts of the same length in their places.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kube::Client;
use serde_json::{Value, json};

use super::bulk::{self, Write};
use super::etcd::Etcd;
use super::population::{self as texts, Place, Population};
use crate::control_plane::http_get;

/// How long the API server may take to see all changes.
const HEARD_TIMEOUT: Duration = Duration::from_secs(120);

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces";

/// A population in the store, and the way to it.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    etcd: Etcd,
    population: Population,
    slice: Template,
}

/// The place of the endpoint with a number.
type OfEndpoint = fn(usize) -> Place;

/// A stored object with places that differ from service to service.
#[derive(Debug, Clone)]
struct Template {
    octets: Vec<u8>,
    /// What stands where.
    places: Vec<(usize, Place)>,
}

impl Store {
    /// Writes `population` and waits until the API server has heard of it.
    pub(crate) async fn fill(population: Population, client: &Client) -> Result<Self> {
        population.check()?;
        let etcd = Etcd::connect().await?;
        let maker = Maker { client, etcd: &etcd };
        let namespace = maker.namespace().await?;
        let service = maker.service(false).await?;
        let address = maker.address().await?;
        maker.delete_service().await?;
        let headless = maker.service(true).await?;
        maker.delete_service().await?;
        let slice = maker.slice(population.endpoints).await?;
        let store = Store { etcd, population, slice };

        let first = (0..population.namespaces()).map(texts::first_of);
        store.write(first, &namespace, |n| format!("namespaces/{}", texts::namespace(n))).await?;
        let key = |n| format!("ipaddresses/{}", population.text(Place::ClusterAddress, n, 0));
        store.write(population.with_address(), &address, key).await?;
        let of_service = |n| population.text(Place::Service, n, 0);
        let key = |n| format!("services/specs/{}/{}", texts::namespace(n), of_service(n));
        store.write(population.with_address(), &service, key).await?;
        let others = (0..population.services).filter(|n| texts::is_headless(*n));
        store.write(others, &headless, key).await?;
        store.write(0..population.services, &store.slice, |n| store.slice_key(n)).await?;
        store.heard(client).await?;
        Ok(store)
    }

    async fn write(
        &self,
        services: impl Iterator<Item = usize>,
        template: &Template,
        key: impl Fn(usize) -> String,
    ) -> Result<()> {
        bulk::all(services.map(|n| self.put(template, &key(n), n, 0))).await
    }

    fn put(
        &self,
        template: &Template,
        key: &str,
        n: usize,
        version: u64,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let object = template.fill(self.population, n, version);
        self.etcd.put(&format!("/registry/{key}"), &object)
    }

    fn slice_key(&self, n: usize) -> String {
        let name = texts::slice_name(&self.population.text(Place::Service, n, 0));
        format!("endpointslices/{}/{name}", texts::namespace(n))
    }

    /// Change number `number` of an endpoint, each time of another service.
    pub(crate) fn change(&self, number: u64) -> impl Future<Output = Result<()>> + Send + use<> {
        let n = self.population.changed(number);
        let version = 1 + number / self.population.services as u64;
        self.put(&self.slice, &self.slice_key(n), n, version)
    }

    /// Waits until the API server answers from its memory with the objects that were written last.
    async fn heard(&self, client: &Client) -> Result<()> {
        let last = self.population.services - 1;
        let namespace = texts::namespace(last);
        let service = self.population.text(Place::Service, last, 0);
        let slice = texts::slice_name(&service);
        let deadline = Instant::now() + HEARD_TIMEOUT;
        for path in [
            format!("/api/v1/namespaces/{namespace}/services/{service}"),
            format!("{SLICES}/{namespace}/endpointslices/{slice}"),
        ] {
            let path = format!("{path}?resourceVersion=0");
            while let Err(error) = client.request_text(http_get(&path)?).await {
                if Instant::now() > deadline {
                    bail!("the API server does not see what is in its store: {error}");
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }
}

/// Has the API server make objects, and takes them out of the store.
struct Maker<'a> {
    client: &'a Client,
    etcd: &'a Etcd,
}

impl Maker<'_> {
    async fn namespace(&self) -> Result<Template> {
        let body = json!({"metadata": {"name": texts::NAMESPACE}});
        let made = Write::create("/api/v1/namespaces", body).send(self.client).await?;
        self.template(&format!("namespaces/{}", texts::NAMESPACE), &made).await
    }

    async fn service(&self, is_headless: bool) -> Result<Template> {
        let body = texts::service(is_headless);
        let made = Write::create(services(), body).send(self.client).await?;
        let key = format!("services/specs/{}/{}", texts::NAMESPACE, texts::SERVICE);
        self.template(&key, &made).await
    }

    async fn delete_service(&self) -> Result<()> {
        let path = format!("{}/{}", services(), texts::SERVICE);
        Write::delete(path).send(self.client).await?;
        Ok(())
    }

    /// What says that the address of a service is taken.
    async fn address(&self) -> Result<Template> {
        let path = format!("/apis/networking.k8s.io/v1/ipaddresses/{}", texts::CLUSTER_ADDRESS);
        let made = self.client.request(http_get(&path)?).await.context(path)?;
        self.template(&format!("ipaddresses/{}", texts::CLUSTER_ADDRESS), &made).await
    }

    async fn slice(&self, endpoints: usize) -> Result<Template> {
        let path = format!("{SLICES}/{}/endpointslices", texts::NAMESPACE);
        let body = texts::slice(endpoints);
        let made = Write::create(&path, body).send(self.client).await?;
        let name = texts::slice_name(texts::SERVICE);
        let template =
            self.template(&format!("endpointslices/{}/{name}", texts::NAMESPACE), &made).await?;
        Write::delete(format!("{path}/{name}")).send(self.client).await?;
        let addresses = template.places.iter().filter(|(_, place)| is_address(*place)).count();
        ensure!(addresses == endpoints, "{addresses} of {endpoints} addresses in the store");
        Ok(template)
    }

    async fn template(&self, key: &str, made: &Value) -> Result<Template> {
        let octets = self.etcd.get(&format!("/registry/{key}")).await?;
        let uid = made["metadata"]["uid"].as_str().context("an object without UID")?;
        let template = Template::new(octets, uid);
        ensure!(template.places.iter().any(|(_, place)| *place == Place::Uid), "{key} has no UID");
        Ok(template)
    }
}

fn services() -> String {
    format!("/api/v1/namespaces/{}/services", texts::NAMESPACE)
}

fn is_address(place: Place) -> bool {
    matches!(place, Place::Address(_))
}

impl Template {
    fn new(octets: Vec<u8>, uid: &str) -> Self {
        let of_all = [
            (texts::NAMESPACE, Place::Namespace),
            (texts::SERVICE, Place::Service),
            (uid, Place::Uid),
            (texts::CLUSTER_ADDRESS, Place::ClusterAddress),
            (texts::TIME, Place::Time),
        ];
        let of_endpoints: [(&str, OfEndpoint); 4] = [
            (texts::ADDRESS, Place::Address),
            (texts::NODE, Place::Node),
            (texts::ZONE, Place::Zone),
            (texts::POD_UID, Place::PodUid),
        ];
        let mut places = Vec::new();
        for (text, place) in of_all {
            places.extend(occurrences(&octets, text).map(|at| (at, place)));
        }
        for (text, place) in of_endpoints {
            let numbered = occurrences(&octets, text).enumerate();
            places.extend(numbered.map(|(number, at)| (at, place(number))));
        }
        Template { octets, places }
    }

    /// The object of service `n`.
    fn fill(&self, population: Population, n: usize, version: u64) -> Vec<u8> {
        let mut octets = self.octets.clone();
        for (at, place) in &self.places {
            let text = population.text(*place, n, version);
            octets[*at..*at + text.len()].copy_from_slice(text.as_bytes());
        }
        octets
    }
}

/// Where `text` stands in `octets`.
fn occurrences(octets: &[u8], text: &str) -> impl Iterator<Item = usize> {
    let windows = octets.windows(text.len()).enumerate();
    windows.filter(move |(_, window)| *window == text.as_bytes()).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_its_own_texts_in_every_place_and_is_otherwise_the_template() {
        let population = Population { services: 100, endpoints: 2 };
        let stored = format!("k8s\0{}", texts::slice(2));
        let template = Template::new(stored.clone().into_bytes(), "no-uid-in-here");
        let filled = String::from_utf8(template.fill(population, 55, 0)).unwrap();
        assert_eq!(filled.len(), stored.len());
        let parts = [
            "\"service-00055-x7k2p\"",
            "\"service-00055-7d9c8b6f5d-00001\"",
            "\"11.100.101.110\"",
            "\"11.100.101.111\"",
            "\"node-055\"",
            "\"node-056\"",
            "\"zone-1\"",
            "-8000-00000000006f\"",
        ];
        for part in parts {
            assert_eq!(filled.matches(part).count(), 1, "{part} in {filled}");
        }
        assert_eq!(filled.matches("\"scale-001\"").count(), 2);
        assert!(!filled.contains("ttt") && !filled.contains(texts::TIME), "{filled}");
        let changed = String::from_utf8(template.fill(population, 55, 3)).unwrap();
        assert!(changed.contains("\"15.100.101.111\"") && changed.contains("\"11.100.101.110\""));
    }
}
