//! Endpoint slices. A cluster has ten times as many endpoints as services, so an endpoint takes
//! little: an address and the places of its names in a text that the slice has in one piece.

use super::{Key, Port};
use std::net::IpAddr;
use std::sync::Arc;

/// Which slice it is; stays the same when the slice's content changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SliceId {
    /// The service it belongs to.
    pub service: Key,
    /// The slice's own name; unique within the namespace.
    pub name: Box<str>,
}

/// The ready endpoints of an EndpointSlice.
#[derive(Debug)]
pub struct Slice {
    id: Arc<SliceId>,
    cluster: Box<str>,
    ports: Arc<[Port]>,
    zones: Box<[Arc<str>]>,
    endpoints: Box<[Packed]>,
    names: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packed {
    address: IpAddr,
    /// Where its names begin in `Slice::names`.
    start: u32,
    /// Length of the host name, the first of them.
    hostname: u8,
    /// Length of the pod's name, the second.
    pod: u8,
    /// One more than its place in `Slice::zones`; 0 if it has no zone.
    zone: u8,
}

/// An endpoint to be put into a slice.
#[derive(Clone, Copy, Debug)]
pub struct NewEndpoint<'e> {
    /// Its address.
    pub address: IpAddr,
    /// Its host name; empty if it has none.
    pub hostname: &'e str,
    /// The name of its pod; empty if it has none or nobody asks for it.
    pub pod: &'e str,
    /// Its topology zone in lower case; empty if it has none or nobody asks for it.
    pub zone: &'e str,
}

/// An endpoint of a slice.
pub type Endpoint<'s> = NewEndpoint<'s>;

impl Slice {
    /// A slice with these endpoints.
    ///
    /// Names longer than a label are left out. Of more than 255 zones, which no cluster has, the
    /// others are left out.
    pub fn new<'e>(
        id: Arc<SliceId>,
        cluster: &str,
        ports: Arc<[Port]>,
        endpoints: impl IntoIterator<Item = NewEndpoint<'e>>,
    ) -> Self {
        let (mut packed, mut names, mut zones) = (Vec::new(), String::new(), Vec::new());
        for endpoint in endpoints {
            let start = u32::try_from(names.len()).unwrap_or(u32::MAX);
            let hostname = push(endpoint.hostname, &mut names);
            let pod = push(endpoint.pod, &mut names);
            let zone = place(endpoint.zone, &mut zones);
            packed.push(Packed { address: endpoint.address, start, hostname, pod, zone });
        }
        Self {
            id,
            cluster: cluster.into(),
            ports,
            zones: zones.into(),
            endpoints: packed.into(),
            names: names.into(),
        }
    }

    /// Which slice it is.
    pub fn id(&self) -> &Arc<SliceId> {
        &self.id
    }

    /// The cluster it comes from, for slices of service imports; empty for all others.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The ports of every endpoint.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// How many endpoints there are.
    pub fn len(&self) -> usize {
        self.endpoints.len()
    }

    /// Whether there is no endpoint.
    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty()
    }

    /// The endpoints, in the order of the object.
    pub fn endpoints(&self) -> impl ExactSizeIterator<Item = Endpoint<'_>> + Clone {
        self.endpoints.iter().map(|packed| self.unpack(*packed))
    }

    /// The endpoint at this place.
    pub fn endpoint(&self, index: usize) -> Option<Endpoint<'_>> {
        self.endpoints.get(index).map(|packed| self.unpack(*packed))
    }

    fn unpack(&self, packed: Packed) -> Endpoint<'_> {
        let start = packed.start as usize;
        let middle = start + usize::from(packed.hostname);
        let end = middle + usize::from(packed.pod);
        let zone = usize::from(packed.zone).checked_sub(1).and_then(|at| self.zones.get(at));
        Endpoint {
            address: packed.address,
            hostname: self.names.get(start..middle).unwrap_or_default(),
            pod: self.names.get(middle..end).unwrap_or_default(),
            zone: zone.map_or("", |zone| zone),
        }
    }

    /// Whether questions are answered the same from both.
    pub(super) fn says_the_same_as(&self, other: &Self) -> bool {
        self.cluster == other.cluster
            && self.ports == other.ports
            && self.zones == other.zones
            && self.endpoints == other.endpoints
            && self.names == other.names
    }
}

fn push(name: &str, names: &mut String) -> u8 {
    match u8::try_from(name.len()) {
        Ok(len) if len < 64 => {
            names.push_str(name);
            len
        }
        _ => 0,
    }
}

fn place(zone: &str, zones: &mut Vec<Arc<str>>) -> u8 {
    if zone.is_empty() {
        return 0;
    }
    let known = zones.iter().position(|known| **known == *zone);
    let at = known.unwrap_or_else(|| {
        zones.push(zone.into());
        zones.len() - 1
    });
    u8::try_from(at + 1).unwrap_or(0)
}

/// A cluster may have hundreds of thousands of them.
const _: () = assert!(size_of::<Packed>() <= 28);
