//! Reads `grpc FROM TO... { ... }`.

use super::Grpc;
use crate::asking::{self, Asking, Policy, Series};
use crate::config::BlockBuilder;
use crate::destinations::{self, Destination, Encryption};
use crate::limits::GRPC_READ_TIMEOUT;
use crate::transport::ListenerKind;
use crate::upstream::{Key, Settings, Upstream};
use crate::zones::Fallthrough;
use nodens_corefile::{Directive, Error, Token};
use nodens_wire::Name;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The properties, as their users know them.
const PROPERTIES: [&str; 5] = ["except", "tls", "tls_servername", "policy", "fallthrough"];

/// What the body says.
#[derive(Debug)]
struct Options {
    except: Vec<Name>,
    policy: Policy,
    encryption: Encryption,
    fallthrough: Fallthrough,
}

/// Reads the directive, which may be used once.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    block.once(directive)?;
    let [from, to @ ..] = directive.expect_args_from(2)? else {
        return Err(directive.invalid("expected FROM and at least one TO"));
    };
    let from = destinations::zone_of_from(from, "grpc", block)?;
    let mut options = Options {
        except: Vec::new(),
        policy: Policy::Random,
        encryption: Encryption::new("grpc"),
        fallthrough: Fallthrough::default(),
    };
    for line in directive.lines() {
        line.expect_no_body()?;
        property(line, &mut options, block)?;
    }
    let upstreams = upstreams(directive, to, &mut options, block)?;
    let counter = |name, help| block.shared.registry.counter(name, help, &[]);
    let all_down = counter(
        "nodens_grpc_upstreams_broken_total",
        "Queries of grpc that found all upstreams down.",
    );
    let retries = counter(
        "nodens_grpc_retries_total",
        "Attempts of grpc after the first for a query, because of no response or no usable one.",
    );
    let put_off = counter(
        "nodens_grpc_retries_suppressed_total",
        "Retries of grpc that were due and not sent then, because there had been too many.",
    );
    // CoreDNS checks no health here: a call says soon enough that there is no connection.
    let rules = asking::Options {
        policy: options.policy,
        max_fails: 0,
        read_timeout: GRPC_READ_TIMEOUT,
        ..asking::Options::default()
    };
    let asking = Asking {
        upstreams,
        options: rules,
        instance: block.shared.in_flight.instance(),
        floor: Default::default(),
        reserve: Default::default(),
        origin: "grpc",
        zones: from.to_string(),
        last_error: Default::default(),
        series: Series { all_down, retries, put_off },
    };
    let Options { except, fallthrough, .. } = options;
    block.push(Grpc { from, except, asking: Box::new(asking), fallthrough });
    Ok(())
}

/// The servers that `to` stands for.
fn upstreams(
    directive: &Directive,
    to: &[Token],
    options: &mut Options,
    block: &mut BlockBuilder<'_>,
) -> Result<Vec<Arc<Upstream>>, Error> {
    let (origin, kind) = ("grpc", ListenerKind::Grpc);
    let rules = destinations::Rules { origin, kind, kinds: &[kind], resolvers: None };
    let destinations = destinations::all(to, rules, block)?;
    let upstream = |to: Destination| {
        let key = Key {
            address: to.address,
            kind: to.kind,
            source: None,
            tls: options.encryption.peer(&to, directive, block)?,
            settings: Settings::default(),
        };
        Ok(block.shared.upstreams.get(key, &block.shared.registry))
    };
    destinations.into_iter().map(upstream).collect()
}

fn property(
    line: &Directive,
    options: &mut Options,
    block: &mut BlockBuilder<'_>,
) -> Result<(), Error> {
    match line.name.text.as_str() {
        "except" => destinations::read_except(line, &mut options.except)?,
        "tls" => options.encryption.read_files(line, block)?,
        "tls_servername" => options.encryption.read_name(line)?,
        "policy" => options.policy = policy(line)?,
        "fallthrough" => options.fallthrough = Fallthrough::of(line.args())?,
        _ => return Err(line.unknown_property(&PROPERTIES)),
    }
    Ok(())
}

fn policy(line: &Directive) -> Result<Policy, Error> {
    let [word] = line.expect_args()?;
    match word.text.as_str() {
        "random" => Ok(Policy::Random),
        "round_robin" => Ok(Policy::RoundRobin(AtomicUsize::new(0))),
        "sequential" => Ok(Policy::Sequential),
        other => Err(Error::invalid(
            word,
            format!("unknown policy '{other}': expected random, round_robin or sequential"),
        )),
    }
}
