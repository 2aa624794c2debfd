use crate::Transport;
use crate::log::Record;
use crate::testing::Bench;
use nodens_wire::Rcode;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use tempfile::TempDir;

fn write(folder: &TempDir, name: &str, serial: u32, address: u8) {
    let text = format!(
        "@ 60 SOA ns hostmaster {serial} 2 3 4 5\n@ 60 NS ns\nwww 60 A 192.0.2.{address}\n"
    );
    let new = folder.path().join("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, folder.path().join(name)).unwrap();
}

fn start(folder: &TempDir, zones: &str, options: &str) -> Bench {
    let folder = folder.path().display();
    let text = format!(
        ". {{\n root {folder}\n auto {zones} {{\n directory . {options}\n }}\n transfer {{\n to *\n }}\n}}"
    );
    Bench::new(&text)
}

fn lines(bench: &Bench) -> Vec<String> {
    let line = |record| match record {
        Record::Line { text, .. } => Some(text),
        _ => None,
    };
    bench.log.try_iter().filter_map(line).collect()
}

fn look(bench: &mut Bench) {
    bench.tasks.iter_mut().for_each(|task| (task.run)());
}

/// Whether the zone can be transferred.
fn is_handed_on(bench: &mut Bench, zone: &str) -> bool {
    bench.client.transport = Transport::Tcp;
    let answer = bench.ask(&format!("{zone} AXFR")).answer;
    bench.client.transport = Transport::Udp;
    answer.len() == 4
}

fn octet(bench: &mut Bench, zone: &str) -> Option<u8> {
    let answer = bench.ask(&format!("www.{zone}. A")).answer;
    answer.first().and_then(|record| record.rdata.last().copied())
}

#[test]
fn zones_come_change_and_go_with_their_files() {
    let folder = TempDir::new().unwrap();
    write(&folder, "db.example.org", 1, 1);
    write(&folder, "other", 1, 9);
    fs::create_dir(folder.path().join("db.sub")).unwrap();
    write(&folder, "db.sub/db.example.net", 1, 2);
    let mut bench = start(&folder, "", "");
    assert_eq!(bench.tasks.iter().map(|task| task.interval.as_secs()).collect::<Vec<_>>(), [60]);
    assert_eq!(
        (octet(&mut bench, "example.org"), octet(&mut bench, "example.net")),
        (Some(1), Some(2))
    );
    assert_eq!(bench.ask("example.com. A").flags.rcode(), Rcode::REFUSED);
    assert!(is_handed_on(&mut bench, "example.net"));
    lines(&bench);
    write(&folder, "db.example.com", 1, 3);
    write(&folder, "db.example.org", 2, 4);
    fs::remove_file(folder.path().join("db.sub/db.example.net")).unwrap();
    look(&mut bench);
    assert_eq!(
        (octet(&mut bench, "example.org"), octet(&mut bench, "example.com")),
        (Some(4), Some(3))
    );
    assert_eq!(bench.ask("example.net. A").flags.rcode(), Rcode::REFUSED);
    assert!(is_handed_on(&mut bench, "example.com") && !is_handed_on(&mut bench, "example.net"));
    let lines = lines(&bench);
    for text in [
        "Inserting zone `example.com.' from: ",
        "Successfully reloaded zone \"example.org.\"",
        "Deleting zone `example.net.'",
    ] {
        assert!(lines.iter().any(|line| line.starts_with(text)), "{text}: {lines:?}");
    }
    fs::write(folder.path().join("db.example.org"), "bad").unwrap();
    look(&mut bench);
    assert_eq!(octet(&mut bench, "example.org"), Some(4));
    // The file can be moved.
    fs::remove_file(folder.path().join("db.example.org")).unwrap();
    write(&folder, "db.sub/db.example.org", 5, 5);
    look(&mut bench);
    assert_eq!(octet(&mut bench, "example.org"), Some(5));
}

#[test]
fn a_zone_that_another_directive_has_too_is_handed_on_when_the_file_of_this_one_goes() {
    let folder = TempDir::new().unwrap();
    write(&folder, "db.example.org", 1, 1);
    write(&folder, "zone", 1, 2);
    let root = folder.path().display();
    let auto = "auto {\n directory .\n }\n transfer {\n to *\n }";
    let mut bench = Bench::new(&format!(". {{\n root {root}\n file zone example.org\n {auto}\n}}"));
    assert!(is_handed_on(&mut bench, "example.org"));
    fs::remove_file(folder.path().join("db.example.org")).unwrap();
    look(&mut bench);
    assert!(is_handed_on(&mut bench, "example.org"));
}

#[test]
fn zones_the_block_does_not_have_are_never_asked_for() {
    let folder = TempDir::new().unwrap();
    write(&folder, "db.example.org", 1, 1);
    write(&folder, "db.example.com", 1, 2);
    let mut bench = start(&folder, "example.org", "");
    assert_eq!(octet(&mut bench, "example.org"), Some(1));
    let other = bench.ask("www.example.com. A");
    assert_eq!(other.flags.rcode(), Rcode::SERVFAIL);
}

#[test]
fn of_two_files_for_a_zone_the_first_counts_and_bad_ones_are_said() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.db.example.org", 1, 1);
    write(&folder, "b.db.example.org", 1, 2);
    fs::write(folder.path().join("db.bad"), "x").unwrap();
    fs::write(folder.path().join("db.a..b"), "x").unwrap();
    let mut bench = start(&folder, "", "");
    assert_eq!(octet(&mut bench, "example.org"), Some(1));
    let lines = lines(&bench);
    for text in [
        "Multiple zone files match origin \"example.org.\": using \"",
        "Failed: parse zone `bad.' from ",
    ] {
        assert!(lines.iter().any(|line| line.starts_with(text)), "{text}: {lines:?}");
    }
    assert!(lines.iter().any(|line| line.contains("failed: no origin: \"a..b\"")), "{lines:?}");
}

