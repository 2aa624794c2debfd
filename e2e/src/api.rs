//! Objects of Kubernetes as JSON, and changes to many of them at once.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::Method;
use kube::Client;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Changes on their way to the API server at a time.
const AT_A_TIME: usize = 48;

/// How often a change is tried when the API server is too busy.
const ATTEMPTS: u32 = 8;

/// Objects in one page of a list.
const PAGE: usize = 2000;

/// The kinds of objects that name servers read, and nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Namespace,
    Node,
    Service,
    Slice,
    Pod,
    Import,
}

impl Kind {
    /// The URL of all objects of the kind, or of those in one namespace.
    fn collection(self, namespace: Option<&str>) -> String {
        let (group, plural) = match self {
            Kind::Namespace => ("/api/v1", "namespaces"),
            Kind::Node => ("/api/v1", "nodes"),
            Kind::Service => ("/api/v1", "services"),
            Kind::Slice => ("/apis/discovery.k8s.io/v1", "endpointslices"),
            Kind::Pod => ("/api/v1", "pods"),
            Kind::Import => ("/apis/multicluster.x-k8s.io/v1alpha1", "serviceimports"),
        };
        match namespace {
            Some(namespace) => format!("{group}/namespaces/{namespace}/{plural}"),
            None => format!("{group}/{plural}"),
        }
    }

    /// `apiVersion` and `kind` of an object.
    pub(crate) fn version(self) -> (&'static str, &'static str) {
        match self {
            Kind::Namespace => ("v1", "Namespace"),
            Kind::Node => ("v1", "Node"),
            Kind::Service => ("v1", "Service"),
            Kind::Slice => ("discovery.k8s.io/v1", "EndpointSlice"),
            Kind::Pod => ("v1", "Pod"),
            Kind::Import => ("multicluster.x-k8s.io/v1alpha1", "ServiceImport"),
        }
    }
}

/// Which object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) kind: Kind,
    /// Empty for kinds without namespaces.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Key { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn collection(&self) -> String {
        let namespace = (!self.namespace.is_empty()).then_some(&*self.namespace);
        self.kind.collection(namespace)
    }
}

/// One change.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// A new object: what it has besides its kind and names.
    Create(Key, Value),
    /// A merge patch (RFC 7386).
    Patch(Key, Value),
    /// A merge patch of the status.
    Status(Key, Value),
    Delete(Key),
}

impl Change {
    fn request(&self) -> Result<http::Request<Vec<u8>>> {
        let (method, uri, body) = match self {
            Change::Create(key, value) => {
                let mut object = value.clone();
                let (version, kind) = key.kind.version();
                object["apiVersion"] = version.into();
                object["kind"] = kind.into();
                object["metadata"]["name"] = (*key.name).into();
                (Method::POST, key.collection(), object.to_string())
            }
            Change::Patch(key, value) => {
                (Method::PATCH, format!("{}/{}", key.collection(), key.name), value.to_string())
            }
            Change::Status(key, value) => {
                let uri = format!("{}/{}/status", key.collection(), key.name);
                (Method::PATCH, uri, serde_json::json!({"status": value}).to_string())
            }
            Change::Delete(key) => {
                let uri = format!("{}/{}?gracePeriodSeconds=0", key.collection(), key.name);
                (Method::DELETE, uri, String::new())
            }
        };
        let media = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = http::Request::builder().method(method).uri(uri);
        Ok(request.header(http::header::CONTENT_TYPE, media).body(body.into_bytes())?)
    }

    async fn apply(&self, client: &Client) -> Result<()> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let error = match client.request_text(self.request()?).await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            let code = match &error {
                kube::Error::Api(status) => status.code,
                _ => 500,
            };
            // What an earlier attempt did although it seemed to fail.
            let done = match self {
                Change::Create(..) => attempt > 1 && code == 409,
                Change::Delete(_) => attempt > 1 && code == 404,
                _ => false,
            };
            if done {
                return Ok(());
            }
            // A conflict with another writer of the same object, or a server that is too busy.
            let again =
                code == 429 || code >= 500 || (code == 409 && !matches!(self, Change::Create(..)));
            if !again || attempt == ATTEMPTS {
                let text = match &error {
                    kube::Error::Api(status) => &status.message,
                    other => &other.to_string(),
                };
                bail!("{code} {text}\nafter {attempt} attempts: {self:?}");
            }
            tokio::time::sleep(Duration::from_millis(50 << attempt)).await;
        }
    }
}

/// Applies all, many at a time and in no order; fails with the first that is refused.
pub(crate) async fn apply(client: &Client, changes: Vec<Change>) -> Result<()> {
    let slots = Arc::new(Semaphore::new(AT_A_TIME));
    let mut tasks = JoinSet::new();
    for change in changes {
        let slot = Arc::clone(&slots).acquire_owned().await?;
        let client = client.clone();
        tasks.spawn(async move {
            let result = change.apply(&client).await;
            drop(slot);
            result
        });
        while let Some(result) = tasks.try_join_next() {
            result??;
        }
    }
    while let Some(result) = tasks.join_next().await {
        result??;
    }
    Ok(())
}

/// All objects of a kind.
pub(crate) async fn list(client: &Client, kind: Kind) -> Result<Vec<Value>> {
    let mut items = Vec::new();
    let mut next = String::new();
    loop {
        let uri = format!("{}?limit={PAGE}&continue={next}", kind.collection(None));
        let request = http::Request::get(uri).body(Vec::new())?;
        let mut page: Value =
            client.request(request).await.with_context(|| format!("list {kind:?}"))?;
        let Some(Value::Array(found)) = page.get_mut("items").map(Value::take) else {
            bail!("a list of {kind:?} without items");
        };
        items.extend(found);
        match page["metadata"]["continue"].as_str() {
            Some(token) if !token.is_empty() => next = token.to_owned(),
            _ => return Ok(items),
        }
    }
}
