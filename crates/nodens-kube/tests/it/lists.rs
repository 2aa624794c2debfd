//! Lists and what follows them.

use crate::fake::{
    API_SERVICE, Fake, IMPORTS, NAMESPACES, PODS, SERVICES, SLICES, SYSTEM_SERVICES, Watch,
    service, service_at, slice,
};
use nodens_core::cluster::{Key, Link, Scope};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[test]
fn a_streamed_list_goes_on_as_a_watch_on_the_same_connection() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |_| ());
    let mut asked = fake.next(SERVICES);
    assert!(asked.wants_streamed_list(), "{}", asked.query);
    for part in ["watch=true", "allowWatchBookmarks=true", "resourceVersionMatch=NotOlderThan"] {
        assert!(asked.query.contains(part), "{part} in {}", asked.query);
    }
    asked.begin().added(&service("one", 7)).added(&service("two", 3));
    std::thread::sleep(Duration::from_millis(20));
    assert!(!watch.feed.synced() && !watch.has_service("default", "one"), "half a list was shown");
    asked.bookmark("10", true);
    watch.until_synced();
    watch.until_connected();
    assert!(watch.has_service("default", "one") && watch.has_service("default", "two"));

    asked.added(&service("three", 11)).event("DELETED", &service("one", 12));
    watch.until_service("default", "three", true);
    watch.until_service("default", "one", false);
    asked.event("MODIFIED", &service_at("two", 13, "10.0.0.9"));
    let at = "10.0.0.9".parse().unwrap();
    watch.until("the new address", || !watch.feed.load().services_at(at).is_empty());
    assert_eq!(watch.times_said(": synced"), 1);
    assert_eq!(watch.metric(r#"nodens_kubernetes_lists_total{kind="service"}"#), 1.0);
    assert_eq!(watch.metric(r#"nodens_kubernetes_objects{kind="service"}"#), 2.0);
}

/// What a node asks for to know where search paths end.
#[test]
fn where_names_are_enough_only_metadata_is_asked_for() {
    let fake = Fake::start(&[NAMESPACES, API_SERVICE, SYSTEM_SERVICES]);
    let watch = Watch::start(&fake, |source| source.scope = Scope::Names);
    let mut asked = fake.next(SERVICES);
    let form = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let accept = format!(
        "application/vnd.kubernetes.protobuf;{form}, application/json;{form}, application/json"
    );
    assert!(asked.head.contains(&format!("accept: {accept}\r\n")), "{}", asked.head);
    // What a server that does not have the form gives is as good.
    let named = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"one","namespace":"default","resourceVersion":"7"}}"#;
    asked.begin().added(named).added(&service("two", 8)).bookmark("10", true);
    watch.until_synced();
    let since = |name| {
        let key = Key::new("default", name).unwrap();
        watch.feed.load().service_since(key.as_wire())
    };
    // Those that are there at first may have come a moment before.
    assert!(since("one").is_some_and(|since| since > 1_700_000_000));
    assert_eq!((since("two"), since("three")), (since("one"), None));
    assert_eq!(watch.feed.load().sizes(), [0; 3]);
    watch.until("current", || watch.feed.is_current());

    asked.added(&service("three", 11)).event("DELETED", named);
    watch.until("three and not one", || since("three").is_some() && since("one").is_none());
    assert!(since("three").is_some_and(|since| since > 1_700_000_000));
    asked.cut();
    // What is gone when the list is taken again is gone here, and what is new is new.
    fake.next(SERVICES).refuse("410 Gone", "too old");
    let mut asked = fake.next(SERVICES);
    assert!(asked.wants_streamed_list());
    asked.begin().added(&service("three", 11)).added(&service("four", 12)).bookmark("20", true);
    watch.until("four and not two", || since("four").is_some() && since("two").is_none());
    assert!(since("four").is_some_and(|since| since > 1_700_000_000));
}

/// By a few addresses a node finds out whether a server speaks for this cluster.
#[test]
fn the_addresses_that_tell_clusters_apart_are_asked_for_whole() {
    let fake = Fake::start(&[NAMESPACES, SERVICES]);
    let watch = Watch::start(&fake, |source| source.scope = Scope::Names);
    let mut api = fake.next(API_SERVICE);
    assert!(api.query.contains("fieldSelector=metadata.name%3Dkubernetes&"), "{}", api.query);
    assert!(!api.head.contains("PartialObjectMetadata"), "{}", api.head);
    api.begin().added(&service_at("kubernetes", 3, "10.0.0.1")).bookmark("10", true);
    let mut system = fake.next(SYSTEM_SERVICES);
    let of_system =
        |name, at, ip| service_at(name, at, ip).replace(r#""default""#, r#""kube-system""#);
    system.begin().added(&of_system("kube-dns", 4, "10.0.0.10"));
    system.added(&of_system("metrics", 5, "10.7.0.3")).bookmark("10", true);
    watch.until_synced();
    let snapshot = watch.feed.load();
    assert_eq!(snapshot.api_addresses(), ["10.0.0.1".parse::<std::net::IpAddr>().unwrap()]);
    // The tenth address of the network is that of the DNS in nearly every cluster.
    let witnesses: Vec<_> = snapshot.witnesses().map(|(key, _)| key.name().to_vec()).collect();
    assert_eq!(witnesses, [b"metrics"]);
    assert_eq!(snapshot.names(), [0, 0], "their names come with all others");
    drop(snapshot);
    system.event("DELETED", &of_system("metrics", 11, "10.7.0.3"));
    watch.until("no witness", || watch.feed.load().witnesses().next().is_none());
    api.cut();
    fake.next(API_SERVICE).refuse("410 Gone", "too old");
    fake.next(API_SERVICE).begin().bookmark("20", true);
    watch.until("no API server's service", || watch.feed.load().api_addresses().is_empty());
}

#[test]
fn where_names_are_forbidden_they_are_not_asked_for_again_soon() {
    let fake = Fake::start(&[API_SERVICE, SYSTEM_SERVICES]);
    let watch = Watch::start(&fake, |source| source.scope = Scope::Names);
    for path in [NAMESPACES, SERVICES] {
        fake.next(path).refuse("403 Forbidden", "services is forbidden");
    }
    watch.until_said("working without: see Rights in docs/node.md");
    // Longer than the longest wait after any other failure.
    assert!(fake.try_next(SERVICES, Duration::from_secs(7)).is_none());
    assert!(!watch.feed.synced() && !watch.feed.is_current());
}

#[test]
fn the_last_of_many_changes_gets_a_serial_of_its_own() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |_| ());
    let mut asked = fake.next(SERVICES);
    asked.begin().bookmark("1", true);
    watch.until_synced();
    // A change in the second of the one before is shown before it has a serial.
    let mut version = 2;
    let serial = loop {
        let before = watch.feed.load().serial();
        let name = format!("s{version}");
        asked.added(&service(&name, version));
        watch.until_service("default", &name, true);
        if watch.feed.load().serial() == before {
            break before;
        }
        version += 1;
    };
    watch.until("a later serial", || watch.feed.load().serial() > serial);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(u64::from(watch.feed.load().serial()) <= now, "serials run ahead of the time");
}

