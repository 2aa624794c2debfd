//! What is known of a cluster at one moment.

use super::places::{Number, Places};
use super::serials::Serials;
use super::{Key, Pod, Service, Slice, SliceId};
use foldhash::fast::RandomState;
use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

/// Addresses at the begin of a cluster's network for Services that are meant to be chosen by hand,
/// at most (KEP-3070).
const STATIC_ADDRESSES: u128 = 256;

/// A table of which a changed copy shares what did not change.
pub(super) type Table<K, V> =
    imbl::GenericHashMap<K, V, RandomState, imbl::shared_ptr::DefaultSharedPtr>;

/// A cluster at one moment. A clone is cheap and shares everything.
#[derive(Clone, Default)]
pub struct Snapshot {
    pub(super) namespaces: Table<Key, ()>,
    pub(super) services: Entries,
    pub(super) names: Table<Key, u64>,
    /// See [`Snapshot::api_addresses`] and [`Snapshot::witnesses`].
    pub(super) witnesses: Table<Key, Arc<[IpAddr]>>,
    /// When names were known for the first time, in seconds since 1970.
    pub(super) names_since: u64,
    pub(super) imports: Entries,
    pub(super) cluster_ips: Table<IpAddr, Refs<Service>>,
    pub(super) external_ips: Table<IpAddr, Refs<Service>>,
    pub(super) endpoint_ips: Places,
    /// Slices of services by the numbers that `endpoint_ips` knows them by.
    pub(super) slices: Table<Number, Arc<SliceId>>,
    pub(super) pods: Table<IpAddr, Refs<Pod>>,
    pub(super) serials: Serials,
}

/// What is known of one name. The service and its endpoints come from the API server each in its
/// own time: either may be missing.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name.
    pub(super) key: Key,
    /// The service.
    pub service: Option<Arc<Service>>,
    /// The slices of its endpoints.
    pub slices: Arc<[Arc<Slice>]>,
}

/// What is known of names of services. A node is copied with every change near it: what it has of
/// a name is one pointer.
pub(super) type Entries = Table<Named, ()>;

/// An entry that is found by its name.
#[derive(Clone, Debug)]
pub(super) struct Named(pub(super) Arc<Entry>);

impl Borrow<[u8]> for Named {
    fn borrow(&self) -> &[u8] {
        self.0.key.as_wire()
    }
}

impl Hash for Named {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.as_wire().hash(state);
    }
}

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for Named {}

/// What is known of the name `key`.
pub(super) fn entry<'t>(table: &'t Entries, key: &[u8]) -> Option<&'t Arc<Entry>> {
    table.get_key_value(key).map(|(named, ())| &named.0)
}

impl Entry {
    pub(super) fn is_empty(&self) -> bool {
        self.service.is_none() && self.slices.is_empty()
    }
}

/// The few objects that share an address.
#[derive(Debug)]
pub(super) enum Refs<T> {
    One(Arc<T>),
    Many(Arc<Vec<Arc<T>>>),
}

impl<T> Clone for Refs<T> {
    fn clone(&self) -> Self {
        match self {
            Self::One(one) => Self::One(one.clone()),
            Self::Many(many) => Self::Many(many.clone()),
        }
    }
}

impl<T> Refs<T> {
    pub(super) fn as_slice(&self) -> &[Arc<T>] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }

    fn of(list: Vec<Arc<T>>) -> Option<Self> {
        match <[Arc<T>; 1]>::try_from(list) {
            Ok([one]) => Some(Self::One(one)),
            Err(list) if list.is_empty() => None,
            Err(list) => Some(Self::Many(Arc::new(list))),
        }
    }
}

/// Adds `value` to what is at `address`.
pub(super) fn refer<T: PartialEq>(
    table: &mut Table<IpAddr, Refs<T>>,
    address: IpAddr,
    value: &Arc<T>,
) {
    let mut list = table.get(&address).map_or_else(Vec::new, |refs| refs.as_slice().to_vec());
    if list.iter().any(|known| **known == **value) {
        return;
    }
    list.push(value.clone());
    if let Some(refs) = Refs::of(list) {
        table.insert(address, refs);
    }
}

