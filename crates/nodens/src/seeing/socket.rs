//! The local socket: HTTP over a unix socket, by path or, with `@` in front, by an abstract name,
//! which all processes of a network namespace see and which leaves no file behind.

use super::{Seer, answer};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use rustix::net::sockopt::socket_peercred;
use std::io::{self, ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

/// Where `nodens top` looks unless told otherwise.
pub(crate) const DEFAULT_SOCKET: &str = "@nodens/top";
/// The longest report that is read, in octets; one with every row full has less than a tenth of it.
const REPORT_LEN_MAX: u64 = 4 << 20;
/// How long a reader waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

fn address(text: &str) -> io::Result<SocketAddr> {
    match text.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(text),
    }
}

/// Opens the socket. A file that a process that has ended left behind is replaced.
pub(super) fn listen(text: &str) -> io::Result<UnixListener> {
    let address = address(text)?;
    let listener = match UnixListener::bind_addr(&address) {
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_left_behind(text) => {
            std::fs::remove_file(text)?;
            UnixListener::bind_addr(&address)?
        }
        bound => bound?,
    };
    if !text.starts_with('@') {
        std::fs::set_permissions(text, std::fs::Permissions::from_mode(0o600))?;
    }
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn is_left_behind(text: &str) -> bool {
    let is_socket = std::fs::metadata(text).is_ok_and(|data| data.file_type().is_socket());
    let refused =
        UnixStream::connect(text).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused);
    is_socket && refused
}

/// Answers whoever is allowed to: root, and who this process runs as. An abstract name has no
/// permissions, so they are looked at here.
pub(super) async fn serve(listener: UnixListener, seer: Arc<Seer>) {
    let Ok(listener) = tokio::net::UnixListener::from_std(listener) else { return };
    let app = Router::new().fallback(respond).with_state(seer);
    _ = axum::serve(Guarded(listener), app).await;
}

async fn respond(State(seer): State<Arc<Seer>>, uri: Uri) -> Response {
    let found = answer(&seer, uri.path(), None, None).await;
    found.unwrap_or_else(|| (StatusCode::NOT_FOUND, "404 page not found\n").into_response())
}

/// A listener that hangs up on strangers.
struct Guarded(tokio::net::UnixListener);

impl axum::serve::Listener for Guarded {
    type Io = tokio::net::UnixStream;
    type Addr = tokio::net::unix::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = axum::serve::Listener::accept(&mut self.0).await;
            let ours = rustix::process::geteuid();
            let peer = socket_peercred(&stream).map(|peer| peer.uid);
            if peer.is_ok_and(|peer| peer.is_root() || peer == ours) {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

/// The report of the process at the socket `text`, as JSON.
pub(super) fn fetch(text: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect_addr(&address(text)?)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = "GET /debug/dns.json HTTP/1.0\r\nHost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes())?;
    // Anybody may have been first to take an abstract name.
    let mut response = String::new();
    stream.take(REPORT_LEN_MAX).read_to_string(&mut response)?;
    match response.split_once("\r\n\r\n") {
        Some((head, body))
            if head.starts_with("HTTP/1.0 200") || head.starts_with("HTTP/1.1 200") =>
        {
            Ok(body.to_owned())
        }
        _ if response.is_empty() => {
            let text = "hung up: it answers root and the user it runs as";
            Err(io::Error::new(ErrorKind::PermissionDenied, text))
        }
        _ => Err(io::Error::new(ErrorKind::InvalidData, "no report")),
    }
}
