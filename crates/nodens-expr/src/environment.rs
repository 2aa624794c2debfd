//! What an expression may ask its caller for.

use crate::builtin;
use crate::error::CallError;
use crate::parse;
use crate::types::Type;
use crate::value::Value;

/// The functions and variables that expressions may use, with their types.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    functions: Vec<Function>,
    variables: Vec<Variable>,
}

#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) id: usize,
    pub(crate) parameters: Vec<Type>,
    pub(crate) result: Type,
}

#[derive(Debug, Clone)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) id: usize,
    pub(crate) of: Type,
}

impl Environment {
    /// Nothing but the language itself.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a function. [`Context::call`] is given `id` to tell it by. A function with the name of a
    /// built-in one takes its place.
    #[must_use]
    pub fn with_function(
        mut self,
        name: &str,
        id: usize,
        parameters: &[Type],
        result: Type,
    ) -> Self {
        let (name, parameters) = (name.to_owned(), parameters.to_vec());
        self.functions.push(Function { name, id, parameters, result });
        self
    }

    /// Adds a variable. [`Context::variable`] is given `id` to tell it by.
    #[must_use]
    pub fn with_variable(mut self, name: &str, id: usize, of: Type) -> Self {
        self.variables.push(Variable { name: name.to_owned(), id, of });
        self
    }

    /// Whether a function or variable of that name was added.
    pub fn contains(&self, name: &str) -> bool {
        self.function(name).is_some() || self.variable(name).is_some()
    }

    pub(crate) fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.name == name)
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().find(|variable| variable.name == name)
    }

    /// All names, for telling the nearest one.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let functions = self.functions.iter().map(|function| function.name.as_str());
        functions.chain(self.variables.iter().map(|variable| variable.name.as_str()))
    }
}

/// Whether a name cannot be given to a variable: it is no identifier, or it is a keyword, a literal or a
/// built-in function of the language.
pub fn is_reserved(name: &str) -> bool {
    builtin::is_known(name) || name == "$env" || !parse::is_plain_identifier(name)
}

/// The functions and variables of one evaluation.
pub trait Context {
    /// Calls the function that [`Environment::with_function`] was given the id of. There are as many
    /// arguments as it has parameters; those of a parameter other than [`Type::Any`] are of its type, or
    /// of a type that could not be told before.
    ///
    /// # Errors
    ///
    /// The function's own reason to refuse.
    fn call<'a>(&'a self, function: usize, arguments: &[Value<'a>])
    -> Result<Value<'a>, CallError>;

    /// The value of the variable that [`Environment::with_variable`] was given the id of.
    fn variable(&self, _variable: usize) -> Value<'_> {
        Value::Nil
    }
}
