//! Golden vectors: a Corefile and the tree or the error that it must become.
//!
//! A tree is shown as one line: a server block as `key key{…}`, or `key key:` if it has no braces,
//! a directive as `name arg{…}`, lines separated by `; `, quoted words in `<>`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::import::resolve;
use super::*;
use crate::sources::PatternError;

/// Files and variables in memory. A folder is a file named with a final slash.
struct Memory {
    files: BTreeMap<&'static str, &'static str>,
    variables: BTreeMap<&'static str, &'static str>,
}

impl Sources for Memory {
    fn environment(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(ToString::to_string)
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        let path = path.to_str().unwrap();
        if self.files.contains_key(format!("{path}/").as_str()) {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
        }
        self.files.get(path).map(ToString::to_string).ok_or(io::ErrorKind::NotFound.into())
    }

    fn glob(&self, pattern: &str) -> Result<Vec<PathBuf>, PatternError> {
        let pattern = glob::Pattern::new(pattern).map_err(|e| PatternError(e.to_string()))?;
        let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
        let names: BTreeSet<&str> = self.files.keys().map(|f| f.trim_end_matches('/')).collect();
        let found = names.into_iter().filter(|file| pattern.matches_with(file, options));
        Ok(found.map(PathBuf::from).collect())
    }
}

fn memory() -> Memory {
    let files = [
        ("/etc/dns/zones/a.server", "a.example {\n    log\n}\n"),
        ("/etc/dns/zones/b.server", "b.example {\n    errors\n}\n"),
        ("/etc/dns/lines.conf", "log\nerrors"),
        ("/etc/dns/keys.conf", "a.example b.example"),
        ("/etc/dns/open.conf", "a.example {"),
        ("/etc/dns/options.conf", "ttl 30\n"),
        ("/etc/dns/empty.conf", "# nothing\n"),
        ("/etc/dns/bom.conf", "\u{feff}log"),
        ("/etc/dns/snippets.conf", "(s) {\n    log\n}\n"),
        ("/etc/dns/outer.conf", "errors\nimport sub/inner.conf\nhealth\n"),
        ("/etc/dns/sub/inner.conf", "log\nimport ../options.conf"),
        ("/etc/dns/self.conf", "log\nimport self.conf"),
        ("/etc/dns/ping.conf", "import pong.conf"),
        ("/etc/dns/pong.conf", "import ping.conf"),
        ("/etc/dns/next/1.conf", "import 2.conf"),
        ("/etc/dns/next/2.conf", "log"),
        ("/etc/dns/bad.conf", "log {\n ttl 30\n"),
        ("/etc/dns/folder/", ""),
        ("/usr/abs.conf", "log"),
    ];
    let variables = [
        ("ZONE", "example.org"),
        ("PORT", "1053"),
        ("DIRECTIVE", "log"),
        ("COMMA", "example.org,"),
        ("FILE", "lines.conf"),
        ("SNIPPET", "s"),
        ("BRACE", "{"),
        ("IMPORT", "import"),
        ("LINES", "a\nb"),
        ("LOOP", "{$LOOP}"),
    ];
    Memory { files: files.into(), variables: variables.into() }
}

fn show_line(line: &Directive) -> String {
    let mut words = vec![show_token(&line.name)];
    words.extend(line.args.iter().map(show_token));
    let body = line.body.as_ref().map(|body| format!("{{{}}}", show_lines(body)));
    words.join(" ") + &body.unwrap_or_default()
}

fn show_lines(lines: &[Directive]) -> String {
    lines.iter().map(show_line).collect::<Vec<_>>().join("; ")
}

fn show_token(token: &Token) -> String {
    if token.quoted { format!("<{}>", token.text) } else { token.text.clone() }
}

fn show_block(block: &ServerBlock) -> String {
    let keys = block.keys.iter().map(show_token).collect::<Vec<_>>().join(" ");
    let lines = show_lines(&block.directives);
    if block.braces { format!("{keys}{{{lines}}}") } else { format!("{keys}:{lines}") }
}

