//! Requests to an API server.

use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long a connection may take, and a response.
const CONNECT_MAX: Duration = Duration::from_secs(10);
const READ_MAX: Duration = Duration::from_secs(30);
/// Who owns the fields that are changed, in `metadata.managedFields`.
const MANAGER: &str = "nodens-lab-swap";
/// Pauses before a request is sent again that the server has refused or that changes nothing.
const PAUSES: [u64; 4] = [200, 500, 1000, 2000];

/// The code of an error that says that another run has the Lease: no server answers such a request with it.
pub(crate) const OTHERS: u16 = 410;

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {message}")]
pub struct Error {
    /// The request, or what was done.
    pub what: String,
    /// HTTP status; 0 without a response.
    pub code: u16,
    /// What the server, or the connection to it, said.
    pub message: String,
}

impl Error {
    /// An error that no server gave.
    pub fn new(what: impl Into<String>, message: impl ToString) -> Self {
        Self { what: what.into(), code: 0, message: message.to_string() }
    }

    /// Whether the object is not there.
    pub fn is_absent(&self) -> bool {
        self.code == 404
    }

    /// Whether the same request may succeed later: without an answer, or if the server has too much to do or a
    /// fault.
    pub fn may_pass(&self) -> bool {
        matches!(self.code, 0 | 429 | 500..)
    }

    /// Whether another run has the Lease that was to be restored: nothing is left to do.
    pub fn is_others(&self) -> bool {
        self.code == OTHERS
    }

    /// Whether the object is not what the request took it for: it exists already, has another
    /// version, or a tested field has another value.
    pub fn is_conflict(&self) -> bool {
        matches!(self.code, 409 | 422)
    }
}

/// What is asked of an API server. Objects are JSON, and named by the path of their URL.
pub trait Api {
    /// The object at `path`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// What the server or the connection said.
    fn get(&self, path: &str) -> Result<Option<Value>, Error>;

    /// The text at `path`: a log, a page of metrics.
    ///
    /// # Errors
    ///
    /// As above.
    fn text(&self, path: &str) -> Result<String, Error>;

    /// Creates an object in the collection at `path` and returns it.
    ///
    /// # Errors
    ///
    /// As above; a conflict if there is one with its name.
    fn create(&self, path: &str, object: &Value) -> Result<Value, Error>;

    /// Changes the object at `path` by a JSON patch (RFC 6902) and returns it.
    ///
    /// # Errors
    ///
    /// As above; a conflict if a `test` of the patch does not hold.
    fn patch(&self, path: &str, patch: &Value) -> Result<Value, Error>;

    /// Deletes the object at `path`, and what it owns in the background. One that is not there is no
    /// error.
    ///
    /// # Errors
    ///
    /// As above; a conflict if another object has its name, and so another `uid`.
    fn delete(&self, path: &str, uid: Option<&str>) -> Result<(), Error>;
}

/// An API server that a kubeconfig names. Its methods can be called from any thread that is no task of
/// an asynchronous runtime.
pub struct Cluster {
    runtime: Runtime,
    client: Client,
    /// Its URL.
    pub url: String,
}

