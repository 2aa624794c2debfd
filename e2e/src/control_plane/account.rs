//! Users with rights, and the types of objects that Kubernetes itself does not have.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{ControlPlane, http_get};

/// A ServiceAccount in the namespace `kube-system`.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) name: String,
    uid: String,
}

/// The namespace of accounts.
pub(super) const NAMESPACE: &str = "kube-system";

/// How long a new type of object may take until it is served.
const TYPE_TIMEOUT: Duration = Duration::from_secs(60);

/// What CoreDNS's manifest lets it do, and ServiceImports.
pub(crate) fn reader_rules() -> Value {
    json!([
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        {"apiGroups": ["multicluster.x-k8s.io"], "resources": ["serviceimports"], "verbs": ["list", "watch"]},
    ])
}

impl ControlPlane {
    /// Makes a ServiceAccount with these rules (of a ClusterRole of the same name) in every namespace.
    pub(crate) async fn account(&self, name: &str, rules: Value) -> Result<Account> {
        let client = self.admin().await?;
        self.ensure_namespace(&client).await?;
        let metadata = json!({"name": name});
        let role = json!({"metadata": metadata, "rules": rules});
        let binding = json!({
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
        });
        let account = json!({"metadata": metadata});
        let options = PostParams::default();
        let roles: Api<ClusterRole> = Api::all(client.clone());
        roles.create(&options, &serde_json::from_value(role)?).await?;
        let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
        bindings.create(&options, &serde_json::from_value(binding)?).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client, NAMESPACE);
        let account = accounts.create(&options, &serde_json::from_value(account)?).await?;
        let uid = account.metadata.uid.context("a ServiceAccount without UID")?;
        Ok(Account { name: name.to_owned(), uid })
    }

    /// The ServiceAccount of this name, which somebody has made.
    pub(super) async fn existing_account(&self, name: &str) -> Result<Account> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin().await?, NAMESPACE);
        let account = accounts.get(name).await?;
        let uid = account.metadata.uid.context("a ServiceAccount without UID")?;
        Ok(Account { name: name.to_owned(), uid })
    }

    /// Makes the namespace of accounts, which the API server makes, too, a moment after it is ready.
    pub(super) async fn ensure_namespace(&self, client: &Client) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        if namespaces.get_opt(NAMESPACE).await?.is_some() {
            return Ok(());
        }
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        let made =
            namespaces.create(&PostParams::default(), &serde_json::from_value(namespace)?).await;
        if !made.as_ref().is_err_and(is_conflict) {
            made?;
        }
        Ok(())
    }

    /// A token of the account that ends `seconds` from now.
    pub(crate) fn token(&self, account: &Account, seconds: i64) -> Result<String> {
        self.pki.token(NAMESPACE, &account.name, &account.uid, seconds)
    }

    /// Installs the type ServiceImport of the Multi-Cluster Services API (KEP-1645) and waits until it is served.
    pub(super) async fn install_service_imports(&self) -> Result<()> {
        let client = self.admin().await?;
        let types: Api<CustomResourceDefinition> = Api::all(client.clone());
        let definition = serde_json::from_value(service_import_type())?;
        types.create(&PostParams::default(), &definition).await?;
        let deadline = Instant::now() + TYPE_TIMEOUT;
        loop {
            let request = http_get("/apis/multicluster.x-k8s.io/v1alpha1/serviceimports")?;
            match client.request_text(request).await {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    bail!("ServiceImports are not served: {error}")
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

/// True for the answer that an object is there already.
fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// The fields of KEP-1645 that name servers look at, and the state that implementations write.
fn service_import_type() -> Value {
    let string = json!({"type": "string"});
    let port = json!({"type": "object", "properties": {
        "name": string, "protocol": string, "appProtocol": string,
        "port": {"type": "integer", "format": "int32"},
    }});
    let spec = json!({"type": "object", "properties": {
        "type": {"type": "string", "enum": ["ClusterSetIP", "Headless"]},
        "ips": {"type": "array", "items": string},
        "ports": {"type": "array", "items": port},
        "sessionAffinity": string,
    }});
    let status = json!({"type": "object", "properties": {
        "clusters": {"type": "array", "items": {"type": "object", "properties": {"cluster": string}}},
    }});
    json!({
        "metadata": {
            "name": "serviceimports.multicluster.x-k8s.io",
            // Names that end in k8s.io are the community's; this states that the type is a copy.
            "annotations": {"api-approved.kubernetes.io": "unapproved, a copy of the published type"},
        },
        "spec": {
            "group": "multicluster.x-k8s.io",
            "scope": "Namespaced",
            "names": {
                "kind": "ServiceImport", "listKind": "ServiceImportList",
                "plural": "serviceimports", "singular": "serviceimport",
            },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": spec, "status": status},
                }},
            }],
        },
    })
}
