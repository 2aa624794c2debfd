//! Which search list a client has, and whether a question is the first of a walk along it.

use crate::limits::{SEARCH_LIST_DOMAINS_MAX, SEARCH_LIST_LEN_MAX};
use crate::cluster::{Feed, Pod, SearchBase, Snapshot};
use crate::handler::Cx;
use crate::handlers::kubernetes::Kubernetes;
use crate::zones::Zones;
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Name, NameRef};
use std::sync::Arc;


/// Where search lists come from.
#[derive(Debug)]
pub(super) enum Source {
    /// A file that says what all clients have.
    File(Fixed),
    /// What the specification of the client's pod says. Behind the cluster's domains come those of
    /// the node, which are the same everywhere.
    Pods {
        /// Which pods are known.
        pods: Pods,
        /// The search domains of nodes.
        node: Arc<[Name]>,
    },
}

/// Which pods are known, and in which zones their search lists are.
#[derive(Debug)]
pub(super) enum Pods {
    /// `@kubernetes`: those of the block's `kubernetes`.
    OfBlock,
    /// `@node`: those of this node.
    OfNode {
        /// Where they are known from.
        feed: Arc<Feed>,
        /// The cluster's zones.
        zones: Zones,
    },
}

/// A search list that does not depend on the client.
#[derive(Debug)]
pub(super) struct Fixed {
    /// Search domains, in order.
    pub(super) domains: Arc<[Name]>,
    /// Names with fewer dots are looked for in the search domains first; `None` if nobody says.
    pub(super) ndots: Option<usize>,
}

impl Source {
    /// The search list of the client, if the current question is the first of a walk along it.
    pub(super) fn list_for(&self, cx: &Cx<'_>) -> Option<Arc<[Name]>> {
        match self {
            Self::File(list) => {
                let qname = cx.job.current.qname.view();
                let first = list.domains.first()?.view();
                begins_walk(qname, first, list.ndots).then(|| list.domains.clone())
            }
            Self::Pods { pods, node } => of_client(cx, pods, node),
        }
    }
}

/// Whether a client with the search domain `first` asks for `qname` at the beginning of a walk:
/// there is something left without the domain, and it has fewer dots than `ndots`. With more dots
/// clients ask for the name alone first, so whoever asks for `qname` means it, or knows already
/// that there is no such name.
fn begins_walk(qname: NameRef<'_>, first: NameRef<'_>, ndots: Option<usize>) -> bool {
    if !qname.is_in_domain(first) {
        return false;
    }
    let labels = qname.label_count() - first.label_count();
    labels > 0 && ndots.is_none_or(|ndots| labels <= ndots)
}

/// The search list of the pod that asks, if it is known for sure.
fn of_client(cx: &Cx<'_>, pods: &Pods, node: &[Name]) -> Option<Arc<[Name]>> {
    let (feed, zones) = match pods {
        Pods::OfBlock => Kubernetes::of(cx.block).map(|found| (&found.feed, &found.zones))?,
        Pods::OfNode { feed, zones } => (feed, zones),
    };
    let snapshot = feed.load();
    let pod = pod_at(&snapshot, cx)?;
    let qname = cx.job.current.qname.view();
    let ndots = Some(pod.search.ndots.into());
    match pod.search.base {
        SearchBase::Cluster => {
            let zone = zones.names().get(zones.longest(qname)?)?;
            let service = service_domain(qname, zone.view(), &pod.namespace)?;
            let is_walk = begins_walk(qname, service, ndots) && !exists(&snapshot, qname, service);
            is_walk.then(|| of_cluster(service, zone.view(), node, &pod.search.added))
        }
        SearchBase::Nothing => {
            let first = pod.search.added.first()?.view();
            begins_walk(qname, first, ndots).then(|| pod.search.added.clone())
        }
        // What the node has is not known here, and its list begins with it.
        SearchBase::Node => None,
    }
}

/// The pod that asks. Several can have one address, that of their node or one that has just been
/// given on: then they must have the same list.
fn pod_at<'s>(snapshot: &'s Snapshot, cx: &Cx<'_>) -> Option<&'s Pod> {
    let pods = snapshot.pods_at(cx.job.client().peer.ip().to_canonical());
    let (pod, others) = pods.split_first()?;
    let same = |other: &Arc<Pod>| other.namespace == pod.namespace && other.search == pod.search;
    others.iter().all(same).then_some(pod)
}

/// The end of `qname` that is `NAMESPACE.svc.ZONE`, the first search domain of the namespace's
/// pods; `None` if it ends in another way.
fn service_domain<'n>(
    qname: NameRef<'n>,
    zone: NameRef<'_>,
    namespace: &str,
) -> Option<NameRef<'n>> {
    let above = qname.label_count().checked_sub(zone.label_count() + 2)?;
    let domain = (0..above).try_fold(qname, |name, _| name.parent())?;
    let mut labels = domain.labels();
    let is_namespace = labels.next()?.eq_ignore_ascii_case(namespace.as_bytes());
    (is_namespace && labels.next()?.eq_ignore_ascii_case(b"svc")).then_some(domain)
}

/// Whether `qname` is known to be a service in `domain`. It is the name asked for most often, and
/// needs no walk.
fn exists(snapshot: &Snapshot, qname: NameRef<'_>, domain: NameRef<'_>) -> bool {
    let above = qname.label_count() - domain.label_count();
    let namespace = domain.labels().next().unwrap_or_default();
    let key_len = qname.as_wire().len() - domain.as_wire().len() + 1 + namespace.len();
    let mut buffer = [0; NAME_LEN_MAX];
    let key = qname.fold(&mut buffer).get(..key_len).unwrap_or_default();
    above == 1 && snapshot.service(key).is_some_and(|entry| entry.service.is_some())
}

/// The search list that a kubelet writes for a pod of the cluster's DNS.
fn of_cluster(
    service: NameRef<'_>,
    zone: NameRef<'_>,
    node: &[Name],
    added: &[Name],
) -> Arc<[Name]> {
    let services = service.parent().unwrap_or(zone);
    let cluster = [service, services, zone].map(NameRef::to_name);
    // A server that runs in a pod of the cluster's DNS has the cluster's domains, too, but not
    // from its node.
    let node = node.iter().filter(|domain| zone.is_root() || !domain.view().is_in_domain(zone));
    let mut list: Vec<Name> = Vec::with_capacity(cluster.len() + added.len() + 4);
    let mut len = 0;
    for domain in cluster.iter().chain(node).chain(added) {
        if list.contains(domain) {
            continue;
        }
        // In wire form a name has as many octets as in text with a space behind it, and one more.
        len += domain.as_wire().len() - 1;
        if list.len() == SEARCH_LIST_DOMAINS_MAX || len > SEARCH_LIST_LEN_MAX {
            break;
        }
        list.push(domain.clone());
    }
    list.into()
}
