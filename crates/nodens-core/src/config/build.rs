//! Syntax tree → typed configuration → chains.

use super::addresses::{listen_at, server_label};
use super::{
    BlockSettings, BuildOptions, Config, HttpServer, Listener, QuicServer, Server, ServerBlock,
    Services, Timeouts, View, bounds, certificates, fingerprint,
};
use crate::directives::{self, DIRECTIVES};
use crate::handler::{Phase, Spec};
use crate::handlers::Handler;
use crate::proxy::ProxyRules;
use crate::shared::Shared;
use crate::transport::ListenerKind;
use nodens_corefile::key::{Scheme, ZoneKey, parse_key};
use nodens_corefile::overlap::{self, Overlaps};
use nodens_corefile::{Corefile, Directive, Error, ErrorKind, nearest};
use nodens_wire::Name;
use nodens_zone::ZoneTable;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// What a directive's `setup` may look at and add to.
pub struct BlockBuilder<'a> {
    /// The zones of the block, as in the Corefile.
    pub zones: Vec<Name>,
    /// The server's label, such as `dns://:53`.
    pub server: String,
    /// The address the chain will be reached at.
    pub listen: SocketAddr,
    /// Identifies the block in the Corefile.
    pub source: usize,
    /// Differs if the block's zones or directives differ, the latter as in [`BuildOptions::known_as`]: what may
    /// outlive a reload depends on it. Servers of a block with the same zones have the same.
    pub fingerprint: u64,
    /// What the process shares.
    pub shared: &'a Arc<Shared>,
    /// What is not in the Corefile.
    pub options: &'a BuildOptions,
    /// The chain so far, in order.
    pub handlers: Vec<Handler>,
    /// Settings so far.
    pub settings: BlockSettings,
    /// `view`.
    pub view: Option<View>,
    /// What runs beside the chains.
    pub services: &'a mut Services,
    /// The zones that can be transferred, shared by all addresses of the block at one port.
    pub zone_table: Arc<ZoneTable>,
    /// Catalogs that `transfer` makes of zones, in lower case.
    pub catalogs: Vec<Name>,
    /// Names of the directives of the block, in order of action.
    pub present: Vec<&'static str>,
    /// Names of the directives that may not come again, see [`BlockBuilder::once`].
    single: Vec<String>,
}

impl BlockBuilder<'_> {
    /// Appends a handler to the chain.
    pub fn push(&mut self, handler: impl Into<Handler>) {
        self.handlers.push(handler.into());
    }

    /// Refuses a second occurrence of a directive that a block may have only once.
    ///
    /// # Errors
    /// From the second call for a directive on, at its name.
    pub fn once(&mut self, directive: &Directive) -> Result<(), Error> {
        if self.single.contains(&directive.name.text) {
            return Err(directive.invalid("this plugin can only be used once per Server Block"));
        }
        self.single.push(directive.name.text.clone());
        Ok(())
    }

    /// Refuses zones of which one has the name of a catalog: queries for it would not reach the directive.
    ///
    /// # Errors
    /// At the name of the directive.
    pub fn check_catalogs(&self, directive: &Directive, zones: &[Name]) -> Result<(), Error> {
        match zones.iter().find(|zone| self.catalogs.contains(zone)) {
            None => Ok(()),
            Some(zone) => {
                Err(directive.invalid(format!("zone {zone} has the name of a catalog of transfer")))
            }
        }
    }

    /// The labels `server`, `zones`-less `view` that most metrics carry.
    pub fn view_name(&self) -> String {
        self.view.as_ref().map_or_else(String::new, |view| view.name().to_owned())
    }

    /// `path` below the block's `root` unless it is absolute.
    pub fn path(&self, path: &str) -> std::path::PathBuf {
        self.settings.root.join(path)
    }
}

/// A block's place in the Corefile and one of the servers it belongs to.
struct Placement {
    source: usize,
    kind: ListenerKind,
    address: SocketAddr,
    /// `None` if the block has no `bind`.
    bound: Option<IpAddr>,
    zones: Vec<Name>,
    zone_table: Arc<ZoneTable>,
    settings: BlockSettings,
}

