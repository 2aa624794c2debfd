//! Endpoint slices, of services and of service imports.

use super::{Editor, Kind, ObjectName, change};
use crate::cluster::places::Number;
use crate::cluster::snapshot::{Entries, entry};
use crate::cluster::{Key, Slice, SliceId};
use std::net::IpAddr;
use std::sync::Arc;

impl Editor {
    /// The identity of the slice `name` of `service`; the one that is known if there is one.
    pub fn slice_id(&self, service: Key, name: &str) -> Arc<SliceId> {
        let id = SliceId { service, name: name.into() };
        let object = slice_name(&id);
        let of_service = self.slices.get(&object).map(|(known, _)| known);
        let known = of_service.into_iter().chain(self.import_slices.get(&object));
        let known = known.into_iter().find(|known| ***known == id).cloned();
        known.unwrap_or_else(|| Arc::new(id))
    }

    /// A slice of a service is new or has changed; gives whether it says something else than before.
    pub fn set_slice(&mut self, slice: Slice) -> bool {
        let (id, name) = (slice.id().clone(), slice_name(slice.id()));
        self.note(Kind::Slices, name.as_bytes());
        let known = self.slices.get(&name).map(|(known, number)| (*known == id, *number));
        let number = match known {
            Some((true, number)) => number,
            Some((false, _)) => {
                self.forget_slice(&name);
                self.number_slice(name, &id)
            }
            None => self.number_slice(name, &id),
        };
        self.replace_slice(&id, number, Some(slice))
    }

    /// Gives a new slice a number.
    fn number_slice(&mut self, name: ObjectName, id: &Arc<SliceId>) -> Number {
        // Numbers in use and free ones are as many as there ever were slices at once.
        let next = self.slices.len() as Number;
        let number = self.free_numbers.pop().unwrap_or(next);
        self.slices.insert(name, (id.clone(), number));
        self.snapshot.slices.insert(number, id.clone());
        number
    }

    /// A slice is gone.
    pub fn remove_slice(&mut self, namespace: &str, name: &str) {
        self.forget_slice(&format!("{namespace}/{name}"));
    }

    pub(super) fn forget_slice(&mut self, object: &str) {
        if let Some((id, number)) = self.slices.remove(object) {
            self.replace_slice(&id, number, None);
            self.snapshot.slices.remove(&number);
            self.free_numbers.push(number);
        }
    }

    fn replace_slice(&mut self, id: &Arc<SliceId>, number: Number, new: Option<Slice>) -> bool {
        let old = slice_of(&self.snapshot.services, id);
        let same = match (&old, &new) {
            (None, None) => true,
            (Some(old), Some(new)) => old.says_the_same_as(new),
            _ => false,
        };
        if same {
            return false;
        }
        let (before, after) = (addresses(old.as_deref()), addresses(new.as_ref()));
        let places = &mut self.snapshot.endpoint_ips;
        missing(&before, &after).for_each(|ip| places.remove(ip, number));
        missing(&after, &before).for_each(|ip| places.add(ip, number));
        self.changed.cluster = true;
        self.changed.external = true;
        put_slice(&mut self.snapshot.services, id, new);
        true
    }

    /// A slice of a service import is new or has changed.
    pub fn set_import_slice(&mut self, slice: Slice) {
        let name = slice_name(slice.id());
        self.note(Kind::ImportSlices, name.as_bytes());
        let known = self.import_slices.insert(name, slice.id().clone());
        if let Some(moved) = known.filter(|known| known != slice.id()) {
            put_slice(&mut self.snapshot.imports, &moved, None);
        }
        let old = slice_of(&self.snapshot.imports, slice.id());
        if old.is_none_or(|old| !old.says_the_same_as(&slice)) {
            self.changed.imports = true;
            let id = slice.id().clone();
            put_slice(&mut self.snapshot.imports, &id, Some(slice));
        }
    }

    /// A slice of a service import is gone.
    pub fn remove_import_slice(&mut self, namespace: &str, name: &str) {
        self.forget_import_slice(&format!("{namespace}/{name}"));
    }

    pub(super) fn forget_import_slice(&mut self, object: &str) {
        if let Some(id) = self.import_slices.remove(object) {
            self.changed.imports = true;
            put_slice(&mut self.snapshot.imports, &id, None);
        }
    }
}

fn slice_name(id: &SliceId) -> ObjectName {
    format!("{}/{}", String::from_utf8_lossy(id.service.namespace()), id.name).into()
}

/// The addresses of a slice, in ascending order.
fn addresses(slice: Option<&Slice>) -> Vec<IpAddr> {
    let endpoints = slice.into_iter().flat_map(Slice::endpoints);
    let mut addresses: Vec<IpAddr> = endpoints.map(|endpoint| endpoint.address).collect();
    addresses.sort_unstable();
    addresses
}

/// Those of `some` that are not among `others`, which are in ascending order.
fn missing<'a>(some: &'a [IpAddr], others: &'a [IpAddr]) -> impl Iterator<Item = IpAddr> + 'a {
    some.iter().copied().filter(|address| others.binary_search(address).is_err())
}

fn slice_of(table: &Entries, id: &SliceId) -> Option<Arc<Slice>> {
    let entry = entry(table, id.service.as_wire())?;
    entry.slices.iter().find(|slice| slice.id().name == id.name).cloned()
}

/// Puts `new` in the place of the slice `id`, which keeps its place among its sisters.
fn put_slice(table: &mut Entries, id: &SliceId, new: Option<Slice>) {
    let mut new = new.map(Arc::new);
    change(table, id.service.as_wire(), |entry| {
        let mut slices = Vec::with_capacity(entry.slices.len() + 1);
        for slice in &*entry.slices {
            match slice.id().name == id.name {
                true => slices.extend(new.take()),
                false => slices.push(slice.clone()),
            }
        }
        slices.extend(new.take());
        entry.slices = slices.into();
    });
}
