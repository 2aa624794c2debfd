//! The names that pods ask for, as objects of an API server.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use lab_load::cluster::Cluster;
use serde_json::json;

use super::all_centrals;
use super::proxy::{CLUSTER_DNS, UPSTREAM};
use crate::api::{self, Change, Key, Kind};
use crate::control_plane::node_role::dns_service;
use crate::control_plane::{ControlPlane, Credential, reader_rules};

/// Of the central servers' token, in seconds.
const DAY: i64 = 86_400;
/// Namespaces that every API server makes.
const GIVEN: [&str; 2] = ["default", "kube-system"];

/// Makes every Service of the model of a cluster, and those of DNS; gives the kubeconfig of the central servers, whose
/// rights are those of CoreDNS's manifest.
pub(super) async fn make(plane: &ControlPlane) -> Result<PathBuf> {
    // This makes the namespace of what follows.
    let reader = plane.account("coredns", reader_rules()).await?;
    let client = plane.admin().await?;
    for (name, address) in [("kube-dns", CLUSTER_DNS), ("kube-dns-upstream", UPSTREAM)] {
        api::apply(&client, dns_service(name, Some(address), &all_centrals())).await?;
    }
    let namespaces = namespaces().into_iter().filter(|name| !GIVEN.contains(&name.as_str()));
    let namespaces =
        namespaces.map(|name| Change::Create(Key::new(Kind::Namespace, "", &name), json!({})));
    api::apply(&client, namespaces.collect()).await?;
    let create = |(service, namespace): (String, String)| {
        let spec = json!({"spec": {"ports": [{"name": "http", "port": 80}]}});
        Change::Create(Key::new(Kind::Service, &namespace, &service), spec)
    };
    api::apply(&client, services().into_iter().map(create).collect()).await?;
    plane.kubeconfig("coredns", &Credential::Token(plane.token(&reader, DAY)?))
}

/// Names of Services of the model with their namespaces.
fn services() -> Vec<(String, String)> {
    let cluster = Cluster::default();
    let service = |name: &nodens_wire::Name| {
        let name = name.to_string();
        let (service, namespace) = name.strip_suffix(".svc.cluster.local.")?.split_once('.')?;
        Some((service.to_owned(), namespace.to_owned()))
    };
    cluster.names().filter_map(service).collect()
}

/// Namespaces of the model.
pub(super) fn namespaces() -> BTreeSet<String> {
    services().into_iter().map(|(_, namespace)| namespace).collect()
}