/// The tree, then the warnings, each after ` ! `; or the error.
fn show(text: &str) -> String {
    match parse("/etc/dns/F", text, &memory()) {
        Ok(corefile) => {
            let blocks: Vec<String> = corefile.blocks.iter().map(show_block).collect();
            let warnings: Vec<String> =
                corefile.warnings.iter().map(|warning| format!(" ! {warning}")).collect();
            blocks.join(" | ") + &warnings.concat().replace("/etc/dns/", "")
        }
        Err(error) => error.to_string().replace("/etc/dns/", ""),
    }
}

fn check(table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(show(text), *expected, "{text:?}");
    }
}

#[test]
fn server_blocks() {
    check(&[
        ("", ""),
        ("# nothing\n", ""),
        (". {\n}", ".{}"),
        (". {\n log\n errors stdout\n}\n", ".{log; errors stdout}"),
        (". {\n log\n}\na.org {\n errors\n}", ".{log} | a.org{errors}"),
        ("a.org b.org {\n log\n}", "a.org b.org{log}"),
        ("a.org, b.org {\n log\n}", "a.org b.org{log}"),
        ("a.org,\nb.org,\n\nc.org {\n log\n}", "a.org b.org c.org{log}"),
        ("a.org, b.org\n{\n log\n}", "a.org b.org{log}"),
        // CoreDNS takes the brace on the next line too.
        (".\n{\n log\n}", ".{log}"),
        (". { log\n}", ".{log}"),
        (". {\n log\n} a.org {\n errors\n}", ".{log} | a.org{errors}"),
        ("\"a b\" {\n log\n}", "<a b>{log}"),
        ("\"\" . {\n log\n}", ".{log}"),
        ("import {\n log\n}", "F:1:8: File to import not found: {"),
        (". import {\n log\n}", ". import{log}"),
        // Only one comma is taken off. A comma alone leaves an empty key, an error of the key.
        (
            "a.org,, b.org {\n}",
            "a.org, b.org{} ! F:1:1: `a.org,` is read as one zone; put a space \
                                after the comma to name two",
        ),
        (". , b.org {\n}", ".  b.org{}"),
        (
            "a.org,b.org {\n}",
            "a.org,b.org{} ! F:1:1: `a.org,b.org` is read as one zone; put a \
                              space after the comma to name two",
        ),
    ]);
}

#[test]
fn one_block_without_braces() {
    check(&[
        (".", ".:"),
        (". a.org", ". a.org:"),
        (".\nlog\nerrors stdout\n", ".:log; errors stdout"),
        (".\ncache {\n ttl 30\n}\nlog", ".:cache{ttl 30}; log"),
        // A key further down is a directive, whoever knows the directives will say.
        (".\nlog\na.org {\n errors\n}", ".:log; a.org{errors}"),
        // A stray brace ends the block.
        (".\nlog\n}\na.org\nerrors", ".:log | a.org:errors"),
        ("(s)", "(s):"),
    ]);
}

#[test]
fn wrong_server_blocks() {
    check(&[
        ("., {\n}", "F:1:4: Expected another address but had '{' - check for extra comma"),
        ("a.org,", "F:1:1: Unexpected EOF: expected another key after the comma"),
        (". {", "F:1:3: Unexpected EOF: expected '}' to close the block opened here"),
        (". {\n log\n", "F:1:3: Unexpected EOF: expected '}' to close the block opened here"),
        (
            ". { log }",
            "F:1:9: Unexpected '}' because no matching opening brace: expected it on a line of \
             its own to end the server block",
        ),
        (
            ". {\n {\n}\n}",
            "F:2:2: unexpected '{': expected it at the end of the line whose block it opens",
        ),
    ]);
}

#[test]
fn accepted_with_a_warning() {
    let unclosed = "the server block opened at line 1 is never closed; expected one more `}`";
    let no_keys = "a server block without a zone is not served; expected a key such as `.:53` \
                   before `{`";
    check(&[
        (". {\n cache {\n }\n", &format!(".{{cache{{}}}} ! F:1:3: {unclosed}")),
        ("{\n log\n}\n. {\n}", &format!(".{{}} ! F:1:1: {no_keys}")),
        ("{$UNSET} {\n log\n}", &format!(" ! F:1:1: {no_keys}")),
        ("{$UNSET}\n", ""),
        (
            ".\nlog \"a\nb",
            ".:log <a\nb> ! F:2:5: this quote is never closed, so the word runs to the end of the \
             file",
        ),
        (
            ". {\n errors#x y\n}",
            ".{errors y} ! F:2:8: a comment that starts inside a word ends at the next space, so \
             what follows is read again; put a space before `#`",
        ),
    ]);
}

