//! `kubernetes [ZONES…] { options }`.

use super::{Kubernetes, selector};
use crate::cluster::{Api, Source, Tls};
use crate::config::{BlockBuilder, ClusterService};
use crate::handlers::{Handler, ready};
use crate::log::Level;
use crate::lookup::{PodMode, Rules};
use crate::zones::{Fallthrough, Zones};
use nodens_corefile::{Directive, Error, Token, take};
use nodens_wire::Name;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const OPTIONS: [&str; 18] = [
    "endpoint",
    "tls",
    "kubeconfig",
    "apiserver_qps",
    "apiserver_burst",
    "apiserver_max_inflight",
    "namespaces",
    "namespace_labels",
    "labels",
    "pods",
    "endpoint_pod_names",
    "ttl",
    "noendpoints",
    "fallthrough",
    "ignore",
    "multicluster",
    "zonal",
    "startup_timeout",
];

/// What the lines of the block say.
struct Options {
    source: Source,
    endpoint: Option<String>,
    tls: Option<Tls>,
    kubeconfig: Option<(PathBuf, Option<String>)>,
    namespaces: Vec<Box<[u8]>>,
    pods: PodMode,
    ttl: u32,
    fallthrough: Fallthrough,
    ignore_empty: bool,
    /// Zones with service imports, and where they are written.
    multicluster: Vec<(Name, Token)>,
    startup_timeout: Duration,
}

impl Options {
    fn new() -> Self {
        Self {
            source: Source { endpoints: true, ..Source::default() },
            endpoint: None,
            tls: None,
            kubeconfig: None,
            namespaces: Vec::new(),
            pods: PodMode::default(),
            ttl: 5,
            fallthrough: Fallthrough::default(),
            ignore_empty: false,
            multicluster: Vec::new(),
            startup_timeout: Duration::from_secs(5),
        }
    }
}

/// Reads the directive, which may be used once.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    let zones = Zones::of(directive.args(), &block.zones)?;
    block.check_catalogs(directive, zones.names())?;
    let primary = primary(&zones).map(Name::to_folded);
    let Some(primary) = primary else {
        return Err(directive.invalid(
            "non-reverse zone name must be used: expected a zone such as cluster.local",
        ));
    };
    let mut options = Options::new();
    for line in directive.lines() {
        line.expect_no_body()?;
        option(line, &mut options, block)?;
    }
    check(directive, &options, &zones)?;
    let mut source = options.source;
    source.api = api(options.endpoint, options.tls, options.kubeconfig);
    source.pods = options.pods == PodMode::Verified;
    let needs_pods = |handler: &Handler| matches!(handler, Handler::Autopath(autopath) if autopath.needs_pods());
    if !source.pods && block.handlers.iter().any(needs_pods) {
        let text = "autopath @kubernetes has no effect without `pods verified`";
        block.shared.sink.line(Level::Warning, "kubernetes", text.to_owned());
    }
    source.imports = !options.multicluster.is_empty();
    let (pod_names, zonal) = (source.pod_names, source.zones);
    let imports = zones.names().iter().map(|zone| {
        let mut all = options.multicluster.iter();
        all.any(|(multicluster, _)| zone.view().is_in_domain(multicluster.view()))
    });
    let imports = imports.collect();
    let feed = block.shared.clusters.feed(&source);
    let (watched, startup_timeout) = (feed.clone(), options.startup_timeout);
    ready::wait_for(block, "kubernetes", move || watched.synced());
    let clusters = &mut block.services.clusters;
    match clusters.iter_mut().find(|known| Arc::ptr_eq(&known.feed, &feed)) {
        Some(known) => known.startup_timeout = known.startup_timeout.max(startup_timeout),
        None => {
            let feed = feed.clone();
            clusters.push(ClusterService { feed, startup_timeout, optional: false });
        }
    }
    let local = local_addresses(block);
    block.push(Kubernetes {
        zones,
        imports,
        primary,
        rules: Arc::new(Rules {
            namespaces: options.namespaces,
            pods: options.pods,
            pod_names,
            zonal,
            ignore_empty: options.ignore_empty,
            local,
        }),
        ttl: options.ttl,
        fallthrough: options.fallthrough,
        feed,
    });
    Ok(())
}

