//! `whoami`: tells the client its own address, port and transport.

use crate::config::BlockBuilder;
use crate::handler::{Cx, Handle, Spec, Step};
use nodens_corefile::{Directive, Error};
use nodens_wire::{Name, NameRef, Rcode, Section, Type};
use std::net::IpAddr;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec::new("whoami", setup);

/// The directive at work.
#[derive(Debug)]
pub struct Whoami;

/// Reads `whoami`, which takes no arguments.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    directive.expect_args::<0>()?;
    directive.expect_no_body()?;
    block.push(Whoami);
    Ok(())
}

impl Handle for Whoami {
    /// Any question gets an empty answer section; the facts are in the additional section.
    fn answer(&self, cx: &mut Cx<'_>) -> Step {
        let peer = cx.job.client().peer;
        let label = cx.job.client().transport.service_label();
        let q = cx.q();
        let qname = q.qname.clone();
        let service = Name::parse(label).and_then(|label| label.join(qname.view()));
        let qclass = q.qclass;
        let mut builder = q.reply(Rcode::NOERROR, true);
        let (rtype, address) = match peer.ip().to_canonical() {
            IpAddr::V4(ip) => (Type::A, ip.octets().to_vec()),
            IpAddr::V6(ip) => (Type::AAAA, ip.octets().to_vec()),
        };
        let section = Section::Additional;
        let mut fits = builder.record(section, qname.view(), (rtype, qclass, 0), &address);
        if let Ok(service) = service {
            let srv = srv_rdata(peer.port());
            fits = fits
                .and_then(|()| builder.record(section, service.view(), (Type::SRV, qclass, 0), &srv));
        }
        debug_assert!(fits.is_ok(), "two records fit any message");
        Step::Answered
    }
}

/// Priority 0, weight 0, the port, and the root as target (RFC 2782).
fn srv_rdata(port: u16) -> Vec<u8> {
    let mut rdata = vec![0; 4];
    rdata.extend(port.to_be_bytes());
    rdata.extend(NameRef::root().as_wire());
    rdata
}
