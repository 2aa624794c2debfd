//! The syntax tree.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A place in a Corefile or in a file that it imports.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The name given to [`crate::parse`], or the absolute path of an imported file.
    pub file: Arc<str>,
    /// 1 for the first line.
    pub line: u32,
    /// 1 for the first character of the line; counts characters, not octets.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One word, environment references already replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Without the quotes, with `\"` turned into `"`. May be empty.
    pub text: String,
    /// The word was written in quotes. Quotes do not take the meaning from `{`, `}` or `import`.
    pub quoted: bool,
    /// Where the word, or its opening quote, starts.
    pub position: Position,
}

/// One line of a block: `name arg… [{ body }]`. Recursive: a body is again such lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// The first word of the line.
    pub name: Token,
    /// The words after it, up to the end of the line or `{`.
    pub args: Vec<Token>,
    /// `None` without braces; `Some` of an empty vector for `{ }`.
    pub body: Option<Vec<Directive>>,
    /// The closing brace of the body.
    pub end: Option<Position>,
    /// The `import` that brought this line here, if it was not written in place.
    pub imported: Option<Arc<Import>>,
}

/// An `import` statement on the way to an imported line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Where the word `import` is.
    pub position: Position,
    /// The `import` that brought this `import`.
    pub outer: Option<Arc<Import>>,
}

/// `KEY… { directives }`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerBlock {
    /// At least one; trailing commas removed. Turn each into zones with [`crate::parse_key`].
    pub keys: Vec<Token>,
    /// In the order of the text, imports expanded.
    pub directives: Vec<Directive>,
    /// Whether the block was written with braces. Without them it extends to the end of the file,
    /// so a second key then looks like an unknown directive.
    pub braces: bool,
}

/// A whole Corefile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Corefile {
    /// In the order of the text.
    pub blocks: Vec<ServerBlock>,
    /// The directives of blocks without a key ([`WarningKind::NoKeys`]): nobody is served by them,
    /// but what is no directive is a mistake there too.
    pub unserved: Vec<Directive>,
    /// What was accepted, as CoreDNS accepts it, but is likely not what was meant.
    pub warnings: Vec<Warning>,
    /// The imported files, in order of first use: what to watch for changes beside the Corefile.
    pub imported_files: Vec<PathBuf>,
}

/// Something accepted that deserves a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where.
    pub position: Position,
    /// What.
    pub kind: WarningKind,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.position, self.kind)
    }
}

/// What a [`Warning`] is about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WarningKind {
    /// `import` of a pattern with wildcards that matches no file.
    #[error("No files matching import glob pattern: {pattern}")]
    NothingImported {
        /// As written, environment references replaced.
        pattern: String,
    },
    /// The file ends inside a quoted word.
    #[error("this quote is never closed, so the word runs to the end of the file")]
    UnclosedQuote,
    /// `word#comment more`: CoreDNS ends such a comment at the next space.
    #[error(
        "a comment that starts inside a word ends at the next space, so what follows is read \
         again; put a space before `#`"
    )]
    GluedComment,
    /// A block with no key left, for example because a variable is unset. It is not served.
    #[error(
        "a server block without a zone is not served; expected a key such as `.:53` before `{{`"
    )]
    NoKeys,
    /// The last server block lacks its `}` but a directive's block ended there.
    #[error("the server block opened at line {line} is never closed; expected one more `}}`")]
    UnclosedBlock {
        /// Line of the opening brace.
        line: u32,
    },
    /// `a,b` is one key; zones are separated by a space or by a comma and a space.
    #[error("`{key}` is read as one zone; put a space after the comma to name two")]
    CommaInKey {
        /// As written.
        key: String,
    },
}