impl Cluster {
    /// Finds the cluster: in the file `kubeconfig`, else as kubectl does, else as a pod does.
    ///
    /// # Errors
    ///
    /// What is wrong with the configuration. The server is not asked yet.
    pub fn find(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Self, Error> {
        let failed = |message: String| Error::new("no cluster", message);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let options =
            KubeConfigOptions { context: context.map(str::to_owned), ..Default::default() };
        let mut config = runtime
            .block_on(async {
                match kubeconfig {
                    Some(path) => {
                        let file = Kubeconfig::read_from(path).map_err(|e| e.to_string())?;
                        let config = Config::from_custom_kubeconfig(file, &options).await;
                        config.map_err(|error| format!("{}: {error}", path.display()))
                    }
                    None if context.is_some() => {
                        Config::from_kubeconfig(&options).await.map_err(|e| e.to_string())
                    }
                    None => Config::infer().await.map_err(|error| error.to_string()),
                }
            })
            .map_err(failed)?;
        config.connect_timeout = Some(CONNECT_MAX);
        config.read_timeout = Some(READ_MAX);
        // Its policy repeats changes after 503 and 504, too: a change that was made looks like a conflict then.
        config.default_retry = false;
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client = {
            let _inside = runtime.enter();
            Client::try_from(config).map_err(|error| failed(error.to_string()))?
        };
        Ok(Self { runtime, client, url })
    }

    fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<String, Error> {
        for pause in PAUSES {
            match self.ask_once(method.clone(), path, body) {
                Err(error) if may_repeat(&method, error.code) => {
                    std::thread::sleep(Duration::from_millis(pause));
                }
                answer => return answer,
            }
        }
        self.ask_once(method, path, body)
    }

    fn ask_once(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<String, Error> {
        let what = format!("{method} {path}");
        let mut request = Request::builder().method(method).uri(path);
        let mut octets = Vec::new();
        if let Some((kind, value)) = body {
            request = request.header("content-type", kind);
            octets = value.to_string().into_bytes();
        }
        let request = request.body(octets).map_err(|error| Error::new(&what, error))?;
        let response = self.runtime.block_on(self.client.request_text(request));
        response.map_err(|error| match error {
            kube::Error::Api(status) => Error { what, code: status.code, message: status.message },
            error => Error::new(what, told(&error)),
        })
    }

    fn object(&self, method: Method, path: &str, body: (&str, &Value)) -> Result<Value, Error> {
        let text = self.ask(method.clone(), path, Some(body))?;
        serde_json::from_str(&text)
            .map_err(|error| Error::new(format!("{method} {path}"), format!("no JSON: {error}")))
    }
}

/// Whether a request that failed with `code` has changed nothing and may succeed soon.
fn may_repeat(method: &Method, code: u16) -> bool {
    code == 429 || (*method == Method::GET && matches!(code, 503 | 504))
}

/// An error with its causes, which `kube` leaves out.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

impl Api for Cluster {
    fn get(&self, path: &str) -> Result<Option<Value>, Error> {
        match self.ask(Method::GET, path, None) {
            Ok(text) => serde_json::from_str(&text)
                .map(Some)
                .map_err(|error| Error::new(format!("GET {path}"), format!("no JSON: {error}"))),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn text(&self, path: &str) -> Result<String, Error> {
        self.ask(Method::GET, path, None)
    }

    fn create(&self, path: &str, object: &Value) -> Result<Value, Error> {
        self.object(Method::POST, path, ("application/json", object))
    }

    fn patch(&self, path: &str, patch: &Value) -> Result<Value, Error> {
        let with = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{with}fieldManager={MANAGER}");
        self.object(Method::PATCH, &path, ("application/json-patch+json", patch))
    }

    fn delete(&self, path: &str, uid: Option<&str>) -> Result<(), Error> {
        let mut options = serde_json::json!({"propagationPolicy": "Background"});
        if let Some(uid) = uid {
            options["preconditions"] = serde_json::json!({"uid": uid});
        }
        match self.ask(Method::DELETE, path, Some(("application/json", &options))) {
            Err(error) if !error.is_absent() => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::{Arc, Mutex};

    /// Answers the requests of a connection with these codes, the last one for ever, and remembers them.
    fn answer(stream: TcpStream, codes: &Mutex<Vec<u16>>, seen: &Mutex<Vec<String>>) -> Option<()> {
        let mut lines = BufReader::new(stream.try_clone().ok()?);
        loop {
            let (mut first, mut len) = (String::new(), 0);
            lines.read_line(&mut first).ok().filter(|len| *len > 0)?;
            loop {
                let mut line = String::new();
                lines.read_line(&mut line).ok()?;
                if let Some((_, value)) = line.to_lowercase().split_once("content-length:") {
                    len = value.trim().parse().ok()?;
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            lines.read_exact(&mut vec![0; len]).ok()?;
            seen.lock().unwrap().push(first.trim_end().trim_end_matches(" HTTP/1.1").to_owned());
            let mut codes = codes.lock().unwrap();
            let code = if codes.len() > 1 { codes.remove(0) } else { codes[0] };
            write!(&stream, "HTTP/1.1 {code} X\r\ncontent-length: 3\r\n\r\n\"x\"").ok()?;
        }
    }

    /// A cluster that answers with these codes, and the requests that it has seen.
    fn served(codes: &[u16]) -> (Cluster, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let (codes, seen) = (Arc::new(Mutex::new(codes.to_vec())), Arc::default());
        let told = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &codes, &told);
            }
        });
        let file = serde_json::json!({
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        });
        let name = format!("lab-swap-{}-{}", std::process::id(), server.replace([':', '/'], "-"));
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, file.to_string()).unwrap();
        let cluster = Cluster::find(Some(&path), None).unwrap();
        std::fs::remove_file(path).unwrap();
        (cluster, seen)
    }

    #[test]
    fn a_change_whose_outcome_is_unknown_is_sent_once() {
        for code in [503, 504] {
            let (cluster, seen) = served(&[code]);
            let patch = Value::Array(Vec::new());
            assert_eq!(cluster.patch("/d", &patch).unwrap_err().code, code);
            assert_eq!(cluster.create("/d", &patch).unwrap_err().code, code);
            assert_eq!(cluster.delete("/d", None).unwrap_err().code, code);
            let patch = "PATCH /d?fieldManager=nodens-lab-swap";
            assert_eq!(*seen.lock().unwrap(), [patch, "POST /d", "DELETE /d"]);
        }
    }

    #[test]
    fn what_has_changed_nothing_is_sent_again() {
        let (cluster, seen) = served(&[503, 504, 429, 200]);
        assert!(cluster.get("/d").unwrap().is_some());
        assert_eq!(*seen.lock().unwrap(), ["GET /d"; 4]);
        let (cluster, seen) = served(&[429, 200]);
        cluster.patch("/d?dryRun=All", &Value::Array(Vec::new())).unwrap();
        let patch = "PATCH /d?dryRun=All&fieldManager=nodens-lab-swap";
        assert_eq!(*seen.lock().unwrap(), [patch; 2]);
    }
}
