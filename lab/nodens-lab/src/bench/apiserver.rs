//! What a Kubernetes API server says to a DNS server, and no more: fixed lists of Namespaces,
//! Services and EndpointSlices, and watches in which nothing happens.
//!
//! Lists come in one piece whatever `limit` says, as the API allows; a watch that wants its initial
//! events gets them, and the bookmark behind them (streaming lists, Kubernetes 1.32). Everything
//! else does not exist. Each connection has a thread, which sleeps while nothing is asked.

use super::services::Population;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The version of everything there is.
const VERSION: &str = "1000";
/// The longest head of a request, and the longest body.
const REQUEST_LEN_MAX: u64 = 64 << 10;

/// The objects of one kind, as JSON.
pub(super) struct Listing {
    pub(super) path: &'static str,
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    /// Each without its `kind` and `apiVersion`, from the brace on.
    pub(super) items: Vec<String>,
}

/// A running server; it ends with the value.
pub(super) struct ApiServer {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    over: AtomicBool,
    listings: Vec<Listing>,
    connections: Mutex<Vec<TcpStream>>,
}

impl ApiServer {
    pub(super) fn start(population: &Population) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            over: AtomicBool::new(false),
            listings: population.listings(),
            connections: Mutex::default(),
        });
        let thread = std::thread::Builder::new().name("apiserver".into()).spawn({
            let shared = shared.clone();
            move || accept(&listener, &shared)
        });
        Ok(Self { address, shared, thread: Some(thread.context("cannot start a thread")?) })
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        let mut connections =
            self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
        for connection in connections.drain(..) {
            // An error means that the other side was faster.
            _ = connection.shutdown(std::net::Shutdown::Both);
        }
        drop(connections);
        // The thread waits for connections: this one lets it see that it is over.
        _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.over.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if let Ok(copy) = stream.try_clone() {
            shared.connections.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
        }
        let shared = shared.clone();
        std::thread::spawn(move || {
            // What goes wrong here the server under test reports: it does not get ready.
            _ = converse(stream, &shared);
        });
    }
}

/// Answers requests until the client closes; a watch is the last of its connection.
fn converse(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut input = BufReader::new(stream.try_clone()?);
    let mut output = stream;
    output.set_nodelay(true)?;
    while let Some(target) = request(&mut input)? {
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let listing = shared.listings.iter().find(|listing| listing.path == path);
        let has = |wanted: &str| query.split('&').any(|pair| pair == wanted);
        match listing {
            Some(listing) if has("watch=true") || has("watch=1") => {
                watch(&mut output, listing, has("sendInitialEvents=true"))?;
                // Nothing ever happens; the read ends when the client goes.
                return input.read(&mut [0]).map(|_| ());
            }
            Some(listing) => respond(&mut output, "200 OK", &list(listing))?,
            None => {
                let text = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;
                respond(&mut output, "404 Not Found", text)?;
            }
        }
    }
    Ok(())
}

/// The target of the next request, whose body is read and forgotten; nothing at the end.
fn request(input: &mut impl BufRead) -> std::io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut line = String::new();
    loop {
        line.clear();
        if input.by_ref().take(REQUEST_LEN_MAX).read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line.trim_end().is_empty() {
            break;
        }
        head.push(line.trim_end().to_ascii_lowercase());
    }
    let length = head.iter().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0);
    std::io::copy(&mut input.by_ref().take(length.min(REQUEST_LEN_MAX)), &mut std::io::sink())?;
    let target = head.first().and_then(|line| line.split(' ').nth(1));
    // Paths and options of the API are compared in lower case.
    target
        .map(|target| Some(target.replace("sendinitialevents", "sendInitialEvents")))
        .ok_or_else(|| ErrorKind::InvalidData.into())
}

fn respond(output: &mut impl Write, status: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    output.write_all(head.as_bytes())?;
    output.write_all(body.as_bytes())
}

fn list(listing: &Listing) -> String {
    let Listing { api_version, kind, items, .. } = listing;
    format!(
        r#"{{"kind":"{kind}List","apiVersion":"{api_version}","metadata":{{"resourceVersion":"{VERSION}"}},"items":[{}]}}"#,
        items.join(",")
    )
}

fn watch(output: &mut impl Write, listing: &Listing, initial: bool) -> std::io::Result<()> {
    let Listing { api_version, kind, items, .. } = listing;
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    output.write_all(head.as_bytes())?;
    if !initial {
        return output.flush();
    }
    let about = format!(r#""kind":"{kind}","apiVersion":"{api_version}""#);
    let mut events = String::new();
    for item in items {
        let rest = item.strip_prefix('{').unwrap_or(item);
        _ = writeln!(events, r#"{{"type":"ADDED","object":{{{about},{rest}}}"#);
    }
    let end = r#""annotations":{"k8s.io/initial-events-end":"true"}"#;
    _ = writeln!(
        events,
        r#"{{"type":"BOOKMARK","object":{{{about},"metadata":{{"resourceVersion":"{VERSION}",{end}}}}}}}"#
    );
    write!(output, "{:x}\r\n{events}\r\n", events.len())?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(server: &ApiServer, target: &str, until: &str) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}")
            .unwrap();
        let (mut text, mut part) = (String::new(), [0; 4096]);
        while !text.contains(until) {
            let len = stream.read(&mut part).unwrap();
            assert!(len > 0, "the connection ended after {text}");
            text.push_str(std::str::from_utf8(&part[..len]).unwrap());
        }
        text
    }

    #[test]
    fn lists_and_streaming_lists_have_all_objects_and_the_rest_is_not_there() {
        let server = ApiServer::start(&Population::new(3)).unwrap();
        let services = "/api/v1/services";
        let list = ask(&server, &format!("{services}?limit=2&resourceVersion=0"), "]}");
        let body: serde_json::Value =
            serde_json::from_str(list.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!(body["items"].as_array().unwrap().len(), 3);
        assert_eq!(body["kind"], "ServiceList");
        let query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true";
        let stream = ask(&server, &format!("{services}?{query}"), "initial-events-end");
        let events: Vec<serde_json::Value> = stream
            .lines()
            .filter(|line| line.starts_with("{\""))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(events.len(), 4);
        assert_eq!(events[0]["object"]["kind"], "Service");
        assert_eq!(events[3]["type"], "BOOKMARK");
        assert!(ask(&server, "/api/v1/secrets", "}").starts_with("HTTP/1.1 404 "));
    }
}
