//! Changes, one object at a time, and lists that are applied in place.

mod names;
mod slices;
mod witnesses;

use super::intern::Interner;
use super::places::Number;
use super::serials::Changed;
use super::snapshot::{Entries, Entry, Named, entry, forget, refer};
use super::{External, Key, Pod, Port, Service, SliceId, Snapshot};
use nodens_wire::Name;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use witnesses::witness_kind;

/// A kind of object. Each is listed and watched by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Namespaces.
    Namespaces,
    /// Services.
    Services,
    /// EndpointSlices of services.
    Slices,
    /// Pods.
    Pods,
    /// ServiceImports.
    Imports,
    /// EndpointSlices of service imports.
    ImportSlices,
    /// The Service of the API server itself, `default/kubernetes`, with its addresses.
    ApiService,
    /// The Services of the namespace `kube-system`, with their addresses.
    SystemServices,
}

/// What a slice or a pod is called: `namespace/name`.
type ObjectName = Box<str>;

/// A snapshot being changed.
///
/// A list is applied in place between [`Editor::begin_list`] and [`Editor::end_list`]: what was
/// known stays until its successor comes or the list ends without it, and is never held twice.
#[derive(Debug, Default)]
pub struct Editor {
    snapshot: Snapshot,
    slices: HashMap<ObjectName, (Arc<SliceId>, Number)>,
    /// Numbers of slices that are gone, for others.
    free_numbers: Vec<Number>,
    import_slices: HashMap<ObjectName, Arc<SliceId>>,
    pods: HashMap<ObjectName, Arc<Pod>>,
    /// What the lists under way have named so far.
    listed: HashMap<Kind, HashSet<Box<[u8]>>>,
    changed: Changed,
    /// Services of which only the names are known and that are new since the last snapshot.
    new_names: Vec<Key>,
    /// Whether a list of services has been whole once.
    has_services: bool,
    texts: Interner<str>,
    port_lists: Interner<[Port]>,
    searches: Interner<[Name]>,
}

impl Editor {
    /// What is known now, to be published at `now_unix_s` seconds since 1970.
    ///
    /// A serial is the second of the last change, so it grows once a second at most, stays near
    /// that of another server of the same cluster, and is greater than before after a restart.
    /// What changes later in the same second is shown at once, with a serial that is owed until
    /// [`Editor::snapshot`] is called in a later second.
    pub fn snapshot(&mut self, now_unix_s: u64) -> Snapshot {
        self.changed.settle(&mut self.snapshot.serials, now_unix_s);
        self.date_names(now_unix_s);
        self.snapshot.clone()
    }

    /// Whether a change was published with the serial of the one before.
    pub fn owes_serial(&self) -> bool {
        self.changed.any()
    }

    /// A list of `kind` begins, or begins anew.
    pub fn begin_list(&mut self, kind: Kind) {
        self.listed.insert(kind, HashSet::new());
    }

    /// A list of `kind` is whole: objects it did not name are gone. Gives how many.
    pub fn end_list(&mut self, kind: Kind) -> usize {
        let Some(listed) = self.listed.remove(&kind) else { return 0 };
        let gone: Vec<Box<[u8]>> = match kind {
            Kind::Namespaces => keys(self.snapshot.namespaces.keys(), &listed),
            Kind::Services => {
                self.has_services = true;
                let names = self.snapshot.names.keys();
                keys(with_service(&self.snapshot.services).chain(names), &listed)
            }
            Kind::Imports => keys(with_service(&self.snapshot.imports), &listed),
            Kind::Slices => names(self.slices.keys(), &listed),
            Kind::ImportSlices => names(self.import_slices.keys(), &listed),
            Kind::Pods => names(self.pods.keys(), &listed),
            Kind::ApiService | Kind::SystemServices => {
                let of_kind = |key: &&Key| witness_kind(key) == kind;
                keys(self.snapshot.witnesses.keys().filter(of_kind), &listed)
            }
        };
        for object in &gone {
            self.remove(kind, object);
        }
        gone.len()
    }

    fn remove(&mut self, kind: Kind, object: &[u8]) {
        match kind {
            Kind::Namespaces => self.forget_namespace(object),
            Kind::Services => self.forget_service(object),
            Kind::Imports => self.replace_import(object, None),
            Kind::Slices => self.forget_slice(&String::from_utf8_lossy(object)),
            Kind::ImportSlices => self.forget_import_slice(&String::from_utf8_lossy(object)),
            Kind::Pods => self.forget_pod(&String::from_utf8_lossy(object)),
            Kind::ApiService | Kind::SystemServices => _ = self.snapshot.witnesses.remove(object),
        }
    }

    fn note(&mut self, kind: Kind, object: &[u8]) {
        if let Some(listed) = self.listed.get_mut(&kind) {
            listed.insert(object.into());
        }
    }

    /// An object is still there, but nothing new can be said of it: what is known stays.
    /// `namespace` is empty for namespaces.
    pub fn keep(&mut self, kind: Kind, namespace: &str, name: &str) {
        let key = match kind {
            Kind::Namespaces => Key::of_namespace(name),
            Kind::Services | Kind::Imports | Kind::ApiService | Kind::SystemServices => {
                Key::new(namespace, name)
            }
            Kind::Slices | Kind::ImportSlices | Kind::Pods => {
                return self.note(kind, format!("{namespace}/{name}").as_bytes());
            }
        };
        if let Ok(key) = key {
            self.note(kind, key.as_wire());
        }
    }

