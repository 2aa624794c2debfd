//! What the templates of a rule see, by the names CoreDNS gives it.

use super::Rule;
use super::matching::{Found, Groups};
use crate::expression::Facts;
use crate::metadata::Source;
use nodens_expr::Value as ExprValue;
use nodens_gotemplate::{CallError, Object, Parameter, Shape, Value};
use nodens_wire::{Class, Flags, Opcode, Rcode, Type};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Everything about one match.
pub(super) struct Data<'d> {
    facts: Facts<'d>,
    zone: String,
    regex: &'d str,
    class: &'static str,
    qtype: &'static str,
    matched: Strings,
    group: Map,
    message: Message,
    var: Value<'static>,
}

impl<'d> Data<'d> {
    pub(super) fn new(source: Source<'d>, rule: &'d Rule, found: &Found) -> Self {
        let facts = Facts::new(source);
        let pattern = rule.pattern(found);
        let Groups { list, named } = Groups::new(pattern, facts.name());
        let q = &source.job.current;
        let values = rule.vars.iter().zip(&found.vars);
        let vars: BTreeMap<_, _> =
            values.map(|((name, _), value)| (name.clone(), convert(value))).collect();
        Self {
            zone: rule.zones.names().get(found.zone).map(ToString::to_string).unwrap_or_default(),
            regex: pattern.map_or(".*", |pattern| pattern.text.as_str()),
            class: rule.class_text(q.qclass),
            qtype: rule.type_text(q.qtype),
            matched: Strings(list),
            group: Map(named),
            message: Message::new(source),
            var: Value::from(vars),
            facts,
        }
    }
}

impl fmt::Debug for Data<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Data")
    }
}

impl Object for Data<'_> {
    fn type_name(&self) -> &str {
        "*template.templateData"
    }

    fn field(&self, name: &str) -> Option<Value<'_>> {
        Some(match name {
            "Zone" => Value::from(self.zone.as_str()),
            "Name" => Value::from(self.facts.name()),
            "Regex" => Value::from(self.regex),
            "Match" => Value::Object(&self.matched),
            "Group" => Value::Object(&self.group),
            "Class" => Value::from(self.class),
            "Type" => Value::from(self.qtype),
            "Message" => Value::Object(&self.message),
            "Question" => Value::Object(&self.message.question.0),
            "Remote" => Value::from(self.facts.client_ip()),
            "Var" => self.var.clone(),
            _ => return None,
        })
    }

    fn method(&self, name: &str) -> Option<&[Parameter]> {
        (name == "Meta").then_some(&[Parameter::Str])
    }

    fn call(&self, name: &str, arguments: &[Value<'_>]) -> Result<Value<'_>, CallError> {
        match (name, arguments) {
            ("Meta", [Value::Str(label)]) => Ok(Value::from(self.facts.metadata(label))),
            _ => Err(CallError::new(format!("no method {name}"))),
        }
    }
}

/// A value of an expression as templates have it.
fn convert(value: &ExprValue<'static>) -> Value<'static> {
    match value {
        ExprValue::Nil => Value::Nil,
        ExprValue::Bool(value) => Value::Bool(*value),
        ExprValue::Int(value) => Value::Int(*value),
        ExprValue::Float(value) => Value::Float(*value),
        ExprValue::Str(text) => Value::from(text.to_string()),
        ExprValue::Range(..) | ExprValue::Array(_) => {
            let length = value.array_len().unwrap_or_default();
            let elements = (0..length).filter_map(|at| value.element(at));
            Value::from(elements.map(|element| convert(&element)).collect::<Vec<_>>())
        }
        ExprValue::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| (key.to_string(), convert(value)));
            Value::from(entries.collect::<BTreeMap<_, _>>())
        }
    }
}

/// `[]string`
#[derive(Debug)]
struct Strings(Vec<String>);

impl Object for Strings {
    fn type_name(&self) -> &str {
        "[]string"
    }
    fn shape(&self) -> Shape {
        Shape::List
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn element(&self, position: usize) -> Option<(Value<'_>, Value<'_>)> {
        self.0.get(position).map(|text| (Value::from(position), Value::from(text.as_str())))
    }
}

/// `map[string]string`
#[derive(Debug)]
struct Map(BTreeMap<String, String>);

impl Object for Map {
    fn type_name(&self) -> &str {
        "map[string]string"
    }
    fn shape(&self) -> Shape {
        Shape::Map
    }
    fn field(&self, name: &str) -> Option<Value<'_>> {
        self.0.get(name).map(|value| Value::from(value.as_str()))
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn element(&self, position: usize) -> Option<(Value<'_>, Value<'_>)> {
        let entry = self.0.iter().nth(position);
        entry.map(|(key, value)| (Value::from(key.as_str()), Value::from(value.as_str())))
    }
    fn zero(&self) -> Value<'_> {
        Value::from("")
    }
}

