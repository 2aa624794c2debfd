use crate::handler::Searches;
use crate::log::{Level, Record};
use crate::testing::{Bench, request};
use nodens_wire::{Message, Name, Rcode};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

fn write(folder: &TempDir, name: &str, text: &str) {
    // Another file each time, so that the stamp differs however fast tests are.
    let new = folder.path().join(format!("{name}.new"));
    fs::write(&new, text).unwrap();
    // Hours apart, as one may get the number that another had.
    static HOURS: AtomicU64 = AtomicU64::new(0);
    set_hour(&new, HOURS.fetch_add(1, Ordering::Relaxed));
    fs::rename(new, folder.path().join(name)).unwrap();
}

fn set_hour(path: &Path, hour: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(hour * 3600);
    fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
}

fn corefile(folder: &Path, body: &str) -> String {
    format!(". {{\n root {}\n {body}\n}}", folder.display())
}

fn zone(serial: u32, address: u8) -> String {
    format!("@ 60 SOA ns hostmaster {serial} 2 3 4 5\n@ 60 NS ns\nwww 60 A 192.0.2.{address}\n")
}

fn look(bench: &mut Bench) {
    bench.tasks.iter_mut().for_each(|task| (task.run)());
}

fn last_octet(bench: &mut Bench, question: &str) -> Option<u8> {
    bench.ask(question).answer.first().and_then(|record| record.rdata.last().copied())
}

fn lines(bench: &Bench) -> Vec<(Level, String)> {
    let line = |record| match record {
        Record::Line { level, text, .. } => Some((level, text)),
        _ => None,
    };
    bench.log.try_iter().filter_map(line).collect()
}

#[test]
fn what_queries_are_likely_to_search_is_known_before_they_are_looked_at() {
    let folder = TempDir::new().unwrap();
    write(&folder, "db", &zone(1, 1));
    let root = folder.path().display();
    let bench = Bench::new(&format!(
        "org {{\n root {root}\n errors\n file db example.org\n}}\n\
         net {{\n root {root}\n cache\n file db example.net\n}}\n"
    ));
    for (name, expected) in [
        ("www.example.org.", "a zone"),
        ("WWW.Example.ORG.", "a zone"),
        ("example.org.", "a zone"),
        ("www.example2.org.", "nothing"),
        ("org.", "nothing"),
        ("www.example.net.", "a cache"),
        ("www.example.com.", "nothing"),
        (".", "nothing"),
    ] {
        let qname: Name = name.parse().unwrap();
        let found = match bench.worker.config().searches(0, qname.view()) {
            Searches::Zone(data) => data.as_ref().map_or("an empty zone", |_| "a zone"),
            Searches::Zones(_) => "many zones",
            Searches::Cached => "a cache",
            Searches::Nothing => "nothing",
        };
        assert_eq!(found, expected, "{name}");
    }
    // Requests are not admitted yet.
    let good = request("www.example.org A");
    for requests in [&[&good[..], b"", &good[..13], &[0xff; 600], &good], &[&[0; 12][..]; 5]] {
        bench.worker.expect(0, requests.iter().copied());
        bench.worker.expect(7, requests.iter().copied());
    }
}

