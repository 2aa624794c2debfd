//! Whether results are what `docs/result.schema.json` says.
//!
//! A check of JSON Schema as far as that document uses it; a keyword that it does not know is a
//! failure, so that nothing goes unchecked.

use crate::{Echo, lab};
use serde_json::{Map, Value, json};

/// Words that describe and do not restrict.
const SILENT: [&str; 6] = ["$schema", "$defs", "title", "description", "format", "default"];

pub(crate) struct Schema {
    root: Value,
}

impl Schema {
    fn documented() -> Self {
        Self::of("result")
    }

    /// `docs/NAME.schema.json`.
    pub(crate) fn of(name: &str) -> Self {
        let path = format!("{}/../../docs/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
        Self { root: serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap() }
    }

    /// Everything that is wrong with `value`, each with its place.
    pub(crate) fn faults(&self, value: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        self.check(&self.root, value, "", &mut faults);
        faults
    }

    fn check(&self, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
        let Some(schema) = schema.as_object() else {
            assert_eq!(schema, &Value::Bool(true), "{at}");
            return;
        };
        for (word, rule) in schema {
            let fault = match &**word {
                "type" => (!is_of_type(value, rule)).then(|| format!("is no {rule}")),
                "const" => (value != rule).then(|| format!("is not {rule}")),
                "enum" => {
                    (!rule.as_array().unwrap().contains(value)).then(|| format!("is not in {rule}"))
                }
                "minimum" => {
                    let low = value.as_f64().zip(rule.as_f64()).is_some_and(|(v, r)| v < r);
                    low.then(|| format!("is below {rule}"))
                }
                "maximum" => {
                    let high = value.as_f64().zip(rule.as_f64()).is_some_and(|(v, r)| v > r);
                    high.then(|| format!("is above {rule}"))
                }
                "minItems" | "maxItems" => {
                    let len = value.as_array().map_or(0, Vec::len) as u64;
                    let bound = rule.as_u64().unwrap();
                    let wrong = if word == "minItems" { len < bound } else { len > bound };
                    wrong.then(|| format!("has {len} items, {word} {bound}"))
                }
                "required" => missing(rule, value),
                "$ref" => {
                    let target = self.root.pointer(&rule.as_str().unwrap()[1..]).unwrap();
                    self.check(target, value, at, faults);
                    None
                }
                "anyOf" => self.choose(rule, value, |fitting| fitting > 0),
                "oneOf" => self.choose(rule, value, |fitting| fitting == 1),
                "properties"
                | "patternProperties"
                | "additionalProperties"
                | "items"
                | "prefixItems" => {
                    self.descend(schema, word, value, at, faults);
                    None
                }
                silent if SILENT.contains(&silent) => None,
                other => panic!("the schema uses `{other}`, which this check does not know"),
            };
            faults.extend(fault.map(|fault| format!("{at}: {fault}")));
        }
    }

    fn choose(
        &self,
        rules: &Value,
        value: &Value,
        right: impl Fn(usize) -> bool,
    ) -> Option<String> {
        let fitting = rules.as_array().unwrap().iter().filter(|rule| {
            let mut faults = Vec::new();
            self.check(rule, value, "", &mut faults);
            faults.is_empty()
        });
        let fitting = fitting.count();
        (!right(fitting)).then(|| format!("fits {fitting} of {rules}"))
    }

    /// Into the fields of an object, or the elements of an array.
    fn descend(
        &self,
        schema: &Map<String, Value>,
        word: &str,
        value: &Value,
        at: &str,
        faults: &mut Vec<String>,
    ) {
        let rule = &schema[word];
        match (word, value) {
            ("properties", Value::Object(fields)) => {
                for (name, rule) in rule.as_object().unwrap() {
                    if let Some(field) = fields.get(name) {
                        self.check(rule, field, &format!("{at}.{name}"), faults);
                    }
                }
            }
            ("patternProperties", Value::Object(fields)) => {
                // The only pattern there is: numbers, as of HTTP statuses.
                let rule = &rule[r"^\d+$"];
                for (name, field) in fields.iter().filter(|(name, _)| is_number(name)) {
                    self.check(rule, field, &format!("{at}.{name}"), faults);
                }
            }
            ("additionalProperties", Value::Object(fields)) => {
                let known = schema.get("properties").and_then(Value::as_object);
                let numbers = schema.contains_key("patternProperties");
                for (name, field) in fields {
                    let named = known.is_some_and(|known| known.contains_key(name));
                    if rule == false && !named && !(numbers && is_number(name)) {
                        faults.push(format!("{at}.{name}: is not known"));
                    } else if rule != false && !named {
                        self.check(rule, field, &format!("{at}.{name}"), faults);
                    }
                }
            }
            ("items", Value::Array(items)) => {
                for (n, item) in items.iter().enumerate() {
                    self.check(rule, item, &format!("{at}[{n}]"), faults);
                }
            }
            ("prefixItems", Value::Array(items)) => {
                let pairs = items.iter().zip(rule.as_array().unwrap()).enumerate();
                for (n, (item, rule)) in pairs {
                    self.check(rule, item, &format!("{at}[{n}]"), faults);
                }
            }
            _ => {}
        }
    }
}

fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|octet| octet.is_ascii_digit())
}

