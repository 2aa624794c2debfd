//! The zones of this server, for metrics and `/debug/zones`: which there are, in which version, how old, and
//! what is wrong with them.

mod metrics;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use metrics::Totals;
use nodens_core::{Config, Shared};
use nodens_insight::limits::ZONES_SHOWN;
use nodens_insight::zones::{self, Catalog, Report, Search, Zone as Row};
use nodens_net::clock;
use nodens_wire::NameRef;
use nodens_zone::data::room;
use nodens_zone::secondary::SecondaryZone;
use nodens_zone::{Sight, Zone};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Sums are not made anew more often.
const FRESH: Duration = Duration::from_secs(1);
const NANOSECONDS: i64 = 1_000_000_000;

/// The zones of the configuration that is at work.
pub(crate) struct Zones {
    shared: Arc<Shared>,
    config: Mutex<Option<Arc<Config>>>,
    /// What metrics show, and when that was so.
    totals: Arc<Mutex<Totals>>,
    counted: Mutex<Option<Instant>>,
}

impl std::fmt::Debug for Zones {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Zones")
    }
}

impl Zones {
    /// None yet.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let (config, totals, counted) = Default::default();
        Self { shared, config, totals, counted }
    }

    /// Those of `config` from now on.
    pub(crate) fn take_up(&self, config: Arc<Config>) {
        if has_any(&config) || !config.services.secondaries.is_empty() {
            metrics::register(&self.shared.registry, &self.totals);
        }
        *lock(&self.config) = Some(config);
        *lock(&self.counted) = None;
    }

    /// Adds up what metrics show, unless that was done a moment ago. To be called before the metrics
    /// are read, as whoever reads them has them locked.
    pub(crate) fn count(&self) {
        let mut counted = lock(&self.counted);
        if counted.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        *counted = Some(Instant::now());
        let Some(config) = lock(&self.config).clone() else { return };
        let (mut totals, now) = (Totals::default(), Now::take());
        each(&config, |name, zone| {
            if let Some(sight) = zone.sight() {
                totals.add(name, &**zone, &sight, now);
            }
        });
        totals.catalogs = catalogs(&config).map(|zone| catalog(&zone)).collect();
        *lock(&self.totals) = totals;
    }

    /// A page of them.
    pub(crate) fn report(&self, search: Search, host: String) -> Report {
        self.count();
        let (config, now) = (lock(&self.config).clone(), Now::take());
        let mut report = Report {
            format: 1,
            unix_s: now.unix_s,
            host,
            held: room::held(),
            held_max: room::most(),
            sums: lock(&self.totals).sums(),
            ..Report::default()
        };
        let Some(config) = config else { return report };
        // The first names of all that fit, so that very many cost no memory. All zones of a name are on one page, as
        // the next one goes on behind the name.
        let mut first: BTreeMap<String, Vec<Arc<dyn Zone>>> = BTreeMap::new();
        let wanted = search.name.to_lowercase();
        each(&config, |name, zone| {
            let name = name.to_string();
            if !name.contains(&wanted) || (search.failed && !is_bad(&**zone)) {
                return;
            }
            report.matched += 1;
            if name > search.after {
                first.entry(name).or_default().push(zone.clone());
                if first.len() > ZONES_SHOWN + 1 {
                    first.pop_last();
                }
            }
        });
        let is_more = first.len() > ZONES_SHOWN;
        if is_more {
            first.pop_last();
        }
        let catalogs: Vec<_> = catalogs(&config).collect();
        report.catalogs = catalogs.iter().map(|zone| catalog(zone)).collect();
        let zones =
            first.iter().flat_map(|(name, zones)| zones.iter().map(move |zone| (name, zone)));
        let rows = zones.map(|(name, zone)| row(name.clone(), &**zone, &catalogs, now));
        report.zones = rows.collect();
        let last = report.zones.last().filter(|_| is_more).map(|zone| zone.name.clone());
        report.next = last.map(|last| page(&search, &last));
        report.first = (!search.after.is_empty()).then(|| page(&search, ""));
        report.search = search;
        report
    }
}

/// The time by both clocks.
#[derive(Clone, Copy)]
struct Now {
    mono_ns: u64,
    unix_s: i64,
}

impl Now {
    fn take() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_s = i64::try_from(unix.as_secs()).unwrap_or(i64::MAX);
        Self { mono_ns: clock::now().mono_ns, unix_s }
    }

    /// Seconds from now until then.
    fn until(self, at_ns: u64) -> i64 {
        -self.since(at_ns.cast_signed())
    }

    /// Seconds from then until now.
    fn since(self, at_ns: i64) -> i64 {
        self.mono_ns.cast_signed().saturating_sub(at_ns) / NANOSECONDS
    }

    /// Seconds since the zone's file was changed, or since a primary was reached.
    fn age(self, sight: &Sight) -> Option<i64> {
        let reached = sight.reached_ns.map(|at| self.since(at));
        reached.or_else(|| sight.modified_s.map(|at| self.unix_s.saturating_sub(at).max(0)))
    }
}

