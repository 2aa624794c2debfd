//! Counters that each worker keeps for itself and a scrape adds up, so that a hit writes no
//! cache line that another CPU writes.

mod exposition;
mod lazy;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use exposition::Exposition;
use exposition::{Head, Kind, Value, Writer};
pub use lazy::{LazyCounters, LazyHistograms};

/// Cells of a page; pages are added as series are registered.
const PAGE_CELLS: usize = 1024;

type Page = Arc<[AtomicU64; PAGE_CELLS]>;

/// A series that only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter(u32);

/// A series of cumulative buckets; observations are in nanoseconds or octets.
#[derive(Clone, Copy, Debug)]
pub struct Histogram {
    first: u32,
    scheme: &'static Scheme,
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.first == other.first
    }
}

/// Where the buckets of histograms end.
#[derive(Debug, PartialEq)]
struct Scheme {
    /// In the unit of observations.
    limits: Box<[u64]>,
    /// In the unit of the series.
    bounds: &'static [f64],
    /// What one unit of an observation is worth in the unit of the bounds.
    scale: f64,
}

impl Scheme {
    fn new(bounds: &'static [f64], scale: f64) -> Self {
        let limits = bounds.iter().map(|bound| (bound / scale).round() as u64).collect();
        Self { limits, bounds, scale }
    }

    /// One cell per bucket, one for +Inf, one for the sum.
    fn cells(&self) -> usize {
        self.limits.len() + 2
    }
}

/// A value read at scrape time.
pub type Gauge = Arc<dyn Fn() -> f64 + Send + Sync>;

/// Values read at scrape time, each with its labels.
pub type Gauges = Arc<dyn Fn() -> Vec<(Vec<(&'static str, String)>, f64)> + Send + Sync>;

#[derive(Clone)]
enum Series {
    Counter(Counter),
    Histogram(Histogram),
    Gauge(Gauge),
}

#[derive(Clone)]
struct Family {
    help: &'static str,
    kind: Kind,
    series: BTreeMap<Arc<str>, Series>,
    /// Series that come and go.
    more: Option<Gauges>,
}

/// Families are copied when they change while a scrape reads them: a worker that counts something for the first time
/// must not wait until megabytes are written.
#[derive(Clone, Default)]
struct Inner {
    families: BTreeMap<&'static str, Arc<Family>>,
    next: u32,
    pages: Vec<Vec<Page>>,
}

/// The schemes of all histograms. There are few, and they live as long as the process, as series do.
static SCHEMES: Mutex<Vec<&'static Scheme>> = Mutex::new(Vec::new());

fn scheme_of(bounds: &'static [f64], scale: f64) -> &'static Scheme {
    let scheme = Scheme::new(bounds, scale);
    let mut schemes = SCHEMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = schemes.iter().find(|known| ***known == scheme) {
        return known;
    }
    let scheme: &'static Scheme = Box::leak(Box::new(scheme));
    schemes.push(scheme);
    scheme
}

/// All series of the process. Series outlive a reload: registering a known one gives it back.
pub struct Registry {
    inner: Mutex<Inner>,
}

/// One writer's cells.
#[derive(Clone, Default)]
pub struct Cells {
    pages: Vec<Page>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Registry")
    }
}

impl std::fmt::Debug for Cells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cells({} pages)", self.pages.len())
    }
}