#[test]
fn lines_and_bodies() {
    check(&[
        (".\na {\n b 1\n c\n}", ".:a{b 1; c}"),
        (".\na x y {\n}", ".:a x y{}"),
        (".\na {\n b {\n  c\n }\n d\n}", ".:a{b{c}; d}"),
        (".\na { b 1 }\nc", ".:a{b 1}; c"),
        (".\na { }", ".:a{}"),
        (".\na { b 1\n c\n}", ".:a{b 1; c}"),
        (".\na {\n b 1 }", ".:a{b 1}"),
        (".\na {\n b { c } }", ".:a{b{c}}"),
        (".\na \"x\ny\" z\nb", ".:a <x\ny> z; b"),
        (".\na \"\" x", ".:a <> x"),
        // Quotes do not protect braces.
        (".\na \"{\"\n b\n\"}\"\nc", ".:a{b}; c"),
        (".\na {} }{", ".:a {} }{"),
        (".\na {b}\n", ".:a {b}"),
        // `import` means something only at the start of a line.
        (".\na import b", ".:a import b"),
        (".\na { import b\n}", ".:a{import b}"),
    ]);
}

#[test]
fn wrong_lines_and_bodies() {
    let stray = "unexpected '{': expected it at the end of the line whose block it opens";
    let unmatched = "Unexpected '}' because no matching opening brace: expected it on a line of \
                     its own to end the server block";
    let deep = format!(".\n{}", "a {\n".repeat(65));
    let end = "Unexpected EOF: expected '}' to close the block opened here";
    check(&[
        (".\na {\n b\n", &format!("F:2:3: {end}")),
        (".\na {\n b {\n }\n", &format!("F:2:3: {end}")),
        (".\na }", &format!("F:2:3: {unmatched}")),
        (".\na {\n} }", &format!("F:3:3: {unmatched}")),
        (".\na\n{\n}", &format!("F:3:1: {stray}")),
        (".\na {\n b\n {\n }\n}", &format!("F:4:2: {stray}")),
        (".\na {\n {\n }\n}", &format!("F:3:2: {stray}")),
        (".\na { {", &format!("F:2:5: {stray}")),
        (".\na {\n} b", "F:3:3: expected the end of the line after '}', found `b`"),
        (".\na {\n b {\n } c\n}", "F:4:4: expected the end of the line after '}', found `c`"),
        (&deep, "F:66:3: blocks are nested more than 64 deep"),
    ]);
}

#[test]
fn environment() {
    check(&[
        ("{$ZONE}:{$PORT} {\n}", "example.org:1053{}"),
        ("{%ZONE%}:{%PORT%} {\n}", "example.org:1053{}"),
        ("{$COMMA} a.org {\n}", "example.org a.org{}"),
        (".\n{$DIRECTIVE} {$ZONE} x{$PORT}y", ".:log example.org x1053y"),
        (".\na {\n {$DIRECTIVE} {$ZONE}\n}", ".:a{log example.org}"),
        (".\na {$UNSET} b", ".:a  b"),
        (".\na \"x {$ZONE}\"", ".:a <x example.org>"),
        (".\na \"{{$x}} {{ $x }}\"", ".:a <{} {{ $x }}>"),
        (".\nimport {$FILE}", ".:log; errors"),
        ("(s) {\n log\n}\n.\nimport {$SNIPPET}", ".:log"),
        // A line break in a value stays in its word.
        (".\na {$LINES} b\nc", ".:a a\nb b; c"),
        // Words are told apart before values are filled in.
        (".\na {$BRACE}\nb", ".:a {; b"),
        (".\n{$IMPORT} lines.conf", ".:import lines.conf"),
        // Except among keys, where CoreDNS looks at the value.
        ("{$IMPORT} lines.conf", "log:errors"),
        (
            ".\na {$LOOP}",
            "F:2:3: environment references in `{$LOOP}` do not end: after 1000 replacements or \
             1048576 octets there are still more",
        ),
    ]);
}

