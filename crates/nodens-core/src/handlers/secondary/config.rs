//! `secondary [ZONES…] { transfer from ADDRESS…; key NAME; catalog [MEMBER-ZONES…]; store FOLDER; … }`.

use super::Secondary;
use super::source::Source;
use crate::authority::metrics;
use crate::config::BlockBuilder;
use crate::handlers::{Handler, ready};
use crate::zones::{Fallthrough, Zones};
use nodens_corefile::{Directive, Error};
use nodens_wire::Name;
use nodens_zone::Zone;
use nodens_zone::secondary::{Configured, Group, SecondaryService};
use nodens_zone::tsig::Key;
use std::sync::Arc;

/// The properties, as their users know them.
const PROPERTIES: [&str; 8] =
    ["transfer", "key", "tls", "tls_servername", "store", "catalog", "group", "fallthrough"];

/// What the lines of one directive say.
struct Options {
    /// Where the zones come from.
    own: Group,
    /// Whether the zones are catalogs, and in which zones their members may be: anywhere, if there are none.
    catalog: Option<Vec<Name>>,
    groups: Vec<Group>,
    fallthrough: Option<Fallthrough>,
}

/// Reads the directive. Several in one block are one handler; of two for one zone, the last counts.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let zones = Zones::of(directive.args(), &block.zones)?;
    block.check_catalogs(directive, zones.names())?;
    let options = options(directive, block)?;
    let (known, own) = (&block.shared.secondaries, &options.own);
    let configured = zones.names().iter().map(|name| Configured {
        zone: known.zone(name.view(), &own.primaries, own.key.as_ref().map(Key::name)),
        catalog: options.catalog.clone(),
        key: own.key.clone(),
        store: own.store.clone(),
        groups: options.groups.clone(),
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
    let of_groups = options.groups.iter().map(|group| &group.store);
    if of_groups.chain([&options.own.store]).any(Option::is_some) {
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
        let origin = zone.origin();
        for table in [&service.zones, &service.handed_on] {
            table.update(|update| update.replace(origin, zone.clone() as Arc<dyn Zone>));
        }
        service.configured.retain(|other| other.zone.origin() != origin);
        service.configured.push(configured);
    }
    // Members of catalogs that are here already are served from the beginning.
    for configured in &service.configured {
        let members = configured.zone.members();
        for table in [&service.zones, &service.handed_on] {
            table.update(|update| {
                let zones = members.values().map(|(_, zone)| zone);
                for zone in zones.filter(|zone| configured.accepts(zone.origin().view())) {
                    update.add(zone.origin(), zone.clone() as Arc<dyn Zone>);
                }
            });
        }
    }
}

fn options(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<Options, Error> {
    let (mut source, mut catalog, mut fallthrough) = (Source::default(), None, None);
    let mut groups: Vec<&Directive> = Vec::new();
    for line in directive.lines() {
        match line.name.text.as_str() {
            // It begins with what the others say, wherever they stand.
            "group" => groups.push(line),
            "catalog" => {
                line.expect_no_body()?;
                let accepted = Zones::of(line.args(), &[])?;
                merge(&mut catalog, accepted.names());
            }
            "fallthrough" => {
                line.expect_no_body()?;
                fallthrough = Some(Fallthrough::of(line.args())?);
            }
            _ if source.read(line, block)? => {}
            _ => return Err(line.unknown_property(&PROPERTIES)),
        }
    }
    if let Some(group) = groups.first().filter(|_| catalog.is_none()) {
        return Err(group.invalid("only members of a catalog are in groups: add catalog"));
    }
    let own = source.clone().finish(directive, block)?;
    let groups = groups.into_iter().map(|line| group(line, (&source, &own), block));
    let groups: Vec<Group> = groups.collect::<Result<_, _>>()?;
    let is_repeated =
        |(at, group): (usize, &Group)| groups.iter().take(at).any(|other| other.name == group.name);
    if groups.iter().enumerate().any(is_repeated) {
        return Err(directive.invalid("two groups have the same name"));
    }
    Ok(Options { own, catalog, groups, fallthrough })
}

/// `group NAME { … }`: what it does not say, the directive says.
fn group(
    line: &Directive,
    (outer, own): (&Source, &Group),
    block: &mut BlockBuilder<'_>,
) -> Result<Group, Error> {
    let [name] = line.expect_args::<1>()?;
    let mut source = outer.within();
    for line in line.lines() {
        if !source.read(line, block)? {
            return Err(line.unknown_property(&Source::PROPERTIES));
        }
    }
    let name = name.text.as_bytes().into();
    if source.names_primaries() {
        return Ok(Group { name, ..source.finish(line, block)? });
    }
    if source.is_encrypted_anew() {
        return Err(line.invalid("tls and tls_servername of a group need a transfer from of it"));
    }
    let (key, store) = (source.key.clone(), source.store.clone());
    Ok(Group { name, key, store, ..own.clone() })
}

/// `catalog` without names accepts all members, before or after one with names.
fn merge(catalog: &mut Option<Vec<Name>>, accepted: &[Name]) {
    *catalog = Some(match catalog.take() {
        Some(before) if before.is_empty() || accepted.is_empty() => Vec::new(),
        Some(before) => [&before, accepted].concat(),
        None => accepted.to_vec(),
    });
}
