//! Requests to the ACME server.

use crate::limits::{CONNECT_TIMEOUT, RESPONSE_MAX, RESPONSE_TIMEOUT};
use crate::resolver::Resolver;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use nodens_tls::{AcmeOptions, Authorities};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use std::pin::Pin;
use std::sync::Arc;

/// Sends requests over HTTP/2 or HTTP/1.1, each with bounds on time and size.
pub(crate) struct Requests(Client<HttpsConnector<HttpConnector<Resolver>>, BodyWrapper<Bytes>>);

impl Requests {
    /// To whom `options` name.
    ///
    /// # Errors
    /// The file with authorities cannot be read any more.
    pub(crate) fn new(options: &AcmeOptions) -> Result<Self, Error> {
        let other = |error: rustls::Error| Error::Other(error.into());
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = &options.ca_root {
            let failed = |error| Error::Other(format!("{}: {error}", path.display()).into());
            let octets = std::fs::read(path).map_err(failed)?;
            roots.add_parsable_certificates(Authorities::in_text(&octets));
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let tls = tls.with_safe_default_protocol_versions().map_err(other)?;
        let tls = tls.with_root_certificates(roots).with_no_client_auth();
        let mut http = HttpConnector::new_with_resolver(Resolver::new(options.resolver.clone()));
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let https = https.enable_http1().enable_http2().wrap_connector(http);
        Ok(Self(Client::builder(TokioExecutor::new()).build(https)))
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>>;

impl HttpClient for Requests {
    fn request(&self, request: Request<BodyWrapper<Bytes>>) -> Answer {
        let response = self.0.request(request);
        let whole = async move {
            let response = response.await.map_err(|error| Error::Other(chain(&error).into()))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, RESPONSE_MAX).collect().await.map_err(Error::Other)?;
            Ok(BytesResponse::from(Response::from_parts(head, Full::new(body.to_bytes()))))
        };
        Box::pin(async move {
            let late = |_| Error::Other("the ACME server timed out".into());
            tokio::time::timeout(RESPONSE_TIMEOUT, whole).await.map_err(late)?
        })
    }
}

/// An error with its causes: the outermost alone says "client error (Connect)".
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