/// Compiles `corefile`, whole or not at all.
pub fn build(
    corefile: &Corefile,
    options: &BuildOptions,
    shared: &Arc<Shared>,
) -> Result<Config, Error> {
    check_unserved(corefile)?;
    let mut placements = Vec::new();
    for (source, block) in corefile.blocks.iter().enumerate() {
        check_directives(&block.directives)?;
        place(source, block, options, shared, &mut placements)?;
    }
    check_overlap(corefile, &placements)?;
    let known_as = options.known_as.as_ref();
    let known_as = known_as.filter(|known_as| known_as.blocks.len() == corefile.blocks.len());
    let mut services = Services::default();
    let mut blocks = Vec::new();
    for placement in &placements {
        let Some(source) = corefile.blocks.get(placement.source) else { continue };
        let directives = &source.directives;
        // What outlives a reload is common to the servers of a block that have the same zones, as in CoreDNS:
        // an answer found over one transport is found over the others.
        let is_same =
            |own: &&Placement| own.source == placement.source && own.zones == placement.zones;
        let first = placements.iter().find(is_same).unwrap_or(placement);
        let key = (first.address.port(), &first.zones);
        let known_as = known_as.and_then(|known_as| known_as.blocks.get(placement.source));
        let known_as = known_as.map_or(directives, |block| &block.directives);
        let fingerprint = fingerprint::of(key, known_as);
        let of_source = (directives.as_slice(), fingerprint);
        blocks.push(compile(placement, of_source, options, shared, &mut services)?);
    }
    let at_kinds = || placements.iter().map(|own| own.kind).zip(&blocks);
    certificates::check(corefile, at_kinds())?;
    bounds::check(corefile, at_kinds())?;
    let mut config = assemble(placements, blocks, services, shared);
    DIRECTIVES.iter().filter_map(|spec| spec.complete).for_each(|act| act(&mut config, shared));
    Ok(config)
}

/// Refuses what is no directive in blocks that nobody is served by. CoreDNS knows the names of
/// directives there, and looks no further.
///
/// # Errors
/// At the first such word.
pub fn check_unserved(corefile: &Corefile) -> Result<(), Error> {
    let is_unknown = |directive: &&Directive| directives::find(&directive.name.text).is_none();
    let unknown = corefile.unserved.iter().find(is_unknown);
    unknown.map_or(Ok(()), |directive| check_directives(std::slice::from_ref(directive)))
}

fn check_directives(directives: &[Directive]) -> Result<(), Error> {
    for directive in directives {
        let word = directive.name.text.as_str();
        let kind = match directives::find(word) {
            Some(spec) if spec.setup.is_some() => continue,
            Some(_) => ErrorKind::Invalid(format!(
                "directive '{word}' is known to CoreDNS, but Nodens does not have it yet"
            )),
            None => {
                let known = DIRECTIVES.iter().filter(|spec| spec.setup.is_some());
                let nearest = nearest(word, known.map(|spec| spec.name)).map(str::to_owned);
                ErrorKind::UnknownDirective { word: word.to_owned(), nearest, known: String::new() }
            }
        };
        return Err(Error::at(&directive.name, kind));
    }
    Ok(())
}

