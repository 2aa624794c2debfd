//! The functions that every template knows.

use super::{compare, escape, index};
use crate::error::CallError;
use crate::format::{self, Limited};
use crate::parse::literal::{UintError, parse_uint};
use crate::value::{Parameter, Value};
use std::fmt::Write;

/// A function by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builtin {
    And,
    Call,
    Eq,
    Ge,
    Gt,
    Html,
    Index,
    Js,
    Le,
    Len,
    Lt,
    Ne,
    Not,
    Or,
    ParseInt,
    Print,
    Printf,
    Println,
    Slice,
    Urlquery,
}

/// Function, name, least and most arguments.
type Row = (Builtin, &'static str, usize, Option<usize>);

const TABLE: [Row; 20] = [
    (Builtin::And, "and", 1, None),
    (Builtin::Call, "call", 1, None),
    (Builtin::Eq, "eq", 1, None),
    (Builtin::Ge, "ge", 2, Some(2)),
    (Builtin::Gt, "gt", 2, Some(2)),
    (Builtin::Html, "html", 0, None),
    (Builtin::Index, "index", 1, None),
    (Builtin::Js, "js", 0, None),
    (Builtin::Le, "le", 2, Some(2)),
    (Builtin::Len, "len", 1, Some(1)),
    (Builtin::Lt, "lt", 2, Some(2)),
    (Builtin::Ne, "ne", 2, Some(2)),
    (Builtin::Not, "not", 1, Some(1)),
    (Builtin::Or, "or", 1, None),
    (Builtin::ParseInt, "parseInt", 3, Some(3)),
    (Builtin::Print, "print", 0, None),
    (Builtin::Printf, "printf", 1, None),
    (Builtin::Println, "println", 0, None),
    (Builtin::Slice, "slice", 1, None),
    (Builtin::Urlquery, "urlquery", 0, None),
];

impl Builtin {
    pub(crate) fn named(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// The known name that differs in case or in one letter.
    pub(crate) fn nearest(name: &str) -> Option<&'static str> {
        let lower = name.to_lowercase();
        TABLE.iter().map(|row| row.1).find(|known| one_edit_apart(&known.to_lowercase(), &lower))
    }

    fn row(self) -> Row {
        let known = TABLE.into_iter().find(|row| row.0 == self);
        known.unwrap_or((self, "", 0, None))
    }

    pub(crate) fn name(self) -> &'static str {
        self.row().1
    }

    /// The least and the most arguments.
    pub(super) fn arity(self) -> (usize, Option<usize>) {
        let (_, _, least, most) = self.row();
        (least, most)
    }

    pub(super) fn parameter(self, position: usize) -> Parameter {
        match (self, position) {
            (Self::Printf | Self::ParseInt, 0) => Parameter::Str,
            (Self::ParseInt, _) => Parameter::Int,
            _ => Parameter::Any,
        }
    }

    /// Calls the function. Functions that give a string write it to `out` and return `None`.
    pub(super) fn call<'a>(
        self,
        values: &[Value<'a>],
        out: &mut Limited<'_>,
    ) -> Result<Option<Value<'a>>, CallError> {
        let Some((first, rest)) = values.split_first() else {
            return self.write(values, out);
        };
        let second = rest.first().unwrap_or(&Value::Missing);
        let value = match self {
            // Both are short-circuited before their arguments are known.
            Self::And | Self::Or => values.last().cloned().unwrap_or_default(),
            Self::Call => {
                return Err(CallError(format!("{} is not a function", first.type_name())));
            }
            Self::Eq => Value::Bool(compare::equal(first, rest)?),
            Self::Ne => Value::Bool(!compare::equal(first, rest)?),
            Self::Lt => Value::Bool(compare::less(first, second)?),
            Self::Le => Value::Bool(compare::less_or_equal(first, second)?),
            Self::Gt => Value::Bool(!compare::less_or_equal(first, second)?),
            Self::Ge => Value::Bool(!compare::less(first, second)?),
            Self::Not => Value::Bool(!first.is_true()),
            Self::Index => index::index(first, rest)?,
            Self::Slice => index::slice(first, rest)?,
            Self::Len => match first.len() {
                Some(length) => Value::from(length),
                None => return Err(CallError(format!("{} has no length", first.type_name()))),
            },
            Self::ParseInt => parse_int(values)?,
            Self::Html | Self::Js | Self::Print | Self::Printf | Self::Println | Self::Urlquery => {
                return self.write(values, out);
            }
        };
        Ok(Some(value))
    }

    fn write<'a>(
        self,
        values: &[Value<'_>],
        out: &mut Limited<'_>,
    ) -> Result<Option<Value<'a>>, CallError> {
        let written = match (self, values) {
            (Self::Printf, [Value::Str(pattern), values @ ..]) => {
                format::printf::printf(pattern, values, out)
            }
            (Self::Println, _) => format::println(values, out),
            (Self::Html, _) => escape::html(values, out),
            (Self::Js, _) => escape::js(values, out),
            (Self::Urlquery, _) => escape::urlquery(values, out),
            _ => format::print(values, out),
        };
        // Nothing but limits makes writing fail.
        written.map(|()| None).map_err(|_| {
            out.set_full();
            CallError::new("result too long")
        })
    }
}

fn parse_int<'a>(values: &[Value<'a>]) -> Result<Value<'a>, CallError> {
    let [Value::Str(text), Value::Int(base), Value::Int(bits)] = values else {
        return Err(CallError::new("expected a string, a base and a number of bits"));
    };
    parse_uint(text, *base, *bits).map(Value::Uint).map_err(|error| {
        CallError(match error {
            UintError::Base => format!("base {base}, expected 0 or 2 to 36"),
            UintError::Bits => format!("{bits} bits, expected 0 to 64"),
            UintError::Syntax => format!("{text:?} is not an unsigned number of base {base}"),
            UintError::Range => format!("{text:?} does not fit {bits} bits"),
        })
    })
}

/// Whether two words differ by at most one letter that is added, left out or changed.
fn one_edit_apart(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let (short, long) = (short.as_bytes(), long.as_bytes());
    if long.len() - short.len() > 1 {
        return false;
    }
    let same = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    let rest_of_long = long.get(same + 1..).unwrap_or_default();
    let rest_of_short =
        if short.len() == long.len() { short.get(same + 1..) } else { short.get(same..) };
    rest_of_short.unwrap_or_default() == rest_of_long
}

/// Writes values as `print` does, for functions that go on working on the text.
pub(super) fn printed(values: &[Value<'_>], room: usize) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let mut out = Limited::new(&mut text, room);
    if let [Value::Str(one)] = values {
        out.write_str(one)?;
        return Ok(text);
    }
    format::print_shown(values, &mut out)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_its_row() {
        for (function, name, ..) in TABLE {
            assert_eq!(Builtin::named(name), Some(function));
            assert_eq!(function.name(), name);
        }
    }

    #[test]
    fn a_slip_is_recognised() {
        assert_eq!(Builtin::nearest("parseint"), Some("parseInt"));
        assert_eq!(Builtin::nearest("prntf"), Some("printf"));
        assert_eq!(Builtin::nearest("indx"), Some("index"));
        assert_eq!(Builtin::nearest("slicer"), Some("slice"));
        assert_eq!(Builtin::nearest("upper"), None);
    }
}
