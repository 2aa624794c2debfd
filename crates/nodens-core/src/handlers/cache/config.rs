//! Reads `cache` from the Corefile.

use crate::limits::{CACHE_MEMORY_MAX, CACHE_MEMORY_MIN};
use nodens_corefile::{Directive, Error, Token, take};
use nodens_wire::{Name, NameRef};
use std::time::Duration;

const PROPERTIES: &[&str] = &[
    "success",
    "denial",
    "prefetch",
    "serve_stale",
    "serve_stale_policy",
    "servfail",
    "disable",
    "keepttl",
    "memory",
    "client_subnet",
];

/// CoreDNS divides a cache into this many parts and so rounds capacities down to a multiple.
const SHARDS: i64 = 256;
/// The least that CoreDNS keeps in each of them.
const SHARD_MIN: i64 = 4;
/// RFC 2308 section 7.1: failures are not kept longer.
const FAILURE_TTL_MAX: Duration = Duration::from_secs(300);
/// RFC 8767 section 5 asks for no more than this between two attempts.
const RECHECK_MAX: Duration = Duration::from_secs(300);

/// What the directive says.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The zones it caches; the block's own unless it names some.
    pub(crate) zones: Vec<Name>,
    /// The same where it passes over some of them, and those: then `zones` is empty.
    partly: Option<Box<[Vec<Name>; 2]>>,
    /// Answers by class: `success`, `denial`.
    pub(crate) classes: [Class; 2],
    /// How long SERVFAIL and NOTIMP are kept; zero is not at all.
    pub(crate) failure_ttl: Duration,
    /// `prefetch`.
    pub(crate) prefetch: Option<Prefetch>,
    /// `serve_stale`.
    pub(crate) stale: Option<Stale>,
    /// `keepttl`: TTLs do not count down.
    pub(crate) keep_ttl: bool,
    /// `memory`: the budget of all blocks together, in octets.
    pub(crate) memory: Option<usize>,
    /// `client_subnet`: whether a client's option goes upstream.
    pub(crate) forward_subnet: bool,
}

/// Limits for one class of answers.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    /// Most entries, if the directive names a number.
    pub(crate) capacity: Option<usize>,
    /// Longest time to keep an answer, in seconds.
    pub(crate) ttl_max_s: u32,
    /// Shortest time to keep an answer, in seconds.
    pub(crate) ttl_min_s: u32,
    /// Zones whose answers are not kept.
    pub(crate) disabled: Vec<Name>,
}

/// `prefetch`: what is popular is refreshed before it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefetch {
    /// How many questions make an answer popular.
    pub(crate) amount: u64,
    /// A pause of this length starts the count again.
    pub(crate) gap: Duration,
    /// The part of the TTL that is left when it is time, in percent.
    pub(crate) percentage: u32,
}

/// `serve_stale`: what has expired is served while nothing newer is to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stale {
    /// How long after its expiry an answer may be served, in seconds.
    pub(crate) window_s: u32,
    /// Whether the upstream is asked first.
    pub(crate) verify: bool,
    /// How long the client waits for that; zero is as long as it takes.
    pub(crate) timeout: Duration,
    /// The TTL of a stale answer, in seconds.
    pub(crate) ttl_s: u32,
    /// Pause after a refresh that failed.
    pub(crate) recheck: Duration,
    /// `serve_stale_policy prefer_positive`.
    pub(crate) prefer_positive: bool,
}

impl Options {
    fn new(zones: Vec<Name>) -> Self {
        let class = |ttl_max_s| Class {
            capacity: None,
            ttl_max_s,
            ttl_min_s: 5,
            disabled: Vec::new(),
        };
        Self {
            zones,
            partly: None,
            classes: [class(3600), class(1800)],
            failure_ttl: Duration::from_secs(5),
            prefetch: None,
            stale: None,
            keep_ttl: false,
            memory: None,
            forward_subnet: false,
        }
    }

    /// Whether `qname` lies in a zone that is cached.
    pub(crate) fn serves(&self, qname: NameRef<'_>) -> bool {
        contains(&self.zones, qname) || self.partly.as_ref().is_some_and(|partly| {
            let [zones, live] = &**partly;
            contains(zones, qname) && !contains(live, qname)
        })
    }

    /// Passes over zones from now on.
    pub(crate) fn pass_over(&mut self, live: Vec<Name>) {
        self.partly = Some(Box::new([std::mem::take(&mut self.zones), live]));
    }

    /// The limits for one class of answers.
    pub(crate) fn class(&self, class: usize) -> &Class {
        let [success, denial] = &self.classes;
        if class == 0 { success } else { denial }
    }

