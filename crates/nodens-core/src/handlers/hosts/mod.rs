//! `hosts`: addresses and names from a file in the format of `/etc/hosts`, and from the Corefile.

mod config;
mod source;
mod table;

use crate::handler::{Cx, Handle, Resolution, Spec, Step};
use crate::zones::{Fallthrough, Zones};
use arc_swap::ArcSwap;
use nodens_wire::name::NAME_LEN_MAX;
use nodens_wire::{Class, Rcode, Section, Type};
use std::sync::Arc;
use table::Table;

use config::setup;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("hosts", setup);

/// The directive at work.
#[derive(Debug)]
pub struct Hosts {
    zones: Zones,
    /// The file's entries; replaced whole when the file changes.
    file: Arc<ArcSwap<Table>>,
    /// The entries in the Corefile.
    inline: Arc<Table>,
    /// Seconds.
    ttl: u32,
    fallthrough: Fallthrough,
    /// Types other than A, AAAA and PTR fall through as unknown names do.
    fallthrough_unsupported: bool,
}

/// What one `hosts` of the Corefile has read. A block is compiled for each address it listens on;
/// the entries are read and kept once.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    /// Identifies the block.
    source: usize,
    /// The zones that names were limited to.
    zones: Zones,
    file: Arc<ArcSwap<Table>>,
    inline: Arc<Table>,
}

impl Handle for Hosts {
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let q = cx.q();
        // Reverse zones need not be named.
        if q.qtype != Type::PTR && !self.zones.contains(q.qname.view()) {
            return Step::Next;
        }
        let file = self.file.load();
        let tables = [&**file, &*self.inline];
        match q.qtype {
            Type::PTR => return self.answer_ptr(q, tables),
            Type::A | Type::AAAA => {}
            _ if self.fallthrough_unsupported && self.fallthrough.lets_pass(q.qname.view()) => {
                return Step::Next;
            }
            _ => {}
        }
        let mut buffer = [0; NAME_LEN_MAX];
        let folded = q.qname.view().fold(&mut buffer);
        let v4 = tables.map(|table| table.v4(folded));
        let v6 = tables.map(|table| table.v6(folded));
        if v4.iter().all(|found| found.is_empty()) && v6.iter().all(|found| found.is_empty()) {
            // Without an SOA record there is no proper NXDOMAIN.
            return match self.fallthrough.lets_pass(q.qname.view()) {
                true => Step::Next,
                false => Step::Fail(Rcode::SERVFAIL),
            };
        }
        match q.qtype {
            Type::A => write(q, self.ttl, v4),
            Type::AAAA => write(q, self.ttl, v6),
            _ => write::<[u8; 4]>(q, self.ttl, [&[], &[]]),
        }
        Step::Answered
    }
}

impl Hosts {
    /// An address nobody knows is the next handler's business, whatever `fallthrough` says.
    fn answer_ptr(&self, q: &mut Resolution, tables: [&Table; 2]) -> Step {
        let Some(address) = crate::reverse::address(q.qname.view()) else { return Step::Next };
        let [first, second] = tables.map(|table| table.names(address));
        if first.len() == 0 && second.len() == 0 {
            return Step::Next;
        }
        let fields = (Type::PTR, Class::IN, self.ttl);
        q.reply_with(Rcode::NOERROR, true, |builder, owner| {
            let names = first.clone().chain(second.filter(|name| !first.clone().any(|n| n == *name)));
            for name in names {
                if builder.record(Section::Answer, owner, fields, name).is_err() {
                    break;
                }
            }
        });
        Step::Answered
    }
}

/// Answers with one record per address: those of the file, then those of the Corefile.
fn write<T: AsRef<[u8]> + PartialEq>(q: &mut Resolution, ttl: u32, found: [&[T]; 2]) {
    let fields = (q.qtype, Class::IN, ttl);
    let [first, second] = found;
    q.reply_with(Rcode::NOERROR, true, |builder, owner| {
        let addresses = first.iter().chain(second.iter().filter(|ip| !first.contains(ip)));
        for address in addresses {
            // More than a message holds is left out; over UDP it is cut long before.
            if builder.record(Section::Answer, owner, fields, address.as_ref()).is_err() {
                break;
            }
        }
    });
}
