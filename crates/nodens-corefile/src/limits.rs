//! Every maximum of the Corefile language.

/// Snippet imports expanded while one Corefile is read.
pub const SNIPPET_IMPORTS: usize = 10_000;

/// `import` statements that name files, expanded while one Corefile is read.
pub const FILE_IMPORTS: usize = 100_000;

/// Words read from one Corefile with everything it imports. Bounds what nested snippets can
/// multiply to; a generated Corefile with 100,000 server blocks stays far below.
pub const TOKENS: usize = 10_000_000;

/// Blocks inside blocks, counted from the directive. CoreDNS's own directives need three.
pub const BODY_DEPTH: usize = 64;

/// Environment references replaced in one word. A variable whose value names itself would
/// otherwise never end.
pub const SUBSTITUTIONS: usize = 1_000;

/// Octets that one word may grow to by environment references.
pub const SUBSTITUTED_LENGTH: usize = 1 << 20;

/// Octets of a zone name in a key, with the final dot.
pub const ZONE_LENGTH: usize = 255;
