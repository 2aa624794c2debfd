//! The API server or its store is killed while names are asked for.

use std::io::{Read, Write as _};
use std::net::{IpAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use nodens_wire::{Rcode, Type};
use serde_json::{Value, json};

use super::{RECOVERY, Stage, finish};
use crate::control_plane::Component;
use crate::measure::bulk::Write;
use crate::measure::population;
use crate::measure::probe::{Answer, Probe};
use crate::measure::whole_lists;
use crate::server::Server;

/// How long a part is away.
const AWAY: Duration = Duration::from_secs(3);

impl Stage<'_> {
    /// Known names are answered all the time, and what changes is right afterwards.
    pub(super) async fn killed(&mut self, components: &[Component]) -> Result<String> {
        let name = format!("{:?}", components.first().context("nothing to kill")?).to_lowercase();
        let mut server = self.server(&name, &self.kubeconfig).await?;
        let changes = Changes::prepare(self, &server, &name).await?;
        let load = self.ask(&server)?;
        self.restart(components, AWAY).await?;
        let expected = changes.make(self).await?;
        let took = expected.await_at(&server).await;
        let answered = finish(load).await?;
        let took = took.with_context(|| server.process().last_words())?;
        Ok(format!("{answered} queries answered, right {took:.1?} after the changes"))
    }

    /// As [`Stage::killed`] with a store without history: a whole list is read again.
    pub(super) async fn gone(&mut self) -> Result<String> {
        let mut server = self.server("gone", &self.kubeconfig).await?;
        let changes = Changes::prepare(self, &server, "gone").await?;
        let load = self.ask(&server)?;
        self.plane.kill(Component::ApiServer)?;
        compact()?;
        self.plane.start_component(Component::ApiServer)?;
        self.plane.ready().await?;
        self.client = self.plane.admin().await?;
        let expected = changes.make(self).await?;
        let took = expected.await_at(&server).await;
        let answered = finish(load).await?;
        let took = took.with_context(|| server.process().last_words())?;
        let lists = whole_lists(&self.client).await?;
        if lists == 0 {
            bail!("the API server was not asked for a whole list of EndpointSlices");
        }
        Ok(format!(
            "{answered} queries answered, right {took:.1?} after the changes, {lists} whole lists read"
        ))
    }
}

/// Moves the store's revision and lets it forget everything before.
fn compact() -> Result<()> {
    let encode = |text: &str| BASE64_STANDARD.encode(text);
    let mut revision = Value::Null;
    for n in 0..100 {
        let put = json!({"key": encode("/e2e/revision"), "value": encode(&n.to_string())});
        revision = etcd("/v3/kv/put", &put)?["header"]["revision"].clone();
    }
    etcd("/v3/kv/compaction", &json!({"revision": revision, "physical": true}))?;
    Ok(())
}

/// Asks the store over its JSON gateway.
fn etcd(path: &str, body: &Value) -> Result<Value> {
    let mut stream = TcpStream::connect("127.0.0.1:2379").context("cannot reach etcd")?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let body = body.to_string();
    let head =
        format!("POST {path} HTTP/1.0\r\nHost: etcd\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer of etcd")?;
    if head.split(' ').nth(1) != Some("200") {
        bail!("etcd, {path}: {answer}");
    }
    serde_json::from_str(body).context("an answer of etcd")
}

/// Three objects that a scenario changes: one goes, one is other than before, one is new.
pub(super) struct Changes {
    prefix: String,
}

impl Changes {
    /// Creates the first two and waits until the server knows them.
    pub(super) async fn prepare(stage: &Stage<'_>, server: &Server, prefix: &str) -> Result<Self> {
        let changes = Changes { prefix: prefix.to_owned() };
        let namespace = population::namespace(0);
        let gone = changes.service("gone");
        let gone = population::create_service(&stage.client, &namespace, &gone).await?;
        let other = changes.service("other");
        let body = json!({
            "metadata": {"name": other},
            "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
        });
        let path = format!("/api/v1/namespaces/{namespace}/services");
        Write::create(path, body).send(&stage.client).await?;
        let slice = changes.slice("10.20.0.1");
        Write::create(slices(), slice).send(&stage.client).await?;
        let before = Expected {
            names: vec![
                (changes.name("gone"), Some(gone)),
                (changes.name("other"), Some("10.20.0.1".parse()?)),
            ],
        };
        before.await_at(server).await?;
        Ok(changes)
    }

    /// Makes the changes; returns what is expected from then on.
    pub(super) async fn make(&self, stage: &Stage<'_>) -> Result<Expected> {
        let namespace = population::namespace(0);
        let path = format!("/api/v1/namespaces/{namespace}/services/{}", self.service("gone"));
        Write::delete(path).send(&stage.client).await?;
        let path = format!("{}/{}", slices(), self.service("other"));
        Write::replace(path, self.slice("10.20.0.2")).send(&stage.client).await?;
        let new = self.service("new");
        let new = population::create_service(&stage.client, &namespace, &new).await?;
        let names = vec![
            (self.name("gone"), None),
            (self.name("other"), Some("10.20.0.2".parse()?)),
            (self.name("new"), Some(new)),
        ];
        Ok(Expected { names })
    }

    fn service(&self, which: &str) -> String {
        format!("{}-{which}", self.prefix)
    }

    fn name(&self, which: &str) -> String {
        format!("{}.{}.svc.cluster.local.", self.service(which), population::namespace(0))
    }

    fn slice(&self, address: &str) -> Value {
        let name = self.service("other");
        json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        })
    }
}

fn slices() -> String {
    let namespace = population::namespace(0);
    format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices")
}

/// Names and their addresses; nothing for those that do not exist.
pub(super) struct Expected {
    pub(super) names: Vec<(String, Option<IpAddr>)>,
}

impl Expected {
    /// Whether the new one is known.
    pub(super) async fn is_seen(&self, server: &Server) -> Result<bool> {
        let mut probe = Probe::new(server.address()).await?;
        let new = self.names.last().context("nothing is expected")?;
        let answer = probe.ask(&new.0, Type::A).await?;
        Ok(answer.is_some_and(|answer| answer.rcode != Rcode::NXDOMAIN))
    }

    /// Waits until all are so.
    pub(super) async fn await_at(&self, server: &Server) -> Result<Duration> {
        let mut probe = Probe::new(server.address()).await?;
        let mut took = Duration::ZERO;
        for (name, address) in &self.names {
            let wanted = |answer: &Answer| match address {
                Some(address) => answer.is(&[*address]),
                None => answer.rcode == Rcode::NXDOMAIN,
            };
            took += probe.until((name, Type::A), RECOVERY, wanted).await?;
        }
        Ok(took)
    }
}
