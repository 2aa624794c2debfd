//! `index` and `slice`.

use crate::error::CallError;
use crate::value::{Shape, Value};

/// The element of an element … of a list, map or string.
pub(super) fn index<'a>(of: &Value<'a>, keys: &[Value<'a>]) -> Result<Value<'a>, CallError> {
    if matches!(of, Value::Missing | Value::Nil) {
        return Err(CallError::new("index of nil"));
    }
    let mut value = of.clone();
    for key in keys {
        value = element(&value, key)?;
    }
    Ok(value)
}

fn element<'a>(of: &Value<'a>, key: &Value<'_>) -> Result<Value<'a>, CallError> {
    match (of, of.shape()) {
        (Value::Missing | Value::Nil | Value::NilObject, _) => Err(CallError::new("index of nil")),
        (Value::Str(text), _) => {
            let position = position(key, text.len())?;
            let byte = text.as_bytes().get(position).ok_or_else(|| out_of_range(position))?;
            Ok(Value::Uint(u64::from(*byte)))
        }
        (_, Some(Shape::List)) => {
            let position = position(key, of.len().unwrap_or(0))?;
            of.element(position).map(|(_, value)| value).ok_or_else(|| out_of_range(position))
        }
        (_, Some(Shape::Map)) => {
            let Value::Str(key) = key else {
                let found = key.type_name();
                return Err(CallError(format!("expected a string as key, found {found}")));
            };
            Ok(match of {
                Value::Map(values) => values.get(key.as_ref()).cloned().unwrap_or(Value::Nil),
                Value::Object(object) => object.field(key).unwrap_or_else(|| object.zero()),
                _ => Value::Nil,
            })
        }
        _ => Err(CallError(format!("{} cannot be indexed", of.type_name()))),
    }
}

/// A part of a list or string: `slice x i j` is `x[i:j]`.
pub(super) fn slice<'a>(of: &Value<'a>, bounds: &[Value<'a>]) -> Result<Value<'a>, CallError> {
    let length = match (of, of.shape()) {
        (Value::Str(text), _) => text.len(),
        (_, Some(Shape::List)) => of.len().unwrap_or(0),
        _ => return Err(CallError(format!("{} cannot be sliced", of.type_name()))),
    };
    let most = if matches!(of, Value::Str(_)) { 2 } else { 3 };
    if bounds.len() > most {
        return Err(CallError(format!("{} bounds, expected at most {most}", bounds.len())));
    }
    let mut ordered = [0, length, length];
    for (bound, given) in ordered.iter_mut().zip(bounds) {
        *bound = position(given, length)?;
    }
    let [start, end, capacity] = ordered;
    if start > end || end > capacity {
        return Err(CallError(format!("bounds {start}, {end}, {capacity} are not in order")));
    }
    match of {
        Value::Str(text) => match text.get(start..end) {
            Some(part) => Ok(Value::from(part.to_owned())),
            None => Err(CallError(format!("{start}..{end} cuts through a character"))),
        },
        _ => Ok(Value::List(
            (start..end).filter_map(|at| of.element(at)).map(|(_, value)| value).collect(),
        )),
    }
}

/// An integer from 0 to `length`.
fn position(key: &Value<'_>, length: usize) -> Result<usize, CallError> {
    let position = match key {
        Value::Int(position) => usize::try_from(*position).ok(),
        Value::Uint(position) => usize::try_from(*position).ok(),
        _ => return Err(CallError(format!("expected an integer, found {}", key.type_name()))),
    };
    position
        .filter(|position| *position <= length)
        .ok_or_else(|| CallError(format!("index beyond the length {length}")))
}

fn out_of_range(position: usize) -> CallError {
    CallError(format!("index {position} out of range"))
}
