//! Expression text to tree.

mod lexer;
mod literal;
mod primary;

use crate::ast::{Expr, Kind, Operator};
use crate::environment::Environment;
use crate::error::{CompileError, CompileErrorKind};
use crate::limits;
use crate::position::Position;
use lexer::{Failure, Kind as TokenKind, Token};

/// Parses an expression. The environment tells which built-in functions are hidden by others.
pub(crate) fn parse(text: &str, environment: &Environment) -> Result<Expr, CompileError> {
    parse_expr(text, environment)
        .map_err(|(offset, kind)| CompileError { position: Position::of(text, offset), kind })
}

fn parse_expr(text: &str, environment: &Environment) -> Result<Expr, Failure> {
    if text.len() > limits::EXPRESSION_BYTES {
        return Err((0, CompileErrorKind::TooLong(text.len())));
    }
    let tokens = lexer::tokens(text)?;
    let mut parser = Parser { tokens, at: 0, environment, nodes: 0, depth: 0, predicates: 0 };
    let expr = parser.sequence()?;
    match parser.peek() {
        end if end.kind == TokenKind::End => Ok(expr),
        token => Err(unexpected(token, "an operator or the end")),
    }
}

/// Whether a name is an identifier and neither a literal nor a word of the language.
pub(crate) fn is_plain_identifier(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_numeric())
        && name.chars().all(lexer::is_word)
        && !lexer::WORDS.contains(&name)
        && !["true", "false", "nil"].contains(&name)
}

struct Parser<'t, 'e> {
    tokens: Vec<Token<'t>>,
    at: usize,
    environment: &'e Environment,
    /// How many parts have been made.
    nodes: usize,
    /// How many expressions are being parsed inside each other.
    depth: usize,
    /// How many predicates are being parsed inside each other.
    predicates: usize,
}

/// Precedence of `and` and `or`, which are kept as chains.
const OR: u8 = 10;
const AND: u8 = 15;
/// Precedence of the comparisons, which may follow each other: `1 < x < 3`.
const COMPARISON: u8 = 20;
const POWER: u8 = 100;

fn operator(token: &Token<'_>) -> Option<(Operator, u8)> {
    if token.kind != TokenKind::Operator {
        return None;
    }
    Some(match token.text {
        "==" => (Operator::Equal, COMPARISON),
        "!=" => (Operator::NotEqual, COMPARISON),
        "<" => (Operator::Less, COMPARISON),
        "<=" => (Operator::LessOrEqual, COMPARISON),
        ">" => (Operator::Greater, COMPARISON),
        ">=" => (Operator::GreaterOrEqual, COMPARISON),
        "in" => (Operator::In, COMPARISON),
        "matches" => (Operator::Matches, COMPARISON),
        "contains" => (Operator::Contains, COMPARISON),
        "startsWith" => (Operator::StartsWith, COMPARISON),
        "endsWith" => (Operator::EndsWith, COMPARISON),
        ".." => (Operator::Range, 25),
        "+" => (Operator::Add, 30),
        "-" => (Operator::Subtract, 30),
        "*" => (Operator::Multiply, 60),
        "/" => (Operator::Divide, 60),
        "%" => (Operator::Modulo, 60),
        "**" | "^" => (Operator::Power, POWER),
        "??" => (Operator::Coalesce, 250),
        _ => return None,
    })
}

/// `and` and `or` in both spellings.
fn logical(token: &Token<'_>) -> Option<(bool, u8)> {
    if token.kind != TokenKind::Operator {
        return None;
    }
    match token.text {
        "and" | "&&" => Some((true, AND)),
        "or" | "||" => Some((false, OR)),
        _ => None,
    }
}

