//! A server that writes protobuf, as an API server wrote it (`tests/fixtures`).

use crate::fake::{Fake, IMPORTS, NAMESPACES, SERVICES, SLICES, Watch};
use nodens_core::cluster::Key;

const LIST: &str = "application/vnd.kubernetes.protobuf";
const WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn a_streamed_list_and_the_watch_after_it_may_be_in_protobuf() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |source| source.endpoints = true);
    let (mut services, mut slices) = (fake.next(SERVICES), fake.next(SLICES));
    for asked in [&services, &slices] {
        let accepted = "accept: application/vnd.kubernetes.protobuf, application/json\r\n";
        assert!(asked.head.to_lowercase().contains(accepted), "{}", asked.head);
    }
    for (asked, name) in [(&mut services, "services"), (&mut slices, "slices")] {
        asked.begin_as(WATCH);
        for piece in fixture(&format!("{name}.watch.pb")).chunks(700) {
            asked.piece(piece);
        }
    }
    watch.until_synced();
    watch.until_service("shop", "db", false);
    let web = Key::new("shop", "web").unwrap();
    let at = |address: &str| watch.feed.load().slices_at(address.parse().unwrap()).count();
    watch.until("the new endpoint", || at("10.1.0.9") == 1 && at("2001:db8::1") == 0);
    let outside = "192.0.2.11".parse().unwrap();
    watch.until("the new address", || !watch.feed.load().external_at(outside).is_empty());
    let known = watch.feed.load();
    let service = known.service(web.as_wire()).unwrap().service.clone().unwrap();
    assert_eq!((service.ports.len(), service.cluster_ips.len()), (3, 2));
    // It ends in good order, and is taken up where it ended.
    services.end();
    let again = fake.next(SERVICES);
    assert!(again.query.contains("&resourceVersion="), "{}", again.query);
    assert_eq!(watch.times_said("skipped one of the services"), 0);
}

#[test]
fn pages_and_refusals_may_be_in_protobuf() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |_| ());
    fake.next(SERVICES).answer_as(LIST, "400 Bad Request", &fixture("refusal.pb"));
    fake.next(SERVICES).answer_as(LIST, "200 OK", &fixture("services.list.pb"));
    let asked = fake.next(SERVICES);
    assert!(asked.query.contains("&continue="), "{}", asked.query);
    assert!(!watch.feed.synced());
    asked.answer_as(LIST, "403 Forbidden", &fixture("refusal.pb"));
    watch.until_said("continue key is not valid");
    fake.next(SERVICES).answer_as(LIST, "200 OK", &fixture("services.all.pb"));
    watch.until_synced();
    for name in ["web", "db", "outside", "balanced"] {
        assert!(watch.has_service("shop", name), "{name}");
    }
    // A server may change its mind about the form.
    let mut asked = fake.next(SERVICES);
    asked.begin().added(&crate::fake::service("json", 99));
    watch.until_service("default", "json", true);
}

#[test]
fn a_list_that_is_not_what_it_says_is_a_fault_and_asked_for_again() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |_| ());
    fake.next(SERVICES).answer_as(LIST, "400 Bad Request", &fixture("refusal.pb"));
    let whole = fixture("services.all.pb");
    for wrong in [&b"{\"items\":[]}"[..], &whole[..whole.len() - 9], &whole[1..]] {
        fake.next(SERVICES).answer_as(LIST, "200 OK", wrong);
    }
    watch.until_said("no list: ");
    assert!(!watch.feed.synced());
    fake.next(SERVICES).answer_as(LIST, "200 OK", &whole);
    watch.until_synced();
}

#[test]
fn what_a_server_only_has_in_json_is_read_beside_the_rest() {
    let fake = Fake::start(&[NAMESPACES, SLICES]);
    let watch = Watch::start(&fake, |source| source.imports = true);
    let mut services = fake.next(SERVICES);
    services.begin_as(WATCH).piece(&fixture("services.watch.pb"));
    let import = r#"{"metadata":{"name":"far","namespace":"shop","resourceVersion":"3"},"spec":{"type":"ClusterSetIP","ips":["10.9.0.1"],"ports":[{"port":80}]}}"#;
    let mut imports = fake.next(IMPORTS);
    imports.begin().added(import).bookmark("9", true);
    watch.until_synced();
    let far = Key::new("shop", "far").unwrap();
    assert!(watch.feed.load().import(far.as_wire()).is_some());
    assert!(watch.has_service("shop", "web"));
}
