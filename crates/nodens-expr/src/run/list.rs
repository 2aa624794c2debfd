//! Built-in functions on lists and maps.

use super::function::int;
use super::{member, wrong_type};
use crate::builtin::Builtin;
use crate::error::EvalErrorKind;
use crate::value::Value;
use std::cmp::Ordering;

pub(super) fn apply<'a>(
    function: Builtin,
    values: &[Value<'a>],
) -> Result<Value<'a>, EvalErrorKind> {
    let first = values.first().unwrap_or(&Value::Nil);
    match function {
        Builtin::Max | Builtin::Min => {
            let wanted = if function == Builtin::Max { Ordering::Greater } else { Ordering::Less };
            extreme(wanted, &numbers(values)?)
        }
        Builtin::Mean => {
            let numbers = floats(values)?;
            #[expect(clippy::cast_precision_loss, reason = "a count within the limits")]
            let count = numbers.len().max(1) as f64;
            Ok(Value::Float(numbers.iter().fold(0.0, |sum, number| sum + number) / count))
        }
        Builtin::Median => Ok(Value::Float(median(floats(values)?))),
        Builtin::Keys | Builtin::Values => {
            let Value::Map(map) = first else {
                return Err(wrong_type("map", first));
            };
            Ok(if function == Builtin::Keys {
                map.keys().map(|key| Value::Str(key.clone())).collect::<Vec<_>>().into()
            } else {
                map.values().cloned().collect::<Vec<_>>().into()
            })
        }
        Builtin::First => Ok(member::fetch(first, &Value::Int(0)).unwrap_or_default()),
        Builtin::Last => Ok(member::fetch(first, &Value::Int(-1)).unwrap_or_default()),
        Builtin::Take => {
            let count = int(values.get(1).unwrap_or(&Value::Nil))?;
            let count = usize::try_from(count).map_err(|_| EvalErrorKind::Call {
                function: function.name().to_owned(),
                reason: format!("{count} elements, expected 0 or more"),
            })?;
            Ok(elements(first)?.take(count).collect::<Vec<_>>().into())
        }
        Builtin::Reverse => Ok(elements(first)?.rev().collect::<Vec<_>>().into()),
        Builtin::Uniq => {
            let mut kept: Vec<Value<'a>> = Vec::new();
            for value in elements(first)? {
                if !kept.iter().any(|known| value.equals(known)) {
                    kept.push(value);
                }
            }
            Ok(kept.into())
        }
        Builtin::Concat => {
            let mut joined = Vec::new();
            for value in values {
                joined.extend(elements(value)?);
            }
            Ok(joined.into())
        }
        Builtin::Flatten => {
            let mut flat = Vec::new();
            flatten(first, &mut flat)?;
            Ok(flat.into())
        }
        _ => {
            let values_to_sort: Vec<_> = elements(first)?.collect();
            sorted(values_to_sort.clone(), values_to_sort, values.get(1))
        }
    }
}

fn elements<'v, 'a>(
    of: &'v Value<'a>,
) -> Result<impl DoubleEndedIterator<Item = Value<'a>> + 'v, EvalErrorKind> {
    let length = of.array_len().ok_or_else(|| wrong_type("array", of))?;
    Ok((0..length).map(|position| of.element(position).unwrap_or_default()))
}

/// Values in the order of their keys, which must all be numbers or all be strings.
pub(super) fn sorted<'a>(
    keys: Vec<Value<'a>>,
    values: Vec<Value<'a>>,
    order: Option<&Value<'_>>,
) -> Result<Value<'a>, EvalErrorKind> {
    let descending = match order {
        None => false,
        Some(Value::Str(order)) if &**order == "asc" => false,
        Some(Value::Str(order)) if &**order == "desc" => true,
        Some(other) => {
            let reason = format!("order {other}, expected asc or desc");
            return Err(EvalErrorKind::Call { function: "sort".to_owned(), reason });
        }
    };
    for pair in keys.windows(2) {
        if let [a, b] = pair
            && a.order(b).is_none()
        {
            let (left, right) = (a.type_name(), b.type_name());
            return Err(EvalErrorKind::Operands { operator: "<", left, right });
        }
    }
    let mut pairs: Vec<_> = keys.into_iter().zip(values).collect();
    pairs.sort_by(|(a, _), (b, _)| {
        let order = a.order(b).unwrap_or(Ordering::Equal);
        if descending { order.reverse() } else { order }
    });
    Ok(pairs.into_iter().map(|(_, value)| value).collect::<Vec<_>>().into())
}

/// The elements of a list and of the lists in it, whose number and depth are known to be bounded.
fn flatten<'a>(of: &Value<'a>, flat: &mut Vec<Value<'a>>) -> Result<(), EvalErrorKind> {
    for value in elements(of)? {
        if value.array_len().is_some() {
            flatten(&value, flat)?;
        } else {
            flat.push(value);
        }
    }
    Ok(())
}

/// All numbers among values and in the lists among them.
fn numbers<'a>(values: &[Value<'a>]) -> Result<Vec<Value<'a>>, EvalErrorKind> {
    let mut flat = Vec::new();
    for value in values {
        if value.array_len().is_some() {
            flatten(value, &mut flat)?;
        } else {
            flat.push(value.clone());
        }
    }
    match flat.iter().find(|value| value.as_float().is_none()) {
        Some(other) => Err(wrong_type("number", other)),
        None => Ok(flat),
    }
}

fn floats(values: &[Value<'_>]) -> Result<Vec<f64>, EvalErrorKind> {
    Ok(numbers(values)?.iter().filter_map(Value::as_float).collect())
}

/// The first of the greatest or least numbers, nil without any.
fn extreme<'a>(wanted: Ordering, numbers: &[Value<'a>]) -> Result<Value<'a>, EvalErrorKind> {
    let mut numbers = numbers.iter();
    let Some(mut best) = numbers.next() else {
        return Ok(Value::Nil);
    };
    for number in numbers {
        if number.order(best) == Some(wanted) {
            best = number;
        }
    }
    Ok(best.clone())
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let upper = numbers.get(middle).copied().unwrap_or(0.0);
    if numbers.len().is_multiple_of(2) {
        let lower = middle.checked_sub(1).and_then(|at| numbers.get(at)).copied().unwrap_or(0.0);
        (lower + upper) / 2.0
    } else {
        upper
    }
}
