//! A query's functions, and variables of every type.

use nodens_expr::{CallError, Context, Environment, Type, Value};
use std::net::IpAddr;

const STRINGS: [(&str, &str); 7] = [
    ("type", "A"),
    ("name", "abc.www.example.com."),
    ("class", "IN"),
    ("proto", "udp"),
    ("client_ip", "192.0.2.7"),
    ("port", "40212"),
    ("server_ip", "127.0.0.1"),
];

/// What expressions may use.
pub(crate) fn environment() -> Environment {
    let mut environment = Environment::new();
    for (id, (name, _)) in STRINGS.iter().enumerate() {
        environment = environment.with_function(name, id, &[], Type::Str);
    }
    environment
        .with_function("server_port", 10, &[], Type::Str)
        .with_function("size", 11, &[], Type::Int)
        .with_function("id", 12, &[], Type::Int)
        .with_function("opcode", 13, &[], Type::Int)
        .with_function("bufsize", 14, &[], Type::Int)
        .with_function("do", 15, &[], Type::Bool)
        .with_function("metadata", 16, &[Type::Str], Type::Str)
        .with_function("group", 17, &[Type::Any], Type::Str)
        .with_function("incidr", 18, &[Type::Str, Type::Str], Type::Bool)
        .with_variable("ip", 0, Type::Str)
        .with_variable("count3", 1, Type::Int)
        .with_variable("ratio", 2, Type::Float)
        .with_variable("flag", 3, Type::Bool)
        .with_variable("words", 4, Type::array_of(Type::Str))
        .with_variable("things", 5, Type::array_of(Type::Any))
}

/// The query that the expected values were made with.
pub(crate) struct Query;

impl Context for Query {
    fn call<'a>(
        &'a self,
        function: usize,
        arguments: &[Value<'a>],
    ) -> Result<Value<'a>, CallError> {
        if let Some((_, value)) = STRINGS.get(function) {
            return Ok(Value::from(*value));
        }
        match (function, arguments) {
            (10, []) => Ok(Value::from("53")),
            (11, []) => Ok(Value::Int(41)),
            (12, []) => Ok(Value::Int(4660)),
            (13, []) => Ok(Value::Int(0)),
            (14, []) => Ok(Value::Int(1232)),
            (15, []) => Ok(Value::Bool(true)),
            (16, [Value::Str(label)]) if &**label == "kubernetes/client-namespace" => {
                Ok(Value::from("default"))
            }
            (16, [Value::Str(_)]) => Ok(Value::from("")),
            (17, [name]) => Ok(Value::from(match name.to_string().as_str() {
                "0" => "ip-10.example.",
                "1" | "ip" => "10-0-0-1",
                "id" => "abc",
                _ => "",
            })),
            (18, [Value::Str(address), Value::Str(network)]) => in_network(address, network),
            _ => Err(CallError::new("not of the right types")),
        }
    }

    fn variable(&self, variable: usize) -> Value<'_> {
        match variable {
            0 => Value::from("10.0.0.1"),
            1 => Value::Int(3),
            2 => Value::Float(1.5),
            3 => Value::Bool(true),
            4 => Value::from(vec![Value::from("one"), Value::from("two"), Value::from("three")]),
            _ => Value::from(vec![
                Value::from("a"),
                Value::Int(1),
                Value::Nil,
                Value::Bool(true),
                Value::Float(2.5),
            ]),
        }
    }
}

fn in_network<'a>(address: &str, network: &str) -> Result<Value<'a>, CallError> {
    let bad = || CallError::new("expected an address and a network");
    let address: IpAddr = address.parse().map_err(|_| bad())?;
    let (base, length) = network.split_once('/').ok_or_else(bad)?;
    let (base, length): (IpAddr, u32) =
        (base.parse().map_err(|_| bad())?, length.parse().map_err(|_| bad())?);
    Ok(Value::Bool(match (address, base) {
        (IpAddr::V4(address), IpAddr::V4(base)) => {
            let differing = address.to_bits() ^ base.to_bits();
            differing.checked_shr(32 - length.min(32)).unwrap_or(0) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(base)) => {
            let differing = address.to_bits() ^ base.to_bits();
            differing.checked_shr(128 - length.min(128)).unwrap_or(0) == 0
        }
        _ => false,
    }))
}
