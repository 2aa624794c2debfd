//! From the name of a file to the name of its zone.

use crate::go_regex::Regex;
use nodens_wire::Name;

/// A pattern for names of files, and a template for the origin.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    regex: Regex,
    template: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// What a group of the pattern matched; nothing for a group that there is not.
    Group(Option<usize>),
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        (self.regex.as_str(), &self.template) == (other.regex.as_str(), &other.template)
    }
}

impl Eq for Pattern {}

impl Pattern {
    /// `template` has a group as `{1}` or `{name}`.
    pub(super) fn new(regex: Regex, template: &str) -> Self {
        // As CoreDNS does: the template is one of Go's, with a dollar sign before each brace.
        let template = parts(&template.replace('{', "${"), &regex);
        Self { regex, template }
    }

    /// The origin of the zone in a file of this name, if it has one.
    pub(super) fn origin(&self, file: &str) -> Option<Result<Name, String>> {
        let captures = self.regex.captures(file)?;
        let mut origin = String::new();
        for part in &self.template {
            match part {
                Part::Text(text) => origin.push_str(text),
                Part::Group(group) => {
                    let text = group.and_then(|group| captures.get(group));
                    origin.push_str(text.unwrap_or_default());
                }
            }
        }
        Some(Name::parse(&origin).map_err(|error| format!("\"{origin}\": {error}")))
    }
}

/// Takes `$1`, `${1}`, `$name` and `${name}` out of a template; `$$` is a dollar sign, and other dollar
/// signs are plain text.
fn parts(template: &str, regex: &Regex) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = template;
    let mut text = String::new();
    while let Some((before, behind)) = rest.split_once('$') {
        text.push_str(before);
        rest = behind;
        if let Some(behind) = rest.strip_prefix('$') {
            text.push('$');
            rest = behind;
            continue;
        }
        match group(rest) {
            Some((name, behind)) => {
                parts.push(Part::Text(std::mem::take(&mut text)));
                parts.push(Part::Group(index(name, regex)));
                rest = behind;
            }
            None => text.push('$'),
        }
    }
    text.push_str(rest);
    parts.push(Part::Text(text));
    parts
}

/// The name of a group at the front of a text, and what is behind it.
fn group(text: &str) -> Option<(&str, &str)> {
    let is_word = |c: char| c == '_' || c.is_alphanumeric();
    match text.strip_prefix('{') {
        Some(inner) => {
            let (name, behind) = inner.split_once('}')?;
            (!name.is_empty() && name.chars().all(is_word)).then_some((name, behind))
        }
        None => {
            let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
            text.split_at_checked(end).filter(|(name, _)| !name.is_empty())
        }
    }
}

fn index(name: &str, regex: &Regex) -> Option<usize> {
    match name.parse() {
        Ok(number) => Some(number),
        Err(_) => regex.capture_names().position(|group| group == Some(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::go_regex::compile;

    #[test]
    fn templates_are_those_of_go() {
        for (pattern, template, file, origin) in [
            (r"db\.(.*)", "{1}", "db.Example.org", Some("Example.org.")),
            (r"db\.(.*)", "{1}", "old.db.example.org", Some("example.org.")),
            (r"db\.(.*)", "{1}", "example.org", None),
            (r"^(.*)\.(.*)$", "{2}.{1}.x", "a.b", Some("b.a.x.")),
            (r"^(?P<zone>.*)\.zone$", "{zone}", "a.b.zone", Some("a.b.")),
            (r"^(.*)\.zone$", "$1.", "a.b.zone", Some("a.b.")),
            (r"^(.*)\.zone$", "${1}x", "a.zone", Some("${1}x.")),
            (r"^(.*)\.zone$", "x{2}{}$", "a.zone", Some("x${}$.")),
            (r"^(.*)\.zone$", "{1}", ".zone", Some(".")),
        ] {
            let pattern = Pattern::new(compile(pattern).unwrap(), template);
            let found = pattern.origin(file).map(|origin| origin.unwrap().to_string());
            assert_eq!(found.as_deref(), origin, "{template} {file}");
        }
        let pattern = Pattern::new(compile("(.*)").unwrap(), "{1}");
        assert!(pattern.origin("a..b").unwrap().is_err());
    }
}
