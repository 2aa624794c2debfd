use super::*;
use crate::catalog::Catalog;
use crate::secondary::SecondaryZone;
use crate::zone::Advance;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// All zones but those in `hidden.`, and not the catalog.
#[derive(Debug)]
struct Most;

impl Listing for Most {
    fn lists(&self, zone: NameRef<'_>) -> bool {
        !zone.is_in_domain(name("hidden.").view()) && zone != name("catalog.").view()
    }
}

struct Scene {
    table: Arc<ZoneTable>,
    catalog: Arc<Produced>,
    known: KnownCatalogs,
}

impl Scene {
    fn new() -> Self {
        let (known, table) = (KnownCatalogs::default(), Arc::new(ZoneTable::default()));
        let catalog = known.get(name("Catalog.").view());
        let own = catalog.clone();
        table.update(|update| update.replace(name("catalog.").view(), own));
        Self { table, catalog, known }
    }

    fn producer(&self) -> Producer {
        let (catalog, zones) = (self.catalog.clone(), self.table.clone());
        Producer::new(&[CatalogService { catalog, zones, listing: Arc::new(Most) }], || {})
    }

    fn add(&self, zone: &str) {
        let served = Arc::new(Served::default());
        self.table.update(|update| update.replace(name(zone).view(), served));
    }

    fn remove(&self, zone: &str) {
        self.table.update(|update| _ = update.remove(name(zone).view()));
    }

    /// The members as others read them.
    fn members(&self) -> String {
        let data = self.catalog.served().load_full().unwrap();
        let mut zones: Vec<_> =
            Catalog::read(&data).unwrap().members().map(|own| own.zone.to_string()).collect();
        zones.sort();
        zones.join(" ")
    }

    fn serial(&self) -> Option<u32> {
        self.catalog.soa().map(|soa| soa.serial().0)
    }
}

#[test]
fn zones_are_listed_as_they_come_and_go_with_serials_that_follow_the_time() {
    let scene = Scene::new();
    scene.add("A.example.");
    scene.add("hidden.");
    let mut producer = scene.producer();
    assert!(scene.catalog.soa().is_none() && scene.catalog.version().is_none());
    let mut said = Vec::new();
    assert!(
        !producer.turn(1000, |origin, listed| said.push((origin.to_string(), listed.unwrap())))
    );
    let listed = Listed { serial: Serial(1000), members: 1, added: 1, removed: 0 };
    assert_eq!(said, [("catalog.".to_owned(), listed)]);
    assert_eq!((scene.members().as_str(), scene.serial()), ("a.example.", Some(1000)));
    // In the same second the next version has to wait.
    scene.add("b.example.");
    assert!(producer.turn(1000, |_, _| panic!()));
    assert!(!producer.turn(1001, |_, _| {}));
    assert_eq!((scene.members().as_str(), scene.serial()), ("a.example. b.example.", Some(1001)));
    // A change of a zone is none of the catalog.
    scene.table.announce(name("a.example.").view());
    scene.add("b.hidden.");
    assert!(!producer.turn(1002, |_, _| panic!()));
    scene.remove("a.example.");
    producer.turn(1002, |_, _| {});
    assert_eq!((scene.members().as_str(), scene.serial()), ("b.example.", Some(1002)));
}

#[test]
fn a_clock_that_is_set_back_does_not_delay_changes() {
    let scene = Scene::new();
    let mut producer = scene.producer();
    producer.turn(1000, |_, _| {});
    scene.add("a.example.");
    assert!(!producer.turn(400, |_, _| {}));
    assert_eq!((scene.members().as_str(), scene.serial()), ("a.example.", Some(1001)));
    scene.add("b.example.");
    assert!(producer.turn(400, |_, _| panic!()));
    assert!(producer.turn(999, |_, _| panic!()));
    assert!(!producer.turn(1002, |_, _| {}));
    assert_eq!((scene.members().as_str(), scene.serial()), ("a.example. b.example.", Some(1002)));
}

