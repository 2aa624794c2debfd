//! The name servers of a zone: the services whose endpoint this server is.

use super::Rules;
use super::compose::Octets;
use super::find::View;
use crate::cluster::{External, Service, ServiceKind, Slice, Snapshot};
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Name, NameRef};
use std::collections::HashSet;
use std::net::IpAddr;

/// Which addresses of a service are those of a name server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Those in the cluster.
    Inside,
    /// Those outside; with `true` the endpoints of headless services too.
    Outside(bool),
}

impl Rules {
    /// Names and addresses of the name servers of `zone`. Without a service they are `ns.dns` and
    /// this host's own addresses.
    pub(crate) fn name_servers(
        &self,
        snapshot: &Snapshot,
        side: Side,
        zone: NameRef<'_>,
    ) -> Vec<(Name, IpAddr)> {
        let mut servers = Servers::default();
        let mut is_endpoint = false;
        for local in &self.local {
            for slice in snapshot.slices_at(*local) {
                is_endpoint = true;
                let key = slice.id().service.as_wire();
                let service = snapshot.service(key).and_then(|entry| entry.service.as_deref());
                if let Some(service) = service {
                    self.add_servers(service, slice, side, zone, &mut servers);
                }
            }
        }
        if !is_endpoint {
            let mut name = Octets::<NAME_LEN_MAX>::new();
            name.push(b"\x02ns\x03dns");
            name.push(zone.as_wire());
            self.local.iter().for_each(|local| servers.add(&name, *local));
        }
        servers.list
    }

    fn add_servers(
        &self,
        service: &Service,
        slice: &Slice,
        side: Side,
        zone: NameRef<'_>,
        servers: &mut Servers,
    ) {
        let mut name = Octets::<NAME_LEN_MAX>::new();
        let finish = |name: &mut Octets<NAME_LEN_MAX>| {
            name.push(service.key.as_wire());
            if side == Side::Inside {
                name.push(b"\x03svc");
            }
            name.push(zone.as_wire());
        };
        if service.kind == ServiceKind::Headless && side != Side::Outside(false) {
            for endpoint in slice.endpoints() {
                name.clear();
                self.push_endpoint(slice, &endpoint, &mut name);
                finish(&mut name);
                servers.add(&name, endpoint.address);
            }
            return;
        }
        finish(&mut name);
        match side {
            Side::Inside => service.cluster_ips.iter().for_each(|ip| servers.add(&name, *ip)),
            Side::Outside(_) => {
                for place in &service.external {
                    if let External::Address(address) = place {
                        servers.add(&name, *address);
                    }
                }
            }
        }
    }
}

/// Name servers, each once. A host is an endpoint of many services, some of which have thousands.
#[derive(Default)]
struct Servers {
    list: Vec<(Name, IpAddr)>,
    known: HashSet<(Name, IpAddr)>,
}

impl Servers {
    /// Adds a server unless it is there already: a service has a slice for each address family.
    fn add(&mut self, name: &Octets<NAME_LEN_MAX>, address: IpAddr) {
        let Some(name) = name.name() else { return };
        let server = (name.to_name(), address.to_canonical());
        if self.known.insert(server.clone()) {
            self.list.push(server);
        }
    }
}

impl View<'_> {
    /// The name servers of `zone` inside the cluster.
    pub(crate) fn name_servers(self, zone: NameRef<'_>) -> Vec<(Name, IpAddr)> {
        self.rules.name_servers(self.snapshot, Side::Inside, zone)
    }
}
