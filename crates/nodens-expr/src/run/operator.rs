//! Operators on values.

use super::{member, wrong_type};
use crate::ast::Operator;
use crate::error::EvalErrorKind;
use crate::limits;
use crate::value::Value;
use nodens_goregex::Regex;
use std::cmp::Ordering;

pub(super) fn sign<'a>(negative: bool, value: Value<'a>) -> Result<Value<'a>, EvalErrorKind> {
    match value {
        Value::Int(value) if negative => Ok(Value::Int(value.wrapping_neg())),
        Value::Float(value) if negative => Ok(Value::Float(-value)),
        value if !negative => Ok(value),
        other => Err(wrong_type("number", &other)),
    }
}

/// What an operator costs beyond its operands: new text, and elements looked at.
pub(super) fn cost(operator: Operator, left: &Value<'_>, right: &Value<'_>) -> usize {
    match (operator, right) {
        // A range is looked into without going through it.
        (Operator::In, Value::Range(..)) => 0,
        (Operator::In, _) => right.size(),
        // A regular expression that is not constant must be compiled.
        (Operator::Matches, _) => left.size().saturating_add(right.size().saturating_mul(100)),
        (Operator::Add | Operator::Contains, _) => left.size().saturating_add(right.size()),
        (Operator::Equal | Operator::NotEqual, _) => left.size().min(right.size()),
        _ => 0,
    }
}

/// The value of an operator other than [`Operator::Coalesce`].
pub(super) fn apply<'a>(
    operator: Operator,
    left: &Value<'a>,
    right: &Value<'a>,
) -> Result<Value<'a>, EvalErrorKind> {
    let refused = || EvalErrorKind::Operands {
        operator: operator.sign(),
        left: left.type_name(),
        right: right.type_name(),
    };
    let ordered = |fits: fn(Ordering) -> bool| order(left, right, fits).ok_or_else(refused);
    match operator {
        Operator::Equal => Ok(Value::Bool(left.equals(right))),
        Operator::NotEqual => Ok(Value::Bool(!left.equals(right))),
        Operator::Less => ordered(Ordering::is_lt),
        Operator::LessOrEqual => ordered(Ordering::is_le),
        Operator::Greater => ordered(Ordering::is_gt),
        Operator::GreaterOrEqual => ordered(Ordering::is_ge),
        Operator::In => member::contains(right, left).map(Value::Bool).ok_or_else(refused),
        Operator::Matches | Operator::Contains | Operator::StartsWith | Operator::EndsWith => {
            on_text(operator, left, right)?.ok_or_else(refused)
        }
        Operator::Range => match (left, right) {
            (Value::Int(first), Value::Int(last)) => Ok(Value::Range(*first, *last)),
            _ => Err(refused()),
        },
        Operator::Modulo => match (left, right) {
            (Value::Int(_), Value::Int(0)) => Err(EvalErrorKind::DivisionByZero),
            (Value::Int(left), Value::Int(right)) => Ok(Value::Int(left.wrapping_rem(*right))),
            _ => Err(refused()),
        },
        Operator::Add => add(left, right).ok_or_else(refused),
        Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Power => {
            arithmetic(operator, left, right).ok_or_else(refused)
        }
        Operator::Coalesce => Ok(left.clone()),
    }
}

fn order<'a>(left: &Value<'_>, right: &Value<'_>, fits: fn(Ordering) -> bool) -> Option<Value<'a>> {
    let order = match (left, right) {
        (Value::Int(_), Value::Int(_)) | (Value::Str(_), Value::Str(_)) => left.order(right)?,
        // Nothing is below, above or equal to what is no number.
        _ => match left.as_float()?.partial_cmp(&right.as_float()?) {
            Some(order) => order,
            None => return Some(Value::Bool(false)),
        },
    };
    Some(Value::Bool(fits(order)))
}

/// The operators on text, for which nil is text without any match.
fn on_text<'a>(
    operator: Operator,
    left: &Value<'_>,
    right: &Value<'_>,
) -> Result<Option<Value<'a>>, EvalErrorKind> {
    let (Value::Str(text), Value::Str(part)) = (left, right) else {
        let nil = matches!(left, Value::Nil) || matches!(right, Value::Nil);
        return Ok(nil.then_some(Value::Bool(false)));
    };
    let found = match operator {
        Operator::Contains => text.contains(&**part),
        Operator::StartsWith => text.starts_with(&**part),
        Operator::EndsWith => text.ends_with(&**part),
        _ => Regex::with_limit(part, limits::REGEX_BYTES)
            .map_err(EvalErrorKind::Regex)?
            .is_match(text),
    };
    Ok(Some(Value::Bool(found)))
}

/// The sum of two numbers, or two strings behind each other.
pub(super) fn add<'a>(left: &Value<'_>, right: &Value<'_>) -> Option<Value<'a>> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => Some(Value::Int(left.wrapping_add(*right))),
        (Value::Str(left), Value::Str(right)) => {
            Some(Value::from(format!("{}{}", &**left, &**right)))
        }
        _ => Some(Value::Float(left.as_float()? + right.as_float()?)),
    }
}

fn arithmetic<'a>(operator: Operator, left: &Value<'_>, right: &Value<'_>) -> Option<Value<'a>> {
    if let (Value::Int(left), Value::Int(right)) = (left, right) {
        match operator {
            Operator::Subtract => return Some(Value::Int(left.wrapping_sub(*right))),
            Operator::Multiply => return Some(Value::Int(left.wrapping_mul(*right))),
            _ => {}
        }
    }
    let (left, right) = (left.as_float()?, right.as_float()?);
    Some(Value::Float(match operator {
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        _ => left.powf(right),
    }))
}
