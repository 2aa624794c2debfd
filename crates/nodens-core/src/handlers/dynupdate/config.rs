//! `dynupdate [ZONE] { file DBFILE; database PATH; allow KEY NAME TYPE…; max_records COUNT; … }`.

use super::{Dynupdate, RCODES, database, seed};
use crate::config::BlockBuilder;
use crate::zone_keys;
use crate::zones::Zones;
use nodens_corefile::{Directive, Error, Token, take};
use nodens_wire::{Name, Type};
use nodens_zone::dynamic::DynamicZone;
use nodens_zone::dnssec::{Denial, Signer};
use nodens_zone::update::types::{Kind, may_be_allowed};
use nodens_zone::update::{Permission, Policy};
use std::path::PathBuf;
use std::sync::Arc;

const PROPERTIES: [&str; 8] = [
    "file",
    "database",
    "allow",
    "max_records",
    "max_bytes",
    "max_update_records",
    "key",
    "nsec3",
];

/// What the maximums are where nothing is said.
const RECORDS_DEFAULT: u64 = 10_000;
const OCTETS_DEFAULT: u64 = 8 << 20;
const UPDATE_RECORDS_DEFAULT: usize = 1024;

/// What the lines of the directive say.
struct Options {
    file: PathBuf,
    database: Option<PathBuf>,
    policy: Policy,
    signer: Option<Signer>,
}

impl Options {
    fn kind(&self) -> Kind {
        if self.signer.is_some() { Kind::Signed } else { Kind::Unsigned }
    }
}

/// A zone without database as it was read for another address of the same block.
struct InMemory {
    /// The block.
    source: usize,
    zone: Arc<DynamicZone>,
}

/// Reads the directive, which may be used once.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    let origin = origin(directive, block)?;
    block.check_catalogs(directive, std::slice::from_ref(&origin))?;
    let options = options(directive, &origin, block)?;
    let zone = match &options.database {
        Some(database) => kept(directive, database.clone(), &origin, &options, block)?,
        None => in_memory(directive, &origin, &options, block)?,
    };
    let Options { policy, signer, .. } = options;
    sign(directive, &zone, signer, block)?;
    if !block.services.dynamic.iter().any(|own| Arc::ptr_eq(own, &zone)) {
        block.services.dynamic.push(zone.clone());
    }
    block.settings.takes_updates = true;
    block.settings.live.push(origin.clone());
    let (zone_label, view) = (origin.to_string(), block.view_name());
    let counters = RCODES.map(|rcode| {
        let rcode = rcode.to_string();
        let labels = [
            ("server", &*block.server),
            ("zone", &*zone_label),
            ("view", &*view),
            ("rcode", &*rcode),
        ];
        let help = "Updates by the RCODE of their response.";
        block.shared.registry.counter("nodens_dynupdate_updates_total", help, &labels)
    });
    block.push(Dynupdate { zone, policy: Arc::new(policy), counters });
    Ok(())
}

/// Has the zone signed; two blocks with one database have one zone, and one way to sign it.
fn sign(
    directive: &Directive,
    zone: &Arc<DynamicZone>,
    signer: Option<Signer>,
    block: &mut BlockBuilder<'_>,
) -> Result<(), Error> {
    let services = &mut block.services;
    let is_known = services.dynamic.iter().any(|own| Arc::ptr_eq(own, zone));
    let known = services.dynamic_signers.iter().find(|(own, _)| Arc::ptr_eq(own, zone));
    match (signer, known) {
        (None, None) => Ok(()),
        (Some(signer), Some((_, known))) if known.is_like(&signer) => Ok(()),
        (Some(signer), None) if !is_known => {
            services.dynamic_signers.push((zone.clone(), Arc::new(signer)));
            Ok(())
        }
        _ => {
            let text = format!("zone {} is signed in another way in another block", zone.origin());
            Err(directive.invalid(text))
        }
    }
}

