//! Built-in functions that take a predicate.

use super::{Compiler, Failure, Scope, wrong_type};
use crate::ast::Expr;
use crate::builtin::Builtin;
use crate::error::CompileErrorKind;
use crate::program::{Node, NodeKind, Pointer};
use crate::types::Type;

impl Compiler<'_> {
    pub(super) fn pointer(
        &mut self,
        offset: usize,
        name: &str,
    ) -> Result<(NodeKind, Type), Failure> {
        let scope = self.scopes.last();
        let (pointer, of) = match (scope, name) {
            (Some(scope), "") => (Pointer::Element, scope.element.clone()),
            (Some(scope), "index") if scope.has_index => (Pointer::Index, Type::Int),
            (Some(scope), "acc") if scope.has_accumulator => (Pointer::Accumulator, Type::Any),
            _ => return Err((offset, CompileErrorKind::Pointer(format!("#{name}")))),
        };
        Ok((NodeKind::Pointer(pointer), of))
    }

    pub(super) fn with_predicate(
        &mut self,
        function: Builtin,
        arguments: &[Expr],
    ) -> Result<(NodeKind, Type), Failure> {
        let Some((collection, rest)) = arguments.split_first() else {
            return Err((0, CompileErrorKind::Pointer(function.name().to_owned())));
        };
        let (collection, of) = self.node(collection)?;
        if !of.is_array() && !of.is_any() {
            return Err(wrong_type(collection.offset, "an array".to_owned(), &of));
        }
        let (predicate, predicate_type) = match rest.first() {
            Some(predicate) => {
                let (node, result) = self.predicate(function, &of, predicate)?;
                (Some(Box::new(node)), Some(result))
            }
            None => (None, None),
        };
        let extra = match rest.get(1) {
            Some(extra) => Some(Box::new(self.extra(function, extra)?)),
            None => None,
        };
        let result = result(function, &of, predicate_type);
        let collection = Box::new(collection);
        Ok((NodeKind::Predicate { function, collection, predicate, extra }, result))
    }

    fn predicate(
        &mut self,
        function: Builtin,
        collection: &Type,
        predicate: &Expr,
    ) -> Result<(Node, Type), Failure> {
        self.scopes.push(Scope {
            element: collection.element(),
            has_index: matches!(function, Builtin::Map | Builtin::Reduce),
            has_accumulator: function == Builtin::Reduce,
        });
        let (node, of) = self.node(predicate)?;
        self.scopes.pop();
        let any_type =
            matches!(function, Builtin::Map | Builtin::Sum | Builtin::SortBy | Builtin::Reduce);
        if !any_type && of != Type::Bool && !of.is_any() {
            return Err(wrong_type(node.offset, "bool".to_owned(), &of));
        }
        Ok((node, of))
    }

    /// The order of `sortBy`, or the initial value of `reduce`.
    fn extra(&mut self, function: Builtin, extra: &Expr) -> Result<Node, Failure> {
        let (node, of) = self.node(extra)?;
        if function == Builtin::SortBy && of != Type::Str && !of.is_any() {
            return Err(wrong_type(node.offset, "a string".to_owned(), &of));
        }
        Ok(node)
    }
}

fn result(function: Builtin, collection: &Type, predicate: Option<Type>) -> Type {
    match function {
        Builtin::All | Builtin::None | Builtin::Any | Builtin::One => Type::Bool,
        Builtin::Filter => Type::Literal(Box::new(collection.element())),
        Builtin::Map => Type::Literal(Box::new(predicate.unwrap_or(Type::Any))),
        Builtin::Count | Builtin::FindIndex | Builtin::FindLastIndex => Type::Int,
        Builtin::Sum => predicate.unwrap_or_else(|| collection.element()),
        Builtin::Find | Builtin::FindLast => collection.element(),
        Builtin::SortBy => collection.clone(),
        Builtin::Reduce => predicate.unwrap_or(Type::Any),
        _ => Type::Any,
    }
}
