use super::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CertifiedKey, IsCa, KeyPair,
    generate_simple_self_signed,
};
use rustls::pki_types::{PrivateKeyDer, UnixTime};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConnection};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Writes a certificate for `name` and its key to `folder`.
fn write(folder: &Path, name: &str) -> ServerFiles {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([name.to_owned()]).unwrap();
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    fs::write(&certificate, cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    let (authorities, client_auth, key_log) = (None, ClientAuth::None, None);
    ServerFiles { certificate, key, authorities, client_auth, key_log }
}

#[test]
fn changed_files_are_taken_up_and_damaged_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let files = write(folder.path(), "a.example");
    let server = Server::load(files.clone()).unwrap();
    let first = server.config(Protocol::Dot).unwrap();
    assert!(!server.reload().unwrap());
    write(folder.path(), "b.example");
    assert!(server.reload().unwrap());
    let second = server.config(Protocol::Dot).unwrap();
    assert!(!Arc::ptr_eq(&first, &second));
    assert!(Arc::ptr_eq(&first.ticketer, &second.ticketer), "sessions could not be resumed");
    fs::write(&files.certificate, "nothing").unwrap();
    let error = server.reload().unwrap_err().to_string();
    assert!(error.ends_with("cert.pem: expected certificates in PEM format"), "{error}");
    assert!(Arc::ptr_eq(&second, &server.config(Protocol::Dot).unwrap()));
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// How the handshake of a client goes that has taken tickets before.
fn handshake(client: &Arc<ClientConfig>, server: &Server) -> Result<HandshakeKind, rustls::Error> {
    let name = "a.example".try_into().unwrap();
    let mut client = ClientConnection::new(client.clone(), name).unwrap();
    let mut server = ServerConnection::new(server.config(Protocol::Dot).unwrap()).unwrap();
    for _ in 0..4 {
        let mut octets = Vec::new();
        client.write_tls(&mut octets).unwrap();
        server.read_tls(&mut &octets[..]).unwrap();
        server.process_new_packets()?;
        let mut octets = Vec::new();
        server.write_tls(&mut octets).unwrap();
        client.read_tls(&mut &octets[..]).unwrap();
        client.process_new_packets()?;
    }
    Ok(server.handshake_kind().unwrap())
}

#[test]
fn a_client_that_is_verified_is_verified_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = write(folder.path(), "a.example");
    let (trusted, other) = (authority(), authority());
    let path = folder.path().join("clients.pem");
    fs::write(&path, trusted.pem()).unwrap();
    (files.authorities, files.client_auth) = (Some(path.clone()), ClientAuth::RequireAndVerify);
    let server = Server::load(files.clone()).unwrap();
    let key = KeyPair::generate().unwrap();
    let der = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let client = |params: CertificateParams| {
        let certificate = params.signed_by(&key, &trusted).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(files::certificates(&files.certificate).unwrap().remove(0)).unwrap();
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let chain = vec![certificate.der().clone()];
        Arc::new(builder.with_client_auth_cert(chain, der.clone_key()).unwrap())
    };
    let lasting = client(CertificateParams::default());
    for _ in 0..3 {
        assert_eq!(handshake(&lasting, &server).unwrap(), HandshakeKind::Full);
    }
    fs::write(&path, other.pem()).unwrap();
    assert!(server.reload().unwrap());
    handshake(&lasting, &server).unwrap_err();
    fs::write(&path, trusted.pem()).unwrap();
    assert!(server.reload().unwrap());
    assert_eq!(handshake(&lasting, &server).unwrap(), HandshakeKind::Full);
    // As short as a busy machine allows for one handshake.
    let mut params = CertificateParams::default();
    let until_s = UnixTime::now().as_secs() + 5;
    params.not_after = (SystemTime::UNIX_EPOCH + Duration::from_secs(until_s)).into();
    let client = client(params);
    assert_eq!(handshake(&client, &server).unwrap(), HandshakeKind::Full);
    while UnixTime::now().as_secs() <= until_s {
        std::thread::sleep(Duration::from_millis(50));
    }
    handshake(&client, &server).unwrap_err();
    // Without a check of clients no certificate of theirs can expire.
    files.client_auth = ClientAuth::Require;
    let server = Server::load(files).unwrap();
    assert_eq!(handshake(&client, &server).unwrap(), HandshakeKind::Full);
    assert_eq!(handshake(&client, &server).unwrap(), HandshakeKind::Resumed);
}

#[test]
fn what_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let good = write(folder.path(), "a.example");
    let other = tempfile::tempdir().unwrap();
    let stranger = write(other.path(), "a.example");
    let load = |change: &dyn Fn(&mut ServerFiles)| {
        let mut files = good.clone();
        change(&mut files);
        Server::load(files).unwrap_err().to_string()
    };
    let none = folder.path().join("none");
    let error = load(&|files| files.key.clone_from(&none));
    assert!(
        error.starts_with("could not read ") && error.contains("none: No such file"),
        "{error}"
    );
    let error = load(&|files| files.key.clone_from(&good.certificate));
    assert!(error.ends_with("cert.pem: expected a private key in PEM format"), "{error}");
    let error = load(&|files| files.key.clone_from(&stranger.key));
    assert!(error.contains("cert.pem: "), "{error}");
    let error = load(&|files| files.key_log = Some(folder.path().to_owned()));
    assert!(error.starts_with("unable to write TLS Key Log to "), "{error}");
    let error = load(&|files| {
        files.client_auth = ClientAuth::RequireAndVerify;
        files.authorities = Some(files.key.clone());
    });
    assert!(error.ends_with("key.pem: expected certificates in PEM format"), "{error}");
}