/// The request, as Go's `*dns.Msg`.
#[derive(Debug)]
struct Message {
    id: u16,
    flags: Flags,
    question: Questions,
    extra: Extra,
    nothing: Strings,
}

impl Message {
    fn new(source: Source<'_>) -> Self {
        let (query, q) = (&source.job.query, &source.job.current);
        let question = Question { name: q.qname.to_string(), qtype: q.qtype, qclass: q.qclass };
        let opt = q.edns.as_ref().map(|edns| Opt { udp_size: edns.udp_size, flags: edns.flags });
        Self {
            id: query.id,
            flags: q.flags,
            question: Questions(question),
            extra: Extra(opt),
            nothing: Strings(Vec::new()),
        }
    }
}

impl Object for Message {
    fn type_name(&self) -> &str {
        "*dns.Msg"
    }

    fn field(&self, name: &str) -> Option<Value<'_>> {
        let flag = |mask| Value::from(self.flags.has(mask));
        Some(match name {
            "Id" => Value::from(self.id),
            "Response" => flag(Flags::QR),
            "Opcode" => Value::Int(self.flags.opcode().0.into()),
            "Authoritative" => flag(Flags::AA),
            "Truncated" => flag(Flags::TC),
            "RecursionDesired" => flag(Flags::RD),
            "RecursionAvailable" => flag(Flags::RA),
            "Zero" => flag(Flags::Z),
            "AuthenticatedData" => flag(Flags::AD),
            "CheckingDisabled" => flag(Flags::CD),
            "Rcode" => Value::Int(self.flags.rcode().0.into()),
            "Compress" => Value::from(false),
            "Question" => Value::Object(&self.question),
            "Answer" | "Ns" => Value::Object(&self.nothing),
            "Extra" => Value::Object(&self.extra),
            _ => return None,
        })
    }

    fn method(&self, name: &str) -> Option<&[Parameter]> {
        (name == "IsEdns0").then_some(&[])
    }

    fn call(&self, _name: &str, _arguments: &[Value<'_>]) -> Result<Value<'_>, CallError> {
        Ok(self.extra.0.as_ref().map_or(Value::NilObject, |opt| Value::Object(opt)))
    }

    fn print(&self, out: &mut dyn Write) -> fmt::Result {
        let (opcode, rcode): (Opcode, Rcode) = (self.flags.opcode(), self.flags.rcode());
        writeln!(out, ";; opcode: {opcode}, status: {rcode}, id: {}", self.id)?;
        self.question.0.print(out)
    }
}

/// `dns.Question`, the name in the case of the request.
#[derive(Debug)]
struct Question {
    name: String,
    qtype: Type,
    qclass: Class,
}

impl Object for Question {
    fn type_name(&self) -> &str {
        "*dns.Question"
    }
    fn field(&self, name: &str) -> Option<Value<'_>> {
        Some(match name {
            "Name" => Value::from(self.name.as_str()),
            "Qtype" => Value::from(self.qtype.0),
            "Qclass" => Value::from(self.qclass.0),
            _ => return None,
        })
    }
    fn print(&self, out: &mut dyn Write) -> fmt::Result {
        write!(out, ";{}\t{}\t {}", self.name, self.qclass, self.qtype)
    }
}

/// `[]dns.Question` with one element.
#[derive(Debug)]
struct Questions(Question);

impl Object for Questions {
    fn type_name(&self) -> &str {
        "[]dns.Question"
    }
    fn shape(&self) -> Shape {
        Shape::List
    }
    fn len(&self) -> usize {
        1
    }
    fn element(&self, position: usize) -> Option<(Value<'_>, Value<'_>)> {
        (position == 0).then_some((Value::Int(0), Value::Object(&self.0)))
    }
}

/// `[]dns.RR` with the OPT record, if the request has one.
#[derive(Debug)]
struct Extra(Option<Opt>);

impl Object for Extra {
    fn type_name(&self) -> &str {
        "[]dns.RR"
    }
    fn shape(&self) -> Shape {
        Shape::List
    }
    fn len(&self) -> usize {
        self.0.iter().len()
    }
    fn element(&self, position: usize) -> Option<(Value<'_>, Value<'_>)> {
        let opt = self.0.as_ref().filter(|_| position == 0)?;
        Some((Value::Int(0), Value::Object(opt)))
    }
}

/// `*dns.OPT`
#[derive(Debug)]
struct Opt {
    udp_size: u16,
    flags: u16,
}

impl Object for Opt {
    fn type_name(&self) -> &str {
        "*dns.OPT"
    }
    fn method(&self, name: &str) -> Option<&[Parameter]> {
        matches!(name, "UDPSize" | "Do" | "Version").then_some(&[])
    }
    fn call(&self, name: &str, _arguments: &[Value<'_>]) -> Result<Value<'_>, CallError> {
        Ok(match name {
            "UDPSize" => Value::from(self.udp_size),
            "Do" => Value::from(self.flags & nodens_wire::edns::DO != 0),
            _ => Value::Uint(0),
        })
    }
}
