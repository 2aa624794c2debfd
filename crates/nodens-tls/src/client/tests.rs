use super::*;
use crate::go_text;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ServerConfig, ServerConnection};
use std::fs;
use std::path::Path;
use std::rc::Rc;

/// A server's certificate for `name` and its key, in files of `folder`.
fn write(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([name.to_owned()]).unwrap();
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    fs::write(&certificate, cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    (certificate, key)
}

fn server((certificate, key): &(PathBuf, PathBuf)) -> Arc<ServerConfig> {
    let chain = files::certificates(certificate).unwrap();
    let key = files::private_key(key).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    Arc::new(builder.with_single_cert(chain, key).unwrap())
}

/// A handshake without sockets, and its kind.
fn handshake(peer: &Peer, config: &Arc<ServerConfig>) -> Result<rustls::HandshakeKind, Error> {
    let (mut client, mut server) =
        (peer.connect().unwrap(), ServerConnection::new(config.clone()).unwrap());
    for _ in 0..10 {
        let mut octets = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut octets).unwrap();
        }
        let mut octets = &octets[..];
        while !octets.is_empty() {
            server.read_tls(&mut octets).unwrap();
            server.process_new_packets()?;
        }
        let mut octets = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut octets).unwrap();
        }
        let mut octets = &octets[..];
        while !octets.is_empty() {
            client.read_tls(&mut octets).unwrap();
            client.process_new_packets()?;
        }
    }
    assert!(!client.is_handshaking());
    Ok(client.handshake_kind().unwrap())
}

fn peer(files: ClientFiles, name: &str) -> Result<Peer, LoadError> {
    Ok(Peer::new(Arc::new(Client::load(files)?), server_name(name).unwrap(), Protocol::Dot))
}

fn believing(authorities: &Path) -> ClientFiles {
    ClientFiles { certificate: None, authorities: Some(authorities.to_owned()) }
}

#[test]
fn a_server_is_believed_by_its_name_and_its_authority_and_its_session_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let pair = write(folder.path(), "dns.example");
    let config = server(&pair);
    let known = peer(believing(&pair.0), "DNS.example.").unwrap();
    assert_eq!(handshake(&known, &config), Ok(rustls::HandshakeKind::Full));
    assert_eq!(handshake(&known, &config), Ok(rustls::HandshakeKind::Resumed));
    let text = |peer: &Peer| go_text(&handshake(peer, &config).unwrap_err());
    let prefix = "tls: failed to verify certificate: x509: certificate ";
    let other = peer(believing(&pair.0), "other.example").unwrap();
    assert_eq!(text(&other), format!("{prefix}is valid for dns.example, not other.example"));
    let stranger = peer(ClientFiles::default(), "dns.example").unwrap();
    assert_eq!(text(&stranger), format!("{prefix}signed by unknown authority"));
}

#[test]
fn a_session_ends_with_the_certificate_that_it_began_with() {
    let folder = tempfile::tempdir().unwrap();
    let pair = write(folder.path(), "dns.example");
    let config = server(&pair);
    let peer = peer(believing(&pair.0), "dns.example").unwrap();
    assert_eq!(handshake(&peer, &config), Ok(rustls::HandshakeKind::Full));
    assert_eq!(handshake(&peer, &config), Ok(rustls::HandshakeKind::Resumed));
    let start = peer.start.load_full().unwrap();
    let leaf = &files::certificates(&pair.0).unwrap()[0];
    assert_eq!(Some(start.not_after.load(Relaxed)), chain::not_after(leaf));
    start.not_after.store(1_700_000_000, Relaxed);
    assert_eq!(handshake(&peer, &config), Ok(rustls::HandshakeKind::Full));
    assert_eq!(handshake(&peer, &config), Ok(rustls::HandshakeKind::Resumed));
}

#[test]
fn files_that_changed_end_the_sessions_and_damaged_ones_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let pair = write(folder.path(), "dns.example");
    let config = server(&pair);
    let client = Arc::new(Client::load(believing(&pair.0)).unwrap());
    let peer = Peer::new(client.clone(), server_name("dns.example").unwrap(), Protocol::Dot);
    assert!(handshake(&peer, &config).is_ok());
    assert!(!client.reload().unwrap());
    assert_eq!(peer.generation(), 0);
    fs::write(&pair.0, "nothing").unwrap();
    let error = client.reload().unwrap_err().to_string();
    assert!(error.contains("cert.pem: expected certificates in PEM format"), "{error}");
    assert_eq!(handshake(&peer, &config), Ok(rustls::HandshakeKind::Resumed));
    // Another authority: what it did not vouch for is not resumed.
    write(folder.path(), "dns.example");
    assert!(client.reload().unwrap());
    assert_eq!(peer.generation(), 1);
    assert!(handshake(&peer, &config).is_err());
}

#[test]
fn what_is_the_same_is_told_by_name_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let pair = write(folder.path(), "dns.example");
    let of = |name| Rc::new(peer(believing(&pair.0), name).unwrap());
    assert_eq!(of("a.example"), of("A.example"));
    assert_ne!(of("a.example"), of("b.example"));
    assert_ne!(*of("a.example"), peer(ClientFiles::default(), "a.example").unwrap());
}

#[test]
fn what_can_be_used_for_nothing_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pair = write(folder.path(), "dns.example");
    let other = tempfile::tempdir().unwrap();
    let (_, key) = write(other.path(), "other.example");
    for (certificate, authorities, wanted) in [
        (None, Some(PathBuf::from("/none/ca.pem")), "could not read /none/ca.pem"),
        (None, Some(pair.1.clone()), "key.pem: expected certificates in PEM format"),
        (Some((pair.1.clone(), pair.1.clone())), None, "expected certificates in PEM format"),
        (Some((pair.0.clone(), pair.0.clone())), None, "expected a private key in PEM format"),
        (Some((pair.0.clone(), key)), None, "cert.pem: keys may not be consistent"),
    ] {
        let files = ClientFiles { certificate, authorities };
        let error = Client::load(files).unwrap_err().to_string();
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
    for text in ["", "a..b", "a b", "x/y"] {
        assert!(server_name(text).is_none(), "{text}");
    }
    for text in ["192.0.2.1", "2001:db8::1", "dns.example", "under_score.example"] {
        assert!(server_name(text).is_some(), "{text}");
    }
}
