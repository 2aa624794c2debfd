//! Rules on Rust tokens: function length, calls with a better replacement, things that must not be left behind.
//!
//! The compiler's own tokens (by `proc-macro2`) are read rather than lines, so that strings, comments and formatting
//! do not matter, and what macros are given is seen as well.

use proc_macro2::{Delimiter, Group, LexError, TokenStream, TokenTree};

use super::{File, Finding, Tree, finding};

/// Lines a function may have, from its `fn` to its closing brace.
const MAX_FUNCTION_LINES: usize = 70;

/// Crates that decide without sockets and without a clock.
pub(super) const SANS_IO: &[&str] = &[
    "nodens-wire",
    "nodens-corefile",
    "nodens-goregex",
    "nodens-gotemplate",
    "nodens-expr",
    "nodens-tls",
    "nodens-zone",
    "nodens-core",
];

/// A name that is banned in the crates of [`SANS_IO`], with the way to do without it.
const SANS_IO_BANNED: &[(&[&str], &str)] = &[
    (&["Instant", "now"], "take `now` as an argument; only nodens-net reads the clock"),
    (&["SystemTime", "now"], "take `now` as an argument; only nodens-net reads the clock"),
    (&["UdpSocket"], "sockets belong to nodens-net; take bytes and return bytes"),
    (&["TcpStream"], "sockets belong to nodens-net; take bytes and return bytes"),
    (&["TcpListener"], "sockets belong to nodens-net; take bytes and return bytes"),
];

/// Macros that mark unfinished or left-over work.
const BANNED_MACROS: &[(&str, &str)] = &[
    ("todo", "finish it, or leave it out"),
    ("unimplemented", "finish it, or return an error that says what is missing"),
    ("dbg", "remove it, or use tracing"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.with_extension("rs").flat_map(check_file).collect()
}

/// True for files that only hold tests or benchmarks, by their path.
pub(super) fn is_test_path(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    ["/tests/", "/benches/", "/fuzz_targets/"].iter().any(|dir| path.contains(dir))
        || path.starts_with("fuzz/")
        || name == "tests.rs"
        || name == "testing.rs"
        || path.contains("/testing/")
        || name.ends_with("_tests.rs")
}

/// Line ranges (first and last, from 1) of items under `#[cfg(test)]`.
pub(super) fn test_ranges(text: &str) -> Result<Vec<(usize, usize)>, LexError> {
    let mut scan = Scan::new("", text);
    scan.stream(text.parse()?, false);
    Ok(scan.test_ranges)
}

fn check_file(file: &File) -> Vec<Finding> {
    let mut scan = Scan::new(&file.path, &file.text);
    match file.text.parse() {
        Ok(stream) => scan.stream(stream, is_test_path(&file.path)),
        Err(error) => {
            let line = error.span().start().line;
            scan.findings.push(finding(&file.path, line, "does not lex as Rust"));
        }
    }
    scan.findings
}

struct Scan<'a> {
    path: &'a str,
    lines: Vec<&'a str>,
    sans_io: bool,
    findings: Vec<Finding>,
    test_ranges: Vec<(usize, usize)>,
}

impl<'a> Scan<'a> {
    fn new(path: &'a str, text: &'a str) -> Self {
        let sans_io = SANS_IO.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")));
        let lines = text.lines().collect();
        Scan { path, lines, sans_io, findings: Vec::new(), test_ranges: Vec::new() }
    }

