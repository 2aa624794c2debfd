//! Names of addresses.

use crate::lookup::compose::Octets;
use super::Kubernetes;
use crate::lookup::find::View;
use crate::handler::Resolution;
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Class, Rcode, Section, Type};
use std::net::IpAddr;

impl Kubernetes {
    /// Writes PTR records for `address`: the service that has it, else every endpoint that does.
    /// False if nothing in the cluster has the address.
    pub(super) fn answer_reverse(&self, view: View<'_>, q: &mut Resolution, address: IpAddr) -> bool {
        let (rules, snapshot) = (view.rules, view.snapshot);
        let shown = |key: &crate::cluster::Key| {
            let namespace = key.as_wire().get(key.name().len() + 1..).unwrap_or_default();
            rules.exposes(snapshot, namespace)
        };
        let mut services = snapshot.services_at(address).iter();
        let service = services.find(|service| shown(&service.key));
        let slices = || snapshot.slices_at(address).filter(|slice| shown(&slice.id().service));
        if service.is_none() && slices().next().is_none() {
            return false;
        }
        q.response.live = true;
        q.reply_with(Rcode::NOERROR, true, |builder, owner| {
            let mut name = Octets::<NAME_LEN_MAX>::new();
            let mut seen: Vec<Vec<u8>> = Vec::new();
            let mut write = |name: &mut Octets<NAME_LEN_MAX>, key: &[u8]| {
                name.push(key);
                name.push(b"\x03svc");
                name.push(self.primary.as_wire());
                let known = seen.iter().any(|seen| seen == name.as_slice());
                if name.name().is_some() && !known {
                    let fields = (Type::PTR, Class::IN, self.ttl);
                    _ = builder.record(Section::Answer, owner, fields, name.as_slice());
                    seen.push(name.as_slice().to_vec());
                }
                name.clear();
            };
            if let Some(service) = service {
                return write(&mut name, service.key.as_wire());
            }
            for slice in slices() {
                for endpoint in slice.endpoints().filter(|endpoint| endpoint.address == address) {
                    rules.push_endpoint(slice, &endpoint, &mut name);
                    write(&mut name, slice.id().service.as_wire());
                }
            }
        });
        true
    }
}
