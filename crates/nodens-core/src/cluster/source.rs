//! What a `kubernetes` directive wants to be told.

use std::path::PathBuf;

/// Which objects of which API server are fetched. Equal sources share one watch, whatever server
/// blocks and reloads they come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Source {
    /// The API server.
    pub api: Api,
    /// Which part of a cluster is fetched.
    pub scope: Scope,
    /// Whether nothing else will do for what is in a scope that is not [`Scope::Whole`], for which that
    /// is always so.
    pub needed: bool,
    /// Label selector of services, endpoint slices and pods (`labels`), as written.
    pub labels: Option<String>,
    /// Label selector of namespaces (`namespace_labels`), as written.
    pub namespace_labels: Option<String>,
    /// Whether pods are wanted (`pods verified`).
    pub pods: bool,
    /// Whether endpoint slices are wanted (all but `noendpoints`).
    pub endpoints: bool,
    /// Whether endpoints keep their topology zones (`zonal`).
    pub zones: bool,
    /// Whether endpoints keep the names of their pods (`endpoint_pod_names`).
    pub pod_names: bool,
    /// Whether service imports and their slices are wanted (`multicluster`).
    pub imports: bool,
    /// Requests to the API server a second (`apiserver_qps`), in thousandths.
    pub milli_qps: Option<u64>,
    /// Requests at once before `milli_qps` applies (`apiserver_burst`).
    pub burst: Option<u32>,
    /// Requests under way at a time (`apiserver_max_inflight`).
    pub max_inflight: Option<u32>,
}

impl Source {
    /// Whether the process does without it where it has no right to read it.
    pub fn is_optional(&self) -> bool {
        self.scope != Scope::Whole && !self.needed
    }
}

/// How much of a cluster is fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Namespaces and services, and what else the source wants.
    #[default]
    Whole,
    /// The names of namespaces and services, and nothing of what is in them.
    Names,
    /// The pods of the node with this name, and nothing else.
    PodsOf(Box<str>),
    /// The endpoint slices of one service, and nothing else.
    SlicesOf {
        /// The service's namespace.
        namespace: Box<str>,
        /// The service's name.
        service: Box<str>,
    },
}

/// Where the API server is and who asks it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Api {
    /// As a pod finds it: environment, service account token and authority.
    #[default]
    InCluster,
    /// `endpoint URL`, with `tls CERT KEY CACERT` if given.
    Endpoint {
        /// The server, such as `https://192.0.2.1:6443`.
        url: String,
        /// Certificates.
        tls: Option<Tls>,
    },
    /// `kubeconfig FILE [CONTEXT]`.
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The context, if not the file's current one.
        context: Option<String>,
    },
}

/// `tls CERT KEY CACERT`; an empty path is not used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tls {
    /// The client's certificate, PEM.
    pub cert: PathBuf,
    /// The client's key, PEM.
    pub key: PathBuf,
    /// The authority that signed the server's certificate, PEM.
    pub ca: PathBuf,
}
