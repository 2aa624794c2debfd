//! Reads the report of a running server from its local socket: HTTP over a unix socket, by path or,
//! with `@` in front, by an abstract name, which all processes of a network namespace see and which
//! leaves no file behind.

use crate::Report;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

/// Where a server shows its report unless told otherwise.
pub const DEFAULT: &str = "@nodens/top";
/// The longest report that is read, in octets; one with every row full has less than a tenth of it.
const REPORT_LEN_MAX: u64 = 4 << 20;
/// How long a reader waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The socket called `text`.
pub fn address(text: &str) -> io::Result<SocketAddr> {
    match text.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(text),
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The socket cannot be read.
    #[error("{address}: {error} (is a server running here with -top?)")]
    Unreachable {
        /// The socket.
        address: String,
        /// The system's words.
        error: io::Error,
    },
    /// What was read is something else.
    #[error("{address}: no report of this version: {error}")]
    NoReport {
        /// The socket.
        address: String,
        /// What is wrong with it.
        error: serde_json::Error,
    },
}

/// The report of the process at the socket `text`, or why there is none.
pub fn fetch(text: &str) -> Result<Report, FetchError> {
    let address = || text.to_owned();
    let json = read(text).map_err(|error| {
        let error = match error.kind() {
            // The system's words are about a socket, and not about a server that is busy or frozen.
            io::ErrorKind::WouldBlock => io::Error::other(format!("no answer for {PATIENCE:?}")),
            _ => error,
        };
        FetchError::Unreachable { address: address(), error }
    })?;
    // Only a report is shown: other octets may have been written to do something to a terminal.
    serde_json::from_str(&json).map_err(|error| FetchError::NoReport { address: address(), error })
}

fn read(text: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect_addr(&address(text)?)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = "GET /debug/dns.json HTTP/1.0\r\nHost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes())?;
    // Any process may have been the first to take an abstract name.
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
            Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "no report")),
    }
}
