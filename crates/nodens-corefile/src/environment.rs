//! `{$NAME}` and `{%NAME%}`: references to environment variables.

use std::borrow::Cow;

use crate::limits;
use crate::sources::Sources;

/// More replacements, or more text, than the limits allow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Endless;

/// Replaces every reference, those in the values too; an unset variable reads as "". First all
/// `{%NAME%}`, then all `{$NAME}`, so a value of the first kind may bring references of the
/// second. An empty reference, `{$}`, stays and ends the search.
pub(crate) fn substitute<'a>(
    text: &'a str,
    sources: &dyn Sources,
) -> Result<Cow<'a, str>, Endless> {
    if !text.contains("{%") && !text.contains("{$") {
        return Ok(Cow::Borrowed(text));
    }
    let mut budget = limits::SUBSTITUTIONS;
    let text = replace_references(text.to_owned(), "{%", "%}", sources, &mut budget)?;
    let text = replace_references(text, "{$", "}", sources, &mut budget)?;
    Ok(Cow::Owned(text))
}

fn replace_references(
    mut text: String,
    open: &str,
    close: &str,
    sources: &dyn Sources,
    budget: &mut usize,
) -> Result<String, Endless> {
    while let Some((_, rest)) = text.split_once(open) {
        let Some((name, _)) = rest.split_once(close) else { break };
        // CoreDNS looks for the end from the opening on, so in `{%}` the two share a character
        // and the reference counts as empty.
        let shared = open.ends_with(&close[..1]) && rest.starts_with(&close[1..]);
        if name.is_empty() || shared {
            break;
        }
        *budget = budget.checked_sub(1).ok_or(Endless)?;
        let reference = format!("{open}{name}{close}");
        let value = sources.environment(name).unwrap_or_default();
        let grown = text.matches(&reference).count().saturating_mul(value.len());
        if grown.saturating_add(text.len()) > limits::SUBSTITUTED_LENGTH {
            return Err(Endless);
        }
        text = text.replace(&reference, &value);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::PatternError;
    use std::path::{Path, PathBuf};

    struct Variables;

    impl Sources for Variables {
        fn environment(&self, name: &str) -> Option<String> {
            let value = match name {
                "A" => "a",
                "TO_A" => "{$A}",
                "PERCENT_TO_A" => "<{$A}>",
                "SELF" => "{$SELF}",
                "TWICE" => "{$TWICE}{$TWICE}",
                "HALF" => "{$",
                "WITH SPACE" => "s",
                _ => return None,
            };
            Some(value.to_owned())
        }

        fn read(&self, _path: &Path) -> std::io::Result<String> {
            unreachable!("substitution reads no file")
        }

        fn glob(&self, _pattern: &str) -> Result<Vec<PathBuf>, PatternError> {
            unreachable!("substitution globs no pattern")
        }
    }

    #[test]
    fn replaces_references() {
        let table = [
            ("plain", "plain"),
            ("{$A}", "a"),
            ("{%A%}", "a"),
            ("x{$A}y{$A}z{%A%}", "xayaza"),
            ("{$UNSET}", ""),
            ("a{$UNSET}b", "ab"),
            ("{$TO_A}", "a"),
            ("{%PERCENT_TO_A%}", "<a>"),
            ("{$WITH SPACE}", "s"),
            // Not references.
            ("{A}", "{A}"),
            ("{$A", "{$A"),
            ("{%A}", "{%A}"),
            ("$A", "$A"),
            ("{ $A}", "{ $A}"),
            // An empty reference ends the search, whatever comes after it.
            ("{$}", "{$}"),
            ("{$A}{$}{$A}", "a{$}a"),
            ("{$}{$A}", "{$}{$A}"),
            ("{%%}{%A%}", "{%%}{%A%}"),
            ("{%}{%A%}", "{%}{%A%}"),
            // In a Go template `{{$x}}` is eaten and `{{ $x }}` is not.
            ("{{$x}}", "{}"),
            ("{{ $x }}", "{{ $x }}"),
            ("{$HALF}A}", "a"),
            ("{$A{$A}}", "}"),
        ];
        for (text, expected) in table {
            assert_eq!(substitute(text, &Variables).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn references_that_never_end_are_an_error() {
        assert_eq!(substitute("{$SELF}", &Variables), Err(Endless));
        assert_eq!(substitute("{$TWICE}", &Variables), Err(Endless));
    }
}
