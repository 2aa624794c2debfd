//! Members, elements and slices.

use super::{Compiler, Failure, wrong_type};
use crate::ast::{Expr, Kind};
use crate::error::CompileErrorKind;
use crate::program::{Node, NodeKind};
use crate::types::Type;

impl Compiler<'_> {
    pub(super) fn member(
        &mut self,
        offset: usize,
        of: &Expr,
        key: &Expr,
        optional: bool,
    ) -> Result<(NodeKind, Type), Failure> {
        let name = match &key.kind {
            Kind::Str(name) => name.clone(),
            _ => "of this index".to_owned(),
        };
        let (of, of_type) = self.node(of)?;
        let (key, key_type) = self.node(key)?;
        let element = match &of_type {
            Type::Any => Type::Any,
            Type::Map if key_type == Type::Str || key_type.is_any() => Type::Any,
            Type::Map => {
                return Err(wrong_type(key.offset, "a string as key".to_owned(), &key_type));
            }
            Type::Array(_) | Type::Literal(_) if key_type == Type::Int || key_type.is_any() => {
                of_type.element()
            }
            Type::Array(_) | Type::Literal(_) => {
                return Err(wrong_type(key.offset, "an integer as index".to_owned(), &key_type));
            }
            _ => return Err((offset, CompileErrorKind::NoElement(of_type, name))),
        };
        Ok((NodeKind::Member { operands: Box::new([of, key]), optional }, element))
    }

    pub(super) fn slice(
        &mut self,
        of: &Expr,
        from: Option<&Expr>,
        to: Option<&Expr>,
    ) -> Result<(NodeKind, Type), Failure> {
        let (of, of_type) = self.node(of)?;
        if !of_type.is_any() && !of_type.is_array() && of_type != Type::Str {
            return Err(wrong_type(of.offset, "a string or array".to_owned(), &of_type));
        }
        let from = self.bound(from)?;
        let to = self.bound(to)?;
        Ok((NodeKind::Slice { of: Box::new(of), from, to }, of_type))
    }

    fn bound(&mut self, bound: Option<&Expr>) -> Result<Option<Box<Node>>, Failure> {
        let Some(bound) = bound else {
            return Ok(None);
        };
        let (node, of) = self.node(bound)?;
        if of != Type::Int && !of.is_any() {
            return Err(wrong_type(node.offset, "an integer".to_owned(), &of));
        }
        Ok(Some(Box::new(node)))
    }
}
