//! The Corefile language: text → tokens → syntax tree, every word with the place it came from.
//!
//! What this crate does: quoting, comments, environment references, snippets, `import`, server
//! block keys ([`key`]), the rules for zones that overlap ([`overlap`]), and the small parsers
//! that every directive's configuration needs ([`take`]).
//!
//! What it deliberately lacks: it knows no directive and no property, opens no socket, and touches
//! files and environment only through [`Sources`].
#![forbid(unsafe_code)]

mod cidr;
mod duration;
mod environment;
mod error;
pub mod key;
mod lexer;
pub mod limits;
mod nearest;
pub mod overlap;
mod parser;
mod print;
mod sources;
mod syntax;
pub mod take;

pub use duration::format_go_duration;
pub use error::{Error, ErrorKind};
pub use key::{Scheme, ZoneKey, parse_key, reverse_zones};
pub use nearest::nearest;
pub use parser::parse;
pub use sources::{NoSources, PatternError, Sources, SystemSources};
pub use syntax::{Corefile, Directive, Import, Position, ServerBlock, Token, Warning, WarningKind};