/// Which servers a block belongs to: its keys' ports, times the addresses it binds.
fn place(
    source: usize,
    block: &nodens_corefile::ServerBlock,
    options: &BuildOptions,
    shared: &Arc<Shared>,
    placements: &mut Vec<Placement>,
) -> Result<(), Error> {
    let settings = settings_of(block, options, shared)?;
    let mut ports: BTreeMap<(ListenerKind, u16), Vec<Name>> = BTreeMap::new();
    for key in &block.keys {
        for ZoneKey { scheme, zone, port } in parse_key(key)? {
            let kind = ListenerKind::of(scheme);
            let default = if scheme == Scheme::Dns { options.port } else { scheme.default_port() };
            let zone =
                Name::parse(&zone).map_err(|error| Error::invalid(key, error.to_string()))?;
            ports.entry((kind, port.unwrap_or(default))).or_default().push(zone);
        }
    }
    for ((kind, port), zones) in ports {
        let everywhere = [(IpAddr::V6(Ipv6Addr::UNSPECIFIED), None)];
        let bound: Vec<_> = settings.bind.iter().map(|ip| (*ip, Some(*ip))).collect();
        let addresses = if bound.is_empty() { everywhere.to_vec() } else { bound };
        let zone_table: Arc<ZoneTable> = Arc::default();
        for (ip, bound) in addresses {
            let address = SocketAddr::new(ip, port);
            let (zones, settings) = (zones.clone(), settings.clone());
            let zone_table = zone_table.clone();
            let placement = Placement { source, kind, address, bound, zones, zone_table, settings };
            placements.push(placement);
        }
    }
    Ok(())
}

/// The block's settings, which decide where it listens before any chain is built.
fn settings_of(
    block: &nodens_corefile::ServerBlock,
    options: &BuildOptions,
    shared: &Arc<Shared>,
) -> Result<BlockSettings, Error> {
    let mut services = Services::default();
    let listen = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), options.port);
    let at = (ListenerKind::Dns, listen);
    let mut builder = builder(at, Vec::new(), 0, options, shared, &mut services);
    set_up_all(Phase::Place, &block.directives, &mut builder)?;
    Ok(builder.settings)
}

fn check_overlap(corefile: &Corefile, placements: &[Placement]) -> Result<(), Error> {
    let mut overlaps = Overlaps::default();
    for placement in placements {
        let Some(block) = corefile.blocks.get(placement.source) else { continue };
        let spec = |directive: &Directive| directives::find(&directive.name.text);
        let narrows = |directive| spec(directive).is_some_and(|spec| spec.narrows);
        let is_narrow = block.directives.iter().any(narrows);
        for zone in &placement.zones {
            let listener = overlap::Listener {
                scheme: placement.kind.scheme(),
                zone: zone.to_folded().to_string(),
                port: placement.address.port(),
                address: placement.bound.map(|ip| ip.to_string()).unwrap_or_default(),
            };
            if let (Err(conflict), Some(key)) =
                (overlaps.add(listener, is_narrow), block.keys.first())
            {
                return Err(Error::at(key, conflict.into()));
            }
        }
    }
    Ok(())
}

fn builder<'a>(
    (kind, listen): (ListenerKind, SocketAddr),
    zones: Vec<Name>,
    source: usize,
    options: &'a BuildOptions,
    shared: &'a Arc<Shared>,
    services: &'a mut Services,
) -> BlockBuilder<'a> {
    BlockBuilder {
        server: server_label(kind, listen),
        zones,
        listen,
        source,
        fingerprint: 0,
        shared,
        options,
        handlers: Vec::new(),
        settings: BlockSettings::default(),
        view: None,
        services,
        zone_table: Arc::default(),
        catalogs: Vec::new(),
        present: Vec::new(),
        single: Vec::new(),
    }
}

fn compile(
    placement: &Placement,
    (directives, fingerprint): (&[Directive], u64),
    options: &BuildOptions,
    shared: &Arc<Shared>,
    services: &mut Services,
) -> Result<ServerBlock, Error> {
    let (listen, zones) = (placement.address, placement.zones.clone());
    let at = (placement.kind, listen);
    let mut builder = builder(at, zones, placement.source, options, shared, services);
    builder.fingerprint = fingerprint;
    builder.settings.clone_from(&placement.settings);
    builder.zone_table = placement.zone_table.clone();
    let present = |spec: &&Spec| directives.iter().any(|d| d.name.text == spec.name);
    builder.present = DIRECTIVES.iter().filter(present).map(|spec| spec.name).collect();
    set_up_all(Phase::Settings, directives, &mut builder)?;
    set_up_all(Phase::Chain, directives, &mut builder)?;
    DIRECTIVES.iter().filter_map(|spec| spec.chain_complete).for_each(|act| act(&mut builder));
    builder.zone_table.update(|update| {
        options.zones.iter().for_each(|(name, zone)| _ = update.add(name.view(), zone.clone()));
    });
    let tables = &mut builder.services.zones;
    // The addresses of a block share its zones.
    if !tables.iter().any(|table| Arc::ptr_eq(table, &builder.zone_table)) {
        tables.push(builder.zone_table.clone());
    }
    let BlockBuilder { zones, server, source, handlers, settings, view, .. } = builder;
    Ok(ServerBlock { zones, server, listen, source, view, handlers, settings })
}

