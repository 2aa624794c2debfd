//! Operands: literals, names, calls, brackets and what follows them.

use super::lexer::{Failure, Kind as TokenKind, Token};
use super::{Parser, deepest, literal, unexpected};
use crate::ast::{Expr, Kind};
use crate::builtin::{self, Builtin};
use crate::error::CompileErrorKind;

/// Precedence of `not` and of a sign before an operand.
const NOT: u8 = 50;
const SIGN: u8 = 90;

impl<'t> Parser<'t, '_> {
    /// An operand with the members and slices behind it.
    pub(super) fn primary(&mut self) -> Result<Expr, Failure> {
        let token = self.peek();
        let offset = token.offset;
        let operand = match (token.kind, token.text) {
            (TokenKind::Operator, "not" | "!") => {
                self.at += 1;
                let of = self.expression(NOT)?;
                self.make(offset, of.depth, Kind::Not(Box::new(of)))?
            }
            (TokenKind::Operator, "-" | "+") => {
                self.at += 1;
                let of = self.expression(SIGN)?;
                let negative = token.text == "-";
                self.make(offset, of.depth, Kind::Sign { negative, of: Box::new(of) })?
            }
            (TokenKind::Bracket, "(") => {
                self.at += 1;
                let inside = self.sequence()?;
                self.expect(TokenKind::Bracket, ")")?;
                inside
            }
            (TokenKind::Operator, "#" | ".") if self.predicates > 0 => self.pointer(token)?,
            (TokenKind::Operator, "::") => {
                self.at += 1;
                let name = self.identifier("a function's name")?;
                self.call(name, Vec::new(), false)?
            }
            _ => return self.secondary(),
        };
        self.postfix(operand)
    }

    /// `#`, `#name`, or nothing before a `.`.
    fn pointer(&mut self, token: Token<'t>) -> Result<Expr, Failure> {
        let mut name = "";
        if token.text == "#" {
            self.at += 1;
            if self.peek().kind == TokenKind::Identifier {
                name = self.next().text;
            }
        }
        self.make(token.offset, 0, Kind::Pointer(name.to_owned()))
    }

    fn secondary(&mut self) -> Result<Expr, Failure> {
        let token = self.next();
        let offset = token.offset;
        let kind = match token.kind {
            TokenKind::Identifier => match token.text {
                "true" => return self.make(offset, 0, Kind::Bool(true)),
                "false" => return self.make(offset, 0, Kind::Bool(false)),
                "nil" => return self.make(offset, 0, Kind::Nil),
                _ if self.peek().is_bracket("(") => {
                    let call = self.call(token, Vec::new(), true)?;
                    return self.postfix(call);
                }
                name => Kind::Name(name.to_owned()),
            },
            TokenKind::Number => {
                let number = literal::number(token.text)
                    .ok_or_else(|| (offset, CompileErrorKind::Number(token.text.to_owned())))?;
                return self.make(offset, 0, number);
            }
            TokenKind::Str | TokenKind::RawStr => Kind::Str(string(token)?),
            TokenKind::Bracket if token.text == "[" => {
                let elements = self.list("]", |parser, _| parser.expression(0))?;
                let array = self.make(offset, deepest(&elements), Kind::Array(elements))?;
                return self.postfix(array);
            }
            TokenKind::Bracket if token.text == "{" => {
                let map = self.map(offset)?;
                return self.postfix(map);
            }
            _ => return Err(unexpected(token, "a value")),
        };
        let operand = self.make(offset, 0, kind)?;
        self.postfix(operand)
    }

    /// Elements separated by commas, with one more comma allowed at the end, up to and with a bracket.
    fn list<T>(
        &mut self,
        close: &'static str,
        mut element: impl FnMut(&mut Self, usize) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        let mut elements = Vec::new();
        while !self.accept(TokenKind::Bracket, close) {
            if !elements.is_empty() {
                self.expect(TokenKind::Operator, ",")?;
                if self.accept(TokenKind::Bracket, close) {
                    break;
                }
            }
            elements.push(element(self, elements.len())?);
        }
        Ok(elements)
    }

    fn map(&mut self, offset: usize) -> Result<Expr, Failure> {
        let pairs = self.list("}", |parser, _| {
            let token = parser.peek();
            let key = match token.kind {
                TokenKind::Number | TokenKind::Identifier => {
                    parser.at += 1;
                    parser.make(token.offset, 0, Kind::Str(token.text.to_owned()))?
                }
                TokenKind::Str | TokenKind::RawStr => {
                    parser.at += 1;
                    parser.make(token.offset, 0, Kind::Str(string(token)?))?
                }
                _ if token.is_bracket("(") => parser.expression(0)?,
                _ => return Err(unexpected(token, "a name, string or (expression) as key")),
            };
            parser.expect(TokenKind::Operator, ":")?;
            Ok((key, parser.expression(0)?))
        })?;
        let depth = pairs.iter().map(|(key, value)| key.depth.max(value.depth)).max().unwrap_or(0);
        self.make(offset, depth, Kind::Map(pairs))
    }

    /// `left | function(more)`
    pub(super) fn pipe(&mut self, left: Expr) -> Result<Expr, Failure> {
        let name = self.identifier("a function's name")?;
        self.call(name, vec![left], true)
    }

    /// A call of the function named by a token, behind which the parenthesis opens.
    fn call(
        &mut self,
        name: Token<'t>,
        first: Vec<Expr>,
        environment_first: bool,
    ) -> Result<Expr, Failure> {
        self.expect(TokenKind::Bracket, "(")?;
        let hidden = environment_first && self.environment.contains(name.text);
        let function = if hidden { None } else { Builtin::named(name.text) };
        let Some(function) = function else {
            if !hidden && !self.environment.contains(name.text) {
                return Err((name.offset, unknown(name.text, self)));
            }
            let arguments = self.arguments(first, None)?;
            let depth = deepest(&arguments);
            let name_text = name.text.to_owned();
            return self.make(name.offset, depth, Kind::Call { name: name_text, arguments });
        };
        let arguments = self.arguments(first, Some(function))?;
        let (least, most) = function.arity();
        if arguments.len() < least || arguments.len() > most {
            let expected = match most {
                _ if least == most => format!("expected {least}"),
                usize::MAX => format!("expected at least {least}"),
                _ => format!("expected {least} to {most}"),
            };
            let reason = format!("{} arguments, {expected}", arguments.len());
            let function = function.name().to_owned();
            return Err((name.offset, CompileErrorKind::Arguments { function, reason }));
        }
        let depth = deepest(&arguments);
        self.make(name.offset, depth, Kind::Builtin { function, arguments })
    }

    fn arguments(
        &mut self,
        first: Vec<Expr>,
        function: Option<Builtin>,
    ) -> Result<Vec<Expr>, Failure> {
        let piped = first.len();
        let predicate = function.is_some_and(Builtin::has_predicate);
        let mut arguments = first;
        arguments.extend(self.list(")", |parser, position| {
            if predicate && position + piped == 1 {
                parser.predicate()
            } else {
                parser.expression(0)
            }
        })?);
        Ok(arguments)
    }

    /// An expression in which `#` is an element, with or without braces.
    fn predicate(&mut self) -> Result<Expr, Failure> {
        self.predicates += 1;
        let predicate =
            if self.peek().is_bracket("{") { self.braced_predicate() } else { self.expression(0) };
        self.predicates -= 1;
        predicate
    }

    fn braced_predicate(&mut self) -> Result<Expr, Failure> {
        self.expect(TokenKind::Bracket, "{")?;
        let inside = self.sequence()?;
        self.expect(TokenKind::Bracket, "}")?;
        Ok(inside)
    }

    /// Members, elements and slices of an operand.
    fn postfix(&mut self, operand: Expr) -> Result<Expr, Failure> {
        let mut of = operand;
        loop {
            let token = self.peek();
            of = match (token.kind, token.text) {
                (TokenKind::Operator, "?.") if self.peek_after(1).is_bracket("[") => {
                    self.at += 2;
                    self.element(of, token.offset, true)?
                }
                (TokenKind::Operator, "." | "?.") => {
                    self.at += 1;
                    self.member(of, token.text == "?.")?
                }
                (TokenKind::Bracket, "[") => {
                    self.at += 1;
                    self.element(of, token.offset, false)?
                }
                _ => return Ok(of),
            };
        }
    }

    /// `.name` behind an operand.
    fn member(&mut self, of: Expr, optional: bool) -> Result<Expr, Failure> {
        let token = self.next();
        let word = token.text.starts_with(|first: char| first.is_alphabetic() || first == '_');
        let named =
            token.kind == TokenKind::Identifier || (token.kind == TokenKind::Operator && word);
        if !named {
            return Err(unexpected(token, "a name"));
        }
        if self.peek().is_bracket("(") {
            let what = format!("the method {}", token.text);
            return Err((token.offset, CompileErrorKind::Unsupported(what)));
        }
        // A chain goes on as a whole: what follows is skipped together with what was optional.
        let (of, in_chain) = match of.kind {
            Kind::Chain(inner) => (inner, true),
            kind => (Box::new(Expr { kind, ..of }), false),
        };
        let key = Box::new(self.make(token.offset, 0, Kind::Str(token.text.to_owned()))?);
        let depth = of.depth;
        let member = self.make(token.offset, depth, Kind::Member { of, key, optional })?;
        if in_chain || optional { self.chain(member) } else { Ok(member) }
    }

    fn chain(&mut self, member: Expr) -> Result<Expr, Failure> {
        let (offset, depth) = (member.offset, member.depth);
        self.make(offset, depth, Kind::Chain(Box::new(member)))
    }

    /// `key]`, `from:to]` behind an operand and its bracket.
    fn element(&mut self, of: Expr, offset: usize, optional: bool) -> Result<Expr, Failure> {
        let of = Box::new(of);
        let from = if self.peek().is_operator(":") { None } else { Some(self.expression(0)?) };
        if self.accept_operator(":") {
            let open = self.peek().is_bracket("]");
            let to = if open { None } else { Some(self.expression(0)?) };
            self.expect(TokenKind::Bracket, "]")?;
            let bounds = from.iter().chain(&to).map(|bound| bound.depth).max().unwrap_or(0);
            let depth = of.depth.max(bounds);
            let (from, to) = (from.map(Box::new), to.map(Box::new));
            return self.make(offset, depth, Kind::Slice { of, from, to });
        }
        self.expect(TokenKind::Bracket, "]")?;
        let Some(key) = from.map(Box::new) else {
            return Err(unexpected(self.peek(), "an index"));
        };
        let depth = of.depth.max(key.depth);
        let member = self.make(offset, depth, Kind::Member { of, key, optional })?;
        if optional { self.chain(member) } else { Ok(member) }
    }
}

fn string(token: Token<'_>) -> Result<String, Failure> {
    let value = match token.kind {
        TokenKind::RawStr => literal::raw_string(token.text),
        _ => literal::string(token.text),
    };
    value.ok_or_else(|| (token.offset, CompileErrorKind::Escape(token.text.to_owned())))
}

fn unknown(name: &str, parser: &Parser<'_, '_>) -> CompileErrorKind {
    if builtin::is_unsupported(name) {
        return CompileErrorKind::Unsupported(format!("the function {name}"));
    }
    crate::compile::unknown_name(name, parser.environment)
}
