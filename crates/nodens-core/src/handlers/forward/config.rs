//! Reads `forward FROM TO... { ... }`.

use super::Forward;
use crate::asking::{self, Asking, Policy, Series};
use crate::config::BlockBuilder;
use crate::destinations::{self, Destination, Encryption};
use crate::limits::ZONES_NAMED_MAX;
use crate::handlers::Handler;
use crate::transport::ListenerKind;
use crate::upstream::{Key, Settings, Upstream};
use nodens_corefile::take::{
    format_go_duration, parse_go_duration, parse_integer, parse_ip,
};
use nodens_corefile::{Directive, Error, Token};
use nodens_wire::{Name, Rcode};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// The properties, as their users know them.
const PROPERTIES: [&str; 21] = [
    "except",
    "force_tcp",
    "prefer_udp",
    "policy",
    "max_fails",
    "health_check",
    "expire",
    "max_age",
    "max_idle_conns",
    "read_timeout",
    "max_concurrent",
    "max_connect_attempts",
    "next",
    "next_on_nodata",
    "failover",
    "failfast_all_unhealthy_upstreams",
    "source_address",
    "resolver",
    "tls",
    "tls_servername",
    "doh_method",
];

/// What is spoken with upstreams by the schemes of their TOs.
const KINDS: [ListenerKind; 3] = [ListenerKind::Tls, ListenerKind::Https, ListenerKind::Quic];

/// What the body says.
#[derive(Debug)]
pub(super) struct Options {
    pub except: Vec<Name>,
    pub force_tcp: bool,
    pub prefer_udp: bool,
    pub max_concurrent: Option<u32>,
    pub next: Vec<Rcode>,
    pub next_on_nodata: bool,
    pub failover: Vec<Rcode>,
    pub asking: asking::Options,
    pub source: Option<IpAddr>,
    pub resolvers: Vec<SocketAddr>,
    pub encryption: Encryption,
    pub settings: Settings,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            except: Vec::new(),
            force_tcp: false,
            prefer_udp: false,
            max_concurrent: None,
            next: Vec::new(),
            next_on_nodata: false,
            failover: Vec::new(),
            asking: asking::Options::default(),
            source: None,
            resolvers: Vec::new(),
            encryption: Encryption::new("forward"),
            settings: Settings::default(),
        }
    }
}

/// Reads one `forward`. Several in a block are asked in their order; the first whose FROM
/// contains the name has it.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let [from, to @ ..] = directive.expect_args_from(2)? else {
        return Err(directive.invalid("expected FROM and at least one TO"));
    };
    let from = destinations::zone_of_from(from, "forward", block)?;
    let mut options = Options::default();
    for line in directive.lines() {
        line.expect_no_body()?;
        property(line, &mut options, block)?;
    }
    let Settings { expire, max_age, .. } = options.settings;
    if !max_age.is_zero() && max_age < expire {
        let (age, expire) = (format_go_duration(max_age), format_go_duration(expire));
        return Err(directive.invalid(format!("max_age ({age}) must not be less than expire ({expire})")));
    }
    let upstreams = upstreams(directive, to, &mut options, block)?;
    let registry = &block.shared.registry;
    let loops = block.handlers.iter().find_map(|handler| match handler {
        Handler::Loop(handler) => Some(handler.state()),
        _ => None,
    });
    let counter = |name, help| registry.counter(name, help, &[]);
    let all_down = counter(
        "coredns_forward_healthcheck_broken_total",
        "Queries that found all upstreams down.",
    );
    let rejects = counter(
        "coredns_forward_max_concurrent_rejects_total",
        "Queries refused for max_concurrent.",
    );
    let retries = counter(
        "nodens_forward_retries_total",
        "Attempts after the first for a query, because of no response or no usable one.",
    );
    let put_off = counter(
        "nodens_forward_retries_suppressed_total",
        "Retries that were due and not sent then, because there had been too many.",
    );
    let asking = Asking {
        upstreams,
        options: std::mem::take(&mut options.asking),
        instance: block.shared.in_flight.instance(),
        floor: Default::default(),
        reserve: Default::default(),
        origin: "forward",
        zones: zones_named(&from, &block.zones),
        last_error: Default::default(),
        series: Series { all_down, retries, put_off },
    };
    block.push(Forward {
        from,
        except: std::mem::take(&mut options.except),
        asking: Box::new(asking),
        options: Box::new(options),
        concurrent: Default::default(),
        loops,
        rejects,
    });
    Ok(())
}

/// The servers that `to` stands for.
fn upstreams(
    directive: &Directive,
    to: &[Token],
    options: &mut Options,
    block: &mut BlockBuilder<'_>,
) -> Result<Vec<Arc<Upstream>>, Error> {
    let (origin, kind, resolvers) = ("forward", ListenerKind::Dns, Some(&*options.resolvers));
    let rules = destinations::Rules { origin, kind, kinds: &KINDS, resolvers };
    let destinations = destinations::all(to, rules, block)?;
    let upstream = |to: Destination| {
        let key = Key {
            address: to.address,
            kind: to.kind,
            source: options.source,
            tls: options.encryption.peer(&to, directive, block)?,
            settings: options.settings.clone(),
        };
        Ok(block.shared.upstreams.get(key, &block.shared.registry))
    };
    destinations.into_iter().map(upstream).collect()
}

