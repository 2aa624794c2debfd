//! What the directive knows about a question, by label; see the README of `metadata`.

use super::Kubernetes;
use crate::lookup::name::{Asked, Kind, Shape};
use crate::cluster::Pod;
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Name, NameRef};
use std::net::IpAddr;

impl Kubernetes {
    /// The value of `kubernetes/LABEL` for a question of `client` for `qname`; `None` if there is
    /// none.
    pub(super) fn fact(&self, client: IpAddr, qname: NameRef<'_>, label: &str) -> Option<String> {
        match label {
            "client-namespace" => self.of_client(client, |pod| Some(&pod.namespace)),
            "client-pod-name" => self.of_client(client, |pod| Some(&pod.name)),
            _ => match label.strip_prefix("client-label/") {
                Some(key) => self.of_client(client, |pod| pod.labels.get(key)),
                None => self.of_name(qname, label),
            },
        }
    }

    /// A fact of the pod that asks. Pods on their node's network share its address: it is a fact
    /// only if it holds for all of them.
    fn of_client(
        &self,
        client: IpAddr,
        fact: impl for<'p> Fn(&'p Pod) -> Option<&'p str>,
    ) -> Option<String> {
        let snapshot = self.feed.load();
        let mut pods = snapshot.pods_at(client.to_canonical()).iter();
        let value = fact(pods.next()?)?;
        pods.all(|pod| fact(pod) == Some(value)).then(|| value.to_owned())
    }

    /// A part of the name that is asked for. Parts that the name does not have are empty.
    fn of_name(&self, qname: NameRef<'_>, label: &str) -> Option<String> {
        let zone = self.zones.longest(qname)?;
        let zone_len = self.zones.names().get(zone)?.as_wire().len();
        let mut buffer = [0; NAME_LEN_MAX];
        let folded = qname.fold(&mut buffer);
        let below = folded.get(..folded.len().checked_sub(zone_len)?)?;
        let imports = self.imports.get(zone).copied().unwrap_or_default();
        let Some(asked) = Asked::read(below, Shape { imports, zonal: self.rules.zonal }) else {
            return (label == "parse-error").then(|| "invalid query name".to_owned());
        };
        match label {
            "port-name" => Some(text(asked.port)),
            "protocol" => Some(text(asked.protocol)),
            "endpoint" => Some(text(asked.endpoint)),
            "service" => Some(text(asked.service)),
            "namespace" => Some(labels(asked.namespace)),
            "cluster" if imports => Some(text(asked.cluster)),
            "zone" if self.rules.zonal => Some(labels(asked.zone)),
            "kind" => Some(match asked.kind {
                Some(Kind::Service) => "svc".to_owned(),
                Some(Kind::Pod) => "pod".to_owned(),
                None => String::new(),
            }),
            _ => None,
        }
    }
}

/// A label without its length in presentation format.
fn text(label: &[u8]) -> String {
    let mut wire = Vec::with_capacity(label.len() + 1);
    wire.extend(u8::try_from(label.len()).ok().filter(|len| *len > 0));
    wire.extend(label);
    labels(&wire)
}

/// Labels in wire form in presentation format, without a final dot.
fn labels(wire: &[u8]) -> String {
    let mut whole = wire.to_vec();
    whole.push(0);
    match Name::from_wire(&whole) {
        Ok(name) if !name.view().is_root() => name.to_string().trim_end_matches('.').to_owned(),
        _ => String::new(),
    }
}
