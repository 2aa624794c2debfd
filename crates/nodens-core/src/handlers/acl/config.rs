//! `acl [ZONES…] { ACTION [type QTYPE…] [net SOURCE…] }`.

use super::{Acl, Counters, Networks, Policy, Rule, Verdict};
use crate::config::BlockBuilder;
use crate::handlers::Handler;
use crate::zones::Zones;
use nodens_corefile::{Directive, Error, Token, take};
use nodens_wire::Type;

/// Reads the directive; a repeated one adds a rule behind the earlier ones.
pub(super) fn setup(directive: &Directive, block: &mut BlockBuilder<'_>) -> Result<(), Error> {
    let zones = Zones::of(directive.args(), &block.zones)?;
    let policies = directive.lines().iter().map(policy).collect::<Result<_, _>>()?;
    let view = block.view_name();
    let names = zones.names().iter();
    let counters = names.map(|zone| Counters::new(block, &view, &zone.to_string())).collect();
    let rule = Rule { zones, policies, counters };
    if let Some(Handler::Acl(acl)) = block.handlers.last_mut() {
        acl.rules.push(rule);
        return Ok(());
    }
    let labels = [("server", &*block.server), ("view", &*view)];
    let help = "Queries that acl let pass.";
    let registry = &block.shared.registry;
    let allowed = registry.counter("coredns_acl_allowed_requests_total", help, &labels);
    block.push(Acl { rules: vec![rule], allowed });
    Ok(())
}

impl Counters {
    fn new(block: &BlockBuilder<'_>, view: &str, zone: &str) -> Self {
        let labels = [("server", &*block.server), ("zone", zone), ("view", view)];
        let counter = |name, help| block.shared.registry.counter(name, help, &labels);
        Self {
            blocked: counter(
                "coredns_acl_blocked_requests_total",
                "Queries that acl refused.",
            ),
            filtered: counter(
                "coredns_acl_filtered_requests_total",
                "Queries that acl answered without records.",
            ),
            dropped: counter(
                "coredns_acl_dropped_requests_total",
                "Queries that acl left without an answer.",
            ),
        }
    }
}

fn policy(line: &Directive) -> Result<Policy, Error> {
    line.expect_no_body()?;
    let verdict = match line.name.text.to_ascii_lowercase().as_str() {
        "allow" => Verdict::Allow,
        "block" => Verdict::Block,
        "filter" => Verdict::Filter,
        "drop" => Verdict::Drop,
        _ => return Err(line.unknown_property(&["allow", "block", "filter", "drop"])),
    };
    let (mut types, mut prefixes) = (Choice::Absent, Choice::Absent);
    let mut rest = line.args();
    while let Some((section, behind)) = rest.split_first() {
        let end = behind.iter().position(is_section).unwrap_or(behind.len());
        let (values, next) = behind.split_at(end);
        rest = next;
        if !is_section(section) {
            return Err(Error::expected(section, "`type` or `net`"));
        }
        if values.is_empty() {
            let text = format!("no token specified in {:?} section", section.text);
            return Err(Error::invalid(section, text));
        }
        if section.text.eq_ignore_ascii_case("type") {
            types.add(values, qtype)?;
        } else {
            prefixes.add(values, take::parse_ip_or_cidr)?;
        }
    }
    let networks = prefixes.some().map(Networks::new);
    Ok(Policy { verdict, types: types.some(), networks })
}

fn is_section(token: &Token) -> bool {
    token.text.eq_ignore_ascii_case("type") || token.text.eq_ignore_ascii_case("net")
}

fn qtype(token: &Token) -> Result<Type, Error> {
    let found = token.text.parse().ok().filter(|qtype: &Type| {
        qtype.mnemonic().is_none_or(|mnemonic| mnemonic == token.text)
    });
    found.ok_or_else(|| Error::expected(token, "a type such as AAAA, or *"))
}

/// The values of a section that may be given several times, or not.
enum Choice<T> {
    Absent,
    All,
    Some(Vec<T>),
}

impl<T> Choice<T> {
    /// Adds values up to a `*`, which stands for all.
    fn add(
        &mut self,
        values: &[Token],
        read: impl Fn(&Token) -> Result<T, Error>,
    ) -> Result<(), Error> {
        for value in values {
            if value.text == "*" {
                *self = Self::All;
                return Ok(());
            }
            let value = read(value)?;
            match self {
                Self::All => {}
                Self::Some(all) => all.push(value),
                Self::Absent => *self = Self::Some(vec![value]),
            }
        }
        Ok(())
    }

    fn some(self) -> Option<Vec<T>> {
        match self {
            Self::Absent | Self::All => None,
            Self::Some(values) => Some(values),
        }
    }
}
