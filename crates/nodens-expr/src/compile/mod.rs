//! Checks the types of an expression and resolves its names.

mod member;

mod operator;
mod predicate;

use crate::ast::{Expr, Kind, Operator};
use crate::builtin::{self, Builtin};
use crate::environment::Environment;
use crate::error::CompileErrorKind;
use crate::program::{Node, NodeKind};
use crate::types::Type;
use crate::value::{Text, Value};

/// An error with its offset.
type Failure = (usize, CompileErrorKind);

/// A part and its type.
type Typed = (Node, Type);

pub(crate) fn compile(expr: &Expr, environment: &Environment) -> Result<Typed, Failure> {
    let mut compiler = Compiler { environment, locals: Vec::new(), scopes: Vec::new() };
    compiler.node(expr)
}

struct Compiler<'e> {
    environment: &'e Environment,
    /// The `let` variables in sight.
    locals: Vec<(String, Type)>,
    /// The predicates around, the innermost last.
    scopes: Vec<Scope>,
}

/// What `#` means inside of a predicate.
struct Scope {
    element: Type,
    has_index: bool,
    has_accumulator: bool,
}

impl Compiler<'_> {
    fn node(&mut self, expr: &Expr) -> Result<Typed, Failure> {
        let offset = expr.offset;
        let (kind, of) = match &expr.kind {
            Kind::Nil => (NodeKind::Constant(Value::Nil), Type::Nil),
            Kind::Bool(value) => (NodeKind::Constant(Value::Bool(*value)), Type::Bool),
            Kind::Int(value) => (NodeKind::Constant(Value::Int(*value)), Type::Int),
            Kind::Float(value) => (NodeKind::Constant(Value::Float(*value)), Type::Float),
            Kind::Str(value) => (NodeKind::Str(value.clone()), Type::Str),
            Kind::Array(elements) => self.array(elements)?,
            Kind::Map(pairs) => self.map(pairs)?,
            Kind::Name(name) => self.name(offset, name)?,
            Kind::Pointer(name) => self.pointer(offset, name)?,
            Kind::Not(of) => self.not(of)?,
            Kind::Sign { negative, of } => self.sign(*negative, of)?,
            Kind::Binary(operator, left, right) => self.binary(offset, *operator, left, right)?,
            Kind::And(operands) => (NodeKind::And(self.logical("and", operands)?), Type::Bool),
            Kind::Or(operands) => (NodeKind::Or(self.logical("or", operands)?), Type::Bool),
            Kind::Conditional(parts) => self.conditional(parts)?,
            Kind::Member { of, key, optional } => self.member(offset, of, key, *optional)?,
            Kind::Chain(inner) => {
                let (node, of) = self.node(inner)?;
                (NodeKind::Chain(Box::new(node)), of)
            }
            Kind::Slice { of, from, to } => self.slice(of, from.as_deref(), to.as_deref())?,
            Kind::Call { name, arguments } => self.call(offset, name, arguments)?,
            Kind::Builtin { function, arguments } if function.has_predicate() => {
                self.with_predicate(*function, arguments)?
            }
            Kind::Builtin { function, arguments } => self.builtin(offset, *function, arguments)?,
            Kind::Let { name, value, body } => self.variable(offset, name, value, body)?,
            Kind::Sequence(parts) => {
                let (nodes, types) = self.nodes(parts)?;
                (NodeKind::Sequence(nodes), types.into_iter().next_back().unwrap_or(Type::Nil))
            }
        };
        Ok((Node { offset, kind }, of))
    }

    fn nodes(&mut self, exprs: &[Expr]) -> Result<(Vec<Node>, Vec<Type>), Failure> {
        let mut nodes = Vec::with_capacity(exprs.len());
        let mut types = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let (node, of) = self.node(expr)?;
            nodes.push(node);
            types.push(of);
        }
        Ok((nodes, types))
    }

    fn array(&mut self, elements: &[Expr]) -> Result<(NodeKind, Type), Failure> {
        let (nodes, types) = self.nodes(elements)?;
        let same = types.windows(2).all(|pair| match pair {
            [a, b] => a == b || (a.is_array() && b.is_array()),
            _ => true,
        });
        let element = if same { types.into_iter().next_back() } else { None };
        let of = Type::Literal(Box::new(element.unwrap_or(Type::Any)));
        let constants: Option<Vec<Value<'static>>> = nodes.iter().map(constant).collect();
        let kind = match constants {
            Some(values) => NodeKind::Constant(Value::from(values)),
            None => NodeKind::Array(nodes),
        };
        Ok((kind, of))
    }

    fn map(&mut self, pairs: &[(Expr, Expr)]) -> Result<(NodeKind, Type), Failure> {
        let mut nodes = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            nodes.push((self.node(key)?.0, self.node(value)?.0));
        }
        Ok((NodeKind::Map(nodes), Type::Map))
    }

    fn name(&mut self, offset: usize, name: &str) -> Result<(NodeKind, Type), Failure> {
        if let Some(slot) = self.locals.iter().rposition(|(known, _)| known == name) {
            let of = self.locals.get(slot).map_or(Type::Any, |(_, of)| of.clone());
            return Ok((NodeKind::Local(slot), of));
        }
        if let Some(variable) = self.environment.variable(name) {
            return Ok((NodeKind::Variable(variable.id), variable.of.clone()));
        }
        let function = self.environment.function(name).is_some() || builtin::is_known(name);
        let kind = if function {
            let found = format!("function {name}");
            CompileErrorKind::Unexpected { found, expected: "a call with parentheses" }
        } else if name == "$env" {
            CompileErrorKind::Unsupported(name.to_owned())
        } else {
            unknown_name(name, self.environment)
        };
        Err((offset, kind))
    }

    fn call(
        &mut self,
        offset: usize,
        name: &str,
        arguments: &[Expr],
    ) -> Result<(NodeKind, Type), Failure> {
        let Some(function) = self.environment.function(name) else {
            let found = format!("variable {name}");
            let expected = "a function's name before the parenthesis";
            return Err((offset, CompileErrorKind::Unexpected { found, expected }));
        };
        let (id, result) = (function.id, function.result.clone());
        if arguments.len() != function.parameters.len() {
            let (found, expected) = (arguments.len(), function.parameters.len());
            let reason = format!("{found} arguments, expected {expected}");
            let function = name.to_owned();
            return Err((offset, CompileErrorKind::Arguments { function, reason }));
        }
        let parameters = function.parameters.clone();
        let (nodes, types) = self.nodes(arguments)?;
        for ((given, parameter), node) in types.iter().zip(&parameters).zip(&nodes) {
            if !given.is_any() && !given.fits(parameter) {
                return Err(wrong_type(node.offset, parameter.to_string(), given));
            }
        }
        Ok((NodeKind::Call { name: name.to_owned(), id, arguments: nodes }, result))
    }

    fn builtin(
        &mut self,
        offset: usize,
        function: Builtin,
        arguments: &[Expr],
    ) -> Result<(NodeKind, Type), Failure> {
        let (nodes, types) = self.nodes(arguments)?;
        let result = function.check(&types).map_err(|reason| {
            let function = function.name().to_owned();
            (offset, CompileErrorKind::Arguments { function, reason })
        })?;
        Ok((NodeKind::Builtin { function, arguments: nodes }, result))
    }

    fn variable(
        &mut self,
        offset: usize,
        name: &str,
        value: &Expr,
        body: &Expr,
    ) -> Result<(NodeKind, Type), Failure> {
        let taken = self.environment.contains(name)
            || builtin::is_known(name)
            || self.locals.iter().any(|(known, _)| known == name);
        if taken {
            return Err((offset, CompileErrorKind::Redeclared(name.to_owned())));
        }
        let (value, of) = self.node(value)?;
        self.locals.push((name.to_owned(), of));
        let (body, of) = self.node(body)?;
        self.locals.pop();
        Ok((NodeKind::Let { value: Box::new(value), body: Box::new(body) }, of))
    }

    fn conditional(&mut self, parts: &[Expr; 3]) -> Result<(NodeKind, Type), Failure> {
        let [condition, yes, no] = parts;
        let (condition, of) = self.node(condition)?;
        if of != Type::Bool && !of.is_any() {
            return Err(wrong_type(condition.offset, "bool".to_owned(), &of));
        }
        let (yes, yes_type) = self.node(yes)?;
        let (no, no_type) = self.node(no)?;
        let of = match (yes_type, no_type) {
            (Type::Nil, other) | (other, Type::Nil) => other,
            (yes, no) if yes.is_array() && no.is_array() && yes.element() != no.element() => {
                Type::any_array()
            }
            (yes, no) if !no.is_any() && yes.fits(&no) => yes,
            _ => Type::Any,
        };
        Ok((NodeKind::Conditional(Box::new([condition, yes, no])), of))
    }
}

