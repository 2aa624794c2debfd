use super::*;
use crate::zone::{Soa, Version};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A zone without data.
#[derive(Debug)]
struct Empty;

impl Zone for Empty {
    fn soa(&self) -> Option<Soa> {
        None
    }

    fn version(&self) -> Option<Version> {
        None
    }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn table(names: &[&str]) -> ZoneTable {
    let table = ZoneTable::default();
    table.update(|update| {
        for zone in names {
            assert!(update.add(name(zone).view(), Arc::new(Empty)));
        }
    });
    table
}

fn found(table: &ZoneTable, text: &str) -> Option<String> {
    let zones = table.load();
    zones.find(name(text).view()).map(|(zone, _)| zone.to_name().to_string())
}

/// Lookups in the hash table until a name is found, or is known to lie in no zone.
fn lookups(table: &ZoneTable, text: &str) -> usize {
    let mut lookups = 0;
    table.load().search(name(text).view(), &mut lookups);
    lookups
}

#[test]
fn a_zone_takes_out_itself_and_no_other_of_its_name() {
    let (table, zone) = (ZoneTable::default(), name("example.org."));
    let [own, other] = [Arc::new(Empty), Arc::new(Empty)];
    table.update(|update| {
        assert!(update.add(zone.view(), own.clone()));
        assert!(!update.remove_own(zone.view(), &other));
        assert!(!update.remove_own(name("org.").view(), &own));
    });
    assert_eq!(found(&table, "example.org."), Some("example.org.".to_owned()));
    table.update(|update| assert!(update.remove_own(zone.view(), &own)));
    assert_eq!(found(&table, "example.org."), None);
}

#[test]
fn the_longest_zone_is_found_whatever_the_case() {
    let table = table(&["org.", "Example.ORG.", "b.a.example.org."]);
    let found = |text| found(&table, text);
    assert_eq!(found("www.EXAMPLE.org."), Some("example.org.".to_owned()));
    assert_eq!(found("a.example.org."), Some("example.org.".to_owned()));
    assert_eq!(found("x.y.b.A.example.org."), Some("b.a.example.org.".to_owned()));
    assert_eq!(found("ORG."), Some("org.".to_owned()));
    // Ends with the same octets, but not at a label.
    assert_eq!(found("anexample.org."), Some("org.".to_owned()));
    assert_eq!(found("net."), None);
    assert_eq!(found("."), None);
    assert!(table.load().get(name("EXAMPLE.org.").view()).is_some());
    assert!(table.load().get(name("www.example.org.").view()).is_none());
}

#[test]
fn the_root_contains_everything() {
    let table = table(&["."]);
    assert_eq!(found(&table, "example.org."), Some(".".to_owned()));
    assert_eq!(found(&table, "."), Some(".".to_owned()));
}

#[test]
fn readers_keep_what_they_have_and_see_an_update_at_once() {
    let table = table(&["example.org."]);
    let before = table.load().clone();
    table.update(|update| {
        assert!(!update.add(name("EXAMPLE.org.").view(), Arc::new(Empty)));
        assert!(update.remove(name("Example.org.").view()));
        assert!(!update.remove(name("example.org.").view()));
        assert!(update.add(name("example.net.").view(), Arc::new(Empty)));
    });
    assert!(before.get(name("example.org.").view()).is_some());
    assert_eq!(found(&table, "www.example.org."), None);
    assert_eq!(found(&table, "example.net."), Some("example.net.".to_owned()));
    assert_eq!((before.len(), table.load().len()), (1, 1));
    assert_eq!(lookups(&table, "a.b.c.d."), 1);
    table.update(|update| assert!(update.remove(name("example.net.").view())));
    assert!(table.load().is_empty());
    assert_eq!(lookups(&table, "a.b.c.d."), 0);
}

#[test]
fn those_who_listen_hear_each_change_once_and_are_woken_once() {
    let table = Arc::new(table(&["a.", "b."]));
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    let changes = Arc::new(Changes::new(move || _ = count.fetch_add(1, Ordering::Relaxed)));
    let taken = || {
        let names: Vec<_> = changes.take().map(|(n, name)| format!("{n}:{name}")).collect();
        names.join(" ")
    };
    table.listen(&changes, 7);
    assert_eq!((taken(), woken.load(Ordering::Relaxed)), ("7:a. 7:b.".to_owned(), 1));
    assert_eq!(taken(), "");
    for _ in 0..3 {
        table.announce(name("B.").view());
    }
    table.update(|update| _ = update.remove(name("A.").view()));
    assert_eq!((taken(), woken.load(Ordering::Relaxed)), ("7:a. 7:b.".to_owned(), 2));
    let shown = Shown::default();
    shown.add(&table, name("b."));
    shown.announce();
    assert_eq!(taken(), "7:b.");
    drop(changes);
    table.announce(name("b.").view());
    assert!(lock(&table.listeners).is_empty());
    drop(table);
    shown.announce();
    assert_eq!(woken.load(Ordering::Relaxed), 3);
}

#[test]
fn changes_are_taken_in_the_order_of_their_octets() {
    let table = table(&["a.z.", "bb.", "zz.", "c.", "b.a."]);
    let changes = Arc::new(Changes::new(|| ()));
    table.listen(&changes, 7);
    let taken: Vec<_> = changes.take().map(|(_, name)| name.to_string()).collect();
    // The first octet is the length of a label.
    assert_eq!(taken, ["a.z.", "b.a.", "c.", "bb.", "zz."]);
}

#[test]
fn a_table_shares_the_name_that_it_is_given() {
    let own = SharedName::from(name("example.org."));
    let tables = [ZoneTable::default(), ZoneTable::default()];
    tables[0].update(|update| assert!(update.add(&own, Arc::new(Empty))));
    tables[1].update(|update| update.replace(&own, Arc::new(Empty)));
    for table in tables {
        let zones = table.load();
        let kept = zones.iter().map(|(name, _)| name.as_wire().as_ptr());
        assert!(kept.eq([own.as_wire().as_ptr()]));
    }
}

#[test]
fn a_hundred_thousand_zones_take_as_many_lookups_as_ten() {
    let lookups = |count: u32| {
        let table = ZoneTable::default();
        let zone: Arc<dyn Zone> = Arc::new(Empty);
        table.update(|update| {
            for n in 0..count {
                update.add(name(&format!("z{n}.example.")).view(), zone.clone());
            }
        });
        let names =
            ["www.z3.example.", "a.b.c.d.z9.example.", "z3.example.", "www.none.test.", "x."];
        names.map(|name| lookups(&table, name))
    };
    assert_eq!(lookups(10), [1, 1, 1, 1, 0]);
    assert_eq!(lookups(100_000), lookups(10));
}
