//! Pages that this program serves itself: one request for each connection, answered at once.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A client that takes longer for its request, or to read the answer, is left alone: an octet now and
/// then is no reason to wait on.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest request that is read.
const REQUEST_MAX: usize = 8 << 10;
/// How many clients are answered at the same time: one that is slow does not hold up the others.
const THREADS: usize = 16;
/// After an error of the listener itself, as of a process that has no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

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

/// Answers whoever connects, until the process ends.
pub(crate) fn serve(listener: TcpListener, page: impl Fn(&str) -> Page + Send + Sync + 'static) {
    let shared = Arc::new((listener, page));
    for _ in 0..THREADS {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || {
            let (listener, page) = &*shared;
            loop {
                match listener.accept() {
                    // A client that disconnects does no harm.
                    Ok((stream, _)) => _ = answer(stream, page),
                    Err(_) => std::thread::sleep(PAUSE),
                }
            }
        });
    }
}

/// Answers the request on `stream` with the page for its path, which comes with its query.
pub(crate) fn answer(stream: TcpStream, page: impl FnOnce(&str) -> Page) -> Result<()> {
    answer_by(stream, Instant::now() + PATIENCE, page)
}

fn answer_by(mut stream: TcpStream, until: Instant, page: impl FnOnce(&str) -> Page) -> Result<()> {
    let octets = request(&mut stream, until)?;
    let text = String::from_utf8_lossy(&octets);
    let mut words = text.lines().next().unwrap_or_default().split(' ');
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
    let whole = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    let mut rest = whole.as_bytes();
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        let written = stream.write(rest)?;
        rest = rest.get(written..).filter(|_| written > 0).ok_or(ErrorKind::WriteZero)?;
    }
    Ok(())
}

/// The request up to its empty line, which must be there in time.
fn request(stream: &mut TcpStream, until: Instant) -> Result<Vec<u8>> {
    let (mut octets, mut part) = (Vec::new(), [0; 1 << 10]);
    let is_whole = |octets: &[u8]| {
        octets.windows(4).any(|it| it == b"\r\n\r\n") || octets.windows(2).any(|it| it == b"\n\n")
    };
    while octets.len() < REQUEST_MAX && !is_whole(&octets) {
        stream.set_read_timeout(Some(left(until)?))?;
        match stream.read(&mut part)? {
            0 => break,
            len => octets.extend_from_slice(part.get(..len).unwrap_or_default()),
        }
    }
    Ok(octets)
}

/// How much time is left; none is an error.
fn left(until: Instant) -> Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Error::from(ErrorKind::TimedOut)) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn ask(address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_request_that_comes_octet_by_octet_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let slow = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            // Each of these is in time for a limit that begins anew with every octet.
            for _ in 0..100 {
                std::thread::sleep(Duration::from_millis(50));
                if stream.write_all(b"x").is_err() {
                    return;
                }
            }
        });
        let (stream, _) = listener.accept().unwrap();
        let began = Instant::now();
        let until = began + Duration::from_millis(400);
        let found = answer_by(stream, until, |_| Page::not_found("nothing"));
        assert!(found.is_err() && began.elapsed() < Duration::from_secs(2), "{found:?}");
        slow.join().unwrap();
    }

    #[test]
    fn a_client_that_says_nothing_does_not_hold_up_the_others() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        serve(listener, |path| Page::found("text/plain", format!("{path}\n")));
        let silent = [0; THREADS - 1].map(|_| TcpStream::connect(address).unwrap());
        let began = Instant::now();
        let text = ask(address);
        assert!(text.ends_with("\r\n\r\n/a?b\n") && began.elapsed() < PATIENCE, "{text}");
        drop(silent);
    }
}