#[test]
fn snippets() {
    check(&[
        ("(s) {\n log\n errors x\n}\n. {\n import s\n}", ".{log; errors x}"),
        ("(s) {\n log\n}\n. {\n import s\n health\n}", ".{log; health}"),
        ("(s) { log\n}\n. {\n a\n import s\n}", ".{a; log}"),
        ("(s)\n{\n log\n}\n. {\n import s\n}", ".{log}"),
        ("(s) {\n}\n. {\n a\n import s\n b\n}", ".{a; b}"),
        // Inside a directive, and a snippet that opens or closes what it does not end.
        ("(s) {\n ttl 30\n}\n.\na {\n x\n import s\n y\n}", ".:a{x; ttl 30; y}"),
        ("(s) {\n a {\n  b\n }\n}\n.\nimport s\nc", ".:a{b}; c"),
        // Whole server blocks, and keys.
        ("(s) {\n a.org {\n  log\n }\n}\nimport s\nb.org {\n}", "a.org{log} | b.org{}"),
        ("(s) {\n a.org b.org\n}\nimport s\n{\n log\n}", "a.org b.org{log}"),
        ("(s) {\n a.org,\n}\nimport s\nb.org {\n}", "a.org b.org{}"),
        // Snippets in snippets, in either order of declaration.
        ("(s) {\n log\n}\n(t) {\n import s\n errors\n}\n.\nimport t", ".:log; errors"),
        ("(t) {\n import s\n errors\n}\n(s) {\n log\n}\n.\nimport t", ".:log; errors"),
        ("(t) {\n a {\n import s\n b\n}\n}\n(s) {\n c\n}\n.\nimport t", ".:a{c; b}"),
        // Not snippets: two keys, half a name.
        ("(s) a.org {\n log\n}", "(s) a.org{log}"),
        ("(s {\n log\n}", "(s{log}"),
    ]);
}

#[test]
fn wrong_snippets() {
    let cycle = "maximum snippet import depth (10000) exceeded: snippet 's' imports itself";
    check(&[
        (
            "(s) {\n}\n(s) {\n}",
            "F:3:1: redeclaration of previously declared snippet s, first declared at F:1:1",
        ),
        ("(s)\nlog", "F:2:1: expected '{' after the snippet name, found `log`"),
        ("(s) {\n log", "F:1:5: Unexpected EOF: expected '}' to close the block opened here"),
        ("(s) {\n import s\n}", &format!("F:2:9: {cycle}")),
        ("(s) {\n a {\n  import {$SNIPPET}\n }\n}", &format!("F:3:10: {cycle}")),
        ("(s) {\n a import s\n}\n.", ".:"),
        ("(s) {\n import t\n}\n(t) {\n import s\n}\n.\nimport s", &format!("F:5:9: {cycle}")),
        (".\nimport common\n(common) {\n}", "F:2:8: File to import not found: common"),
        (
            "(common) {\n}\n.\nimport comon",
            "F:4:8: File to import not found: comon, did you mean 'common'?",
        ),
    ]);
}

#[test]
fn files() {
    check(&[
        ("import zones/*.server", "a.example{log} | b.example{errors}"),
        ("import zones/?.server", "a.example{log} | b.example{errors}"),
        ("import zones/a.server\nimport zones/b.server", "a.example{log} | b.example{errors}"),
        (". {\n import lines.conf\n}", ".{log; errors}"),
        (". { import lines.conf\n}", ".{log; errors}"),
        (".\nimport lines.conf\nhealth", ".:log; errors; health"),
        (".\na {\n import options.conf\n x\n}", ".:a{ttl 30; x}"),
        ("import keys.conf\nlog", "a.example b.example:log"),
        ("import keys.conf\n{\nlog\n}", "a.example b.example{log}"),
        ("x.example,\nimport keys.conf\n{\nlog\n}", "x.example a.example b.example{log}"),
        ("import open.conf\nlog\n}", "a.example{log}"),
        ("import snippets.conf\n.\nimport s", ".:log"),
        (".\nimport empty.conf\na", ".:a"),
        ("import empty.conf", ""),
        (".\nimport bom.conf", ".:log"),
        (".\nimport /usr/abs.conf", ".:log"),
        (".\nimport ../../usr/./abs.conf", ".:log"),
        // Relative to the file that imports, which may be imported itself.
        (".\nimport outer.conf", ".:errors; log; ttl 30; health"),
        // A glob's later file may be imported by an earlier one.
        (".\nimport next/*.conf", ".:log; log"),
        (".\nimport \"lines.conf\"", ".:log; errors"),
        (
            ".\nimport none/*.conf\nlog",
            ".:log ! F:2:8: No files matching import glob pattern: none/*.conf",
        ),
    ]);
}

