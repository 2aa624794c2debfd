//! Every maximum that memory, time or work depends on stands in its crate's `limits.rs`, where all can be seen at once and
//! compile-time checks relate them. What a format or an option's syntax fixes stays beside what reads it, and is listed here.

use super::{File, Finding, Tree, finding, tokens};

/// Crates that have a `limits.rs`.
const CRATES: &[&str] = &["crates/nodens-core/src/", "crates/nodens-net/src/"];

/// Constants that are no choice of ours: path within the crate, name, what fixes them.
const FIXED: &[(&str, &str, &str)] = &[
    ("cache/entry.rs", "COUNT_MAX", "the bits of a field"),
    ("cache/entry.rs", "VISITS_MAX", "the bits of a field"),
    ("cache/key.rs", "SUBNET_LEN_MAX", "RFC 7871, section 6"),
    ("cluster/key.rs", "LABEL_LEN_MAX", "RFC 1035, section 2.3.4"),
    ("go_regex.rs", "PATTERN_LEN_MAX", "CoreDNS"),
    ("handlers/cache/config.rs", "FAILURE_TTL_MAX", "RFC 2308, section 7.1"),
    ("handlers/cache/config.rs", "RECHECK_MAX", "RFC 8767, section 5"),
    ("handlers/chaos/mod.rs", "TEXT_MAX", "RFC 1035, section 3.3"),
    ("handlers/dns64/mod.rs", "TTL_MAX", "RFC 6147, section 5.1.7"),
    ("handlers/multisocket/mod.rs", "SOCKETS_MAX", "the option's syntax"),
    ("handlers/rewrite/config/mod.rs", "TTL_MAX", "RFC 2181, section 8"),
    ("handlers/timeouts/mod.rs", "MOST", "the option's syntax"),
    ("lookup/address.rs", "LABEL_LEN_MAX", "RFC 1035, section 2.3.4"),
    ("lookup/name.rs", "LABELS_MAX", "RFC 1035, section 2.3.4"),
    ("lookup/records.rs", "RDATA_LEN_MAX", "two names and the numbers of a SOA record"),
    ("lookup/records.rs", "SOA_TTL_MAX", "CoreDNS"),
    ("memory.rs", "NO_LIMIT", "the kernel's word for none"),
    ("seeing/sketch.rs", "PARTS_MAX", "the shape of the sketch"),
    ("sys/replies.rs", "REPLY_LEN_MAX", "the length of a UDP datagram"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree.with_extension("rs").filter(|file| !tokens::is_test_path(&file.path));
    files.flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let Some(path) = CRATES.iter().find_map(|folder| file.path.strip_prefix(folder)) else {
        return Vec::new();
    };
    let Ok(tests) = tokens::test_ranges(&file.text) else { return Vec::new() };
    if path == "limits.rs" || path.starts_with("limits/") {
        return Vec::new();
    }
    let lines = file.text.lines().zip(1..);
    let outside =
        lines.filter(|(_, at)| !tests.iter().any(|(first, last)| (first..=last).contains(&at)));
    let maxima = outside.filter_map(|(line, at)| Some((maximum(line)?, at)));
    let ours =
        maxima.filter(|(name, _)| !FIXED.iter().any(|(of, known, _)| *of == path && known == name));
    ours.map(|(name, at)| {
        let text = format!("`{name}` is a limit: it belongs in limits.rs, or in the list of tidy/limits.rs with what fixes it");
        finding(&file.path, at, text)
    })
    .collect()
}

/// The name of the constant that this line declares, if it is that of a maximum.
fn maximum(line: &str) -> Option<&str> {
    let words = line.trim_start();
    let words = words
        .strip_prefix("pub ")
        .or_else(|| Some(words.strip_prefix("pub(")?.split_once(") ")?.1))
        .unwrap_or(words);
    let (name, _) =
        words.strip_prefix("const ").or_else(|| words.strip_prefix("static "))?.split_once(':')?;
    let parts: Vec<&str> = name.split('_').collect();
    parts.iter().any(|part| ["MAX", "MOST", "LIMIT"].contains(part)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check_file(&File { path: path.to_owned(), text: text.to_owned() }).len()
    }

    #[test]
    fn a_limit_elsewhere_is_found() {
        let text = "pub(super) const NAMES_MAX: usize = 3;\nconst OTHER: u8 = 1;\nfn f() {\n    const MOST: u8 = 2;\n}\n";
        assert_eq!(found("crates/nodens-core/src/handlers/x.rs", text), 2);
        assert_eq!(found("crates/nodens-net/src/limits.rs", text), 0);
        assert_eq!(found("crates/nodens/src/x.rs", text), 0, "it has no limits.rs");
        let tests = format!("#[cfg(test)]\nmod tests {{\n{text}}}\n");
        assert_eq!(found("crates/nodens-core/src/handlers/x.rs", &tests), 0);
    }

    #[test]
    fn what_a_format_fixes_is_not() {
        assert_eq!(
            found(
                "crates/nodens-core/src/cache/key.rs",
                "pub(crate) const SUBNET_LEN_MAX: usize = 20;\n"
            ),
            0
        );
        assert_eq!(
            found("crates/nodens-core/src/cache/key.rs", "const TTL_MAX: u32 = 1;\n"),
            1,
            "of another file"
        );
    }
}