/// The zone PTR records lead to. The roots of the reverse trees will do where there is no other.
fn primary(zones: &Zones) -> Option<&Name> {
    let is_root = |zone: &&Name| matches!(zone.to_string().as_str(), "in-addr.arpa." | "ip6.arpa.");
    let is_below = |zone: &&Name| crate::reverse::is_below(zone.to_folded().as_wire());
    let forward = zones.names().iter().find(|zone| !is_root(zone) && !is_below(zone));
    forward.or_else(|| zones.names().iter().find(|zone| !is_below(zone)))
}

fn option(line: &Directive, options: &mut Options, block: &BlockBuilder<'_>) -> Result<(), Error> {
    let source = &mut options.source;
    match line.name.text.as_str() {
        "endpoint" => options.endpoint = Some(endpoint(line, block)?),
        "tls" => {
            let [cert, key, ca] = line.expect_args::<3>()?;
            let path = |token: &Token| PathBuf::from(&token.text);
            options.tls = Some(Tls { cert: path(cert), key: path(key), ca: path(ca) });
        }
        "kubeconfig" => {
            let args = line.expect_args_within(1..=2)?;
            let mut args = args.iter().map(|arg| arg.text.clone());
            let path = PathBuf::from(args.next().unwrap_or_default());
            options.kubeconfig = Some((path, args.next()));
        }
        "apiserver_qps" => source.milli_qps = qps(line)?,
        "apiserver_burst" => source.burst = count(line)?,
        "apiserver_max_inflight" => source.max_inflight = count(line)?,
        "namespaces" => namespaces(line, &mut options.namespaces)?,
        "namespace_labels" => source.namespace_labels = Some(selector(line)?),
        "labels" => source.labels = Some(selector(line)?),
        "pods" => options.pods = pods(line)?,
        "endpoint_pod_names" => {
            line.expect_no_args()?;
            source.pod_names = true;
        }
        // Words behind the first are ignored, as CoreDNS does.
        "ttl" => options.ttl = take::parse_integer(first(line, "a number from 0 to 3600")?, 0..=3600)?,
        "noendpoints" => {
            line.expect_no_args()?;
            source.endpoints = false;
        }
        "zonal" => {
            line.expect_no_args()?;
            source.zones = true;
        }
        "fallthrough" => options.fallthrough = Fallthrough::of(line.args())?,
        "ignore" => match line.args() {
            [] => {}
            [what, ..] if what.text == "empty_service" => options.ignore_empty = true,
            [what, ..] => return Err(Error::expected(what, "empty_service")),
        },
        "multicluster" => options.multicluster = multicluster(line, block)?,
        "startup_timeout" => {
            let duration = first(line, "a duration such as 5s")?;
            options.startup_timeout = take::parse_go_duration(duration)?;
        }
        _ => return Err(line.unknown_property(&OPTIONS)),
    }
    Ok(())
}

fn first<'t>(line: &'t Directive, expected: &str) -> Result<&'t Token, Error> {
    line.args().first().ok_or_else(|| Error::expected(&line.name, format!("{expected} behind it")))
}

fn endpoint(line: &Directive, block: &BlockBuilder<'_>) -> Result<String, Error> {
    let urls = line.expect_args_from(1)?;
    let Some(url) = urls.first() else { return Ok(String::new()) };
    if urls.len() > 1 {
        let text = format!(
            "{}: several endpoints are deprecated, only the first, {}, is used",
            line.name.position, url.text
        );
        block.shared.sink.line(Level::Warning, "kubernetes", text);
    }
    Ok(url.text.clone())
}

/// Requests a second, in thousandths; `None` where 0 leaves it to whoever asks.
fn qps(line: &Directive) -> Result<Option<u64>, Error> {
    let [token] = line.expect_args::<1>()?;
    let qps = token.text.parse::<f64>().ok().filter(|qps| (0.0..=1e9).contains(qps));
    let qps = qps.ok_or_else(|| Error::expected(token, "a number that is not below 0"))?;
    Ok(Some((qps * 1000.0).ceil() as u64).filter(|qps| *qps > 0))
}