#[test]
fn a_server_without_streamed_lists_is_asked_for_pages() {
    is_asked_for_pages(
        "422 Unprocessable Entity",
        "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
    );
}

/// What an API server 1.36 says with Debian 12's etcd 3.4.23.
#[test]
fn a_server_whose_store_cannot_stream_lists_is_asked_for_pages() {
    is_asked_for_pages(
        "500 Internal Server Error",
        "a watch stream was requested by the client but the required storage feature \
         RequestWatchProgress is disabled",
    );
}

fn is_asked_for_pages(status: &str, text: &str) {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |_| ());
    let asked = fake.next(SERVICES);
    asked.refuse(status, text);

    let asked = fake.next(SERVICES);
    assert!(asked.query.contains("limit=") && !asked.query.contains("continue="));
    let page = |next: &str, items: &str| {
        format!(
            r#"{{"kind":"ServiceList","metadata":{{"resourceVersion":"50","continue":"{next}","remainingItemCount":1}},"items":[{items}]}}"#
        )
    };
    asked.answer("200 OK", &page("a/b=", &service("one", 7)));
    let asked = fake.next(SERVICES);
    assert!(asked.query.ends_with("&continue=a%2Fb%3D"), "{}", asked.query);
    assert!(!watch.feed.synced());
    asked.answer("200 OK", &page("", &service("two", 8)));

    let mut asked = fake.next(SERVICES);
    assert!(asked.query.contains("&resourceVersion=50"), "{}", asked.query);
    watch.until_synced();
    assert!(watch.has_service("default", "one") && watch.has_service("default", "two"));
    asked.begin().added(&service("three", 51));
    watch.until_service("default", "three", true);
    assert_eq!(watch.times_said("does not give"), 0, "a fallback is no fault");
}