    fn stream(&mut self, stream: TokenStream, in_test: bool) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut index = 0;
        while index < tokens.len() {
            let rest = &tokens[index..];
            if !in_test && is_cfg_test(rest) {
                let end = index + item_length(rest);
                let first = tokens[index].span().start().line;
                let last = tokens[end - 1].span().end().line;
                self.test_ranges.push((first, last));
                self.stream(tokens[index + 2..end].iter().cloned().collect(), true);
                index = end;
                continue;
            }
            self.anywhere(rest);
            if !in_test {
                self.outside_tests(rest);
            }
            if let TokenTree::Group(group) = &tokens[index] {
                self.stream(group.stream(), in_test);
            }
            index += 1;
        }
    }

    /// Rules that hold in tests as well.
    fn anywhere(&mut self, rest: &[TokenTree]) {
        for (name, instead) in BANNED_MACROS {
            if is_ident(rest.first(), name) && is_punct(rest.get(1), '!') {
                self.report(&rest[0], format!("`{name}!` is banned: {instead}"));
            }
        }
        if is_punct(rest.first(), '#') && group_starts_with(rest.get(1), "ignore") {
            self.report(&rest[0], "`#[ignore]` is banned: a test runs or does not exist".into());
        }
        if self.sans_io {
            for (path, instead) in SANS_IO_BANNED {
                if is_path(rest, path) {
                    let name = path.join("::");
                    self.report(&rest[0], format!("`{name}` is banned in this crate: {instead}"));
                }
            }
        }
    }

    fn outside_tests(&mut self, rest: &[TokenTree]) {
        if is_ident(rest.first(), "fn") && matches!(rest.get(1), Some(TokenTree::Ident(_))) {
            self.function_length(rest);
        }
        if let Some(name) = panicking_call(rest)
            && !self.has_invariant_comment(rest[1].span().start().line)
        {
            self.report(
                &rest[1],
                format!(
                    "`.{name}(` outside tests: return an error, or prove above it why it cannot \
                     fail with a `// invariant:` comment"
                ),
            );
        }
    }

    fn function_length(&mut self, rest: &[TokenTree]) {
        let body = rest.iter().take_while(|token| !is_punct(Some(token), ';')).find_map(brace);
        let Some(body) = body else { return };
        let first = rest[0].span().start().line;
        let lines = body.span_close().end().line - first + 1;
        if lines > MAX_FUNCTION_LINES {
            let message = format!(
                "function `{}` has {lines} lines, at most {MAX_FUNCTION_LINES}: keep the branches \
                 here and move straight-line parts into functions",
                rest[1]
            );
            self.report(&rest[0], message);
        }
    }

    fn has_invariant_comment(&self, line: usize) -> bool {
        let marked = |line: Option<usize>| {
            line.and_then(|l| self.lines.get(l)).is_some_and(|text| text.contains("// invariant:"))
        };
        marked(line.checked_sub(1)) || marked(line.checked_sub(2))
    }

    fn report(&mut self, at: &TokenTree, message: String) {
        self.findings.push(finding(self.path, at.span().start().line, message));
    }
}

/// The name of the call if the tokens are `.unwrap()` or `.expect("…")`. A method `expect` of our own that takes
/// something else, or whose result is handled with `?`, is not meant.
fn panicking_call(rest: &[TokenTree]) -> Option<&'static str> {
    let [dot, name, TokenTree::Group(arguments), ..] = rest else { return None };
    if !is_punct(Some(dot), '.') || arguments.delimiter() != Delimiter::Parenthesis {
        return None;
    }
    let handled = is_punct(rest.get(3), '?');
    let first = arguments.stream().into_iter().next();
    if is_ident(Some(name), "unwrap") && first.is_none() {
        Some("unwrap")
    } else if is_ident(Some(name), "expect") && is_string(first.as_ref()) && !handled {
        Some("expect")
    } else {
        None
    }
}

/// True at `#[cfg(test)]`, `#[cfg(all(test, …))]` and `#[cfg(any(test, …))]`.
pub(super) fn is_cfg_test(rest: &[TokenTree]) -> bool {
    let [hash, TokenTree::Group(attribute), ..] = rest else { return false };
    if !is_punct(Some(hash), '#') || attribute.delimiter() != Delimiter::Bracket {
        return false;
    }
    let tokens: Vec<TokenTree> = attribute.stream().into_iter().collect();
    let [name, TokenTree::Group(predicate)] = tokens.as_slice() else { return false };
    is_ident(Some(name), "cfg")
        && !predicate.to_string().contains("not")
        && flatten(predicate.stream()).iter().any(|word| word == "test")
}

fn flatten(stream: TokenStream) -> Vec<String> {
    let mut words = Vec::new();
    for token in stream {
        match token {
            TokenTree::Group(group) => words.extend(flatten(group.stream())),
            other => words.push(other.to_string()),
        }
    }
    words
}

/// Tokens of the item that starts here, attributes included: up to its braces or its semicolon.
pub(super) fn item_length(rest: &[TokenTree]) -> usize {
    let end = rest.iter().position(|token| is_punct(Some(token), ';') || brace(token).is_some());
    end.map_or(rest.len(), |end| end + 1)
}

fn brace(token: &TokenTree) -> Option<&Group> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        _ => None,
    }
}

fn is_ident(token: Option<&TokenTree>, name: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == name)
}

pub(super) fn is_punct(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

fn is_string(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Literal(literal)) if literal.to_string().contains('"'))
}

fn group_starts_with(token: Option<&TokenTree>, name: &str) -> bool {
    matches!(token, Some(TokenTree::Group(group))
        if is_ident(group.stream().into_iter().next().as_ref(), name))
}

