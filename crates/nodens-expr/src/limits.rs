//! Every maximum of this crate.

/// Longest expression, in bytes.
pub const EXPRESSION_BYTES: usize = 64 * 1024;

/// Most parts of one expression.
pub const NODES: usize = 10_000;

/// Deepest nesting of an expression's parts. A chain of `and` or `or` counts once.
pub const NESTING: usize = 100;

/// Most work of one evaluation. One part, element or byte of a new string costs 1.
pub const WORK: usize = 1 << 18;

/// Most lists and maps inside each other, in values that an evaluation makes.
pub const VALUE_DEPTH: usize = 100;

/// Largest compiled form of a regular expression, in bytes.
pub const REGEX_BYTES: usize = 1 << 20;
