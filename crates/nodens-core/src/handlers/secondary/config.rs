//! `secondary [ZONES…] { transfer from ADDRESS…; key NAME; catalog [MEMBER-ZONES…]; store FOLDER; … }`.

use super::Secondary;
use crate::config::BlockBuilder;
use crate::authority::metrics;
use crate::handlers::{Handler, ready};
use crate::zones::{Fallthrough, Zones};
use nodens_corefile::{Directive, Error, Token};
use nodens_wire::Name;
use nodens_zone::Zone;
use nodens_zone::secondary::{Configured, SecondaryService};
use nodens_zone::tsig::Key;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// The port of DNS.
const PORT: u16 = 53;

/// What the lines of one directive say.
#[derive(Default)]
struct Options {
    primaries: Vec<SocketAddr>,
    /// Whether the zones are catalogs, and in which zones their members may be: anywhere, if there are none.
    catalog: Option<Vec<Name>>,
    store: Option<PathBuf>,
    fallthrough: Option<Fallthrough>,
    /// What queries are signed with.
    key: Option<Key>,
}

/// Reads the directive. Several in one block are one handler; of two for one zone, the last counts.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let zones = Zones::of(directive.args(), &block.zones)?;
    let options = options(directive, block)?;
    let known = &block.shared.secondaries;
    let configured = zones.names().iter().map(|name| Configured {
        zone: known.zone(name.view(), &options.primaries, options.key.as_ref().map(Key::name)),
        catalog: options.catalog.clone(),
        key: options.key.clone(),
        store: options.store.clone(),
    });
    let configured: Vec<_> = configured.collect();
    // The addresses of a block share its zones.
    let services = &mut block.services.secondaries;
    let others = services.iter().filter(|own| !Arc::ptr_eq(&own.handed_on, &block.zone_table));
    for other in others.flat_map(|other| &other.configured) {
        if let Some(own) = configured.iter().find(|own| share_a_file(own, other)) {
            let (zone, found) = (own.zone.origin(), "is stored in the same folder");
            return Err(directive.invalid(format!(
                "zone {zone} {found} by another server block, from other primaries or with another key"
            )));
        }
    }
    if !services.iter().any(|own| Arc::ptr_eq(&own.handed_on, &block.zone_table)) {
        let handed_on = block.zone_table.clone();
        let (counts, restoring) = (known.counts.clone(), known.restoring.clone());
        let service = SecondaryService { handed_on, counts, restoring, ..Default::default() };
        services.push(service);
    }
    let own = |own: &&mut SecondaryService| Arc::ptr_eq(&own.handed_on, &block.zone_table);
    let Some(service) = services.iter_mut().find(own) else { return Ok(()) };
    add(service, configured);
    let (zones, notices) = (service.zones.clone(), service.notices.clone());
    if !matches!(block.handlers.last(), Some(Handler::Secondary(_))) {
        let fallthrough = Fallthrough::default();
        let heard = metrics::notices(&block.shared.registry);
        block.push(Secondary { zones, notices, fallthrough, heard });
    }
    if let (Some(Handler::Secondary(secondary)), Some(fallthrough)) =
        (block.handlers.last_mut(), options.fallthrough)
    {
        secondary.fallthrough = fallthrough;
    }
    metrics::of_secondaries(block.shared);
    if options.store.is_some() {
        let restoring = block.shared.secondaries.restoring.clone();
        ready::wait_for(block, super::SPEC.name, move || restoring.is_done());
    }
    Ok(())
}

/// Whether two zones that are not the same would be stored in one file.
fn share_a_file(one: &Configured, other: &Configured) -> bool {
    let is_same = Arc::ptr_eq(&one.zone, &other.zone);
    !is_same
        && one.store.is_some()
        && one.store == other.store
        && one.zone.origin() == other.zone.origin()
}

/// Adds zones in the place of those of their names.
fn add(service: &mut SecondaryService, configured: Vec<Configured>) {
    for configured in configured {
        let zone = configured.zone.clone();
        let origin = zone.origin().view();
        for table in [&service.zones, &service.handed_on] {
            table.update(|update| update.replace(origin, zone.clone() as Arc<dyn Zone>));
        }
        service.configured.retain(|other| other.zone.origin().view() != origin);
        service.configured.push(configured);
    }
    // Members of catalogs that are here already are served from the beginning.
    for configured in &service.configured {
        let members = configured.zone.members();
        let members = members.values().filter(|(_, zone)| configured.accepts(zone.origin().view()));
        for table in [&service.zones, &service.handed_on] {
            table.update(|update| {
                members.clone().for_each(|(_, zone)| {
                    update.add(zone.origin().view(), zone.clone() as Arc<dyn Zone>);
                });
            });
        }
    }
}

fn options(directive: &Directive, block: &BlockBuilder<'_>) -> Result<Options, Error> {
    let mut options = Options::default();
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "transfer" => options.primaries.extend(primaries(line)?),
            "key" => options.key = Some(key(line, block)?),
            "catalog" => {
                let accepted = Zones::of(line.args(), &[])?;
                merge(&mut options.catalog, accepted.names());
            }
            "store" => {
                let [folder] = line.expect_args::<1>()?;
                options.store = Some(block.path(&folder.text));
            }
            "fallthrough" => options.fallthrough = Some(Fallthrough::of(line.args())?),
            _ => {
                let known = ["transfer", "key", "catalog", "store", "fallthrough"];
                return Err(line.unknown_property(&known));
            }
        }
    }
    if options.primaries.is_empty() {
        return Err(directive.invalid("secondary zones require a transfer from property"));
    }
    Ok(options)
}

/// `key NAME`: one of the keys of `tsig`.
fn key(line: &Directive, block: &BlockBuilder<'_>) -> Result<Key, Error> {
    let [arg] = line.expect_args()?;
    let name: Name = arg.text.parse().map_err(|_| Error::expected(arg, "the name of a key"))?;
    let known = block.settings.keys.get(&name).cloned();
    known.ok_or_else(|| Error::expected(arg, "a key of tsig in the same server block"))
}

/// `catalog` without names accepts all members, before or after one with names.
fn merge(catalog: &mut Option<Vec<Name>>, accepted: &[Name]) {
    *catalog = Some(match catalog.take() {
        Some(before) if before.is_empty() || accepted.is_empty() => Vec::new(),
        Some(before) => [&before, accepted].concat(),
        None => accepted.to_vec(),
    });
}

/// `from ADDRESS…`.
fn primaries(line: &Directive) -> Result<Vec<SocketAddr>, Error> {
    match line.expect_args_from(1)? {
        [from, addresses @ ..] if from.text == "from" => {
            if addresses.is_empty() {
                return Err(Error::expected(from, "one or more addresses behind 'from'"));
            }
            addresses.iter().map(address).collect()
        }
        [other, ..] => Err(Error::expected(other, "from")),
        [] => Ok(Vec::new()),
    }
}

/// An IP address, perhaps with a port: `192.0.2.1`, `192.0.2.1:5300`, `[2001:db8::1]:5300`.
fn address(arg: &Token) -> Result<SocketAddr, Error> {
    let text = arg.text.as_str();
    let alone = text.parse().map(|ip: IpAddr| SocketAddr::new(ip, PORT));
    let address = alone.or_else(|_| match text.strip_suffix(':') {
        // An empty port is none, as in CoreDNS.
        Some(_) => format!("{text}{PORT}").parse(),
        None => text.parse(),
    });
    address.map_err(|_| Error::expected(arg, "an IP address, with or without a port"))
}
