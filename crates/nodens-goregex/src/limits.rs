//! Every maximum of this crate.

/// Largest compiled form of a pattern, in octets, unless its user sets another limit.
pub const COMPILED_BYTES: usize = 10 << 20;

/// Deepest nesting of a pattern's parts. Go allows 1000; compiling recurses, and a thread's stack is small.
pub const NESTING: usize = 100;

/// Most repetitions of a part, those of parts around it multiplied; Go's limit.
pub const REPETITIONS: u32 = 1000;