    /// Whether the answer to be had should win over a newer denial.
    pub(crate) fn prefers_positive(&self) -> bool {
        self.stale.is_some_and(|stale| stale.prefer_positive && stale.window_s > 0)
    }
}

impl Class {
    /// Whether answers for `qname` are kept.
    pub(crate) fn keeps(&self, qname: NameRef<'_>) -> bool {
        !contains(&self.disabled, qname)
    }
}

fn contains(zones: &[Name], qname: NameRef<'_>) -> bool {
    zones.iter().any(|zone| zone.view().is_root() || qname.is_in_domain(zone.view()))
}

/// Reads `cache [TTL] [ZONES…] { … }` in a block for `block_zones`.
pub(crate) fn parse(directive: &Directive, block_zones: &[Name]) -> Result<Options, Error> {
    let mut options = Options::new(block_zones.to_vec());
    let mut args = directive.args();
    if let [first, rest @ ..] = args
        && first.text.parse::<i64>().is_ok()
    {
        let ttl_s = ttl(first)?;
        for class in &mut options.classes {
            class.ttl_max_s = ttl_s;
        }
        args = rest;
    }
    if !args.is_empty() {
        options.zones = zones(args)?;
    }
    let mut policy = None;
    for line in directive.lines() {
        line.expect_no_body()?;
        match line.name.text.as_str() {
            "serve_stale_policy" if policy.is_some() => {
                return Err(line.invalid("serve_stale_policy can only be specified once"));
            }
            "serve_stale_policy" => policy = Some(parse_policy(line)?),
            _ => property(line, &mut options)?,
        }
    }
    match (&mut options.stale, policy) {
        (_, None) => {}
        (Some(stale), Some(_)) => stale.prefer_positive = true,
        (None, Some(at)) => {
            return Err(Error::invalid(&at, "serve_stale_policy requires serve_stale"));
        }
    }
    Ok(options)
}

fn property(line: &Directive, options: &mut Options) -> Result<(), Error> {
    let [success, denial] = &mut options.classes;
    match line.name.text.as_str() {
        "success" => limits(line, success)?,
        "denial" => limits(line, denial)?,
        "prefetch" => options.prefetch = parse_prefetch(line)?,
        "serve_stale" => options.stale = Some(parse_stale(line)?),
        "servfail" => {
            let [duration] = line.expect_args()?;
            let range = Duration::ZERO..=FAILURE_TTL_MAX;
            options.failure_ttl = take::parse_go_duration_within(duration, range)?;
        }
        "disable" => disable(line, success, denial)?,
        "keepttl" => {
            line.expect_no_args()?;
            options.keep_ttl = true;
        }
        "memory" => {
            let [size] = line.expect_args()?;
            options.memory = Some(parse_size(size)?);
        }
        "client_subnet" => {
            let [policy] = line.expect_args()?;
            options.forward_subnet = match policy.text.as_str() {
                "strip" => false,
                "forward" => true,
                _ => return Err(Error::expected(policy, "strip or forward")),
            };
        }
        _ => return Err(line.unknown_property(PROPERTIES)),
    }
    Ok(())
}

/// `success|denial CAPACITY [TTL] [MINTTL]`; CoreDNS reads no further.
fn limits(line: &Directive, class: &mut Class) -> Result<(), Error> {
    let args = line.expect_args_from(1)?;
    if let Some(capacity) = args.first() {
        let entries: i64 = take::parse_integer(capacity, i64::MIN..=i64::MAX)
            .map_err(|_| Error::expected(capacity, "a number of entries"))?;
        let entries = (entries / SHARDS).max(SHARD_MIN) * SHARDS;
        class.capacity = Some(usize::try_from(entries).unwrap_or(usize::MAX));
    }
    if let Some(longest) = args.get(1) {
        class.ttl_max_s = ttl(longest)?;
    }
    if let Some(shortest) = args.get(2) {
        class.ttl_min_s = take::parse_integer(shortest, 0..=u32::MAX)?;
    }
    Ok(())
}

fn ttl(token: &Token) -> Result<u32, Error> {
    take::parse_integer(token, 1..=u32::MAX)
}

fn zones(args: &[Token]) -> Result<Vec<Name>, Error> {
    let mut names = Vec::new();
    for arg in args {
        for zone in take::parse_zones(std::slice::from_ref(arg))? {
            names.push(zone.parse().map_err(|error| Error::invalid(arg, format!("{error}")))?);
        }
    }
    Ok(names)
}

