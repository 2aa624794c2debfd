//! `transfer [ZONE…] { to ADDRESS…; source ADDRESS; encrypted; catalog NAME }`.

use super::{Lists, Rule, Rules, Transfer};
use crate::authority::metrics;
use crate::config::BlockBuilder;
use crate::handlers::Handler;
use crate::zones::Zones;
use nodens_corefile::{Directive, Error, Token, take};
use nodens_wire::Name;
use nodens_zone::catalog::{CatalogService, Produced};
use nodens_zone::{NotifyService, Secondaries};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The port of DNS.
const PORT: u16 = 53;

/// Reads the directive; a repeated one adds a rule behind the earlier ones.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let zones = Zones::of(directive.args(), &block.zones)?;
    let (mut anyone, mut encrypted, mut to) = (false, false, Secondaries::default());
    let mut listed = None;
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
            "encrypted" => {
                let [] = line.expect_args::<0>()?;
                encrypted = true;
            }
            "catalog" => {
                if listed.replace(catalog(line, block)?).is_some() {
                    return Err(line.invalid("catalog already specified"));
                }
            }
            _ => return Err(line.unknown_property(&["to", "source", "encrypted", "catalog"])),
        }
    }
    if to.servers.is_empty() && !anyone {
        return Err(directive.invalid("'to' is required"));
    }
    let rule = Rule { zones, anyone, encrypted, to: Arc::new(to), catalog: listed };
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

/// `catalog NAME`: the catalog is a zone of the server block.
fn catalog(line: &Directive, block: &mut BlockBuilder<'_>) -> Result<Arc<Produced>, Error> {
    let [arg] = line.expect_args::<1>()?;
    let name: Name = arg.text.parse().map_err(|_| Error::expected(arg, "the name of a zone"))?;
    if !block.zones.iter().any(|zone| name.view().is_in_domain(zone.view())) {
        return Err(Error::invalid(arg, "queries for the catalog do not reach this server block"));
    }
    if !Produced::has_room(name.view()) {
        return Err(Error::invalid(arg, "the name is too long for members below it"));
    }
    let (catalog, source) = (block.shared.catalogs.get(name.view()), block.source);
    let is_other = |own: &Owned| Arc::ptr_eq(&own.0, &catalog) && own.1 != source;
    if block.services.kept.all().any(is_other) {
        return Err(Error::invalid(arg, "another server block has this catalog"));
    }
    block.zone_table.update(|update| update.replace(name.view(), catalog.clone()));
    block.catalogs.push(catalog.origin().clone());
    block.services.kept.add(Owned(catalog.clone(), source));
    Ok(catalog)
}

/// A catalog, and the block that has it.
struct Owned(Arc<Produced>, usize);

/// An IP address, perhaps with a port: `192.0.2.1`, `192.0.2.1:5300`, `[2001:db8::1]:5300`.
fn address(arg: &Token) -> Result<SocketAddr, Error> {
    let text = arg.text.as_str();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let alone = bare.parse().map(|ip: IpAddr| SocketAddr::new(ip, PORT));
    alone.or_else(|_| text.parse()).map_err(|_| {
        Error::expected(arg, "an IP address, with or without a port, or * for everybody")
    })
}

/// Asks for catalogs to be kept up to date and for the secondaries to be notified, those of a block at several
/// addresses once.
pub(super) fn link(block: &mut BlockBuilder<'_>) {
    let rules = block.handlers.iter().find_map(|handler| match handler {
        Handler::Transfer(transfer) => Some(transfer.rules.clone()),
        _ => None,
    });
    let catalogs =
        rules.iter().flat_map(|Rules(rules, _)| rules.iter().filter_map(|own| own.catalog.clone()));
    for catalog in catalogs {
        let known = &mut block.services.catalogs;
        if known.iter().any(|own| Arc::ptr_eq(&own.catalog, &catalog)) {
            continue;
        }
        let zones = block.zone_table.clone();
        let listing = rules.clone().map(|rules| Lists { rules, catalog: catalog.clone() });
        known.extend(listing.map(|listing| CatalogService {
            catalog,
            zones,
            listing: Arc::new(listing),
        }));
    }
    let (zones, notifies) = (block.zone_table.clone(), &mut block.services.notifies);
    let rules = rules.filter(|Rules(rules, _)| rules.iter().any(Rule::notifies));
    if let Some(rules) = rules.filter(|_| !notifies.iter().any(|s| Arc::ptr_eq(&s.zones, &zones))) {
        notifies.push(NotifyService { zones, rules: Arc::new(rules) });
    }
}
