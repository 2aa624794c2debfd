//! The rows of the table.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

/// Lists of arguments that every directive and every option is given: what one of them could take, and what it could
/// not.
pub(super) const ARGUMENTS: &[&str] = &[
    "",
    "0",
    "1",
    "-1",
    "10s",
    "-1s",
    "word",
    "name.example.",
    "127.0.0.1",
    "127.0.0.0/8",
    "64:ff9b::/96",
    "*",
    "[",
    "1 2",
    "word 10s",
    "1 10s",
    "10s word",
    "word word",
    "word word word",
];

/// What stands behind the scheme of an upstream, in the words that `forward` has for servers.
const UPSTREAMS: &[&str] = &[
    "",
    "127.0.0.1",
    "127.0.0.1:8853",
    "127.0.0.1:0x35",
    "127.0.0.1%dns.example",
    "127.0.0.1%dns.example:8853",
    "127.0.0.1%",
    "::1",
    "[::1]:853",
    "[::1%dns.example]:853",
    "a b",
];
/// Schemes, those of CoreDNS's upstreams and others.
const SCHEMES: &[&str] = &["dns", "tls", "quic", "https", "https3", "grpc", "tcp", "QUIC"];

/// A directive that Nodens has.
struct Known {
    name: &'static str,
    /// The folder of its plugin, where that is another word.
    folder: &'static str,
    /// Arguments that it needs.
    needs: &'static str,
    /// Lines that its body needs.
    lines: &'static [&'static str],
}

const fn known(name: &'static str) -> Known {
    Known { name, folder: name, needs: "", lines: &[] }
}

const fn with(name: &'static str, needs: &'static str) -> Known {
    Known { name, folder: name, needs, lines: &[] }
}

const DIRECTIVES: &[Known] = &[
    known("acl"),
    known("any"),
    known("auto"),
    with("autopath", "/etc/resolv.conf"),
    with("bind", "127.0.0.1"),
    known("bufsize"),
    known("cache"),
    known("cancel"),
    known("chaos"),
    known("debug"),
    known("dns64"),
    known("dnssec"),
    with("dnstap", "nobody.sock"),
    Known { lines: &["file zone", "allow key.example. * A"], ..known("dynupdate") },
    known("erratic"),
    known("errors"),
    with("file", "db.zone"),
    with("forward", ". 127.0.0.1"),
    with("grpc", ". 127.0.0.1"),
    known("grpc_server"),
    known("header"),
    known("health"),
    known("hosts"),
    known("https"),
    known("https3"),
    Known { lines: &["endpoint http://127.0.0.1:1"], ..known("kubernetes") },
    known("k8s_external"),
    known("loadbalance"),
    known("local"),
    known("log"),
    known("loop"),
    known("metadata"),
    known("minimal"),
    known("multisocket"),
    known("nsid"),
    Known { folder: "metrics", ..known("prometheus") },
    known("proxyproto"),
    known("quic"),
    known("ready"),
    known("reload"),
    known("rewrite"),
    with("root", "."),
    Known { lines: &["transfer from 127.0.0.1"], ..known("secondary") },
    known("shed"),
    with("sign", "db.zone"),
    with("template", "IN A"),
    known("timeouts"),
    Known { lines: &["to 127.0.0.1"], ..known("transfer") },
    known("tsig"),
    Known { lines: &["expr true"], ..with("view", "one") },
    known("whoami"),
];

/// A Corefile of one server block with one directive.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Row {
    pub(super) directive: String,
    lines: String,
}

impl Row {
    /// The directive in one line.
    pub(super) fn name(&self) -> String {
        self.lines.lines().map(str::trim).collect::<Vec<_>>().join(" ; ").replace("{ ;", "{")
    }

    /// The Corefile.
    pub(super) fn text(&self) -> String {
        format!(". {{\n{}}}\n", self.lines)
    }
}

/// Every row, the options read from CoreDNS's source.
pub(super) fn all(source: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for directive in DIRECTIVES {
        let folder = source.join("plugin").join(directive.folder);
        of_directive(directive, &options(&folder)?, &mut rows);
    }
    rows.extend(of_upstreams());
    Ok(rows)
}

