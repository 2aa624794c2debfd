//! What a search list of five domains costs real clients, with and without `autopath`.

use crate::fixture::{Folder, need};
use crate::pod::{Pod, build_c, build_go};
use std::path::{Path, PathBuf};

const SEARCH: &str =
    "default.svc.cluster.local svc.cluster.local cluster.local corp.test node.test";

/// Names and what they stand for.
const RECORDS: [(&str, &str); 10] = [
    ("web.default.svc.cluster.local", "A 10.0.0.7"),
    ("web.default.svc.cluster.local", "AAAA fd00::7"),
    ("db.other.svc.cluster.local", "A 10.0.0.8"),
    ("alias.default.svc.cluster.local", "CNAME target.example.org."),
    ("www.example.org", "A 192.0.2.80"),
    ("www.example.org", "AAAA 2001:db8::80"),
    ("target.example.org", "A 192.0.2.83"),
    ("target.example.org", "AAAA 2001:db8::83"),
    ("old.example.org", "A 192.0.2.81"),
    ("printer.node.test", "A 192.0.2.82"),
];

/// Two server blocks with [`RECORDS`], one for the cluster and one for the rest. They log the
/// queries of clients, and those alone.
fn corefile(autopath: &str) -> String {
    let zone = |key: &str, more: &str, inside: fn(&str) -> bool| {
        let mut templates = String::new();
        for (name, record) in RECORDS.iter().filter(|(name, _)| inside(name)) {
            let class = record.split(' ').next().unwrap_or_default().replace("CNAME", "ANY");
            let pattern = name.replace('.', "[.]");
            let matched = format!("match ^{pattern}[.]$");
            let answer = format!("answer \"{{{{ .Name }}}} 5 IN {record}\"");
            let fields = format!("{{\n {matched}\n {answer}\n fallthrough\n }}");
            templates += &format!(" template IN {class} {fields}\n");
        }
        for (name, _) in RECORDS.iter().filter(|(name, _)| inside(name)) {
            let pattern = name.replace('.', "[.]");
            templates +=
                &format!(" template ANY ANY {{\n match ^{pattern}[.]$\n fallthrough\n }}\n");
        }
        format!(
            "{key}:PORT {{\n bind 127.0.0.1\n log . \"{{type}} {{name}}\"\n {more}\n{templates} \
             template ANY ANY {{\n rcode NXDOMAIN\n }}\n}}\n"
        )
    };
    let cluster = zone("cluster.local", autopath, |name| name.ends_with(".cluster.local"));
    cluster + &zone(".", "cache 30", |name| !name.ends_with(".cluster.local"))
}

/// Names as applications write them; all but the last exist.
const NAMES: [&str; 7] = [
    "www.example.org",
    "old.example.org",
    "printer",
    "web",
    "db.other",
    "alias",
    "nowhere.example.org",
];

/// What a client has found, and the queries it has asked for each of [`NAMES`].
struct Walked {
    found: String,
    questions: Vec<usize>,
}

