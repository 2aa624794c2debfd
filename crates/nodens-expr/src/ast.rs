//! An expression's text as a tree.

use crate::builtin::Builtin;

/// A part of an expression.
#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub(crate) offset: usize,
    /// How many levels of parts there are, this one included.
    pub(crate) depth: usize,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    Array(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    /// A variable.
    Name(String),
    /// `#`, or `#name` with a name.
    Pointer(String),
    Not(Box<Expr>),
    /// `-`, or `+` if not negative.
    Sign {
        negative: bool,
        of: Box<Expr>,
    },
    Binary(Operator, Box<Expr>, Box<Expr>),
    /// Operands that all must be true.
    And(Vec<Expr>),
    /// Operands of which one must be true.
    Or(Vec<Expr>),
    Conditional(Box<[Expr; 3]>),
    /// `of.name` and `of[key]`, with `?.` optional.
    Member {
        of: Box<Expr>,
        key: Box<Expr>,
        optional: bool,
    },
    /// Members of which an optional one may end the chain with nil.
    Chain(Box<Expr>),
    Slice {
        of: Box<Expr>,
        from: Option<Box<Expr>>,
        to: Option<Box<Expr>>,
    },
    /// A function of the environment.
    Call {
        name: String,
        arguments: Vec<Expr>,
    },
    /// A built-in function. The second argument of one with a predicate is the predicate.
    Builtin {
        function: Builtin,
        arguments: Vec<Expr>,
    },
    Let {
        name: String,
        value: Box<Expr>,
        body: Box<Expr>,
    },
    /// The last one is the value.
    Sequence(Vec<Expr>),
}

/// An operator of two operands that are both evaluated, but for [`Operator::Coalesce`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Matches,
    Contains,
    StartsWith,
    EndsWith,
    Range,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
    Coalesce,
}

impl Operator {
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
            Self::Matches => "matches",
            Self::Contains => "contains",
            Self::StartsWith => "startsWith",
            Self::EndsWith => "endsWith",
            Self::Range => "..",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Power => "**",
            Self::Coalesce => "??",
        }
    }
}
