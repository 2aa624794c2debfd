//! Intended differences from CoreDNS, read from `docs/differences.md`.
//!
//! The document has a table whose rows begin with an id in backquotes, and fenced blocks of the kind `difference` that
//! say how to know the difference when it is seen. A block has an `id` of the table and any of the keys below; `*` in
//! a value stands for any text, a key that is left out for any value. `rare: yes` marks one that only occurs at times,
//! `check: NAME` one that only the check of this name sees. One without explains what any check sees, and is expected of
//! [`CONFORMANCE`].

use anyhow::{Context, Result, bail};

use crate::answer::Difference;

/// The check that sees what is marked for no other.
pub const CONFORMANCE: &str = "conformance";

/// Where a difference was seen.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The directive that the case is about.
    pub directive: &'a str,
    /// The name of the case.
    pub case: &'a str,
    /// The question as text, with the transport in front.
    pub question: &'a str,
}

/// One fenced block.
#[derive(Debug, Default)]
struct Matcher {
    id: String,
    directive: Option<String>,
    case: Option<String>,
    question: Option<String>,
    field: Option<String>,
    coredns: Option<String>,
    nodens: Option<String>,
    /// The only check that sees it.
    check: Option<String>,
    /// Not seen in every run.
    rare: bool,
}

/// The document.
#[derive(Debug, Default)]
pub struct Differences {
    matchers: Vec<Matcher>,
    /// The check that asks; it must see every difference that is its own.
    check: String,
}

impl Differences {
    /// Reads the document; an id without row or a row without block is an error, as is a row without reason.
    pub fn parse(document: &str) -> Result<Self> {
        let rows: Vec<(&str, &str)> = document.lines().filter_map(row).collect();
        if let Some((id, _)) = rows.iter().find(|(_, reason)| reason.is_empty()) {
            bail!("difference '{id}' has no reason in its row");
        }
        let mut matchers: Vec<Matcher> = Vec::new();
        let mut inside = false;
        for (index, line) in document.lines().enumerate() {
            match line.trim() {
                "```difference" => {
                    inside = true;
                    matchers.push(Matcher::default());
                }
                "```" => inside = false,
                "" => {}
                line if inside => {
                    let at = || format!("line {}", index + 1);
                    let (key, value) = line
                        .split_once(':')
                        .with_context(|| format!("{}: expected KEY: VALUE", at()))?;
                    // invariant: a block begins with a matcher.
                    if let Some(matcher) = matchers.last_mut() {
                        matcher.set(key.trim(), value.trim()).with_context(at)?;
                    }
                }
                _ => {}
            }
        }
        for matcher in &matchers {
            if !rows.iter().any(|(id, _)| *id == matcher.id) {
                bail!("a block has the id '{}', which no row of the table has", matcher.id);
            }
        }
        if let Some((id, _)) = rows.iter().find(|(id, _)| !matchers.iter().any(|m| m.id == *id)) {
            bail!("difference '{id}' has no block that says how to know it");
        }
        Ok(Differences { matchers, check: CONFORMANCE.to_owned() })
    }

    /// Those that the check of this name sees: its own ones, and those of no check in particular.
    pub fn of_check(mut self, name: &str) -> Self {
        self.check = name.to_owned();
        self.matchers.retain(|matcher| matcher.check.as_deref().is_none_or(|check| check == name));
        self
    }

    /// The ids that explain the differences of one question together, or `None` when one of them is unexplained.
    pub fn explain(&self, place: Place<'_>, differences: &[Difference]) -> Option<Vec<&str>> {
        let explain = |difference| {
            self.matchers.iter().find(|matcher| matcher.matches(place, difference)).map(|m| &*m.id)
        };
        differences.iter().map(explain).collect()
    }