#[test]
fn a_zone_is_read_again_when_its_serial_changes_and_the_last_good_one_stays() {
    let folder = TempDir::new().unwrap();
    write(&folder, "db", &zone(1, 1));
    let mut bench = Bench::new(&corefile(folder.path(), "file db example.org"));
    assert_eq!(bench.tasks.iter().map(|task| task.interval.as_secs()).collect::<Vec<_>>(), [60]);
    for (text, address, line) in [
        (zone(1, 1), 1, "not reloaded"),
        (zone(1, 2), 1, "has changed, but not the serial 1"),
        (zone(2, 3), 3, "Successfully reloaded zone \"example.org.\" in"),
        (zone(1, 4), 4, "with 1 SOA serial"),
        ("@ 60 SOA . . 9 2 3 4 5\nwww A".into(), 4, "db:2:5: expected an IPv4 address"),
        ("".into(), 4, "has no SOA record for origin example.org."),
        (zone(5, 5).replace('@', "x.org."), 4, "has SOA owner x.org. that does not match"),
        (zone(6, 6), 6, "Successfully"),
    ] {
        write(&folder, "db", &text);
        look(&mut bench);
        assert_eq!(last_octet(&mut bench, "www.example.org. A"), Some(address), "{text}");
        let lines = lines(&bench);
        let [(_, only)] = lines.as_slice() else { panic!("{lines:?}") };
        assert!(only.contains(line), "{only}");
        // Nothing has changed since.
        look(&mut bench);
        assert_eq!(self::lines(&bench), []);
    }
    fs::remove_file(folder.path().join("db")).unwrap();
    look(&mut bench);
    assert!(lines(&bench)[0].1.contains("Failed to open zone \"example.org.\" in"));
    assert_eq!(last_octet(&mut bench, "www.example.org. A"), Some(6));
}

#[test]
fn another_configuration_keeps_a_zone_whose_file_is_missing() {
    let folder = TempDir::new().unwrap();
    write(&folder, "db", &zone(1, 1));
    let mut bench = Bench::new(&corefile(folder.path(), "file db example.org"));
    fs::remove_file(folder.path().join("db")).unwrap();
    bench.reload(&corefile(folder.path(), "whoami\n file db example.org")).unwrap();
    assert_eq!(last_octet(&mut bench, "www.example.org. A"), Some(1));
    let lines = lines(&bench);
    let is_said = |line: &str| line.ends_with("the version before it is served");
    assert!(lines.iter().any(|(_, line)| is_said(line)), "{lines:?}");
    write(&folder, "db", &zone(2, 2));
    look(&mut bench);
    assert_eq!(last_octet(&mut bench, "www.example.org. A"), Some(2));
    // It would not be looked for again.
    fs::remove_file(folder.path().join("db")).unwrap();
    let never = corefile(folder.path(), "file db example.org {\n reload 0\n }");
    assert!(bench.reload(&never).is_err());
}

#[test]
fn the_rest_of_a_file_is_read_although_it_has_the_same_serial() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("db");
    write(&folder, "db", &zone(1, 1));
    let mut bench = Bench::new(&corefile(folder.path(), "file db example.org"));
    let half = "@ 60 SOA ns hostmaster 2 2 3 4 5\n@ 60 NS ns\n";
    // The writer pauses, in the middle of a record as well.
    for (text, address) in [
        (half.to_owned(), None),
        (format!("{half}www 60 A 192."), None),
        (zone(2, 2), Some(2)),
        (zone(2, 33), Some(33)),
    ] {
        fs::write(&path, &text).unwrap();
        look(&mut bench);
        assert_eq!(last_octet(&mut bench, "www.example.org. A"), address, "{text}");
    }
    // An error later on does not make what is served a whole file.
    for text in [half.to_owned(), "bad".to_owned(), zone(2, 4)] {
        fs::write(&path, text).unwrap();
        look(&mut bench);
    }
    assert_eq!(last_octet(&mut bench, "www.example.org. A"), Some(4));
    // Neither what is written later on is a part of it, nor another file.
    fs::write(&path, zone(2, 5)).unwrap();
    set_hour(&path, 0);
    look(&mut bench);
    write(&folder, "db", &zone(2, 6));
    look(&mut bench);
    assert_eq!(last_octet(&mut bench, "www.example.org. A"), Some(4));
}

