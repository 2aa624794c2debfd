use super::*;
use nodens_core::log::Sink;
use std::fmt::Write;

/// The zones of a Corefile.
fn of_corefile(text: &str) -> Zones {
    let shared = Arc::new(Shared::new(1, Sink::new(std::sync::mpsc::sync_channel(9999).0)));
    let tree = nodens_corefile::parse("Corefile", text, &nodens_corefile::SystemSources).unwrap();
    let config = nodens_core::build(&tree, &Default::default(), &shared).unwrap();
    let zones = Zones::new(shared);
    zones.take_up(Arc::new(config));
    zones
}

/// Zones in files, of which one cannot be read.
fn zones(count: usize) -> (Zones, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut text = ".:0 {\n".to_owned();
    for number in 0..count {
        let path = folder.path().join(format!("db.{number}"));
        let soa = format!("@ 60 SOA . . {number} 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n");
        std::fs::write(&path, soa).unwrap();
        _ = writeln!(text, " file {} z{number:04}.Example", path.display());
    }
    _ = writeln!(text, " file {}/none lost.example\n}}", folder.path().display());
    (of_corefile(&text), folder)
}

#[test]
fn pages_lead_through_all_zones_and_a_search_finds_one() {
    let count = 2 * ZONES_SHOWN + 7;
    let (zones, _folder) = zones(count);
    let (mut search, mut names, mut pages) = (Search::default(), Vec::new(), 0);
    loop {
        let report = zones.report(search, String::new());
        assert!(report.zones.len() <= ZONES_SHOWN);
        assert_eq!(report.matched, count + 1);
        names.extend(report.zones.into_iter().map(|zone| zone.name));
        pages += 1;
        let Some(next) = report.next else { break };
        search = super::search(&next);
    }
    assert_eq!((pages, names.len()), (3, count + 1));
    assert!(names.is_sorted());
    let report = zones.report(super::search("name=Z0042&x=y&failed="), "host".to_owned());
    let [zone] = &report.zones[..] else { panic!("{report:?}") };
    assert_eq!((zone.name.as_str(), zone.source.as_str()), ("z0042.example.", "file"));
    assert_eq!((zone.serial, zone.records, &zone.failure), (Some(42), 3, &None));
    assert!(zone.from.ends_with("/db.42") && zone.octets > 100 && zone.age_s.unwrap() < 600);
    let report = zones.report(super::search("failed=1"), String::new());
    let [zone] = &report.zones[..] else { panic!("{report:?}") };
    assert_eq!((zone.name.as_str(), zone.serial), ("lost.example.", None));
    assert!(zone.failure.as_ref().unwrap().contains("No such file"), "{zone:?}");
    let [sum] = &report.sums[..] else { panic!("{report:?}") };
    assert_eq!((sum.zones, sum.empty, sum.failed), (count as u64 + 1, 1, 1));
    assert_eq!(sum.records, 3 * count as u64);
}

#[test]
fn the_first_page_is_that_of_the_search() {
    let (zones, _folder) = zones(1);
    let name = "a b&\"é".to_owned();
    let search = Search { name, failed: true, after: "b.".to_owned() };
    let first = zones.report(search.clone(), String::new()).first.unwrap();
    assert_eq!(super::search(&first), Search { after: String::new(), ..search });
    assert_eq!(zones.report(super::search(&first), String::new()).first, None);
}

#[test]
fn few_zones_have_series_of_their_own_and_many_have_sums() {
    let rendered = |count| {
        let (zones, folder) = zones(count);
        zones.count();
        drop(folder);
        zones.shared.registry.render()
    };
    let few = rendered(3);
    for line in [
        "nodens_zones{source=\"file\"} 4\n",
        "nodens_zones_not_served{source=\"file\"} 1\n",
        "nodens_zones_records{source=\"file\"} 9\n",
        "nodens_zone_serial{source=\"file\",zone=\"z0002.example.\"} 2\n",
        "nodens_zone_failed{source=\"file\",zone=\"lost.example.\"} 1\n",
    ] {
        assert!(few.contains(line), "{line}{few}");
    }
    let many = rendered(200);
    assert!(many.contains("nodens_zones{source=\"file\"} 201\n"), "{many}");
    assert!(!many.contains("nodens_zone_serial"), "{many}");
}

/// Two blocks with the same zones, of which those of the second are older.
fn twice(count: usize) -> (Zones, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for (port, serial) in [(0, 7), (1, 6)] {
        _ = writeln!(text, ".:{port} {{");
        for number in 0..count {
            let path = folder.path().join(format!("db.{port}.{number}"));
            std::fs::write(&path, format!("@ 60 SOA . . {serial} 2 3 4 5\n")).unwrap();
            _ = writeln!(text, " file {} z{number:04}.example", path.display());
        }
        _ = writeln!(
            text,
            " secondary cat.example {{\n transfer from 192.0.2.{port}\n catalog\n }}\n}}"
        );
    }
    (of_corefile(&text), folder)
}

#[test]
fn zones_of_one_name_in_two_blocks_have_one_series_and_both_are_on_the_page() {
    let (few, _folder) = twice(2);
    few.count();
    let rendered = few.shared.registry.render();
    let mut seen = std::collections::BTreeSet::new();
    for line in rendered.lines().filter(|line| line.starts_with("nodens_")) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        assert!(seen.insert(series), "{series} is there twice");
    }
    let line = "nodens_zone_serial{source=\"file\",zone=\"z0001.example.\"} 6\n";
    assert!(rendered.contains(line), "{rendered}");
    assert!(seen.contains("nodens_catalog_members{catalog=\"cat.example.\",state=\"served\"}"));

    let (many, _folder) = twice(ZONES_SHOWN + 3);
    let (mut search, mut count) = (super::search("name=z0"), 0);
    loop {
        let report = many.report(search, String::new());
        count += report.zones.len();
        let Some(next) = report.next else { break };
        search = super::search(&next);
    }
    assert_eq!(count, 2 * (ZONES_SHOWN + 3));
}

/// A zone of each kind, and a catalog.
const ALL: &str = ".:0 {
    secondary cat.example {
        transfer from 192.0.2.1
        catalog
    }
    file /nonexistent/db lost.example
    transfer {
        to *
    }
}
";

#[test]
fn the_alert_rules_ask_for_metrics_that_are_there() {
    let shared = Arc::new(Shared::new(1, Sink::new(std::sync::mpsc::sync_channel(99).0)));
    let tree = nodens_corefile::parse("Corefile", ALL, &nodens_corefile::SystemSources).unwrap();
    let config = nodens_core::build(&tree, &Default::default(), &shared).unwrap();
    let zones = Zones::new(shared.clone());
    zones.take_up(Arc::new(config));
    zones.count();
    let shown = shared.registry.render();
    let rules = include_str!("../../../../deploy/authority/alerts.yaml");
    let names = regex::Regex::new(r"\bnodens_[a-z_]+").unwrap();
    let expressions: Vec<_> = rules.lines().filter(|line| line.contains(" expr: ")).collect();
    assert!(expressions.len() > 4, "{expressions:?}");
    for name in expressions.iter().flat_map(|line| names.find_iter(line)) {
        assert!(shown.contains(&format!("# TYPE {} ", name.as_str())), "{name:?} {shown}");
    }
}
