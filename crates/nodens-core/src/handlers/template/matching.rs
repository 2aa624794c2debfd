//! Whether a rule applies to a question, its variables and conditions, and its metrics.

use crate::limits::{NAME_TEXT_MAX, TEMPLATE_ELEMENTS_MAX};
use super::{Failure, Pattern, Rule, Series};
use crate::expression::{self, Facts};
use crate::handler::Cx;
use crate::metadata::Source;
use crate::metrics::LazyCounters;
use nodens_expr::{CallError, Context, Environment, Text, Type as ExprType, Value};
use nodens_wire::{Class, NameRef, Section, Type};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// The number of the function `group`; variables are told by their place.
const GROUP: usize = expression::FUNCTIONS_END;

/// What a rule thinks of a question.
pub(super) enum Look {
    /// It is for another rule or handler.
    Pass,
    /// It is for this rule, which has no answer.
    Refuse,
    /// The rule answers.
    Found(Found),
}

/// What the match has found out.
#[derive(Debug)]
pub(super) struct Found {
    /// Index of the zone.
    pub(super) zone: usize,
    /// Index of the pattern; `None` if the rule has none.
    pub(super) pattern: Option<usize>,
    /// The values of the rule's variables, in their order.
    pub(super) vars: Vec<Value<'static>>,
}

/// The groups of a match: by number, and by number and name.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) list: Vec<String>,
    pub(super) named: BTreeMap<String, String>,
}

impl Groups {
    /// The groups of `pattern` in `text`; without a pattern the whole text is group 0. A group
    /// that took no part is empty.
    pub(super) fn new(pattern: Option<&Pattern>, text: &str) -> Self {
        let Some((pattern, captures)) = pattern.and_then(|p| Some((p, p.regex.captures(text)?))) else {
            let named = BTreeMap::from([("0".to_owned(), text.to_owned())]);
            return Self { list: vec![text.to_owned()], named };
        };
        let list: Vec<_> =
            captures.iter().map(|group| group.unwrap_or_default().to_owned()).collect();
        let numbers = (0..list.len()).map(|number| Some(number.to_string()));
        let names = pattern.regex.capture_names().map(|name| name.map(str::to_owned));
        let keys = numbers.zip(&list).chain(names.zip(&list));
        let named = keys.filter_map(|(key, value)| Some((key?, value.clone()))).collect();
        Self { list, named }
    }
}

impl Rule {
    /// Allocates nothing unless the rule has variables or conditions.
    pub(super) fn look(&self, cx: &Cx<'_>) -> Look {
        let q = &cx.job.current;
        let Some(zone) = self.zones.longest(q.qname.view()) else { return Look::Pass };
        let same_class = self.class == q.qclass || [self.class, q.qclass].contains(&Class::ANY);
        let same_type = self.qtype == q.qtype || [self.qtype, q.qtype].contains(&Type::ANY);
        if !same_class || !same_type {
            return Look::Pass;
        }
        let mut pattern = None;
        if !self.patterns.is_empty() {
            let text = NameText::new(q.qname.view());
            pattern = self.patterns.iter().position(|pattern| pattern.regex.is_match(text.as_str()));
            if pattern.is_none() {
                return self.miss(cx);
            }
        }
        let found = Found { zone, pattern, vars: Vec::new() };
        if self.vars.is_empty() && self.conditions.is_empty() {
            return Look::Found(found);
        }
        self.evaluate(cx, found)
    }

    /// Whether a pattern matches the name.
    pub(super) fn matches(&self, qname: NameRef<'_>) -> bool {
        let text = NameText::new(qname);
        self.patterns.iter().any(|pattern| pattern.regex.is_match(text.as_str()))
    }

    fn miss(&self, cx: &Cx<'_>) -> Look {
        match self.fallthrough.lets_pass(cx.job.current.qname.view()) {
            true => Look::Pass,
            false => Look::Refuse,
        }
    }

    fn evaluate(&self, cx: &Cx<'_>, mut found: Found) -> Look {
        let facts = Facts::new(Source { job: cx.job, block: cx.block });
        let groups = Groups::new(self.pattern(&found), facts.name());
        let mut scene = Scene { facts, groups, vars: Vec::new() };
        for (_, program) in &self.vars {
            let value = program.evaluate(&scene).ok().and_then(|value| own(&value));
            match value {
                Some(value) => scene.vars.push(value),
                None => return Look::Refuse,
            }
        }
        for condition in &self.conditions {
            match condition.evaluate(&scene) {
                Ok(Value::Bool(true)) => {}
                Ok(_) => return self.miss(cx),
                Err(_) => return Look::Refuse,
            }
        }
        found.vars = scene.vars;
        Look::Found(found)
    }

    /// The pattern that matched.
    pub(super) fn pattern(&self, found: &Found) -> Option<&Pattern> {
        self.patterns.get(found.pattern?)
    }

    /// The class that templates and metrics tell: a question for any class has the rule's.
    pub(super) fn class_text(&self, qclass: Class) -> &'static str {
        let class = if qclass == Class::ANY { self.class } else { qclass };
        class.mnemonic().unwrap_or_default()
    }

    /// As [`Rule::class_text`]; a type without a name has an empty one.
    pub(super) fn type_text(&self, qtype: Type) -> &'static str {
        let qtype = if qtype == Type::ANY { self.qtype } else { qtype };
        qtype.mnemonic().unwrap_or_default()
    }
}

