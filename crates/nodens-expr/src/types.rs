//! What is known about a value before the expression is evaluated.

use std::fmt;

/// The type of a function's parameter or result, of a variable or of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Known only when evaluated.
    Any,
    /// The type of `nil`.
    Nil,
    /// True or false.
    Bool,
    /// A signed 64 bit integer.
    Int,
    /// A 64 bit float.
    Float,
    /// Text.
    Str,
    /// A list of values of one type.
    Array(Box<Type>),
    /// A list written as a literal, whose elements have one type but need not keep it.
    Literal(Box<Type>),
    /// A map from strings to anything.
    Map,
}

impl Type {
    /// A list of values of this type.
    pub fn array_of(element: Type) -> Self {
        Self::Array(Box::new(element))
    }

    pub(crate) fn any_array() -> Self {
        Self::array_of(Self::Any)
    }

    pub(crate) fn is_any(&self) -> bool {
        *self == Self::Any
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Float)
    }

    pub(crate) fn is_array(&self) -> bool {
        matches!(self, Self::Array(_) | Self::Literal(_))
    }

    /// The type of a list's elements, [`Type::Any`] for everything else.
    pub(crate) fn element(&self) -> Type {
        match self {
            Self::Array(element) | Self::Literal(element) => (**element).clone(),
            _ => Self::Any,
        }
    }

    /// The type without what is only known of a literal.
    pub(crate) fn declared(&self) -> Type {
        match self {
            Self::Literal(_) => Self::any_array(),
            other => other.clone(),
        }
    }

    /// Whether a value of this type fits where the other is asked for.
    pub(crate) fn fits(&self, other: &Type) -> bool {
        match (self, other) {
            (_, Self::Any) => true,
            (Self::Any, _) => false,
            (Self::Nil, _) => other.is_array() || *other == Self::Map,
            _ => self.declared() == other.declared(),
        }
    }

    /// Whether values of the two types can be compared for being equal.
    pub(crate) fn comparable(&self, other: &Type) -> bool {
        let loose = |one: &Type| matches!(one, Self::Any | Self::Nil);
        loose(self)
            || loose(other)
            || (self.is_number() && other.is_number())
            || (self.is_array() && other.is_array())
            || self == other
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any",
            Self::Nil => "nil",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float",
            Self::Str => "string",
            Self::Array(_) | Self::Literal(_) => "array",
            Self::Map => "map",
        })
    }
}