/// Whether there is a zone that can be looked at. Looks at no other then.
fn has_any(config: &Config) -> bool {
    let mut tables = config.services.zones.iter();
    tables.any(|table| table.load().iter().any(|(_, zone)| zone.sight().is_some()))
}

/// Every zone that can be looked at, once.
fn each(config: &Config, mut look: impl FnMut(NameRef<'_>, &Arc<dyn Zone>)) {
    let mut seen = HashSet::new();
    for table in &config.services.zones {
        for (name, zone) in table.load().iter() {
            if seen.insert(Arc::as_ptr(zone).addr()) && zone.sight().is_some() {
                look(name.view(), zone);
            }
        }
    }
}

/// How many zones of `config` have nothing to answer from, and the name of one of them.
pub(crate) fn without_data(config: &Config) -> (usize, String) {
    let (mut count, mut example) = (0, String::new());
    each(config, |name, zone| {
        if zone.sight().is_some_and(|sight| sight.data.is_none()) {
            count += 1;
            if example.is_empty() {
                example = name.to_string();
            }
        }
    });
    (count, example)
}

/// The catalogs of a configuration, each once.
fn catalogs(config: &Config) -> impl Iterator<Item = Arc<SecondaryZone>> {
    let configured = config.services.secondaries.iter().flat_map(|service| &service.configured);
    let mut all: Vec<_> =
        configured.filter(|own| own.catalog.is_some()).map(|own| own.zone.clone()).collect();
    all.sort_by_key(|zone| (zone.origin().to_string(), Arc::as_ptr(zone).addr()));
    all.dedup_by(|a, b| Arc::ptr_eq(a, b));
    all.into_iter()
}

fn catalog(zone: &SecondaryZone) -> Catalog {
    let refused = zone.refused();
    Catalog {
        name: zone.origin().to_string(),
        serial: zone.soa().map(|soa| soa.serial().0),
        members: zone.sight().map_or(0, |sight| sight.members as u64),
        outside: refused.outside as u64,
        clashing: refused.clashing as u64,
        without_room: refused.without_room as u64,
        failure: zone.failure(),
    }
}

fn is_bad(zone: &dyn Zone) -> bool {
    zone.failure().is_some() || zone.sight().is_some_and(|sight| sight.data.is_none())
}

fn row(name: String, zone: &dyn Zone, catalogs: &[Arc<SecondaryZone>], now: Now) -> Row {
    let sight = zone.sight().unwrap_or_default();
    let own = zone.as_secondary();
    let has = |catalog: &&Arc<SecondaryZone>| own.is_some_and(|own| catalog.has_member(own));
    Row {
        name,
        source: sight.source.to_owned(),
        from: zone.comes_from(),
        catalog: catalogs.iter().find(has).map(|catalog| catalog.origin().to_string()),
        serial: sight.data.as_ref().map(|data| data.soa().serial().0),
        records: sight.data.as_ref().map_or(0, |data| data.records()),
        octets: sight.data.as_ref().map_or(0, |data| data.octets()),
        age_s: now.age(&sight),
        refresh_s: sight.refresh_ns.map(|at| now.until(at)),
        expires_s: sight.expires_ns.map(|at| now.until(at)),
        failure: zone.failure(),
    }
}

/// The query of the page behind this name; of the first one where that is empty.
fn page(search: &Search, after: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if !search.name.is_empty() {
        query.append_pair("name", &search.name);
    }
    if search.failed {
        query.append_pair("failed", "1");
    }
    if !after.is_empty() {
        query.append_pair("after", after);
    }
    query.finish()
}

/// What a query asks for; what it does not know is passed over.
pub(crate) fn search(query: &str) -> Search {
    let mut search = Search::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "name" => search.name = value.into_owned(),
            "failed" => search.failed = !matches!(&*value, "" | "0"),
            "after" => search.after = value.into_owned(),
            _ => {}
        }
    }
    search
}

/// The report as `path` has it.
pub(crate) fn show(report: &Report, is_json: bool) -> Response {
    let (kind, body) = match is_json {
        true => ("application/json", serde_json::to_string(report).unwrap_or_default()),
        false => ("text/html; charset=utf-8", zones::render(report)),
    };
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, zones::policy()),
    ];
    (headers, body).into_response()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
