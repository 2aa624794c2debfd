//! Where each kind of object is found, and how it is asked for.

use crate::limits::{PAGE_OBJECTS, WATCH_TIME};
use nodens_core::cluster::{Kind, Scope, Source};
use std::fmt::Write;

/// A kind of object as the API server knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resource {
    pub(crate) kind: Kind,
    /// What it is called in log lines.
    pub(crate) title: &'static str,
    /// The label `kind` of metrics.
    pub(crate) label: &'static str,
    path: &'static str,
    /// What `kubectl auth can-i` calls it.
    pub(crate) rbac: &'static str,
    /// Whether a cluster may do without it.
    pub(crate) optional: bool,
}

const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";
const SLICES_RBAC: &str = "endpointslices.discovery.k8s.io";

const RESOURCES: [Resource; 8] = [
    Resource {
        kind: Kind::Namespaces,
        title: "namespaces",
        label: "namespace",
        path: "/api/v1/namespaces",
        rbac: "namespaces",
        optional: false,
    },
    Resource {
        kind: Kind::Services,
        title: "services",
        label: "service",
        path: "/api/v1/services",
        rbac: "services",
        optional: false,
    },
    Resource {
        kind: Kind::Slices,
        title: "endpoint slices",
        label: "endpointslice",
        path: SLICES,
        rbac: SLICES_RBAC,
        optional: false,
    },
    Resource {
        kind: Kind::Pods,
        title: "pods",
        label: "pod",
        path: "/api/v1/pods",
        rbac: "pods",
        optional: false,
    },
    Resource {
        kind: Kind::Imports,
        title: "service imports",
        label: "serviceimport",
        path: "/apis/multicluster.x-k8s.io/v1alpha1/serviceimports",
        rbac: "serviceimports.multicluster.x-k8s.io",
        optional: true,
    },
    Resource {
        kind: Kind::ImportSlices,
        title: "endpoint slices of service imports",
        label: "import_endpointslice",
        path: SLICES,
        rbac: SLICES_RBAC,
        optional: false,
    },
    Resource {
        kind: Kind::ApiService,
        title: "services of the API server",
        label: "api_service",
        path: "/api/v1/namespaces/default/services",
        rbac: "services",
        optional: false,
    },
    Resource {
        kind: Kind::SystemServices,
        title: "services of kube-system",
        label: "system_service",
        path: "/api/v1/namespaces/kube-system/services",
        rbac: "services",
        optional: false,
    },
];
/// The API server's own Service among those of its namespace.
const API_SERVICE: &str = "metadata.name=kubernetes";

/// Pods that have ended have no names, as in CoreDNS.
const LIVING_PODS: &str = "status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown";
/// Slices without it belong to no service.
const OF_SERVICE: &str = "kubernetes.io/service-name";
const OF_IMPORT: &str = "multicluster.kubernetes.io/service-name";

/// What is watched for `source`.
pub(crate) fn wanted(source: &Source) -> impl Iterator<Item = Resource> {
    RESOURCES.into_iter().filter(|resource| match (&source.scope, resource.kind) {
        // Whose names these are is shown by a few addresses.
        (Scope::Names, kind) => matches!(
            kind,
            Kind::Namespaces | Kind::Services | Kind::ApiService | Kind::SystemServices
        ),
        (Scope::PodsOf(_), kind) => kind == Kind::Pods,
        (Scope::SlicesOf { .. }, kind) => kind == Kind::Slices,
        (Scope::Whole, Kind::Namespaces | Kind::Services) => true,
        (Scope::Whole, Kind::Slices) => source.endpoints,
        (Scope::Whole, Kind::Pods) => source.pods,
        (Scope::Whole, Kind::Imports | Kind::ImportSlices) => source.imports,
        (Scope::Whole, Kind::ApiService | Kind::SystemServices) => false,
    })
}

/// All kinds.
pub(crate) fn all() -> &'static [Resource] {
    &RESOURCES
}

impl Resource {
    /// The request for a list as a stream that goes on as a watch.
    pub(crate) fn stream(&self, source: &Source) -> String {
        let rest = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        self.watch_request(source, rest)
    }

    /// The request for what happens after `version`.
    pub(crate) fn watch(&self, source: &Source, version: &str) -> String {
        let mut rest = "&resourceVersion=".to_owned();
        escape(version, &mut rest);
        self.watch_request(source, &rest)
    }

    fn watch_request(&self, source: &Source, rest: &str) -> String {
        let seconds = WATCH_TIME.as_secs();
        let seconds = seconds + fastrand::u64(..=seconds);
        let mut request = self.request(source);
        _ = write!(request, "watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}{rest}");
        request
    }

    /// The request for a page of a list; the first without `token`. `anew` says that a list was
    /// taken before: then the server must not answer from a cache that may be behind it.
    pub(crate) fn page(&self, source: &Source, token: Option<&str>, anew: bool) -> String {
        let mut request = self.request(source);
        _ = write!(request, "limit={PAGE_OBJECTS}");
        match token {
            Some(token) => {
                request.push_str("&continue=");
                escape(token, &mut request);
            }
            None if anew => {}
            None => request.push_str("&resourceVersion=0"),
        }
        request
    }

    /// The request for a list that has no pages.
    pub(crate) fn whole(&self, source: &Source) -> String {
        self.request(source).trim_end_matches(['?', '&']).to_owned()
    }