#[test]
fn a_folder_that_cannot_be_read_takes_no_zones_with_it() {
    let (links, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    write(&folder, "db.example.org", 1, 1);
    let link = |target: &std::path::Path| {
        _ = fs::remove_file(links.path().join("zones"));
        symlink(target, links.path().join("zones")).unwrap();
    };
    link(folder.path());
    let path = links.path().join("zones");
    let text = format!(". {{\n auto {{\n directory {}\n }}\n}}", path.display());
    let mut bench = Bench::new(&text);
    lines(&bench);
    // A link to itself.
    link(&path);
    for count in [1, 0] {
        look(&mut bench);
        assert_eq!(octet(&mut bench, "example.org"), Some(1));
        let lines = lines(&bench);
        assert_eq!(lines.len(), count, "{lines:?}");
        assert!(lines.iter().all(|line| line.starts_with("error reading ")), "{lines:?}");
    }
    link(&links.path().join("nothing"));
    look(&mut bench);
    assert_eq!(octet(&mut bench, "example.org"), None);
}

#[test]
fn the_first_path_counts_and_the_others_are_said_once() {
    let folder = TempDir::new().unwrap();
    for name in ["a", "b", "e"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    for (at, name) in
        ["a/db.one", "b/db.one", "db.one", "db.two", "e/db.two"].iter().enumerate()
    {
        write(&folder, name, 1, u8::try_from(at).unwrap());
    }
    let mut bench = start(&folder, "", "");
    assert_eq!((octet(&mut bench, "one"), octet(&mut bench, "two")), (Some(0), Some(3)));
    let count = |bench: &Bench| {
        lines(bench).iter().filter(|line| line.starts_with("Multiple zone files")).count()
    };
    assert_eq!(count(&bench), 3);
    look(&mut bench);
    assert_eq!(count(&bench), 0);
    fs::remove_file(folder.path().join("a/db.one")).unwrap();
    look(&mut bench);
    assert_eq!(count(&bench), 1);
}

#[test]
fn a_config_map_has_each_zone_once() {
    let folder = TempDir::new().unwrap();
    for (version, address) in [("..1", 1), ("..2", 2)] {
        fs::create_dir(folder.path().join(version)).unwrap();
        write(&folder, &format!("{version}/db.example.org"), address.into(), address);
    }
    let data = folder.path().join("..data");
    symlink("..1", &data).unwrap();
    symlink("..data/db.example.org", folder.path().join("db.example.org")).unwrap();
    let mut bench = start(&folder, "", "");
    assert_eq!(lines(&bench).len(), 1);
    assert_eq!(octet(&mut bench, "example.org"), Some(1));
    fs::remove_file(&data).unwrap();
    symlink("..2", &data).unwrap();
    look(&mut bench);
    assert_eq!(octet(&mut bench, "example.org"), Some(2));
}

#[test]
fn a_bad_file_is_read_again_when_it_changes() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("db.example.org"), "x").unwrap();
    // What is no file is no zone.
    let _socket = UnixListener::bind(folder.path().join("db.socket")).unwrap();
    symlink("db.socket", folder.path().join("db.link")).unwrap();
    let mut bench = start(&folder, "", "");
    assert_eq!(lines(&bench).len(), 1);
    look(&mut bench);
    assert_eq!(lines(&bench).len(), 0);
    fs::write(folder.path().join("db.example.org"), "longer").unwrap();
    look(&mut bench);
    assert_eq!(lines(&bench).len(), 1);
    write(&folder, "db.example.org", 1, 1);
    look(&mut bench);
    assert_eq!(octet(&mut bench, "example.org"), Some(1));
    assert!(is_handed_on(&mut bench, "example.org"));
}

