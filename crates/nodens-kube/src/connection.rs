//! Requests to the API server of one source: who asks, over what, how often.

use crate::fault::{Fault, Status};
use crate::form::Form;
use crate::limits::{
    CONNECT_TIMEOUT, HEAD_TIMEOUT, NAMES_PROBE_AFTER, NAMES_PROBE_TIMEOUT, PROBE_AFTER,
    PROBE_TIMEOUT, REFUSAL_MAX, RENEW_MIN,
};
use crate::metrics::Metrics;
use crate::pace::Bucket;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use nodens_core::cluster::{Api, Scope, Source, Tls};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tower::{BoxError, ServiceBuilder};

/// A source whose API server cannot even be asked.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not in a pod, or without a service account.
    #[error("unable to load in-cluster configuration: {0}")]
    InCluster(#[from] kube::config::InClusterError),
    /// The kubeconfig cannot be used.
    #[error("kubeconfig: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// The URL of `endpoint` is none.
    #[error("endpoint {url}: {error}")]
    Endpoint {
        /// As written.
        url: String,
        /// What is wrong with it.
        error: http::uri::InvalidUri,
    },
    /// A file of `tls` cannot be read.
    #[error("tls: {path}: {error}")]
    Tls {
        /// The file.
        path: String,
        /// The system's words.
        error: std::io::Error,
    },
    /// The authority's file has no certificate in it.
    #[error("tls: {path}: expected certificates in PEM")]
    Authority {
        /// The file.
        path: String,
    },
    /// There is no thread to watch on.
    #[error("no thread: {0}")]
    Thread(std::io::Error),
    /// Certificates, keys or tokens cannot be used.
    #[error("{0}")]
    Credentials(#[source] Box<kube::Error>),
}

/// The way to one API server. Loops share it.
pub(crate) struct Connection {
    api: Api,
    scope: Scope,
    /// Host and port, for metrics and log lines.
    host: String,
    agent: HeaderValue,
    bucket: Mutex<Bucket>,
    inflight: Option<Semaphore>,
    client: tokio::sync::Mutex<Held>,
    metrics: Arc<Metrics>,
}

/// Whether a request waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As `apiserver_qps` and `apiserver_burst` say.
    InTurn,
    /// No: it goes on with something that had its turn.
    AtOnce,
}

/// A response, of which the body is still to come.
pub(crate) struct Answer {
    pub(crate) form: Form,
    pub(crate) body: Body,
}

/// The client made from the files as they were at `made`.
struct Held {
    client: Option<Client>,
    made: Instant,
    generation: u64,
}

/// A client and which one it is.
struct Using {
    client: Client,
    generation: u64,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({})", self.host)
    }
}

impl Connection {
    /// Reads the configuration of `source`; nothing is sent yet.
    pub(crate) async fn new(source: &Source, metrics: Arc<Metrics>) -> Result<Self, ConfigError> {
        let config = config(&source.api).await?;
        let authority = config.cluster_url.authority().map(ToString::to_string);
        let client = client(config, &source.scope)?;
        let permits = source.max_inflight.filter(|max| *max > 0);
        let now = Instant::now();
        let agent = concat!("nodens/", env!("CARGO_PKG_VERSION"));
        Ok(Self {
            api: source.api.clone(),
            scope: source.scope.clone(),
            host: authority.unwrap_or_default(),
            agent: HeaderValue::from_static(agent),
            bucket: Mutex::new(Bucket::new(source, now)),
            inflight: permits.map(|max| Semaphore::new(max as usize)),
            client: tokio::sync::Mutex::new(Held {
                client: Some(client),
                made: now,
                generation: 0,
            }),
            metrics,
        })
    }

    /// Host and port of the server.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Asks for `path`, with its query, in one of the given forms ([`crate::form::accepted`]);
    /// gives a response with status 200.
    pub(crate) async fn get(
        &self,
        path: &str,
        accepted: HeaderValue,
        pace: Pace,
    ) -> Result<Answer, Fault> {
        if pace == Pace::InTurn {
            self.take_turn().await;
        }
        let using = self.client().await?;
        let result = self.exchange(&using.client, path, accepted).await;
        if result.as_ref().err().is_some_and(Fault::wants_new_credentials) {
            self.forget(using.generation).await;
        }
        result
    }

    async fn take_turn(&self) {
        let wait = {
            let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
            bucket.take(Instant::now())
        };
        self.metrics.waited(&self.host, wait);
        tokio::time::sleep(wait).await;
    }

    async fn exchange(
        &self,
        client: &Client,
        path: &str,
        accepted: HeaderValue,
    ) -> Result<Answer, Fault> {
        let request = Request::get(path)
            .header(ACCEPT, accepted)
            .header(USER_AGENT, self.agent.clone())
            .body(Body::empty())
            .map_err(|error| Fault::Strange(error.to_string()))?;
        let permit = match &self.inflight {
            Some(permits) => permits.acquire().await.ok(),
            None => None,
        };
        let begun = Instant::now();
        let sent = tokio::time::timeout(HEAD_TIMEOUT, client.send(request)).await;
        drop(permit);
        let code = match &sent {
            Ok(Ok(response)) => response.status().as_str().to_owned(),
            _ => "<error>".to_owned(),
        };
        self.metrics.requested(&self.host, &code, begun.elapsed());
        match sent {
            Err(_) => Err(Fault::Unreachable(format!("no answer within {HEAD_TIMEOUT:?}"))),
            Ok(Err(error)) => Err(fault_of(&error)),
            Ok(Ok(response)) if response.status() == 200 => {
                let form = Form::of(response.headers().get(CONTENT_TYPE));
                Ok(Answer { form, body: response.into_body() })
            }
            Ok(Ok(response)) => Err(refusal(response).await),
        }
    }

