//! Evaluates a compiled expression.

mod function;
mod list;
mod member;
mod operator;
mod predicate;
mod text;

use crate::ast::Operator;
use crate::environment::Context;
use crate::error::EvalErrorKind;
use crate::limits;
use crate::program::{Node, NodeKind, Pointer};
use crate::value::{Text, Value};
use nodens_goregex::Regex;
use std::collections::BTreeMap;

/// An error with its offset.
type Failure = (usize, EvalErrorKind);

pub(crate) fn run<'a>(root: &'a Node, context: &'a dyn Context) -> Result<Value<'a>, Failure> {
    let mut machine =
        Machine { context, work_left: limits::WORK, locals: Vec::new(), scopes: Vec::new() };
    machine.eval(root)
}

struct Machine<'a> {
    context: &'a dyn Context,
    work_left: usize,
    /// The `let` variables in sight.
    locals: Vec<Value<'a>>,
    /// The predicates around, the innermost last.
    scopes: Vec<Scope<'a>>,
}

/// What `#` and its names stand for.
#[derive(Default)]
struct Scope<'a> {
    element: Value<'a>,
    index: usize,
    accumulator: Value<'a>,
}

/// How many arguments are kept without an allocation.
const FEW: usize = 4;

impl<'a> Machine<'a> {
    fn work(&mut self, offset: usize, cost: usize) -> Result<(), Failure> {
        match self.work_left.checked_sub(cost) {
            Some(left) => {
                self.work_left = left;
                Ok(())
            }
            None => Err((offset, EvalErrorKind::WorkLimit)),
        }
    }

