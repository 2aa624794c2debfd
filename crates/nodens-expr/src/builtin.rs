//! The names of the built-in functions, and what types they take and give.

use crate::types::Type;

/// A built-in function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builtin {
    All,
    None,
    Any,
    One,
    Filter,
    Map,
    Count,
    Sum,
    Find,
    FindIndex,
    FindLast,
    FindLastIndex,
    SortBy,
    Reduce,
    Len,
    Abs,
    Ceil,
    Floor,
    Round,
    Int,
    Float,
    String,
    Trim,
    TrimPrefix,
    TrimSuffix,
    Upper,
    Lower,
    Split,
    SplitAfter,
    Replace,
    Repeat,
    Join,
    IndexOf,
    LastIndexOf,
    HasPrefix,
    HasSuffix,
    Max,
    Min,
    Mean,
    Median,
    First,
    Last,
    Get,
    Take,
    Keys,
    Values,
    Reverse,
    Uniq,
    Concat,
    Flatten,
    Sort,
    BitAnd,
    BitOr,
    BitXor,
    BitNand,
    BitShl,
    BitShr,
    BitUshr,
    BitNot,
}

/// Function, name, least and most arguments.
type Row = (Builtin, &'static str, usize, usize);

/// The functions whose second argument is a predicate come first.
const TABLE: [Row; 59] = [
    (Builtin::All, "all", 2, 2),
    (Builtin::None, "none", 2, 2),
    (Builtin::Any, "any", 2, 2),
    (Builtin::One, "one", 2, 2),
    (Builtin::Filter, "filter", 2, 2),
    (Builtin::Map, "map", 2, 2),
    (Builtin::Count, "count", 1, 2),
    (Builtin::Sum, "sum", 1, 2),
    (Builtin::Find, "find", 2, 2),
    (Builtin::FindIndex, "findIndex", 2, 2),
    (Builtin::FindLast, "findLast", 2, 2),
    (Builtin::FindLastIndex, "findLastIndex", 2, 2),
    (Builtin::SortBy, "sortBy", 2, 3),
    (Builtin::Reduce, "reduce", 2, 3),
    (Builtin::Len, "len", 1, 1),
    (Builtin::Abs, "abs", 1, 1),
    (Builtin::Ceil, "ceil", 1, 1),
    (Builtin::Floor, "floor", 1, 1),
    (Builtin::Round, "round", 1, 1),
    (Builtin::Int, "int", 1, 1),
    (Builtin::Float, "float", 1, 1),
    (Builtin::String, "string", 1, 1),
    (Builtin::Trim, "trim", 1, 2),
    (Builtin::TrimPrefix, "trimPrefix", 1, 2),
    (Builtin::TrimSuffix, "trimSuffix", 1, 2),
    (Builtin::Upper, "upper", 1, 1),
    (Builtin::Lower, "lower", 1, 1),
    (Builtin::Split, "split", 2, 3),
    (Builtin::SplitAfter, "splitAfter", 2, 3),
    (Builtin::Replace, "replace", 3, 4),
    (Builtin::Repeat, "repeat", 2, 2),
    (Builtin::Join, "join", 1, 2),
    (Builtin::IndexOf, "indexOf", 2, 2),
    (Builtin::LastIndexOf, "lastIndexOf", 2, 2),
    (Builtin::HasPrefix, "hasPrefix", 2, 2),
    (Builtin::HasSuffix, "hasSuffix", 2, 2),
    (Builtin::Max, "max", 1, usize::MAX),
    (Builtin::Min, "min", 1, usize::MAX),
    (Builtin::Mean, "mean", 1, usize::MAX),
    (Builtin::Median, "median", 1, usize::MAX),
    (Builtin::First, "first", 1, 1),
    (Builtin::Last, "last", 1, 1),
    (Builtin::Get, "get", 2, 2),
    (Builtin::Take, "take", 2, 2),
    (Builtin::Keys, "keys", 1, 1),
    (Builtin::Values, "values", 1, 1),
    (Builtin::Reverse, "reverse", 1, 1),
    (Builtin::Uniq, "uniq", 1, 1),
    (Builtin::Concat, "concat", 1, usize::MAX),
    (Builtin::Flatten, "flatten", 1, 1),
    (Builtin::Sort, "sort", 1, 2),
    (Builtin::BitAnd, "bitand", 2, 2),
    (Builtin::BitOr, "bitor", 2, 2),
    (Builtin::BitXor, "bitxor", 2, 2),
    (Builtin::BitNand, "bitnand", 2, 2),
    (Builtin::BitShl, "bitshl", 2, 2),
    (Builtin::BitShr, "bitshr", 2, 2),
    (Builtin::BitUshr, "bitushr", 2, 2),
    (Builtin::BitNot, "bitnot", 1, 1),
];

/// Functions of the language that this crate leaves out; `type` gives way to the query's type.
const UNSUPPORTED: [&str; 12] = [
    "date",
    "duration",
    "fromBase64",
    "fromJSON",
    "fromPairs",
    "groupBy",
    "now",
    "timezone",
    "toBase64",
    "toJSON",
    "toPairs",
    "type",
];

/// Whether the language has a function of that name, supported or not.
pub(crate) fn is_known(name: &str) -> bool {
    Builtin::named(name).is_some() || is_unsupported(name)
}

pub(crate) fn is_unsupported(name: &str) -> bool {
    UNSUPPORTED.contains(&name)
}

/// The names of all supported functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|row| row.1)
}

impl Builtin {
    pub(crate) fn named(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    fn row(self) -> Row {
        TABLE.into_iter().find(|row| row.0 == self).unwrap_or((self, "", 0, 0))
    }

    pub(crate) fn name(self) -> &'static str {
        self.row().1
    }

