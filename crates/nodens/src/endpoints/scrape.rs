//! `/metrics`: the format and the encoding that a scraper asks for, chosen as Prometheus' Go client
//! does for CoreDNS, which offers no OpenMetrics. It is here for scrapers that read nothing else:
//! Prometheus prefers it, but would then see `le="100.0"` instead of `le="100"`, another series.

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use nodens_core::metrics::Exposition;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Mutex;

const PROTOBUF: &str = "application/vnd.google.protobuf";
const FAMILY: &str = "io.prometheus.client.MetricFamily";
const OPEN_METRICS: &str = "application/openmetrics-text";
/// How names are escaped that old scrapers cannot read; there are none, so all of them are the same.
const ESCAPINGS: [&str; 4] = ["allow-utf-8", "underscores", "dots", "values"];
const ESCAPING_DEFAULT: &str = "underscores";
/// Clauses of a header that are looked at. Prometheus sends five.
const CLAUSES_MAX: usize = 16;

/// A clause of an `Accept` header.
#[derive(Debug, Default)]
struct Clause<'h> {
    kind: &'h str,
    quality: f32,
    version: &'h str,
    proto: &'h str,
    encoding: &'h str,
    escaping: &'h str,
}

/// What a page is like, beside what is in it.
#[derive(Clone, Debug)]
struct Shape {
    format: Exposition,
    kind: String,
    is_packed: bool,
}

impl Shape {
    fn wanted(headers: &HeaderMap) -> Self {
        let (format, kind) = negotiate(text(headers, header::ACCEPT));
        Self { format, kind, is_packed: takes_gzip(text(headers, header::ACCEPT_ENCODING)) }
    }

    fn page(mut self, begun: Instant, body: Vec<u8>) -> Page {
        let packed = self.is_packed.then(|| gzip(&body)).and_then(Result::ok);
        // What anybody's proxy keeps is for those alone that ask for the same.
        self.is_packed = packed.is_some();
        Page { begun, shape: self, body: packed.unwrap_or(body).into() }
    }
}

/// All series at a time.
#[derive(Clone, Debug)]
struct Page {
    begun: Instant,
    shape: Shape,
    body: Bytes,
}

impl Page {
    fn is_like(&self, shape: &Shape) -> bool {
        self.shape.format == shape.format && self.shape.is_packed == shape.is_packed
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let kind = [(header::CONTENT_TYPE, self.shape.kind)];
        match self.shape.is_packed {
            true => (kind, [(header::CONTENT_ENCODING, "gzip")], self.body).into_response(),
            false => (kind, self.body).into_response(),
        }
    }
}

/// Makes pages, one at a time and on a thread of their own: clients may ask for any number of pages, and `/health` must not
/// wait for them. Requests that wait for their turn share the page that is begun next.
#[derive(Debug, Default)]
pub(super) struct Scrapes {
    last: Arc<Mutex<Option<Page>>>,
    waiting: Arc<()>,
}

impl Scrapes {
    /// All series as `headers` want them; `render` gives them in a format.
    pub(super) async fn page(
        &self,
        headers: &HeaderMap,
        render: impl FnOnce(Exposition) -> Vec<u8> + Send + 'static,
    ) -> Response {
        let (arrived, shape, waits) =
            (Instant::now(), Shape::wanted(headers), self.waiting.clone());
        // The lock goes with the page to its thread: a client that disconnects does not let another page begin beside it.
        let mut last = self.last.clone().lock_owned().await;
        if let Some(page) =
            last.clone().filter(|page| page.begun >= arrived && page.is_like(&shape))
        {
            // The content type has details that change nothing of the content.
            return Page { shape: Shape { kind: shape.kind, ..page.shape }, ..page }
                .into_response();
        }
        let made = tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            let page = shape.clone().page(begun, render(shape.format));
            // The field and this request hold two references; every other one is a request that waits.
            *last = (Arc::strong_count(&waits) > 2).then(|| page.clone());
            page
        });
        match made.await {
            Ok(page) => page.into_response(),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn gzip(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::fast());
    packed.write_all(body)?;
    packed.finish()
}

/// The format for an `Accept` header, and its content type.
fn negotiate(accept: &str) -> (Exposition, String) {
    let mut clauses: Vec<Clause<'_>> =
        accept.split(',').take(CLAUSES_MAX).filter_map(clause).collect();
    // Of equal ones the first.
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    let is_text = |c: &Clause<'_>| c.kind == "text/plain" && matches!(c.version, "" | "0.0.4");
    let takes_text = clauses.iter().any(is_text);
    let mut escaping = ESCAPING_DEFAULT;
    let text = |escaping| {
        (Exposition::Text, format!("text/plain; version=0.0.4; charset=utf-8; escaping={escaping}"))
    };
    for clause in clauses {
        if ESCAPINGS.contains(&clause.escaping) {
            escaping = clause.escaping;
        }
        match (clause.kind, clause.version) {
            (PROTOBUF, _) if clause.proto == FAMILY && clause.encoding == "delimited" => {
                let kind = format!("{PROTOBUF}; proto={FAMILY}; encoding=delimited");
                return (Exposition::Protobuf, format!("{kind}; escaping={escaping}"));
            }
            _ if is_text(&clause) => return text(escaping),
            (OPEN_METRICS, "" | "0.0.1" | "1.0.0") if !takes_text => {
                let version = if clause.version == "1.0.0" { "1.0.0" } else { "0.0.1" };
                let kind = format!("{OPEN_METRICS}; version={version}; charset=utf-8");
                return (Exposition::OpenMetrics, format!("{kind}; escaping={escaping}"));
            }
            _ => {}
        }
    }
    text(escaping)
}

