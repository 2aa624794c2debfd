//! What stands inside of an action: pipelines, commands and operands.

use super::lexer::{Kind, Token};
use super::{Failure, Parser, bad, literal, string, unexpected};
use crate::ast::{Command, Operand, OperandKind, Pipeline};
use crate::error::ParseErrorKind;
use crate::render::builtin::Builtin;

impl Parser<'_> {
    /// Variables and commands up to and with the token `end`.
    pub(super) fn pipeline(
        &mut self,
        context: &'static str,
        end: Kind,
    ) -> Result<Pipeline, Failure> {
        let offset = self.peek().offset;
        let (variables, assigns) = self.declarations(context)?;
        let mut commands: Vec<Command> = Vec::new();
        loop {
            let token = self.peek();
            if token.kind == end {
                self.at += 1;
                break;
            }
            if !starts_operand(token.kind) {
                return Err(unexpected(token, context, "a value"));
            }
            let command = self.command()?;
            if !commands.is_empty() && is_literal(&command.first.kind) {
                let expected = "a function, method or parenthesised pipeline behind |";
                return Err(unexpected(token, context, expected));
            }
            commands.push(command);
        }
        if commands.is_empty() {
            let token = Token { text: "nothing", offset, ..self.peek() };
            return Err(unexpected(token, context, "a value"));
        }
        Ok(Pipeline { offset, variables, assigns, commands })
    }

    /// `$x :=`, `$x =`, and in a range also `$x, $y :=`.
    fn declarations(&mut self, context: &'static str) -> Result<(Vec<String>, bool), Failure> {
        let mut variables = Vec::new();
        while self.peek().kind == Kind::Variable {
            let variable = self.peek();
            let sign = self.tokens.get(self.at + 1).copied().unwrap_or(variable);
            match sign.kind {
                Kind::Declare | Kind::Assign | Kind::Comma => {}
                // Not a declaration; or, as in Go, a list of variables that no sign follows.
                _ => break,
            }
            self.at += 2;
            variables.push(variable.text.to_owned());
            self.scope.variables.push(variable.text);
            if sign.kind != Kind::Comma {
                return Ok((variables, sign.kind == Kind::Assign));
            }
            if context != "range" || variables.len() > 1 {
                return Err(unexpected(sign, context, "one variable, or two in a range"));
            }
            let next = self.peek();
            if !matches!(next.kind, Kind::Variable | Kind::Right | Kind::RightParen) {
                return Err(unexpected(next, context, "a second variable"));
            }
        }
        Ok((variables, false))
    }

    /// Operands up to and with `|`, or up to the end of the pipeline.
    fn command(&mut self) -> Result<Command, Failure> {
        let first = self.operand()?;
        let mut arguments = Vec::new();
        loop {
            let token = self.peek();
            match token.kind {
                Kind::Pipe => {
                    self.at += 1;
                    break;
                }
                Kind::Right | Kind::RightParen => break,
                kind if token.spaced && starts_operand(kind) => arguments.push(self.operand()?),
                _ => return Err(unexpected(token, "operands", "space, |, ) or }}")),
            }
        }
        Ok(Command { first, arguments })
    }

    /// A term with the fields that follow it without space.
    fn operand(&mut self) -> Result<Operand, Failure> {
        let mut operand = self.term()?;
        let mut more = Vec::new();
        while self.peek().kind == Kind::Field && !self.peek().spaced {
            more.push(field_name(self.next()));
        }
        if more.is_empty() {
            return Ok(operand);
        }
        match &mut operand.kind {
            OperandKind::Field(fields) | OperandKind::Variable { fields, .. } => {
                fields.extend(more)
            }
            OperandKind::Function(_) | OperandKind::Pipeline(_) | OperandKind::Chain { .. } => {
                let offset = operand.offset;
                let kind = OperandKind::Chain { of: Box::new(operand), fields: more };
                return Ok(Operand { offset, kind });
            }
            _ => {
                let at = operand.offset;
                let found = format!("a field of {operand}");
                let (context, expected) = ("operands", "space behind a literal or dot");
                return Err((at, ParseErrorKind::Unexpected { found, context, expected }));
            }
        }
        Ok(operand)
    }

    fn term(&mut self) -> Result<Operand, Failure> {
        let token = self.next();
        let kind = match token.kind {
            Kind::Dot => OperandKind::Dot,
            Kind::Nil => OperandKind::Nil,
            Kind::Bool => OperandKind::Bool(token.text == "true"),
            Kind::Field => OperandKind::Field(vec![field_name(token)]),
            Kind::Variable => {
                if !self.scope.variables.contains(&token.text) {
                    let kind = ParseErrorKind::UnknownVariable(token.text.to_owned());
                    return Err((token.offset, kind));
                }
                OperandKind::Variable { name: token.text.to_owned(), fields: Vec::new() }
            }
            Kind::Identifier => OperandKind::Function(function(token)?),
            Kind::Number => OperandKind::Number(
                literal::number(token.text)
                    .ok_or_else(|| (token.offset, ParseErrorKind::Number(token.text.to_owned())))?,
            ),
            Kind::Character => {
                OperandKind::Number(literal::character(token.text).ok_or_else(|| bad(token))?)
            }
            Kind::Str | Kind::RawStr => {
                OperandKind::Str { quoted: token.text.to_owned(), value: string(token)? }
            }
            Kind::LeftParen => {
                OperandKind::Pipeline(Box::new(self.deeper(token.offset, |parser| {
                    parser.pipeline("parentheses", Kind::RightParen)
                })?))
            }
            _ => return Err(unexpected(token, "operands", "a value")),
        };
        Ok(Operand { offset: token.offset, kind })
    }
}

fn starts_operand(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Dot
            | Kind::Nil
            | Kind::Bool
            | Kind::Field
            | Kind::Variable
            | Kind::Identifier
            | Kind::Number
            | Kind::Character
            | Kind::Str
            | Kind::RawStr
            | Kind::LeftParen
    )
}

/// Whether an operand can take no value from a pipeline.
fn is_literal(kind: &OperandKind) -> bool {
    matches!(
        kind,
        OperandKind::Dot
            | OperandKind::Nil
            | OperandKind::Bool(_)
            | OperandKind::Number(_)
            | OperandKind::Str { .. }
    )
}

fn field_name(token: Token<'_>) -> String {
    token.text.trim_start_matches('.').to_owned()
}

fn function(token: Token<'_>) -> Result<Builtin, Failure> {
    Builtin::named(token.text).ok_or_else(|| {
        let hint = match Builtin::nearest(token.text) {
            Some(known) => format!(", did you mean {known:?}?"),
            None => String::new(),
        };
        let name = token.text.to_owned();
        (token.offset, ParseErrorKind::UnknownFunction { name, hint })
    })
}
