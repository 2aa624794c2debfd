//! Why an expression was refused, and why an evaluation gave no value.

use crate::limits;
use crate::position::Position;
use crate::types::Type;
use thiserror::Error;

/// An expression that cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("expression {position}: {kind}")]
pub struct CompileError {
    /// Where in the expression.
    pub position: Position,
    /// What was found and what was expected.
    pub kind: CompileErrorKind,
}

/// What is wrong with an expression.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CompileErrorKind {
    /// The text exceeds [`limits::EXPRESSION_BYTES`].
    #[error("text of {0} bytes is longer than the {max} bytes allowed", max = limits::EXPRESSION_BYTES)]
    TooLong(usize),
    /// More parts than [`limits::NODES`].
    #[error("more than the {max} parts allowed", max = limits::NODES)]
    TooManyNodes,
    /// Parts nest deeper than [`limits::NESTING`].
    #[error("nesting deeper than the {max} levels allowed", max = limits::NESTING)]
    TooDeep,
    /// A character that starts nothing.
    #[error("unexpected character {0:?}")]
    Character(char),
    /// A string or comment without an end.
    #[error("{what} is not closed, expected {expected}")]
    Unclosed {
        /// What was begun.
        what: &'static str,
        /// What would have ended it.
        expected: &'static str,
    },
    /// A number that is malformed or does not fit 64 bits.
    #[error("{0:?} is not a number that fits 64 bits")]
    Number(String),
    /// An escape in a string that means nothing.
    #[error("bad escape in {0}")]
    Escape(String),
    /// A word or sign in a place where it means nothing.
    #[error("unexpected {found}, expected {expected}")]
    Unexpected {
        /// The text found, or a description of it.
        found: String,
        /// What may stand there.
        expected: &'static str,
    },
    /// `??` beside another operator without parentheses.
    #[error("operator {0} beside ??, expected parentheses around one of them")]
    MixedCoalesce(String),
    /// A name that is no function, variable or built-in function.
    #[error("name {name:?} is not known{hint}")]
    UnknownName {
        /// The name used.
        name: String,
        /// Empty, or `, did you mean ...?` with the nearest name.
        hint: String,
    },
    /// A part of the language that this crate leaves out.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// A variable with the name of something else.
    #[error("{0:?} has a meaning already")]
    Redeclared(String),
    /// An operator whose operands have types that it does not take.
    #[error("operator {operator} does not take {left} and {right}")]
    Operands {
        /// The operator.
        operator: &'static str,
        /// The type of the left operand.
        left: Type,
        /// The type of the right operand.
        right: Type,
    },
    /// A value of the wrong type.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// What may stand there.
        expected: String,
        /// The type found.
        found: Type,
    },
    /// A function with arguments that it does not take.
    #[error("{function}: {reason}")]
    Arguments {
        /// The function's name.
        function: String,
        /// What it takes, and what it was given.
        reason: String,
    },
    /// A field or element of a type that has none.
    #[error("{0} has no field or element {1}")]
    NoElement(Type, String),
    /// `#` where no predicate encloses it, or a `#name` that the predicate does not have.
    #[error("{0} has no meaning here")]
    Pointer(String),
    /// A regular expression that is none, or is too large.
    #[error("bad regular expression: {0}")]
    Regex(nodens_goregex::Error),
    /// A literal division by zero.
    #[error("integer division by zero")]
    DivisionByZero,
}

/// An evaluation that gave no value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("expression {position}: {kind}")]
pub struct EvalError {
    /// Where in the expression.
    pub position: Position,
    /// What could not be done.
    pub kind: EvalErrorKind,
}

/// Why an evaluation gave no value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EvalErrorKind {
    /// An operator whose operands turned out to have types that it does not take.
    #[error("operator {operator} does not take {left} and {right}")]
    Operands {
        /// The operator.
        operator: &'static str,
        /// The type of the left operand.
        left: &'static str,
        /// The type of the right operand.
        right: &'static str,
    },
    /// A value that turned out to be of the wrong type.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// The type taken.
        expected: &'static str,
        /// The type found.
        found: &'static str,
    },
    /// An integer modulo zero.
    #[error("integer division by zero")]
    DivisionByZero,
    /// An element beyond the end of a list.
    #[error("index {index} out of range, the length is {length}")]
    OutOfRange {
        /// The index asked for.
        index: i64,
        /// The length of the list or string.
        length: usize,
    },
    /// A field or element of a value that has none.
    #[error("{of} has no field or element {key}")]
    NoElement {
        /// The type of the value.
        of: &'static str,
        /// The field or element asked for.
        key: String,
    },
    /// A slice of a string that would cut through a character.
    #[error("slice cuts through a character")]
    CutCharacter,
    /// A regular expression that was put together while evaluating, and is none.
    #[error("bad regular expression: {0}")]
    Regex(nodens_goregex::Error),
    /// A function that refused its arguments.
    #[error("{function}: {reason}")]
    Call {
        /// The function's name.
        function: String,
        /// Its reason.
        reason: String,
    },
    /// A list or map nests deeper than [`limits::VALUE_DEPTH`].
    #[error("value nested deeper than the {max} levels allowed", max = limits::VALUE_DEPTH)]
    TooDeep,
    /// The evaluation exceeds [`limits::WORK`].
    #[error("more than the {max} steps allowed", max = limits::WORK)]
    WorkLimit,
}

/// Why a function refused its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct CallError(pub String);

impl CallError {
    /// A refusal with this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}
