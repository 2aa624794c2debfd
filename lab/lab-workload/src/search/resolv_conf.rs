//! What `resolv.conf` says about searching (resolv.conf(5)).

use super::{Libc, NDOTS_MAX};
use nodens_wire::Name;

/// Names with fewer dots go through the search list first, where nothing is said.
const NDOTS: usize = 1;
/// What resolvers know the lines by.
const KEYWORDS: [&str; 5] = ["nameserver", "domain", "search", "sortlist", "options"];
/// Options that change which queries are sent, or when.
const NOT_MODELLED: [&str; 2] = ["no-aaaa", "single-request"];

/// The part of `resolv.conf` that decides which names a lookup asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvConf {
    /// The search list of glibc and Go: of several lines with `search` or `domain` the last one.
    pub search: Vec<String>,
    /// That of musl, which takes all words behind `domain`.
    pub musl_search: Vec<String>,
    /// `ndots`, at most 15.
    pub ndots: usize,
    /// Lines that resolvers ignore, and options that the model does not know.
    pub notes: Vec<String>,
}

/// A line of `resolv.conf` that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: `{text}`, expected {expected}")]
pub struct ResolvConfError {
    /// The line, from 1.
    pub line: usize,
    /// Where the word starts in it, in octets from 1.
    pub column: usize,
    /// The word.
    pub text: String,
    /// What should be there.
    pub expected: &'static str,
}

impl Default for ResolvConf {
    fn default() -> Self {
        Self { search: Vec::new(), musl_search: Vec::new(), ndots: NDOTS, notes: Vec::new() }
    }
}

impl ResolvConf {
    /// Reads the text of the file.
    pub fn parse(text: &str) -> Result<Self, ResolvConfError> {
        let mut conf = Self::default();
        for (at, line) in text.lines().enumerate() {
            conf.line(at + 1, line)?;
        }
        if conf.search.is_empty() {
            conf.notes.push(format!(
                "{}:1: no line has `search` or `domain`: glibc and Go then search the domain of the host's name, which this file \
                 does not have; give it with --search instead of the file",
                text.lines().count() + 1
            ));
        }
        Ok(conf)
    }

    /// The search list of a resolver.
    pub fn list(&self, libc: Libc) -> &[String] {
        match libc {
            Libc::Musl => &self.musl_search,
            Libc::Glibc | Libc::Go => &self.search,
        }
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), ResolvConfError> {
        let mut words = crate::text::columns(line);
        let Some((at, keyword)) = words.next().filter(|(_, word)| !is_comment(word)) else {
            return Ok(());
        };
        let wrong = |(column, word): (usize, &str), expected| ResolvConfError {
            line: number,
            column,
            text: word.to_owned(),
            expected,
        };
        if at > 1 && KEYWORDS.contains(&keyword) {
            return Err(wrong(
                (at, keyword),
                "it at the start of the line, where glibc looks for it",
            ));
        }
        match keyword {
            "search" | "domain" => {
                self.search.clear();
                for (column, word) in words {
                    let is_domain = !is_comment(word) && (word == "." || Name::parse(word).is_ok());
                    if !is_domain {
                        return Err(wrong((column, word), "a domain name"));
                    }
                    self.search.push(word.to_owned());
                }
                if self.search.is_empty() {
                    return Err(wrong((at, keyword), "a domain name behind it"));
                }
                self.musl_search.clone_from(&self.search);
                if keyword == "domain" && self.search.len() > 1 {
                    self.search.truncate(1);
                    self.notes.push(format!(
                        "{number}:{at}: of several words behind `domain` musl searches all, glibc and Go the first"
                    ));
                }
            }
            "options" => {
                for (column, word) in words {
                    match word.strip_prefix("ndots:").map(str::parse::<usize>) {
                        Some(Ok(ndots)) => self.ndots = ndots.min(NDOTS_MAX),
                        Some(Err(_)) => return Err(wrong((column, word), "ndots: and a number")),
                        None if NOT_MODELLED.iter().any(|option| word.starts_with(option)) => {
                            self.notes.push(format!("{number}:{column}: `{word}` is not modelled"));
                        }
                        None => {}
                    }
                }
            }
            _ if KEYWORDS.contains(&keyword) => {}
            _ => self.notes.push(format!(
                "{number}:{at}: `{keyword}` is ignored, resolvers know {}",
                KEYWORDS.join(", ")
            )),
        }
        Ok(())
    }
}

/// Comments stand on lines of their own; behind other words resolvers take them for words.
fn is_comment(word: &str) -> bool {
    word.starts_with([';', '#'])
}
