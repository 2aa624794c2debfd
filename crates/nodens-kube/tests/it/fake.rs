//! An API server that says what a test tells it to, and the watch that listens.

use nodens_core::Shared;
use nodens_core::cluster::{Api, Feed, Link, Source};
use nodens_core::log::{Record, Sink};
use nodens_kube::{Moments, Watches};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long anything may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const NAMESPACES: &str = "/api/v1/namespaces";
pub(crate) const SERVICES: &str = "/api/v1/services";
pub(crate) const API_SERVICE: &str = "/api/v1/namespaces/default/services";
pub(crate) const SYSTEM_SERVICES: &str = "/api/v1/namespaces/kube-system/services";
pub(crate) const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";
pub(crate) const PODS: &str = "/api/v1/pods";
pub(crate) const IMPORTS: &str = "/apis/multicluster.x-k8s.io/v1alpha1/serviceimports";

/// The server.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    asked: Receiver<Asked>,
    early: Mutex<VecDeque<Asked>>,
    /// The newest version that it has, for those who ask for nothing else.
    pub(crate) newest: Arc<AtomicU64>,
}

/// A request that waits for its answer.
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) head: String,
    stream: Box<dyn Stream>,
}

/// A connection, with TLS or without.
pub(crate) trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

type Accept = Box<dyn Fn(TcpStream) -> Box<dyn Stream> + Send>;

impl Fake {
    /// Listens. Requests for `quiet` paths get an empty list that never ends.
    pub(crate) fn start(quiet: &'static [&'static str]) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), quiet)
    }

    /// Where it is asked.
    pub(crate) fn api(&self) -> Api {
        Api::Endpoint { url: format!("http://{}", self.address), tls: None }
    }

    /// Listens for TLS.
    pub(crate) fn with_tls(config: ServerConfig, quiet: &'static [&'static str]) -> Self {
        let config = Arc::new(config);
        let accept = move |stream| -> Box<dyn Stream> {
            let connection = ServerConnection::new(config.clone()).unwrap();
            Box::new(StreamOwned::new(connection, stream))
        };
        Self::accepting("127.0.0.1:0".parse().unwrap(), quiet, Box::new(accept))
    }

    pub(crate) fn at(address: SocketAddr, quiet: &'static [&'static str]) -> Self {
        Self::accepting(address, quiet, Box::new(|stream| Box::new(stream)))
    }

    fn accepting(address: SocketAddr, quiet: &'static [&'static str], accept: Accept) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, asked) = channel();
        let newest = Arc::new(AtomicU64::new(u64::MAX));
        let has = newest.clone();
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming().flatten() {
                _ = stream.set_nodelay(true);
                let Some(mut asked) = Asked::read(accept(stream)) else { continue };
                if asked.query.ends_with("limit=1") {
                    let version = has.load(Ordering::Relaxed);
                    let list = format!(
                        r#"{{"kind":"List","metadata":{{"resourceVersion":"{version}"}},"items":[]}}"#
                    );
                    asked.answer("200 OK", &list);
                } else if quiet.contains(&asked.path.as_str()) {
                    asked.begin().bookmark("1", true);
                    held.push(asked);
                } else if sender.send(asked).is_err() {
                    return;
                }
            }
        });
        Self { address, asked, early: Mutex::default(), newest }
    }

    /// The next request for `path`.
    pub(crate) fn next(&self, path: &str) -> Asked {
        self.try_next(path, PATIENCE).unwrap_or_else(|| panic!("nobody asked for {path}"))
    }

    /// The next request for `path` within `patience`.
    pub(crate) fn try_next(&self, path: &str, patience: Duration) -> Option<Asked> {
        let mut early = self.early.lock().unwrap();
        if let Some(at) = early.iter().position(|asked| asked.path == path) {
            return early.remove(at);
        }
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let asked = self.asked.recv_timeout(left).ok()?;
            if asked.path == path {
                return Some(asked);
            }
            early.push_back(asked);
        }
    }
}

impl Asked {
    fn read(mut stream: Box<dyn Stream>) -> Option<Self> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut octet = [0];
            stream.read_exact(&mut octet).ok()?;
            head.extend(octet);
        }
        let head = String::from_utf8(head).ok()?;
        let target = head.split(' ').nth(1)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Some(Self { path: path.to_owned(), query: query.to_owned(), head: head.clone(), stream })
    }

    pub(crate) fn wants_streamed_list(&self) -> bool {
        self.query.contains("sendInitialEvents=true")
    }

    /// Begins a stream.
    pub(crate) fn begin(&mut self) -> &mut Self {
        self.begin_as("application/json")
    }

    /// Begins a stream in this form.
    pub(crate) fn begin_as(&mut self, form: &str) -> &mut Self {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {form}\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        self.write(head.as_bytes())
    }

    /// A watch that has ended meanwhile reads nothing, which is no fault of the server.
    fn write(&mut self, octets: &[u8]) -> &mut Self {
        _ = self.stream.write_all(octets).and_then(|()| self.stream.flush());
        self
    }

    /// A piece of a stream.
    pub(crate) fn raw(&mut self, text: &str) -> &mut Self {
        self.piece(text.as_bytes())
    }

    /// The same of any octets.
    pub(crate) fn piece(&mut self, octets: &[u8]) -> &mut Self {
        let head = format!("{:x}\r\n", octets.len());
        self.write(&[head.as_bytes(), octets, b"\r\n"].concat())
    }

    pub(crate) fn event(&mut self, kind: &str, object: &str) -> &mut Self {
        self.raw(&format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"))
    }

    pub(crate) fn added(&mut self, object: &str) -> &mut Self {
        self.event("ADDED", object)
    }

    pub(crate) fn bookmark(&mut self, version: &str, list_ends: bool) -> &mut Self {
        let annotations = match list_ends {
            true => r#","annotations":{"k8s.io/initial-events-end":"true"}"#,
            false => "",
        };
        let object = format!(
            r#"{{"kind":"Any","metadata":{{"resourceVersion":"{version}","creationTimestamp":null{annotations}}},"spec":{{}}}}"#
        );
        self.event("BOOKMARK", &object)
    }

    /// Ends a stream in good order.
    pub(crate) fn end(mut self) {
        self.write(b"0\r\n\r\n");
    }

    /// Breaks the connection.
    pub(crate) fn cut(self) {}

    /// A whole response.
    pub(crate) fn answer(self, status: &str, body: &str) {
        self.answer_as("application/json", status, body.as_bytes());
    }

    /// A whole response in this form.
    pub(crate) fn answer_as(mut self, form: &str, status: &str, body: &[u8]) {
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {form}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        self.write(head.as_bytes()).write(body);
    }

    /// A refusal as the API server words it.
    pub(crate) fn refuse(self, status: &str, message: &str) {
        let code = &status[..3];
        let body = format!(
            r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":{message:?},"code":{code}}}"#
        );
        self.answer(status, &body);
    }
}