fn clause(text: &str) -> Option<Clause<'_>> {
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next().filter(|kind| !kind.is_empty())?;
    let mut clause = Clause { kind, quality: 1.0, ..Clause::default() };
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        let value = value.trim();
        match name.trim() {
            "q" => clause.quality = value.parse().unwrap_or(0.0),
            "version" => clause.version = value,
            "proto" => clause.proto = value,
            "encoding" => clause.encoding = value,
            "escaping" => clause.escaping = value,
            _ => {}
        }
    }
    Some(clause)
}

/// Whether an `Accept-Encoding` header prefers gzip to nothing.
fn takes_gzip(accept: &str) -> bool {
    let (mut gzip, mut identity) = (None, None);
    for clause in accept.split(',').take(CLAUSES_MAX).filter_map(clause) {
        match clause.kind {
            "gzip" => gzip = Some(clause.quality),
            "identity" => identity = Some(clause.quality),
            "*" => {
                gzip = gzip.or(Some(clause.quality));
                identity = identity.or(Some(clause.quality));
            }
            _ => {}
        }
    }
    gzip.is_some_and(|gzip| gzip > identity.unwrap_or(0.0).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn the_format_is_chosen_as_the_go_client_does() {
        let protobuf = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                        encoding=delimited";
        let open = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        let old = "application/openmetrics-text; version=0.0.1; charset=utf-8";
        let text = "text/plain; version=0.0.4; charset=utf-8";
        let offer = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily";
        for (accept, expected, escaping) in [
            ("", text, "underscores"),
            ("*/*", text, "underscores"),
            ("application/json", text, "underscores"),
            ("text/plain;version=0.0.3", text, "underscores"),
            (&format!("{offer};encoding=delimited"), protobuf, "underscores"),
            (&format!("{offer};encoding=text"), text, "underscores"),
            ("application/vnd.google.protobuf;encoding=delimited", text, "underscores"),
            ("application/openmetrics-text", old, "underscores"),
            ("application/openmetrics-text;version=2.0.0", text, "underscores"),
            ("application/openmetrics-text;version=1.0.0", open, "underscores"),
            ("application/openmetrics-text;version=1.0.0, text/plain", text, "underscores"),
            ("application/openmetrics-text;q=0.4,text/plain;q=0.5", text, "underscores"),
            (
                &format!("text/plain;q=0.3,{offer};encoding=delimited;q=0.7"),
                protobuf,
                "underscores",
            ),
            // Prometheus 2 and 3 as they come, and 3 with native histograms.
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,\
                 application/openmetrics-text;version=0.0.1;q=0.4,\
                 text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                text,
                "underscores",
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                 application/openmetrics-text;version=0.0.1;q=0.5,\
                 text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                 text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                text,
                "allow-utf-8",
            ),
            (
                &format!(
                    "{offer};encoding=delimited;escaping=allow-utf-8;q=0.7,\
                     application/openmetrics-text;version=1.0.0;q=0.6,*/*;q=0.2"
                ),
                protobuf,
                "allow-utf-8",
            ),
        ] {
            assert_eq!(negotiate(accept).1, format!("{expected}; escaping={escaping}"), "{accept}");
        }
    }

    #[test]
    fn gzip_only_for_those_who_prefer_it() {
        for (accept, expected) in [
            ("", false),
            ("gzip", true),
            ("deflate, gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("*", false),
            ("identity", false),
            ("gzip;q=0.5, identity;q=0.6", false),
        ] {
            assert_eq!(takes_gzip(accept), expected, "{accept}");
        }
    }

    #[test]
    fn requests_that_wait_share_a_page_and_none_gets_an_earlier_one() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (scrapes, made) = (Arc::new(Scrapes::default()), Arc::new(AtomicUsize::new(0)));
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let (end, ends) = std::sync::mpsc::channel();
        let ends = Arc::new(std::sync::Mutex::new(ends));
        let ask = |accept: &'static str| {
            let (scrapes, made) = (scrapes.clone(), made.clone());
            let (begun, ends) = (begun.clone(), ends.clone());
            let headers = HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]);
            async move {
                let render = move |_| {
                    begun.send(()).unwrap();
                    ends.lock().unwrap().recv().unwrap();
                    vec![made.fetch_add(1, Ordering::Relaxed) as u8]
                };
                let response = scrapes.page(&headers, render).await;
                axum::body::to_bytes(response.into_body(), 10).await.unwrap()[0]
            }
        };
        let test = async {
            let first = tokio::spawn(ask("text/plain"));
            // The thread is free while the page is made.
            begins.recv().await.unwrap();
            let others: Vec<_> = (0..20).map(|_| tokio::spawn(ask("text/plain"))).collect();
            // All of them wait once this has had its turn behind them.
            tokio::spawn(async {}).await.unwrap();
            end.send(()).unwrap();
            assert_eq!(first.await.unwrap(), 0);
            begins.recv().await.unwrap();
            end.send(()).unwrap();
            for other in others {
                assert_eq!(other.await.unwrap(), 1);
            }
            end.send(()).unwrap();
            assert_eq!(ask("text/plain").await, 2);
            assert!(scrapes.last.lock().await.is_none(), "no request waits for it");
        };
        let limit = std::time::Duration::from_secs(20);
        runtime.block_on(async { tokio::time::timeout(limit, test).await }).unwrap();
    }
}
