//! Words that strings of the programs must not contain: they say less than an operator needs.
//!
//! A log line or an error has a subject that exists (the successor, the upstream, a client) and the word that an
//! operator searches for: down, failed, timed out, refused, taking over, recovered.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::{File, Finding, Tree, finding, tokens};

/// Folders of the programs whose logs and errors operators read.
const PROGRAMS: &[&str] = &["crates/", "lab/"];

/// Words, each with what to write instead.
const BANNED: &[(&str, &str)] = &[
    ("nobody", "name what is missing: no client, no process, no upstream"),
    ("somebody", "name it: a client, another process"),
    ("anybody", "name it: a client, another process"),
    ("whoever", "name it: the client, the process that"),
    ("goes on", "say `continues` or `resumes`"),
    ("going on", "say `continuing` or `resuming`"),
    ("go on", "say `continue` or `resume`"),
    ("without a word", "say what did not happen"),
    ("to be had", "say `not available`, or `cannot` and the verb"),
    ("started anew", "say `restarted`"),
    ("what has to be", "name it"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = tree.with_extension("rs").filter(|file| {
        PROGRAMS.iter().any(|folder| file.path.starts_with(folder))
            && file.path.contains("/src/")
            && !tokens::is_test_path(&file.path)
    });
    sources.flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    // What does not lex is reported by the rules on tokens.
    let (Ok(stream), Ok(tests)) = (file.text.parse(), tokens::test_ranges(&file.text)) else {
        return Vec::new();
    };
    let mut strings = Vec::new();
    collect(stream, &mut strings);
    strings.retain(|(line, _)| !tests.iter().any(|(first, last)| (first..=last).contains(&line)));
    let banned = strings.iter().flat_map(|(line, text)| {
        let found = BANNED.iter().filter(|(words, _)| contains(text, words));
        found.map(|(words, instead)| {
            finding(&file.path, *line, format!("a string contains `{words}`: {instead}"))
        })
    });
    banned.collect()
}

/// Adds every string literal with its line, but for doc comments.
fn collect(stream: TokenStream, strings: &mut Vec<(usize, String)>) {
    let mut after_hash = false;
    for token in stream {
        // `///` is `#[doc = …]`, and `//!` is `#![doc = …]`.
        let is_hash = match &token {
            TokenTree::Punct(punct) => {
                punct.as_char() == '#' || after_hash && punct.as_char() == '!'
            }
            _ => false,
        };
        match token {
            TokenTree::Group(group) => {
                let is_doc = after_hash
                    && group.delimiter() == Delimiter::Bracket
                    && group.stream().to_string().starts_with("doc");
                if !is_doc {
                    collect(group.stream(), strings);
                }
            }
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if text.contains('"') {
                    strings.push((literal.span().start().line, one_line(&text)));
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
        after_hash = is_hash;
    }
}

/// The text in lower case, with one space wherever it has space or continues on the next line.
fn one_line(literal: &str) -> String {
    let joined = literal.replace("\\\n", " ").to_lowercase();
    joined.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether the words occur as words, not as a part of longer ones.
fn contains(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let behind = text[at + words.len()..].chars().next();
        let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !is_letter(before) && !is_letter(behind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let findings = check(&Tree::of(&[(path, text)]));
        findings.into_iter().map(|finding| (finding.line, finding.message)).collect()
    }

    #[test]
    fn vague_words_in_strings_are_found_with_their_line() {
        let text = "fn f() {\n    log(\"Nobody serves\");\n    g!(\"the rest goes \\\n        on: {x}\");\n}\n";
        let found = found("crates/a/src/b.rs", text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].0, 2);
        assert!(found[0].1.contains("`nobody`: name what is missing"), "{found:?}");
        assert_eq!(found[1].0, 3);
        assert!(found[1].1.contains("`goes on`"), "{found:?}");
        assert_eq!(super::check(&Tree::of(&[("lab/a/src/b.rs", text)])).len(), 2);
    }

    #[test]
    fn comments_names_and_tests_may_have_them() {
        let text = "//! Nobody waits.\n/// Nobody waits.\n// It goes on.\nfn nobody() -> &'static str {\n    \"nobodys.test ongoing\"\n}\n\
                    #[cfg(test)]\nmod tests {\n    const A: &str = \"nobody\";\n}\n";
        assert_eq!(found("crates/a/src/b.rs", text), []);
        assert_eq!(found("crates/a/src/b/tests.rs", "const A: &str = \"nobody\";"), []);
        assert_eq!(found("crates/a/examples/b.rs", "const A: &str = \"nobody\";"), []);
        assert_eq!(found("e2e/src/b.rs", "const A: &str = \"nobody\";"), []);
    }
}
