//! What can be wrong with a Corefile, and where.

use crate::overlap::Overlap;
use crate::syntax::{Position, Token};

/// Why a Corefile is rejected. Displays as `FILE:LINE:COLUMN: message`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{position}: {kind}")]
pub struct Error {
    /// The first character of the offending word.
    pub position: Position,
    /// What was wrong and what was expected.
    pub kind: ErrorKind,
}

/// What was wrong, and what was expected instead. Words that CoreDNS's users know from its own
/// messages open the text, so that a search for them still finds it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// A word of another shape was wanted here.
    #[error("expected {expected}, found `{found}`")]
    Expected {
        /// With an example, such as "a duration such as 30s".
        expected: String,
        /// The word.
        found: String,
    },
    /// Not a directive of this server.
    #[error("Unknown directive '{word}'{}", hint(nearest, known))]
    UnknownDirective {
        /// As written.
        word: String,
        /// The known word nearest to it.
        nearest: Option<String>,
        /// All known words, separated by commas; empty to leave the list out.
        known: String,
    },
    /// Not a property of the directive that it is written in.
    #[error("unknown property '{word}'{}", hint(nearest, known))]
    UnknownProperty {
        /// As written.
        word: String,
        /// The known word nearest to it.
        nearest: Option<String>,
        /// All known words, separated by commas; empty to leave the list out.
        known: String,
    },
    /// Too few or too many arguments.
    #[error("Wrong argument count after '{name}': expected {expected}, found {found}")]
    ArgumentCount {
        /// The directive or property.
        name: String,
        /// Such as "1" or "1 to 3".
        expected: String,
        /// How many there are.
        found: usize,
    },
    /// A block where none belongs.
    #[error("'{name}' takes no block in braces")]
    UnexpectedBody {
        /// The directive or property.
        name: String,
    },
    /// The file ended too early.
    #[error("Unexpected EOF: expected {expected}")]
    UnexpectedEnd {
        /// What was still to come.
        expected: String,
    },
    /// `}` on the line of a directive that has no block.
    #[error(
        "Unexpected '}}' because no matching opening brace: expected it on a line of its own to \
         end the server block"
    )]
    UnmatchedBrace,
    /// `{` that belongs to no word of its line.
    #[error("unexpected '{{': expected it at the end of the line whose block it opens")]
    StrayBrace,
    /// Words after the `}` of a directive.
    #[error("expected the end of the line after '}}', found `{found}`")]
    AfterBrace {
        /// The first such word.
        found: String,
    },
    /// More blocks inside blocks than [`crate::limits::BODY_DEPTH`].
    #[error("blocks are nested more than {} deep", crate::limits::BODY_DEPTH)]
    TooDeep,
    /// More words than [`crate::limits::TOKENS`], imports counted.
    #[error("more than {} words with all imports", crate::limits::TOKENS)]
    TooLong,
    /// A comma promised another key.
    #[error("Expected another address but had '{{' - check for extra comma")]
    ExtraComma,
    /// A snippet of that name exists.
    #[error("redeclaration of previously declared snippet {name}, first declared at {first}")]
    SnippetRedeclared {
        /// Without the parentheses.
        name: String,
        /// Where the first one is.
        first: Position,
    },
    /// `(name)` without `{`.
    #[error("expected '{{' after the snippet name, found `{found}`")]
    SnippetWithoutBody {
        /// The word there.
        found: String,
    },
    /// A snippet that imports itself, directly or through others, or too many imports.
    #[error("maximum snippet import depth ({}) exceeded: {reason}", crate::limits::SNIPPET_IMPORTS)]
    SnippetImports {
        /// Which of the two.
        reason: String,
    },
    /// A file that imports itself, directly or through others, or too many imports.
    #[error("maximum file import depth ({}) exceeded: {reason}", crate::limits::FILE_IMPORTS)]
    FileImports {
        /// Which of the two.
        reason: String,
    },
    /// `import` without a name, or with an empty one.
    #[error("Import requires a non-empty filepath: expected a snippet, a file or a glob pattern")]
    ImportNothing,
    /// `import` with more than one name.
    #[error("Import takes only one argument (glob pattern or file), found also `{found}`")]
    ImportMany {
        /// The second argument.
        found: String,
    },
    /// No such snippet and no such file.
    #[error("File to import not found: {pattern}{}", hint(nearest, ""))]
    ImportNotFound {
        /// As written, environment references replaced.
        pattern: String,
        /// The declared snippet nearest to it.
        nearest: Option<String>,
    },
    /// More wildcards than allowed.
    #[error(
        "Glob pattern may only contain one wildcard (*), but has others: {pattern}: expected at \
         most one '*', at most one '?' and no [class]"
    )]
    ImportPattern {
        /// The resolved pattern.
        pattern: String,
    },
    /// The pattern or the file is unusable.
    #[error("Could not import {path}: {reason}")]
    ImportFailed {
        /// File or pattern.
        path: String,
        /// The operating system's words.
        reason: String,
    },
    /// Environment references that never end.
    #[error(
        "environment references in `{word}` do not end: after {} replacements or {} octets there \
         are still more",
        crate::limits::SUBSTITUTIONS,
        crate::limits::SUBSTITUTED_LENGTH
    )]
    EndlessEnvironment {
        /// As written.
        word: String,
    },
    /// `example.org:`
    #[error("expecting data after last colon: {key:?}: expected a port such as `:53`, or no colon")]
    EmptyPort {
        /// Without the scheme.
        key: String,
    },
    /// A port over 65535 or below 0.
    #[error("expected a port from 0 to 65535, found `{port}`")]
    InvalidPort {
        /// As written.
        port: String,
    },
    /// A zone name over [`crate::limits::ZONE_LENGTH`] octets.
    #[error("specified zone is too long: {length} > {}", crate::limits::ZONE_LENGTH)]
    ZoneTooLong {
        /// Octets.
        length: usize,
    },
    /// Empty or too long labels, or escapes that do not end.
    #[error("zone is not a valid domain name: {zone}")]
    InvalidZone {
        /// As written, without scheme and port.
        zone: String,
    },
    /// An IPv6 prefix that starts with `:` or `0`, which CoreDNS does not take for a key.
    #[error("invalid CIDR {cidr}: expected a prefix such as 10.0.0.0/8 or 2001:db8::/32")]
    InvalidCidr {
        /// As written.
        cidr: String,
    },
    /// `foo://` in front of a zone.
    #[error("unknown scheme '{scheme}://'{}", hint(nearest, crate::key::SCHEMES))]
    UnknownScheme {
        /// Without `://`.
        scheme: String,
        /// The known scheme nearest to it.
        nearest: Option<String>,
    },
    /// Two server blocks for one zone and listener.
    #[error(transparent)]
    Overlap(#[from] Overlap),
    /// A rule of one directive; its configuration code words it.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// An error at a word.
    pub fn at(token: &Token, kind: ErrorKind) -> Self {
        Self { position: token.position.clone(), kind }
    }

    /// `expected EXPECTED, found the word`, at the word.
    pub fn expected(token: &Token, expected: impl Into<String>) -> Self {
        let kind = ErrorKind::Expected { expected: expected.into(), found: token.text.clone() };
        Self::at(token, kind)
    }

    /// A rule of one directive broken at a word; say what was expected.
    pub fn invalid(token: &Token, message: impl Into<String>) -> Self {
        Self::at(token, ErrorKind::Invalid(message.into()))
    }

    /// The message, the line of `source` it is about, and carets below the word. `source` is the
    /// text of the file that the position names.
    ///
    /// ```
    /// let text = "\n. {\n    cache 30 {\n";
    /// let error = nodens_corefile::parse("Corefile", text, &nodens_corefile::NoSources).unwrap_err();
    /// assert_eq!(
    ///     error.render(text),
    ///     "Corefile:3:14: Unexpected EOF: expected '}' to close the block opened here\n\
    ///      \u{20} |\n\
    ///      3 |     cache 30 {\n\
    ///      \u{20} |              ^\n"
    /// );
    /// ```
    pub fn render(&self, source: &str) -> String {
        let source = source.strip_prefix('\u{feff}').unwrap_or(source);
        let line_index = self.position.line.saturating_sub(1) as usize;
        let Some(line) = source.split('\n').nth(line_index) else {
            return format!("{self}\n");
        };
        let line = line.trim_end_matches('\r');
        let before = self.position.column.saturating_sub(1) as usize;
        // Tabs stay tabs, so that the carets line up whatever a tab's width is.
        let pad: String =
            line.chars().take(before).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let word = line.chars().skip(before).take_while(|c| !c.is_whitespace()).count();
        let number = self.position.line.to_string();
        let gutter = " ".repeat(number.len());
        let carets = "^".repeat(word.max(1));
        format!("{self}\n{gutter} |\n{number} | {line}\n{gutter} | {pad}{carets}\n")
    }
}

/// The tail of a message about an unknown word.
fn hint(nearest: &Option<String>, known: &str) -> String {
    match (nearest, known) {
        (Some(word), _) => format!(", did you mean '{word}'?"),
        (None, "") => String::new(),
        (None, known) => format!(": expected one of {known}"),
    }
}