    /// Every id that a whole run of the check should see, each once.
    pub fn expected(&self) -> Vec<&str> {
        let own = |matcher: &&Matcher| {
            matcher.check.as_deref().unwrap_or(CONFORMANCE) == self.check && !matcher.rare
        };
        let expected = self.matchers.iter().filter(own);
        let mut ids: Vec<&str> = expected.map(|matcher| matcher.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// Id and reason (the last cell) of a row of the table.
fn row(line: &str) -> Option<(&str, &str)> {
    let cells: Vec<&str> =
        line.trim().strip_prefix('|')?.trim_end_matches('|').split('|').collect();
    let id = cells.first()?.trim().strip_prefix('`')?.strip_suffix('`')?;
    let reason = if cells.len() > 1 { cells.last()?.trim() } else { "" };
    Some((id, reason))
}

impl Matcher {
    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let value = value.to_owned();
        match key {
            "id" => self.id = value,
            "directive" => self.directive = Some(value),
            "case" => self.case = Some(value),
            "question" => self.question = Some(value),
            "field" => self.field = Some(value),
            "coredns" => self.coredns = Some(value),
            "nodens" => self.nodens = Some(value),
            "check" => self.check = Some(value),
            "rare" if value == "yes" => self.rare = true,
            key => bail!(
                "unknown key '{key}', expected id, directive, case, question, field, coredns, nodens, check or rare"
            ),
        }
        Ok(())
    }

    fn matches(&self, place: Place<'_>, difference: &Difference) -> bool {
        // Questions mix the case of names, which never matters to a rule.
        let question = place.question.to_lowercase();
        let pattern = self.question.as_ref().map(|pattern| pattern.to_lowercase());
        let pairs = [
            (&self.directive, place.directive),
            (&self.case, place.case),
            (&pattern, &*question),
            (&self.field, difference.field),
            (&self.coredns, &difference.coredns),
            (&self.nodens, &difference.nodens),
        ];
        pairs.iter().all(|(pattern, text)| pattern.as_ref().is_none_or(|p| glob(p, text)))
    }
}

/// True when `text` is `pattern`, where each `*` of the pattern stands for any text.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(first) else { return false };
    if rest.is_empty() {
        return true;
    }
    let starts = text.char_indices().map(|(index, _)| index).chain([text.len()]);
    starts.into_iter().any(|start| glob(rest, &text[start..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "\
| id | difference | reason |
|---|---|---|
| `stale-ttl` | 30 instead of 0 | RFC 8767, section 4 |

```difference
id: stale-ttl
directive: cache
field: ttl
coredns: *[0]
```
";
    const PLACE: Place<'_> =
        Place { directive: "cache", case: "stale", question: "udp www.example.org. A" };

    fn difference(field: &'static str, coredns: &str) -> Difference {
        Difference { field, coredns: coredns.into(), nodens: "x [30]".into() }
    }

    #[test]
    fn a_listed_difference_is_explained() {
        let document = Differences::parse(DOCUMENT).unwrap();
        let seen = difference("ttl", "x [0]");
        assert_eq!(document.explain(PLACE, std::slice::from_ref(&seen)), Some(vec!["stale-ttl"]));
        let elsewhere = Place { directive: "forward", ..PLACE };
        assert_eq!(document.explain(elsewhere, std::slice::from_ref(&seen)), None);
        assert_eq!(document.explain(PLACE, &[difference("ttl", "x [5]")]), None);
        assert_eq!(document.explain(PLACE, &[seen, difference("rcode", "x [0]")]), None);
        assert_eq!(document.expected(), ["stale-ttl"]);
        let elsewhere = DOCUMENT.replace("field: ttl", "check: other");
        let conformance = Differences::parse(&elsewhere).unwrap().of_check(CONFORMANCE);
        assert_eq!(conformance.expected(), [""; 0]);
        assert_eq!(conformance.explain(PLACE, &[difference("ttl", "x [0]")]), None);
        let other = Differences::parse(&elsewhere).unwrap().of_check("other");
        assert_eq!(other.expected(), ["stale-ttl"]);
        let third = Differences::parse(&elsewhere).unwrap().of_check("third");
        assert_eq!(third.explain(PLACE, &[difference("ttl", "x [0]")]), None);
        let rare = Differences::parse(&DOCUMENT.replace("field: ttl", "rare: yes")).unwrap();
        assert_eq!(rare.expected(), [""; 0]);
    }

    #[test]
    fn rows_and_blocks_belong_together() {
        let without_row = DOCUMENT.replace("`stale-ttl` | 30", "`other` | 30");
        assert!(Differences::parse(&without_row).is_err());
        let without_reason = DOCUMENT.replace("RFC 8767, section 4", "");
        assert!(Differences::parse(&without_reason).is_err());
        let without_block = DOCUMENT.split("```").next().unwrap();
        assert!(Differences::parse(without_block).is_err());
        let typo = DOCUMENT.replace("field:", "feild:");
        assert!(Differences::parse(&typo).is_err());
    }

    #[test]
    fn globs() {
        assert!(glob("*", "") && glob("a*c", "abc") && glob("*b*", "abc") && glob("a", "a"));
        assert!(!glob("a*c", "abd") && !glob("a", "ab") && !glob("b*", "abc"));
        assert!(glob("*[0]*[1]", "x [0]; y [0]; z [1]"));
    }
}
