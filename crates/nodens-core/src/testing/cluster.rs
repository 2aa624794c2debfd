//! Clusters from text, for tests. A line is an object:
//!
//! ```text
//! namespace shop
//! service shop/web 10.0.0.1,fd00::1 http:tcp:80 external=192.0.2.1
//! headless shop/db :tcp:3306
//! alias shop/out www.example.org
//! slice shop/db/1 :tcp:3306 -- 10.1.0.1=db-0 10.1.0.2~pod-name@eu-1a
//! import shop/web 10.2.0.1 http:tcp:80
//! import shop/db headless
//! importslice shop/db/1 cluster=east :tcp:3306 -- 10.1.0.1
//! pod shop/web-1 10.1.0.9 app=web policy:None search:a.test,b.test ndots:2
//! ```
//!
//! A port is `NAME:PROTOCOL:NUMBER`, an endpoint `ADDRESS=HOSTNAME~POD@ZONE` of which only the
//! address is needed. A pod may have labels, a `dnsPolicy` and a `dnsConfig`.

use crate::cluster::{
    Editor, External, Key, Kind, NewEndpoint, Pod, PodLabels, Port, Search, SearchBase, Service,
    ServiceKind, Slice, Snapshot,
};
use std::net::IpAddr;

/// The cluster that `text` describes, as published at `serial`.
///
/// # Panics
/// If the text is not a description.
pub fn cluster(text: &str, serial: u64) -> Snapshot {
    let mut editor = Editor::default();
    text.lines().for_each(|line| apply(&mut editor, line));
    editor.snapshot(serial)
}

/// The names in the cluster that `text` describes, as whoever watches names alone knows them at
/// `now_unix_s` after it knew `before`.
///
/// # Panics
/// If the text is not a description.
pub fn names(before: &Snapshot, text: &str, now_unix_s: u64) -> Snapshot {
    let whole = cluster(text, now_unix_s);
    let mut editor = Editor::from(before.clone());
    let kinds = [Kind::Namespaces, Kind::Services, Kind::ApiService, Kind::SystemServices];
    for kind in kinds {
        editor.begin_list(kind);
    }
    for line in text.lines() {
        if let Some(name) = line.trim().strip_prefix("namespace ") {
            editor.set_namespace(&key_of_namespace(name.trim()));
        }
    }
    for (service, _) in whole.services() {
        let key = &service.key;
        editor.set_name(key);
        let is_api = (key.name(), key.namespace()) == (b"kubernetes", b"default");
        if is_api || key.namespace() == b"kube-system" {
            editor.set_witness(key, &service.cluster_ips);
        }
    }
    for kind in kinds {
        editor.end_list(kind);
    }
    editor.snapshot(now_unix_s)
}

/// Applies one line.
///
/// # Panics
/// If the line is not one.
pub fn apply(editor: &mut Editor, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        [] => {}
        ["namespace", name] => editor.set_namespace(&key_of_namespace(name)),
        ["service", name, ips, rest @ ..] => {
            let service = service(editor, name, ServiceKind::ClusterIp, ips, rest);
            editor.set_service(service);
        }
        ["headless", name, rest @ ..] => {
            let service = service(editor, name, ServiceKind::Headless, "", rest);
            editor.set_service(service);
        }
        ["alias", name, target] => {
            let kind = ServiceKind::ExternalName((*target).into());
            let service = service(editor, name, kind, "", &[]);
            editor.set_service(service);
        }
        ["import", name, "headless", rest @ ..] => {
            let import = service(editor, name, ServiceKind::Headless, "", rest);
            editor.set_import(import);
        }
        ["import", name, ips, rest @ ..] => {
            let import = service(editor, name, ServiceKind::ClusterIp, ips, rest);
            editor.set_import(import);
        }
        ["slice", name, rest @ ..] => {
            let slice = slice(editor, name, rest);
            editor.set_slice(slice);
        }
        ["importslice", name, rest @ ..] => {
            let slice = slice(editor, name, rest);
            editor.set_import_slice(slice);
        }
        ["pod", name, ips, rest @ ..] => {
            let (namespace, name) = name.split_once('/').expect("NAMESPACE/NAME");
            let labels = rest.iter().filter_map(|word| word.split_once('='));
            editor.set_pod(Pod {
                namespace: namespace.into(),
                name: name.into(),
                ips: addresses(ips).into(),
                labels: PodLabels::new(labels),
                search: search(rest),
            });
        }
        _ => panic!("no object: {line}"),
    }
}

