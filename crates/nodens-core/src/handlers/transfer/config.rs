//! `transfer [ZONE…] { to ADDRESS…; source ADDRESS }`.

use super::{Rule, Rules, Transfer};
use crate::authority::metrics;
use crate::config::BlockBuilder;
use crate::handlers::Handler;
use crate::zones::Zones;
use nodens_corefile::{Directive, Error, Token, take};
use nodens_zone::{NotifyService, Secondaries};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The port of DNS.
const PORT: u16 = 53;

/// Reads the directive; a repeated one adds a rule behind the earlier ones.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let zones = Zones::of(directive.args(), &block.zones)?;
    let (mut anyone, mut to) = (false, Secondaries::default());
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "to" => {
                for arg in line.expect_args_from(1)? {
                    match arg.text.as_str() {
                        "*" => anyone = true,
                        _ => to.servers.push(address(arg)?),
                    }
                }
            }
            "source" => {
                let [arg] = line.expect_args::<1>()?;
                if to.from.replace(take::parse_ip(arg)?).is_some() {
                    return Err(line.invalid("source already specified"));
                }
            }
            _ => return Err(line.unknown_property(&["to", "source"])),
        }
    }
    if to.servers.is_empty() && !anyone {
        return Err(directive.invalid("'to' is required"));
    }
    let rule = Rule { zones, anyone, to: Arc::new(to) };
    if let Some(Handler::Transfer(transfer)) = block.handlers.last_mut() {
        transfer.rules.0.push(rule);
    } else {
        let zones = block.zone_table.clone();
        metrics::of_transfers(block.shared);
        let notified = block.shared.notified.clone();
        block.push(Transfer { rules: Rules(vec![rule], notified), zones });
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

/// Asks for the secondaries to be notified, those of a block at several addresses once.
pub(super) fn link(block: &mut BlockBuilder<'_>) {
    let (zones, notifies) = (block.zone_table.clone(), &mut block.services.notifies);
    let rules = block.handlers.iter().find_map(|handler| match handler {
        Handler::Transfer(transfer) => Some(transfer.rules.clone()),
        _ => None,
    });
    let rules = rules.filter(|Rules(rules, _)| rules.iter().any(Rule::notifies));
    if let Some(rules) = rules.filter(|_| !notifies.iter().any(|s| Arc::ptr_eq(&s.zones, &zones))) {
        notifies.push(NotifyService { zones, rules: Arc::new(rules) });
    }
}
