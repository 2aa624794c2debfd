//! Objects as the API server writes them, and as they may be.

use super::*;
use nodens_core::cluster::{External, Protocol, SearchBase, ServiceKind, Snapshot};

fn key(namespace: &str, name: &str) -> Key {
    Key::new(namespace, name).unwrap()
}

fn set<'a, T: Object<'a>>(source: &Source, objects: &[&'a str]) -> Snapshot {
    let mut editor = Editor::default();
    for text in objects {
        let object: T = serde_json::from_str(text).unwrap();
        object.set(&mut editor, source).unwrap();
    }
    editor.snapshot(1)
}

fn service(text: &str) -> nodens_core::cluster::Service {
    let snapshot = set::<ServiceObject<'_>>(&Source::default(), &[text]);
    let (service, _) = snapshot.services().next().unwrap();
    service.clone()
}

#[test]
fn a_service_is_what_its_specification_makes_it() {
    let of = |spec: &str| {
        service(&format!(r#"{{"metadata":{{"name":"a","namespace":"n"}},"spec":{spec}}}"#))
    };
    let both =
        of(r#"{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1","fd00::1"],"type":"ClusterIP"}"#);
    assert_eq!(both.kind, ServiceKind::ClusterIp);
    assert_eq!(
        &*both.cluster_ips,
        ["10.0.0.1".parse::<IpAddr>().unwrap(), "fd00::1".parse().unwrap()]
    );
    let headless = of(r#"{"clusterIP":"None","clusterIPs":["None"]}"#);
    assert_eq!((headless.kind, headless.cluster_ips.len()), (ServiceKind::Headless, 0));
    // As servers before dual stack wrote it.
    assert_eq!(of(r#"{"clusterIP":"None"}"#).kind, ServiceKind::Headless);
    assert_eq!(of(r#"{"clusterIP":"10.0.0.2"}"#).cluster_ips.len(), 1);
    let other = of(r#"{"type":"ExternalName","externalName":"db.example.net"}"#);
    assert_eq!(other.kind, ServiceKind::ExternalName("db.example.net".into()));
    // Not yet given an address.
    let new = of(r#"{"type":"ClusterIP","clusterIPs":null}"#);
    assert_eq!((new.kind, new.cluster_ips.len()), (ServiceKind::ClusterIp, 0));
}

#[test]
fn ports_and_outside_addresses_keep_their_order() {
    let service = service(
        r#"{"metadata":{"name":"a","namespace":"n"},
            "spec":{"ports":[{"name":"dns","protocol":"UDP","port":53,"targetPort":"x"},{"port":80}],
                    "externalIPs":["192.0.2.1"]},
            "status":{"loadBalancer":{"ingress":[{"hostname":"lb.example"},{"ip":"192.0.2.2","ipMode":"VIP"}]}}}"#,
    );
    let ports: Vec<_> =
        service.ports.iter().map(|port| (&*port.name, port.protocol, port.number)).collect();
    assert_eq!(ports, [("dns", Protocol::Udp, Some(53)), ("", Protocol::Tcp, Some(80))]);
    let address = |text: &str| External::Address(text.parse().unwrap());
    let host = External::Host("lb.example".into());
    assert_eq!(&*service.external, [address("192.0.2.1"), host, address("192.0.2.2")]);
}

const SLICE: &str = r#"{"addressType":"IPv4","metadata":{"name":"web-x","namespace":"n",
    "labels":{"kubernetes.io/service-name":"web","other":"é\n"}},
    "endpoints":[
      {"addresses":["10.1.0.1"],"conditions":{"ready":true,"serving":true},"hostname":"web-0",
       "targetRef":{"kind":"Pod","name":"web-0-pod"},"zone":"Zone-A","nodeName":"n1"},
      {"addresses":["10.1.0.2"],"conditions":{"ready":false}},
      {"addresses":["10.1.0.3"],"conditions":{}},
      {"addresses":["10.1.0.4"]}],
    "ports":[{"name":"http","port":8080,"protocol":"TCP"},{"name":null,"port":null}]}"#;

#[test]
fn a_slice_keeps_what_is_ready_and_what_is_asked_for() {
    let all = Source { zones: true, pod_names: true, ..Source::default() };
    for (source, pod, zone) in [(all, "web-0-pod", "zone-a"), (Source::default(), "", "")] {
        let snapshot = set::<SliceObject<'_>>(&source, &[SLICE]);
        let entry = snapshot.service(key("n", "web").as_wire()).unwrap();
        let [slice] = &*entry.slices else { panic!("{entry:?}") };
        let found: Vec<_> =
            slice.endpoints().map(|e| (e.address.to_string(), e.hostname, e.pod, e.zone)).collect();
        assert_eq!(
            found,
            [
                ("10.1.0.1".to_owned(), "web-0", pod, zone),
                ("10.1.0.3".to_owned(), "", "", ""),
                ("10.1.0.4".to_owned(), "", "", ""),
            ]
        );
        let ports: Vec<_> = slice.ports().iter().map(|port| port.number).collect();
        assert_eq!(ports, [Some(8080), None]);
    }
    // As the server writes a slice without endpoints.
    let empty = r#"{"metadata":{"name":"web-y","namespace":"n",
        "labels":{"kubernetes.io/service-name":"web"}},"endpoints":null,"ports":null}"#;
    let snapshot = set::<SliceObject<'_>>(&Source::default(), &[empty]);
    assert_eq!(snapshot.service(key("n", "web").as_wire()).unwrap().slices.len(), 1);
}

#[test]
fn a_slice_of_a_service_import_says_its_cluster() {
    let text = r#"{"metadata":{"name":"web-c2","namespace":"n","labels":{
        "multicluster.kubernetes.io/service-name":"web",
        "multicluster.kubernetes.io/source-cluster":"c2"}},
        "endpoints":[{"addresses":["10.2.0.1"]}]}"#;
    let snapshot = set::<ImportSliceObject<'_>>(&Source::default(), &[text]);
    let entry = snapshot.import(key("n", "web").as_wire()).unwrap();
    assert_eq!(entry.slices[0].cluster(), "c2");
    let import = r#"{"metadata":{"name":"web","namespace":"n"},
        "spec":{"type":"ClusterSetIP","ips":["10.9.0.1"],"ports":[{"port":80}]}}"#;
    let snapshot = set::<ImportObject<'_>>(&Source::default(), &[import]);
    let (import, _) = snapshot.imports().next().unwrap();
    assert_eq!((import.cluster_ips.len(), &import.kind), (1, &ServiceKind::ClusterIp));
}

#[test]
fn a_pod_says_where_it_looks_for_names() {
    let of = |spec: &str| {
        let text = format!(
            r#"{{"metadata":{{"name":"p","namespace":"n","labels":{{"app":"x"}}}},
                "spec":{spec},"status":{{"podIPs":[{{"ip":"10.3.0.1"}},{{"ip":"fd00::3"}}]}}}}"#
        );
        let snapshot = set::<PodObject<'_>>(&Source::default(), &[&text]);
        let pods = snapshot.pods_at("fd00::3".parse().unwrap());
        assert_eq!(pods[0].labels.get("app"), Some("x"));
        pods[0].search.clone()
    };
    let base = |spec: &str| of(spec).base;
    assert_eq!(base(r#"{"dnsPolicy":"ClusterFirst"}"#), SearchBase::Cluster);
    assert_eq!(base(r#"{"dnsPolicy":"ClusterFirst","hostNetwork":true}"#), SearchBase::Node);
    let policy = r#"{"dnsPolicy":"ClusterFirstWithHostNet","hostNetwork":true}"#;
    assert_eq!(base(policy), SearchBase::Cluster);
    assert_eq!(base(r#"{"dnsPolicy":"Default"}"#), SearchBase::Node);
    let own = of(r#"{"dnsPolicy":"None","dnsConfig":{"searches":["a.example","b.example."]}}"#);
    assert_eq!((own.base, own.added.len(), own.ndots), (SearchBase::Nothing, 2, 1));
    let options = r#"[{"name":"edns0"},{"name":"ndots","value":"2"}]"#;
    assert_eq!(of(r#"{"dnsPolicy":"ClusterFirst"}"#).ndots, 5);
    assert_eq!(of(&format!(r#"{{"dnsConfig":{{"options":{options}}}}}"#)).ndots, 2);
    assert_eq!(base(r#"{"os":{"name":"windows"}}"#), SearchBase::Node);
    assert_eq!(base(r#"{"nodeSelector":{"kubernetes.io/os":"windows"}}"#), SearchBase::Node);
    assert_eq!(base(r#"{"nodeSelector":{"kubernetes.io/os":"linux"}}"#), SearchBase::Cluster);
}

#[test]
fn a_pod_that_is_about_to_end_stays_as_it_was() {
    let pod = |more: &str| {
        format!(
            r#"{{"metadata":{{"name":"p","namespace":"n"{more}}},"status":{{"podIPs":[{{"ip":"10.3.0.1"}}]}}}}"#
        )
    };
    let (living, ending) = (pod(""), pod(r#","deletionTimestamp":"2026-01-01T00:00:00Z""#));
    let at = "10.3.0.1".parse().unwrap();
    let source = Source::default();
    assert_eq!(set::<PodObject<'_>>(&source, &[&living, &ending]).pods_at(at).len(), 1);
    assert_eq!(set::<PodObject<'_>>(&source, &[&ending]).pods_at(at).len(), 0);
    let mut editor = Editor::default();
    let set = |editor: &mut Editor, text: &str| {
        serde_json::from_str::<PodObject<'_>>(text).unwrap().set(editor, &source).unwrap();
    };
    set(&mut editor, &living);
    editor.begin_list(Kind::Pods);
    set(&mut editor, &ending);
    assert_eq!(editor.end_list(Kind::Pods), 0);
    assert_eq!(editor.snapshot(2).pods_at(at).len(), 1);
}

#[test]
fn addresses_are_read_as_go_reads_them() {
    let read = |text: &str| address("a", text).map(|found| found.to_string()).ok();
    assert_eq!(read("010.001.0.1").as_deref(), Some("10.1.0.1"));
    assert_eq!(read("::ffff:10.0.0.1").as_deref(), Some("10.0.0.1"));
    assert_eq!(read("2001:DB8::0:1").as_deref(), Some("2001:db8::1"));
    for wrong in ["", "host.example", "10.0.0", "10.0.0.256", "10.0.0.1.2", "fe80::1%eth0"] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}