/// The functions that expressions of a rule have.
pub(super) fn environment() -> Environment {
    expression::environment().with_function("group", GROUP, &[ExprType::Any], ExprType::Str)
}

/// What expressions see.
struct Scene<'j> {
    facts: Facts<'j>,
    groups: Groups,
    vars: Vec<Value<'static>>,
}

impl Context for Scene<'_> {
    fn call<'a>(
        &'a self,
        function: usize,
        arguments: &[Value<'a>],
    ) -> Result<Value<'a>, CallError> {
        if function != GROUP {
            return self.facts.call(function, arguments);
        }
        let named = match arguments {
            [Value::Int(number)] => self.groups.named.get(&number.to_string()),
            [Value::Str(name)] => self.groups.named.get(&**name),
            _ => None,
        };
        Ok(Value::from(named.map_or("", String::as_str)))
    }

    fn variable(&self, variable: usize) -> Value<'_> {
        self.vars.get(variable).cloned().unwrap_or_default()
    }
}

/// A value that borrows nothing; `None` if it is larger than a variable may be.
fn own(value: &Value<'_>) -> Option<Value<'static>> {
    Some(match value {
        Value::Nil => Value::Nil,
        Value::Bool(value) => Value::Bool(*value),
        Value::Int(value) => Value::Int(*value),
        Value::Float(value) => Value::Float(*value),
        Value::Str(text) => Value::from(text.to_string()),
        Value::Range(..) | Value::Array(_) => {
            let length = value.array_len().filter(|length| *length <= TEMPLATE_ELEMENTS_MAX)?;
            let elements = (0..length).map(|at| value.element(at).and_then(|value| own(&value)));
            Value::from(elements.collect::<Option<Vec<_>>>()?)
        }
        Value::Map(entries) => {
            let owned = entries
                .iter()
                .map(|(key, value)| Some((Text::Shared(Arc::from(&**key)), own(value)?)));
            Value::from(owned.collect::<Option<BTreeMap<_, _>>>()?)
        }
    })
}

/// A name in presentation format and lower case, on the stack.
struct NameText {
    octets: [u8; NAME_TEXT_MAX],
    len: usize,
}

impl NameText {
    fn new(name: NameRef<'_>) -> Self {
        let mut text = Self { octets: [0; NAME_TEXT_MAX], len: 0 };
        // The longest name fits.
        _ = write!(text, "{name}");
        text.octets.make_ascii_lowercase();
        text
    }

    fn as_str(&self) -> &str {
        let written = self.octets.get(..self.len).unwrap_or_default();
        std::str::from_utf8(written).unwrap_or_default()
    }
}

impl Write for NameText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        let place = self.octets.get_mut(self.len..end).ok_or(std::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Types up to this number have a counter each, all others share one.
const TYPES: usize = 258;

impl Series {
    pub(super) fn new(server: String, view: String, zones: usize) -> Self {
        Self { server, view, matches: LazyCounters::new(zones * 2 * TYPES) }
    }

    pub(super) fn count_match(&self, cx: &mut Cx<'_>, rule: &Rule, found: &Found) {
        let (qtype, qclass) = (cx.job.current.qtype, cx.job.current.qclass);
        let class = usize::from(qclass != Class::IN);
        let of_type = usize::from(qtype.0).min(TYPES - 1);
        let index = (found.zone * 2 + class) * TYPES + of_type;
        let worker = &mut *cx.worker;
        let registry = &worker.parts.shared.registry;
        let register = || {
            let zone = rule.zones.names().get(found.zone).map(ToString::to_string);
            let labels = [
                ("server", &*self.server),
                ("zone", zone.as_deref().unwrap_or_default()),
                ("view", &self.view),
                ("class", rule.class_text(qclass)),
                ("type", rule.type_text(qtype)),
            ];
            let help = "Queries that a template matched.";
            registry.counter("coredns_template_matches_total", help, &labels)
        };
        self.matches.add(index, &mut worker.parts.cells, worker.parts.index, registry, register);
    }

    /// Not for the path of a hit: finds the series each time.
    pub(super) fn count_failure(
        &self,
        cx: &mut Cx<'_>,
        rule: &Rule,
        found: &Found,
        section: Section,
        failure: &Failure,
    ) {
        let (qtype, qclass) = (cx.job.current.qtype, cx.job.current.qclass);
        let (name, help) = match failure.rendered {
            false => {
                ("coredns_template_template_failures_total", "Templates that could not be rendered.")
            }
            true => ("coredns_template_rr_failures_total", "Rendered texts that are no record."),
        };
        let section = match section {
            Section::Answer => "answer",
            Section::Authority => "authority",
            Section::Additional => "additional",
        };
        let zone = rule.zones.names().get(found.zone).map(ToString::to_string);
        let labels = [
            ("server", &*self.server),
            ("zone", zone.as_deref().unwrap_or_default()),
            ("view", &self.view),
            ("class", rule.class_text(qclass)),
            ("type", rule.type_text(qtype)),
            ("section", section),
            ("template", &failure.template),
        ];
        let worker = &mut *cx.worker;
        let registry = &worker.parts.shared.registry;
        let register = || registry.counter(name, help, &labels);
        LazyCounters::new(1).add(0, &mut worker.parts.cells, worker.parts.index, registry, register);
    }
}