#[test]
fn wrong_imports() {
    let many = "Glob pattern may only contain one wildcard (*), but has others: /etc/dns/X: \
                expected at most one '*', at most one '?' and no [class]";
    let many = |pattern: &str| {
        format!("F:2:8: {}", many.replace("/etc/dns/X", &format!("/etc/dns/{pattern}")))
            .replace("/etc/dns/", "")
    };
    let nothing = "Import requires a non-empty filepath: expected a snippet, a file or a glob \
                   pattern";
    let cycle = "maximum file import depth (100000) exceeded: file";
    check(&[
        (".\nimport", &format!("F:2:1: {nothing}")),
        (".\nimport\nlines.conf", &format!("F:2:1: {nothing}")),
        (".\nimport {$UNSET}", &format!("F:2:8: {nothing}")),
        (".\nimport \"\"", &format!("F:2:8: {nothing}")),
        (
            ".\nimport lines.conf x",
            "F:2:19: Import takes only one argument (glob pattern or file), found also `x`",
        ),
        (
            ".\nimport lines.conf }",
            "F:2:19: Import takes only one argument (glob pattern or file), found also `}`",
        ),
        (".\nimport missing.conf", "F:2:8: File to import not found: missing.conf"),
        (".\nimport a/*/*.conf", &many("a/*/*.conf")),
        (".\nimport ??.conf", &many("??.conf")),
        (".\nimport [ab].conf", &many("[ab].conf")),
        (".\nimport folder", "F:2:8: Could not import folder: is a directory"),
        (".\nimport self.conf", &format!("self.conf:2:8: {cycle} self.conf imports itself")),
        (".\nimport ping.conf", &format!("pong.conf:1:8: {cycle} ping.conf imports itself")),
        (
            ".\nimport bad.conf",
            "bad.conf:1:5: Unexpected EOF: expected '}' to close the block opened here",
        ),
    ]);
    assert!(show(".\nimport [.conf").starts_with("F:2:8: Could not import [.conf: "));
}

#[test]
fn imports_multiply_only_so_far() {
    let mut text = "(s0) {\n log\n}\n".to_owned();
    for level in 1..=6 {
        let imports = format!(" import s{}\n", level - 1).repeat(10);
        text.push_str(&format!("(s{level}) {{\n{imports}}}\n"));
    }
    let expected = "maximum snippet import depth (10000) exceeded: too many imports";
    assert!(show(&format!("{text}.\nimport s6")).ends_with(expected));
    let shown = show(&format!("{text}.\nimport s3"));
    assert_eq!(shown.matches("log").count(), 1000);
}

#[test]
fn every_word_knows_where_it_comes_from() {
    let text = "(s) {\n  log x\n}\n. {\n  import s\n  import outer.conf\n}";
    let corefile = parse("/etc/dns/F", text, &memory()).unwrap();
    let block = &corefile.blocks[0];
    assert_eq!(block.keys[0].position.to_string(), "/etc/dns/F:4:1");
    let places = |directive: &Directive| {
        let mut places = vec![directive.name.position.to_string().replace("/etc/dns/", "")];
        let mut import = directive.imported.clone();
        while let Some(step) = import {
            places.push(step.position.to_string().replace("/etc/dns/", ""));
            import = step.outer.clone();
        }
        places.join(" < ")
    };
    let places: Vec<String> = block.directives.iter().map(places).collect();
    assert_eq!(
        places,
        [
            "F:2:3 < F:5:3",
            "outer.conf:1:1 < F:6:3",
            "sub/inner.conf:1:1 < outer.conf:2:1 < F:6:3",
            "options.conf:1:1 < sub/inner.conf:2:1 < outer.conf:2:1 < F:6:3",
            "outer.conf:3:1 < F:6:3",
        ]
    );
    assert_eq!(block.directives[0].args[0].position.column, 7);
    let files = ["outer.conf", "sub/inner.conf", "options.conf"];
    assert_eq!(corefile.imported_files, files.map(|f| Path::new("/etc/dns").join(f)));
}