fn search(words: &[&str]) -> Search {
    let value = |key| words.iter().find_map(|word| word.strip_prefix(key));
    let base = match value("policy:") {
        None => SearchBase::Cluster,
        Some("Default") => SearchBase::Node,
        Some("None") => SearchBase::Nothing,
        Some(other) => panic!("no policy: {other}"),
    };
    let added = value("search:").into_iter().flat_map(|list| list.split(','));
    let added = added.map(|domain| domain.parse().expect("a domain")).collect();
    let ndots = value("ndots:").map(|ndots| ndots.parse().expect("a number"));
    Search { base, added, ndots: ndots.unwrap_or(base.ndots()) }
}

fn key_of_namespace(name: &str) -> Key {
    Key::of_namespace(name).expect("a namespace")
}

fn key(name: &str) -> Key {
    let (namespace, name) = name.split_once('/').expect("NAMESPACE/NAME");
    Key::new(namespace, name).expect("a name")
}

fn addresses(text: &str) -> Vec<IpAddr> {
    let all = text.split(',').filter(|text| !text.is_empty());
    all.map(|text| text.parse().expect("an address")).collect()
}

fn port(text: &str) -> Port {
    let parts: Vec<&str> = text.split(':').collect();
    let [name, protocol, number] = parts[..] else { panic!("no port: {text}") };
    let protocol = crate::cluster::Protocol::parse(protocol).expect("a protocol");
    Port { name: name.into(), protocol, number: number.parse().ok() }
}

fn service(
    editor: &mut Editor,
    name: &str,
    kind: ServiceKind,
    ips: &str,
    rest: &[&str],
) -> Service {
    let external = rest.iter().filter_map(|word| word.strip_prefix("external="));
    let external = external.map(|place| match place.parse() {
        Ok(address) => External::Address(address),
        Err(_) => External::Host(place.into()),
    });
    let ports = rest.iter().filter(|word| !word.contains('=')).map(|text| port(text)).collect();
    Service {
        key: key(name),
        kind,
        cluster_ips: addresses(ips).into(),
        ports: editor.ports(ports),
        external: external.collect(),
    }
}

fn slice(editor: &mut Editor, name: &str, rest: &[&str]) -> Slice {
    let (service, name) = name.rsplit_once('/').expect("NAMESPACE/SERVICE/SLICE");
    let key = key(service);
    // Names of slices are unique within a namespace.
    let name = format!("{}-{name}", key.name().escape_ascii());
    let id = editor.slice_id(key, &name);
    let cluster = rest.iter().find_map(|word| word.strip_prefix("cluster=")).unwrap_or_default();
    let at = rest.iter().position(|word| *word == "--").unwrap_or(rest.len());
    let (ports, endpoints) = rest.split_at(at);
    let ports = ports.iter().filter(|word| !word.contains('=')).map(|text| port(text)).collect();
    let ports = editor.ports(ports);
    Slice::new(id, cluster, ports, endpoints.iter().skip(1).map(|text| endpoint(text)))
}

fn endpoint(text: &str) -> NewEndpoint<'_> {
    let (text, zone) = text.split_once('@').unwrap_or((text, ""));
    let (text, pod) = text.split_once('~').unwrap_or((text, ""));
    let (address, hostname) = text.split_once('=').unwrap_or((text, ""));
    NewEndpoint { address: address.parse().expect("an address"), hostname, pod, zone }
}