#[test]
fn a_server_that_fails_to_stream_a_list_is_asked_for_pages_this_time() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |_| ());
    let text = "etcdserver: request timed out";
    for (round, first) in [(0, true), (1, false)] {
        let asked = fake.next(SERVICES);
        assert!(asked.wants_streamed_list(), "{}", asked.query);
        asked.refuse("500 Internal Server Error", text);
        let asked = fake.next(SERVICES);
        // Only the first list may come from a cache of the server.
        assert_eq!(asked.query.contains("&resourceVersion=0"), first, "{}", asked.query);
        let name = format!("in-list-{round}");
        let list =
            format!(r#"{{"metadata":{{"resourceVersion":"9"}},"items":[{}]}}"#, service(&name, 8));
        asked.answer("200 OK", &list);
        let mut asked = fake.next(SERVICES);
        watch.until_service("default", &name, true);
        assert!(asked.query.contains("&resourceVersion=9"), "{}", asked.query);
        let gone = r#"{"status":"Failure","message":"too old","code":410}"#;
        asked.begin().event("ERROR", gone);
    }
    assert_eq!(watch.said().len(), 1, "only that it synced: {:#?}", watch.said());
}

#[test]
fn a_stream_that_ends_is_taken_up_at_the_last_version() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |_| ());
    let mut asked = fake.next(SERVICES);
    asked.begin().added(&service("one", 7)).bookmark("10", true);
    watch.until_synced();
    asked.bookmark("90", false);
    asked.end();
    let mut asked = fake.next(SERVICES);
    assert!(asked.query.contains("&resourceVersion=90"), "{}", asked.query);
    asked.begin().added(&service("two", 91));
    watch.until_service("default", "two", true);
    asked.end();
    let asked = fake.next(SERVICES);
    assert!(asked.query.contains("&resourceVersion=91"), "{}", asked.query);
    assert_eq!(*watch.feed.link(), Link::Connected);
    assert_eq!(watch.said().len(), 1, "only that it synced: {:#?}", watch.said());
}

#[test]
fn a_version_that_is_too_old_is_followed_by_a_list_in_place() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |_| ());
    let mut asked = fake.next(SERVICES);
    asked.begin().added(&service("stays", 7)).added(&service("goes", 8)).bookmark("10", true);
    watch.until_synced();
    // Once as an event, once as a status.
    for (round, as_event) in [(1, true), (2, false)] {
        let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 10 (99)","reason":"Expired","code":410}"#;
        if as_event {
            asked.event("ERROR", status);
        } else {
            asked.end();
            let resumed = fake.next(SERVICES);
            assert!(resumed.query.contains("&resourceVersion="), "{}", resumed.query);
            resumed.answer("410 Gone", status);
        }
        asked = fake.next(SERVICES);
        assert!(asked.wants_streamed_list(), "{}", asked.query);
        asked.begin().added(&service("stays", 7)).added(&service(&format!("new{round}"), 98));
        watch.until_service("default", &format!("new{round}"), true);
        assert!(watch.has_service("default", "stays"));
        // What has not been named yet may still come.
        let last = if round == 1 { "goes" } else { "new1" };
        assert!(watch.has_service("default", last));
        asked.bookmark("99", true);
        watch.until_service("default", last, false);
        assert!(watch.has_service("default", "stays"));
    }
    assert_eq!(*watch.feed.link(), Link::Connected);
    assert_eq!(watch.metric(r#"nodens_kubernetes_lists_total{kind="service"}"#), 3.0);
}

#[test]
fn a_list_that_breaks_off_is_begun_anew_and_removes_nothing() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |_| ());
    let mut asked = fake.next(SERVICES);
    asked.begin().added(&service("one", 7)).added(&service("two", 8)).bookmark("10", true);
    watch.until_synced();
    let gone = r#"{"kind":"Status","status":"Failure","message":"too old","code":410}"#;
    asked.event("ERROR", gone);
    let mut asked = fake.next(SERVICES);
    asked.begin().added(&service("three", 11));
    watch.until_service("default", "three", true);
    asked.cut();
    let mut asked = fake.next(SERVICES);
    assert!(asked.wants_streamed_list(), "{}", asked.query);
    assert!(watch.has_service("default", "one") && watch.has_service("default", "two"));
    asked.begin().added(&service("one", 7)).bookmark("12", true);
    watch.until_service("default", "three", false);
    assert!(watch.has_service("default", "one") && !watch.has_service("default", "two"));
}