fn missing(required: &Value, value: &Value) -> Option<String> {
    let fields = value.as_object()?;
    let names = required.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
    let missing: Vec<_> = names.filter(|name| !fields.contains_key(*name)).collect();
    (!missing.is_empty()).then(|| format!("lacks {}", missing.join(", ")))
}

fn is_of_type(value: &Value, rule: &Value) -> bool {
    if let Some(any) = rule.as_array() {
        return any.iter().any(|rule| is_of_type(value, rule));
    }
    match rule.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("no type {other}"),
    }
}

#[test]
fn results_are_what_the_documented_schema_says() {
    let schema = Schema::documented();
    let echo = Echo::with(&["-m", "udp,tcp"]);
    let dead = crate::load::closed_port();
    let runs: [(&str, &[&str]); 4] = [
        (&echo.port, &["-Q", "300", "-l", "1.2"]),
        (&echo.port, &["-q", "4", "-n", "500", "-w", "unique", "-T", "2"]),
        (&echo.port, &["-m", "tcp", "-Q", "300", "-l", "0.3", "--conn-life", "queries=20"]),
        (&dead, &["-Q", "300", "-l", "0.3", "-t", "0.3"]),
    ];
    for (port, more) in runs {
        let output = lab(&[&["load", "-p", port, "--json"], more].concat());
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(schema.faults(&result), [""; 0], "{more:?}");
        // Where and how it was measured is in every file.
        for place in ["kernel", "cpus_allowed", "cpus_online"] {
            assert!(!result["provenance"]["host"][place].is_null(), "{place}");
        }
        for place in ["started_unix_ns", "finished_unix_ns"] {
            assert!(result["run"][place].as_u64().unwrap() > 0, "{place}");
        }
    }
}

#[test]
fn the_check_finds_what_is_wrong() {
    let schema = Schema::documented();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab-result/testdata/small.json");
    let good: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(schema.faults(&good), [""; 0]);
    let spoilt = |place: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(place).unwrap() = value;
        schema.faults(&bad).join("\n")
    };
    for (place, value, reason) in [
        ("/run", json!({}), ".run: lacks started_unix_ns"),
        ("/counts/sent", json!(-1), ".counts.sent: is below 0"),
        ("/plan/seed", json!("1"), ".plan.seed: is no \"integer\""),
        ("/plan/pace/loop", json!("half"), ".plan.pace: fits 0 of"),
        ("/seconds/1/response/buckets/0", json!([1, 2]), "has 2 items, minItems 3"),
        ("/seconds/1/response/buckets/0/2", json!(1.5), ".response.buckets[0][2]: is no"),
        ("/rcodes/NOERROR", json!(null), ".rcodes.NOERROR: is no"),
        ("/provenance/route/mtu", json!("1500"), ".provenance.route: fits 0 of"),
    ] {
        let found = spoilt(place, value);
        assert!(found.contains(reason), "{place}: {found}");
    }
}
