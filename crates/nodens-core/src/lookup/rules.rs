//! What of a cluster is shown.

use super::address;
use super::compose::Octets;
use crate::cluster::{Endpoint, Slice, Snapshot};
use nodens_wire::name::NAME_LEN_MAX;
use std::net::IpAddr;

/// What of a cluster is shown, and how endpoints are called.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Labels in wire form, folded; none stands for every namespace.
    pub(crate) namespaces: Vec<Box<[u8]>>,
    pub(crate) pods: PodMode,
    /// Endpoints are called as their pods.
    pub(crate) pod_names: bool,
    /// Names say in which zone of the cluster an endpoint is.
    pub(crate) zonal: bool,
    /// Services without an endpoint are not shown.
    pub(crate) ignore_empty: bool,
    /// Addresses that this server is reached at, without those of loopback.
    pub(crate) local: Vec<IpAddr>,
}

/// Which pods have names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PodMode {
    #[default]
    Disabled,
    /// Every address is a pod's.
    Insecure,
    /// Pods are watched.
    Verified,
}

impl Rules {
    /// Whether names in a namespace are shown; `namespace` is its label in wire form, folded.
    pub(crate) fn exposes(&self, snapshot: &Snapshot, namespace: &[u8]) -> bool {
        let listed =
            self.namespaces.is_empty() || self.namespaces.iter().any(|n| **n == *namespace);
        listed && snapshot.has_namespace(namespace)
    }

    /// Whether an endpoint has the label `label`; `unnamed` is the address that it stands for.
    pub(crate) fn is_called(
        &self,
        endpoint: &Endpoint<'_>,
        label: &[u8],
        unnamed: Option<IpAddr>,
    ) -> bool {
        match self.own_name(endpoint) {
            Some(name) => name.as_bytes().eq_ignore_ascii_case(label),
            None => unnamed == Some(endpoint.address),
        }
    }

    /// The name an endpoint has been given.
    pub(crate) fn own_name<'e>(&self, endpoint: &Endpoint<'e>) -> Option<&'e str> {
        let pod = if self.pod_names { endpoint.pod } else { "" };
        [endpoint.hostname, pod].into_iter().find(|name| !name.is_empty())
    }

    /// Adds the labels of an endpoint of `slice` to `name`.
    pub(crate) fn push_endpoint(
        &self,
        slice: &Slice,
        endpoint: &Endpoint<'_>,
        name: &mut Octets<NAME_LEN_MAX>,
    ) {
        match self.own_name(endpoint) {
            Some(own) => name.push_text(own.as_bytes()),
            None => name.push_text(address::of_endpoint(endpoint.address).as_bytes()),
        }
        if !slice.cluster().is_empty() {
            name.push_text(slice.cluster().as_bytes());
        }
    }
}
