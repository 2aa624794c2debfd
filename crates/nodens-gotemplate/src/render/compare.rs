//! `eq`, `lt` and their relatives.

use crate::error::CallError;
use crate::value::{Shape, Value};

/// Whether the first value equals one of the others.
pub(super) fn equal(first: &Value<'_>, others: &[Value<'_>]) -> Result<bool, CallError> {
    if others.is_empty() {
        return Err(CallError::new("nothing to compare with"));
    }
    for other in others {
        if equals(first, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn equals(a: &Value<'_>, b: &Value<'_>) -> Result<bool, CallError> {
    use Value::{Bool, Float, Int, Missing, Nil, NilObject, Object, Str, Uint};
    match (a, b) {
        (Bool(a), Bool(b)) => Ok(a == b),
        (Int(a), Int(b)) => Ok(a == b),
        (Uint(a), Uint(b)) => Ok(a == b),
        (Int(a), Uint(b)) | (Uint(b), Int(a)) => Ok(u64::try_from(*a) == Ok(*b)),
        (Float(a), Float(b)) => Ok(a == b),
        (Str(a), Str(b)) => Ok(a == b),
        (Missing | Nil, other) | (other, Missing | Nil) => {
            Ok(matches!(other, Missing | Nil | NilObject))
        }
        (NilObject, NilObject) => Ok(true),
        (NilObject, Object(_)) | (Object(_), NilObject) => Ok(false),
        (Object(a), Object(b)) if a.shape() == Shape::Struct && b.shape() == Shape::Struct => {
            Ok(std::ptr::addr_eq(*a, *b))
        }
        _ => Err(incomparable(a, b)),
    }
}

/// Whether the first value is below the second.
pub(super) fn less(a: &Value<'_>, b: &Value<'_>) -> Result<bool, CallError> {
    use Value::{Float, Int, Str, Uint};
    match (a, b) {
        (Int(a), Int(b)) => Ok(a < b),
        (Uint(a), Uint(b)) => Ok(a < b),
        (Int(a), Uint(b)) => Ok(u64::try_from(*a).is_ok_and(|a| a < *b) || *a < 0),
        (Uint(a), Int(b)) => Ok(u64::try_from(*b).is_ok_and(|b| *a < b)),
        (Float(a), Float(b)) => Ok(a < b),
        (Str(a), Str(b)) => Ok(a < b),
        _ => Err(incomparable(a, b)),
    }
}

pub(super) fn less_or_equal(a: &Value<'_>, b: &Value<'_>) -> Result<bool, CallError> {
    Ok(less(a, b)? || equals(a, b)?)
}

fn incomparable(a: &Value<'_>, b: &Value<'_>) -> CallError {
    CallError(format!("cannot compare {} with {}", a.type_name(), b.type_name()))
}
