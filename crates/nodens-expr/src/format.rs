//! Values as Go prints them.

use crate::value::Value;
use std::fmt::{self, Formatter, Write};

pub(crate) fn write(value: &Value<'_>, f: &mut Formatter<'_>) -> fmt::Result {
    match value {
        Value::Nil => f.write_str("<nil>"),
        Value::Bool(value) => write!(f, "{value}"),
        Value::Int(value) => write!(f, "{value}"),
        Value::Float(value) => float(*value, f),
        Value::Str(value) => f.write_str(value),
        Value::Range(..) | Value::Array(_) => {
            f.write_char('[')?;
            for position in 0..value.array_len().unwrap_or(0) {
                if position > 0 {
                    f.write_char(' ')?;
                }
                write(&value.element(position).unwrap_or_default(), f)?;
            }
            f.write_char(']')
        }
        Value::Map(values) => {
            f.write_str("map[")?;
            for (position, (key, value)) in values.iter().enumerate() {
                if position > 0 {
                    f.write_char(' ')?;
                }
                write!(f, "{}:", &**key)?;
                write(value, f)?;
            }
            f.write_char(']')
        }
    }
}

/// The shortest digits that tell the number apart, with an exponent below 1e-4 and from 1e6 on.
fn float(value: f64, f: &mut Formatter<'_>) -> fmt::Result {
    if value.is_nan() {
        return f.write_str("NaN");
    }
    if value.is_infinite() {
        return f.write_str(if value > 0.0 { "+Inf" } else { "-Inf" });
    }
    let scientific = format!("{value:e}");
    let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    if (-4..6).contains(&power) {
        return write!(f, "{value}");
    }
    let sign = if power < 0 { '-' } else { '+' };
    write!(f, "{mantissa}e{sign}{:02}", power.unsigned_abs())
}
