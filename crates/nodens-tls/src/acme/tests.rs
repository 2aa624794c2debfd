use super::*;
use crate::{Protocol, Server};
use rcgen::{CertificateParams, KeyPair};
use std::fs;

fn managed(folder: &Path, domains: &[&str]) -> Managed {
    Managed::new(AcmeOptions {
        domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
        email: None,
        ca: "https://ca.test/directory".to_owned(),
        storage: folder.to_owned(),
        ca_root: None,
        resolver: None,
    })
}

/// A certificate for `name` and its key, in PEM format.
fn made(name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2026, 1, 1);
    params.not_after = rcgen::date_time_ymd(2026, 1, 31);
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

#[test]
fn domains_are_written_in_one_way() {
    for (text, wanted) in [
        ("DNS.Example.", "dns.example"),
        ("*.Example", "*.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("example", "example"),
    ] {
        assert_eq!(AcmeOptions::domain(text).unwrap(), wanted);
    }
    let long = format!("{}.example", "a".repeat(64));
    let odd = ["", ".", "*.", "*", "192.0.2.1", "*.*.example", "a..b", "a_b.example", "-a.example"];
    for text in odd.into_iter().chain(["2001:db8::1", "a.*.example", &long]) {
        let error = AcmeOptions::domain(text).unwrap_err().to_string();
        assert!(error.starts_with("invalid ACME domain \""), "{error}");
    }
    let error = AcmeOptions::domain("bücher.example").unwrap_err().to_string();
    assert!(error.ends_with(": write international names in ASCII (xn--)"), "{error}");
}

#[test]
fn names_of_clients_lead_to_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let managed = managed(folder.path(), &["dns.example", "*.wild.example", "a.wild.example"]);
    let place = |name: &str| managed.options().place(name);
    for (name, wanted) in [
        ("DNS.EXAMPLE.", Some(0)),
        ("one.wild.example", Some(1)),
        ("a.wild.example", Some(2)),
        ("two.one.wild.example", None),
        ("wild.example", None),
        ("other.example", None),
    ] {
        assert_eq!(place(name), wanted, "{name}");
    }
    assert!(managed.certificate(None).is_none(), "there is none yet");
    let (chain, key) = made("dns.example");
    managed.take_up("dns.example", chain.as_bytes(), key.as_bytes()).unwrap();
    assert!(managed.certificate(None).is_some());
    assert!(managed.certificate(Some("dns.example")).is_some());
    assert!(managed.certificate(Some("one.wild.example")).is_none());
    let (chain, key) = made("*.wild.example");
    managed.take_up("*.wild.example", chain.as_bytes(), key.as_bytes()).unwrap();
    assert!(managed.certificate(Some("one.wild.example")).is_some());
}

#[test]
fn the_last_third_of_a_life_is_for_renewal() {
    let folder = tempfile::tempdir().unwrap();
    let managed = managed(folder.path(), &["dns.example"]);
    assert_eq!(managed.life("dns.example"), None);
    let (chain, key) = made("dns.example");
    managed.take_up("dns.example", chain.as_bytes(), key.as_bytes()).unwrap();
    let life = managed.life("dns.example").unwrap();
    let days = |count: i64| count * 24 * 3600;
    assert_eq!(life.not_after - life.not_before, days(30));
    assert!((life.renew_at() - life.not_before - days(20)).abs() <= 1);
    // Whatever a certificate says, it is a time.
    _ = Life { not_before: i64::MIN, not_after: i64::MAX }.renew_at();
    _ = Life { not_before: i64::MAX, not_after: i64::MIN }.renew_at();
}

#[test]
fn what_is_kept_is_used_and_what_is_damaged_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let own = managed(folder.path(), &["dns.example"]);
    assert!(!own.load("dns.example").unwrap());
    let (chain, key) = made("dns.example");
    let (other_chain, other_key) = made("other.example");
    let storage = own.storage();
    storage.save_certificate("dns.example", chain.as_bytes(), key.as_bytes()).unwrap();
    assert!(managed(folder.path(), &["dns.example"]).load("dns.example").unwrap());
    assert!(own.load("dns.example").unwrap());
    let before = own.certificate(None).unwrap();
    let half = &chain[..chain.len() / 2];
    for (chain, key) in [
        ("", &*key),
        (half, &*key),
        (&*chain, ""),
        (&*chain, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
        // As a process leaves it that is killed between the two files.
        (&*chain, &*other_key),
        (&*other_chain, &*other_key),
    ] {
        storage.save_certificate("dns.example", chain.as_bytes(), key.as_bytes()).unwrap();
        let error = own.load("dns.example").unwrap_err().to_string();
        assert!(error.contains("dns.example."), "{error}");
        assert!(Arc::ptr_eq(&before, &own.certificate(None).unwrap()));
    }
    let (_, key_at) = storage.certificate_files("dns.example");
    fs::remove_file(key_at).unwrap();
    assert!(!own.load("dns.example").unwrap(), "without a key it is none");
}

#[test]
fn listeners_show_what_there_is_now() {
    let folder = tempfile::tempdir().unwrap();
    let managed = Arc::new(managed(folder.path(), &["dns.example"]));
    let server = Server::managed(managed.clone()).unwrap();
    let config = server.config(Protocol::Dot).unwrap();
    assert_eq!(config.alpn_protocols, [b"dot".to_vec()]);
    assert!(!server.reload().unwrap() && server.files().is_none() && server.acme().is_some());
    assert!(!handshake(&config), "there is no certificate yet");
    let (chain, key) = made("dns.example");
    managed.take_up("dns.example", chain.as_bytes(), key.as_bytes()).unwrap();
    assert!(handshake(&config));
}

/// Whether the first flight of a client gets a certificate.
fn handshake(config: &Arc<rustls::ServerConfig>) -> bool {
    let client = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let client = client.with_safe_default_protocol_versions().unwrap();
    let client =
        client.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
    let name = ServerName::try_from("dns.example").unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(client), name).unwrap();
    let mut server = rustls::ServerConnection::new(config.clone()).unwrap();
    let mut flight = Vec::new();
    client.write_tls(&mut flight).unwrap();
    server.read_tls(&mut &*flight).unwrap();
    server.process_new_packets().is_ok()
}
