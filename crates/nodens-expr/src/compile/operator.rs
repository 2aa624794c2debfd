//! Operators.

use super::{Compiler, Failure, constant, is_arithmetic, operands, wrong_type};
use crate::ast::{Expr, Operator};
use crate::error::CompileErrorKind;
use crate::limits;
use crate::program::{Node, NodeKind};
use crate::types::Type;
use crate::value::Value;
use nodens_goregex::Regex;

impl Compiler<'_> {
    pub(super) fn not(&mut self, of: &Expr) -> Result<(NodeKind, Type), Failure> {
        let (node, of) = self.node(of)?;
        if of != Type::Bool && !of.is_any() {
            return Err(wrong_type(node.offset, "bool".to_owned(), &of));
        }
        Ok((NodeKind::Not(Box::new(node)), Type::Bool))
    }

    pub(super) fn sign(&mut self, negative: bool, of: &Expr) -> Result<(NodeKind, Type), Failure> {
        let (node, of) = self.node(of)?;
        if !of.is_number() && !of.is_any() {
            return Err(wrong_type(node.offset, "a number".to_owned(), &of));
        }
        let kind = match (&node.kind, negative) {
            (NodeKind::Constant(Value::Int(value)), true) => {
                NodeKind::Constant(Value::Int(value.wrapping_neg()))
            }
            (NodeKind::Constant(Value::Float(value)), true) => {
                NodeKind::Constant(Value::Float(-value))
            }
            _ => NodeKind::Sign { negative, of: Box::new(node) },
        };
        Ok((kind, of))
    }

    /// Operands that are all conditions.
    pub(super) fn logical(
        &mut self,
        operator: &'static str,
        exprs: &[Expr],
    ) -> Result<Vec<Node>, Failure> {
        let (nodes, types) = self.nodes(exprs)?;
        for ((position, of), node) in types.iter().enumerate().zip(&nodes) {
            if *of != Type::Bool && !of.is_any() {
                let neighbour = if position == 0 { types.get(1) } else { types.first() };
                let neighbour = neighbour.cloned().unwrap_or(Type::Any);
                let (left, right) =
                    if position == 0 { (of.clone(), neighbour) } else { (neighbour, of.clone()) };
                return Err(operands(node.offset, operator, left, right));
            }
        }
        Ok(nodes)
    }

    pub(super) fn binary(
        &mut self,
        offset: usize,
        operator: Operator,
        left: &Expr,
        right: &Expr,
    ) -> Result<(NodeKind, Type), Failure> {
        let (left, left_type) = self.node(left)?;
        let (right, right_type) = self.node(right)?;
        let Some(of) = result(operator, &left_type, &right_type) else {
            return Err(operands(offset, operator.sign(), left_type, right_type));
        };
        let zero = |node: &Node| matches!(node.kind, NodeKind::Constant(Value::Int(0)));
        let literal = |node: &Node| matches!(node.kind, NodeKind::Constant(Value::Int(_)));
        let kind = match operator {
            Operator::Modulo if literal(&left) && zero(&right) => {
                return Err((offset, CompileErrorKind::DivisionByZero));
            }
            Operator::In => membership(left, right),
            Operator::Matches => matches(offset, left, right)?,
            _ => NodeKind::Binary(operator, Box::new([left, right])),
        };
        Ok((kind, of))
    }
}

/// The type of what an operator gives; `None` if it does not take the operands.
fn result(operator: Operator, left: &Type, right: &Type) -> Option<Type> {
    use Operator as Op;
    let numbers = left.is_number() && right.is_number();
    let strings = *left == Type::Str && *right == Type::Str;
    // One or both are known only when evaluated.
    let maybe = |fits: fn(&Type) -> bool| {
        (left.is_any() || right.is_any())
            && (left.is_any() || fits(left))
            && (right.is_any() || fits(right))
    };
    let is_string = |of: &Type| *of == Type::Str;
    let number_or_string = |of: &Type| of.is_number() || *of == Type::Str;
    let is_int = |of: &Type| *of == Type::Int;
    match operator {
        Op::Equal | Op::NotEqual => left.comparable(right).then_some(Type::Bool),
        Op::Less | Op::LessOrEqual | Op::Greater | Op::GreaterOrEqual => {
            (numbers || strings || maybe(number_or_string)).then_some(Type::Bool)
        }
        Op::Add if strings => Some(Type::Str),
        Op::Divide | Op::Power if numbers || maybe(Type::is_number) => Some(Type::Float),
        Op::Add | Op::Subtract | Op::Multiply if numbers => Some(promoted(left, right)),
        Op::Add => maybe(number_or_string).then_some(Type::Any),
        _ if is_arithmetic(operator) => maybe(Type::is_number).then_some(Type::Any),
        Op::Modulo => {
            ((*left == Type::Int && *right == Type::Int) || maybe(is_int)).then_some(Type::Int)
        }
        Op::Range => ((*left == Type::Int && *right == Type::Int) || maybe(is_int))
            .then(|| Type::array_of(Type::Int)),
        Op::In => is_member(left, right).then_some(Type::Bool),
        Op::Matches | Op::Contains | Op::StartsWith | Op::EndsWith => {
            (strings || maybe(is_string)).then_some(Type::Bool)
        }
        _ => Some(match (left, right) {
            (Type::Nil, other) | (other, Type::Nil) => other.clone(),
            _ if !left.is_any() && right.fits(left) => left.clone(),
            _ => Type::Any,
        }),
    }
}

fn promoted(left: &Type, right: &Type) -> Type {
    if *left == Type::Int && *right == Type::Int { Type::Int } else { Type::Float }
}

fn is_member(needle: &Type, of: &Type) -> bool {
    match of {
        Type::Any => true,
        Type::Map => needle.is_any() || *needle == Type::Str,
        Type::Array(element) | Type::Literal(element) => needle.comparable(element),
        Type::Str => needle.is_any(),
        _ => false,
    }
}

/// From how many strings on a search is faster than a comparison with each.
const SEARCHED: usize = 8;

/// `in`, with the strings of a long constant array in order.
fn membership(left: Node, right: Node) -> NodeKind {
    if let NodeKind::Constant(Value::Array(values)) = &right.kind {
        let strings: Option<Vec<Box<str>>> = values
            .iter()
            .map(|value| match value {
                Value::Str(text) => Some(Box::from(&**text)),
                _ => None,
            })
            .collect();
        if let Some(mut strings) = strings.filter(|strings| strings.len() >= SEARCHED) {
            strings.sort_unstable();
            return NodeKind::InStrings { of: Box::new(left), strings: strings.into() };
        }
    }
    NodeKind::Binary(Operator::In, Box::new([left, right]))
}

/// `matches`, with a constant regular expression compiled.
fn matches(offset: usize, left: Node, right: Node) -> Result<NodeKind, Failure> {
    let Some(Value::Str(pattern)) = constant(&right) else {
        return Ok(NodeKind::Binary(Operator::Matches, Box::new([left, right])));
    };
    let regex = Regex::with_limit(&pattern, limits::REGEX_BYTES)
        .map_err(|error| (offset, CompileErrorKind::Regex(error)))?;
    Ok(NodeKind::Matches { of: Box::new(left), regex })
}