#[test]
fn a_file_that_is_none_is_not_waited_for() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    for path in ["folder", "/dev/null"] {
        let body = format!("file {path} example.org {{\n reload 0\n }}");
        let error = Bench::try_new(&corefile(folder.path(), &body)).err().unwrap().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
    write(&folder, "db", &zone(1, 1));
    let mut bench = Bench::new(&corefile(folder.path(), "file db example.org"));
    fs::remove_file(folder.path().join("db")).unwrap();
    // A socket in the place of a pipe, which needs no library.
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("db")).unwrap();
    look(&mut bench);
    assert!(lines(&bench)[0].1.ends_with("not a regular file"));
    assert_eq!(last_octet(&mut bench, "www.example.org. A"), Some(1));
}

#[test]
fn a_changed_include_is_seen() {
    let folder = TempDir::new().unwrap();
    write(&folder, "db", "$INCLUDE soa\nwww 60 A 192.0.2.1\n$INCLUDE more\n");
    write(&folder, "soa", "@ 60 SOA ns hostmaster 1 2 3 4 5\n");
    write(&folder, "more", "mail 60 A 192.0.2.2\n");
    let mut bench = Bench::new(&corefile(folder.path(), "file db example.org"));
    write(&folder, "more", "mail 60 A 192.0.2.3\n");
    write(&folder, "soa", "@ 60 SOA ns hostmaster 2 2 3 4 5\n");
    look(&mut bench);
    assert_eq!(last_octet(&mut bench, "mail.example.org. A"), Some(3));
}

#[test]
fn reload_by_mtime_needs_no_serial() {
    let folder = TempDir::new().unwrap();
    write(&folder, "db", &zone(1, 1));
    let body = "file db example.org {\n reload 5s\n reload_by_mtime\n }";
    let mut bench = Bench::new(&corefile(folder.path(), body));
    write(&folder, "db", &zone(1, 2));
    look(&mut bench);
    assert_eq!(last_octet(&mut bench, "www.example.org. A"), Some(2));
}

#[test]
fn a_file_that_is_not_there_yet_is_waited_for() {
    let folder = TempDir::new().unwrap();
    let mut bench = Bench::new(&corefile(folder.path(), "file db example.org"));
    assert!(lines(&bench)[0].1.ends_with("trying again in 1m0s"));
    assert_eq!(bench.ask("www.example.org. A").flags.rcode(), Rcode::SERVFAIL);
    assert_eq!(bench.ask("www.example.net. A").flags.rcode(), Rcode::REFUSED);
    write(&folder, "db", &zone(1, 1));
    look(&mut bench);
    assert_eq!(last_octet(&mut bench, "www.example.org. A"), Some(1));
}

#[test]
fn the_longest_zone_of_all_occurrences_answers() {
    let folder = TempDir::new().unwrap();
    write(&folder, "one", &zone(1, 1));
    write(&folder, "two", &zone(1, 2));
    write(&folder, "alias", "@ 60 SOA . . 1 2 3 4 5\nto 60 CNAME www.sub.example.org.\n");
    let body =
        "file one sub.example.org example.net\n file alias example.org\n file two example.net";
    let mut bench = Bench::new(&corefile(folder.path(), body));
    assert_eq!(bench.tasks.len(), 4);
    assert_eq!(last_octet(&mut bench, "WWW.sub.Example.org. A"), Some(1));
    assert_eq!(last_octet(&mut bench, "www.example.net. A"), Some(2));
    assert_eq!(bench.ask("www.example.org. A").flags.rcode(), Rcode::NXDOMAIN);
    // The zone of the alias does not know the zone below it.
    assert_eq!(bench.ask("to.example.org. A").answer.len(), 2);
    for qtype in ["AXFR", "IXFR"] {
        let answer = bench.ask_bytes(&request(&format!("example.org. {qtype}"))).unwrap();
        assert_eq!(Message::parse(&answer).unwrap().flags.rcode(), Rcode::REFUSED);
    }
}