/// Reads the directives of one phase, in the order in which they act.
fn set_up_all(
    phase: Phase,
    directives: &[Directive],
    builder: &mut BlockBuilder<'_>,
) -> Result<(), Error> {
    DIRECTIVES
        .iter()
        .filter(|spec| spec.phase == phase)
        .try_for_each(|spec| set_up(spec, directives, builder))
}

fn set_up(
    spec: &Spec,
    directives: &[Directive],
    builder: &mut BlockBuilder<'_>,
) -> Result<(), Error> {
    if let Some(setup) = spec.setup {
        let mut written = directives.iter().filter(|directive| directive.name.text == spec.name);
        written.try_for_each(|directive| setup(directive, builder))?;
    }
    if let Some(beside) = spec.beside {
        beside(builder);
    }
    Ok(())
}

/// Groups blocks into servers and servers into listeners.
fn assemble(
    placements: Vec<Placement>,
    blocks: Vec<ServerBlock>,
    services: Services,
    shared: &Arc<Shared>,
) -> Config {
    let mut order: Vec<(ListenerKind, SocketAddr)> = Vec::new();
    for placement in &placements {
        if !order.contains(&(placement.kind, placement.address)) {
            order.push((placement.kind, placement.address));
        }
    }
    let mut servers = Vec::new();
    let mut listeners = Vec::new();
    for (kind, address) in order.iter().copied() {
        let members = || placements.iter().zip(&blocks).enumerate();
        let here: Vec<_> =
            members().filter(|(_, (p, _))| (p.kind, p.address) == (kind, address)).collect();
        let mut zones: HashMap<_, Vec<_>, _> = HashMap::default();
        let mut depths = 0;
        for (block, (placement, _)) in &here {
            for (zone, name) in placement.zones.iter().enumerate() {
                depths |= 1_u128.checked_shl(name.view().label_count() as u32).unwrap_or(0);
                let folded = name.to_folded().as_wire().to_vec();
                zones.entry(folded).or_default().push((*block, zone));
            }
        }
        let only_root = if zones.len() == 1 { zones.get(&[0][..]).cloned() } else { None };
        let chains: Vec<_> = here.iter().map(|(_, (_, block))| *block).collect();
        let sockets = chains.iter().find_map(|block| block.settings.multisocket);
        let label = server_label(kind, address);
        let unserved = DIRECTIVES.iter().filter_map(|spec| spec.unserved);
        let unserved = unserved.map(|make| make(shared, &label)).collect();
        let any_class = Config::serves_any_class(&chains);
        let timeouts = Timeouts::of(chains.iter().map(|block| &block.settings.timeouts));
        let takes_updates = chains.iter().any(|block| block.settings.takes_updates);
        let shed = chains.iter().find_map(|block| block.settings.shed);
        let proxy = ProxyRules::of(chains.iter().filter_map(|block| block.settings.proxy.as_ref()));
        let listen = listen_at((kind, address), &order);
        let http = HttpServer::of(kind, &label, &chains, shared);
        let tls = chains.iter().find_map(|block| block.settings.tls.clone());
        let quic = QuicServer::of(kind, &label, &chains, http, shared);
        listeners.push(Listener { address: listen, kind, server: servers.len(), sockets });
        servers.push(Server {
            label,
            zones,
            only_root,
            depths,
            any_class,
            timeouts,
            tls,
            http,
            quic,
            shed,
            proxy,
            takes_updates,
            unserved,
        });
    }
    Config { listeners, servers, blocks, services, cache_memory: None }
}
