//! Built-in functions without a predicate.

use super::{Failure, Machine, list, member, text, wrong_type};
use crate::builtin::Builtin;
use crate::error::EvalErrorKind;
use crate::value::Value;

impl<'a> Machine<'a> {
    pub(super) fn builtin(
        &mut self,
        offset: usize,
        function: Builtin,
        values: &[Value<'a>],
    ) -> Result<Value<'a>, Failure> {
        // What a function reads; what it makes is no more, but for those that say so before.
        let cost = values.iter().fold(0usize, |cost, value| cost.saturating_add(value.size()));
        self.work(offset, cost)?;
        self.work(offset, text::growth(function, values))?;
        apply(function, values).map_err(|kind| (offset, kind))
    }
}

fn apply<'a>(function: Builtin, values: &[Value<'a>]) -> Result<Value<'a>, EvalErrorKind> {
    let first = values.first().unwrap_or(&Value::Nil);
    match function {
        Builtin::Len => match first {
            Value::Str(text) => Ok(Value::from(text.chars().count())),
            Value::Map(values) => Ok(Value::from(values.len())),
            _ => first
                .array_len()
                .map(Value::from)
                .ok_or_else(|| wrong_type("string, array or map", first)),
        },
        Builtin::Abs => match first {
            Value::Int(value) => Ok(Value::Int(value.wrapping_abs())),
            Value::Float(value) => Ok(Value::Float(value.abs())),
            _ => Err(wrong_type("number", first)),
        },
        Builtin::Ceil => float(first, f64::ceil),
        Builtin::Floor => float(first, f64::floor),
        Builtin::Round => float(first, f64::round),
        Builtin::Int => to_int(first),
        Builtin::Float => to_float(first),
        Builtin::String => Ok(match first {
            Value::Str(_) => first.clone(),
            _ => Value::from(first.to_string()),
        }),
        Builtin::Get => Ok(get(first, values.get(1).unwrap_or(&Value::Nil))),
        Builtin::BitNot => int(first).map(|value| Value::Int(!value)),
        Builtin::BitAnd
        | Builtin::BitOr
        | Builtin::BitXor
        | Builtin::BitNand
        | Builtin::BitShl
        | Builtin::BitShr
        | Builtin::BitUshr => {
            bits(function, int(first)?, int(values.get(1).unwrap_or(&Value::Nil))?)
        }
        Builtin::Max
        | Builtin::Min
        | Builtin::Mean
        | Builtin::Median
        | Builtin::First
        | Builtin::Last
        | Builtin::Take
        | Builtin::Keys
        | Builtin::Values
        | Builtin::Reverse
        | Builtin::Uniq
        | Builtin::Concat
        | Builtin::Flatten
        | Builtin::Sort => list::apply(function, values),
        _ => text::apply(function, values),
    }
}

fn float<'a>(value: &Value<'_>, apply: fn(f64) -> f64) -> Result<Value<'a>, EvalErrorKind> {
    value.as_float().map(apply).map(Value::Float).ok_or_else(|| wrong_type("number", value))
}

pub(super) fn int(value: &Value<'_>) -> Result<i64, EvalErrorKind> {
    match value {
        Value::Int(value) => Ok(*value),
        _ => Err(wrong_type("int", value)),
    }
}

fn to_int<'a>(value: &Value<'a>) -> Result<Value<'a>, EvalErrorKind> {
    match value {
        Value::Int(_) => Ok(value.clone()),
        #[expect(clippy::cast_possible_truncation, reason = "what the function is for")]
        Value::Float(value) => Ok(Value::Int(*value as i64)),
        Value::Str(text) => {
            text.parse().map(Value::Int).map_err(|_| wrong_type("text of an integer", value))
        }
        _ => Err(wrong_type("number or string", value)),
    }
}

fn to_float<'a>(value: &Value<'a>) -> Result<Value<'a>, EvalErrorKind> {
    match value {
        Value::Str(text) => {
            text.parse().map(Value::Float).map_err(|_| wrong_type("text of a number", value))
        }
        _ => float(value, |value| value),
    }
}

/// An element or a key's value, nil without one.
fn get<'a>(of: &Value<'a>, key: &Value<'_>) -> Value<'a> {
    member::fetch(of, key).unwrap_or_default()
}

fn bits<'a>(function: Builtin, left: i64, right: i64) -> Result<Value<'a>, EvalErrorKind> {
    let shift = || match u32::try_from(right) {
        Ok(shift) => Ok(shift),
        Err(_) if right > 0 => Ok(u32::MAX),
        Err(_) => Err(EvalErrorKind::Call {
            function: function.name().to_owned(),
            reason: format!("shift by {right}, expected 0 or more"),
        }),
    };
    #[expect(clippy::cast_sign_loss, clippy::cast_possible_wrap, reason = "bits, not numbers")]
    Ok(Value::Int(match function {
        Builtin::BitAnd => left & right,
        Builtin::BitOr => left | right,
        Builtin::BitXor => left ^ right,
        Builtin::BitNand => left & !right,
        Builtin::BitShl => left.checked_shl(shift()?).unwrap_or(0),
        Builtin::BitShr => left.checked_shr(shift()?).unwrap_or(left >> 63),
        _ => (left as u64).checked_shr(shift()?).unwrap_or(0) as i64,
    }))
}
