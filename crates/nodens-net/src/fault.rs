//! Faults in the words of Go's `net` package, which operators and their log searches know.

use std::io;
use std::net::SocketAddr;

/// The kernel's reason, as Go prints it: `connection refused`.
pub fn errno_text(error: &io::Error) -> String {
    if matches!(error.kind(), io::ErrorKind::TimedOut) && error.raw_os_error().is_none() {
        return "i/o timeout".to_owned();
    }
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// `dial tcp 127.0.0.1:53: connect: connection refused`
pub(crate) fn dial(network: &str, upstream: SocketAddr, error: &io::Error) -> String {
    format!("dial {network} {upstream}: connect: {}", errno_text(error))
}

/// `dial tcp 127.0.0.1:53: i/o timeout`
pub(crate) fn dial_timeout(network: &str, upstream: SocketAddr) -> String {
    format!("dial {network} {upstream}: i/o timeout")
}

/// Why octets could not be read: what TLS says, or the system.
pub(crate) fn received(
    network: &str,
    local: Option<SocketAddr>,
    upstream: SocketAddr,
    error: &io::Error,
) -> String {
    of_tls(error).unwrap_or_else(|| read(network, local, upstream, error))
}

/// What TLS does not like, in the words of Go's `crypto/tls`; none if it is the system's fault.
pub(crate) fn of_tls(error: &io::Error) -> Option<String> {
    Some(nodens_tls::go_text(error.get_ref()?.downcast_ref()?))
}

/// `dial tcp 127.0.0.1:853: tls handshake: i/o timeout`
pub(crate) fn handshake_timeout(network: &str, upstream: SocketAddr) -> String {
    format!("dial {network} {upstream}: tls handshake: i/o timeout")
}

/// `dial tcp 127.0.0.1:443: http2 settings: i/o timeout`, where the upstream has not sent the frame that it has to
/// begin with (RFC 9113 section 3.4)
pub(crate) fn settings_timeout(network: &str, upstream: SocketAddr) -> String {
    format!("dial {network} {upstream}: http2 settings: i/o timeout")
}

/// `read udp 127.0.0.1:4242->127.0.0.1:53: read: connection refused`
pub(crate) fn read(
    network: &str,
    local: Option<SocketAddr>,
    upstream: SocketAddr,
    error: &io::Error,
) -> String {
    operation("read", network, local, upstream, error)
}

/// `write tcp 127.0.0.1:4242->127.0.0.1:53: write: broken pipe`
pub(crate) fn write(
    network: &str,
    local: Option<SocketAddr>,
    upstream: SocketAddr,
    error: &io::Error,
) -> String {
    operation("write", network, local, upstream, error)
}

fn operation(
    verb: &str,
    network: &str,
    local: Option<SocketAddr>,
    upstream: SocketAddr,
    error: &io::Error,
) -> String {
    let local = local.map_or_else(String::new, |local| format!("{local}->"));
    format!("{verb} {network} {local}{upstream}: {verb}: {}", errno_text(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_go() {
        let refused = io::Error::from_raw_os_error(libc::ECONNREFUSED);
        let upstream: SocketAddr = "127.0.0.1:53".parse().unwrap();
        assert_eq!(
            dial("tcp", upstream, &refused),
            "dial tcp 127.0.0.1:53: connect: connection refused"
        );
        assert_eq!(
            read("udp", "127.0.0.1:4242".parse().ok(), upstream, &refused),
            "read udp 127.0.0.1:4242->127.0.0.1:53: read: connection refused"
        );
        assert_eq!(
            write(
                "udp",
                None,
                "[::1]:53".parse().unwrap(),
                &io::Error::from_raw_os_error(libc::EMSGSIZE)
            ),
            "write udp [::1]:53: write: message too long"
        );
        assert_eq!(dial_timeout("tcp", upstream), "dial tcp 127.0.0.1:53: i/o timeout");
        let unreachable = io::Error::from_raw_os_error(libc::ENETUNREACH);
        assert_eq!(errno_text(&unreachable), "network is unreachable");
    }
}
