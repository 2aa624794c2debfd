//! Faults: what is said of them, and that they stop nothing else.

use crate::fake::{Fake, NAMESPACES, SERVICES, SLICES, Watch, service, slice};
use nodens_core::cluster::{Api, Link, Scope, Source, Tls};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::time::Duration;

const DENIED: &str = "services is forbidden: User \"system:serviceaccount:kube-system:nodens\" \
                      cannot watch resource \"services\" in API group \"\" at the cluster scope";

fn lost(watch: &Watch) -> bool {
    matches!(*watch.feed.link(), Link::Lost { .. })
}

#[test]
fn a_kind_that_may_not_be_read_is_named_once_and_stops_no_other() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |source| source.endpoints = true);
    let mut slices = fake.next(SLICES);
    slices.begin().bookmark("10", true);
    let mut services = fake.next(SERVICES);
    services.begin().added(&service("web", 7)).bookmark("10", true);
    watch.until_synced();
    services.end();
    for _ in 0..3 {
        fake.next(SERVICES).refuse("403 Forbidden", DENIED);
    }
    watch.until("lost", || lost(&watch));
    assert_eq!(watch.times_said("does not let us read services: services is forbidden: User"), 1);
    assert_eq!(watch.times_said("expected the verbs list and watch on services"), 1);
    assert_eq!(watch.times_said("answering from what was known 0s ago"), 1);
    // The others go on, and so do answers.
    slices.added(&slice("web-1", "web", 11, &["10.1.0.1"], ""));
    let at = "10.1.0.1".parse().unwrap();
    watch.until("an endpoint", || watch.feed.load().slices_at(at).count() == 1);
    assert!(watch.has_service("default", "web"));
    let age = r#"nodens_kubernetes_age_seconds{kind="service"}"#;
    watch.until("age", || watch.metric(age) > 0.0);
    assert_eq!(watch.metric(r#"nodens_kubernetes_age_seconds{kind="endpointslice"}"#), 0.0);

    let mut services = fake.next(SERVICES);
    assert!(services.query.contains("&resourceVersion=10"), "{}", services.query);
    services.begin().added(&service("api", 12));
    watch.until_service("default", "api", true);
    watch.until_connected();
    watch.until_said("watching services again after");
    assert_eq!(watch.metric(age), 0.0);
    let denied =
        r#"coredns_kubernetes_rest_client_requests_total{code="403",method="GET",host="HOST"}"#;
    let host = fake.address.to_string();
    assert!(watch.metric(&denied.replace("HOST", &host)) >= 3.0);
}

#[test]
fn what_the_process_cannot_do_without_is_asked_for_with_a_warning() {
    let path = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices";
    let said = |needed| {
        let fake = Fake::start(&[]);
        let scope = Scope::SlicesOf { namespace: "kube-system".into(), service: "dns".into() };
        let watch = Watch::start(&fake, |source| {
            (source.scope, source.needed, source.endpoints) = (scope, needed, true);
        });
        fake.next(path).refuse("403 Forbidden", "endpointslices is forbidden");
        watch.until("lost", || lost(&watch));
        watch.until("a line", || !watch.said().is_empty());
        watch.said().remove(0)
    };
    let warning = "does not let us read endpoint slices: endpointslices is forbidden; expected the \
                   verbs list and watch on endpointslices";
    let said_if_needed = said(true);
    assert!(said_if_needed.contains(warning), "{said_if_needed}");
    // Its address is known.
    let said_if_not = said(false);
    assert!(said_if_not.contains("working without"), "{said_if_not}");
}

#[test]
fn a_token_that_has_expired_is_read_anew_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (token, config) = (folder.path().join("token"), folder.path().join("config"));
    std::fs::write(&token, "old").unwrap();
    let fake = Fake::start(&[]);
    let text = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"http://{}\"}}}}]\n\
         users: [{{name: u, user: {{tokenFile: {}}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n",
        fake.address,
        token.display()
    );
    std::fs::write(&config, text).unwrap();
    let api = Api::Kubeconfig { path: config, context: None };
    let watch = Watch::of(Source { api, ..Source::default() });
    let bearer = |head: &str| {
        let line = head.lines().find(|line| line.to_lowercase().starts_with("authorization:"));
        line.and_then(|line| line.rsplit(' ').next().map(str::to_owned)).unwrap_or_default()
    };
    for path in [NAMESPACES, SERVICES] {
        let mut asked = fake.next(path);
        assert_eq!(bearer(&asked.head), "old");
        asked.begin().bookmark("1", true);
        asked.end();
    }
    watch.until_synced();
    for path in [NAMESPACES, SERVICES, NAMESPACES, SERVICES] {
        fake.next(path).refuse("401 Unauthorized", "Unauthorized");
    }
    watch.until("lost", || lost(&watch));
    std::fs::write(&token, "new").unwrap();
    // A request that was on its way may still have the old one.
    for path in [NAMESPACES, SERVICES] {
        loop {
            let mut asked = fake.next(path);
            if bearer(&asked.head) == "new" {
                assert!(asked.query.contains("&resourceVersion=1"), "{}", asked.query);
                asked.begin().bookmark("2", false);
                std::mem::forget(asked);
                break;
            }
            asked.refuse("401 Unauthorized", "Unauthorized");
        }
    }
    watch.until_connected();
    watch.until_said("watching again after");
    assert_eq!(watch.times_said("does not know us (401 Unauthorized)"), 1, "{:#?}", watch.said());
}