/// The one zone.
fn origin(directive: &Directive, block: &BlockBuilder<'_>) -> Result<Name, Error> {
    let zones = Zones::of(directive.args(), &block.zones)?;
    match zones.names() {
        [only] if directive.args().len() <= 1 => Ok(only.to_folded()),
        [first, others @ ..]
            if directive.args().is_empty() && others.iter().all(|other| other == first) =>
        {
            Ok(first.to_folded())
        }
        _ if directive.args().is_empty() => Err(directive.invalid(
            "zone is required when the server block does not define exactly one zone",
        )),
        _ => Err(directive.invalid("exactly one zone is allowed")),
    }
}

fn options(
    directive: &Directive,
    origin: &Name,
    block: &BlockBuilder<'_>,
) -> Result<Options, Error> {
    let (mut file, mut database) = (None, None);
    let (mut sources, mut denial) = (Vec::new(), None);
    let has_keys = directive.lines().iter().any(|line| line.name.text == "key");
    let kind = if has_keys { Kind::Signed } else { Kind::Unsigned };
    let mut policy = Policy {
        permissions: Vec::new(),
        records_max: RECORDS_DEFAULT,
        octets_max: OCTETS_DEFAULT,
        update_records_max: UPDATE_RECORDS_DEFAULT,
    };
    for (at, line) in directive.lines().iter().enumerate() {
        line.expect_no_body()?;
        let word = line.name.text.as_str();
        let before = directive.lines().iter().take(at);
        if !matches!(word, "allow" | "key") && before.into_iter().any(|other| other.name.text == word) {
            return Err(line.invalid(format!("{word} specified more than once")));
        }
        match word {
            "file" => {
                let [path] = line.expect_args()?;
                file = Some(block.path(&path.text));
            }
            "database" => {
                let [path] = line.expect_args()?;
                if path.text.is_empty() {
                    return Err(Error::expected(path, "the path of a file"));
                }
                database = Some(database::canonical(block.path(&path.text)));
            }
            "allow" => policy.permissions.push(permission(line, origin, kind)?),
            "max_records" => policy.records_max = count(line)?,
            "max_bytes" => policy.octets_max = count(line)?,
            "max_update_records" => {
                policy.update_records_max = usize::try_from(count(line)?).unwrap_or(usize::MAX);
            }
            "key" => sources.push(zone_keys::source(line)?),
            "nsec3" => denial = Some((line, zone_keys::nsec3(line)?)),
            _ => return Err(line.unknown_property(&PROPERTIES)),
        }
    }
    let Some(file) = file else { return Err(directive.invalid("file is required")) };
    if policy.permissions.is_empty() {
        return Err(directive.invalid("at least one allow rule is required"));
    }
    let keys = zone_keys::keys(&sources, origin, block)?;
    let signer = match denial {
        Some((line, _)) if keys.is_empty() => {
            return Err(line.invalid("nsec3 requires a key"));
        }
        denial => Signer::new(keys, denial.map_or(Denial::Nsec, |(_, denial)| denial)),
    };
    let signer = has_keys.then_some(signer);
    Ok(Options { file, database, policy, signer })
}

fn count(line: &Directive) -> Result<u64, Error> {
    let [arg] = line.expect_args()?;
    take::parse_integer(arg, 1..=i64::MAX as u64)
}

/// `allow KEY NAME TYPE…`.
fn permission(line: &Directive, origin: &Name, kind: Kind) -> Result<Permission, Error> {
    let [key, owner, types @ ..] = line.expect_args_from(3)? else {
        return Err(line.invalid("allow requires KEY NAME and at least one RR type"));
    };
    let is_name = !matches!(key.text.trim(), "" | "*" | "@");
    let name = key.text.parse().ok().filter(|_| is_name);
    let key = name.ok_or_else(|| Error::expected(key, "the name of a key of tsig"))?;
    let owner = match owner.text.as_str() {
        "*" => None,
        "@" => Some(origin.clone()),
        text => {
            let name = text.parse().ok();
            let inside = name.filter(|name: &Name| name.view().is_in_domain(origin.view()));
            let text = format!("a name in zone {origin}, @ or *");
            Some(inside.ok_or_else(|| Error::expected(owner, text))?)
        }
    };
    Ok(Permission { key, owner, types: permitted(types, kind)? })
}