impl<'t> Parser<'t, '_> {
    fn peek(&self) -> Token<'t> {
        self.peek_after(0)
    }

    fn peek_after(&self, tokens: usize) -> Token<'t> {
        let end = Token { kind: TokenKind::End, text: "", offset: 0 };
        self.tokens.get(self.at + tokens).or(self.tokens.last()).copied().unwrap_or(end)
    }

    fn next(&mut self) -> Token<'t> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn accept(&mut self, kind: TokenKind, text: &str) -> bool {
        let accepted = self.peek().is(kind, text);
        self.at += usize::from(accepted);
        accepted
    }

    fn accept_operator(&mut self, text: &str) -> bool {
        self.accept(TokenKind::Operator, text)
    }

    fn expect(&mut self, kind: TokenKind, text: &'static str) -> Result<(), Failure> {
        if self.accept(kind, text) { Ok(()) } else { Err(unexpected(self.peek(), text)) }
    }

    fn identifier(&mut self, expected: &'static str) -> Result<Token<'t>, Failure> {
        let token = self.next();
        if token.kind == TokenKind::Identifier {
            Ok(token)
        } else {
            Err(unexpected(token, expected))
        }
    }

    /// Makes a part out of others, of which the deepest has `depth` levels.
    fn make(&mut self, offset: usize, depth: usize, kind: Kind) -> Result<Expr, Failure> {
        self.nodes += 1;
        if self.nodes > limits::NODES {
            return Err((offset, CompileErrorKind::TooManyNodes));
        }
        if depth >= limits::NESTING {
            return Err((offset, CompileErrorKind::TooDeep));
        }
        Ok(Expr { offset, depth: depth + 1, kind })
    }

    /// Expressions separated by `;`.
    fn sequence(&mut self) -> Result<Expr, Failure> {
        let first = self.expression(0)?;
        if !self.peek().is_operator(";") {
            return Ok(first);
        }
        let offset = first.offset;
        let mut parts = vec![first];
        while self.accept_operator(";") {
            if self.peek().kind == TokenKind::End {
                break;
            }
            parts.push(self.expression(0)?);
        }
        self.make(offset, deepest(&parts), Kind::Sequence(parts))
    }

    /// An expression of operators that bind at least as strongly as `least`.
    fn expression(&mut self, least: u8) -> Result<Expr, Failure> {
        if self.depth >= limits::NESTING {
            return Err((self.peek().offset, CompileErrorKind::TooDeep));
        }
        self.depth += 1;
        let result = self.expression_inside(least);
        self.depth -= 1;
        result
    }

    fn expression_inside(&mut self, least: u8) -> Result<Expr, Failure> {
        if least == 0 && self.peek().is_operator("let") {
            return self.variable();
        }
        if least == 0 && self.peek().is_operator("if") {
            return self.conditional_block();
        }
        let mut left = self.primary()?;
        let mut after_coalesce = false;
        loop {
            let token = self.peek();
            if token.is_operator("|") && least == 0 {
                self.at += 1;
                left = self.pipe(left)?;
                after_coalesce = false;
                continue;
            }
            if let Some((and, precedence)) = logical(&token).filter(|found| found.1 >= least) {
                refuse_after_coalesce(&token, after_coalesce)?;
                left = self.logical_chain(left, and, precedence)?;
                continue;
            }
            let negated = token.is_operator("not");
            let sign = if negated { self.peek_after(1) } else { token };
            if negated && !is_negatable(&sign) {
                return Err(unexpected(sign, "in, matches, contains, startsWith or endsWith"));
            }
            let Some((operator, precedence)) = operator(&sign).filter(|found| found.1 >= least)
            else {
                break;
            };
            self.at += 1 + usize::from(negated);
            if operator != Operator::Coalesce {
                refuse_after_coalesce(&sign, after_coalesce)?;
            }
            after_coalesce = operator == Operator::Coalesce;
            left = if is_order(operator) {
                self.comparisons(left, operator, sign.offset)?
            } else {
                let least = if precedence == POWER { precedence } else { precedence + 1 };
                let right = self.expression(least)?;
                self.binary(sign.offset, operator, left, right)?
            };
            if negated {
                let depth = left.depth;
                left = self.make(sign.offset, depth, Kind::Not(Box::new(left)))?;
            }
        }
        if least == 0 { self.ternary(left) } else { Ok(left) }
    }

    fn binary(
        &mut self,
        offset: usize,
        operator: Operator,
        left: Expr,
        right: Expr,
    ) -> Result<Expr, Failure> {
        let depth = left.depth.max(right.depth);
        self.make(offset, depth, Kind::Binary(operator, Box::new(left), Box::new(right)))
    }

    /// All operands of one `and` or `or` that follow each other, so that long chains are not deep.
    fn logical_chain(&mut self, left: Expr, and: bool, least: u8) -> Result<Expr, Failure> {
        let offset = self.peek().offset;
        let mut operands = vec![left];
        while logical(&self.peek()).is_some_and(|found| found.0 == and) {
            self.at += 1;
            operands.push(self.expression(least + 1)?);
        }
        let depth = deepest(&operands);
        self.make(offset, depth, if and { Kind::And(operands) } else { Kind::Or(operands) })
    }

    /// `a < b < c` is `a < b and b < c`.
    fn comparisons(
        &mut self,
        left: Expr,
        operator: Operator,
        offset: usize,
    ) -> Result<Expr, Failure> {
        let mut left = left;
        let (mut operator, mut offset) = (operator, offset);
        let mut comparisons = Vec::new();
        loop {
            let right = self.expression(COMPARISON + 1)?;
            let next = self.peek();
            let following = self::operator(&next).filter(|found| is_order(found.0));
            if following.is_none() && comparisons.is_empty() {
                return self.binary(offset, operator, left, right);
            }
            // Each copy counts, so that what is kept stays within the limit.
            self.nodes += right.depth;
            comparisons.push(self.binary(offset, operator, left, right.clone())?);
            let Some((following, _)) = following else {
                let depth = deepest(&comparisons);
                return self.make(offset, depth, Kind::And(comparisons));
            };
            self.at += 1;
            (left, operator, offset) = (right, following, next.offset);
        }
    }

    /// `let name = value; body`
    fn variable(&mut self) -> Result<Expr, Failure> {
        self.at += 1;
        let name = self.identifier("the variable's name")?;
        self.expect(TokenKind::Operator, "=")?;
        let value = self.expression(0)?;
        self.expect(TokenKind::Operator, ";")?;
        let body = self.sequence()?;
        let depth = value.depth.max(body.depth);
        let (value, body) = (Box::new(value), Box::new(body));
        self.make(name.offset, depth, Kind::Let { name: name.text.to_owned(), value, body })
    }

    /// `if condition { a } else { b }`
    fn conditional_block(&mut self) -> Result<Expr, Failure> {
        let offset = self.next().offset;
        let condition = self.expression(0)?;
        let yes = self.block()?;
        self.expect(TokenKind::Operator, "else")?;
        let no = if self.peek().is_operator("if") { self.expression(0)? } else { self.block()? };
        self.conditional(offset, condition, yes, no)
    }

    fn block(&mut self) -> Result<Expr, Failure> {
        self.expect(TokenKind::Bracket, "{")?;
        let inside = self.sequence()?;
        self.expect(TokenKind::Bracket, "}")?;
        Ok(inside)
    }

    /// `condition ? a : b`, or `condition ?: b`
    fn ternary(&mut self, condition: Expr) -> Result<Expr, Failure> {
        let mut condition = condition;
        while self.peek().is_operator("?") {
            let offset = self.next().offset;
            let yes = if self.peek().is_operator(":") {
                self.nodes += condition.depth;
                condition.clone()
            } else {
                self.expression(0)?
            };
            self.expect(TokenKind::Operator, ":")?;
            let no = self.expression(0)?;
            condition = self.conditional(offset, condition, yes, no)?;
        }
        Ok(condition)
    }

    fn conditional(
        &mut self,
        offset: usize,
        condition: Expr,
        yes: Expr,
        no: Expr,
    ) -> Result<Expr, Failure> {
        let depth = condition.depth.max(yes.depth).max(no.depth);
        self.make(offset, depth, Kind::Conditional(Box::new([condition, yes, no])))
    }
}

fn is_order(operator: Operator) -> bool {
    use Operator::{Greater, GreaterOrEqual, Less, LessOrEqual};
    matches!(operator, Less | LessOrEqual | Greater | GreaterOrEqual)
}

fn is_negatable(token: &Token<'_>) -> bool {
    token.kind == TokenKind::Operator
        && ["in", "matches", "contains", "startsWith", "endsWith"].contains(&token.text)
}

fn refuse_after_coalesce(token: &Token<'_>, after_coalesce: bool) -> Result<(), Failure> {
    if after_coalesce {
        return Err((token.offset, CompileErrorKind::MixedCoalesce(token.text.to_owned())));
    }
    Ok(())
}

fn deepest(parts: &[Expr]) -> usize {
    parts.iter().map(|part| part.depth).max().unwrap_or(0)
}

fn unexpected(token: Token<'_>, expected: &'static str) -> Failure {
    let found = match token.kind {
        TokenKind::End => "end of expression".to_owned(),
        _ => format!("{:?}", token.text),
    };
    (token.offset, CompileErrorKind::Unexpected { found, expected })
}