#[test]
fn records_outside_the_zone_are_left_out_and_said_to_be() {
    let folder = TempDir::new().unwrap();
    let text = format!("{}x.org. 60 A 192.0.2.8\nwww.x.org. 60 A 192.0.2.9\n", zone(1, 1));
    write(&folder, "db", &text);
    let bench = Bench::new(&corefile(folder.path(), "file db example.org"));
    let lines = lines(&bench);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].1.starts_with("2 records of \""), "{lines:?}");
    assert!(
        lines[0].1.ends_with("outside zone \"example.org.\": x.org. is the first"),
        "{lines:?}"
    );
}

/// CoreDNS serves them, and Knot DNS, NSD and BIND refuse the zone.
#[test]
fn other_data_beside_an_alias_is_said() {
    let folder = TempDir::new().unwrap();
    for (records, is_said) in [
        ("a.example.org. 60 CNAME b\na.example.org. 60 A 192.0.2.8\n", true),
        ("a.example.org. 60 CNAME b\na.example.org. 60 CNAME c\n", true),
        ("a.example.org. 60 DNAME b\na.example.org. 60 DNAME c\n", true),
        ("a.example.org. 60 CNAME b\na.example.org. 60 CNAME b\n", false),
        ("a.example.org. 60 DNAME b\na.example.org. 60 A 192.0.2.8\n", false),
    ] {
        write(&folder, "db", &format!("{}{records}", zone(1, 1)));
        let bench = Bench::new(&corefile(folder.path(), "file db example.org"));
        let said = "has a CNAME record and other data for a.example.org.";
        let lines = lines(&bench);
        assert_eq!(lines.iter().filter(|line| line.1.contains(said)).count(), usize::from(is_said));
        assert_eq!(lines.len(), usize::from(is_said), "{records}: {lines:?}");
    }
}

#[test]
fn a_zone_is_handed_on_by_transfer() {
    let folder = TempDir::new().unwrap();
    write(&folder, "db", &zone(7, 1));
    let body = "file db example.org\n transfer example.org {\n to *\n }";
    let mut bench = Bench::new(&corefile(folder.path(), body));
    bench.client.transport = crate::Transport::Tcp;
    let answer = bench.ask("example.org. AXFR");
    let types: Vec<_> = answer.answer.iter().map(|record| record.rtype.to_string()).collect();
    assert_eq!(types, ["SOA", "NS", "A", "SOA"]);
}

#[test]
fn what_is_no_use_of_the_directive_is_refused() {
    let folder = TempDir::new().unwrap();
    write(&folder, "db", &zone(1, 1));
    write(&folder, "bad", "@ 60 SOA . . 1 2 3 4 5\n\nwww 60 A 192.0.2\n");
    write(&folder, "nosoa", "www 60 A 192.0.2.1\n");
    for (body, error) in [
        ("file", ":3:2: Wrong argument count after 'file': expected 1 or more, found 0"),
        ("file db a..b", "zone is not a valid domain name: a..b"),
        ("file db {\n bogus\n }", "unknown property 'bogus'"),
        ("file db {\n reload\n }", "reload duration value is expected"),
        ("file db {\n reload x\n }", "expected a duration such as 30s, found `x`"),
        ("file db {\n reload_by_mtime x\n }", "expected 0, found 1"),
        ("file db {\n reload -1s\n }", "expected a duration such as 30s"),
        ("file db {\n fallthrough a..b\n }", "zone is not a valid domain name: a..b"),
        ("file gone {\n reload 0\n }", "failed to open \""),
        ("file bad example.org", "bad:3:10: expected an IPv4 address, found `192.0.2`"),
        ("file nosoa example.org", "has no SOA record for origin example.org."),
        ("file nosoa", "has no SOA record for origin ."),
    ] {
        let found =
            Bench::try_new(&corefile(folder.path(), body)).err().map(|error| error.to_string());
        assert!(found.as_ref().is_some_and(|found| found.contains(error)), "{body}: {found:?}");
    }
    for body in ["file db {\n upstream x y\n reload 1s 2s\n reload_by_mtime\n }", "file gone"] {
        assert!(Bench::try_new(&corefile(folder.path(), body)).is_ok(), "{body}");
    }
}
