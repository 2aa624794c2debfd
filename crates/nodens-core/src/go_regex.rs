//! Patterns of a Corefile outside of expressions: Go's, and not longer than CoreDNS allows.

pub use nodens_goregex::Regex;

/// The longest pattern, in octets; CoreDNS's limit.
pub const PATTERN_LEN_MAX: usize = 10_000;

/// Why a pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Longer than [`PATTERN_LEN_MAX`].
    #[error("regex pattern too long: {0} > {PATTERN_LEN_MAX}")]
    TooLong(usize),
    /// Go refuses it too, or it is too large.
    #[error(transparent)]
    Syntax(#[from] nodens_goregex::Error),
}

/// Compiles a pattern written for Go.
///
/// # Errors
/// If CoreDNS would refuse it, or it compiles to too much.
///
/// ```
/// use nodens_core::go_regex::compile;
/// let pattern = compile(r"^(.*)\Q.example.org.\E$").unwrap();
/// assert_eq!(pattern.captures("www.example.org.").unwrap().get(1), Some("www"));
/// assert!(compile("(").is_err());
/// ```
pub fn compile(pattern: &str) -> Result<Regex, PatternError> {
    if pattern.len() > PATTERN_LEN_MAX {
        return Err(PatternError::TooLong(pattern.len()));
    }
    Ok(Regex::new(pattern)?)
}
