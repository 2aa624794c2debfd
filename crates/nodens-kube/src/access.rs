//! Where an API server is, who we are to it and whom we believe, as client-go reads the same files.

use crate::limits::TOKEN_FRESH;
use crate::trust::Trust;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use kube::Config;
use kube::config::{Cluster, InClusterError, KubeConfigOptions, Kubeconfig};
use nodens_core::cluster::{Api, Tls};
use nodens_tls::Authorities;
use rustls::pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A source whose API server cannot even be asked.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not in a pod, or without a service account.
    #[error("unable to load in-cluster configuration: {0}")]
    InCluster(#[from] InClusterError),
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
    #[error("{path}: expected certificates in PEM")]
    Authority {
        /// The file, or the field.
        path: String,
    },
    /// `tls-server-name` is no name.
    #[error("tls-server-name: expected a name or an address, found `{0}`")]
    ServerName(String),
    /// The file with the token cannot be used.
    #[error("token file {path}: {error}")]
    Token {
        /// The file.
        path: String,
        /// What is wrong with it.
        error: String,
    },
    /// There is no thread to watch on.
    #[error("no thread: {0}")]
    Thread(std::io::Error),
    /// Certificates, keys or tokens cannot be used.
    #[error("{0}")]
    Credentials(#[source] Box<kube::Error>),
}

/// All that has to be known to ask an API server.
#[derive(Debug)]
pub(crate) struct Access {
    /// Without authorities and token file.
    pub(crate) config: Config,
    pub(crate) trust: Trust,
    pub(crate) token: Option<TokenFile>,
}

/// Where the kubelet puts what a pod's service account needs.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

impl Access {
    /// Reads what `api` names.
    pub(crate) async fn read(api: &Api) -> Result<Self, ConfigError> {
        match api {
            Api::InCluster => {
                let variable =
                    |name| std::env::var(name).map_err(InClusterError::ReadEnvironmentVariable);
                let host = variable("KUBERNETES_SERVICE_HOST")?;
                let port = variable("KUBERNETES_SERVICE_PORT")?;
                Self::in_cluster(&host, &port, Path::new(ACCOUNT))
            }
            Api::Kubeconfig { path, context } => Self::kubeconfig(path, context.clone()).await,
            Api::Endpoint { url, tls } => Self::endpoint(url, tls.as_ref()),
        }
    }

    fn in_cluster(host: &str, port: &str, account: &Path) -> Result<Self, ConfigError> {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let url = format!("https://{host}:{port}");
        let config = Config::new(url.parse().map_err(InClusterError::ParseClusterUrl)?);
        let token = TokenFile::new(account.join("token"))?;
        let file = account.join("ca.crt");
        // As client-go, which goes on with the system's where there is none.
        let found = Authorities::in_text(&std::fs::read(&file).unwrap_or_default());
        let trust = match found.is_empty() {
            true => Trust::System,
            false => Trust::Given(found, Some(file)),
        };
        Ok(Self { config, trust, token: Some(token) })
    }

    async fn kubeconfig(path: &Path, context: Option<String>) -> Result<Self, ConfigError> {
        let mut file = Kubeconfig::read_from(path)?;
        for cluster in file.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            only_certificates(cluster);
        }
        let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
        let mut config = Config::from_custom_kubeconfig(file, &options).await?;
        let found = config.root_cert.take().map(|found| {
            let found = found.into_iter().map(CertificateDer::from);
            found.filter(Authorities::is_certificate).collect::<Vec<_>>()
        });
        let trust = match found {
            _ if config.accept_invalid_certs => Trust::Skipped,
            None => Trust::System,
            Some(found) if found.is_empty() => {
                return Err(ConfigError::Authority { path: path.display().to_string() });
            }
            Some(found) => Trust::Given(found, None),
        };
        let user = &mut config.auth_info;
        let alone = user.auth_provider.is_none() && user.username.is_none();
        let token = match user.token_file.take_if(|_| alone) {
            Some(path) => match TokenFile::new(path.into()) {
                Ok(token) => Some(token),
                // As client-go: what is written beside it stands in for the file.
                Err(_) if user.token.is_some() => None,
                Err(error) => return Err(error),
            },
            None => None,
        };
        if token.is_some() {
            user.token = None;
        }
        Ok(Self { config, trust, token })
    }

    fn endpoint(url: &str, tls: Option<&Tls>) -> Result<Self, ConfigError> {
        // As client-go: without a scheme, certificates decide.
        let whole = match (url.contains("://"), tls.is_some()) {
            (true, _) => url.to_owned(),
            (false, true) => format!("https://{url}"),
            (false, false) => format!("http://{url}"),
        };
        let uri: Uri =
            whole.parse().map_err(|error| ConfigError::Endpoint { url: url.to_owned(), error })?;
        let mut config = Config::new(uri);
        let mut trust = Trust::System;
        if let Some(tls) = tls {
            let given =
                |path: &Path| (!path.as_os_str().is_empty()).then(|| path.display().to_string());
            config.auth_info.client_certificate = given(&tls.cert);
            config.auth_info.client_key = given(&tls.key);
            if let Some(path) = given(&tls.ca) {
                trust = Trust::Given(authorities(path)?, None);
            }
        }
        Ok(Self { config, trust, token: None })
    }
}

