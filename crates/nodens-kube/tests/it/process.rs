//! What reloads do to watches.

use crate::fake::{Fake, NAMESPACES, SERVICES, Watch, service};
use nodens_core::cluster::{Api, Source, Tls};
use nodens_kube::Moments;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[test]
fn a_feed_that_is_wanted_again_goes_on_and_one_that_is_not_ends() {
    let fake = Fake::start(&[NAMESPACES]);
    let mut watch = Watch::start(&fake, |_| ());
    let mut asked = fake.next(SERVICES);
    asked.begin().added(&service("one", 7)).bookmark("10", true);
    watch.until_synced();
    let again = watch.shared.clusters.feed(watch.feed.source());
    let feeds = [again];
    watch.watches.start(&feeds).unwrap();
    watch.watches.retain(&feeds);
    assert!(fake.try_next(SERVICES, Duration::from_millis(200)).is_none(), "asked again");
    asked.added(&service("two", 11));
    watch.until_service("default", "two", true);

    watch.watches.retain(&[]);
    // What it knew is there for those who still have the feed, and another watch does not show
    // less before it knows as much.
    watch.watches.start(&feeds).unwrap();
    let mut asked = fake.next(SERVICES);
    asked.begin().added(&service("three", 12));
    std::thread::sleep(Duration::from_millis(20));
    assert!(watch.has_service("default", "one") && !watch.has_service("default", "three"));
    asked.bookmark("13", true);
    watch.until_service("default", "three", true);
    assert!(!watch.has_service("default", "one"));
}

/// How often the program was told that lists were read.
static LISTS_READ: AtomicU32 = AtomicU32::new(0);

#[test]
fn the_program_is_told_when_lists_were_read() {
    let lists_read = || _ = LISTS_READ.fetch_add(1, Ordering::Relaxed);
    let told = || LISTS_READ.load(Ordering::Relaxed);
    let fake = Fake::start(&[]);
    let source = Source { api: fake.api(), ..Source::default() };
    let watch = Watch::with(source, Moments { lists_read, ..Moments::default() });
    fake.next(NAMESPACES).begin().bookmark("10", true);
    let mut asked = fake.next(SERVICES);
    asked.begin().added(&service("one", 7));
    watch.until_service("default", "one", false);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(told(), 0, "a list is under way");
    asked.bookmark("10", true);
    watch.until("clearing up", || told() > 0);
    let before = told();
    // Read again.
    asked.event("ERROR", r#"{"status":"Failure","message":"too old","code":410}"#);
    fake.next(SERVICES).begin().added(&service("two", 11)).bookmark("12", true);
    watch.until_service("default", "one", false);
    watch.until("clearing up again", || told() > before);
}

#[test]
fn a_source_that_cannot_be_asked_is_an_error_that_says_why() {
    let fake = Fake::start(&[NAMESPACES, SERVICES]);
    let mut watch = Watch::start(&fake, |_| ());
    let mut why = |api: Api| {
        let feed = watch.shared.clusters.feed(&Source { api, ..Source::default() });
        watch.watches.start(&[feed]).unwrap_err().to_string()
    };
    let path = "/nowhere/kubeconfig".into();
    assert!(why(Api::Kubeconfig { path, context: None }).contains("/nowhere/kubeconfig"));
    let tls = Tls { ca: "/nowhere/ca.crt".into(), ..Tls::default() };
    let url = "https://192.0.2.1:6443".to_owned();
    let text = why(Api::Endpoint { url, tls: Some(tls) });
    assert!(text.starts_with("tls: /nowhere/ca.crt: "), "{text}");
    let text = why(Api::Endpoint { url: "http://a b".to_owned(), tls: None });
    assert!(text.starts_with("endpoint http://a b: "), "{text}");
}
