use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

fn key(namespace: &str, name: &str) -> Key {
    Key::new(namespace, name).unwrap()
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn service(namespace: &str, name: &str, ips: &[u8]) -> Service {
    Service {
        key: key(namespace, name),
        kind: ServiceKind::ClusterIp,
        cluster_ips: ips.iter().map(|last| ip(*last)).collect(),
        ports: Arc::from([]),
        external: Box::default(),
    }
}

fn endpoint(last: u8) -> NewEndpoint<'static> {
    NewEndpoint { address: ip(last), hostname: "", pod: "", zone: "" }
}

fn slice(editor: &Editor, service: (&str, &str), name: &str, ips: &[u8]) -> Slice {
    let id = editor.slice_id(key(service.0, service.1), name);
    Slice::new(id, "", Arc::from([]), ips.iter().map(|last| endpoint(*last)))
}

fn owners(snapshot: &Snapshot, last: u8) -> Vec<String> {
    let slices = snapshot.slices_at(ip(last)).map(|slice| format!("{:?}", slice.id().service));
    slices.collect()
}

#[test]
fn a_key_is_found_by_the_octets_of_a_question() {
    let mut editor = Editor::default();
    editor.set_service(service("Default", "API", &[1]));
    editor.set_namespace(&Key::of_namespace("default").unwrap());
    let snapshot = editor.snapshot(100);
    assert!(snapshot.service(b"\x03api\x07default").is_some());
    assert!(snapshot.service(b"\x03api\x06defaul").is_none());
    assert!(snapshot.has_namespace(b"\x07default"));
    let key = key("default", "api");
    assert_eq!((key.name(), key.namespace()), (&b"api"[..], &b"default"[..]));
    assert_eq!(Key::new("", "api"), Err(ObjectError::Name(String::new())));
    assert_eq!(Key::new(&"n".repeat(64), "api"), Err(ObjectError::Name("n".repeat(64))));
}

