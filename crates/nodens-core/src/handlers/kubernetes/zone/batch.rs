//! Records that are about to be handed on.

use crate::cluster::Port;
use crate::lookup::compose::Octets;
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Class, Record, Type};
use std::net::IpAddr;

/// Records of a few names.
#[derive(Default)]
pub(crate) struct Batch {
    pub(super) records: Vec<Record>,
}

impl Batch {
    /// Adds a record, unless its name is too long to be one.
    pub(crate) fn push(&mut self, owner: &Octets<NAME_LEN_MAX>, (rtype, ttl): (Type, u32), rdata: &[u8]) {
        let Some(owner) = owner.name() else { return };
        let (owner, class) = (owner.to_name(), Class::IN);
        self.records.push(Record { owner, rtype, class, ttl, rdata: rdata.to_vec() });
    }

    pub(crate) fn address(&mut self, owner: &Octets<NAME_LEN_MAX>, ttl: u32, address: IpAddr) {
        match address.to_canonical() {
            IpAddr::V4(v4) => self.push(owner, (Type::A, ttl), &v4.octets()),
            IpAddr::V6(v6) => self.push(owner, (Type::AAAA, ttl), &v6.octets()),
        }
    }

    /// Adds an SRV record with priority 0, unless its target is too long to be a name.
    pub(super) fn service(
        &mut self,
        owner: &Octets<NAME_LEN_MAX>,
        ttl: u32,
        (weight, port): (u16, u16),
        target: &Octets<NAME_LEN_MAX>,
    ) {
        if !target.as_slice().is_empty() {
            let numbers = [[0, 0], weight.to_be_bytes(), port.to_be_bytes()].concat();
            let rdata = [&numbers, target.as_slice()].concat();
            self.push(owner, (Type::SRV, ttl), &rdata);
        }
    }
}

/// Whether no port before this one has its number: SRV records that name no port tell ports apart
/// by nothing else.
pub(super) fn is_first(ports: &[Port], index: usize, number: u16) -> bool {
    !ports.iter().take(index).any(|port| port.number == Some(number))
}

/// `_NAME._PROTOCOL`, in wire form and in lower case.
pub(super) fn port_labels(port: &Port) -> Octets<NAME_LEN_MAX> {
    let mut labels = Octets::new();
    for text in [&*port.name, port.protocol.label()] {
        labels.push_text(format!("_{text}").to_ascii_lowercase().as_bytes());
    }
    labels
}