fn count(line: &Directive) -> Result<Option<u32>, Error> {
    let [token] = line.expect_args::<1>()?;
    take::parse_integer(token, 0..=i32::MAX as u32).map(|count| Some(count).filter(|n| *n > 0))
}

fn namespaces(line: &Directive, into: &mut Vec<Box<[u8]>>) -> Result<(), Error> {
    for arg in line.expect_args_from(1)? {
        match u8::try_from(arg.text.len()) {
            Ok(len @ 1..=63) => {
                let mut label = vec![len];
                label.extend(arg.text.bytes());
                into.push(label.into());
            }
            _ => return Err(Error::expected(arg, "a namespace of 1 to 63 characters")),
        }
    }
    Ok(())
}

fn selector(line: &Directive) -> Result<String, Error> {
    let args = line.expect_args_from(1)?;
    let words: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
    let text = words.join(" ");
    match (selector::check(&text), args.first()) {
        (Err(wrong), Some(first)) => {
            Err(Error::invalid(first, format!("unable to parse label selector '{text}': {wrong}")))
        }
        _ => Ok(text),
    }
}

fn pods(line: &Directive) -> Result<PodMode, Error> {
    let [mode] = line.expect_args::<1>()?;
    match mode.text.as_str() {
        "disabled" => Ok(PodMode::Disabled),
        "insecure" => Ok(PodMode::Insecure),
        "verified" => Ok(PodMode::Verified),
        _ => Err(Error::expected(mode, "disabled, verified or insecure")),
    }
}

fn multicluster(line: &Directive, block: &BlockBuilder<'_>) -> Result<Vec<(Name, Token)>, Error> {
    let mut found = Vec::new();
    for arg in line.args() {
        let zones = Zones::of(std::slice::from_ref(arg), &block.zones)?;
        found.extend(zones.names().iter().map(|zone| (zone.clone(), arg.clone())));
    }
    Ok(found)
}

/// What lines do not allow each other.
fn check(directive: &Directive, options: &Options, zones: &Zones) -> Result<(), Error> {
    let line = |name: &str| {
        let line = directive.lines().iter().rev().find(|line| line.name.text == name);
        line.unwrap_or(directive)
    };
    if !options.namespaces.is_empty() && options.source.namespace_labels.is_some() {
        let text = "namespaces and namespace_labels cannot both be set: expected one of them";
        return Err(line("namespace_labels").invalid(text));
    }
    for (zone, token) in &options.multicluster {
        if !zones.names().contains(zone) {
            let text = format!(
                "is not authoritative for the multicluster zone {zone}: expected one of {}",
                zones.names().iter().map(Name::to_string).collect::<Vec<_>>().join(" ")
            );
            return Err(Error::invalid(token, text));
        }
    }
    if options.source.zones && !options.source.endpoints {
        let text = "zonal requires the endpoint cache: expected no noendpoints beside it";
        return Err(line("zonal").invalid(text));
    }
    Ok(())
}

fn api(
    endpoint: Option<String>,
    tls: Option<Tls>,
    kubeconfig: Option<(PathBuf, Option<String>)>,
) -> Api {
    match (kubeconfig, endpoint) {
        (Some((path, context)), _) => Api::Kubeconfig { path, context },
        (None, Some(url)) => Api::Endpoint { url, tls },
        (None, None) => Api::InCluster,
    }
}

/// Addresses that clients may know this server by: those it is bound to, else all of the host.
fn local_addresses(block: &BlockBuilder<'_>) -> Vec<IpAddr> {
    let mut local: Vec<IpAddr> = match block.settings.bind.as_slice() {
        [] => block.options.interfaces.values().flatten().copied().collect(),
        bound => bound.to_vec(),
    };
    local.retain(|address| !address.to_canonical().is_loopback());
    local.sort();
    local.dedup();
    local
}
