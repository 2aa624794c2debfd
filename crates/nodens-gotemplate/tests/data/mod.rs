//! Data such as a record template sees.

use nodens_gotemplate::{CallError, Object, Parameter, Shape, Value};
use std::collections::BTreeMap;
use std::fmt;

/// A query.
#[derive(Debug)]
pub(crate) struct Data {
    matched: Strings,
    group: Group,
    message: Message,
    question: Question,
    var: Value<'static>,
    numbers: Numbers,
    empty: Strings,
}

const NAME: &str = "ip-10-1-2-3.example.";

/// The query that the expected outputs were made with.
pub(crate) fn data() -> Data {
    Data {
        matched: Strings(vec![NAME, "10", "1", "2", "3"]),
        group: Group(BTreeMap::from([
            ("0", NAME),
            ("a", "10"),
            ("b", "7b"),
            ("c", "2"),
            ("d", "3"),
            ("empty", ""),
        ])),
        message: Message { questions: Questions(Question), extra: Nothing, edns: Edns },
        question: Question,
        var: Value::from(var()),
        numbers: Numbers,
        empty: Strings(Vec::new()),
    }
}

fn var() -> BTreeMap<String, Value<'static>> {
    let list =
        vec![Value::from("a"), Value::Int(1), Value::Nil, Value::Bool(true), Value::Float(2.5)];
    let inner =
        BTreeMap::from([("b".to_owned(), Value::Int(2)), ("a".to_owned(), Value::from("one"))]);
    [
        ("ip", Value::from("10.0.0.1")),
        ("count", Value::Int(3)),
        ("ratio", Value::Float(1.5)),
        ("flag", Value::Bool(true)),
        ("off", Value::Bool(false)),
        ("zero", Value::Int(0)),
        ("none", Value::Nil),
        ("text", Value::from("héllo <b>&\"x'")),
        ("neg", Value::Int(-42)),
        ("big", Value::Uint(u64::MAX)),
        ("tiny", Value::Float(1e-7)),
        ("huge", Value::Float(1e21)),
        ("million", Value::Float(1e6)),
        ("list", Value::from(list)),
        ("inner", Value::from(inner)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

impl Object for Data {
    fn type_name(&self) -> &str {
        "*main.Data"
    }

    fn field(&self, name: &str) -> Option<Value<'_>> {
        Some(match name {
            "Zone" => Value::from("example."),
            "Name" => Value::from(NAME),
            "Class" => Value::from("IN"),
            "Type" => Value::from("A"),
            "Remote" => Value::from("192.0.2.7"),
            "Match" => Value::Object(&self.matched),
            "Group" => Value::Object(&self.group),
            "Message" => Value::Object(&self.message),
            "Question" => Value::Object(&self.question),
            "Nothing" => Value::NilObject,
            "Var" => self.var.clone(),
            "Numbers" => Value::Object(&self.numbers),
            "Empty" => Value::Object(&self.empty),
            _ => return None,
        })
    }

    fn method(&self, name: &str) -> Option<&[Parameter]> {
        match name {
            "Meta" | "Fail" => Some(&[Parameter::Str]),
            "Add" => Some(&[Parameter::Int, Parameter::Int]),
            _ => None,
        }
    }

    fn call(&self, name: &str, arguments: &[Value<'_>]) -> Result<Value<'_>, CallError> {
        match (name, arguments) {
            ("Meta", [Value::Str(label)]) if label == "kubernetes/client-namespace" => {
                Ok(Value::from("default"))
            }
            ("Meta", [_]) => Ok(Value::from("")),
            ("Add", [Value::Int(a), Value::Int(b)]) => Ok(Value::Int(a + b)),
            _ => Err(CallError::new("refused")),
        }
    }
}

/// `[]string`
#[derive(Debug)]
struct Strings(Vec<&'static str>);

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
        self.0.get(position).map(|text| (Value::from(position), Value::from(*text)))
    }
}

/// `map[string]string`
#[derive(Debug)]
struct Group(BTreeMap<&'static str, &'static str>);

impl Object for Group {
    fn type_name(&self) -> &str {
        "map[string]string"
    }
    fn shape(&self) -> Shape {
        Shape::Map
    }
    fn field(&self, name: &str) -> Option<Value<'_>> {
        self.0.get(name).map(|value| Value::from(*value))
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn element(&self, position: usize) -> Option<(Value<'_>, Value<'_>)> {
        self.0.iter().nth(position).map(|(key, value)| (Value::from(*key), Value::from(*value)))
    }
    fn zero(&self) -> Value<'_> {
        Value::from("")
    }
}

/// `[]int{3, 1, 2}`
#[derive(Debug)]
struct Numbers;

impl Object for Numbers {
    fn type_name(&self) -> &str {
        "[]int"
    }
    fn shape(&self) -> Shape {
        Shape::List
    }
    fn len(&self) -> usize {
        3
    }
    fn element(&self, position: usize) -> Option<(Value<'_>, Value<'_>)> {
        [3, 1, 2].get(position).map(|number| (Value::from(position), Value::Int(*number)))
    }
}

#[derive(Debug)]
struct Message {
    questions: Questions,
    extra: Nothing,
    edns: Edns,
}

impl Object for Message {
    fn type_name(&self) -> &str {
        "*main.Message"
    }
    fn field(&self, name: &str) -> Option<Value<'_>> {
        Some(match name {
            "Header" => Value::Object(&Header),
            "Question" => Value::Object(&self.questions),
            "Extra" => Value::Object(&self.extra),
            _ => return Header.field(name).map(|_| header_field(name)),
        })
    }
    fn method(&self, name: &str) -> Option<&[Parameter]> {
        (name == "IsEdns0").then_some(&[])
    }
    fn call(&self, _name: &str, _arguments: &[Value<'_>]) -> Result<Value<'_>, CallError> {
        Ok(Value::Object(&self.edns))
    }
    fn print(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("MESSAGE")
    }
}

#[derive(Debug)]
struct Header;

fn header_field(name: &str) -> Value<'static> {
    match name {
        "Id" => Value::Uint(4660),
        "Response" => Value::Bool(false),
        _ => Value::Int(0),
    }
}

impl Object for Header {
    fn type_name(&self) -> &str {
        "main.Header"
    }
    fn field(&self, name: &str) -> Option<Value<'_>> {
        matches!(name, "Id" | "Response" | "Opcode" | "Rcode").then(|| header_field(name))
    }
    fn print(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("{4660 false 0 0}")
    }
}