/// The value of a part that is always the same.
fn constant(node: &Node) -> Option<Value<'static>> {
    match &node.kind {
        NodeKind::Constant(value) => Some(value.clone()),
        NodeKind::Str(text) => Some(Value::Str(Text::Shared(text.as_str().into()))),
        _ => None,
    }
}

fn wrong_type(offset: usize, expected: String, found: &Type) -> Failure {
    (offset, CompileErrorKind::WrongType { expected, found: found.clone() })
}

fn operands(offset: usize, operator: &'static str, left: Type, right: Type) -> Failure {
    (offset, CompileErrorKind::Operands { operator, left, right })
}

/// A name that nobody knows, with the nearest that somebody does.
pub(crate) fn unknown_name(name: &str, environment: &Environment) -> CompileErrorKind {
    let lower = name.to_lowercase();
    let near = |known: &&str| one_edit_apart(&known.to_lowercase(), &lower);
    let nearest = environment.names().find(near).or_else(|| builtin::names().find(near));
    let hint = nearest.map(|known| format!(", did you mean {known:?}?")).unwrap_or_default();
    CompileErrorKind::UnknownName { name: name.to_owned(), hint }
}

/// Whether two words differ by at most one letter that is added, left out or changed.
fn one_edit_apart(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let (short, long) = (short.as_bytes(), long.as_bytes());
    let same = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    let skipped = usize::from(short.len() == long.len());
    let rest_of_long = long.get(same + 1..).unwrap_or_default();
    long.len() - short.len() <= 1 && short.get(same + skipped..).unwrap_or_default() == rest_of_long
}

/// Whether the operator takes numbers only.
fn is_arithmetic(operator: Operator) -> bool {
    use Operator::{Divide, Multiply, Power, Subtract};
    matches!(operator, Subtract | Multiply | Divide | Power)
}