/// A watch and what comes of it.
pub(crate) struct Watch {
    pub(crate) shared: Arc<Shared>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) watches: Watches,
    lines: Receiver<Record>,
    said: Mutex<Vec<String>>,
}

impl Watch {
    /// Watches services and namespaces of `fake`, and what `more` adds.
    pub(crate) fn start(fake: &Fake, more: impl FnOnce(&mut Source)) -> Self {
        let mut source = Source { api: fake.api(), ..Source::default() };
        more(&mut source);
        Self::of(source)
    }

    pub(crate) fn of(source: Source) -> Self {
        Self::with(source, Moments::default())
    }

    pub(crate) fn with(source: Source, moments: Moments) -> Self {
        let (sender, lines) = sync_channel(10_000);
        let shared = Arc::new(Shared::new(1, Sink::new(sender)));
        let feed = shared.clusters.feed(&source);
        let mut watches = Watches::new(shared.clone(), moments);
        watches.start(std::slice::from_ref(&feed)).unwrap();
        Self { shared, feed, watches, lines, said: Mutex::default() }
    }

    pub(crate) fn has_service(&self, namespace: &str, name: &str) -> bool {
        let key = nodens_core::cluster::Key::new(namespace, name).unwrap();
        self.feed.load().service(key.as_wire()).is_some_and(|entry| entry.service.is_some())
    }

    /// Waits until a service is there, or not there.
    pub(crate) fn until_service(&self, namespace: &str, name: &str, there: bool) {
        let what = format!("service {namespace}/{name} there: {there}");
        self.until(&what, || self.has_service(namespace, name) == there);
    }

    pub(crate) fn until(&self, what: &str, is: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is() {
            assert!(
                begun.elapsed() < PATIENCE,
                "not within {PATIENCE:?}: {what}\n{:#?}",
                self.said()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn until_synced(&self) {
        self.until("synced", || self.feed.synced());
    }

    pub(crate) fn until_connected(&self) {
        self.until("connected", || *self.feed.link() == Link::Connected);
    }

    /// Everything logged so far.
    pub(crate) fn said(&self) -> Vec<String> {
        let mut said = self.said.lock().unwrap();
        said.extend(self.lines.try_iter().map(|record| match record {
            Record::Line { text, .. } => text,
            other => panic!("{other:?}"),
        }));
        said.clone()
    }

    /// How many lines contain `part`.
    pub(crate) fn times_said(&self, part: &str) -> usize {
        self.said().iter().filter(|line| line.contains(part)).count()
    }

    pub(crate) fn until_said(&self, part: &str) {
        self.until(&format!("a line with `{part}`"), || self.times_said(part) > 0);
    }

    /// The value of a metric; 0 if there is none yet.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        let text = self.shared.registry.render();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    }
}

pub(crate) fn service(name: &str, version: u32) -> String {
    service_at(name, version, "10.0.0.1")
}

pub(crate) fn service_at(name: &str, version: u32, ip: &str) -> String {
    format!(
        r#"{{"kind":"Service","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"default","uid":"1b2c","resourceVersion":"{version}","creationTimestamp":"2026-11-21T10:00:00Z","labels":{{"a":"b"}},"managedFields":[{{"manager":"kubectl","fieldsV1":{{"f:spec":{{"f:ports":{{".":{{}}}}}}}}}}]}},"spec":{{"ports":[{{"name":"http","protocol":"TCP","port":80,"targetPort":"web"}}],"clusterIP":"{ip}","clusterIPs":["{ip}"],"type":"ClusterIP","sessionAffinity":"None"}},"status":{{"loadBalancer":{{}}}}}}"#
    )
}

pub(crate) fn slice(
    name: &str,
    service: &str,
    version: u32,
    addresses: &[&str],
    more: &str,
) -> String {
    let endpoints: Vec<String> = addresses
        .iter()
        .map(|address| format!(r#"{{"addresses":["{address}"],"conditions":{{"ready":true}}}}"#))
        .collect();
    let endpoints = endpoints.join(",");
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"default","resourceVersion":"{version}","labels":{{"kubernetes.io/service-name":"{service}"}}{more}}},"addressType":"IPv4","endpoints":[{endpoints}],"ports":[{{"name":"","port":80,"protocol":"TCP"}}]}}"#
    )
}