/// Nothing for all types.
fn permitted(types: &[Token], kind: Kind) -> Result<Option<Vec<Type>>, Error> {
    if let [only] = types
        && only.text == "*"
    {
        return Ok(None);
    }
    let permitted = types.iter().map(|token| {
        if token.text == "*" {
            let text = "wildcard RR type must be the only type in an allow rule";
            return Err(Error::invalid(token, text));
        }
        let found = token.text.parse().ok().filter(|rtype| may_be_allowed(*rtype, kind));
        found.ok_or_else(|| Error::expected(token, "a type that updates may change, ANY or *"))
    });
    permitted.collect::<Result<_, _>>().map(Some)
}

/// The zone that is kept in a file, or will be.
fn kept(
    directive: &Directive,
    path: PathBuf,
    origin: &Name,
    options: &Options,
    block: &BlockBuilder<'_>,
) -> Result<Arc<DynamicZone>, Error> {
    let Options { file, policy, .. } = options;
    let at = |line: &&Directive| line.name.text == "database";
    let at = directive.lines().iter().find(at).unwrap_or(directive);
    let refuse = |why: String| at.invalid(format!("database {:?}: {why}", path.display()));
    if database::is_same(file, &path) {
        return Err(refuse("database and seed must be different files".to_owned()));
    }
    let known = block.shared.dynamic.all();
    if let Some(zone) = known.iter().find(|zone| zone.database().is_some_and(|own| database::is_beside(own, &path))) {
        let text = format!("one of the files beside the database of zone {} has this name", zone.origin());
        return Err(refuse(text));
    }
    // Two that write one file would undo what the other one has confirmed.
    let is_same = |zone: &Arc<DynamicZone>| {
        zone.database().is_some_and(|own| own == path || database::is_same(own, &path))
    };
    if let Some(zone) = known.into_iter().find(is_same) {
        if zone.origin() != origin {
            return Err(refuse(format!("database already serves zone {}", zone.origin())));
        }
        if let Some((_, size)) = zone.data() {
            policy.check_size(size).map_err(refuse)?;
        }
        return Ok(zone);
    }
    let zone = match database::read(&path, origin, policy, &block.shared.sink).map_err(refuse)? {
        Some(zone) => zone,
        None => {
            let data = seed::read(file, origin, (policy, options.kind()));
            let data = data.map_err(|why| directive.invalid(why))?;
            DynamicZone::new(origin.clone(), Some(path), data, &[])
        }
    };
    let zone = Arc::new(zone);
    if options.signer.is_some() {
        zone.wait_for_signatures();
    }
    block.shared.dynamic.add(&zone);
    Ok(zone)
}

/// A zone that is read anew with each configuration; one for all addresses of a block.
fn in_memory(
    directive: &Directive,
    origin: &Name,
    options: &Options,
    block: &mut BlockBuilder<'_>,
) -> Result<Arc<DynamicZone>, Error> {
    let is_own = |own: &&InMemory| own.source == block.source && own.zone.origin() == origin;
    if let Some(own) = block.services.kept.all::<InMemory>().find(is_own) {
        return Ok(own.zone.clone());
    }
    let data = seed::read(&options.file, origin, (&options.policy, options.kind()));
    let data = data.map_err(|why| directive.invalid(why))?;
    let zone = Arc::new(DynamicZone::new(origin.clone(), None, data, &[]));
    if options.signer.is_some() {
        zone.wait_for_signatures();
    }
    block.services.kept.add(InMemory { source: block.source, zone: zone.clone() });
    Ok(zone)
}
