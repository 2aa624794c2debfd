//! Members, elements and slices of values.

use super::{Failure, Machine, wrong_type};
use crate::error::EvalErrorKind;
use crate::program::{Node, NodeKind};
use crate::value::Value;

impl<'a> Machine<'a> {
    /// A chain of members; `None` where an optional one ended it.
    pub(super) fn chain(&mut self, node: &'a Node) -> Result<Option<Value<'a>>, Failure> {
        let NodeKind::Member { operands, optional } = &node.kind else {
            return self.eval(node).map(Some);
        };
        self.work(node.offset, 1)?;
        let [of, key] = &**operands;
        let Some(of) = self.chain(of)? else {
            return Ok(None);
        };
        if *optional && matches!(of, Value::Nil) {
            return Ok(None);
        }
        let key = self.eval(key)?;
        fetch(&of, &key).map(Some).map_err(|kind| (node.offset, kind))
    }

    pub(super) fn slice(
        &mut self,
        offset: usize,
        of: &'a Node,
        from: Option<&'a Node>,
        to: Option<&'a Node>,
    ) -> Result<Value<'a>, Failure> {
        let of = self.eval(of)?;
        let length = match &of {
            Value::Str(text) => text.len(),
            _ => of.array_len().ok_or_else(|| (offset, wrong_type("string or array", &of)))?,
        };
        let start = self.bound(from, 0, length)?;
        let end = self.bound(to, length, length)?.max(start.min(length));
        let start = start.min(end);
        self.work(offset, end - start)?;
        match of {
            Value::Str(text) => match text.get(start..end) {
                Some(part) => Ok(Value::from(part.to_owned())),
                None => Err((offset, EvalErrorKind::CutCharacter)),
            },
            _ => Ok((start..end).filter_map(|at| of.element(at)).collect::<Vec<_>>().into()),
        }
    }

    /// A bound of a slice; a negative one counts from the end.
    fn bound(
        &mut self,
        node: Option<&'a Node>,
        default: usize,
        length: usize,
    ) -> Result<usize, Failure> {
        let Some(node) = node else {
            return Ok(default);
        };
        match self.eval(node)? {
            Value::Int(bound) => Ok(from_end(bound, length).unwrap_or(0).min(length)),
            other => Err((node.offset, wrong_type("int", &other))),
        }
    }
}

/// The position of an index that counts from the end if it is negative; `None` before the start.
pub(super) fn from_end(index: i64, length: usize) -> Option<usize> {
    if index >= 0 {
        return Some(usize::try_from(index).unwrap_or(usize::MAX));
    }
    length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
}

/// The value of a key in a map, or nil; or the element at an index, which must exist.
pub(super) fn fetch<'a>(of: &Value<'a>, key: &Value<'_>) -> Result<Value<'a>, EvalErrorKind> {
    let missing = || EvalErrorKind::NoElement { of: of.type_name(), key: key.to_string() };
    let length = match (of, key) {
        (Value::Map(values), Value::Str(key)) => {
            return Ok(values.get(&**key).cloned().unwrap_or_default());
        }
        (Value::Str(text), _) => text.len(),
        _ => of.array_len().ok_or_else(missing)?,
    };
    let Value::Int(index) = key else {
        return Err(missing());
    };
    let position = from_end(*index, length).filter(|position| *position < length);
    let value = position.and_then(|position| match of {
        Value::Str(text) => text.as_bytes().get(position).map(|byte| Value::Int(i64::from(*byte))),
        _ => of.element(position),
    });
    value.ok_or(EvalErrorKind::OutOfRange { index: *index, length })
}

/// Whether a list has an element, or a map a key; `None` for everything else.
pub(super) fn contains(of: &Value<'_>, needle: &Value<'_>) -> Option<bool> {
    match of {
        Value::Nil => Some(false),
        Value::Range(first, last) => Some(match needle {
            Value::Int(needle) => (first..=last).contains(&needle),
            #[expect(clippy::cast_precision_loss, reason = "compared as floats, as elsewhere")]
            Value::Float(needle) => {
                needle.fract() == 0.0 && (*first as f64..=*last as f64).contains(needle)
            }
            _ => false,
        }),
        Value::Array(values) => Some(values.iter().any(|value| value.equals(needle))),
        Value::Map(values) => match needle {
            Value::Str(key) => Some(values.contains_key(&**key)),
            Value::Nil => Some(false),
            _ => None,
        },
        _ => None,
    }
}