#[test]
fn what_cannot_be_read_is_named_and_skipped_and_nothing_else_is_lost() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |_| ());
    let mut asked = fake.next(SERVICES);
    let bad = service("bad", 8).replace("\"ports\":[", "\"ports\":[17,");
    asked.begin().added(&service("one", 7)).added(&bad).added(&service("two", 9));
    asked.bookmark("10", true);
    watch.until_synced();
    watch.until_said("skipped one of the services: default/bad: invalid type");
    assert!(watch.has_service("default", "one") && watch.has_service("default", "two"));
    assert!(!watch.has_service("default", "bad"));
    // A known object that becomes unreadable stays as it was known, also over a list.
    let odd = service("two", 11).replace("\"clusterIPs\":[\"10.0.0.1\"]", "\"clusterIPs\":[\"x\"]");
    asked.event("MODIFIED", &odd).raw("no event at all\n").added(&service("three", 12));
    watch.until_service("default", "three", true);
    watch.until_said("default/two: clusterIPs: expected an IP address, found `x`");
    assert!(watch.has_service("default", "two"));
    asked.end();
    let asked = fake.next(SERVICES);
    assert!(asked.query.contains("&resourceVersion=12"), "{}", asked.query);
    asked.refuse("410 Gone", "too old");
    let mut asked = fake.next(SERVICES);
    asked.begin().added(&odd).added(&service("four", 13)).bookmark("14", true);
    watch.until_service("default", "one", false);
    assert!(watch.has_service("default", "two") && watch.has_service("default", "four"));
    // To be gone, an object needs nothing but its name.
    asked.event("DELETED", &odd.replace("\"ports\":[", "\"ports\":[17,"));
    watch.until_service("default", "two", false);
    let name = r#"nodens_kubernetes_unreadable_objects_total{kind="service"}"#;
    assert_eq!(watch.metric(name), 5.0);
}

#[test]
fn a_page_with_an_unreadable_object_is_used_but_for_that() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |_| ());
    fake.next(SERVICES).refuse("400 Bad Request", "unknown option");
    let items = format!(
        r#"{},{{"metadata":{{"name":"odd","namespace":"default"}},"spec":7}},{}"#,
        service("one", 1),
        service("two", 2)
    );
    let list = format!(r#"{{"items":[{items}],"metadata":{{"resourceVersion":"9"}}}}"#);
    fake.next(SERVICES).answer("200 OK", &list);
    watch.until_synced();
    assert!(watch.has_service("default", "one") && watch.has_service("default", "two"));
    watch.until_said("skipped one of the services: default/odd: ");
}

#[test]
fn kinds_wait_for_each_other_once_and_never_again() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |source| source.endpoints = true);
    let mut services = fake.next(SERVICES);
    services.begin().added(&service("web", 7)).bookmark("10", true);
    let mut slices = fake.next(SLICES);
    assert!(slices.query.contains("labelSelector=kubernetes.io%2Fservice-name&"));
    slices.begin().added(&slice("web-1", "web", 8, &["10.1.0.1", "10.1.0.2"], ""));
    std::thread::sleep(Duration::from_millis(20));
    assert!(!watch.feed.synced() && !watch.has_service("default", "web"));
    slices.bookmark("10", true);
    watch.until_synced();
    let key = Key::new("default", "web").unwrap();
    let count = || {
        watch
            .feed
            .load()
            .service(key.as_wire())
            .map_or(0, |e| e.slices.iter().map(|slice| slice.len()).sum::<usize>())
    };
    assert_eq!(count(), 2);
    slices.event("ERROR", r#"{"status":"Failure","message":"too old","code":410}"#);
    let mut again = fake.next(SLICES);
    services.added(&service("api", 11));
    watch.until_service("default", "api", true);
    again.begin().added(&slice("web-1", "web", 9, &["10.1.0.3"], "")).bookmark("12", true);
    watch.until("one endpoint", || count() == 1);
}

