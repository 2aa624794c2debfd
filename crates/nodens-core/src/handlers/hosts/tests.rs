use crate::log::{Level, Record};
use crate::testing::Bench;
use nodens_wire::{Message, Name, Type};
use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use tempfile::NamedTempFile;

const FILE: &str = "\
10.0.0.1 a.example.org A.EXAMPLE.ORG b.example.org # comment c.example.org
10.0.0.2\ta.example.org
::1 a.example.org
fe80::1%lo0 ll.example.org
10.0.0.3 *.wild.example.org
::3 x.wild.example.org
10.0.0.5 *a.example.org
010.0.0.6 zero.example.org
bogus d.example.org
10.0.0.7 d..example.org e.example.org
::ffff:10.0.0.8 mapped.example.org
10.0.0.9 only4.example.org. other.net
10.0.0.9 dup.example.org
";

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn bench(file: &NamedTempFile, zones: &str, options: &str) -> Bench {
    let path = file.path().display();
    Bench::new(&format!(". {{\n hosts {path} {zones} {{\n {options}\n }}\n whoami\n}}"))
}

/// RCODE and the answer section, addresses and names as text.
fn answer(bench: &mut Bench, question: &str) -> String {
    let message = bench.ask(question);
    if message.additional.len() == 2 {
        return "next handler".to_owned();
    }
    let mut text = message.flags.rcode().to_string();
    for record in &message.answer {
        text.push(' ');
        text.push_str(&match record.rtype {
            Type::A => Ipv4Addr::from(<[u8; 4]>::try_from(&*record.rdata).unwrap()).to_string(),
            Type::AAAA => Ipv6Addr::from(<[u8; 16]>::try_from(&*record.rdata).unwrap()).to_string(),
            _ => Name::from_wire(&record.rdata).unwrap().to_string(),
        });
    }
    text
}

#[test]
fn answers_are_those_of_coredns() {
    let file = file(FILE);
    let options = "10.1.0.1 a.example.org inline.example.org\n ttl 60\n fallthrough b.example.org";
    let mut bench = bench(&file, "example.org", options);
    for (question, expected) in [
        ("a.example.org. A", "NOERROR 10.0.0.1 10.0.0.2 10.1.0.1"),
        ("A.Example.Org. AAAA", "NOERROR ::1"),
        ("a.example.org. MX", "NOERROR"),
        ("b.example.org. AAAA", "NOERROR"),
        ("inline.example.org. A", "NOERROR 10.1.0.1"),
        ("ll.example.org. AAAA", "NOERROR fe80::1"),
        ("y.wild.example.org. A", "NOERROR 10.0.0.3"),
        ("x.wild.example.org. A", "NOERROR 10.0.0.3"),
        ("x.wild.example.org. AAAA", "NOERROR ::3"),
        ("y.wild.example.org. AAAA", "NOERROR"),
        ("z.y.wild.example.org. A", "SERVFAIL"),
        ("wild.example.org. A", "SERVFAIL"),
        ("aa.example.org. A", "SERVFAIL"),
        ("zero.example.org. A", "SERVFAIL"),
        ("d.example.org. A", "SERVFAIL"),
        ("e.example.org. A", "NOERROR 10.0.0.7"),
        ("mapped.example.org. A", "NOERROR 10.0.0.8"),
        ("mapped.example.org. AAAA", "NOERROR"),
        ("c.example.org. A", "SERVFAIL"),
        ("unknown.b.example.org. A", "next handler"),
        ("other.net. A", "next handler"),
        ("1.0.0.10.in-addr.arpa. PTR", "NOERROR a.example.org. b.example.org."),
        ("3.0.0.10.in-addr.arpa. PTR", "next handler"),
        ("8.0.0.10.in-addr.arpa. PTR", "NOERROR mapped.example.org."),
        ("9.0.0.10.in-addr.arpa. PTR", "NOERROR only4.example.org. dup.example.org."),
        ("9.9.9.10.in-addr.arpa. PTR", "next handler"),
        ("a.example.org. PTR", "next handler"),
    ] {
        assert_eq!(answer(&mut bench, question), expected, "{question}");
    }
}

#[test]
fn a_response_is_authoritative_and_has_the_ttl() {
    let file = file("10.0.0.1 a.example.org\n");
    let message: Message = bench(&file, "", "ttl 65535").ask("a.example.org. A");
    assert!(message.flags.has(nodens_wire::Flags::AA));
    assert_eq!(message.answer[0].ttl, 65_535);
    assert_eq!(bench(&file, "", "").ask("a.example.org. A").answer[0].ttl, 3600);
}

#[test]
fn no_reverse_leaves_addresses_without_names() {
    let file = file("10.0.0.1 a.example.org\n");
    let mut bench = bench(&file, "", "10.0.0.2 b.example.org\n no_reverse");
    assert_eq!(answer(&mut bench, "1.0.0.10.in-addr.arpa. PTR"), "next handler");
    assert_eq!(answer(&mut bench, "2.0.0.10.in-addr.arpa. PTR"), "next handler");
    assert_eq!(answer(&mut bench, "b.example.org. A"), "NOERROR 10.0.0.2");
}

#[test]
fn unsupported_types_fall_through_only_if_asked_to() {
    let file = file("10.0.0.1 a.example.org\n");
    let mut plain = bench(&file, "", "fallthrough");
    assert_eq!(answer(&mut plain, "a.example.org. MX"), "NOERROR");
    assert_eq!(answer(&mut plain, "b.example.org. MX"), "next handler");
    let mut through = bench(&file, "", "fallthrough_unsupported\n fallthrough example.org");
    assert_eq!(answer(&mut through, "a.example.org. MX"), "next handler");
    assert_eq!(answer(&mut through, "a.example.org. AAAA"), "NOERROR");
    assert_eq!(answer(&mut through, "b.example.net. MX"), "SERVFAIL");
}