/// `prefetch AMOUNT [DURATION] [PERCENTAGE%]`
fn parse_prefetch(line: &Directive) -> Result<Option<Prefetch>, Error> {
    let args = line.expect_args_within(1..=3)?;
    let mut prefetch = Prefetch { amount: 0, gap: Duration::from_secs(60), percentage: 10 };
    if let Some(amount) = args.first() {
        prefetch.amount = take::parse_integer(amount, 0..=i64::MAX as u64)?;
    }
    if let Some(gap) = args.get(1) {
        prefetch.gap = take::parse_go_duration(gap)?;
    }
    if let Some(percentage) = args.get(2) {
        let number = percentage.text.strip_suffix('%').and_then(|number| number.parse().ok());
        let within = number.filter(|number| (10..=90).contains(number));
        let expected = || Error::expected(percentage, "a percentage from 10% to 90%");
        prefetch.percentage = within.ok_or_else(expected)?;
    }
    Ok(Some(prefetch).filter(|prefetch| prefetch.amount > 0))
}

/// `serve_stale [DURATION] [immediate [TTL [RECHECK]] | verify [TIMEOUT [TTL [RECHECK]]]]`
fn parse_stale(line: &Directive) -> Result<Stale, Error> {
    let args = line.expect_args_within(0..=5)?;
    let mut stale = Stale {
        window_s: 3600,
        verify: false,
        timeout: Duration::ZERO,
        ttl_s: 0,
        recheck: Duration::ZERO,
        prefer_positive: false,
    };
    if let Some(window) = args.first() {
        let window = take::parse_go_duration(window)?;
        stale.window_s = u32::try_from(window.as_secs()).unwrap_or(u32::MAX);
    }
    let mut rest = args.get(2..).unwrap_or_default();
    if let Some(mode) = args.get(1) {
        stale.verify = match mode.text.to_ascii_lowercase().as_str() {
            "immediate" => false,
            "verify" => true,
            _ => return Err(Error::expected(mode, "immediate or verify")),
        };
    }
    if stale.verify
        && let [timeout, others @ ..] = rest
    {
        stale.timeout = take::parse_go_duration(timeout)?;
        rest = others;
    }
    if let Some(ttl) = rest.first() {
        stale.ttl_s = whole_seconds(ttl)?;
    }
    if let Some(recheck) = rest.get(1) {
        stale.recheck = take::parse_go_duration_within(recheck, Duration::ZERO..=RECHECK_MAX)?;
    }
    match rest.get(2) {
        Some(extra) => Err(Error::expected(extra, "the end of the line")),
        None => Ok(stale),
    }
}

fn whole_seconds(token: &Token) -> Result<u32, Error> {
    let duration = take::parse_go_duration(token)?;
    let seconds = u32::try_from(duration.as_secs()).ok();
    let whole = seconds.filter(|_| duration.subsec_nanos() == 0);
    whole.ok_or_else(|| Error::expected(token, "a TTL in whole seconds such as 30s"))
}

fn parse_policy(line: &Directive) -> Result<Token, Error> {
    let [policy] = line.expect_args()?;
    if policy.text.eq_ignore_ascii_case("prefer_positive") {
        Ok(line.name.clone())
    } else {
        Err(Error::expected(policy, "prefer_positive"))
    }
}

/// `disable success|denial [ZONES…]`
fn disable(line: &Directive, success: &mut Class, denial: &mut Class) -> Result<(), Error> {
    let args = line.expect_args_from(1)?;
    let [which, rest @ ..] = args else { return Ok(()) };
    let class = match which.text.as_str() {
        "success" => success,
        "denial" => denial,
        _ => return Err(Error::expected(which, "success or denial")),
    };
    class.disabled = if rest.is_empty() { vec![Name::root()] } else { zones(rest)? };
    Ok(())
}

/// Octets, or a number with `KiB`, `MiB` or `GiB`.
pub(super) fn parse_size(token: &Token) -> Result<usize, Error> {
    let text = token.text.as_str();
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let unit = units.iter().find_map(|(name, bits)| Some((text.strip_suffix(name)?, *bits)));
    let (number, bits) = unit.unwrap_or((text, 0));
    let octets = number.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << bits));
    let range = CACHE_MEMORY_MIN..=CACHE_MEMORY_MAX;
    octets.filter(|octets| range.contains(octets)).ok_or_else(|| {
        let (least, most) = (CACHE_MEMORY_MIN >> 20, CACHE_MEMORY_MAX >> 30);
        Error::expected(token, format!("a size from {least}MiB to {most}GiB such as 64MiB"))
    })
}