#[test]
fn the_time_from_a_change_of_endpoints_until_it_is_answered_is_measured() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |source| source.endpoints = true);
    let mut services = fake.next(SERVICES);
    services.begin().added(&service("web", 7)).bookmark("10", true);
    let mut slices = fake.next(SLICES);
    let noted = r#","annotations":{"endpoints.kubernetes.io/last-change-trigger-time":"2026-01-02T03:04:05.678Z"}"#;
    // A list says nothing about how long a change took.
    slices.begin().added(&slice("web-1", "web", 8, &["10.1.0.1"], noted)).bookmark("10", true);
    watch.until_synced();
    let count = "coredns_kubernetes_dns_programming_duration_seconds_count";
    let series = format!(r#"{count}{{service_kind="cluster_ip"}}"#);
    assert_eq!(watch.metric(&series), 0.0);
    slices.event("MODIFIED", &slice("web-1", "web", 11, &["10.1.0.2"], noted));
    slices.event("MODIFIED", &slice("web-1", "web", 12, &["10.1.0.3"], ""));
    watch.until("one observation", || watch.metric(&series) == 1.0);
    let at = "10.1.0.3".parse().unwrap();
    watch.until("the last address", || watch.feed.load().slices_at(at).count() == 1);
    assert_eq!(watch.metric(&series), 1.0);
}

/// What leads to a change `seconds` ago, as a controller notes it.
fn began(seconds: i64) -> String {
    let at = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds);
    format!(r#","annotations":{{"endpoints.kubernetes.io/last-change-trigger-time":"{at}"}}"#)
}

