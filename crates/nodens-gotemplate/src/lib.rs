//! Go's `text/template`, as far as record templates in a Corefile use it.
//!
//! A [`Template`] is parsed once, when the configuration is read, and rendered for each query against an
//! [`Object`] that the caller implements. Fields, map keys and methods are looked up when an action asks
//! for them, so nothing has to be collected beforehand.
//!
//! Present: actions, pipelines, variables, `if`, `with`, `range`, `break`, `continue`, `define`, `block`,
//! `template`, comments, trim markers, every literal but complex numbers, and all of Go's functions, plus
//! `parseInt` (Go's `strconv.ParseUint`), which record templates rely on.
//!
//! Deliberately absent: other delimiters, functions as values (`call` always fails), strings that are not
//! UTF-8, complex numbers, the verbs `%p`, and `%b` and `%x` of floats. Unsigned integers have one size, so
//! `%T` says `uint64` for each of them; and an object prints inside of a list as it prints alone.
//!
//! Templates come from operators and data from the network, so both have limits, see [`limits`].
//!
//! ```
//! use nodens_gotemplate::{Object, Template, Value};
//!
//! #[derive(Debug)]
//! struct Query<'q> {
//!     name: &'q str,
//! }
//!
//! impl Object for Query<'_> {
//!     fn type_name(&self) -> &str {
//!         "Query"
//!     }
//!     fn field(&self, name: &str) -> Option<Value<'_>> {
//!         (name == "Name").then(|| Value::from(self.name))
//!     }
//! }
//!
//! let template = Template::parse("answer", "{{ .Name }} 60 IN A 192.0.2.{{ len .Name }}").unwrap();
//! let mut record = String::new();
//! template.render(&Query { name: "example." }, &mut record).unwrap();
//! assert_eq!(record, "example. 60 IN A 192.0.2.8");
//! ```

#![forbid(unsafe_code)]

mod ast;
mod error;
mod format;
pub mod limits;
mod parse;
mod position;
mod render;
mod template;
mod value;

pub use error::{CallError, ParseError, ParseErrorKind, RenderError, RenderErrorKind};
pub use position::Position;
pub use template::Template;
pub use value::{Object, Parameter, Shape, Value};
