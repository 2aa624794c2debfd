//! The local socket that [`nodens_insight::socket`] reads from.

use super::{Asked, Insight, answer};
use crate::endpoints::bounded::Bounded;
use crate::zones::Zones;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use nodens_insight::socket::address;
use rustix::net::sockopt::socket_peercred;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

/// Connections at a time. Each may hold a report of some hundred kilobytes.
const CONNECTIONS_MAX: usize = 8;

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

/// Gives reports to root and to the user that this process runs as. An abstract
/// name has no permissions, so they are looked at here. Nothing can be changed by way of it, and the
/// oldest connection gives way to a new one, so that its readers cannot take much from the server.
pub(super) async fn serve(listener: UnixListener, insight: Arc<Insight>, zones: Arc<Zones>) {
    let Ok(listener) = tokio::net::UnixListener::from_std(listener) else { return };
    let app = Router::new().fallback(get(respond)).with_state((insight, zones));
    _ = axum::serve(Bounded::new(Guarded(listener), CONNECTIONS_MAX), app).await;
}

type Shown = (Arc<Insight>, Arc<Zones>);

async fn respond(State((insight, zones)): State<Shown>, uri: Uri) -> Response {
    let found = answer(&insight, &zones, Asked { uri: &uri, peer: None, host: None }).await;
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
