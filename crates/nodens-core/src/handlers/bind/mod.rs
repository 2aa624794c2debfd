//! `bind`: the addresses a server block listens on.

use crate::config::BlockBuilder;
use crate::handler::{Phase, Spec};
use nodens_corefile::{Directive, Error, Token};
use std::net::IpAddr;

#[cfg(test)]
mod tests;

/// How the directive is read.
pub const SPEC: Spec = Spec { phase: Phase::Place, ..Spec::new("bind", setup) };

/// Reads `bind ADDRESS|INTERFACE… { except ADDRESS|INTERFACE… }`; a repeated one adds to the first.
fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let wanted = addresses(directive, block)?;
    let mut except = Vec::new();
    for property in directive.lines() {
        match property.name.text.as_str() {
            // As in CoreDNS, the last `except` is the one that counts.
            "except" => except = addresses(property, block)?,
            _ => return Err(property.unknown_property(&["except"])),
        }
    }
    let left = wanted.into_iter().filter(|address| !except.contains(address));
    block.settings.bind.extend(left);
    if block.settings.bind.is_empty() {
        // CoreDNS would start without a listener, and nobody would notice.
        return Err(directive.invalid("expected at least one address to be left to listen on"));
    }
    Ok(())
}

/// The addresses that the arguments of `line` name, in their order.
fn addresses(line: &Directive, block: &BlockBuilder<'_>) -> Result<Vec<IpAddr>, Error> {
    if line.args().is_empty() {
        let text = "at least one address or interface name is expected";
        return Err(line.invalid(text));
    }
    let mut found = Vec::new();
    for arg in line.args() {
        match block.options.interfaces.get(&arg.text) {
            Some(addresses) => found.extend(addresses.iter().copied().filter(has_no_scope)),
            None => found.push(address(arg)?),
        }
    }
    Ok(found)
}

fn address(arg: &Token) -> Result<IpAddr, Error> {
    arg.text.parse().map_err(|_| {
        let text = format!("not a valid IP address or interface name: {:?}", arg.text);
        Error::invalid(arg, text)
    })
}

/// A link-local IPv6 address means nothing without its interface, which an address cannot name.
fn has_no_scope(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(v6) => !v6.is_unicast_link_local() && v6.octets()[0] != 0xff,
    }
}
