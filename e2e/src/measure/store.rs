//! Changes of endpoints written into the store, past the API server, which hears of them like of any other change.
//!
//! Through the API server, a change costs several times as much CPU as all that follows from it: reading, checking and
//! converting an object, then a transaction. What is measured here are those who hear of changes.

use std::future::Future;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kube::Client;
use serde_json::{Value, json};

use super::population::{Population, stored_slice};

/// The store's JSON gateway.
const URL: &str = "http://127.0.0.1:2379";

/// Slices read at a time.
const PAGE: usize = 500;

/// The first octets of every pod's address in text, and where changed ones begin.
const FIRST: &[u8] = b"11.";
const CHANGED_FROM: u64 = 12;
const CHANGED: u64 = 80;

/// The slices of a population as the store has them, and the way to it.
pub(crate) struct Store {
    client: Client,
    slices: Vec<Slice>,
    services: usize,
}

struct Slice {
    key: Vec<u8>,
    value: Vec<u8>,
    /// Where addresses begin.
    addresses: Vec<usize>,
}

impl Store {
    /// Reads the slices.
    pub(crate) async fn read(population: Population) -> Result<Self> {
        let client = Client::try_from(kube::Config::new(URL.parse()?))?;
        let mut slices = Vec::with_capacity(population.services);
        for from in (0..population.services).step_by(PAGE) {
            let until = (from + PAGE).min(population.services);
            let range = json!({
                "key": BASE64_STANDARD.encode(stored_slice(from)),
                "range_end": BASE64_STANDARD.encode(stored_slice(until - 1) + "\0"),
            });
            let answer = call(&client, "/v3/kv/range", &range).await?;
            let kvs = answer["kvs"].as_array().context("no slices in the store")?;
            for kv in kvs {
                slices.push(Slice::read(kv)?);
            }
        }
        ensure!(
            slices.len() == population.services,
            "{} slices in the store, expected {}",
            slices.len(),
            population.services
        );
        Ok(Store { client, slices, services: population.services })
    }

    /// Change number `number` of an endpoint, each time of another service.
    pub(crate) fn change(&self, number: u64) -> impl Future<Output = Result<()>> + Send + use<> {
        let place = (number as usize * 7919) % self.services;
        let slice = &self.slices[place];
        let put = json!({
            "key": BASE64_STANDARD.encode(&slice.key),
            "value": BASE64_STANDARD.encode(slice.changed(1 + number / self.services as u64)),
        });
        let client = self.client.clone();
        async move { call(&client, "/v3/kv/put", &put).await.map(|_| ()) }
    }
}

impl Slice {
    fn read(kv: &Value) -> Result<Self> {
        let octets = |name: &str| -> Result<Vec<u8>> {
            let text = kv[name].as_str().with_context(|| format!("no {name} in the store"))?;
            Ok(BASE64_STANDARD.decode(text)?)
        };
        let (key, value) = (octets("key")?, octets("value")?);
        // Field 1 of an endpoint, its length, the text.
        let is_address = |at: &usize| {
            let len = value.get(at - 1).copied().unwrap_or_default();
            value[*at..].starts_with(FIRST) && (7..=15).contains(&len) && value[at - 2] == 0x0a
        };
        let addresses: Vec<usize> = (2..value.len()).filter(is_address).collect();
        ensure!(!addresses.is_empty(), "no addresses in {}", key.escape_ascii());
        Ok(Slice { key, value, addresses })
    }

    /// The slice with another address at one place.
    fn changed(&self, version: u64) -> Vec<u8> {
        let mut value = self.value.clone();
        let at = self.addresses[version as usize % self.addresses.len()];
        let first = (CHANGED_FROM + version % CHANGED).to_string();
        value[at..at + first.len()].copy_from_slice(first.as_bytes());
        value
    }
}

async fn call(client: &Client, path: &str, body: &Value) -> Result<Value> {
    let request = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())?;
    client.request(request).await.with_context(|| format!("etcd, {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_at_one_address_and_as_long_as_before() {
        let value = b"k8s\0..\n\x0811.0.0.1..service-00011-x\n\x0a11.0.11.22..".to_vec();
        let encode = |octets: &[u8]| BASE64_STANDARD.encode(octets);
        let slice = Slice::read(&json!({"key": encode(b"k"), "value": encode(&value)})).unwrap();
        assert_eq!(slice.addresses.len(), 2);
        for (version, expected) in [(1, &b"13.0.11.22"[..]), (2, b"14.0.0.1"), (80, b"12.0.0.1")] {
            let changed = slice.changed(version);
            let differs = value.iter().zip(&changed).filter(|(a, b)| a != b).count();
            assert!(changed.len() == value.len() && (1..=2).contains(&differs), "{version}");
            assert!(changed.windows(expected.len()).any(|part| part == expected), "{version}");
        }
    }
}