    /// There is a namespace; `key` is [`Key::of_namespace`].
    pub fn set_namespace(&mut self, key: &Key) {
        self.note(Kind::Namespaces, key.as_wire());
        if self.snapshot.namespaces.insert(key.clone(), ()).is_none() {
            self.changed = Changed { cluster: true, external: true, imports: true };
        }
    }

    /// A namespace is gone.
    pub fn remove_namespace(&mut self, key: &Key) {
        self.forget_namespace(key.as_wire());
    }

    fn forget_namespace(&mut self, key: &[u8]) {
        if self.snapshot.namespaces.remove(key).is_some() {
            self.changed = Changed { cluster: true, external: true, imports: true };
        }
    }

    /// A service is new or has changed.
    pub fn set_service(&mut self, service: Service) {
        self.note(Kind::Services, service.key.as_wire());
        let key = service.key.clone();
        self.replace_service(key.as_wire(), Some(Arc::new(service)));
    }

    /// A service is gone.
    pub fn remove_service(&mut self, key: &Key) {
        self.forget_service(key.as_wire());
    }

    fn replace_service(&mut self, key: &[u8], new: Option<Arc<Service>>) {
        let old = entry(&self.snapshot.services, key).and_then(|entry| entry.service.clone());
        if old == new {
            return;
        }
        let snapshot = &mut self.snapshot;
        if let Some(old) = &old {
            old.cluster_ips.iter().for_each(|ip| forget(&mut snapshot.cluster_ips, *ip, &**old));
            external(old).for_each(|ip| forget(&mut snapshot.external_ips, ip, &**old));
        }
        if let Some(new) = &new {
            new.cluster_ips.iter().for_each(|ip| refer(&mut snapshot.cluster_ips, *ip, new));
            external(new).for_each(|ip| refer(&mut snapshot.external_ips, ip, new));
        }
        self.changed.cluster = true;
        self.changed.external = true;
        change(&mut self.snapshot.services, key, |entry| entry.service = new);
    }

    /// A service import is new or has changed.
    pub fn set_import(&mut self, import: Service) {
        self.note(Kind::Imports, import.key.as_wire());
        let key = import.key.clone();
        self.replace_import(key.as_wire(), Some(Arc::new(import)));
    }

    /// A service import is gone.
    pub fn remove_import(&mut self, key: &Key) {
        self.replace_import(key.as_wire(), None);
    }

    fn replace_import(&mut self, key: &[u8], new: Option<Arc<Service>>) {
        let old = entry(&self.snapshot.imports, key).and_then(|entry| entry.service.as_ref());
        if old != new.as_ref() {
            self.changed.imports = true;
            change(&mut self.snapshot.imports, key, |entry| entry.service = new);
        }
    }

    /// A pod is new or has changed.
    pub fn set_pod(&mut self, pod: Pod) {
        let name: ObjectName = format!("{}/{}", pod.namespace, pod.name).into();
        self.note(Kind::Pods, name.as_bytes());
        if self.pods.get(&name).is_some_and(|known| **known == pod) {
            return;
        }
        self.forget_pod(&name);
        let pod = Arc::new(pod);
        pod.ips.iter().for_each(|ip| refer(&mut self.snapshot.pods, *ip, &pod));
        self.pods.insert(name, pod);
    }

    /// A pod is gone, or about to end.
    pub fn remove_pod(&mut self, namespace: &str, name: &str) {
        self.forget_pod(&format!("{namespace}/{name}"));
    }

    fn forget_pod(&mut self, object: &str) {
        let Some(pod) = self.pods.remove(object) else { return };
        pod.ips.iter().for_each(|ip| forget(&mut self.snapshot.pods, *ip, &*pod));
    }

    /// `text`, kept once however many objects say it.
    pub fn text(&mut self, text: &str) -> Arc<str> {
        self.texts.get(text)
    }

    /// `ports`, kept once however many objects have them.
    pub fn ports(&mut self, ports: Vec<Port>) -> Arc<[Port]> {
        self.port_lists.get(ports)
    }

    /// A search list, kept once however many pods have it.
    pub fn search(&mut self, domains: Vec<Name>) -> Arc<[Name]> {
        self.searches.get(domains)
    }
}

fn external(service: &Service) -> impl Iterator<Item = IpAddr> {
    service.external.iter().filter_map(|place| match place {
        External::Address(address) => Some(*address),
        External::Host(_) => None,
    })
}

/// Changes the entry of `key`; one that says nothing is dropped.
fn change(table: &mut Entries, key: &[u8], with: impl FnOnce(&mut Entry)) {
    let mut changed = match entry(table, key) {
        Some(entry) => Entry::clone(entry),
        None => Entry { key: Key::of_wire(key), service: None, slices: Arc::default() },
    };
    with(&mut changed);
    // Of two equal keys the table keeps the later one.
    match changed.is_empty() {
        true => _ = table.remove(key),
        false => _ = table.insert(Named(Arc::new(changed)), ()),
    }
}

fn with_service(table: &Entries) -> impl Iterator<Item = &Key> {
    let entries = table.keys().filter(|Named(entry)| entry.service.is_some());
    entries.map(|Named(entry)| &entry.key)
}

fn keys<'k>(known: impl Iterator<Item = &'k Key>, listed: &HashSet<Box<[u8]>>) -> Vec<Box<[u8]>> {
    known.map(Key::as_wire).filter(|key| !listed.contains(*key)).map(Into::into).collect()
}

fn names<'n>(
    known: impl Iterator<Item = &'n ObjectName>,
    listed: &HashSet<Box<[u8]>>,
) -> Vec<Box<[u8]>> {
    known
        .map(|name| name.as_bytes())
        .filter(|name| !listed.contains(*name))
        .map(Into::into)
        .collect()
}
