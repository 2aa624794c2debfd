//! Why a template was refused, and why a rendering stopped.

use crate::limits;
use crate::position::Position;
use thiserror::Error;

/// A template text that is not a template.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("template {name}:{position}: {kind}")]
pub struct ParseError {
    /// The name given to the template.
    pub name: String,
    /// Where in its text.
    pub position: Position,
    /// What was found and what was expected.
    pub kind: ParseErrorKind,
}

/// What is wrong with a template text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseErrorKind {
    /// The text exceeds [`limits::TEMPLATE_BYTES`].
    #[error("text of {0} bytes is longer than the {max} bytes allowed", max = limits::TEMPLATE_BYTES)]
    TooLong(usize),
    /// Blocks or parentheses nest deeper than [`limits::NESTING`].
    #[error("nesting deeper than the {max} levels allowed", max = limits::NESTING)]
    TooDeep,
    /// An action, comment, string, character or parenthesis has no end.
    #[error("{what} is not closed, expected {expected}")]
    Unclosed {
        /// What was begun.
        what: &'static str,
        /// What would have ended it.
        expected: &'static str,
    },
    /// A character that starts nothing, or stands directly behind a name.
    #[error("unexpected character {0:?}")]
    Character(char),
    /// A word or sign in a place where it means nothing.
    #[error("unexpected {found} in {context}, expected {expected}")]
    Unexpected {
        /// The text found, or a description of it.
        found: String,
        /// The construct it was found in.
        context: &'static str,
        /// What may stand there.
        expected: &'static str,
    },
    /// A number that Go would not read, or that no type can hold.
    #[error("{0:?} is not a number that fits 64 bits")]
    Number(String),
    /// A string or character literal with a bad escape or a wrong length.
    #[error("{0} is not a valid literal")]
    Literal(String),
    /// A function that does not exist.
    #[error("function {name:?} is not defined{hint}")]
    UnknownFunction {
        /// The name used.
        name: String,
        /// Empty, or `, did you mean ...?` with the nearest name.
        hint: String,
    },
    /// A variable that no enclosing block declares.
    #[error("variable {0:?} is not declared")]
    UnknownVariable(String),
    /// `break` or `continue` where no `range` encloses it.
    #[error("{0} stands outside of range")]
    OutsideRange(&'static str),
    /// Two templates of one name, both with content.
    #[error("template {0:?} is defined twice")]
    Redefined(String),
}

/// A rendering that stopped. What was written until then is no complete result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("template {name}:{position}: {kind}")]
pub struct RenderError {
    /// The name given to the template.
    pub name: String,
    /// Where in its text.
    pub position: Position,
    /// What could not be done.
    pub kind: RenderErrorKind,
}

/// Why a rendering stopped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RenderErrorKind {
    /// A type has neither field nor method of that name.
    #[error("{type_name} has no field or method {field:?}")]
    UnknownField {
        /// The name asked for.
        field: String,
        /// The type asked.
        type_name: String,
    },
    /// A field of nil.
    #[error("field {0:?} of nil")]
    FieldOfNil(String),
    /// Something that is neither function nor method was given arguments.
    #[error("{0} takes no arguments")]
    TakesNoArguments(String),
    /// A function or method was given too many or too few arguments.
    #[error("{function} takes {expected} arguments, found {found}")]
    ArgumentCount {
        /// The function's or method's name.
        function: String,
        /// How many it takes.
        expected: String,
        /// How many there are.
        found: usize,
    },
    /// An argument of the wrong type.
    #[error("expected {expected}, found {found}")]
    ArgumentType {
        /// The type taken.
        expected: &'static str,
        /// The type or literal given.
        found: String,
    },
    /// A function or method refused its arguments.
    #[error("{function}: {reason}")]
    Call {
        /// The function's or method's name.
        function: String,
        /// Its reason.
        reason: String,
    },
    /// `range` over something that is no list, map or integer.
    #[error("range cannot iterate over {0}")]
    NotIterable(String),
    /// `nil` used as a value on its own.
    #[error("nil is not a value")]
    BareNil,
    /// An assignment to a variable that was never declared.
    #[error("variable {0:?} is not declared")]
    UnknownVariable(String),
    /// `template` with a name that nothing defines.
    #[error("template {0:?} is not defined")]
    UnknownTemplate(String),
    /// An integer literal beyond the signed 64 bit range, in a place that asks for no other type.
    #[error("{0} does not fit a signed 64 bit integer")]
    Overflow(String),
    /// The output exceeds [`limits::OUTPUT_BYTES`].
    #[error("output longer than the {max} bytes allowed", max = limits::OUTPUT_BYTES)]
    OutputLimit,
    /// The rendering exceeds [`limits::WORK`].
    #[error("more than the {max} steps allowed", max = limits::WORK)]
    WorkLimit,
    /// Blocks, parentheses and called templates nest deeper than [`limits::RENDER_DEPTH`].
    #[error("templates nest deeper than the {max} levels allowed", max = limits::RENDER_DEPTH)]
    TooDeep,
}

/// Why a function or method refused its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct CallError(pub String);

impl CallError {
    /// A refusal with this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}