/// How many changes of headless services were measured.
fn headless(watch: &Watch) -> f64 {
    let count = "coredns_kubernetes_dns_programming_duration_seconds_count";
    watch.metric(&format!(r#"{count}{{service_kind="headless_with_selector"}}"#))
}

/// A change that happened while nothing was heard is known from a list, like all that was known
/// before. In pages it is the same.
#[test]
fn changes_that_a_later_list_tells_of_are_measured_and_what_was_known_is_not() {
    for in_pages in [false, true] {
        let fake = Fake::start(&[NAMESPACES]);
        let watch = Watch::start(&fake, |source| source.endpoints = true);
        let mut services = fake.next(SERVICES);
        services.begin().added(&service_at("db", 7, "None")).bookmark("10", true);
        let mut slices = fake.next(SLICES);
        let (old, late) = (began(132), began(70));
        slices.begin().added(&slice("db-1", "db", 8, &["10.1.0.1"], &old)).bookmark("10", true);
        watch.until_synced();
        slices.event("MODIFIED", &slice("db-2", "db", 11, &["10.1.0.2"], &began(66)));
        watch.until("one", || headless(&watch) == 1.0);
        slices.event("ERROR", r#"{"status":"Failure","message":"too old","code":410}"#);
        let known = slice("db-1", "db", 8, &["10.1.0.1"], &old);
        let changed = slice("db-2", "db", 15, &["10.1.0.3"], &late);
        let mut again = fake.next(SLICES);
        match in_pages {
            false => _ = again.begin().added(&known).added(&changed).bookmark("16", true),
            true => {
                again.refuse("400 Bad Request", "no streams");
                let list = format!(
                    r#"{{"metadata":{{"resourceVersion":"16"}},"items":[{known},{changed}]}}"#
                );
                fake.next(SLICES).answer("200 OK", &list);
            }
        }
        watch.until("two", || headless(&watch) >= 2.0);
        let at = "10.1.0.3".parse().unwrap();
        watch.until("the address", || watch.feed.load().slices_at(at).count() == 1);
        assert_eq!(headless(&watch), 2.0, "in pages: {in_pages}");
    }
}

/// The same events as of the recorder of CoreDNS 1.15.0, which looks at each change on its own.
#[test]
fn changes_of_headless_services_are_measured_too() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |source| source.endpoints = true);
    let mut services = fake.next(SERVICES);
    services.begin().bookmark("10", true);
    let mut slices = fake.next(SLICES);
    slices.begin().bookmark("10", true);
    watch.until_synced();
    services.added(&service("web", 11)).added(&service_at("db", 12, "None"));
    watch.until_service("default", "db", true);
    slices.added(&slice("db-1", "db", 13, &["10.1.0.1"], &began(132)));
    slices.event("MODIFIED", &slice("db-1", "db", 14, &["10.1.0.2"], &began(66)));
    slices.added(&slice("web-1", "web", 15, &["10.1.0.3"], &began(8)));
    let name = "coredns_kubernetes_dns_programming_duration_seconds";
    let of =
        |what: &str, kind: &str| watch.metric(&format!("{name}_{what}{{service_kind=\"{kind}\"}}"));
    watch.until("two", || of("count", "headless_with_selector") == 2.0);
    watch.until("one", || of("count", "cluster_ip") == 1.0);
    assert!((198.0..260.0).contains(&of("sum", "headless_with_selector")));
}

#[test]
fn a_cluster_without_service_imports_has_none() {
    let fake = Fake::start(&[NAMESPACES, SERVICES, SLICES]);
    let watch = Watch::start(&fake, |source| source.imports = true);
    fake.next(IMPORTS).refuse("404 Not Found", "the server could not find the requested resource");
    watch.until_synced();
    watch.until_said("has no service imports (serviceimports.multicluster.x-k8s.io)");
    watch.until_connected();
}

#[test]
fn pods_are_known_by_their_addresses_until_they_are_gone() {
    let fake = Fake::start(&[NAMESPACES, SERVICES]);
    let watch = Watch::start(&fake, |source| source.pods = true);
    let pod = |version: u32, ip: &str| {
        format!(
            r#"{{"metadata":{{"name":"p","namespace":"default","resourceVersion":"{version}"}},"status":{{"podIPs":[{{"ip":"{ip}"}}]}}}}"#
        )
    };
    let mut asked = fake.next(PODS);
    assert!(asked.query.contains("fieldSelector=status.phase%21%3DSucceeded"), "{}", asked.query);
    asked.begin().added(&pod(5, "10.3.0.1")).bookmark("9", true);
    watch.until_synced();
    let pods = |ip: &str| watch.feed.load().pods_at(ip.parse().unwrap()).len();
    assert_eq!(pods("10.3.0.1"), 1);
    asked.event("MODIFIED", &pod(10, "10.3.0.2"));
    watch.until("the new address", || pods("10.3.0.2") == 1 && pods("10.3.0.1") == 0);
    asked.event("DELETED", &pod(11, "10.3.0.2"));
    watch.until("no pod", || pods("10.3.0.2") == 0);
}

#[test]
fn a_server_that_was_restored_from_a_backup_is_listed_anew() {
    for in_order in [true, false] {
        let fake = Fake::start(&[NAMESPACES]);
        let watch = Watch::start(&fake, |_| ());
        let mut asked = fake.next(SERVICES);
        asked.begin().added(&service("kept", 7)).bookmark("10", true).added(&service("new", 110));
        watch.until_service("default", "new", true);
        // What comes after that version is not there yet, and nobody says so.
        fake.newest.store(109, Ordering::Relaxed);
        if in_order {
            asked.end()
        } else {
            asked.cut()
        }
        let mut asked = fake.next(SERVICES);
        assert!(asked.wants_streamed_list(), "{}", asked.query);
        asked.begin().added(&service("kept", 7)).bookmark("109", true);
        watch.until_service("default", "new", false);
        assert!(watch.has_service("default", "kept"));
        watch.until_said("services have gone back from version 110 to 109, listing them anew");
        // It goes on as usual.
        asked.cut();
        let asked = fake.next(SERVICES);
        assert!(asked.query.contains("&resourceVersion=109"), "{}", asked.query);
    }
}

#[test]
fn a_list_whose_pages_expire_is_taken_at_once() {
    let fake = Fake::start(&[NAMESPACES]);
    let watch = Watch::start(&fake, |_| ());
    fake.next(SERVICES).refuse("422 Unprocessable Entity", "sendInitialEvents is forbidden");
    let page = |next: &str, items: &str| {
        format!(
            r#"{{"kind":"ServiceList","metadata":{{"resourceVersion":"50","continue":"{next}"}},"items":[{items}]}}"#
        )
    };
    let expires = || {
        fake.next(SERVICES).answer("200 OK", &page("next", &service("one", 7)));
        let asked = fake.next(SERVICES);
        assert!(asked.query.ends_with("&continue=next"), "{}", asked.query);
        asked.refuse("410 Gone", "The provided continue parameter is too old");
        let asked = fake.next(SERVICES);
        assert!(!asked.query.contains("limit=") && !asked.query.contains("continue="));
        asked
    };
    // A server that gives none either is in the log.
    expires().refuse("410 Gone", "too old");
    watch.until_said("too old");
    assert!(!watch.feed.synced());
    let both = [service("one", 7), service("two", 8)].join(",");
    expires().answer("200 OK", &page("", &both));
    let asked = fake.next(SERVICES);
    assert!(asked.query.contains("&resourceVersion=50"), "{}", asked.query);
    watch.until_synced();
    assert!(watch.has_service("default", "one") && watch.has_service("default", "two"));
}