/// Schemes of upstreams, with names of certificates and without.
fn of_upstreams() -> impl Iterator<Item = Row> {
    let head = |scheme| UPSTREAMS.iter().map(move |to| format!("forward . {scheme}://{to}"));
    let bodies = |head: String| {
        ["", " {\ntls_servername other.example\n}", " {\ntls\n}"]
            .map(|body| format!("{head}{body}\n"))
    };
    let lines = SCHEMES.iter().flat_map(head).flat_map(bodies);
    lines.map(|lines| Row { directive: "forward".to_owned(), lines })
}

fn of_directive(directive: &Known, options: &[String], rows: &mut Vec<Row>) {
    let name = directive.name;
    let mut push = |head: &str, body: Option<&[&str]>| {
        let mut lines = head.trim_end().to_owned();
        if let Some(body) = body {
            let body: String = body.iter().map(|line| format!("{}\n", line.trim_end())).collect();
            lines = format!("{lines} {{\n{body}}}");
        }
        rows.push(Row { directive: name.to_owned(), lines: lines + "\n" });
    };
    let needed = format!("{name} {}", directive.needs);
    for arguments in ARGUMENTS {
        push(&format!("{name} {arguments}"), None);
        push(&format!("{needed} {arguments}"), Some(directive.lines));
    }
    push(&format!("{}\n{}", needed.trim_end(), needed), None);
    for option in options.iter().map(String::as_str).chain(["bogus", ""]) {
        for arguments in ARGUMENTS {
            let line = format!("{option} {arguments}");
            let body: Vec<&str> = directive.lines.iter().copied().chain([line.trim()]).collect();
            push(&needed, Some(&body));
        }
        let twice: Vec<&str> = directive.lines.iter().copied().chain([option, option]).collect();
        push(&needed, Some(&twice));
    }
    // A set of words in one line, as `rewrite` and `header` have them.
    for option in options {
        for arguments in ARGUMENTS {
            push(&format!("{name} {option} {arguments}"), None);
        }
    }
    rows.sort_by(|a, b| (&a.directive, &a.lines).cmp(&(&b.directive, &b.lines)));
    rows.dedup_by(|a, b| a.lines == b.lines);
    // An address that is bound twice is refused for the whole Corefile, which these rows are not.
    let twice = |row: &Row| row.lines.matches("127.0.0.1").count() > 1;
    rows.retain(|row| row.directive != "bind" || row.lines.contains("except") || !twice(row));
}

/// The words in quotes that the plugin compares something with: its options among them, and some that are none.
fn options(folder: &Path) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let listing = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in listing {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".go") && !name.ends_with("_test.go") {
            words.extend(compared(&std::fs::read_to_string(&path)?));
        }
    }
    words.sort();
    words.dedup();
    Ok(words)
}

fn compared(source: &str) -> Vec<String> {
    let is_option = |word: &&str| {
        word.starts_with(|first: char| first.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let mut words = Vec::new();
    for line in source.lines().map(str::trim_start) {
        let from = if line.starts_with("case ") {
            Some(line)
        } else {
            line.split_once("== \"").map(|_| line)
        };
        let quoted = from.into_iter().flat_map(|line| line.split('"').skip(1).step_by(2));
        words.extend(quoted.filter(is_option).map(str::to_owned));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_what_is_compared() {
        let source = "switch x {\n\tcase \"prefix\", \"ttl\":\n\tif y == \"tls\" {\n\tz := \"no\"\n\tcase \"A B\":\n";
        assert_eq!(compared(source), ["prefix", "ttl", "tls"]);
    }

    #[test]
    fn a_row_is_a_corefile_of_one_block() {
        let mut rows = Vec::new();
        of_directive(&with("root", "."), &["x".to_owned()], &mut rows);
        let row = rows.iter().find(|row| row.name() == "root . { x 1 ; }").unwrap();
        assert_eq!(row.text(), ". {\nroot . {\nx 1\n}\n}\n");
        assert!(rows.iter().any(|row| row.name() == "root . ; root ."));
    }
}