#[test]
fn the_pattern_says_what_is_a_zone() {
    let folder = TempDir::new().unwrap();
    write(&folder, "example.org.zone", 1, 1);
    write(&folder, "db.example.com", 1, 2);
    let mut bench = start(&folder, "", "^(.*)\\.zone$ {1}\n reload 0");
    assert_eq!(octet(&mut bench, "example.org"), Some(1));
    assert!(is_handed_on(&mut bench, "example.org"));
    assert_eq!(bench.tasks.len(), 0);
}

#[test]
fn what_is_no_use_of_the_directive_is_refused() {
    let refused = |body: &str| {
        Bench::try_new(&format!(". {{\n auto {{\n {body}\n }}\n}}"))
            .err()
            .map(|error| error.to_string())
    };
    for (body, error) in [
        ("directory", "after 'directory': expected 1 to 3, found 0"),
        ("directory . (.*)", "expected a template for the origin"),
        ("directory . (.*) {1} x", "after 'directory': expected 1 to 3, found 4"),
        ("directory . ( {1}", "missing closing )"),
        ("directory . .* {1}", "need at least one sub expression"),
        ("directory /dev/null/x", "unable to access root path '/dev/null/x'"),
        ("reload", "reload duration value is expected"),
        ("reload x", "expected a duration such as 30s"),
        ("reload -5s", "expected a duration such as 30s"),
        ("fallthrough", "unknown property 'fallthrough'"),
        ("bogus", "unknown property 'bogus'"),
    ] {
        let found = refused(body);
        assert!(found.as_ref().is_some_and(|found| found.contains(error)), "{body}: {found:?}");
    }
    let long = format!("directory . ({}) {{1}}", "a".repeat(10_000));
    assert!(refused(&long).is_some_and(|error| error.contains("too long")));
    for body in ["", "directory /no/such/folder", "upstream x\n reload 1s 2s"] {
        assert_eq!(refused(body), None, "{body}");
    }
}

#[test]
fn zones_that_cannot_be_read_are_known_and_so_is_a_folder_that_cannot() {
    let folder = TempDir::new().unwrap();
    write(&folder, "db.example.org", 1, 1);
    fs::write(folder.path().join("db.bad.example"), "no zone").unwrap();
    let mut bench = start(&folder, "", "");
    let table = bench.worker.config().services.zones[0].clone();
    let known = || {
        let mut known: Vec<_> = table.load().iter().map(|(name, _)| name.to_string()).collect();
        known.sort();
        (known.join(" "), table.is_complete())
    };
    assert_eq!(known(), ("bad.example. example.org.".to_owned(), true));
    // Queries go where they went before.
    assert_eq!(bench.ask("www.bad.example. A").flags.rcode(), Rcode::REFUSED);
    bench.client.transport = Transport::Tcp;
    assert_eq!(bench.ask("bad.example. AXFR").flags.rcode(), Rcode::SERVFAIL);
    write(&folder, "db.bad.example", 1, 2);
    look(&mut bench);
    assert_eq!(octet(&mut bench, "bad.example"), Some(2));
    assert!(is_handed_on(&mut bench, "bad.example"));
    fs::write(folder.path().join("db.worse.example"), "no zone").unwrap();
    look(&mut bench);
    assert_eq!(known().0, "bad.example. example.org. worse.example.");
    fs::remove_file(folder.path().join("db.worse.example")).unwrap();
    look(&mut bench);
    assert_eq!(known().0, "bad.example. example.org.");
    let aside = folder.path().with_extension("aside");
    fs::rename(folder.path(), &aside).unwrap();
    look(&mut bench);
    assert_eq!(known(), (String::new(), false));
    fs::rename(&aside, folder.path()).unwrap();
    look(&mut bench);
    assert_eq!(known(), ("bad.example. example.org.".to_owned(), true));
}

#[test]
fn another_configuration_keeps_the_last_good_version_as_well() {
    let folder = TempDir::new().unwrap();
    write(&folder, "db.example.org", 1, 1);
    let mut bench = start(&folder, "", "");
    fs::write(folder.path().join("db.example.org"), "bad").unwrap();
    look(&mut bench);
    assert_eq!(octet(&mut bench, "example.org"), Some(1));
    lines(&bench);
    let root = folder.path().display();
    let other = format!(". {{\n root {root}\n whoami\n auto {{\n directory .\n }}\n}}");
    bench.reload(&other).unwrap();
    assert_eq!(octet(&mut bench, "example.org"), Some(1));
    let lines = lines(&bench);
    let is_said = |line: &String| line.ends_with("the version before it is served");
    assert!(lines.iter().any(is_said), "{lines:?}");
    write(&folder, "db.example.org", 2, 2);
    look(&mut bench);
    assert_eq!(octet(&mut bench, "example.org"), Some(2));
}