/// True when the tokens begin with the identifiers of `path` joined by `::`.
fn is_path(rest: &[TokenTree], path: &[&str]) -> bool {
    path.iter().enumerate().all(|(part, name)| {
        let at = part * 3;
        let joined =
            part == 0 || (is_punct(rest.get(at - 2), ':') && is_punct(rest.get(at - 1), ':'));
        joined && is_ident(rest.get(at), name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<(usize, String)> {
        let findings = check(&Tree::of(&[(path, text)]));
        findings.into_iter().map(|f| (f.line, f.message)).collect()
    }

    #[track_caller]
    fn broken(path: &str, text: &str, line: usize, part: &str) {
        let messages = messages(path, text);
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert_eq!(messages[0].0, line);
        assert!(messages[0].1.contains(part), "{messages:?}");
    }

    #[track_caller]
    fn clean(path: &str, text: &str) {
        assert_eq!(messages(path, text), []);
    }

    const CORE: &str = "crates/nodens-core/src/a.rs";
    const NET: &str = "crates/nodens-net/src/a.rs";

    #[test]
    fn function_length_counts_from_fn_to_brace() {
        let body = |lines: usize| format!("\nfn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2));
        clean(NET, &body(70));
        broken(NET, &body(71), 2, "`f` has 71 lines");
        let in_impl = format!("impl A {{ {} }}", body(80));
        broken(NET, &in_impl, 2, "80 lines");
        clean(NET, "trait A { fn f(&self); }\nfn g() {}\n");
    }

    #[test]
    fn the_clock_is_banned_where_time_is_an_argument() {
        let text = "fn f() -> T {\n    std::time::Instant::now()\n}\n";
        broken(CORE, text, 2, "take `now` as an argument");
        broken(CORE, "fn f() { g(SystemTime::now()) }", 1, "SystemTime::now");
        clean(NET, text);
        clean(CORE, "fn f(now: Instant) { now.elapsed_since(now) } // Instant::now()");
    }

    #[test]
    fn sockets_are_banned_in_the_core() {
        broken(CORE, "use std::net::UdpSocket;", 1, "nodens-net");
        clean(NET, "use std::net::UdpSocket;");
    }

    #[test]
    fn unwrap_needs_a_proof() {
        broken(NET, "fn f() {\n    a()\n        .unwrap();\n}", 3, "invariant:");
        broken(NET, "fn f() { a().expect(\"x\"); }", 1, "`.expect(`");
        broken(NET, "fn f() { println!(\"{}\", a.unwrap()); }", 1, "`.unwrap(`");
        clean(NET, "fn f() {\n    // invariant: checked above\n    a().unwrap();\n}");
        clean(NET, "fn f() { a().unwrap(); } // invariant: a never fails");
        clean(NET, "fn f() { a().unwrap_or(1); self.expect(Token::Brace); self.expect(\"{\")?; }");
        clean(NET, "const S: &str = \".unwrap()\";");
    }

    #[test]
    fn tests_may_unwrap() {
        clean(NET, "#[cfg(test)]\nmod tests {\n    fn f() { a().unwrap(); }\n}\n");
        clean("crates/nodens-net/src/udp/tests.rs", "fn f() { a().unwrap(); }");
        clean("crates/nodens/tests/it/main.rs", "fn f() { a().unwrap(); }");
        broken(NET, "#[cfg(not(test))]\nfn f() { a().unwrap(); }", 2, "unwrap");
        broken(NET, "#[cfg(test)]\nmod tests;\nfn f() { a().unwrap(); }", 3, "unwrap");
    }

    #[test]
    fn nothing_is_left_behind() {
        let unfinished = concat!("fn f() { to", "do!() }");
        broken(NET, unfinished, 1, "finish it");
        broken(NET, "fn f() { unimplemented!() }", 1, "finish it");
        broken(NET, "fn f() { dbg!(1); }", 1, "tracing");
        let skipped =
            "#[cfg(test)]\nmod tests {\n    #[test]\n    #[ignore = \"slow\"]\n    fn f() {}\n}";
        broken(NET, skipped, 4, "runs or does not exist");
    }

    #[test]
    fn what_does_not_lex_is_said() {
        broken(NET, "fn f() {", 1, "does not lex");
    }

    #[test]
    fn test_ranges_are_lines() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n\n}\nfn b() {}\n";
        assert_eq!(test_ranges(text).unwrap(), [(2, 5)]);
    }
}