/// Leaves nothing but certificates of what a kubeconfig says of the authority: `kube` refuses all of
/// it for what Go skips.
fn only_certificates(cluster: &mut Cluster) {
    let data = cluster.certificate_authority_data.take().filter(|data| !data.is_empty());
    let text = match (&data, &cluster.certificate_authority) {
        (Some(data), _) => STANDARD.decode(data.trim_ascii()).ok(),
        (None, Some(path)) => std::fs::read(path).ok(),
        (None, None) => None,
    };
    match text {
        // As client-go: the same as none.
        Some(text) if text.is_empty() => cluster.certificate_authority = None,
        Some(text) => {
            let found = Authorities::in_text(&text);
            let kept = (!found.is_empty()).then(|| STANDARD.encode(pem(&found)));
            cluster.certificate_authority_data = kept.or(data);
        }
        None => cluster.certificate_authority_data = data,
    }
}

fn pem(certificates: &[CertificateDer<'_>]) -> String {
    let mut text = String::new();
    for certificate in certificates {
        let body = STANDARD.encode(certificate);
        text += "-----BEGIN CERTIFICATE-----\n";
        for line in body.as_bytes().chunks(64) {
            text += &String::from_utf8_lossy(line);
            text.push('\n');
        }
        text += "-----END CERTIFICATE-----\n";
    }
    text
}

fn authorities(path: String) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) => return Err(ConfigError::Tls { path, error }),
    };
    match Authorities::in_text(&text) {
        found if found.is_empty() => Err(ConfigError::Authority { path }),
        found => Ok(found),
    }
}

/// A token in a file that is replaced from time to time.
#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    /// What it said last, and when.
    read: Mutex<(HeaderValue, Instant)>,
}

impl TokenFile {
    fn new(path: PathBuf) -> Result<Self, ConfigError> {
        match read_token(&path) {
            Ok(header) => Ok(Self { path, read: Mutex::new((header, Instant::now())) }),
            Err(error) => Err(ConfigError::Token { path: path.display().to_string(), error }),
        }
    }

    /// The header that says who we are. A file that cannot be read any more changes nothing.
    pub(crate) fn header(&self) -> HeaderValue {
        self.header_at(Instant::now())
    }

    fn header_at(&self, now: Instant) -> HeaderValue {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(read.1) >= TOKEN_FRESH {
            read.1 = now;
            if let Ok(header) = read_token(&self.path) {
                read.0 = header;
            }
        }
        read.0.clone()
    }
}

/// Without the space around it, as client-go.
fn read_token(path: &Path) -> Result<HeaderValue, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    bearer(text.trim())
}

fn bearer(token: &str) -> Result<HeaderValue, String> {
    if token.is_empty() {
        return Err("expected a token, found nothing".to_owned());
    }
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value = value.map_err(|_| "expected a token without control characters".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests;
