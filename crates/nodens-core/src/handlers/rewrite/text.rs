//! Names as text, in the form that patterns are written for.

use crate::go_regex::Regex;
use nodens_goregex::Captures;
use nodens_wire::{Name, NameRef};
use std::fmt::Write;

/// Appends `name` as CoreDNS prints it, which decides what a pattern sees of odd octets.
pub(super) fn push_name(name: NameRef<'_>, out: &mut String) {
    for label in name.labels() {
        for byte in label {
            match byte {
                b'.' | b' ' | b'\'' | b'@' | b';' | b'(' | b')' | b'"' | b'\\' => {
                    out.extend(['\\', char::from(*byte)]);
                }
                b'!'..=b'~' => out.push(char::from(*byte)),
                _ => _ = write!(out, "\\{byte:03}"),
            }
        }
        out.push('.');
    }
    if name.is_root() {
        out.push('.');
    }
}

/// `name` as [`push_name`] prints it.
pub(super) fn name_text(name: NameRef<'_>) -> String {
    let mut text = String::with_capacity(name.as_wire().len());
    push_name(name, &mut text);
    text
}

/// Reads a name a rule has made; an empty text is none.
pub(super) fn parse_name(text: &str) -> Option<Name> {
    if text.is_empty() { None } else { Name::parse(text).ok() }
}

/// Lower case, with a final dot.
pub(super) fn normalize(text: &str) -> String {
    let mut text = text.to_lowercase();
    let backslashes = text.bytes().rev().skip(1).take_while(|byte| *byte == b'\\').count();
    if !text.ends_with('.') || backslashes % 2 == 1 {
        text.push('.');
    }
    text
}

/// A replacement taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Inserted as it is.
    Literal(String),
    /// A capture group of the pattern.
    Group(usize),
    /// A metadata label.
    Label(String),
}

/// Takes `{0}`, `{1}`, … out of a replacement; other braces are plain text.
pub(super) fn parts(replacement: &str, groups: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = replacement;
    while let Some((before, after)) = rest.split_once('{') {
        literal.push_str(before);
        let group = after.split_once('}').and_then(|(number, tail)| {
            let canonical = |n: &usize| *n < groups && n.to_string() == number;
            Some((number.parse().ok().filter(canonical)?, tail))
        });
        match group {
            Some((group, tail)) => {
                if !literal.is_empty() {
                    parts.push(Part::Literal(std::mem::take(&mut literal)));
                }
                parts.push(Part::Group(group));
                rest = tail;
            }
            None => {
                literal.push('{');
                rest = after;
            }
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(Part::Literal(literal));
    }
    parts
}

/// Puts a replacement together; `None` if a label has no value.
pub(super) fn expand(
    parts: &[Part],
    captures: &Captures<'_>,
    label: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let mut out = String::new();
    for part in parts {
        match part {
            Part::Literal(text) => out.push_str(text),
            Part::Group(group) => out.push_str(captures.get(*group).unwrap_or_default()),
            Part::Label(name) => {
                let value = label(name).filter(|value| !value.is_empty())?;
                out.push_str(&value.to_lowercase());
            }
        }
    }
    Some(out)
}

/// Changes names of a response.
#[derive(Debug)]
pub(super) enum Rewriter {
    /// What the pattern matches becomes the replacement, whole.
    Regex {
        /// Matched against the name in the case it came.
        pattern: Regex,
        /// Without labels.
        to: Vec<Part>,
    },
    /// Another end.
    Suffix {
        /// The end that has to be there, case ignored.
        from: String,
        /// What it becomes.
        to: String,
    },
}

impl Rewriter {
    /// The new name, if it is to be another one.
    pub(super) fn rewrite(&self, name: NameRef<'_>) -> Option<Name> {
        let text = name_text(name);
        let new = match self {
            Self::Regex { pattern, to } => expand(to, &pattern.captures(&text)?, |_| None)?,
            Self::Suffix { from, to } => format!("{}{to}", strip_suffix(&text, from)?),
        };
        parse_name(&new).filter(|new| new.as_wire() != name.as_wire())
    }
}

/// `text` without an end whose case does not matter.
pub(super) fn strip_suffix<'t>(text: &'t str, suffix: &str) -> Option<&'t str> {
    let (head, tail) = text.split_at_checked(text.len().checked_sub(suffix.len())?)?;
    tail.eq_ignore_ascii_case(suffix).then_some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_printed_as_coredns_does() {
        let name = Name::from_wire(b"\x05a.b'$\x02\x00\xff\x00").unwrap();
        assert_eq!(name_text(name.view()), "a\\.b\\'$.\\000\\255.");
        assert_eq!(name_text(NameRef::root()), ".");
        for octet in 0..=u8::MAX {
            let name = Name::from_wire(&[1, octet, 0]).unwrap();
            assert_eq!(name_text(name.view()), name.to_string(), "{octet}");
        }
    }

    #[test]
    fn a_final_dot_is_added_once() {
        for (text, expected) in
            [("Foo", "foo."), ("foo.", "foo."), ("", "."), ("a\\.", "a\\.."), ("a\\\\.", "a\\\\.")]
        {
            assert_eq!(normalize(text), expected);
        }
    }

    #[test]
    fn groups_are_inserted_once_and_other_braces_stay() {
        let parts = parts("{1}.x{0}{2}{01}{}.{", 2);
        let pattern = Regex::new("^(a[{]0[}])b").unwrap();
        let captures = pattern.captures("a{0}bc").unwrap();
        let text = expand(&parts, &captures, |_| None).unwrap();
        assert_eq!(text, "a{0}.xa{0}b{2}{01}{}.{");
    }

    #[test]
    fn a_label_without_value_makes_no_name() {
        let parts = [Part::Literal("x.".into()), Part::Label("a/b".into())];
        let pattern = Regex::new("").unwrap();
        let captures = pattern.captures("").unwrap();
        assert_eq!(expand(&parts, &captures, |_| Some(String::new())), None);
        assert_eq!(expand(&parts, &captures, |_| Some("Y".into())).as_deref(), Some("x.y"));
    }
}