/// The zones whose queries are passed on, as far as they have room in a line of the log.
fn zones_named(from: &Name, zones: &[Name]) -> String {
    if !from.view().is_root() {
        return from.to_string();
    }
    let named = zones.iter().take(ZONES_NAMED_MAX);
    let mut text = named.map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if zones.len() > ZONES_NAMED_MAX {
        text += " and others";
    }
    text
}

fn property(
    line: &Directive,
    options: &mut Options,
    block: &mut BlockBuilder<'_>,
) -> Result<(), Error> {
    let settings = &mut options.settings;
    match line.name.text.as_str() {
        "except" => destinations::read_except(line, &mut options.except)?,
        "force_tcp" => options.force_tcp = flag(line)?,
        "prefer_udp" => options.prefer_udp = flag(line)?,
        "next_on_nodata" => options.next_on_nodata = flag(line)?,
        "failfast_all_unhealthy_upstreams" => options.asking.failfast = flag(line)?,
        "policy" => options.asking.policy = policy(line)?,
        "max_fails" => options.asking.max_fails = number(line)?,
        "max_connect_attempts" => options.asking.max_connect_attempts = Some(number(line)?),
        "max_concurrent" => {
            options.max_concurrent = Some(number(line)?).filter(|most| *most > 0);
        }
        "max_idle_conns" => settings.idle_max = number(line)? as usize,
        "health_check" => health_check(line, settings)?,
        "expire" => settings.expire = duration(line)?,
        "max_age" => settings.max_age = duration(line)?,
        "read_timeout" => {
            options.asking.read_timeout = duration(line)?;
            if options.asking.read_timeout.is_zero() {
                return Err(line.invalid("read_timeout must be positive: 0s"));
            }
        }
        "next" => options.next.extend(rcodes(line)?),
        "failover" => failover(line, options)?,
        "source_address" => {
            let [address] = line.expect_args()?;
            options.source = Some(parse_ip(address)?.to_canonical());
        }
        "resolver" => {
            let servers = line.expect_args_from(1)?.iter().map(destinations::resolver);
            options.resolvers = servers.collect::<Result<_, _>>()?;
        }
        "tls" => options.encryption.read_files(line, block)?,
        "tls_servername" => options.encryption.read_name(line)?,
        "doh_method" => {
            let [method] = line.expect_args()?;
            settings.doh_get = match method.text.as_str() {
                "GET" => true,
                "POST" => false,
                _ => return Err(Error::expected(method, "GET or POST")),
            };
        }
        _ => return Err(line.unknown_property(&PROPERTIES)),
    }
    Ok(())
}

fn flag(line: &Directive) -> Result<bool, Error> {
    line.expect_no_args().map(|()| true)
}

fn number(line: &Directive) -> Result<u32, Error> {
    let [number] = line.expect_args()?;
    parse_integer(number, 0..=u32::MAX)
}

fn duration(line: &Directive) -> Result<Duration, Error> {
    let [duration] = line.expect_args()?;
    parse_go_duration(duration)
}

fn policy(line: &Directive) -> Result<Policy, Error> {
    let [word] = line.expect_args()?;
    match word.text.as_str() {
        "random" => Ok(Policy::Random),
        "round_robin" => Ok(Policy::RoundRobin(AtomicUsize::new(0))),
        "sequential" => Ok(Policy::Sequential),
        "rtt" => Ok(Policy::Rtt),
        other => Err(Error::invalid(
            word,
            format!("unknown policy '{other}': expected random, round_robin, sequential or rtt"),
        )),
    }
}

/// `health_check DURATION [no_rec] [domain NAME]`
fn health_check(line: &Directive, settings: &mut Settings) -> Result<(), Error> {
    let [interval, rest @ ..] = line.expect_args_from(1)? else {
        return Err(line.invalid("health_check: expected a duration"));
    };
    settings.probe_interval = parse_go_duration(interval)?;
    settings.probe_domain = Name::root();
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match word.text.as_str() {
            "no_rec" => settings.probe_recursion = false,
            "domain" => {
                let domain = rest.next().ok_or_else(|| Error::expected(word, "a name after it"))?;
                let parsed = Name::parse(&domain.text);
                settings.probe_domain = parsed.map_err(|error| {
                    let text = &domain.text;
                    let text = format!("health_check: invalid domain name {text}: {error}");
                    Error::invalid(domain, text)
                })?;
            }
            other => {
                let text = format!(
                    "health_check: unknown option {other}: expected no_rec or domain NAME"
                );
                return Err(Error::invalid(word, text));
            }
        }
    }
    Ok(())
}

fn rcodes(line: &Directive) -> Result<Vec<Rcode>, Error> {
    let rcode = |word: &Token| match word.text.to_ascii_uppercase().as_str() {
        // Names that only CoreDNS's library has.
        "NOTIMPL" => Ok(Rcode::NOTIMP),
        "BADSIG" => Ok(Rcode::BADVERS),
        text => {
            let parsed = text.parse::<Rcode>().ok().filter(|rcode| rcode.mnemonic().is_some());
            parsed.ok_or_else(|| Error::invalid(word, format!("{} is not a valid rcode", word.text)))
        }
    };
    line.expect_args_from(1)?.iter().map(rcode).collect()
}

fn failover(line: &Directive, options: &mut Options) -> Result<(), Error> {
    let rcodes = rcodes(line)?;
    if rcodes.contains(&Rcode::NOERROR) {
        return Err(line.invalid("NoError cannot be used in failover"));
    }
    options.failover.extend(rcodes);
    Ok(())
}
