//! Expressions and what Go's expr 1.17.8 makes of them: `golden.json` has for each expression its type and
//! value, or whether compiling or evaluating fails. The environment below is the one that Go was given.

mod environment;

use environment::{Query, environment};
use nodens_expr::{Program, Type, Value};
use serde_json::Value as Json;

/// Where Go goes on with a value of a type that does not belong there, an evaluation fails instead. Such
/// values come only from arrays of several types.
const STRICTER: [&str; 19] = [
    "things[1] and true",
    "true and things[1]",
    "true and things[0]",
    "true and things[2]",
    "things[0] and true",
    "things[2] and true",
    "things[1] || true",
    "things[0] || true",
    "things[2] || true",
    "sort(things[1])",
    "sort(things[0])",
    "sort(things[2])",
    "min(things[0])",
    "min(things[2])",
    "max(things[0])",
    "max(things[2])",
    "sum(things[0])",
    "any(things[0], true)",
    "map(things[0], #)",
];

/// A value as the table writes it: floats end in `f`, strings are quoted.
fn show(value: &Value<'_>) -> String {
    match value {
        Value::Nil => "nil".to_owned(),
        Value::Float(_) => format!("{value}f"),
        Value::Str(text) => format!("{:?}", &**text),
        Value::Range(..) | Value::Array(_) => {
            let length = value.array_len().unwrap();
            let elements: Vec<_> =
                (0..length).map(|at| show(&value.element(at).unwrap())).collect();
            format!("[{}]", elements.join(", "))
        }
        Value::Map(values) => {
            let pairs: Vec<_> = values
                .iter()
                .map(|(key, value)| format!("{:?}: {}", &**key, show(value)))
                .collect();
            format!("{{{}}}", pairs.join(", "))
        }
        other => other.to_string(),
    }
}

fn outcome(text: &str) -> (String, Option<String>) {
    match Program::compile(text, &environment()) {
        Err(error) => ("compile error".to_owned(), Some(error.to_string())),
        Ok(program) => match program.evaluate(&Query) {
            Err(error) => ("eval error".to_owned(), Some(error.to_string())),
            Ok(value) => {
                // The table has no type of its own for nil.
                let of = match program.result() {
                    Type::Nil => Type::Any,
                    other => other,
                };
                (format!("{of} {}", show(&value)), None)
            }
        },
    }
}

#[test]
fn expressions_do_what_go_does() {
    let cases: Vec<Json> = serde_json::from_str(include_str!("golden.json")).unwrap();
    assert!(cases.len() > 3000, "{} cases", cases.len());
    let mut differences = Vec::new();
    for case in &cases {
        let text = case["expr"].as_str().unwrap();
        let expected = match case["error"].as_str() {
            _ if STRICTER.contains(&text) => "eval error".to_owned(),
            Some(error) => format!("{error} error"),
            None => {
                let of = case["type"].as_str().unwrap();
                format!("{of} {}", case["value"].as_str().unwrap())
            }
        };
        let (found, reason) = outcome(text);
        if found != expected {
            let reason = reason.unwrap_or_default();
            differences.push(format!("{text}\n  expected {expected}\n  found    {found} {reason}"));
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {} differ:\n{}",
        differences.len(),
        cases.len(),
        differences.join("\n")
    );
}

/// What Go says to each, with `name()` being `abc.www.example.com.`.
#[test]
fn patterns_are_read_as_go_does() {
    for (expression, expected) in [
        (r"name() matches '^[\\w-.]+$'", "bool true"),
        (r"name() matches '^\\Qabc.\\E'", "bool true"),
        (r"name() matches '[[a]bc'", "bool true"),
        (r"'é' matches '\\w'", "bool false"),
        (r"'٣' matches '\\d'", "bool false"),
        (r"'\u00a0\v' matches '\\s'", "bool false"),
        (r"'a&' matches '^[a&&b]+$'", "bool true"),
        (r"'a' matches '^\\B'", "bool false"),
        (r"'x{,2}' matches '^x{,2}$'", "bool true"),
        (r"name() matches name() + '\\Q['", "bool false"),
        (r"name() matches '(?x)a'", "compile error"),
        (r"name() matches '[\\b]'", "compile error"),
        (r"name() matches 'a{1001}'", "compile error"),
        (r"name() matches '(a{500}){3}'", "compile error"),
        (r"name() matches name() + '\\p{Alphabetic}'", "eval error"),
    ] {
        assert_eq!(outcome(expression).0, expected, "{expression}");
    }
    let (_, reason) = outcome("name() matches 'a**'");
    let expected = "expression 1:8: bad regular expression: error parsing regexp: invalid nested repetition operator: `**`, at character 2, ";
    assert!(reason.as_ref().is_some_and(|reason| reason.starts_with(expected)), "{reason:?}");
}
