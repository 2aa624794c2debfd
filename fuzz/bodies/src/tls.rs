//! A client over TLS that sends any octets, in any records, which arrive in any pieces, unchanged or not.

use nodens_net::limits::REQUEST_LEN_MAX;
use nodens_net::testing::{Reader, Taken};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};
use std::io::Write;
use std::sync::{Arc, OnceLock};

/// The octets in front of those that the client sends: what is done to them, the seeds for the lengths of
/// records and of pieces, and where and with what the records are changed.
const HEAD_LEN: usize = 6;
const NAME: &str = "dns.example";

/// The octets that arrive are not those that the client sent.
const CHANGED: u8 = 1;
/// The last octets do not arrive.
const CUT: u8 = 2;
/// Octets that are no record arrive before the others.
const GARBAGE: u8 = 4;
/// The client says that it sends no more.
const FAREWELL: u8 = 8;
/// TLS 1.2 instead of 1.3.
const OLD: u8 = 16;
/// The same for the octets of the handshake.
const IN_HANDSHAKE: u8 = 32;

/// In whatever records and pieces they come, octets make the same messages; whatever is changed on the way, no
/// message comes of it that the client did not send.
pub fn tls(data: &[u8]) {
    let Some((head, octets)) = data.split_first_chunk::<HEAD_LEN>() else { return };
    let [what, records, pieces, ..] = *head;
    let version = if what & OLD == 0 { &rustls::version::TLS13 } else { &rustls::version::TLS12 };
    let (client, server) = configurations();
    let mut config = ClientConfig::builder_with_protocol_versions(&[version])
        .with_root_certificates(client.clone())
        .with_no_client_auth();
    config.enable_early_data = false;
    let name = ServerName::try_from(NAME).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut reader = Reader::new(UnbufferedServerConnection::new(server.clone()).unwrap()).unwrap();
    let damage = |octets: Vec<u8>, of_handshake: bool| {
        let is_meant = (what & IN_HANDSHAKE != 0) == of_handshake;
        if is_meant { damaged(octets, *head) } else { octets }
    };
    while client.wants_write() {
        let mut octets = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut octets).unwrap();
        }
        let octets = damage(octets, true);
        if reader.arrive(cut(&octets, pieces)).is_err() {
            // Whoever changes a handshake ends it.
            assert!(what & IN_HANDSHAKE != 0 && reader.taken().is_empty());
            return;
        }
        let sent = reader.sent();
        let mut sent = &sent[..];
        while !sent.is_empty() {
            client.read_tls(&mut sent).unwrap();
            if client.process_new_packets().is_err() {
                assert!(what & IN_HANDSHAKE != 0);
                return;
            }
        }
    }
    if client.is_handshaking() {
        assert!(what & IN_HANDSHAKE != 0 && reader.taken().is_empty());
        return;
    }
    let sealed = damage(sealed(&mut client, octets, records, what & FAREWELL != 0), false);
    let came = reader.arrive(cut(&sealed, pieces));
    check(&reader, came.ok(), *head, octets);
}

/// What must have come of `octets`; `ended` is none if TLS refused what arrived.
fn check(reader: &Reader, ended: Option<bool>, [what, ..]: [u8; HEAD_LEN], octets: &[u8]) {
    let (expected, rest) = messages(octets);
    let is_changed = what & (CHANGED | CUT | GARBAGE) != 0;
    if is_changed && what & IN_HANDSHAKE == 0 {
        assert!(expected.starts_with(reader.taken()), "{:?}", reader.taken());
        return;
    }
    assert_eq!(reader.taken(), expected);
    if expected.last() != Some(&Taken::TooLong) {
        assert_eq!((reader.kept(), reader.held()), (rest, 0));
        assert_eq!(ended, Some(what & FAREWELL != 0));
    }
}

/// The messages in a stream, and what follows them.
fn messages(mut octets: &[u8]) -> (Vec<Taken>, &[u8]) {
    const HEADER_LEN: usize = 12;
    let mut messages = Vec::new();
    while let Some((length, rest)) = octets.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length));
        if length > REQUEST_LEN_MAX {
            if rest.len() >= HEADER_LEN {
                messages.push(Taken::TooLong);
            }
            break;
        }
        let Some((message, rest)) = rest.split_at_checked(length) else { break };
        messages.push(Taken::Message(message.to_vec()));
        octets = rest;
    }
    (messages, octets)
}

/// The records of TLS that hold `octets`.
fn sealed(client: &mut ClientConnection, octets: &[u8], records: u8, farewell: bool) -> Vec<u8> {
    let mut sealed = Vec::new();
    let mut flush = |client: &mut ClientConnection| {
        while client.wants_write() {
            client.write_tls(&mut sealed).unwrap();
        }
    };
    for record in cut(octets, records).filter(|record| !record.is_empty()) {
        client.writer().write_all(record).unwrap();
        flush(client);
    }
    if farewell {
        client.send_close_notify();
        flush(client);
    }
    sealed
}

/// The octets with the damage that the head asks for.
fn damaged(mut octets: Vec<u8>, [what, _, _, high, low, with]: [u8; HEAD_LEN]) -> Vec<u8> {
    let at = usize::from(u16::from_be_bytes([high, low])) % octets.len().max(1);
    if what & CHANGED != 0
        && let Some(octet) = octets.get_mut(at)
    {
        *octet ^= with;
    }
    if what & CUT != 0 {
        octets.truncate(at);
    }
    if what & GARBAGE != 0 {
        octets.splice(..0, [with; 7]);
    }
    octets
}

/// The octets in pieces whose lengths a seed says; in one if it is zero.
fn cut(octets: &[u8], seed: u8) -> impl Iterator<Item = &[u8]> {
    let mut state = u32::from(seed);
    let mut rest = octets;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = match seed {
            0 => rest.len(),
            255 => 1,
            _ => (state >> 16) as usize % (1 << (seed % 13)) + 1,
        };
        let (piece, more) = rest.split_at(length.min(rest.len()));
        rest = more;
        Some(piece)
    })
}

/// Whom clients believe, and the server's configuration; made once.
fn configurations() -> &'static (RootCertStore, Arc<ServerConfig>) {
    static MADE: OnceLock<(RootCertStore, Arc<ServerConfig>)> = OnceLock::new();
    MADE.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        let certificate: CertificateDer<'static> = made.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let server = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], PrivateKeyDer::from(key))
            .unwrap();
        (roots, Arc::new(server))
    })
}
