//! The same objects in both forms come to the same: as the API server wrote them, and as chance does.

use super::*;
use crate::events::{self, Of, Seen};
use crate::items::Items;
use crate::messages::Messages;
use crate::protobuf::testing::{message, number, octets};
use nodens_core::cluster::{Editor, Key, Kind, Source};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::convert::Infallible;

/// What a kind of field is in protobuf.
enum Type {
    Text,
    Number,
    /// Some message of which it only matters whether it is there.
    Present,
    /// Texts by name.
    Table,
    Message(&'static [Field]),
    List(&'static Type),
}

use Type::{List, Number, Present, Table, Text};

/// Its name in JSON, its number in protobuf.
type Field = (&'static str, u32, Type);

const META: Field = (
    "metadata",
    1,
    Type::Message(&[
        ("name", 1, Text),
        ("namespace", 3, Text),
        ("resourceVersion", 6, Text),
        ("generation", 7, Number),
        ("deletionTimestamp", 9, Present),
        ("labels", 11, Table),
        ("annotations", 12, Table),
    ]),
);
const PORT: Type = Type::Message(&[("name", 1, Text), ("protocol", 2, Text), ("port", 3, Number)]);
const NAMESPACE: &[Field] = &[META];
const SERVICE: &[Field] = &[
    META,
    (
        "spec",
        2,
        Type::Message(&[
            ("ports", 1, List(&PORT)),
            ("selector", 2, Table),
            ("clusterIP", 3, Text),
            ("type", 4, Text),
            ("externalIPs", 5, List(&Text)),
            ("externalName", 10, Text),
            ("healthCheckNodePort", 12, Number),
            ("clusterIPs", 18, List(&Text)),
        ]),
    ),
    (
        "status",
        3,
        Type::Message(&[(
            "loadBalancer",
            1,
            Type::Message(&[(
                "ingress",
                1,
                List(&Type::Message(&[("ip", 1, Text), ("hostname", 2, Text)])),
            )]),
        )]),
    ),
];
const SLICE: &[Field] = &[
    META,
    (
        "endpoints",
        2,
        List(&Type::Message(&[
            ("addresses", 1, List(&Text)),
            ("conditions", 2, Type::Message(&[("ready", 1, Number), ("serving", 2, Number)])),
            ("hostname", 3, Text),
            ("targetRef", 4, Type::Message(&[("kind", 1, Text), ("name", 3, Text)])),
            ("nodeName", 6, Text),
            ("zone", 7, Text),
        ])),
    ),
    ("ports", 3, List(&PORT)),
    ("addressType", 4, Text),
];
const POD: &[Field] = &[
    META,
    (
        "spec",
        2,
        Type::Message(&[
            ("dnsPolicy", 6, Text),
            ("nodeSelector", 7, Table),
            ("nodeName", 10, Text),
            ("hostNetwork", 11, Number),
            (
                "dnsConfig",
                26,
                Type::Message(&[
                    ("searches", 2, List(&Text)),
                    ("options", 3, List(&Type::Message(&[("name", 1, Text), ("value", 2, Text)]))),
                ]),
            ),
            ("os", 36, Type::Message(&[("name", 1, Text)])),
        ]),
    ),
    (
        "status",
        3,
        Type::Message(&[
            ("phase", 1, Text),
            ("podIPs", 12, List(&Type::Message(&[("ip", 1, Text)]))),
        ]),
    ),
];

fn fields(kind: Kind) -> &'static [Field] {
    match kind {
        Kind::Namespaces => NAMESPACE,
        Kind::Services | Kind::ApiService | Kind::SystemServices => SERVICE,
        Kind::Slices | Kind::ImportSlices => SLICE,
        Kind::Pods => POD,
        Kind::Imports => panic!("only in JSON"),
    }
}

/// A message with the fields that `object` has.
fn encode(object: &Json, fields: &[Field]) -> Vec<u8> {
    let present = fields.iter().filter_map(|(name, number, kind)| {
        let value = object.get(name).filter(|value| !value.is_null())?;
        Some(encode_field(*number, kind, value))
    });
    message(&present.collect::<Vec<_>>())
}

fn encode_field(at: u32, kind: &Type, value: &Json) -> Vec<u8> {
    match (kind, value) {
        (Text, Json::String(text)) => octets(at, text.as_bytes()),
        (Number, Json::Bool(truth)) => number(at, u64::from(*truth)),
        (Number, value) => number(at, value.as_i64().unwrap().cast_unsigned()),
        (Present, _) => octets(at, &number(1, 1_700_000_000)),
        (Table, Json::Object(pairs)) => {
            let pair = |(key, value): (&String, &Json)| {
                let value = value.as_str().unwrap();
                octets(at, &message(&[octets(1, key.as_bytes()), octets(2, value.as_bytes())]))
            };
            pairs.iter().flat_map(pair).collect()
        }
        (Type::Message(fields), object) => octets(at, &encode(object, fields)),
        (List(kind), Json::Array(values)) => {
            values.iter().flat_map(|value| encode_field(at, kind, value)).collect()
        }
        (_, value) => panic!("{value} as field {at}"),
    }
}

/// An object within its magic, as it stands by itself.
fn sealed(raw: &[u8]) -> Vec<u8> {
    let kind = message(&[octets(1, b"v1"), octets(2, b"Any")]);
    let unknown = [octets(1, &kind), octets(2, raw), octets(3, b""), octets(4, b"")];
    [&MAGIC[..], &message(&unknown)].concat()
}

fn event(kind: &str, raw: &[u8]) -> Vec<u8> {
    message(&[octets(1, kind.as_bytes()), octets(2, &octets(1, &sealed(raw)))])
}

/// Everything that is known, in an order.
fn everything(editor: &mut Editor) -> Vec<String> {
    let snapshot = editor.snapshot(1);
    let mut all: Vec<String> =
        snapshot.each_service().chain(snapshot.each_import()).map(|e| format!("{e:?}")).collect();
    for name in NAMESPACES {
        let key = Key::of_namespace(name).unwrap();
        all.extend(snapshot.has_namespace(key.as_wire()).then(|| name.to_owned()));
    }
    for (family, host) in [("10.3.0.", 1..10), ("fd00::", 1..10)]
        .into_iter()
        .flat_map(|(f, hosts)| hosts.map(move |host| (f, host)))
    {
        let pods = snapshot.pods_at(format!("{family}{host}").parse().unwrap());
        all.extend(pods.iter().map(|pod| format!("{pod:?}")));
    }
    all.extend(snapshot.sizes().map(|size| size.to_string()));
    all.sort();
    all
}

const NAMESPACES: [&str; 5] = ["shop", "extra", "kube-system", "a", "b"];
const KINDS: [(Kind, &str); 4] = [
    (Kind::Namespaces, "namespaces"),
    (Kind::Services, "services"),
    (Kind::Slices, "slices"),
    (Kind::Pods, "pods"),
];

fn source() -> Source {
    Source { zones: true, pod_names: true, ..Source::default() }
}

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Everything but words about what cannot be read, which differ.
fn without_words(seen: Seen) -> Seen {
    match seen {
        Seen::Unreadable { version, .. } => Seen::Unreadable { version, text: String::new() },
        seen => seen,
    }
}

#[test]
fn a_watch_of_the_api_server_says_the_same_in_both_forms() {
    let source = source();
    for (kind, name) in KINDS {
        let read = |form: Form, ending: &str| {
            let (stream, mut editor) =
                (fixture(&format!("{name}.watch.{ending}")), Editor::default());
            let (mut cutter, mut seen) = (form.cutter(), Vec::new());
            for piece in stream.chunks(1000) {
                let done = cutter.feed(piece, |octets| -> Result<(), Infallible> {
                    seen.push(events::event(
                        Of { kind, form, source: &source },
                        octets,
                        &mut editor,
                    ));
                    Ok(())
                });
                let Ok(()) = done;
            }
            assert!(!cutter.is_within_an_event(), "{name}");
            // How many bookmarks there are depends on the time.
            seen.retain(|seen| !matches!(seen, Seen::Bookmark { list_ends: false, .. }));
            (seen, everything(&mut editor))
        };
        let (json, protobuf) = (read(Form::Json, "json"), read(Form::Protobuf, "pb"));
        assert_eq!(json, protobuf, "{name}");
        let ends = |seen: &Seen| matches!(seen, Seen::Bookmark { list_ends: true, .. });
        let place = json.0.iter().position(ends).unwrap();
        assert!(place > 2 && place + 1 < json.0.len(), "{name}: {:#?}", json.0);
        // The one of an import, which nobody left out here.
        let unreadable = |seen: &&Seen| matches!(seen, Seen::Unreadable { .. });
        let count = json.0.iter().filter(unreadable).count();
        assert_eq!(count, usize::from(kind == Kind::Slices), "{:#?}", json.0);
    }
}

#[test]
fn a_page_of_the_api_server_says_the_same_in_both_forms() {
    let source = source();
    for (kind, name) in KINDS {
        let [mut json, mut protobuf] = [Editor::default(), Editor::default()];
        let [mut from_json, mut from_protobuf] = [Vec::new(), Vec::new()];
        let of = |form| Of { kind, form, source: &source };
        let mut items = Items::default();
        let take = |item: &[u8]| from_json.push(events::item(of(Form::Json), item, &mut json));
        items.feed(&fixture(&format!("{name}.list.json")), take).unwrap();
        let mut messages = Messages::default();
        let mut take = |item: &[u8]| {
            from_protobuf.push(events::item(of(Form::Protobuf), item, &mut protobuf));
        };
        for piece in fixture(&format!("{name}.list.pb")).chunks(100) {
            messages.feed(piece, &mut take).unwrap();
        }
        assert_eq!(from_json, from_protobuf, "{name}");
        assert_eq!(everything(&mut json), everything(&mut protobuf), "{name}");
        let [of_json, of_protobuf] =
            [events::Page::read(&items.finish().0).unwrap(), messages.finish().unwrap()];
        assert_eq!(of_json.version, of_protobuf.version);
        // Tokens of two requests are alike, but not the same.
        assert_eq!(of_json.next.is_some(), of_protobuf.next.is_some());
        assert_eq!(of_protobuf.next.is_some(), kind != Kind::Pods);
    }
}

#[test]
fn the_encoder_of_these_tests_writes_what_the_api_server_does() {
    let source = source();
    for (kind, name) in KINDS {
        let list: Json = serde_json::from_slice(&fixture(&format!("{name}.list.json"))).unwrap();
        let [mut json, mut protobuf] = [Editor::default(), Editor::default()];
        for object in list["items"].as_array().unwrap() {
            let of = |form| Of { kind, form, source: &source };
            let of_json = events::item(of(Form::Json), object.to_string().as_bytes(), &mut json);
            let encoded = encode(object, fields(kind));
            assert_eq!(of_json, events::item(of(Form::Protobuf), &encoded, &mut protobuf));
        }
        assert_eq!(everything(&mut json), everything(&mut protobuf), "{name}");
    }
}

#[test]
fn refusals_and_errors_are_read_in_both_forms() {
    let refusal = Form::Protobuf.status(&fixture("refusal.pb")).unwrap();
    assert_eq!((refusal.code, refusal.reason.as_deref()), (Some(400), Some("BadRequest")));
    assert!(refusal.message.unwrap().contains("continue key is not valid"));
    let status =
        [octets(2, b"Failure"), octets(3, b"too old"), octets(4, b"Expired"), number(6, 410)];
    let source = source();
    for (kind, _) in KINDS {
        let of = Of { kind, form: Form::Protobuf, source: &source };
        let seen = events::event(of, &event("ERROR", &message(&status)), &mut Editor::default());
        assert_eq!(seen, Seen::Error(crate::fault::Fault::Gone("too old".into())), "{kind:?}");
    }
    let details = octets(5, &number(5, 7));
    let busy = sealed(&message(&[octets(3, b"later"), details, number(6, 429)]));
    assert_eq!(Form::Protobuf.status(&busy).unwrap().details.unwrap().retry_after_seconds, Some(7));
}

#[test]
fn the_form_is_what_the_response_says() {
    let of = |said: &'static str| Form::of(Some(&HeaderValue::from_static(said)));
    assert_eq!(of("application/vnd.kubernetes.protobuf;stream=watch"), Form::Protobuf);
    assert_eq!(of("Application/Vnd.Kubernetes.Protobuf"), Form::Protobuf);
    assert_eq!(of("application/json"), Form::Json);
    assert_eq!(Form::of(None), Form::Json);
}

fn text() -> impl Strategy<Value = Json> {
    prop_oneof![
        4 => "[a-z]{1,6}".prop_map(Json::from),
        1 => Just(Json::Null),
        1 => "\\PC{0,4}".prop_map(Json::from),
        1 => "[a-z]{64}".prop_map(Json::from),
    ]
}

fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = Json> {
    prop_oneof![
        8 => prop::sample::select(texts).prop_map(Json::from),
        1 => text(),
    ]
}

fn ip() -> impl Strategy<Value = Json> {
    prop_oneof![
        4 => (1..10u8).prop_map(|host| Json::from(format!("10.3.0.{host}"))),
        4 => (1..10u8).prop_map(|host| Json::from(format!("fd00::{host}"))),
        1 => one_of(&["None", "", "010.3.0.1", "::ffff:10.3.0.2", "10.3.0.256"]),
    ]
}

/// A list, or none.
fn list(of: impl Strategy<Value = Json>) -> impl Strategy<Value = Json> {
    let some = prop::collection::vec(of.prop_filter("an item", |item| !item.is_null()), 0..4);
    prop::option::weighted(0.9, some.prop_map(Json::from)).prop_map(Json::from)
}

fn truth() -> impl Strategy<Value = Json> {
    prop::option::of(any::<bool>()).prop_map(Json::from)
}

fn table(keys: &'static [&'static str]) -> impl Strategy<Value = Json> {
    let key = prop::sample::select(keys).prop_map(str::to_owned);
    let pairs = prop::collection::btree_map(key, one_of(&["web", "true"]), 0..4);
    pairs.prop_map(|pairs| pairs.into_iter().filter(|(_, value)| !value.is_null()).collect())
}

fn meta() -> impl Strategy<Value = Json> {
    let labels = &[
        "app",
        "kubernetes.io/service-name",
        "multicluster.kubernetes.io/service-name",
        "multicluster.kubernetes.io/source-cluster",
    ];
    let annotations =
        &["note", "k8s.io/initial-events-end", "endpoints.kubernetes.io/last-change-trigger-time"];
    let ends = prop::option::weighted(0.1, Just("2026-01-01T00:00:00Z")).prop_map(Json::from);
    (one_of(&["a", "b", "web"]), one_of(&["a", "b"]), 0..99u32, ends, table(labels), table(annotations))
        .prop_map(|(name, namespace, version, ends, labels, annotations)| {
            json!({"name": name, "namespace": namespace, "resourceVersion": version.to_string(),
                "generation": -1, "deletionTimestamp": ends, "labels": labels, "annotations": annotations})
        })
}

fn port() -> impl Strategy<Value = Json> {
    let number = prop_oneof![9 => (0..=65_535i64).boxed(), 1 => (-2..100_000i64).boxed()];
    (text(), one_of(&["TCP", "UDP", "SCTP", ""]), prop::option::of(number)).prop_map(
        |(name, protocol, port)| json!({"name": name, "protocol": protocol, "port": port}),
    )
}

fn service() -> impl Strategy<Value = Json> {
    let ingress = (ip(), text()).prop_map(|(ip, host)| json!({"ip": ip, "hostname": host}));
    let kinds = one_of(&["ClusterIP", "ExternalName", "LoadBalancer"]);
    (meta(), list(port()), ip(), kinds, list(ip()), text(), list(ip()), list(ingress)).prop_map(
        |(meta, ports, ip, kind, external, name, ips, ingress)| {
            json!({"metadata": meta,
                "spec": {"ports": ports, "selector": {"a": "b"}, "clusterIP": ip, "type": kind,
                    "externalIPs": external, "externalName": name, "clusterIPs": ips},
                "status": {"loadBalancer": {"ingress": ingress}}})
        },
    )
}

fn slice() -> impl Strategy<Value = Json> {
    let endpoint = (list(ip()), truth(), text(), text(), text(), any::<bool>()).prop_map(
        |(addresses, ready, hostname, pod, zone, bare)| match bare {
            true => json!({"addresses": addresses}),
            false => {
                json!({"addresses": addresses, "conditions": {"ready": ready, "serving": true},
                "hostname": hostname, "targetRef": {"kind": "Pod", "name": pod}, "zone": zone})
            }
        },
    );
    (meta(), list(endpoint), list(port())).prop_map(
        |(meta, endpoints, ports)| json!({"metadata": meta, "endpoints": endpoints, "ports": ports}),
    )
}

fn pod() -> impl Strategy<Value = Json> {
    let option = (one_of(&["ndots", "edns0"]), one_of(&["2", "99", "x"]))
        .prop_map(|(name, value)| json!({"name": name, "value": value}));
    let config = (list(one_of(&["a.example", "b."])), list(option), any::<bool>());
    let config = config.prop_map(|(searches, options, there)| {
        there.then(|| json!({"searches": searches, "options": options}))
    });
    let policies = one_of(&["ClusterFirst", "None", "Default", "ClusterFirstWithHostNet"]);
    let selector = table(&["kubernetes.io/os", "zone"]);
    let ips = list(ip().prop_map(|ip| json!({"ip": ip})));
    (meta(), policies, selector, truth(), config, one_of(&["windows", "linux"]), ips).prop_map(
        |(meta, policy, selector, on_host, config, os, ips)| {
            json!({"metadata": meta,
                "spec": {"dnsPolicy": policy, "nodeSelector": selector, "hostNetwork": on_host,
                    "dnsConfig": config, "os": {"name": os}},
                "status": {"phase": "Running", "podIPs": ips}})
        },
    )
}

fn object() -> impl Strategy<Value = (Kind, Json)> {
    prop_oneof![
        meta().prop_map(|meta| (Kind::Namespaces, json!({"metadata": meta}))),
        service().prop_map(|service| (Kind::Services, service)),
        slice().prop_map(|slice| (Kind::Slices, slice)),
        slice().prop_map(|slice| (Kind::ImportSlices, slice)),
        pod().prop_map(|pod| (Kind::Pods, pod)),
    ]
}

proptest! {
    #[test]
    fn events_say_the_same_in_both_forms(
        events in prop::collection::vec(
            (prop::sample::select(&["ADDED", "MODIFIED", "DELETED", "BOOKMARK"][..]), object()),
            1..8,
        )
    ) {
        let source = source();
        let [mut json, mut protobuf] = [Editor::default(), Editor::default()];
        for (what, (kind, object)) in events {
            let of = |form| Of { kind, form, source: &source };
            let line = json!({"type": what, "object": object}).to_string();
            let of_json = events::event(of(Form::Json), line.as_bytes(), &mut json);
            let frame = event(what, &encode(&object, fields(kind)));
            let of_protobuf = events::event(of(Form::Protobuf), &frame, &mut protobuf);
            prop_assert_eq!(without_words(of_json), without_words(of_protobuf), "{}", line);
        }
        prop_assert_eq!(everything(&mut json), everything(&mut protobuf));
    }

    #[test]
    fn objects_of_lists_say_the_same_in_both_forms(
        objects in prop::collection::vec(object(), 1..8)
    ) {
        let source = source();
        let [mut json, mut protobuf] = [Editor::default(), Editor::default()];
        for (kind, object) in objects {
            let of = |form| Of { kind, form, source: &source };
            let of_json = events::item(of(Form::Json), object.to_string().as_bytes(), &mut json);
            let encoded = encode(&object, fields(kind));
            let of_protobuf = events::item(of(Form::Protobuf), &encoded, &mut protobuf);
            prop_assert_eq!(of_json.is_ok(), of_protobuf.is_ok(), "{}", object);
        }
        prop_assert_eq!(everything(&mut json), everything(&mut protobuf));
    }

    /// Whatever is wrong with an event, it is skipped and says why.
    #[test]
    fn nothing_that_arrives_can_do_more_than_be_skipped(
        (kind, object) in object(),
        at in any::<prop::sample::Index>(),
        with in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut frame = event("ADDED", &encode(&object, fields(kind)));
        let at = at.index(frame.len());
        match cut {
            true => frame.truncate(at),
            false => frame[at] = with,
        }
        let source = source();
        let of = Of { kind, form: Form::Protobuf, source: &source };
        let mut editor = Editor::default();
        let seen = events::event(of, &frame, &mut editor);
        if let Seen::Unreadable { text, .. } = seen {
            prop_assert!(!text.is_empty());
            prop_assert_eq!(editor.snapshot(1).sizes(), [0, 0, 0]);
        }
    }
}