impl Registry {
    /// A registry for `writers` threads that count.
    pub fn new(writers: usize) -> Self {
        let inner = Inner { pages: vec![Vec::new(); writers], ..Inner::default() };
        Self { inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counter `name` with `labels` as `(name, value)` pairs.
    pub fn counter(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
    ) -> Counter {
        let mut inner = self.lock();
        let key = label_text(labels);
        if let Some(Series::Counter(known)) = inner.find(name, &key) {
            return *known;
        }
        let counter = Counter(inner.allocate(1));
        inner.insert(name, help, Kind::Counter, key, Series::Counter(counter));
        counter
    }

    /// The histogram `name`; `scale` converts an observation into the unit of `bounds`.
    pub fn histogram(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        bounds: &'static [f64],
        scale: f64,
    ) -> Histogram {
        let mut inner = self.lock();
        let key = label_text(labels);
        if let Some(Series::Histogram(known)) = inner.find(name, &key) {
            return *known;
        }
        let scheme = scheme_of(bounds, scale);
        let first = inner.allocate(scheme.cells());
        let histogram = Histogram { first, scheme };
        inner.insert(name, help, Kind::Histogram, key, Series::Histogram(histogram));
        histogram
    }

    /// A value that `read` gives at each scrape; replaces a gauge of the same name and labels.
    pub fn gauge(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        read: Gauge,
    ) {
        self.lock().insert(name, help, Kind::Gauge, label_text(labels), Series::Gauge(read));
    }

    /// Values that `read` gives at each scrape, whose labels come and go; replaces those of the same name.
    /// There must be few.
    pub fn gauges(&self, name: &'static str, help: &'static str, read: Gauges) {
        let (kind, series) = (Kind::Gauge, BTreeMap::new());
        let family = Family { help, kind, series, more: Some(read) };
        self.lock().families.insert(name, Arc::new(family));
    }

    /// A total that something else counts and `read` gives at each scrape.
    pub fn total(&self, name: &'static str, help: &'static str, read: Gauge) {
        self.labelled_total(name, help, &[], read);
    }

    /// [`Registry::total`] with labels.
    pub fn labelled_total(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        read: Gauge,
    ) {
        self.lock().insert(name, help, Kind::Counter, label_text(labels), Series::Gauge(read));
    }

    /// Removes all series of the family `name`.
    pub fn clear(&self, name: &str) {
        self.lock().families.remove(name);
    }

    /// The cells of writer `writer`, with room for every series registered so far.
    pub fn cells(&self, writer: usize) -> Cells {
        Cells { pages: self.lock().pages.get(writer).cloned().unwrap_or_default() }
    }

    /// The current sum of a counter over all writers.
    pub fn value(&self, counter: Counter) -> u64 {
        self.lock().sum(counter.0)
    }

    /// All series as text.
    pub fn render(&self) -> String {
        String::from_utf8(self.render_as(Exposition::Text)).unwrap_or_default()
    }

    /// All series in a format.
    pub fn render_as(&self, format: Exposition) -> Vec<u8> {
        let inner = self.lock().clone();
        let mut writer = Writer::new(format);
        for (name, family) in &inner.families {
            let head = Head { name, help: family.help, kind: family.kind };
            let series = family.series.iter();
            let series = series.map(|(labels, series)| inner.value_of(labels, series));
            let more = family.more.as_ref().map(|read| read()).unwrap_or_default();
            let more: Vec<_> = more.iter().map(|(labels, value)| (texts(labels), value)).collect();
            if family.more.is_some() && more.is_empty() {
                continue;
            }
            let more = more.iter().map(|(labels, value)| (&**labels, Value::Number(**value)));
            writer.family(head, series.chain(more));
        }
        writer.finish()
    }
}

impl Inner {
    fn find(&self, name: &str, key: &str) -> Option<&Series> {
        self.families.get(name)?.series.get(key)
    }

    fn insert(
        &mut self,
        name: &'static str,
        help: &'static str,
        kind: Kind,
        key: String,
        series: Series,
    ) {
        let new = || Arc::new(Family { help, kind, series: BTreeMap::new(), more: None });
        let family = Arc::make_mut(self.families.entry(name).or_insert_with(new));
        family.series.insert(key.into(), series);
    }

    /// Cells for one series, side by side in one page, so that they are looked up once.
    fn allocate(&mut self, cells: usize) -> u32 {
        debug_assert!(cells <= PAGE_CELLS);
        let left = PAGE_CELLS - self.next as usize % PAGE_CELLS;
        if cells > left {
            self.next += left as u32;
        }
        let first = self.next;
        self.next += u32::try_from(cells).unwrap_or(u32::MAX);
        let pages = (self.next as usize).div_ceil(PAGE_CELLS);
        for writer in &mut self.pages {
            while writer.len() < pages {
                writer.push(Arc::new([const { AtomicU64::new(0) }; PAGE_CELLS]));
            }
        }
        first
    }

    fn sum(&self, cell: u32) -> u64 {
        let (page, slot) = (cell as usize / PAGE_CELLS, cell as usize % PAGE_CELLS);
        let cells = self.pages.iter().filter_map(|pages| pages.get(page)?.get(slot));
        cells.map(|cell| cell.load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }

    fn value_of<'a>(&self, labels: &'a str, series: &Series) -> (&'a str, Value) {
        let value = match series {
            Series::Counter(Counter(cell)) => Value::Number(self.sum(*cell) as f64),
            Series::Gauge(read) => Value::Number(read()),
            Series::Histogram(histogram) => self.buckets(histogram),
        };
        (labels, value)
    }

    fn buckets(&self, of: &Histogram) -> Value {
        let mut count = 0;
        let bounds = of.scheme.bounds.iter().copied().chain(std::iter::once(f64::INFINITY));
        let bucket = |(cell, bound)| {
            count += self.sum(cell);
            (bound, count)
        };
        let buckets = (of.first..).zip(bounds).map(bucket).collect();
        let sum = self.sum(of.first + of.scheme.limits.len() as u32 + 1) as f64 * of.scheme.scale;
        Value::Histogram { buckets, sum }
    }
}

fn texts(labels: &[(&'static str, String)]) -> String {
    let labels: Vec<_> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
    label_text(&labels)
}

fn label_text(labels: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in labels {
        let comma = if text.is_empty() { "" } else { "," };
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        _ = write!(text, "{comma}{name}=\"{value}\"");
    }
    text
}

impl Cells {
    /// Adds to a counter. Only the owner of these cells may call this: the addition is two
    /// separate relaxed accesses, which is what makes it free of bus locks.
    #[inline]
    pub fn add(&self, counter: Counter, n: u64) {
        self.try_add(counter, n);
    }

    /// Adds one observation to a histogram.
    pub fn observe(&self, histogram: Histogram, value: u64) {
        self.observe_many(histogram, value, 1);
    }

    /// Adds `count` equal observations to a histogram.
    pub fn observe_many(&self, histogram: Histogram, value: u64, count: u64) {
        self.try_observe(histogram, value, count);
    }

    /// [`Cells::add`]; false if the counter was registered after these cells were taken.
    #[inline]
    fn try_add(&self, Counter(cell): Counter, n: u64) -> bool {
        let (page, slot) = (cell as usize / PAGE_CELLS, cell as usize % PAGE_CELLS);
        let Some(page) = self.pages.get(page) else { return false };
        page.get(slot).is_some_and(|cell| add_to(cell, n))
    }

    /// [`Cells::observe_many`]; false if the histogram was registered after these cells were taken.
    #[inline]
    fn try_observe(&self, Histogram { first, scheme }: Histogram, value: u64, count: u64) -> bool {
        let (page, slot) = (first as usize / PAGE_CELLS, first as usize % PAGE_CELLS);
        let Some(page) = self.pages.get(page) else { return false };
        // They are all in one page, see `Inner::allocate`.
        let limits = &*scheme.limits;
        let Some([buckets @ .., sum]) = page.get(slot..slot + scheme.cells()) else { return false };
        // Most observations are small, so this is quicker than halving.
        let bucket = limits.iter().position(|limit| value <= *limit).unwrap_or(limits.len());
        add_to(sum, value.wrapping_mul(count));
        buckets.get(bucket).is_some_and(|cell| add_to(cell, count))
    }
}

#[inline]
fn add_to(cell: &AtomicU64, n: u64) -> bool {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_added_up_and_a_reload_keeps_the_count() {
        let registry = Registry::new(2);
        let counter = registry.counter("nodens_test_total", "Test.", &[("a", "x\"y")]);
        registry.cells(0).add(counter, 2);
        registry.cells(1).add(counter, 3);
        let again = registry.counter("nodens_test_total", "Test.", &[("a", "x\"y")]);
        assert_eq!(counter, again);
        assert_eq!(registry.value(again), 5);
        assert!(registry.render().contains("nodens_test_total{a=\"x\\\"y\"} 5\n"));
    }

    #[test]
    fn series_that_come_and_go_are_read_at_each_scrape() {
        let registry = Registry::new(1);
        let zones = Arc::new(Mutex::new(vec!["a\"b".to_owned()]));
        let shown = zones.clone();
        let read: Gauges = Arc::new(move || {
            let zones = shown.lock().unwrap();
            zones.iter().map(|zone| (vec![("zone", zone.clone())], 7.0)).collect()
        });
        registry.gauges("nodens_test", "Test.", read);
        assert!(registry.render().ends_with("nodens_test{zone=\"a\\\"b\"} 7\n"));
        zones.lock().unwrap().clear();
        assert_eq!(registry.render(), "", "there is nothing to say of none");
    }

    #[test]
    fn a_new_series_does_not_wait_for_a_scrape() {
        let registry = Arc::new(Registry::new(1));
        let weak = Arc::downgrade(&registry);
        // While this value is read, series are registered, one of them of the same family.
        let read: Gauge = Arc::new(move || {
            let weak = weak.clone();
            let (done, other) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let registry = weak.upgrade().unwrap();
                let counter = registry.counter("nodens_test_total", "Test.", &[("n", "2")]);
                registry.cells(0).add(counter, 1);
                registry.gauge("nodens_test", "Test.", &[("n", "2")], Arc::new(|| 2.0));
                done.send(()).unwrap();
            });
            other.recv_timeout(std::time::Duration::from_secs(20)).map_or(0.0, |()| 1.0)
        });
        registry.gauge("nodens_test", "Test.", &[("n", "1")], read);
        let text = registry.render();
        assert!(text.contains("nodens_test{n=\"1\"} 1\n") && !text.contains("n=\"2\""), "{text}");
        let text = registry.render();
        assert!(text.contains("nodens_test{n=\"2\"} 2\n"), "{text}");
        assert!(text.contains("nodens_test_total{n=\"2\"} "), "{text}");
    }

    #[test]
    fn histogram_buckets_are_cumulative() {
        let registry = Registry::new(1);
        let bounds = &[0.001, 0.01];
        let histogram = registry.histogram("h_seconds", "Test.", &[], bounds, 1e-9);
        let cells = registry.cells(0);
        for ns in [1_000_000, 1_000_001, 5_000_000_000] {
            cells.observe(histogram, ns);
        }
        let text = registry.render();
        for line in [
            "h_seconds_bucket{le=\"0.001\"} 1\n",
            "h_seconds_bucket{le=\"0.01\"} 2\n",
            "h_seconds_bucket{le=\"+Inf\"} 3\n",
            "h_seconds_count 3\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn histograms_are_whole_wherever_a_page_ends() {
        let registry = Registry::new(1);
        let names: Vec<_> = (0..PAGE_CELLS).map(|n| n.to_string()).collect();
        let bounds = &[0.001, 0.01, 0.1];
        let of = |n: &str| registry.histogram("h_seconds", "Test.", &[("n", n)], bounds, 1e-9);
        let histograms: Vec<_> = names.iter().map(|n| of(n)).collect();
        let cells = registry.cells(0);
        for histogram in &histograms {
            [1, 2_000_000, 5_000_000_000].into_iter().for_each(|ns| cells.observe(*histogram, ns));
        }
        let text = registry.render();
        for n in &names {
            for (le, count) in [("0.001", 1), ("0.01", 2), ("0.1", 2), ("+Inf", 3)] {
                let line = format!("h_seconds_bucket{{n=\"{n}\",le=\"{le}\"}} {count}\n");
                assert!(text.contains(&line), "{line}");
            }
            let sum = 5_002_000_001_f64 * 1e-9;
            assert!(text.contains(&format!("h_seconds_sum{{n=\"{n}\"}} {sum}\n")));
        }
    }

    #[test]
    fn more_series_than_a_page_holds_are_all_counted() {
        let registry = Registry::new(1);
        let names: Vec<_> = (0..3 * PAGE_CELLS).map(|n| n.to_string()).collect();
        let counters: Vec<_> =
            names.iter().map(|n| registry.counter("n_total", "Test.", &[("n", n)])).collect();
        let cells = registry.cells(0);
        for counter in &counters {
            cells.add(*counter, 1);
        }
        assert!(counters.iter().all(|counter| registry.value(*counter) == 1));
    }
}
