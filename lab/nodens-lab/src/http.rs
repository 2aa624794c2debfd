//! Pages that this program serves itself: one request for each connection, answered at once.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A client that is slower is left alone.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest request that is read.
const REQUEST_MAX: u64 = 8 << 10;

/// What is said to a request.
pub(crate) struct Page {
    /// Status and its text, as `200 OK`.
    pub(crate) status: &'static str,
    /// The media type.
    pub(crate) kind: &'static str,
    pub(crate) body: String,
}

impl Page {
    /// A page of this type.
    pub(crate) fn found(kind: &'static str, body: String) -> Self {
        Self { status: "200 OK", kind, body }
    }

    /// That there is no such page, and where one is.
    pub(crate) fn not_found(hint: &str) -> Self {
        Self { status: "404 Not Found", kind: "text/plain", body: format!("{hint}\n") }
    }
}

/// Answers the request on `stream` with the page for its path, which comes with its query.
pub(crate) fn answer(
    mut stream: TcpStream,
    page: impl FnOnce(&str) -> Page,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream.try_clone()?.take(REQUEST_MAX)).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let Page { status, kind, body } = match method {
        "GET" | "HEAD" => page(path),
        _ => Page {
            status: "405 Method Not Allowed",
            kind: "text/plain",
            body: "expected GET\n".to_owned(),
        },
    };
    let len = body.len();
    let body = if method == "HEAD" { "" } else { &body };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}