#[test]
fn a_connection_that_breaks_within_an_object_loses_nothing() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |_| ());
    let mut asked = fake.next(SERVICES);
    asked.begin().added(&service("one", 7)).bookmark("10", true);
    watch.until_synced();
    let line = format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", service("two", 12));
    asked.added(&service("three", 11));
    for at in [1, 20, line.len() - 1] {
        asked.raw(&line[..at]);
        asked.cut();
        asked = fake.next(SERVICES);
        assert!(asked.query.contains("&resourceVersion=11"), "{}", asked.query);
        assert!(!watch.has_service("default", "two"));
        asked.begin();
    }
    // In pieces, but whole.
    asked.raw(&line[..30]).raw(&line[30..60]).raw(&line[60..]);
    watch.until_service("default", "two", true);
    assert!(watch.has_service("default", "three"));
    assert_eq!(*watch.feed.link(), Link::Connected);
    assert_eq!(watch.said().len(), 1, "breaks that heal at once: {:#?}", watch.said());
}

#[test]
fn a_server_that_is_not_there_is_said_once_and_found_when_it_comes() {
    // An address that no other test uses, so that nobody takes the port meanwhile.
    let free = std::net::TcpListener::bind("127.9.8.7:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let api = Api::Endpoint { url: address.to_string(), tls: None };
    let watch = Watch::of(Source { api, ..Source::default() });
    watch.until("lost", || lost(&watch));
    watch.until_said(&format!("no connection to the Kubernetes API at {address}: "));
    watch.until_said("nothing is known yet");
    let failures = r#"nodens_kubernetes_failures_total{kind="service"}"#;
    watch.until("more failures", || watch.metric(failures) >= 3.0);
    assert_eq!(watch.times_said("no connection"), 1, "{:#?}", watch.said());
    let _fake = Fake::at(address, &[NAMESPACES, SERVICES]);
    watch.until_synced();
    watch.until_connected();
    watch.until_said("watching again after");
}

#[test]
fn a_server_that_is_too_busy_is_left_alone_as_long_as_it_says() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |_| ());
    let status = r#"{"status":"Failure","message":"storage is (re)initializing","code":429,"details":{"retryAfterSeconds":1}}"#;
    fake.next(SERVICES).answer("429 Too Many Requests", status);
    let begun = std::time::Instant::now();
    let mut asked = fake.next(SERVICES);
    assert!(begun.elapsed() > Duration::from_millis(900), "{:?}", begun.elapsed());
    asked.begin().bookmark("1", true);
    watch.until_synced();
    watch.until_said("does not give services now: 429: storage is (re)initializing");
}

