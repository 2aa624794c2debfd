//! Every maximum of this crate.

/// Longest template text, in bytes. Far above any record template.
pub const TEMPLATE_BYTES: usize = 256 * 1024;

/// Deepest nesting of blocks and parentheses in a template.
pub const NESTING: usize = 64;

/// Most blocks, parentheses and called templates inside each other while rendering.
pub const RENDER_DEPTH: usize = 160;

/// Longest output of one rendering, in bytes: the size of the largest DNS message.
pub const OUTPUT_BYTES: usize = 65_535;

/// Most work of one rendering. One node or operand costs 1, one byte of an intermediate string costs 1.
pub const WORK: usize = 1 << 18;

/// Widest field or longest precision that a `printf` verb may ask for, in characters.
pub const PRINTF_WIDTH: usize = OUTPUT_BYTES;

const _: () = assert!(NESTING < RENDER_DEPTH, "what can be parsed must be rendered");
const _: () = assert!(OUTPUT_BYTES <= WORK, "one full output must be affordable");
