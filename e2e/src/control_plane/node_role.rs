//! What the manifests of the node role add to a cluster, and what a pod of it finds there.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::ControlPlane;
use super::account::NAMESPACE;
use crate::api::{Change, Key, Kind};
use crate::sandbox::NODE_V4;

/// The manifest that gives the rights.
const MANIFEST: &str = include_str!("../../../deploy/node/kube-proxy.yaml");
/// Its account.
const ACCOUNT: &str = "node-local-dns";
/// What makes an account and its rights.
const RIGHTS: [&str; 5] =
    ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
/// Where the kubelet puts what a pod may show to the API server.
const FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Of the account's token, in seconds.
const DAY: i64 = 86_400;

impl ControlPlane {
    /// Makes the account of the manifests with the rights that they give it, and puts token, authority and namespace
    /// where a pod has them; the sandbox has its own `/run`.
    pub(crate) async fn mount_node_role(&self) -> Result<()> {
        self.ensure_namespace(&self.admin().await?).await?;
        let path = self.folder().join("rights.yaml");
        std::fs::write(&path, rights(MANIFEST)?)?;
        self.kubectl(&["apply", "-f", &path.display().to_string()])?;
        let account = self.existing_account(ACCOUNT).await?;
        let folder = PathBuf::from(FOLDER);
        std::fs::create_dir_all(&folder).with_context(|| FOLDER.to_owned())?;
        std::fs::write(folder.join("token"), self.token(&account, DAY)?)?;
        std::fs::write(folder.join("namespace"), NAMESPACE)?;
        std::fs::copy(self.authority(), folder.join("ca.crt"))?;
        Ok(())
    }
}

/// The variables by which a pod finds the API server.
pub(crate) fn variables() -> [(&'static str, String); 2] {
    [
        ("KUBERNETES_SERVICE_HOST", NODE_V4.to_owned()),
        ("KUBERNETES_SERVICE_PORT", "6443".to_owned()),
    ]
}

/// A Service of DNS with these endpoints, which no controller makes; the API server chooses an address if none is given.
pub(crate) fn dns_service(
    name: &str,
    address: Option<Ipv4Addr>,
    endpoints: &[Ipv4Addr],
) -> Vec<Change> {
    let ports = json!([
        {"name": "dns", "protocol": "UDP", "port": 53},
        {"name": "dns-tcp", "protocol": "TCP", "port": 53},
    ]);
    let mut service = json!({"spec": {"ports": ports}});
    if let Some(address) = address {
        service["spec"]["clusterIP"] = address.to_string().into();
    }
    let mut slice = dns_endpoints(endpoints);
    slice["metadata"] = json!({"labels": {"kubernetes.io/service-name": name}});
    slice["addressType"] = "IPv4".into();
    slice["ports"] = ports;
    vec![
        Change::Create(Key::new(Kind::Service, NAMESPACE, name), service),
        Change::Create(slice_of(name), slice),
    ]
}

/// A patch that gives a [`dns_service`] other endpoints.
pub(crate) fn change_endpoints(name: &str, endpoints: &[Ipv4Addr]) -> Change {
    Change::Patch(slice_of(name), dns_endpoints(endpoints))
}

fn slice_of(service: &str) -> Key {
    Key::new(Kind::Slice, NAMESPACE, &format!("{service}-1"))
}

fn dns_endpoints(addresses: &[Ipv4Addr]) -> Value {
    let endpoint = |address: &Ipv4Addr| json!({"addresses": [address.to_string()], "conditions": {"ready": true}});
    json!({"endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>()})
}

/// The documents of a manifest that make an account and its rights.
fn rights(manifest: &str) -> Result<String> {
    let is_right = |document: &&str| {
        let kind = document.lines().find_map(|line| line.strip_prefix("kind: "));
        kind.is_some_and(|kind| RIGHTS.contains(&kind))
    };
    let documents: Vec<&str> = manifest.split("\n---\n").filter(is_right).collect();
    ensure!(documents.len() == RIGHTS.len(), "{} documents with rights", documents.len());
    Ok(documents.join("\n---\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_has_an_account_and_what_it_may_and_nothing_else_is_taken() {
        let rights = rights(MANIFEST).unwrap();
        assert!(rights.contains("endpointslices") && rights.contains("kind: ServiceAccount\n"));
        assert!(!rights.contains("DaemonSet") && !rights.contains("kind: ConfigMap"));
        assert!(super::rights("kind: Role\n").is_err());
    }
}
