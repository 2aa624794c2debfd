//! Faults of QUIC in the words of the library that CoreDNS has it from, which operators and their log
//! searches know.

use nodens_core::upstream::Peer;
use quinn_proto::ConnectionError;

/// What an error of TLS begins with that is about the other side's certificate.
const OF_CERTIFICATES: &str = "invalid peer certificate";
/// Octets of the other side's words that are shown.
const REASON_LEN: usize = 128;

/// What ended a connection with this server.
pub(crate) fn text_of(error: &ConnectionError, peer: &Peer) -> String {
    match error {
        ConnectionError::VersionMismatch => "no compatible QUIC version found".to_owned(),
        ConnectionError::TransportError(error) => {
            let refusal = peer.refusal().filter(|_| error.reason.starts_with(OF_CERTIFICATES));
            transport(error.code.into(), "local", refusal.as_deref().unwrap_or(&error.reason))
        }
        ConnectionError::ConnectionClosed(close) => {
            transport(close.error_code.into(), "remote", &lossy(&close.reason))
        }
        ConnectionError::ApplicationClosed(close) => {
            let text = format!("Application error {:#x} (remote)", close.error_code.into_inner());
            with_reason(text, &lossy(&close.reason))
        }
        ConnectionError::Reset => "received a stateless reset".to_owned(),
        ConnectionError::TimedOut => "timeout: no recent network activity".to_owned(),
        error @ (ConnectionError::LocallyClosed | ConnectionError::CidsExhausted) => {
            error.to_string()
        }
    }
}

/// What a server says that ends one query.
pub(super) fn reset(stream: u64, code: u64) -> String {
    format!("stream {stream} canceled by remote with error code {code}")
}

fn transport(code: u64, role: &str, reason: &str) -> String {
    let alert = u8::try_from(code.wrapping_sub(0x100)).ok();
    let name = match alert {
        Some(_) => format!("CRYPTO_ERROR {code:#x}"),
        None => name(code),
    };
    let of_alert = alert.filter(|_| reason.is_empty()).map(nodens_tls::alert_text);
    with_reason(format!("{name} ({role})"), of_alert.as_deref().unwrap_or(reason))
}

fn with_reason(text: String, reason: &str) -> String {
    if reason.is_empty() { text } else { format!("{text}: {reason}") }
}

/// What the other side sent, as far as a line of the log takes it.
fn lossy(reason: &[u8]) -> String {
    let text = String::from_utf8_lossy(reason.get(..REASON_LEN).unwrap_or(reason));
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

fn name(code: u64) -> String {
    let name = match code {
        0x0 => "NO_ERROR",
        0x1 => "INTERNAL_ERROR",
        0x2 => "CONNECTION_REFUSED",
        0x3 => "FLOW_CONTROL_ERROR",
        0x4 => "STREAM_LIMIT_ERROR",
        0x5 => "STREAM_STATE_ERROR",
        0x6 => "FINAL_SIZE_ERROR",
        0x7 => "FRAME_ENCODING_ERROR",
        0x8 => "TRANSPORT_PARAMETER_ERROR",
        0x9 => "CONNECTION_ID_LIMIT_ERROR",
        0xa => "PROTOCOL_VIOLATION",
        0xb => "INVALID_TOKEN",
        0xc => "APPLICATION_ERROR",
        0xd => "CRYPTO_BUFFER_EXCEEDED",
        0xe => "KEY_UPDATE_ERROR",
        0xf => "AEAD_LIMIT_REACHED",
        0x10 => "NO_VIABLE_PATH",
        code => return format!("unknown error code: {code:#x}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_tls::{Client, ClientFiles, Protocol, server_name};
    use quinn_proto::{ApplicationClose, ConnectionClose, TransportErrorCode, VarInt};
    use std::sync::Arc;

    #[test]
    fn texts_are_those_that_coredns_has() {
        let client = Arc::new(Client::load(ClientFiles::default()).unwrap());
        let peer = Peer::new(client, server_name("dns.example").unwrap(), Protocol::Doq);
        let text = |error: ConnectionError| text_of(&error, &peer);
        let closed = |error_code, reason: &[u8]| {
            let reason = reason.to_vec().into();
            text(ConnectionError::ConnectionClosed(ConnectionClose {
                error_code,
                frame_type: None,
                reason,
            }))
        };
        assert_eq!(
            closed(TransportErrorCode::CONNECTION_REFUSED, b""),
            "CONNECTION_REFUSED (remote)"
        );
        assert_eq!(
            closed(TransportErrorCode::crypto(120), b""),
            "CRYPTO_ERROR 0x178 (remote): tls: no application protocol"
        );
        assert_eq!(
            closed(TransportErrorCode::PROTOCOL_VIOLATION, b"a\nb\xff"),
            "PROTOCOL_VIOLATION (remote): a?b\u{fffd}"
        );
        let left = |reason: &[u8]| {
            let error_code = VarInt::from_u32(4);
            let reason = reason.to_vec().into();
            text(ConnectionError::ApplicationClosed(ApplicationClose { error_code, reason }))
        };
        assert_eq!(left(b""), "Application error 0x4 (remote)");
        assert_eq!(left(b"busy"), "Application error 0x4 (remote): busy");
        assert_eq!(
            left(&[b'x'; 5000]).len(),
            "Application error 0x4 (remote): ".len() + REASON_LEN
        );
        assert_eq!(text(ConnectionError::TimedOut), "timeout: no recent network activity");
        assert_eq!(text(ConnectionError::Reset), "received a stateless reset");
        assert_eq!(reset(4, 3), "stream 4 canceled by remote with error code 3");
    }
}