/// An authority and its key.
fn authority(name: &str) -> (rcgen::Certificate, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    (certificate, Issuer::new(params, key))
}

/// What a server with this certificate needs.
fn server(certificate: &rcgen::Certificate, key: &KeyPair) -> ServerConfig {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap()
}

/// As `openssl req -x509` makes it, which marks everything as an authority.
fn self_signed(name: &str) -> (rcgen::Certificate, KeyPair) {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap(), key)
}

#[test]
fn a_server_whose_certificate_is_the_configured_authority_is_believed() {
    let (certificate, key) = self_signed("127.0.0.1");
    let fake = Fake::with_tls(server(&certificate, &key), &[NAMESPACES, SERVICES]);
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.crt");
    std::fs::write(&ca, certificate.pem()).unwrap();
    let api = |ca| {
        let tls = Some(Tls { ca, ..Tls::default() });
        Api::Endpoint { url: format!("https://{}", fake.address), tls }
    };
    let watch = Watch::of(Source { api: api(ca), ..Source::default() });
    watch.until_synced();
    watch.until_connected();
    assert_eq!(watch.times_said("no TLS"), 0, "{:#?}", watch.said());

    // Another one of the same kind is not: nobody has named it.
    let (other, _) = self_signed("127.0.0.1");
    let ca = folder.path().join("other.crt");
    std::fs::write(&ca, other.pem()).unwrap();
    let watch = Watch::of(Source { api: api(ca), ..Source::default() });
    watch.until_said("no TLS with the Kubernetes API at ");
    assert!(!watch.feed.synced());
}

#[test]
fn a_kubeconfig_decides_by_which_name_a_server_is_believed_and_whether_it_has_to_be() {
    let (certificate, key) = self_signed("kubernetes");
    let fake = Fake::with_tls(server(&certificate, &key), &[NAMESPACES]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.crt"), certificate.pem()).unwrap();
    std::fs::write(folder.path().join("token"), "abc\n").unwrap();
    let ask = |cluster: &str| {
        let path = folder.path().join("config");
        let address = fake.address;
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
             clusters: [{{name: k, cluster: {{server: 'https://{address}', {cluster}}}}}]\n\
             users: [{{name: u, user: {{tokenFile: token}}}}]\n"
        );
        std::fs::write(&path, text).unwrap();
        Watch::of(Source { api: Api::Kubeconfig { path, context: None }, ..Source::default() })
    };
    let believed = [
        "certificate-authority: ca.crt, tls-server-name: kubernetes",
        "insecure-skip-tls-verify: true",
    ];
    for cluster in believed {
        let watch = ask(cluster);
        let asked = fake.next(SERVICES);
        // The line that ends the token's file is no part of the token.
        assert!(asked.head.contains("authorization: Bearer abc\r\n"), "{}", asked.head);
        drop(watch);
    }
    for cluster in ["certificate-authority: ca.crt", ""] {
        ask(cluster).until_said("no TLS with the Kubernetes API at ");
    }
}

#[test]
fn a_server_that_another_authority_vouches_for_is_not_believed_until_that_is_ours() {
    let (ours, _) = authority("ours");
    let (theirs, issuer) = authority("theirs");
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let fake = Fake::with_tls(server(&certificate, &key), &[NAMESPACES, SERVICES]);
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.crt");
    std::fs::write(&ca, ours.pem()).unwrap();
    let tls = Some(Tls { ca: ca.clone(), ..Tls::default() });
    let api = Api::Endpoint { url: format!("https://{}", fake.address), tls };
    let watch = Watch::of(Source { api, ..Source::default() });
    watch.until("lost", || lost(&watch));
    watch.until_said("no TLS with the Kubernetes API at ");
    watch.until_said("UnknownIssuer");
    std::fs::write(&ca, theirs.pem()).unwrap();
    watch.until_synced();
    watch.until_connected();
    assert_eq!(watch.times_said("no TLS"), 1, "{:#?}", watch.said());
}
