//! A template's text as a tree. Printing the tree gives the text in its normal form.

use crate::render::builtin::Builtin;
use std::fmt::{self, Display, Formatter, Write};

/// What stands between the delimiters of a block.
pub(crate) type List = Vec<Node>;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Text(String),
    Action(Pipeline),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template { offset: usize, name: String, pipeline: Option<Pipeline> },
    Break,
    Continue,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Branch {
    pub(crate) pipeline: Pipeline,
    pub(crate) list: List,
    pub(crate) otherwise: Option<List>,
}

/// Commands, each given the value of the one before, and the variables that take the last value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pipeline {
    pub(crate) offset: usize,
    /// At most two, and two only in a `range`.
    pub(crate) variables: Vec<String>,
    /// `=` instead of `:=`.
    pub(crate) assigns: bool,
    /// Never empty.
    pub(crate) commands: Vec<Command>,
}

/// An operand with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Command {
    pub(crate) first: Operand,
    pub(crate) arguments: Vec<Operand>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operand {
    pub(crate) offset: usize,
    pub(crate) kind: OperandKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OperandKind {
    Dot,
    Nil,
    Bool(bool),
    Number(Number),
    Str {
        /// The literal with its quotes, as written.
        quoted: String,
        value: String,
    },
    /// `.a.b`: fields of dot.
    Field(Vec<String>),
    /// `$x.a.b`; the name includes the dollar sign.
    Variable {
        name: String,
        fields: Vec<String>,
    },
    Function(Builtin),
    Pipeline(Box<Pipeline>),
    /// `(pipeline).a.b` or `function.a.b`.
    Chain {
        of: Box<Operand>,
        fields: Vec<String>,
    },
}

/// A literal number with every type that it can have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Number {
    pub(crate) text: String,
    pub(crate) int: Option<i64>,
    pub(crate) float: Option<f64>,
    /// Whether it is written as a float, and so is one where no other type is asked for.
    pub(crate) is_float: bool,
}

/// A list in its normal form.
pub(crate) struct Normal<'a>(pub(crate) &'a List);

impl Display for Normal<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|node| write!(f, "{node}"))
    }
}

impl Display for Node {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Action(pipeline) => write!(f, "{{{{{pipeline}}}}}"),
            Self::If(branch) => branch.write("if", f),
            Self::With(branch) => branch.write("with", f),
            Self::Range(branch) => branch.write("range", f),
            Self::Template { name, pipeline, .. } => {
                f.write_str("{{template ")?;
                crate::format::quote::quote(name, false, f)?;
                if let Some(pipeline) = pipeline {
                    write!(f, " {pipeline}")?;
                }
                f.write_str("}}")
            }
            Self::Break => f.write_str("{{break}}"),
            Self::Continue => f.write_str("{{continue}}"),
        }
    }
}

impl Branch {
    fn write(&self, keyword: &str, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{{{{{keyword} {}}}}}{}", self.pipeline, Normal(&self.list))?;
        if let Some(otherwise) = &self.otherwise {
            write!(f, "{{{{else}}}}{}", Normal(otherwise))?;
        }
        f.write_str("{{end}}")
    }
}

impl Display for Pipeline {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.variables.is_empty() {
            let sign = if self.assigns { "=" } else { ":=" };
            write!(f, "{} {sign} ", self.variables.join(", "))?;
        }
        for (position, command) in self.commands.iter().enumerate() {
            if position > 0 {
                f.write_str(" | ")?;
            }
            write!(f, "{command}")?;
        }
        Ok(())
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
    }
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            OperandKind::Dot => f.write_char('.'),
            OperandKind::Nil => f.write_str("nil"),
            OperandKind::Bool(value) => write!(f, "{value}"),
            OperandKind::Number(number) => f.write_str(&number.text),
            OperandKind::Str { quoted, .. } => f.write_str(quoted),
            OperandKind::Field(fields) => write_fields(fields, f),
            OperandKind::Variable { name, fields } => {
                f.write_str(name)?;
                write_fields(fields, f)
            }
            OperandKind::Function(function) => f.write_str(function.name()),
            OperandKind::Pipeline(pipeline) => write!(f, "({pipeline})"),
            OperandKind::Chain { of, fields } => {
                write!(f, "{of}")?;
                write_fields(fields, f)
            }
        }
    }
}

fn write_fields(fields: &[String], f: &mut Formatter<'_>) -> fmt::Result {
    fields.iter().try_for_each(|field| write!(f, ".{field}"))
}
