//! Metrics of zones: sums for all of them, and each by itself while there are few.

use super::{Now, lock};
use nodens_core::metrics::{Gauges, Registry};
use nodens_insight::zones::{Catalog, Sum};
use nodens_wire::NameRef;
use nodens_zone::data::room;
use nodens_zone::{Serial, Sight, Zone};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// As many zones have series of their own; with more, none has.
const SERIES_MAX: usize = 100;

type Labels = Vec<(&'static str, String)>;

/// What there is at one moment.
#[derive(Debug, Default)]
pub(super) struct Totals {
    sums: BTreeMap<&'static str, Sum>,
    /// The zones by directive and name, while there are few.
    each: BTreeMap<(&'static str, String), Each>,
    count: usize,
    pub(super) catalogs: Vec<Catalog>,
}

/// What is shown of a zone. Several server blocks may have one of the same name: the worst counts.
#[derive(Debug, Default)]
struct Each {
    serial: Option<Serial>,
    age_s: Option<i64>,
    has_failed: bool,
}

impl Each {
    fn add(&mut self, serial: Option<Serial>, age_s: Option<i64>, has_failed: bool) {
        let is_earlier = |own: &Serial| serial.is_none_or(|serial| *own < serial);
        self.serial = self.serial.filter(is_earlier).or(serial);
        self.age_s = self.age_s.max(age_s);
        self.has_failed |= has_failed;
    }
}

impl Totals {
    pub(super) fn add(&mut self, name: NameRef<'_>, zone: &dyn Zone, sight: &Sight, now: Now) {
        let sum = self
            .sums
            .entry(sight.source)
            .or_insert_with(|| Sum { source: sight.source.to_owned(), ..Sum::default() });
        let has_failed = zone.failure().is_some();
        sum.zones += 1;
        sum.empty += u64::from(sight.data.is_none());
        sum.failed += u64::from(has_failed);
        sum.records += sight.data.as_ref().map_or(0, |data| data.records());
        sum.octets += sight.data.as_ref().map_or(0, |data| data.octets());
        sum.journal += sight.journal as u64;
        self.count += 1;
        if self.count > SERIES_MAX {
            self.each = BTreeMap::new();
            return;
        }
        let serial = sight.data.as_ref().map(|data| data.soa().serial());
        let each = self.each.entry((sight.source, name.to_string())).or_default();
        each.add(serial, now.age(sight), has_failed);
    }

    /// By directive.
    pub(super) fn sums(&self) -> Vec<Sum> {
        self.sums.values().cloned().collect()
    }
}

/// Shows them, for as long as the process lives.
pub(super) fn register(registry: &Registry, totals: &Arc<Mutex<Totals>>) {
    let show = |name, help, read: fn(&Totals) -> Vec<(Labels, f64)>| {
        let totals = totals.clone();
        let read: Gauges = Arc::new(move || read(&lock(&totals)));
        registry.gauges(name, help, read);
    };
    let help = "Zones, by the directive that has them.";
    show("nodens_zones", help, |totals| by_source(totals, |sum| sum.zones));
    let help = "Zones that are not served: nothing is here of them, or they have expired.";
    show("nodens_zones_not_served", help, |totals| by_source(totals, |sum| sum.empty));
    let help = "Zones whose last attempt to get another version failed.";
    show("nodens_zones_failed", help, |totals| by_source(totals, |sum| sum.failed));
    let help = "Records of all zones.";
    show("nodens_zones_records", help, |totals| by_source(totals, |sum| sum.records));
    let help = "Octets of memory that the data of zones take, about.";
    show("nodens_zones_bytes", help, |totals| by_source(totals, |sum| sum.octets));
    let help = "Octets of differences that are kept for secondaries.";
    show("nodens_zones_journal_bytes", help, |totals| by_source(totals, |sum| sum.journal));
    let help = "Octets of memory that the data of all zones may take.";
    show("nodens_zones_max_bytes", help, |_| vec![(Labels::new(), room::most() as f64)]);
    let help = "The serial number that is served; only while there are at most 100 zones.";
    show("nodens_zone_serial", help, |totals| {
        each(totals, |zone| zone.serial.map(|serial| f64::from(serial.0)))
    });
    let help = "Seconds since the zone's file was changed or a primary was reached; only while there \
                are at most 100 zones.";
    show("nodens_zone_age_seconds", help, |totals| {
        each(totals, |zone| zone.age_s.map(|age| age as f64))
    });
    let help = "Whether the last attempt to get another version failed; only while there are at most \
                100 zones.";
    show("nodens_zone_failed", help, |totals| {
        each(totals, |zone| Some(f64::from(u8::from(zone.has_failed))))
    });
    let help = "Members of catalog zones, by whether they are served.";
    show("nodens_catalog_members", help, members);
}

fn by_source(totals: &Totals, value: fn(&Sum) -> u64) -> Vec<(Labels, f64)> {
    let series = |sum: &Sum| (vec![("source", sum.source.clone())], value(sum) as f64);
    totals.sums.values().map(series).collect()
}

fn each(totals: &Totals, value: fn(&Each) -> Option<f64>) -> Vec<(Labels, f64)> {
    let series = |((source, name), zone): (&(&str, String), &Each)| {
        let labels = vec![("source", (*source).to_owned()), ("zone", name.clone())];
        Some((labels, value(zone)?))
    };
    totals.each.iter().filter_map(series).collect()
}

/// Several server blocks may have a catalog of one name: their members count together.
fn members(totals: &Totals) -> Vec<(Labels, f64)> {
    let mut sums: BTreeMap<(&str, &'static str), u64> = BTreeMap::new();
    for catalog in &totals.catalogs {
        let states = [
            ("served", catalog.members),
            ("outside", catalog.outside),
            ("clashing", catalog.clashing),
            ("without_room", catalog.without_room),
        ];
        for (state, count) in states {
            *sums.entry((catalog.name.as_str(), state)).or_default() += count;
        }
    }
    let series = |((name, state), count): ((&str, &str), u64)| {
        (vec![("catalog", name.to_owned()), ("state", state.to_owned())], count as f64)
    };
    sums.into_iter().map(series).collect()
}