    /// Whether the second argument is a predicate.
    pub(crate) fn has_predicate(self) -> bool {
        (self as usize) <= Self::Reduce as usize
    }

    /// The least and the most arguments.
    pub(crate) fn arity(self) -> (usize, usize) {
        let (_, _, least, most) = self.row();
        (least, most)
    }

    /// The type of the result for arguments of these types, or what the function expects instead.
    /// The count of arguments is right, and the function has no predicate.
    pub(crate) fn check(self, given: &[Type]) -> Result<Type, String> {
        let first = given.first().map_or(Type::Any, Type::declared);
        let (wanted, result) = self.signature(first);
        for (position, found) in given.iter().enumerate() {
            let wanted =
                wanted.get(position).or(wanted.last()).copied().unwrap_or(Wanted::Anything);
            if !found.is_any() && !wanted.takes(found) {
                return Err(format!("expected {}, found {found}", wanted.name()));
            }
        }
        match self {
            Self::Max | Self::Min | Self::Mean | Self::Median => Ok(aggregate(given)),
            Self::Get => get(given),
            _ => Ok(result),
        }
    }

    /// What the arguments may be, the last one standing for all that follow, and the result, which may
    /// depend on the type of the first argument.
    fn signature(self, first: Type) -> (&'static [Wanted], Type) {
        use Wanted::{
            Anything, Array, Int, Map, Measured, Number, NumberOrArray, Scalar, Str, Strings,
        };
        match self {
            Self::Len => (&[Measured], Type::Int),
            Self::Abs => (&[Number], first),
            Self::Ceil | Self::Floor | Self::Round => (&[Number], Type::Float),
            Self::Int => (&[Scalar], Type::Int),
            Self::Float => (&[Scalar], Type::Float),
            Self::String => (&[Anything], Type::Str),
            Self::Trim | Self::TrimPrefix | Self::TrimSuffix | Self::Upper | Self::Lower => {
                (&[Str], Type::Str)
            }
            Self::IndexOf | Self::LastIndexOf => (&[Str], Type::Int),
            Self::HasPrefix | Self::HasSuffix => (&[Str], Type::Bool),
            Self::Split | Self::SplitAfter => (&[Str, Str, Int], Type::array_of(Type::Str)),
            Self::Replace => (&[Str, Str, Str, Int], Type::Str),
            Self::Repeat => (&[Str, Int], Type::Str),
            Self::Join => (&[Strings, Str], Type::Str),
            Self::Max | Self::Min | Self::Mean | Self::Median => (&[NumberOrArray], Type::Any),
            Self::First | Self::Last => (&[Array], first.element()),
            Self::Take => (&[Array, Int], first),
            Self::Keys | Self::Values => (&[Map], Type::any_array()),
            Self::Reverse | Self::Uniq | Self::Concat | Self::Flatten => {
                (&[Array], Type::any_array())
            }
            Self::Sort => (&[Array, Str], Type::any_array()),
            Self::BitAnd
            | Self::BitOr
            | Self::BitXor
            | Self::BitNand
            | Self::BitShl
            | Self::BitShr
            | Self::BitUshr
            | Self::BitNot => (&[Int], Type::Int),
            // Looked at in a way of its own, or a function with a predicate.
            _ => (&[Anything], Type::Any),
        }
    }
}

/// What an argument may be.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    Anything,
    Number,
    NumberOrArray,
    /// A number or a string.
    Scalar,
    Int,
    Str,
    Array,
    /// An array of strings, or one that may be.
    Strings,
    Map,
    /// What has a length.
    Measured,
}

impl Wanted {
    fn takes(self, of: &Type) -> bool {
        match self {
            Self::Anything => true,
            Self::Number => of.is_number(),
            Self::NumberOrArray => of.is_number() || of.is_array(),
            Self::Scalar => of.is_number() || *of == Type::Str,
            Self::Int => *of == Type::Int,
            Self::Str => *of == Type::Str,
            Self::Array => of.is_array(),
            Self::Strings => match of {
                Type::Array(element) => matches!(**element, Type::Str | Type::Any),
                _ => of.is_array(),
            },
            Self::Map => *of == Type::Map,
            Self::Measured => of.is_array() || matches!(of, Type::Str | Type::Map),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Anything => "anything",
            Self::Number => "a number",
            Self::NumberOrArray => "numbers or arrays",
            Self::Scalar => "a number or string",
            Self::Int => "an integer",
            Self::Str => "a string",
            Self::Array => "an array",
            Self::Strings => "an array of strings",
            Self::Map => "a map",
            Self::Measured => "a string, array or map",
        }
    }
}

/// The type of the first number, unless there are arrays of what is not known.
fn aggregate(given: &[Type]) -> Type {
    let first = given.first().cloned().unwrap_or(Type::Any);
    if given.iter().all(Type::is_number) { first } else { Type::Any }
}

/// The type of an element, for which more counts than what is declared of a literal.
fn get(given: &[Type]) -> Result<Type, String> {
    let [of, key] = given else {
        return Ok(Type::Any);
    };
    let wanted = match of {
        Type::Any => return Ok(Type::Any),
        Type::Map => Wanted::Str,
        _ if of.is_array() => Wanted::Int,
        _ => return Err(format!("expected an array or map, found {of}")),
    };
    if key.is_any() || wanted.takes(key) {
        return Ok(of.element());
    }
    Err(format!("expected {}, found {key}", wanted.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_its_row() {
        for (position, (function, name, least, most)) in TABLE.into_iter().enumerate() {
            assert_eq!(function as usize, position, "{name} is out of order");
            assert_eq!(Builtin::named(name), Some(function));
            assert!(least <= most, "{name}");
            assert_eq!(function.has_predicate(), position <= 13, "{name}");
        }
    }
}
