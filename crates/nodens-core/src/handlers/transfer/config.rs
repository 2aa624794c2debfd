//! `transfer [ZONE…] { to ADDRESS…; source ADDRESS }`.

use super::{Rule, Transfer};
use crate::config::{BlockBuilder, NotifyService};
use crate::handler::Handle;
use crate::handlers::Handler;
use crate::zones::{Source, Zones};
use nodens_corefile::{Directive, Error, Token, take};
use std::net::{IpAddr, SocketAddr};

/// The port of DNS.
const PORT: u16 = 53;

/// Reads the directive; a repeated one adds a rule behind the earlier ones.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let zones = Zones::of(directive.args(), &block.zones)?;
    let mut rule = Rule { zones, anyone: false, to: Vec::new(), source: None };
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "to" => {
                for arg in line.expect_args_from(1)? {
                    match arg.text.as_str() {
                        "*" => rule.anyone = true,
                        _ => rule.to.push(address(arg)?),
                    }
                }
            }
            "source" => {
                let [arg] = line.expect_args::<1>()?;
                if rule.source.replace(take::parse_ip(arg)?).is_some() {
                    return Err(line.invalid("source already specified"));
                }
            }
            _ => return Err(line.unknown_property(&["to", "source"])),
        }
    }
    if rule.to.is_empty() && !rule.anyone {
        return Err(directive.invalid("'to' is required"));
    }
    if let Some(Handler::Transfer(transfer)) = block.handlers.last_mut() {
        transfer.rules.push(rule);
    } else {
        block.push(Transfer { rules: vec![rule], sources: Vec::new() });
    }
    Ok(())
}

/// An IP address, perhaps with a port: `192.0.2.1`, `192.0.2.1:5300`, `[2001:db8::1]:5300`.
fn address(arg: &Token) -> Result<SocketAddr, Error> {
    let text = arg.text.as_str();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let alone = bare.parse().map(|ip: IpAddr| SocketAddr::new(ip, PORT));
    alone.or_else(|_| text.parse()).map_err(|_| {
        Error::expected(arg, "an IP address, with or without a port, or * for everybody")
    })
}

/// Lets `transfer` know what the other directives of the block can hand on, once all are set up.
pub(super) fn link(block: &mut BlockBuilder<'_>) {
    let chain = block.handlers.as_slice();
    let given = block.options.zones.iter().cloned();
    let sources: Vec<Source> =
        chain.iter().flat_map(|handler| handler.zones(chain)).chain(given).collect();
    let find = |handler: &mut Handler| match handler {
        Handler::Transfer(transfer) => {
            transfer.sources.clone_from(&sources);
            Some(notifications(transfer))
        }
        _ => None,
    };
    let notifications = block.handlers.iter_mut().find_map(find).unwrap_or_default();
    for service in notifications {
        // A block that is at several addresses tells everybody once.
        if !block.services.notifies.iter().any(|known| known.tells_the_same_as(&service)) {
            block.services.notifies.push(service);
        }
    }
}

/// Who is told of which zone.
fn notifications(transfer: &Transfer) -> Vec<NotifyService> {
    let service = |(zone, source): &Source| {
        let rule = transfer.rule(zone.view()).filter(|rule| !rule.to.is_empty())?;
        let (zone, version, from) = (zone.to_folded(), source.clone(), rule.source);
        Some(NotifyService { zone, version, servers: rule.to.clone(), from })
    };
    transfer.sources.iter().filter_map(service).collect()
}