#[test]
fn a_changed_file_is_read_again_and_a_vanished_one_is_kept() {
    let mut file = file("10.0.0.1 a.example.org\n");
    let path = file.path().display().to_string();
    let corefile = format!(". {{\n hosts {path} {{\n 10.0.0.9 i.example.org\n reload 1s\n }}\n whoami\n}}");
    let tree = nodens_corefile::parse("Corefile", &corefile, &nodens_corefile::NoSources).unwrap();
    let bench_shared = Bench::new(". {\n whoami\n}").shared;
    let mut config =
        crate::config::build(&tree, &crate::config::BuildOptions::default(), &bench_shared).unwrap();
    let mut tasks = std::mem::take(&mut config.services.tasks);
    assert_eq!(tasks[0].interval, std::time::Duration::from_secs(1));
    let mut bench = Bench::new(". {\n whoami\n}");
    bench.worker.set_config(std::sync::Arc::new(config));
    assert_eq!(answer(&mut bench, "a.example.org. A"), "NOERROR 10.0.0.1");
    file.write_all(b"10.0.0.2 a.example.org b.example.org\n").unwrap();
    (tasks[0].run)();
    assert_eq!(answer(&mut bench, "a.example.org. A"), "NOERROR 10.0.0.1 10.0.0.2");
    let metrics = bench_shared.registry.render();
    let line = format!("coredns_hosts_entries{{hostsfile=\"{path}\"}} 8\n");
    assert!(metrics.contains(&line), "{metrics}");
    assert!(metrics.contains("coredns_hosts_reload_timestamp_seconds 1"), "{metrics}");
    drop(file);
    (tasks[0].run)();
    assert_eq!(answer(&mut bench, "b.example.org. A"), "NOERROR 10.0.0.2");
}

#[test]
fn reload_0_reads_the_file_once() {
    let file = file("10.0.0.1 a.example.org\n");
    let bench = bench(&file, "", "reload 0");
    assert!(bench.tasks.is_empty());
}

#[test]
fn a_hundred_thousand_lines_are_read_and_found() {
    let mut text = String::new();
    for n in 0..100_000_u32 {
        let ip = Ipv4Addr::from_bits(0x0a00_0000 + n);
        text.push_str(&format!("{ip} host-{n}.example.org host-{n}\n"));
    }
    let file = file(&text);
    let mut bench = bench(&file, "", "");
    assert_eq!(answer(&mut bench, "host-99999.example.org. A"), "NOERROR 10.1.134.159");
    let names = "NOERROR host-70000.example.org. host-70000.";
    assert_eq!(answer(&mut bench, "112.17.1.10.in-addr.arpa. PTR"), names);
}

#[test]
fn malformed_options_are_refused_with_their_place() {
    for (options, wanted) in [
        ("fallthrough\n 10.0.0.1 a.org", "4:2: unknown property '10.0.0.1'"),
        ("fallthrough_unsupported", "3:2: fallthrough_unsupported requires fallthrough"),
        ("fallthrough_unsupported x\n fallthrough", "3:26: Wrong argument count"),
        ("ttl", "3:2: ttl needs a time in second"),
        ("ttl 0", "3:6: expected a number from 1 to 65535, found `0`"),
        ("ttl 65536", "3:6: expected a number from 1 to 65535"),
        ("ttl soon", "3:6: expected a number from 1 to 65535"),
        ("reload", "3:2: Wrong argument count after 'reload': expected 1"),
        ("reload 5", "3:9: expected a duration such as 30s, found `5`"),
        ("reload -5s", "3:9: expected a duration"),
        ("10.0.0.1 a.org {\n }", "3:2: '10.0.0.1' takes no block"),
    ] {
        let text = format!(". {{\n hosts /nonexistent/file {{\n {options}\n }}\n}}");
        let error = Bench::try_new(&text).unwrap_err().to_string();
        assert!(error.contains(wanted), "{options}: {error}");
    }
    for (line, wanted) in [
        ("hosts\n hosts", "3:2: this plugin can only be used once"),
        ("hosts /proc/version/x", "2:8: unable to access hosts file '/proc/version/x'"),
    ] {
        let error = Bench::try_new(&format!(". {{\n {line}\n}}")).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}

#[test]
fn what_coredns_accepts_in_silence_gets_a_warning() {
    let bench = Bench::new(". {\n hosts /nonexistent/file {\n tll 60\n 10.0.0.1 a.org\n }\n}");
    let warnings: Vec<_> = bench
        .log
        .try_iter()
        .filter_map(|record| match record {
            Record::Line { level: Level::Warning, origin: "hosts", text } => Some(text),
            _ => None,
        })
        .collect();
    assert_eq!(warnings[0], "File does not exist: /nonexistent/file");
    assert!(warnings[1].starts_with("Corefile:3:2: ignored: `tll` is neither"), "{warnings:?}");
    assert_eq!(warnings.len(), 2);
}

#[test]
fn the_addresses_of_a_block_share_its_entries() {
    let file = file("10.0.0.1 a.example.org\n");
    let path = file.path().display();
    let text = format!(
        "example.org {{\n bind 127.0.0.1 127.0.0.2\n hosts {path}\n}}\nexample.net {{\n hosts {path}\n}}"
    );
    let bench = Bench::new(&text);
    let config = bench.worker.config();
    assert_eq!((config.blocks.len(), bench.tasks.len()), (3, 2));
}