/// Takes `value` away from what is at `address`.
pub(super) fn forget<T: PartialEq>(table: &mut Table<IpAddr, Refs<T>>, address: IpAddr, value: &T) {
    let Some(refs) = table.get(&address) else { return };
    let mut list = refs.as_slice().to_vec();
    list.retain(|known| **known != *value);
    match Refs::of(list) {
        Some(refs) => _ = table.insert(address, refs),
        None => _ = table.remove(&address),
    }
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

fn at<T>(table: &Table<IpAddr, Refs<T>>, address: IpAddr) -> &[Arc<T>] {
    table.get(&address).map_or(&[], Refs::as_slice)
}

impl Snapshot {
    /// The key of the API server's own Service.
    pub const API_SERVICE: &[u8] = b"\x0akubernetes\x07default";

    /// Whether there is a namespace; `key` is its label in wire form, folded: `\x07default`.
    pub fn has_namespace(&self, key: &[u8]) -> bool {
        self.namespaces.contains_key(key)
    }

    /// What is known of a service; `key` is the labels of its name and namespace in wire form,
    /// folded: `\x03api\x07default`.
    pub fn service(&self, key: &[u8]) -> Option<&Entry> {
        entry(&self.services, key).map(|entry| &**entry)
    }

    /// Where only names are known ([`super::Scope::Names`]): whether there is a service, and since
    /// when that is known, in seconds since 1970. Those that were there at first may have come a
    /// moment before.
    pub fn service_since(&self, key: &[u8]) -> Option<u64> {
        self.names.get(key).map(|since| self.names_since.max(*since))
    }

    /// Where only names are known: the cluster addresses of the API server's own Service,
    /// `default/kubernetes`; none while it is not known.
    pub fn api_addresses(&self) -> &[IpAddr] {
        self.witnesses.get(Self::API_SERVICE).map_or(&[], |ips| ips)
    }

    /// Where only names are known: the Services, with their addresses, by which this cluster can be
    /// told from others. Clusters often have the same network for Services, in which the API server
    /// has the first address and the DNS the tenth; the addresses behind those that are meant to be
    /// chosen by hand are drawn at random.
    pub fn witnesses(&self) -> impl Iterator<Item = (&Key, &[IpAddr])> + Clone {
        let first = self.api_addresses();
        let is_drawn = move |ip: &IpAddr| {
            let first = first.iter().find(|first| first.is_ipv4() == ip.is_ipv4());
            first.is_some_and(|first| number(*ip).abs_diff(number(*first)) >= STATIC_ADDRESSES)
        };
        let drawn =
            self.witnesses.iter().filter(move |(_, ips)| ips.first().is_some_and(&is_drawn));
        drawn.map(|(key, ips)| (key, &**ips))
    }

    /// The cluster addresses of a Service among [`Snapshot::witnesses`], or of the API server's own;
    /// `key` is as in [`Snapshot::service`].
    pub fn witness(&self, key: &[u8]) -> Option<&[IpAddr]> {
        self.witnesses.get(key).map(|ips| &**ips)
    }

    /// How many namespaces there are, and how many services of which only the names are known.
    pub fn names(&self) -> [usize; 2] {
        [self.namespaces.len(), self.names.len()]
    }

    /// What is known of a service import, found as a service is.
    pub fn import(&self, key: &[u8]) -> Option<&Entry> {
        entry(&self.imports, key).map(|entry| &**entry)
    }

    /// The services that have `address` as a cluster address.
    pub fn services_at(&self, address: IpAddr) -> &[Arc<Service>] {
        at(&self.cluster_ips, address)
    }

    /// The services that can be reached at `address` from outside.
    pub fn external_at(&self, address: IpAddr) -> &[Arc<Service>] {
        at(&self.external_ips, address)
    }

    /// The slices with an endpoint at `address`.
    pub fn slices_at(&self, address: IpAddr) -> impl Iterator<Item = &Arc<Slice>> + Clone {
        self.slice_ids_at(address).filter_map(|id| {
            let entry = self.service(id.service.as_wire())?;
            entry.slices.iter().find(|slice| slice.id().name == id.name)
        })
    }

    /// Which slices have an endpoint at `address`.
    pub fn slice_ids_at(&self, address: IpAddr) -> impl Iterator<Item = &Arc<SliceId>> + Clone {
        self.endpoint_ips.at(address).filter_map(|number| self.slices.get(&number))
    }

    /// The pods with `address`: one, or several that share their node's.
    pub fn pods_at(&self, address: IpAddr) -> &[Arc<Pod>] {
        at(&self.pods, address)
    }

    /// All services, in no order, with their slices.
    pub fn services(&self) -> impl Iterator<Item = (&Service, &[Arc<Slice>])> {
        whole(&self.services)
    }

    /// All service imports, in no order, with their slices.
    pub fn imports(&self) -> impl Iterator<Item = (&Service, &[Arc<Slice>])> {
        whole(&self.imports)
    }

    /// What is known of every name of a service, in no order. Holds on to what it has not gone
    /// through yet, and is not disturbed by later changes.
    pub fn each_service(&self) -> impl Iterator<Item = Entry> + Send + use<> {
        each(&self.services)
    }

    /// The same of service imports.
    pub fn each_import(&self) -> impl Iterator<Item = Entry> + Send + use<> {
        each(&self.imports)
    }

    /// Serial of zones with services: seconds since 1970 at the last change, see
    /// [`super::Editor::snapshot`].
    pub fn serial(&self) -> u32 {
        self.serials.cluster
    }

    /// The same of zones that show what can be reached from outside.
    pub fn external_serial(&self) -> u32 {
        self.serials.external
    }

    /// The same of zones with service imports.
    pub fn import_serial(&self) -> u32 {
        self.serials.imports
    }

    /// How many services, addresses of endpoints, and addresses of pods there are.
    pub fn sizes(&self) -> [usize; 3] {
        [self.services.len(), self.endpoint_ips.len(), self.pods.len()]
    }
}

fn whole(table: &Entries) -> impl Iterator<Item = (&Service, &[Arc<Slice>])> {
    table.keys().filter_map(|Named(entry)| Some((&**entry.service.as_ref()?, &*entry.slices)))
}

fn each(table: &Entries) -> impl Iterator<Item = Entry> + Send + use<> {
    table.clone().into_iter().map(|(Named(entry), ())| Entry::clone(&entry))
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [services, endpoints, pods] = self.sizes();
        write!(f, "Snapshot({services} services, {endpoints} endpoints, {pods} pods)")
    }
}