    /// The client, made anew if it was given up.
    async fn client(&self) -> Result<Using, Fault> {
        let mut held = self.client.lock().await;
        if held.client.is_none() {
            let due = held.made + RENEW_MIN;
            tokio::time::sleep_until(due.into()).await;
            held.made = Instant::now();
            let made = match config(&self.api).await {
                Ok(config) => client(config, &self.scope),
                Err(error) => Err(error),
            };
            held.client = Some(made.map_err(|error| Fault::Config(error.to_string()))?);
            held.generation += 1;
        }
        let generation = held.generation;
        let client = held.client.clone();
        let lost = || Fault::Config("no client".to_owned());
        Ok(Using { client: client.ok_or_else(lost)?, generation })
    }

    /// Gives up the client of `generation`: its files are read anew for the next request.
    async fn forget(&self, generation: u64) {
        let mut held = self.client.lock().await;
        if held.generation == generation {
            held.client = None;
        }
    }
}

fn fault_of(error: &kube::Error) -> Fault {
    match error {
        kube::Error::Auth(error) => Fault::Config(error.to_string()),
        kube::Error::Service(error) if error.is::<kube::client::AuthError>() => {
            Fault::Config(error.to_string())
        }
        kube::Error::Service(error) => Fault::of_transport(&**error),
        error => Fault::of_transport(error),
    }
}

/// The fault of an error while a body is read.
pub(crate) fn broken(error: &kube::Error) -> Fault {
    match fault_of(error) {
        Fault::Unreachable(text) => Fault::Unreachable(format!("connection broken: {text}")),
        fault => fault,
    }
}

/// What a response other than 200 says.
async fn refusal(response: Response<Body>) -> Fault {
    let (head, body) = response.into_parts();
    let after = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let body = Limited::new(body, REFUSAL_MAX).collect();
    let text = match tokio::time::timeout(HEAD_TIMEOUT, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => bytes::Bytes::new(),
        Ok(Err(error)) => return Fault::of_transport(&*error),
        Err(_) => return Fault::Unreachable("the answer does not end".to_owned()),
    };
    let form = Form::of(head.headers.get(CONTENT_TYPE));
    let status = form.status(&text).unwrap_or_else(|| Status {
        message: Some(String::from_utf8_lossy(&text).trim().chars().take(200).collect()),
        ..Status::default()
    });
    match status.fault(head.status.as_u16()) {
        Fault::Busy { text, after: said } => {
            Fault::Busy { text, after: after.map(Duration::from_secs).or(said) }
        }
        fault => fault,
    }
}

async fn config(api: &Api) -> Result<Config, ConfigError> {
    match api {
        Api::InCluster => Ok(Config::incluster()?),
        Api::Kubeconfig { path, context } => {
            let file = Kubeconfig::read_from(path)?;
            let context = context.clone();
            let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
            Ok(Config::from_custom_kubeconfig(file, &options).await?)
        }
        Api::Endpoint { url, tls } => endpoint(url, tls.as_ref()),
    }
}

fn endpoint(url: &str, tls: Option<&Tls>) -> Result<Config, ConfigError> {
    // As client-go: without a scheme, certificates decide.
    let whole = match (url.contains("://"), tls.is_some()) {
        (true, _) => url.to_owned(),
        (false, true) => format!("https://{url}"),
        (false, false) => format!("http://{url}"),
    };
    let uri: Uri =
        whole.parse().map_err(|error| ConfigError::Endpoint { url: url.to_owned(), error })?;
    let mut config = Config::new(uri);
    let Some(tls) = tls else { return Ok(config) };
    let given = |path: &Path| (!path.as_os_str().is_empty()).then(|| path.display().to_string());
    config.auth_info.client_certificate = given(&tls.cert);
    config.auth_info.client_key = given(&tls.key);
    if let Some(path) = given(&tls.ca) {
        config.root_cert = Some(authorities(path)?);
    }
    Ok(config)
}

fn authorities(path: String) -> Result<Vec<Vec<u8>>, ConfigError> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) => return Err(ConfigError::Tls { path, error }),
    };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => {
            Ok(found.into_iter().map(|certificate| certificate.to_vec()).collect())
        }
        _ => Err(ConfigError::Authority { path }),
    }
}

/// The client of `config`: over TLS one HTTP/2 connection for all loops, probed when it is quiet,
/// which `kube`'s own choice of HTTP/1.1 would not be. Compression is not asked for: it would cost
/// both sides more than the network does.
fn client(config: Config, scope: &Scope) -> Result<Client, ConfigError> {
    let (probe_after, probe_timeout) = match scope {
        Scope::Whole | Scope::PodsOf(_) | Scope::SlicesOf { .. } => (PROBE_AFTER, PROBE_TIMEOUT),
        Scope::Names => (NAMES_PROBE_AFTER, NAMES_PROBE_TIMEOUT),
    };
    let made = |error| ConfigError::Credentials(Box::new(error));
    // Does nothing if someone has chosen before.
    _ = rustls::crypto::ring::default_provider().install_default();
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_keepalive(Some(probe_after));
    http.set_keepalive_interval(Some(probe_timeout / 3));
    http.set_keepalive_retries(Some(3));
    let tls = config.rustls_client_config().map_err(made)?;
    let mut https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name
        && let Ok(name) = rustls::pki_types::ServerName::try_from(name.clone())
    {
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let https = https.enable_http1().enable_http2().wrap_connector(http);
    let service = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(probe_after)
        .http2_keep_alive_timeout(probe_timeout)
        .build(https);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(made)?)
        .layer(config.extra_headers_layer().map_err(made)?)
        .map_err(BoxError::from)
        .service(service);
    Ok(Client::new(service, config.default_namespace))
}
