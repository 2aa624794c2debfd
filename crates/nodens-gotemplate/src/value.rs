//! What actions work on.

use crate::error::CallError;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// A value in a template. It may borrow from the template and from the data rendered.
#[derive(Debug, Clone, Default)]
pub enum Value<'a> {
    /// The key of a map that has no such key. Prints `<no value>`; its fields are missing too.
    #[default]
    Missing,
    /// Nil without a type, such as an absent value in a list. Asking it for a field is an error.
    Nil,
    /// An object that is absent. Prints `<nil>`; asking it for a field is an error.
    NilObject,
    /// True or false.
    Bool(bool),
    /// Go's `int`.
    Int(i64),
    /// Any of Go's unsigned integers.
    Uint(u64),
    /// Go's `float64`.
    Float(f64),
    /// Text.
    Str(Cow<'a, str>),
    /// Go's `[]any`.
    List(Rc<[Value<'a>]>),
    /// Go's `map[string]any`.
    Map(Rc<BTreeMap<String, Value<'a>>>),
    /// Anything else: the caller says what fields, methods and elements it has.
    Object(&'a dyn Object),
}

/// What a template may ask of an [`Object`] beyond its fields and methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A struct: an unknown field is an error. Always true, has no length.
    Struct,
    /// A list: `len`, `index`, `slice` and `range` work. True if not empty.
    List,
    /// A map with string keys: `len`, `index` and `range` work, and an unknown field is
    /// [`Value::Missing`]. True if not empty.
    Map,
}

/// The type of a method's parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// [`Value::Str`].
    Str,
    /// [`Value::Int`].
    Int,
    /// Any value.
    Any,
}

impl Parameter {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Str => "string",
            Self::Int => "int",
            Self::Any => "any value",
        }
    }
}

/// Data that a template can look into. Only what a template asks for is computed.
pub trait Object: fmt::Debug {
    /// The name of the type, for error messages and `%T`.
    fn type_name(&self) -> &str;

    /// Struct, list or map.
    fn shape(&self) -> Shape {
        Shape::Struct
    }

    /// The value of a struct's field or of a map's key, if there is one.
    fn field(&self, _name: &str) -> Option<Value<'_>> {
        None
    }

    /// The parameters of a method, if there is one of that name. Methods hide fields.
    fn method(&self, _name: &str) -> Option<&[Parameter]> {
        None
    }

    /// Calls a method named by [`Object::method`], with as many arguments as it has parameters and of
    /// their types.
    ///
    /// # Errors
    ///
    /// The method's own reason to refuse.
    fn call(&self, name: &str, _arguments: &[Value<'_>]) -> Result<Value<'_>, CallError> {
        Err(CallError(format!("{} has no method {name:?}", self.type_name())))
    }

    /// How many elements a list or map has.
    fn len(&self) -> usize {
        0
    }

    /// Whether a list or map has no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key and the value at a position below [`Object::len`]. The key of a list's element is its
    /// position; a map's elements come in the order of their keys.
    fn element(&self, _position: usize) -> Option<(Value<'_>, Value<'_>)> {
        None
    }

    /// What `index` gives for a key that a map does not have: the zero value of its elements' type.
    fn zero(&self) -> Value<'_> {
        Value::Nil
    }

    /// Writes the text that printing shows. Lists and maps are printed element by element instead.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    fn print(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str(self.type_name())
    }
}

impl<'a> Value<'a> {
    /// Whether conditions take the value for true: not zero, not empty, not nil.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Missing | Self::Nil | Self::NilObject => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Uint(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Str(value) => !value.is_empty(),
            Self::Object(object) if object.shape() == Shape::Struct => true,
            Self::List(_) | Self::Map(_) | Self::Object(_) => self.len() != Some(0),
        }
    }

    /// Bytes of a string, elements of a list or map, `None` for everything else.
    pub fn len(&self) -> Option<usize> {
        match self {
            Self::Str(value) => Some(value.len()),
            Self::List(values) => Some(values.len()),
            Self::Map(values) => Some(values.len()),
            Self::Object(object) if object.shape() != Shape::Struct => Some(object.len()),
            _ => None,
        }
    }

    /// Whether the value is a string, list or map without elements.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// The name of the value's type in Go.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Missing | Self::Nil | Self::NilObject => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint64",
            Self::Float(_) => "float64",
            Self::Str(_) => "string",
            Self::List(_) => "[]interface {}",
            Self::Map(_) => "map[string]interface {}",
            Self::Object(object) => object.type_name(),
        }
    }

    /// The key and the value at a position of a list or map.
    pub(crate) fn element(&self, position: usize) -> Option<(Value<'a>, Value<'a>)> {
        match self {
            Self::List(values) => {
                values.get(position).map(|value| (Value::from(position), value.clone()))
            }
            Self::Map(values) => values
                .iter()
                .nth(position)
                .map(|(key, value)| (Value::from(key.clone()), value.clone())),
            Self::Object(object) => object.element(position),
            _ => None,
        }
    }

    pub(crate) fn shape(&self) -> Option<Shape> {
        match self {
            Self::List(_) => Some(Shape::List),
            Self::Map(_) => Some(Shape::Map),
            Self::Object(object) => Some(object.shape()),
            _ => None,
        }
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u16> for Value<'_> {
    fn from(value: u16) -> Self {
        Self::Uint(u64::from(value))
    }
}

impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        Self::Uint(u64::from(value))
    }
}

impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        Self::Uint(value)
    }
}

impl From<usize> for Value<'_> {
    /// A Go `int`, as lengths and positions are.
    fn from(value: usize) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Str(Cow::Borrowed(value))
    }
}

impl From<String> for Value<'_> {
    fn from(value: String) -> Self {
        Self::Str(Cow::Owned(value))
    }
}

impl<'a> From<Vec<Value<'a>>> for Value<'a> {
    fn from(values: Vec<Value<'a>>) -> Self {
        Self::List(values.into())
    }
}

impl<'a> From<BTreeMap<String, Value<'a>>> for Value<'a> {
    fn from(values: BTreeMap<String, Value<'a>>) -> Self {
        Self::Map(Rc::new(values))
    }
}

impl<'a> From<&'a dyn Object> for Value<'a> {
    fn from(object: &'a dyn Object) -> Self {
        Self::Object(object)
    }
}
