//! Requests to the API server of one source: who asks, over what, how often.

use crate::access::{Access, ConfigError, TokenFile};
use crate::fault::{Fault, Status};
use crate::form::Form;
use crate::limits::{
    CONNECT_TIMEOUT, HEAD_TIMEOUT, NAMES_PROBE_AFTER, NAMES_PROBE_TIMEOUT, PROBE_AFTER,
    PROBE_TIMEOUT, REFUSAL_MAX, RENEW_MIN,
};
use crate::metrics::Metrics;
use crate::pace::Bucket;
use crate::trust::{Trust, Verifier};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use nodens_core::cluster::{Api, Scope, Source};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tower::{BoxError, ServiceBuilder};

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

/// The sender made from the files as they were at `made`.
struct Held {
    sender: Option<Sender>,
    made: Instant,
    generation: u64,
}

/// What requests are sent with.
#[derive(Clone)]
struct Sender {
    client: Client,
    /// Says who we are, if the client does not.
    token: Option<Arc<TokenFile>>,
}

/// A sender and which one it is.
struct Using {
    sender: Sender,
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
        let access = Access::read(&source.api).await?;
        let authority = access.config.cluster_url.authority().map(ToString::to_string);
        let sender = sender(access, &source.scope)?;
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
                sender: Some(sender),
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
        let result = self.exchange(&using.sender, path, accepted).await;
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
        sender: &Sender,
        path: &str,
        accepted: HeaderValue,
    ) -> Result<Answer, Fault> {
        let mut request =
            Request::get(path).header(ACCEPT, accepted).header(USER_AGENT, self.agent.clone());
        if let Some(token) = &sender.token {
            request = request.header(AUTHORIZATION, token.header());
        }
        let request =
            request.body(Body::empty()).map_err(|error| Fault::Strange(error.to_string()))?;
        let permit = match &self.inflight {
            Some(permits) => permits.acquire().await.ok(),
            None => None,
        };
        let begun = Instant::now();
        let sent = tokio::time::timeout(HEAD_TIMEOUT, sender.client.send(request)).await;
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
        if held.sender.is_none() {
            let due = held.made + RENEW_MIN;
            tokio::time::sleep_until(due.into()).await;
            held.made = Instant::now();
            let made = match Access::read(&self.api).await {
                Ok(access) => sender(access, &self.scope),
                Err(error) => Err(error),
            };
            held.sender = Some(made.map_err(|error| Fault::Config(error.to_string()))?);
            held.generation += 1;
        }
        let generation = held.generation;
        let sender = held.sender.clone();
        let lost = || Fault::Config("no client".to_owned());
        Ok(Using { sender: sender.ok_or_else(lost)?, generation })
    }

    /// Gives up the client of `generation`: its files are read anew for the next request.
    async fn forget(&self, generation: u64) {
        let mut held = self.client.lock().await;
        if held.generation == generation {
            held.sender = None;
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

/// What sends with `access`: over TLS one HTTP/2 connection for all loops, probed when it is quiet,
/// which `kube`'s own choice of HTTP/1.1 would not be. Compression is not asked for: it would cost
/// both sides more than the network does.
fn sender(access: Access, scope: &Scope) -> Result<Sender, ConfigError> {
    let Access { config, trust, token } = access;
    let (probe_after, probe_timeout) = match scope {
        Scope::Whole | Scope::PodsOf(_) | Scope::SlicesOf { .. } => (PROBE_AFTER, PROBE_TIMEOUT),
        Scope::Names => (NAMES_PROBE_AFTER, NAMES_PROBE_TIMEOUT),
    };
    let made = |error| ConfigError::Credentials(Box::new(error));
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_keepalive(Some(probe_after));
    http.set_keepalive_interval(Some(probe_timeout / 3));
    http.set_keepalive_retries(Some(3));
    let tls = tls_config(&config, trust)?;
    let mut https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = config.tls_server_name.as_ref().filter(|name| !name.is_empty()) {
        let fixed = ServerName::try_from(name.clone());
        let fixed = fixed.map_err(|_| ConfigError::ServerName(name.clone()))?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(fixed));
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
    let client = Client::new(service, config.default_namespace);
    Ok(Sender { client, token: token.map(Arc::new) })
}

/// Our certificate, if there is one, and whom we believe.
fn tls_config(config: &Config, trust: Trust) -> Result<ClientConfig, ConfigError> {
    let provider = rustls::crypto::ring::default_provider();
    // Does nothing if someone has chosen before.
    _ = provider.clone().install_default();
    // Without authorities of its own: whom we believe is decided here.
    let mut ours = config.clone();
    (ours.root_cert, ours.root_cert_file) = (Some(Vec::new()), None);
    let tls = ours.rustls_client_config();
    let mut tls = tls.map_err(|error| ConfigError::Credentials(Box::new(error)))?;
    let is_tls = config.cluster_url.scheme_str() == Some("https");
    if is_tls && let Some(verifier) = Verifier::new(trust, Arc::new(provider)) {
        tls.dangerous().set_certificate_verifier(Arc::new(verifier));
    }
    Ok(tls)
}
