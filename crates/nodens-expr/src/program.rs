//! A compiled expression.

use crate::ast::Operator;
use crate::builtin::Builtin;
use crate::compile;
use crate::environment::{Context, Environment};
use crate::error::{CompileError, EvalError};
use crate::parse;
use crate::position::Position;
use crate::run;
use crate::types::Type;
use crate::value::Value;
use nodens_goregex::Regex;

/// A compiled expression, to be shared between threads.
#[derive(Debug, Clone)]
pub struct Program {
    /// Kept to tell the places of errors.
    text: String,
    root: Node,
    result: Type,
}

impl Program {
    /// Parses and checks an expression.
    ///
    /// # Errors
    ///
    /// [`CompileError`] with the first thing that is wrong, where it stands and what was expected.
    pub fn compile(text: &str, environment: &Environment) -> Result<Self, CompileError> {
        let expr = parse::parse(text, environment)?;
        let (root, result) = compile::compile(&expr, environment).map_err(|(offset, kind)| {
            CompileError { position: Position::of(text, offset), kind }
        })?;
        Ok(Self { text: text.to_owned(), root, result })
    }

    /// The expression's value.
    ///
    /// # Errors
    ///
    /// [`EvalError`] if a function refuses its arguments, values whose types could not be told before do
    /// not go together, or a limit of [`crate::limits`] is reached.
    pub fn evaluate<'a>(&'a self, context: &'a dyn Context) -> Result<Value<'a>, EvalError> {
        run::run(&self.root, context).map_err(|(offset, kind)| EvalError {
            position: Position::of(&self.text, offset),
            kind,
        })
    }

    /// Whether the expression's value is true. No value and a value of another type count as false.
    pub fn is_true(&self, context: &dyn Context) -> bool {
        matches!(self.evaluate(context), Ok(Value::Bool(true)))
    }

    /// The type of the expression's value, for variables that are set to it.
    pub fn result(&self) -> Type {
        self.result.declared()
    }

    /// The text given to [`Program::compile`].
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// A part of an expression with its names resolved.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) offset: usize,
    pub(crate) kind: NodeKind,
}

#[derive(Debug, Clone)]
pub(crate) enum NodeKind {
    /// A literal, or an array of literals.
    Constant(Value<'static>),
    Str(String),
    Array(Vec<Node>),
    Map(Vec<(Node, Node)>),
    /// A variable of the environment, by its number.
    Variable(usize),
    /// A `let` variable, by how many others are in sight.
    Local(usize),
    Pointer(Pointer),
    Not(Box<Node>),
    Sign {
        negative: bool,
        of: Box<Node>,
    },
    Binary(Operator, Box<[Node; 2]>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Conditional(Box<[Node; 3]>),
    /// Whether one of many constant strings, which are in order, is the operand.
    InStrings {
        of: Box<Node>,
        strings: Box<[Box<str>]>,
    },
    /// Whether the operand matches a constant regular expression.
    Matches {
        of: Box<Node>,
        regex: Regex,
    },
    Member {
        operands: Box<[Node; 2]>,
        optional: bool,
    },
    Chain(Box<Node>),
    Slice {
        of: Box<Node>,
        from: Option<Box<Node>>,
        to: Option<Box<Node>>,
    },
    Call {
        name: String,
        id: usize,
        arguments: Vec<Node>,
    },
    Builtin {
        function: Builtin,
        arguments: Vec<Node>,
    },
    /// A built-in function with a predicate, and what else it was given.
    Predicate {
        function: Builtin,
        collection: Box<Node>,
        predicate: Option<Box<Node>>,
        extra: Option<Box<Node>>,
    },
    Let {
        value: Box<Node>,
        body: Box<Node>,
    },
    /// Never empty.
    Sequence(Vec<Node>),
}

/// What `#` and its names stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pointer {
    Element,
    Index,
    Accumulator,
}
