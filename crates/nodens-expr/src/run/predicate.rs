//! Built-in functions that take a predicate.

use super::{Failure, Machine, Scope, list, operator, wrong_type};
use crate::builtin::Builtin;
use crate::error::EvalErrorKind;
use crate::program::Node;
use crate::value::Value;

impl<'a> Machine<'a> {
    pub(super) fn with_predicate(
        &mut self,
        offset: usize,
        function: Builtin,
        collection: &'a Node,
        predicate: Option<&'a Node>,
        extra: Option<&'a Node>,
    ) -> Result<Value<'a>, Failure> {
        let over = self.eval(collection)?;
        let Some(length) = over.array_len() else {
            return Err((collection.offset, wrong_type("array", &over)));
        };
        let extra = match extra {
            Some(extra) => Some(self.eval(extra)?),
            None => None,
        };
        self.scopes.push(Scope::default());
        let result = match function {
            Builtin::All => self.search(&over, predicate, false).map(|at| at.is_none().into()),
            Builtin::Any => self.search(&over, predicate, true).map(|at| at.is_some().into()),
            Builtin::None => self.search(&over, predicate, true).map(|at| at.is_none().into()),
            Builtin::One => self.count(&over, predicate).map(|count| (count == 1).into()),
            Builtin::Count => self.count(&over, predicate).map(Value::from),
            Builtin::Find | Builtin::FindIndex => {
                self.search(&over, predicate, true).map(|at| found(function, &over, at))
            }
            Builtin::FindLast | Builtin::FindLastIndex => {
                self.search_back(&over, length, predicate).map(|at| found(function, &over, at))
            }
            Builtin::Filter => self.filter(&over, length, predicate),
            Builtin::Map => self.map_elements(&over, length, predicate).map(Value::from),
            Builtin::Sum => self.sum(offset, &over, length, predicate),
            Builtin::SortBy => self.sort_by(offset, &over, length, predicate, extra),
            Builtin::Reduce => self.reduce(offset, &over, length, predicate, extra),
            _ => Ok(Value::Nil),
        };
        self.scopes.pop();
        result
    }

    /// The predicate's value for one element; the element itself without a predicate.
    fn ask(
        &mut self,
        over: &Value<'a>,
        position: usize,
        predicate: Option<&'a Node>,
    ) -> Result<Value<'a>, Failure> {
        let element = over.element(position).unwrap_or_default();
        let Some(predicate) = predicate else {
            self.work(0, 1)?;
            return Ok(element);
        };
        if let Some(scope) = self.scopes.last_mut() {
            scope.element = element;
            scope.index = position;
        }
        self.eval(predicate)
    }

    fn holds(
        &mut self,
        over: &Value<'a>,
        position: usize,
        predicate: Option<&'a Node>,
    ) -> Result<bool, Failure> {
        match self.ask(over, position, predicate)? {
            Value::Bool(value) => Ok(value),
            other => Err((predicate.map_or(0, |node| node.offset), wrong_type("bool", &other))),
        }
    }

    /// The position of the first element for which the predicate is `wanted`.
    fn search(
        &mut self,
        over: &Value<'a>,
        predicate: Option<&'a Node>,
        wanted: bool,
    ) -> Result<Option<usize>, Failure> {
        for position in 0..over.array_len().unwrap_or(0) {
            if self.holds(over, position, predicate)? == wanted {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }

    fn search_back(
        &mut self,
        over: &Value<'a>,
        length: usize,
        predicate: Option<&'a Node>,
    ) -> Result<Option<usize>, Failure> {
        for position in (0..length).rev() {
            if self.holds(over, position, predicate)? {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }

    fn count(&mut self, over: &Value<'a>, predicate: Option<&'a Node>) -> Result<usize, Failure> {
        let mut count = 0;
        for position in 0..over.array_len().unwrap_or(0) {
            count += usize::from(self.holds(over, position, predicate)?);
        }
        Ok(count)
    }

    fn filter(
        &mut self,
        over: &Value<'a>,
        length: usize,
        predicate: Option<&'a Node>,
    ) -> Result<Value<'a>, Failure> {
        let mut kept = Vec::new();
        for position in 0..length {
            if self.holds(over, position, predicate)? {
                kept.push(over.element(position).unwrap_or_default());
            }
        }
        Ok(Value::from(kept))
    }

    fn map_elements(
        &mut self,
        over: &Value<'a>,
        length: usize,
        predicate: Option<&'a Node>,
    ) -> Result<Vec<Value<'a>>, Failure> {
        let mut values = Vec::new();
        for position in 0..length {
            values.push(self.ask(over, position, predicate)?);
        }
        Ok(values)
    }

    fn sum(
        &mut self,
        offset: usize,
        over: &Value<'a>,
        length: usize,
        predicate: Option<&'a Node>,
    ) -> Result<Value<'a>, Failure> {
        let mut sum = Value::Int(0);
        for position in 0..length {
            let value = self.ask(over, position, predicate)?;
            sum = operator::add(&sum, &value)
                .ok_or_else(|| (offset, wrong_type("number", &value)))?;
        }
        Ok(sum)
    }

    fn sort_by(
        &mut self,
        offset: usize,
        over: &Value<'a>,
        length: usize,
        predicate: Option<&'a Node>,
        order: Option<Value<'a>>,
    ) -> Result<Value<'a>, Failure> {
        let keys = self.map_elements(over, length, predicate)?;
        let values: Vec<_> = (0..length).filter_map(|at| over.element(at)).collect();
        list::sorted(keys, values, order.as_ref()).map_err(|kind| (offset, kind))
    }

    fn reduce(
        &mut self,
        offset: usize,
        over: &Value<'a>,
        length: usize,
        predicate: Option<&'a Node>,
        initial: Option<Value<'a>>,
    ) -> Result<Value<'a>, Failure> {
        let (mut accumulator, start) = match (initial, over.element(0)) {
            (Some(initial), _) => (initial, 0),
            (None, Some(first)) => (first, 1),
            (None, None) => {
                let function = Builtin::Reduce.name().to_owned();
                let reason = "an empty array and no initial value".to_owned();
                return Err((offset, EvalErrorKind::Call { function, reason }));
            }
        };
        for position in start..length {
            if let Some(scope) = self.scopes.last_mut() {
                scope.accumulator = accumulator;
            }
            accumulator = self.ask(over, position, predicate)?;
        }
        Ok(accumulator)
    }
}

/// The element at a position or the position itself, nil without one.
fn found<'a>(function: Builtin, over: &Value<'a>, position: Option<usize>) -> Value<'a> {
    match (function, position) {
        (_, None) => Value::Nil,
        (Builtin::Find | Builtin::FindLast, Some(position)) => {
            over.element(position).unwrap_or_default()
        }
        (_, Some(position)) => Value::from(position),
    }
}