#[test]
fn services_and_slices_come_and_go_in_any_order() {
    let mut editor = Editor::default();
    editor.set_slice(slice(&editor, ("ns", "web"), "web-1", &[1, 2]));
    assert_eq!(owners(&editor.snapshot(1), 1), ["Key(web.ns)"]);
    editor.set_service(service("ns", "web", &[100]));
    editor.set_slice(slice(&editor, ("ns", "web"), "web-2", &[3]));
    let snapshot = editor.snapshot(2);
    let entry = snapshot.service(b"\x03web\x02ns").unwrap();
    assert_eq!(entry.slices.iter().map(|slice| slice.len()).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(snapshot.services_at(ip(100)).len(), 1);
    editor.set_slice(slice(&editor, ("ns", "web"), "web-1", &[2, 4]));
    editor.remove_service(&key("ns", "web"));
    let later = editor.snapshot(3);
    assert_eq!(later.services_at(ip(100)), []);
    assert!(owners(&later, 1).is_empty());
    assert_eq!(owners(&later, 4), ["Key(web.ns)"]);
    // What was published stays as it was.
    assert_eq!(owners(&snapshot, 1), ["Key(web.ns)"]);
    editor.remove_slice("ns", "web-1");
    editor.remove_slice("ns", "web-2");
    assert!(editor.snapshot(4).service(b"\x03web\x02ns").is_none());
}

#[test]
fn a_slice_may_move_to_another_service() {
    let mut editor = Editor::default();
    editor.set_slice(slice(&editor, ("ns", "old"), "s", &[1]));
    editor.set_slice(slice(&editor, ("ns", "new"), "s", &[1]));
    let snapshot = editor.snapshot(1);
    assert_eq!(owners(&snapshot, 1), ["Key(new.ns)"]);
    assert!(snapshot.service(b"\x03old\x02ns").is_none());
}

#[test]
fn endpoints_keep_their_names_and_zones() {
    let editor = Editor::default();
    let long = "h".repeat(64);
    let all = [
        NewEndpoint { address: ip(1), hostname: "db-0", pod: "pod-a", zone: "z1" },
        NewEndpoint { address: ip(2), hostname: "", pod: "pod-b", zone: "" },
        NewEndpoint { address: ip(3), hostname: "db-2", pod: "", zone: "z1" },
        NewEndpoint { address: ip(4), hostname: &long, pod: "", zone: "z2" },
    ];
    let slice = Slice::new(editor.slice_id(key("n", "s"), "s-1"), "east", Arc::from([]), all);
    let seen: Vec<_> = slice.endpoints().map(|e| (e.hostname, e.pod, e.zone)).collect();
    let wanted = [("db-0", "pod-a", "z1"), ("", "pod-b", ""), ("db-2", "", "z1"), ("", "", "z2")];
    assert_eq!(seen, wanted);
    assert_eq!((slice.cluster(), slice.len()), ("east", 4));
}

#[test]
fn a_list_is_applied_in_place() {
    let mut editor = Editor::default();
    for name in ["a", "b", "c"] {
        editor.set_service(service("ns", name, &[]));
        editor.set_slice(slice(&editor, ("ns", name), name, &[name.as_bytes()[0]]));
    }
    editor.begin_list(Kind::Services);
    editor.set_service(service("ns", "b", &[]));
    // What the list has not come to yet is still there.
    assert!(editor.snapshot(1).service(b"\x01a\x02ns").unwrap().service.is_some());
    editor.set_service(service("ns", "d", &[]));
    assert_eq!(editor.end_list(Kind::Services), 2);
    let snapshot = editor.snapshot(2);
    let mut names: Vec<_> = snapshot.services().map(|(s, _)| s.key.name().to_vec()).collect();
    names.sort();
    assert_eq!(names, [b"b", b"d"]);
    assert_eq!(owners(&snapshot, b'a').len(), 1, "slices have a list of their own");
    // A list that begins anew forgets what it has named.
    editor.begin_list(Kind::Slices);
    editor.set_slice(slice(&editor, ("ns", "a"), "a", b"a"));
    editor.begin_list(Kind::Slices);
    assert_eq!(editor.end_list(Kind::Slices), 3);
    assert_eq!(editor.end_list(Kind::Slices), 0, "no list is under way");
}

#[test]
fn serials_grow_with_what_changes() {
    let mut editor = Editor::default();
    assert_eq!(editor.snapshot(50).serial(), 0);
    editor.set_service(service("ns", "a", &[1]));
    assert_eq!(editor.snapshot(50).serial(), 50);
    editor.set_service(service("ns", "a", &[1]));
    assert_eq!(editor.snapshot(60).serial(), 50, "the same service is no change");
    editor.set_slice(slice(&editor, ("ns", "a"), "a", &[1]));
    // The second has its serial already: the change is shown, its serial comes later.
    let snapshot = editor.snapshot(50);
    assert_eq!((snapshot.serial(), snapshot.slices_at(ip(1)).count()), (50, 1));
    assert!(editor.owes_serial());
    let snapshot = editor.snapshot(51);
    assert_eq!((snapshot.serial(), snapshot.import_serial()), (51, 0));
    assert!(!editor.owes_serial());
    editor.set_slice(slice(&editor, ("ns", "a"), "a", &[1]));
    assert_eq!(editor.snapshot(70).serial(), 51);
    editor.set_import(service("ns", "a", &[1]));
    let snapshot = editor.snapshot(70);
    assert_eq!((snapshot.serial(), snapshot.import_serial()), (51, 70));
}

#[test]
fn serials_never_go_back() {
    let mut editor = Editor::default();
    let mut change = 0;
    let mut serial_at = |now: u64| {
        change += 1;
        editor.set_service(service("ns", "a", &[change]));
        editor.snapshot(now).serial()
    };
    assert_eq!([100, 100, 102].map(&mut serial_at), [100, 100, 102]);
    // The clock was set back by a little, then by much.
    assert_eq!([95, 10, 11, 200].map(&mut serial_at), [102, 103, 104, 200]);
    let end = u64::from(u32::MAX);
    // Serials have no end; the steps to it are shorter than half of all serials.
    assert_eq!([2_000_000_000, 4_000_000_000].map(&mut serial_at), [2_000_000_000, 4_000_000_000]);
    assert_eq!([end, end + 1, end + 2].map(&mut serial_at), [u32::MAX, 0, 1]);
}

#[test]
fn pods_share_addresses_and_leave_alone() {
    let mut editor = Editor::default();
    let pod = |name: &str| Pod {
        namespace: "ns".into(),
        name: name.into(),
        ips: Box::new([ip(9)]),
        labels: PodLabels::new([("app", name), ("tier", "")]),
        search: Search { base: SearchBase::Node, added: Arc::from([]), ndots: 1 },
    };
    editor.set_pod(pod("a"));
    editor.set_pod(pod("b"));
    editor.set_pod(pod("b"));
    let snapshot = editor.snapshot(1);
    assert_eq!(snapshot.pods_at(ip(9)).len(), 2);
    editor.remove_pod("ns", "a");
    let snapshot = editor.snapshot(1);
    let [left] = snapshot.pods_at(ip(9)) else { panic!("{snapshot:?}") };
    assert_eq!((left.labels.get("app"), left.labels.get("tier")), (Some("b"), Some("")));
    assert_eq!(left.labels.get("b"), None);
    editor.begin_list(Kind::Pods);
    assert_eq!(editor.end_list(Kind::Pods), 1);
    assert!(editor.snapshot(1).pods_at(ip(9)).is_empty());
}

#[test]
fn equal_sources_share_a_feed_as_long_as_it_is_used() {
    let clusters = Clusters::default();
    let source = Source { pods: true, ..Source::default() };
    let first = clusters.feed(&source);
    first.set_synced();
    assert!(Arc::ptr_eq(&first, &clusters.feed(&source)));
    assert!(!Arc::ptr_eq(&first, &clusters.feed(&Source::default())));
    drop(first);
    assert!(!clusters.feed(&source).synced());
}

#[test]
fn equal_values_are_kept_once_and_dropped_when_unused() {
    let mut editor = Editor::default();
    let first = editor.text("zone-a");
    assert!(Arc::ptr_eq(&first, &editor.text("zone-a")));
    drop(first);
    for n in 0..10_000 {
        editor.text(&n.to_string());
    }
    assert!(Arc::strong_count(&editor.text("zone-a")) == 2);
}

/// What may happen to one of a few slices.
#[derive(Clone, Debug)]
enum Change {
    Set { slice: u8, service: u8, ips: BTreeSet<u8> },
    Remove { slice: u8 },
    List(Vec<(u8, u8, BTreeSet<u8>)>),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let ips = || prop::collection::btree_set(0_u8..6, 0..4);
    let one = (0_u8..4, 0_u8..3, ips());
    let change = prop_oneof![
        6 => one.clone().prop_map(|(slice, service, ips)| Change::Set { slice, service, ips }),
        2 => (0_u8..4).prop_map(|slice| Change::Remove { slice }),
        1 => prop::collection::vec(one, 0..4).prop_map(Change::List),
    ];
    prop::collection::vec(change, 0..30)
}

proptest! {
    #[test]
    fn the_index_by_address_says_what_the_slices_say(changes in changes()) {
        let mut editor = Editor::default();
        let mut model: BTreeMap<u8, (u8, BTreeSet<u8>)> = BTreeMap::new();
        let set = |editor: &mut Editor, slice_no: u8, service: u8, ips: &BTreeSet<u8>| {
            let ips: Vec<_> = ips.iter().copied().collect();
            let (service, name) = (format!("s{service}"), format!("e{slice_no}"));
            editor.set_slice(slice(editor, ("ns", &service), &name, &ips));
        };
        for change in changes {
            match change {
                Change::Set { slice, service, ips } => {
                    set(&mut editor, slice, service, &ips);
                    model.insert(slice, (service, ips));
                }
                Change::Remove { slice } => {
                    editor.remove_slice("ns", &format!("e{slice}"));
                    model.remove(&slice);
                }
                Change::List(all) => {
                    editor.begin_list(Kind::Slices);
                    model.clear();
                    for (slice, service, ips) in all {
                        set(&mut editor, slice, service, &ips);
                        model.insert(slice, (service, ips));
                    }
                    editor.end_list(Kind::Slices);
                }
            }
            let snapshot = editor.snapshot(1);
            for last in 0..6 {
                let mut seen = owners(&snapshot, last);
                seen.sort();
                let holders = model.values().filter(|(_, ips)| ips.contains(&last));
                let mut wanted: Vec<_> = holders.map(|(s, _)| format!("Key(s{s}.ns)")).collect();
                wanted.sort();
                prop_assert_eq!(seen, wanted);
            }
        }
    }
}

#[test]
fn a_snapshot_that_is_read_is_freed_by_a_later_publication_and_not_by_its_reader() {
    let feed = Clusters::default().feed(&Source::default());
    let mut editor = Editor::default();
    editor.set_service(service("ns", "old", &[]));
    feed.publish(editor.snapshot(1));
    let reader = feed.load();
    let old = reader.service(b"\x03old\x02ns").and_then(|entry| entry.service.as_ref());
    let old = old.map(Arc::downgrade).unwrap();
    editor.remove_service(&key("ns", "old"));
    feed.publish(editor.snapshot(2));
    drop(reader);
    assert!(old.upgrade().is_some(), "the reader has freed it");
    feed.publish(editor.snapshot(3));
    assert!(old.upgrade().is_none());
}

#[test]
fn slices_that_go_leave_their_numbers_to_others() {
    let mut editor = Editor::default();
    for round in 0..5_u8 {
        for name in ["a", "b", "c"] {
            editor.set_slice(slice(&editor, ("ns", name), name, &[round]));
        }
        assert_eq!(owners(&editor.snapshot(1), round).len(), 3);
        ["b", "a", "c"].iter().for_each(|name| editor.remove_slice("ns", name));
        editor.set_slice(slice(&editor, ("ns", "d"), "d", &[round]));
        editor.set_slice(slice(&editor, ("ns", "e"), "d", &[round]));
        assert_eq!(owners(&editor.snapshot(1), round), ["Key(e.ns)"]);
        editor.remove_slice("ns", "d");
        assert!(owners(&editor.snapshot(1), round).is_empty());
    }
    assert_eq!(editor.snapshot(1).sizes(), [0, 0, 0]);
}
