//! The expr language (expr-lang), as far as conditions in a Corefile use it.
//!
//! [`Program::compile`] reads an expression, checks its types against an [`Environment`] and fails on every
//! name that neither the environment nor the language knows. [`Program::evaluate`] asks a [`Context`] for
//! the functions and variables that the expression really uses; constants, among them regular expressions,
//! are made when compiling. A comparison of two strings allocates nothing.
//!
//! Present: literals, arrays, maps, every operator, `let`, `if`, sequences, pipes, optional chaining,
//! slices, predicates with `#`, and the built-in functions on numbers, strings, arrays and maps.
//!
//! Deliberately absent: dates and durations, JSON, Base64, byte strings, `groupBy`, `toPairs`, `fromPairs`,
//! `$env`, functions and methods as values, strings that are not UTF-8. Maps are ordered by key.
//!
//! Expressions come from operators and data from the network, so both have limits, see [`limits`].
//!
//! ```
//! use nodens_expr::{CallError, Context, Environment, Program, Type, Value};
//!
//! struct Query<'q> {
//!     qname: &'q str,
//! }
//!
//! impl Context for Query<'_> {
//!     fn call<'a>(&'a self, _: usize, _: &[Value<'a>]) -> Result<Value<'a>, CallError> {
//!         Ok(Value::from(self.qname))
//!     }
//! }
//!
//! let environment = Environment::new().with_function("name", 0, &[], Type::Str);
//! let program = Program::compile("name() endsWith '.example.'", &environment).unwrap();
//! assert!(program.is_true(&Query { qname: "www.example." }));
//! assert!(!program.is_true(&Query { qname: "www.example.org." }));
//! ```

#![forbid(unsafe_code)]

mod ast;
mod builtin;
mod compile;
mod environment;
mod error;
mod format;
pub mod limits;
mod parse;
mod position;
mod program;
mod run;
mod types;
mod value;

pub use environment::{Context, Environment, is_reserved};
pub use error::{CallError, CompileError, CompileErrorKind, EvalError, EvalErrorKind};
pub use position::Position;
pub use program::Program;
pub use types::Type;
pub use value::{Shared, Text, Value};
