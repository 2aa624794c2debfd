//! Built-in functions on text.

use super::function::int;
use super::wrong_type;
use crate::builtin::Builtin;
use crate::error::EvalErrorKind;
use crate::limits;
use crate::value::Value;

/// How many bytes a function may make beyond those it reads. The caller pays for them before they are made.
pub(super) fn growth(function: Builtin, values: &[Value<'_>]) -> usize {
    match (function, values) {
        (Builtin::Repeat, [Value::Str(text), Value::Int(count)]) => {
            usize::try_from(*count).unwrap_or(0).saturating_mul(text.len().max(1))
        }
        (Builtin::Replace, [Value::Str(text), Value::Str(_), Value::Str(with), ..]) => {
            text.len().saturating_add(1).saturating_mul(with.len())
        }
        (Builtin::Join, [of, Value::Str(glue)]) => {
            of.array_len().unwrap_or(0).saturating_mul(glue.len())
        }
        // A number is some bytes.
        (Builtin::String, [of]) => of.size().saturating_mul(20),
        // Every element may be compared with every other.
        (Builtin::Uniq, [of]) => {
            let length = of.array_len().unwrap_or(0);
            length.saturating_mul(length)
        }
        _ => 0,
    }
}

pub(super) fn apply<'a>(
    function: Builtin,
    values: &[Value<'a>],
) -> Result<Value<'a>, EvalErrorKind> {
    if function == Builtin::Join {
        return join(values);
    }
    let text = string(values, 0)?;
    match function {
        Builtin::Upper => Ok(Value::from(text.to_uppercase())),
        // Names are in lower case already, and then need no copy.
        Builtin::Lower if !text.chars().any(char::is_uppercase) => {
            Ok(values.first().cloned().unwrap_or_default())
        }
        Builtin::Lower => Ok(Value::from(text.to_lowercase())),
        Builtin::Trim => Ok(Value::from(match values.get(1) {
            None => text.trim().to_owned(),
            Some(_) => {
                let set = string(values, 1)?;
                text.trim_matches(|one: char| set.contains(one)).to_owned()
            }
        })),
        Builtin::TrimPrefix => {
            let prefix = if values.len() > 1 { string(values, 1)? } else { " " };
            Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text).to_owned()))
        }
        Builtin::TrimSuffix => {
            let suffix = if values.len() > 1 { string(values, 1)? } else { " " };
            Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text).to_owned()))
        }
        Builtin::Split | Builtin::SplitAfter => {
            let keep = function == Builtin::SplitAfter;
            Ok(Value::from(split(text, string(values, 1)?, keep, count(values, 2)?)))
        }
        Builtin::Replace => {
            let (from, to) = (string(values, 1)?, string(values, 2)?);
            Ok(Value::from(match count(values, 3)? {
                None => text.replace(from, to),
                Some(most) => text.replacen(from, to, most),
            }))
        }
        Builtin::Repeat => repeat(text, int(values.get(1).unwrap_or(&Value::Nil))?),
        Builtin::IndexOf => Ok(position(text.find(string(values, 1)?))),
        Builtin::LastIndexOf => Ok(position(text.rfind(string(values, 1)?))),
        Builtin::HasPrefix => Ok(Value::Bool(text.starts_with(string(values, 1)?))),
        _ => Ok(Value::Bool(text.ends_with(string(values, 1)?))),
    }
}

fn string<'v>(values: &'v [Value<'_>], position: usize) -> Result<&'v str, EvalErrorKind> {
    match values.get(position) {
        Some(Value::Str(text)) => Ok(text),
        other => Err(wrong_type("string", other.unwrap_or(&Value::Nil))),
    }
}

/// How many times at most; a negative number and none at all set no limit.
fn count(values: &[Value<'_>], position: usize) -> Result<Option<usize>, EvalErrorKind> {
    match values.get(position) {
        Some(value) => int(value).map(|count| usize::try_from(count).ok()),
        None => Ok(None),
    }
}

/// The offset in bytes, or -1.
fn position<'a>(found: Option<usize>) -> Value<'a> {
    found.map_or(Value::Int(-1), Value::from)
}

/// Parts between separators, of which each but the last keeps its own if so wished. An empty separator
/// splits into characters.
fn split<'a>(text: &str, separator: &str, keep: bool, most: Option<usize>) -> Vec<Value<'a>> {
    let most = most.unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    if most == 0 || (text.is_empty() && separator.is_empty()) {
        return parts;
    }
    let mut rest = text;
    while parts.len() + 1 < most {
        let end = if separator.is_empty() {
            rest.chars().next().map(char::len_utf8).filter(|end| *end < rest.len())
        } else {
            rest.find(separator)
        };
        let Some(end) = end else { break };
        let kept = if keep { end + separator.len() } else { end };
        parts.push(Value::from(rest.get(..kept).unwrap_or_default().to_owned()));
        rest = rest.get(end + separator.len()..).unwrap_or_default();
    }
    parts.push(Value::from(rest.to_owned()));
    parts
}

fn repeat<'a>(text: &str, count: i64) -> Result<Value<'a>, EvalErrorKind> {
    match usize::try_from(count) {
        Ok(count) if count.saturating_mul(text.len()) <= limits::WORK => {
            Ok(Value::from(text.repeat(count)))
        }
        Ok(_) => Err(EvalErrorKind::WorkLimit),
        Err(_) => Err(EvalErrorKind::Call {
            function: Builtin::Repeat.name().to_owned(),
            reason: format!("{count} times, expected 0 or more"),
        }),
    }
}

fn join<'a>(values: &[Value<'_>]) -> Result<Value<'a>, EvalErrorKind> {
    let of = values.first().unwrap_or(&Value::Nil);
    let glue = if values.len() > 1 { string(values, 1)? } else { "" };
    let length = of.array_len().ok_or_else(|| wrong_type("array of strings", of))?;
    let mut joined = String::new();
    for position in 0..length {
        if position > 0 {
            joined.push_str(glue);
        }
        match of.element(position) {
            Some(Value::Str(text)) => joined.push_str(&text),
            other => return Err(wrong_type("string", &other.unwrap_or_default())),
        }
    }
    Ok(Value::from(joined))
}