#[derive(Debug)]
struct Question;

impl Object for Question {
    fn type_name(&self) -> &str {
        "*main.Question"
    }
    fn field(&self, name: &str) -> Option<Value<'_>> {
        match name {
            "Name" => Some(Value::from(NAME)),
            "Qtype" | "Qclass" => Some(Value::Uint(1)),
            _ => None,
        }
    }
    fn print(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, ";{NAME}\tIN\t A")
    }
}

/// A list of one question.
#[derive(Debug)]
struct Questions(Question);

impl Object for Questions {
    fn type_name(&self) -> &str {
        "[]main.Question"
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

#[derive(Debug)]
struct Nothing;

impl Object for Nothing {
    fn type_name(&self) -> &str {
        "[]interface {}"
    }
    fn shape(&self) -> Shape {
        Shape::List
    }
}

#[derive(Debug)]
struct Edns;

impl Object for Edns {
    fn type_name(&self) -> &str {
        "*main.Opt"
    }
    fn method(&self, name: &str) -> Option<&[Parameter]> {
        matches!(name, "UDPSize" | "Do").then_some(&[])
    }
    fn call(&self, name: &str, _arguments: &[Value<'_>]) -> Result<Value<'_>, CallError> {
        Ok(if name == "Do" { Value::Bool(true) } else { Value::Uint(1232) })
    }
}