#[test]
fn a_catalog_without_members_is_one() {
    let scene = Scene::new();
    scene.producer().turn(7, |_, _| {});
    assert_eq!((scene.members().as_str(), scene.serial()), ("", Some(7)));
}

#[test]
fn zones_of_primaries_are_not_listed() {
    let scene = Scene::new();
    let zone = Arc::new(SecondaryZone::new(name("far.example."), Vec::new()));
    scene.table.update(|update| update.replace(name("far.example.").view(), zone));
    scene.producer().turn(7, |_, _| {});
    assert_eq!(scene.members(), "");
}

#[test]
fn differences_are_known() {
    let scene = Scene::new();
    (0..20).for_each(|number| scene.add(&format!("zone-{number}.example.")));
    let mut producer = scene.producer();
    producer.turn(1, |_, _| {});
    scene.add("new.example.");
    scene.remove("zone-3.example.");
    producer.turn(2, |_, _| {});
    let mut version = scene.catalog.since(Serial(1)).unwrap().records;
    let mut types = Vec::new();
    while version.advance() != Advance::End {
        types.extend(version.record().map(|record| record.rtype));
    }
    assert_eq!(types, [Type::SOA, Type::PTR, Type::SOA, Type::PTR]);
    assert!(scene.catalog.since(Serial(2)).is_none());
}

#[test]
fn labels_stay_and_another_configuration_goes_on() {
    let scene = Scene::new();
    scene.add("a.example.");
    scene.add("b.example.");
    scene.producer().turn(5, |_, _| {});
    let ids = |scene: &Scene| {
        let data = scene.catalog.served().load_full().unwrap();
        let catalog = Catalog::read(&data).unwrap();
        let members = catalog.members().map(|own| (own.zone.to_name(), own.id.clone()));
        members.collect::<BTreeMap<_, _>>()
    };
    let before = ids(&scene);
    assert!(Arc::ptr_eq(&scene.catalog, &scene.known.get(name("CATALOG.").view())));
    // What is gone with the next configuration is taken out.
    scene.remove("b.example.");
    scene.add("c.example.");
    scene.producer().turn(6, |_, _| {});
    assert_eq!(scene.members(), "a.example. c.example.");
    assert_eq!(ids(&scene)[&name("a.example.")], before[&name("a.example.")]);
    // A new process has the same labels.
    let other = Scene::new();
    other.add("A.EXAMPLE.");
    other.producer().turn(9, |_, _| {});
    assert_eq!(ids(&other)[&name("a.example.")], before[&name("a.example.")]);
}

#[test]
fn a_name_without_room_for_members_is_known_before() {
    let long = |octets: usize| name(&"abcdefg.".repeat(octets / 8));
    assert!(Produced::has_room(long(208).view()) && !Produced::has_room(long(224).view()));
}

#[test]
fn no_zone_is_taken_out_while_some_may_be_missing() {
    let scene = Scene::new();
    scene.table.set_complete(false);
    scene.add("a.example.");
    let mut said = Vec::new();
    let mut producer = scene.producer();
    assert!(producer.turn(1, |_, listed| said.push(listed)));
    assert!(producer.turn(2, |_, listed| said.push(listed)));
    assert_eq!((said.as_slice(), scene.serial()), (&[Err(Delay::Unknown)][..], None));
    scene.table.set_complete(true);
    assert!(!producer.turn(3, |_, _| {}));
    // Another configuration, which does not find it.
    scene.remove("a.example.");
    scene.table.set_complete(false);
    let mut producer = scene.producer();
    assert!(producer.turn(4, |_, _| {}));
    assert_eq!((scene.members().as_str(), scene.serial()), ("a.example.", Some(3)));
    scene.add("b.example.");
    assert!(producer.turn(5, |_, _| {}));
    assert_eq!(scene.members(), "a.example. b.example.");
    scene.add("a.example.");
    assert!(!producer.turn(6, |_, _| panic!()));
    scene.remove("b.example.");
    scene.table.set_complete(true);
    assert!(!producer.turn(7, |_, _| {}));
    assert_eq!(scene.members(), "a.example.");
}
