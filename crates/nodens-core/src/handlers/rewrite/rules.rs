//! What a rule matches and what it does.

use super::edns::EdnsRule;
use super::text::{Part, Rewriter, expand, parse_name, strip_suffix};
use crate::go_regex::Regex;
use nodens_wire::{Class, Name, NameRef, Rcode, Record, Type};

/// One `rewrite`.
#[derive(Debug)]
pub(super) struct Rule {
    /// Whether later rules are skipped if this one matched.
    pub(super) stop: bool,
    pub(super) action: Action,
}

impl Rule {
    /// What the rule does to responses.
    pub(super) fn changes(&self) -> &[Change] {
        match &self.action {
            Action::Name(rule) => &rule.answers,
            Action::Response { change, .. } => change,
            _ => &[],
        }
    }
}

#[derive(Debug)]
pub(super) enum Action {
    Type { from: Type, to: Type },
    Class { from: Class, to: Class },
    Name(NameRule),
    Edns(EdnsRule),
    /// `ttl` and `rcode`: questions for these names get their response changed.
    Response { names: Matcher, change: [Change; 1] },
    Cname(CnameRule),
}

/// Which names a rule is for.
#[derive(Debug)]
pub(super) enum Matcher {
    Exact(Name),
    /// Names below this one: a suffix that starts with a dot.
    Below(Name),
    /// Text in lower case.
    Prefix(String),
    Suffix(String),
    Substring(String),
    Regex(Regex),
}

impl Matcher {
    /// Whether the name matches; `text` gives it in lower case, for those who need that.
    pub(super) fn matches<'t>(&self, name: NameRef<'_>, text: impl FnOnce() -> &'t str) -> bool {
        match self {
            Self::Exact(from) => from.view() == name,
            Self::Below(zone) => name != zone.view() && name.is_in_domain(zone.view()),
            Self::Prefix(prefix) => text().starts_with(prefix),
            Self::Suffix(suffix) => text().ends_with(suffix),
            Self::Substring(part) => text().contains(part),
            Self::Regex(pattern) => pattern.is_match(text()),
        }
    }
}

/// `name`: another QNAME.
#[derive(Debug)]
pub(super) struct NameRule {
    pub(super) names: Matcher,
    pub(super) to: Replacement,
    /// `answer auto`: the new name becomes the old one wherever it stands in the response.
    pub(super) auto: bool,
    pub(super) answers: Vec<Change>,
}

#[derive(Debug)]
pub(super) enum Replacement {
    Whole(Name),
    Prefix { from: String, to: String },
    Suffix { from: String, to: String },
    Substring { from: String, to: String },
    Regex(Vec<Part>),
}

impl NameRule {
    /// The text of the new name for a name that matched; `None` if a label has no value.
    pub(super) fn new_name(
        &self,
        text: &str,
        label: impl Fn(&str) -> Option<String>,
    ) -> Option<String> {
        match (&self.to, &self.names) {
            (Replacement::Whole(name), _) => Some(super::text::name_text(name.view())),
            (Replacement::Prefix { from, to }, _) => Some(format!("{to}{}", text.strip_prefix(from)?)),
            (Replacement::Suffix { from, to }, _) => Some(format!("{}{to}", strip_suffix(text, from)?)),
            (Replacement::Substring { from, to }, _) => Some(text.replace(from, to)),
            (Replacement::Regex(parts), Matcher::Regex(pattern)) => {
                expand(parts, &pattern.captures(text)?, label)
            }
            (Replacement::Regex(_), _) => None,
        }
    }
}

/// A change of a response.
#[derive(Debug)]
pub(super) enum Change {
    /// The owner of every record.
    Owner(Rewriter),
    /// The name in the RDATA of some types.
    Value(Rewriter),
    Ttl { least: u32, most: u32 },
    Rcode { from: Rcode, to: Rcode },
}

impl Change {
    pub(super) fn apply(&self, record: &mut Record) {
        match self {
            Self::Owner(rewriter) => {
                if let Some(owner) = rewriter.rewrite(record.owner.view()) {
                    record.owner = owner;
                }
            }
            Self::Value(rewriter) => change_value(record, |name| rewriter.rewrite(name)),
            Self::Ttl { least, most } => record.ttl = record.ttl.clamp(*least, *most),
            Self::Rcode { .. } => {}
        }
    }
}

/// Changes the name that the RDATA of a record is about.
pub(super) fn change_value(record: &mut Record, new: impl FnOnce(NameRef<'_>) -> Option<Name>) {
    let start = match record.rtype {
        Type::CNAME | Type::NS | Type::DNAME | Type::PTR | Type::SOA => Some(0),
        Type::MX => Some(2),
        Type::SRV => Some(6),
        Type::NAPTR => naptr_replacement(&record.rdata),
        _ => None,
    };
    let Some(start) = start else { return };
    let Some(name) = record.rdata.get(start..).and_then(leading_name) else { return };
    let end = start + name.as_wire().len();
    if let Some(new) = new(name) {
        record.rdata.splice(start..end, new.as_wire().iter().copied());
    }
}

/// The name at the front of uncompressed octets.
pub(super) fn leading_name(octets: &[u8]) -> Option<NameRef<'_>> {
    let mut end = 0;
    loop {
        let len = usize::from(*octets.get(end)?);
        end += len + 1;
        if len == 0 {
            return NameRef::new(octets.get(..end)?).ok();
        }
    }
}

/// Where REPLACEMENT starts: behind order, preference and three character-strings (RFC 3403 4.1).
fn naptr_replacement(rdata: &[u8]) -> Option<usize> {
    let mut at = 4;
    for _ in 0..3 {
        at += 1 + usize::from(*rdata.get(at)?);
    }
    Some(at)
}

/// `cname`: another target.
#[derive(Debug)]
pub(super) enum CnameRule {
    Exact { from: Name, to: Name },
    Prefix { from: String, to: String },
    Suffix { from: String, to: String },
    Substring { from: String, to: String },
    Regex { pattern: Regex, to: Vec<Part> },
}

impl CnameRule {
    /// The new target, if the old one matches.
    pub(super) fn new_target(&self, target: NameRef<'_>) -> Option<Name> {
        if let Self::Exact { from, to } = self {
            return (from.view() == target).then(|| to.clone());
        }
        let text = super::text::name_text(target).to_ascii_lowercase();
        let new = match self {
            Self::Exact { .. } => return None,
            Self::Prefix { from, to } => format!("{to}{}", text.strip_prefix(from)?),
            Self::Suffix { from, to } => format!("{}{to}", text.strip_suffix(from)?),
            Self::Substring { from, to } if text.contains(from) => text.replace(from, to),
            Self::Substring { .. } => return None,
            Self::Regex { pattern, to } => expand(to, &pattern.captures(&text)?, |_| None)?,
        };
        parse_name(&new)
    }
}