    fn eval(&mut self, node: &'a Node) -> Result<Value<'a>, Failure> {
        self.work(node.offset, 1)?;
        let value = self.eval_unmeasured(node)?;
        // A loop can nest and repeat values far beyond what the expression shows.
        if value.depth() > limits::VALUE_DEPTH {
            return Err((node.offset, EvalErrorKind::TooDeep));
        }
        if value.depth() > 0 && value.size() > limits::WORK {
            return Err((node.offset, EvalErrorKind::WorkLimit));
        }
        Ok(value)
    }

    fn eval_unmeasured(&mut self, node: &'a Node) -> Result<Value<'a>, Failure> {
        let offset = node.offset;
        match &node.kind {
            NodeKind::Constant(value) => Ok(value.clone()),
            NodeKind::Str(text) => Ok(Value::from(text.as_str())),
            NodeKind::Array(elements) => {
                let values: Result<Vec<_>, _> =
                    elements.iter().map(|part| self.eval(part)).collect();
                Ok(Value::from(values?))
            }
            NodeKind::Map(pairs) => self.map(pairs),
            NodeKind::Variable(id) => Ok(self.context.variable(*id)),
            NodeKind::Local(slot) => Ok(self.locals.get(*slot).cloned().unwrap_or_default()),
            NodeKind::Pointer(pointer) => Ok(self.pointer(*pointer)),
            NodeKind::Not(of) => Ok(Value::Bool(!self.condition(of)?)),
            NodeKind::Sign { negative, of } => {
                let value = self.eval(of)?;
                operator::sign(*negative, value).map_err(|kind| (offset, kind))
            }
            NodeKind::Binary(operator, operands) => self.binary(offset, *operator, operands),
            NodeKind::And(operands) => self.all(operands, true),
            NodeKind::Or(operands) => self.all(operands, false),
            NodeKind::Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                if self.condition(condition)? { self.eval(yes) } else { self.eval(no) }
            }
            NodeKind::InStrings { of, strings } => Ok(Value::Bool(match self.eval(of)? {
                Value::Str(text) => strings.binary_search_by(|one| (**one).cmp(&*text)).is_ok(),
                _ => false,
            })),
            NodeKind::Matches { of, regex } => self.matches(of, regex),
            NodeKind::Member { operands, .. } => self.member(offset, operands),
            NodeKind::Chain(inner) => Ok(self.chain(inner)?.unwrap_or_default()),
            NodeKind::Slice { of, from, to } => {
                self.slice(offset, of, from.as_deref(), to.as_deref())
            }
            NodeKind::Call { name, id, arguments } => self.call(offset, name, *id, arguments),
            NodeKind::Builtin { function, arguments } => self
                .with_values(arguments, |machine, values| {
                    machine.builtin(offset, *function, values)
                }),
            NodeKind::Predicate { function, collection, predicate, extra } => self.with_predicate(
                offset,
                *function,
                collection,
                predicate.as_deref(),
                extra.as_deref(),
            ),
            NodeKind::Let { value, body } => {
                let value = self.eval(value)?;
                self.locals.push(value);
                let result = self.eval(body)?;
                self.locals.pop();
                Ok(result)
            }
            NodeKind::Sequence(parts) => {
                parts.iter().try_fold(Value::Nil, |_, part| self.eval(part))
            }
        }
    }

    fn matches(&mut self, of: &'a Node, regex: &Regex) -> Result<Value<'a>, Failure> {
        match self.eval(of)? {
            Value::Str(text) => {
                self.work(of.offset, text.len())?;
                Ok(Value::Bool(regex.is_match(&text)))
            }
            Value::Nil => Ok(Value::Bool(false)),
            other => Err((of.offset, wrong_type("string", &other))),
        }
    }

    fn member(&mut self, offset: usize, operands: &'a [Node; 2]) -> Result<Value<'a>, Failure> {
        let [of, key] = operands;
        let of = self.eval(of)?;
        let key = self.eval(key)?;
        member::fetch(&of, &key).map_err(|kind| (offset, kind))
    }

    /// A value that must be true or false.
    fn condition(&mut self, node: &'a Node) -> Result<bool, Failure> {
        match self.eval(node)? {
            Value::Bool(value) => Ok(value),
            other => Err((node.offset, wrong_type("bool", &other))),
        }
    }

    /// Whether all operands are `wanted`; the first that is not ends it.
    fn all(&mut self, operands: &'a [Node], and: bool) -> Result<Value<'a>, Failure> {
        for operand in operands {
            if self.condition(operand)? != and {
                return Ok(Value::Bool(!and));
            }
        }
        Ok(Value::Bool(and))
    }

    fn binary(
        &mut self,
        offset: usize,
        operator: Operator,
        operands: &'a [Node; 2],
    ) -> Result<Value<'a>, Failure> {
        let [left, right] = operands;
        let left = self.eval(left)?;
        if operator == Operator::Coalesce {
            return if matches!(left, Value::Nil) { self.eval(right) } else { Ok(left) };
        }
        let right = self.eval(right)?;
        let cost = operator::cost(operator, &left, &right);
        self.work(offset, cost)?;
        operator::apply(operator, &left, &right).map_err(|kind| (offset, kind))
    }

    fn map(&mut self, pairs: &'a [(Node, Node)]) -> Result<Value<'a>, Failure> {
        let mut map: BTreeMap<Text<'a>, Value<'a>> = BTreeMap::new();
        for (key, value) in pairs {
            let Value::Str(name) = self.eval(key)? else {
                let kind = EvalErrorKind::WrongType { expected: "string", found: "another type" };
                return Err((key.offset, kind));
            };
            let value = self.eval(value)?;
            map.insert(name, value);
        }
        Ok(Value::from(map))
    }

    fn pointer(&self, pointer: Pointer) -> Value<'a> {
        let Some(scope) = self.scopes.last() else {
            return Value::Nil;
        };
        match pointer {
            Pointer::Element => scope.element.clone(),
            Pointer::Index => Value::from(scope.index),
            Pointer::Accumulator => scope.accumulator.clone(),
        }
    }

    fn call(
        &mut self,
        offset: usize,
        name: &str,
        id: usize,
        arguments: &'a [Node],
    ) -> Result<Value<'a>, Failure> {
        let context = self.context;
        self.with_values(arguments, |_, values| {
            context.call(id, values).map_err(|error| {
                (offset, EvalErrorKind::Call { function: name.to_owned(), reason: error.0 })
            })
        })
    }

    /// Evaluates arguments, a few of them without an allocation.
    fn with_values(
        &mut self,
        arguments: &'a [Node],
        then: impl FnOnce(&mut Self, &[Value<'a>]) -> Result<Value<'a>, Failure>,
    ) -> Result<Value<'a>, Failure> {
        let mut few: [Value<'a>; FEW] = Default::default();
        if let Some(values) = few.get_mut(..arguments.len()) {
            for (value, argument) in values.iter_mut().zip(arguments) {
                *value = self.eval(argument)?;
            }
            return then(self, values);
        }
        let values: Result<Vec<_>, _> = arguments.iter().map(|part| self.eval(part)).collect();
        then(self, &values?)
    }
}

fn wrong_type(expected: &'static str, found: &Value<'_>) -> EvalErrorKind {
    EvalErrorKind::WrongType { expected, found: found.type_name() }
}