#[test]
fn relative_names_are_relative_to_the_importing_file() {
    let table = [
        ("Corefile", "a.conf", "a.conf"),
        ("Corefile", "./a/../b.conf", "b.conf"),
        ("Corefile", "../a.conf", "../a.conf"),
        ("Corefile", "../../a.conf", "../../a.conf"),
        ("dir/Corefile", "../../a.conf", "../a.conf"),
        ("/etc/dns/Corefile", "a.conf", "/etc/dns/a.conf"),
        ("/etc/dns/Corefile", "../../../a.conf", "/a.conf"),
        ("/etc/dns/Corefile", "/x/../a.conf", "/x/../a.conf"),
    ];
    for (file, pattern, expected) in table {
        assert_eq!(resolve(file, pattern), expected, "{file} {pattern}");
    }
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    /// Words that are often next to each other where something can go wrong.
    fn corefile_like() -> impl Strategy<Value = String> {
        let word = prop::sample::select(vec![
            " ",
            " ",
            " ",
            "\n",
            "\n",
            "\n",
            "{",
            "}",
            "{",
            "}",
            "import",
            "s",
            "(s)",
            "(t)",
            "t",
            "\"",
            "\\\"",
            "#",
            ",",
            "a",
            ".",
            "{$ZONE}",
            "{%PORT%}",
            "{$LOOP}",
            "{$BRACE}",
            "lines.conf",
            "self.conf",
            "outer.conf",
            "*",
            "\r",
            "\t",
            "é",
            "\u{feff}",
        ]);
        prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
    }

    /// Texts that a quoted word can hold: backslashes only in pairs.
    fn text() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "a", "b", "é", " ", "\n", "\"", "#", "\\\\", ",", "{", "(", "\t", ".",
        ]);
        prop::collection::vec(part, 0..6)
            .prop_map(|parts| parts.concat())
            .prop_filter("braces and import are not free words", |text| {
                text != "{" && text != "import"
            })
    }

    fn token() -> impl Strategy<Value = Token> {
        text().prop_map(|text| {
            let position = Position { file: "F".into(), line: 1, column: 1 };
            let quoted =
                text.is_empty() || text.contains([' ', '\n', '\t', '#']) || text.starts_with('"');
            Token { text, quoted, position }
        })
    }

    fn directives() -> impl Strategy<Value = Vec<Directive>> {
        let line = |body| {
            (token(), prop::collection::vec(token(), 0..3), body).prop_map(|(name, args, body)| {
                Directive { name, args, body, end: None, imported: None }
            })
        };
        let leaf = line(Just(None).boxed());
        let nested = leaf.prop_recursive(3, 12, 3, move |inner| {
            line(prop::option::of(prop::collection::vec(inner, 0..3)).boxed())
        });
        prop::collection::vec(nested, 0..4)
    }

    fn forget_positions(lines: &mut [Directive]) {
        for line in lines {
            line.end = None;
            for token in line.args.iter_mut().chain([&mut line.name]) {
                (token.position.line, token.position.column) = (1, 1);
            }
            forget_positions(line.body.as_deref_mut().unwrap_or_default());
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_rejected(text in any::<String>()) {
            if let Err(error) = parse("F", &text, &memory()) {
                prop_assert!(!error.render(&text).is_empty());
            }
        }

        #[test]
        fn any_words_are_parsed_or_rejected(text in corefile_like()) {
            match parse("/etc/dns/F", &text, &memory()) {
                Ok(corefile) => for key in corefile.blocks.iter().flat_map(|b| &b.keys) {
                    let _ = crate::parse_key(key);
                },
                Err(error) => prop_assert!(!error.render(&text).is_empty()),
            }
        }

        #[test]
        fn printing_and_parsing_gives_the_same_tree(directives in directives()) {
            let position = Position { file: "F".into(), line: 1, column: 1 };
            let key = Token { text: "a.org".to_owned(), quoted: false, position };
            let block = ServerBlock { keys: vec![key], directives, braces: true };
            let printed = block.to_string();
            let mut corefile = parse("F", &printed, &crate::NoSources).unwrap();
            prop_assert_eq!(corefile.blocks.len(), 1, "{}", printed);
            forget_positions(&mut corefile.blocks[0].directives);
            prop_assert_eq!(&corefile.blocks[0].directives, &block.directives, "{}", printed);
        }
    }
}
