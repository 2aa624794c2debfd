//! What reloads do to watches.

use crate::fake::{Fake, NAMESPACES, SERVICES, Watch, service};
use nodens_core::cluster::{Api, Source, Tls};
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