    /// The request for the newest version that the server has of this kind, and hardly an object.
    pub(crate) fn newest(&self, source: &Source) -> String {
        self.request(source) + "limit=1"
    }

    /// Path and selectors.
    fn request(&self, source: &Source) -> String {
        let labels = source.labels.as_deref();
        let selectors = match self.kind {
            // ServiceImports too, as in CoreDNS.
            Kind::Namespaces | Kind::Imports => [source.namespace_labels.as_deref(), None],
            Kind::Services | Kind::Pods | Kind::ApiService | Kind::SystemServices => [labels, None],
            Kind::Slices => [labels, Some(OF_SERVICE)],
            Kind::ImportSlices => [labels, Some(OF_IMPORT)],
        };
        if let Scope::SlicesOf { namespace, service } = &source.scope {
            return slices_of(namespace, service);
        }
        let mut request = format!("{}?", self.path);
        let selectors: Vec<&str> = selectors.into_iter().flatten().collect();
        if !selectors.is_empty() {
            request.push_str("labelSelector=");
            escape(&selectors.join(","), &mut request);
            request.push('&');
        }
        if self.kind == Kind::ApiService {
            request.push_str("fieldSelector=");
            escape(API_SERVICE, &mut request);
            request.push('&');
        }
        if self.kind == Kind::Pods {
            request.push_str("fieldSelector=");
            escape(LIVING_PODS, &mut request);
            if let Scope::PodsOf(node) = &source.scope {
                escape(",spec.nodeName=", &mut request);
                escape(node, &mut request);
            }
            request.push('&');
        }
        request
    }
}

/// Path and selector of the slices of one service, for which a right in its namespace is enough.
fn slices_of(namespace: &str, service: &str) -> String {
    let (group, kind) = SLICES.rsplit_once('/').unwrap_or((SLICES, ""));
    let mut request = format!("{group}/namespaces/");
    escape(namespace, &mut request);
    _ = write!(request, "/{kind}?labelSelector=");
    escape(OF_SERVICE, &mut request);
    request.push_str("%3D");
    escape(service, &mut request);
    request.push('&');
    request
}

/// Percent-encodes all but unreserved characters (RFC 3986 section 2.3).
fn escape(text: &str, out: &mut String) {
    for octet in text.bytes() {
        match octet {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(octet));
            }
            _ => _ = write!(out, "%{octet:02X}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: Kind) -> Resource {
        *all().iter().find(|resource| resource.kind == kind).unwrap()
    }

    #[test]
    fn selectors_reach_the_kinds_they_are_meant_for() {
        let source = Source {
            labels: Some("app in (a, b)".into()),
            namespace_labels: Some("dns=on".into()),
            ..Source::default()
        };
        let page = |kind| of(kind).page(&source, None, true);
        assert_eq!(page(Kind::Namespaces), "/api/v1/namespaces?labelSelector=dns%3Don&limit=500");
        let services = "/api/v1/services?labelSelector=app%20in%20%28a%2C%20b%29&limit=500";
        assert_eq!(page(Kind::Services), services);
        assert_eq!(
            page(Kind::Slices),
            "/apis/discovery.k8s.io/v1/endpointslices?labelSelector=app%20in%20%28a%2C%20b%29%2C\
             kubernetes.io%2Fservice-name&limit=500"
        );
        assert!(page(Kind::Pods).contains("fieldSelector=status.phase%21%3DSucceeded%2C"));
        let node = Source { scope: Scope::PodsOf("n1".into()), ..Source::default() };
        let pods = of(Kind::Pods).page(&node, None, true);
        assert!(pods.contains("%2Cspec.nodeName%3Dn1&limit=500"), "{pods}");
        let scope = Scope::SlicesOf { namespace: "kube-system".into(), service: "dns".into() };
        let one = Source { scope, ..Source::default() };
        assert_eq!(
            of(Kind::Slices).page(&one, None, true),
            "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices?labelSelector=\
             kubernetes.io%2Fservice-name%3Ddns&limit=500"
        );
        assert_eq!(wanted(&one).map(|resource| resource.kind).collect::<Vec<_>>(), [Kind::Slices]);
        let next = of(Kind::Services).page(&Source::default(), Some("a+b="), false);
        assert_eq!(next, "/api/v1/services?limit=500&continue=a%2Bb%3D");
    }

    #[test]
    fn a_source_is_asked_for_no_more_than_it_wants() {
        let kinds = |source: &Source| wanted(source).map(|r| r.kind).collect::<Vec<_>>();
        assert_eq!(kinds(&Source::default()), [Kind::Namespaces, Kind::Services]);
        let all = Source { endpoints: true, pods: true, imports: true, ..Source::default() };
        assert_eq!(kinds(&all).len(), RESOURCES.len() - 2);
        let names = Source { scope: Scope::Names, ..all.clone() };
        let witnesses = [Kind::ApiService, Kind::SystemServices];
        assert_eq!(kinds(&names), [&[Kind::Namespaces, Kind::Services][..], &witnesses].concat());
        assert_eq!(
            of(Kind::ApiService).page(&names, None, true),
            "/api/v1/namespaces/default/services?fieldSelector=metadata.name%3Dkubernetes&limit=500"
        );
        let pods = Source { scope: Scope::PodsOf("n1".into()), ..all };
        assert_eq!(kinds(&pods), [Kind::Pods]);
    }
}