fn walk(folder: &Folder, program: &Path, arguments: &[&str], autopath: &str) -> Walked {
    folder.write("search.conf", &format!("search {SEARCH}\n"));
    let pod = Pod::new(folder, &corefile(autopath), SEARCH);
    let found = pod.run(program, arguments);
    let log = pod.server_log();
    let asked = |name: &str| {
        let begins = |line: &&str| {
            let qname = line.strip_prefix("[INFO] ").and_then(|line| line.split_once(' '));
            let rest = qname.and_then(|(_, qname)| qname.strip_prefix(name));
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        log.lines().filter(begins).count()
    };
    Walked { found, questions: NAMES.map(asked).to_vec() }
}

/// Holds one client against the promise: at most `types` queries for a name that exists, and the
/// same addresses as without `autopath`.
fn check(folder: &Folder, program: &Path, arguments: &[&str], types: usize) {
    let without = walk(folder, program, arguments, "");
    let with = walk(folder, program, arguments, "autopath FOLDER/search.conf");
    assert_eq!(with.found, without.found, "{program:?}");
    // The external names: five domains and the name alone; the last domain but the name alone.
    let wanted = [6, 6, 5, 1, 2, 1, 6].map(|names| names * types);
    assert_eq!(without.questions, wanted, "{program:?} without autopath");
    let wanted = [1, 1, 1, 1, 1, 1, 6].map(|names| names * types);
    assert_eq!(with.questions, wanted, "{program:?} with autopath");
}

const FOUND: &str = "www.example.org 192.0.2.80
www.example.org 2001:db8::80
old.example.org 192.0.2.81
printer 192.0.2.82
web 10.0.0.7
web fd00::7
db.other 10.0.0.8
alias 192.0.2.83
alias 2001:db8::83
";

#[test]
fn glibc_and_musl_ask_two_questions() {
    let folder = Folder::new("search-libc");
    for compiler in ["cc", "musl-gcc"] {
        let program = build_c(&folder, compiler);
        check(&folder, &program, &NAMES, 2);
        let found = walk(&folder, &program, &NAMES, "").found;
        assert!(found.starts_with(FOUND), "{compiler}: {found}");
        assert!(found.contains("nowhere.example.org: error"), "{compiler}: {found}");
    }
}

#[test]
fn go_asks_two_questions() {
    let folder = Folder::new("search-go");
    check(&folder, &build_go(&folder), &NAMES, 2);
}

#[test]
fn dig_asks_one_question() {
    need("dig", "dnsutils");
    let folder = Folder::new("search-dig");
    let name = |name: &'static str| [name, "A", "+search", "+noall", "+answer"];
    let arguments = NAMES.map(name).concat();
    // What dig shows differs by the alias; what it asks is the point here.
    let program = PathBuf::from("dig");
    let without = walk(&folder, &program, &arguments, "");
    let with = walk(&folder, &program, &arguments, "autopath FOLDER/search.conf");
    let addresses = |walked: &Walked| {
        let lines = walked.found.lines().filter(|line| line.contains("\tA\t"));
        lines.filter_map(|line| Some(line.rsplit('\t').next()?.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(addresses(&with), addresses(&without));
    assert_eq!(without.questions, [6, 6, 5, 1, 2, 1, 6]);
    assert_eq!(with.questions, [1, 1, 1, 1, 1, 1, 6]);
}

/// A pod that has just started may be known to one server and not yet to another, so one type is
/// walked and the other is not. Views make one server behave as two.
fn half_walked(walked: &str) -> String {
    let whole = corefile("");
    let (cluster, rest) = whole.split_once(".:PORT").unwrap_or_default();
    let view = format!("view walked {{\n expr type() == '{walked}'\n }}");
    let with = format!("{view}\n autopath FOLDER/search.conf\n log .");
    format!("{}{cluster}.:PORT{rest}", cluster.replace("log .", &with))
}

#[test]
fn a_walk_of_one_type_alone_hides_no_name() {
    let folder = Folder::new("search-half");
    folder.write("search.conf", &format!("search {SEARCH}\n"));
    let programs = [build_c(&folder, "cc"), build_c(&folder, "musl-gcc"), build_go(&folder)];
    for program in &programs {
        let whole = Pod::new(&folder, &corefile(""), SEARCH).run(program, &NAMES);
        for walked in ["A", "AAAA"] {
            let found = Pod::new(&folder, &half_walked(walked), SEARCH).run(program, &NAMES);
            for name in &NAMES[..6] {
                let begin = format!("{name} ");
                let some = found.lines().any(|line| line.starts_with(&begin));
                assert!(some, "{program:?} finds no {name} with {walked} walked: {found}");
            }
            // glibc and Go take one type for an answer; musl goes on if it is told both things.
            let wrong = found.lines().find(|line| !whole.contains(line));
            assert_eq!(wrong, None, "{program:?} with {walked} walked");
        }
    }
}
