//! What expressions work on.

use crate::format;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A value. Cloning one never copies text or elements.
#[derive(Debug, Clone, Default)]
pub enum Value<'a> {
    /// No value.
    #[default]
    Nil,
    /// True or false.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// Text.
    Str(Text<'a>),
    /// The integers from the first to the second, or none.
    Range(i64, i64),
    /// A list.
    Array(Shared<[Value<'a>]>),
    /// A map.
    Map(Shared<BTreeMap<Text<'a>, Value<'a>>>),
}

/// The elements of a list or map, with what it takes to go through all of them.
#[derive(Debug)]
pub struct Shared<T: ?Sized> {
    elements: Arc<T>,
    size: usize,
    depth: usize,
}

impl<T: ?Sized> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { elements: Arc::clone(&self.elements), size: self.size, depth: self.depth }
    }
}

impl<T: ?Sized> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.elements
    }
}

/// Size and depth of something with these elements.
fn measure<'v, 'a: 'v>(elements: impl Iterator<Item = &'v Value<'a>>) -> (usize, usize) {
    elements.fold((1, 1), |(size, depth), element| {
        (size.saturating_add(element.size()), depth.max(element.depth().saturating_add(1)))
    })
}

/// Text that is borrowed or shared.
#[derive(Clone)]
pub enum Text<'a> {
    /// Text of the query, the expression or the caller.
    Borrowed(&'a str),
    /// Text that an evaluation made.
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl std::borrow::Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        self
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text<'_> {}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl<'a> Value<'a> {
    /// The name of the value's type, for error messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "string",
            Self::Range(..) | Self::Array(_) => "array",
            Self::Map(_) => "map",
        }
    }

    /// How many elements, elements of elements and bytes of text there are, each as often as it appears.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Str(text) => text.len().max(1),
            Self::Range(..) => self.array_len().unwrap_or(0).max(1),
            Self::Array(values) => values.size,
            Self::Map(values) => values.size,
            _ => 1,
        }
    }

    /// How many lists and maps are inside each other.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Self::Array(values) => values.depth,
            Self::Map(values) => values.depth,
            _ => 0,
        }
    }

    /// How many elements a list has; `None` for everything else.
    pub fn array_len(&self) -> Option<usize> {
        match self {
            Self::Range(first, last) if first > last => Some(0),
            Self::Range(first, last) => {
                let length = i128::from(*last) - i128::from(*first) + 1;
                Some(usize::try_from(length).unwrap_or(usize::MAX))
            }
            Self::Array(values) => Some(values.len()),
            _ => None,
        }
    }

    /// The element of a list at a position below [`Value::array_len`].
    pub fn element(&self, position: usize) -> Option<Value<'a>> {
        match self {
            Self::Range(first, last) => {
                let value = i64::try_from(position).ok().and_then(|at| first.checked_add(at))?;
                (value <= *last).then_some(Value::Int(value))
            }
            Self::Array(values) => values.get(position).cloned(),
            _ => None,
        }
    }

    pub(crate) fn as_float(&self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "what the language does")]
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// Whether two values are equal: numbers by what they count, lists and maps by their elements.
    pub(crate) fn equals(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Self::Nil, Value::Nil) => true,
            (Self::Bool(a), Value::Bool(b)) => a == b,
            (Self::Int(a), Value::Int(b)) => a == b,
            (Self::Str(a), Value::Str(b)) => **a == **b,
            (Self::Map(a), Value::Map(b)) => {
                a.len() == b.len()
                    && a.iter().zip(b.iter()).all(|((key_a, a), (key_b, b))| {
                        **key_a == **key_b && a.equals(b)
                    })
            }
            _ => match (self.as_float(), other.as_float(), self.array_len(), other.array_len()) {
                (Some(a), Some(b), ..) => a == b,
                (_, _, Some(a), Some(b)) if a == b => (0..a).all(|at| {
                    matches!((self.element(at), other.element(at)), (Some(a), Some(b)) if a.equals(&b))
                }),
                _ => false,
            },
        }
    }

    /// The order of two numbers or two strings; `None` for everything else.
    pub(crate) fn order(&self, other: &Value<'_>) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Value::Int(b)) => Some(a.cmp(b)),
            (Self::Str(a), Value::Str(b)) => Some((**a).cmp(&**b)),
            _ => Some(self.as_float()?.total_cmp(&other.as_float()?)),
        }
    }
}

/// As Go prints values.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        format::write(self, f)
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
        Self::Int(i64::from(value))
    }
}

impl From<usize> for Value<'_> {
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
        Self::Str(Text::Borrowed(value))
    }
}

impl From<String> for Value<'_> {
    fn from(value: String) -> Self {
        Self::Str(Text::Shared(value.into()))
    }
}

impl<'a> From<Cow<'a, str>> for Value<'a> {
    fn from(value: Cow<'a, str>) -> Self {
        match value {
            Cow::Borrowed(value) => Self::from(value),
            Cow::Owned(value) => Self::from(value),
        }
    }
}

impl<'a> From<Vec<Value<'a>>> for Value<'a> {
    fn from(values: Vec<Value<'a>>) -> Self {
        let (size, depth) = measure(values.iter());
        Self::Array(Shared { elements: values.into(), size, depth })
    }
}

impl<'a> From<BTreeMap<Text<'a>, Value<'a>>> for Value<'a> {
    fn from(values: BTreeMap<Text<'a>, Value<'a>>) -> Self {
        let keys = values.keys().fold(0usize, |size, key| size.saturating_add(key.len()));
        let (size, depth) = measure(values.values());
        Self::Map(Shared { elements: Arc::new(values), size: size.saturating_add(keys), depth })
    }
}
