//! What the memory there is goes to. One place divides it, so that all bounds together fit into
//! what the control group allows, with a tenth to spare.

use nodens_core::Config;
use nodens_core::handlers::{Handler, cache};
use nodens_core::limits::{
    CACHE_MEMORY_DEFAULT, PENDING_OCTETS, PENDING_PER_WORKER_MAX, PENDING_PER_WORKER_MIN,
};
use nodens_corefile::Corefile;
use std::fmt;

/// Of ten parts of the limit so many are given out.
const USED_TENTHS: usize = 9;
/// The program itself, in octets: code and tables, threads beside the workers, a scrape, what the
/// kernel keeps for it.
const PROGRAM: usize = 16 << 20;
/// A worker at full load, in octets: its stack, a batch of datagrams each way, buffers for
/// upstreams, metric cells, a sketch, and what the allocator keeps for its thread.
/// Check: `memory_stays_below_its_limit_with_any_number_of_workers`
const WORKER: usize = 832 << 10;
/// One part in this many of the limit is the most that workers may take.
const WORKERS_SHARE: usize = 4;
/// One part in this many is for what is known of clusters: names, endpoints, a list being read.
const CLUSTERS_SHARE: usize = 8;
/// The most of that.
const CLUSTERS_MAX: usize = 1 << 30;
/// One part in this many is for queries that wait, for what client connections hold, and for the
/// connections themselves, each.
const SHARE: usize = 16;
/// The most of each of them, but for connections: there may be as many as there is a sixteenth of the
/// memory for, if there are descriptors for so many.
const SHARE_MAX: usize = 256 << 20;
/// A connection of a client, in octets: in the kernel, and what each may hold beside the budget.
const CONNECTION: usize = 12 << 10;
/// What the allocator needs for a cache beside the entries: one part in so many.
const CACHE_EXTRA: usize = 5;
/// What a successor needs at once beside workers and cache, in octets.
const SUCCESSOR: usize = 12 << 20;
/// The cache is never smaller than this.
const CACHE_MIN: usize = nodens_core::limits::CACHE_MEMORY_MIN;
/// The least limit is not looked for above so many MiB, where everything fits.
const LEAST_LIMIT_MAX: usize = 128;

/// What the budget is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// Octets of memory there are.
    pub(crate) limit: usize,
    /// Workers that are wanted.
    pub(crate) workers: usize,
    /// Octets for queries that wait, if a flag says so.
    pub(crate) pending: Option<usize>,
    /// Client connections for which there are descriptors.
    pub(crate) connections: usize,
}

/// What the Corefile wants for the cache of all blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// No block has one.
    None,
    /// It leaves the size to us.
    Default,
    /// So many octets.
    Wanted(usize),
}

impl Cache {
    /// Of a configuration.
    pub(crate) fn of(config: &Config) -> Self {
        let mut handlers = config.blocks.iter().flat_map(|block| &block.handlers);
        match config.cache_memory {
            Some(octets) => Self::Wanted(octets),
            None if handlers.any(|handler| matches!(handler, Handler::Cache(_))) => Self::Default,
            None => Self::None,
        }
    }

    /// Of a configuration that is not made yet, which is made of this.
    pub(crate) fn written(tree: &Corefile) -> Self {
        let directives = tree.blocks.iter().flat_map(|block| &block.directives);
        let caches = directives.filter(|directive| directive.name.text == "cache");
        caches.fold(Self::None, |before, directive| match (before, cache::memory_in(directive)) {
            (Self::Wanted(most), Some(octets)) => Self::Wanted(most.max(octets)),
            (_, Some(octets)) => Self::Wanted(octets),
            (Self::Wanted(most), None) => Self::Wanted(most),
            (_, None) => Self::Default,
        })
    }

    fn octets(self) -> usize {
        match self {
            Self::None => 0,
            Self::Default => CACHE_MEMORY_DEFAULT,
            Self::Wanted(octets) => octets,
        }
    }
}

/// The parts, in octets where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    wishes: Wishes,
    /// How many workers there are.
    pub(crate) workers: usize,
    /// Queries that wait for upstreams.
    pub(crate) pending: usize,
    /// Unread responses, and unread queries, of client connections.
    pub(crate) held: usize,
    /// How many client connections there may be.
    pub(crate) connections: usize,
    /// The cache, at most.
    pub(crate) cache: usize,
    clusters: usize,
}

impl Budget {
    /// Divides what there is. The cache gets what the others leave.
    pub(crate) fn new(wishes: Wishes) -> Self {
        let limit = wishes.limit;
        let share = (limit / SHARE).min(SHARE_MAX);
        let clusters = (limit / CLUSTERS_SHARE).min(CLUSTERS_MAX);
        let connections = (limit / SHARE / CONNECTION).min(wishes.connections);
        let fixed = PROGRAM + clusters + share + connections * CONNECTION;
        let least = CACHE_MIN + CACHE_MIN / CACHE_EXTRA;
        // A small limit has room for fewer workers than their part of it.
        let room = usable(limit).saturating_sub(fixed + share + least);
        let workers =
            wishes.workers.clamp(1, (limit / WORKERS_SHARE).min(room).max(WORKER) / WORKER);
        let others = fixed + workers * WORKER;
        let room = usable(limit).saturating_sub(others + least).max(share);
        let pending = waiting(wishes.pending.unwrap_or(share).min(room), workers);
        let left = usable(limit).saturating_sub(others + pending);
        let cache = (left - left / (CACHE_EXTRA + 1)).max(CACHE_MIN);
        Self { wishes, workers, pending, held: share, connections, cache, clusters }
    }

    /// How many client connections there should be descriptors for: as many as there is memory for, or so
    /// many that most machines never have more.
    pub(crate) fn connections_wanted(&self) -> usize {
        self.held / CONNECTION
    }

    /// What a successor may have as cache while its predecessor still has all it has; `used` is
    /// what is in use now in the group of both, or of the successor alone.
    pub(crate) fn cache_beside(&self, used: usize) -> usize {
        let own = SUCCESSOR + self.workers * WORKER / 2;
        let left = usable(self.wishes.limit).saturating_sub(used + own + self.pending);
        (left - left / (CACHE_EXTRA + 1)).clamp(CACHE_MIN, self.cache)
    }

    /// What data of zones may take while a predecessor still has all it has; `used` as in
    /// [`Budget::cache_beside`].
    pub(crate) fn zones_beside(&self, used: usize) -> usize {
        let least = CACHE_MIN + CACHE_MIN / CACHE_EXTRA;
        let own = SUCCESSOR + self.workers * WORKER / 2 + least;
        usable(self.wishes.limit).saturating_sub(used + own)
    }

    /// What the cache may have at most while data of zones take so many octets.
    pub(crate) fn cache_with(&self, zones: usize) -> usize {
        let others = self.total(0).saturating_sub(self.clusters);
        let left = usable(self.wishes.limit).saturating_sub(others.saturating_add(zones));
        (left - left / (CACHE_EXTRA + 1)).clamp(CACHE_MIN, self.cache)
    }

    /// What data of zones may take while the cache has so much: what the other parts leave, and the part of
    /// clusters.
    pub(crate) fn zones(&self, cache: Cache) -> usize {
        let others = self.total(cache.octets().min(self.cache)).saturating_sub(self.clusters);
        usable(self.wishes.limit).saturating_sub(others)
    }

    /// What does not fit, or leaves little for others, for an operator who asked for it.
    pub(crate) fn warnings(&self, cache: Cache) -> Vec<String> {
        let limit = mebibytes(self.wishes.limit);
        let too_small = (self.total(CACHE_MIN) > usable(self.wishes.limit)).then(|| {
            format!(
                "the memory limit of {limit} is too small, the process may be killed: the least \
                 that works is {}",
                mebibytes(self.least_limit())
            )
        });
        let wanted = self.wishes.workers;
        let workers = (self.workers < wanted).then(|| {
            format!(
                "{} {} instead of {wanted}: no more fit into the memory limit of {limit}",
                self.workers,
                Workers::word(self.workers)
            )
        });
        let size = match cache {
            Cache::Wanted(wanted) if wanted > self.cache => Some(format!(
                "cache of {} instead of {}: no more fits into the memory limit of {limit}",
                mebibytes(self.cache),
                mebibytes(wanted)
            )),
            _ => None,
        };
        let parts =
            [too_small, workers, self.too_many_waiting(), self.taken_by_waiting(cache), size];
        parts.into_iter().flatten().collect()
    }

    /// What `-pending-memory` asks for and does not get.
    fn too_many_waiting(&self) -> Option<String> {
        let told = self.wishes.pending?;
        let useful = PENDING_PER_WORKER_MAX * PENDING_OCTETS * self.workers;
        let reason = if told > useful && self.pending == useful {
            format!("a worker has at most {PENDING_PER_WORKER_MAX} queries that wait")
        } else if waiting(told, self.workers) > self.pending {
            format!("no more fits into the memory limit of {}", mebibytes(self.wishes.limit))
        } else {
            return None;
        };
        let [got, told] = [self.pending, told].map(mebibytes);
        Some(format!("-pending-memory of {got} instead of {told}: {reason}"))
    }

    /// What `-pending-memory` takes from the cache.
    fn taken_by_waiting(&self, cache: Cache) -> Option<String> {
        self.wishes.pending?;
        let without = Self::new(Wishes { pending: None, ..self.wishes });
        let [before, left] = [without.cache, self.cache].map(|most| most.min(cache.octets()));
        (left < before).then(|| {
            format!(
                "-pending-memory takes {} of the memory limit of {}, {} without the flag: {} are \
                 left for the cache instead of {}",
                mebibytes(self.pending),
                mebibytes(self.wishes.limit),
                mebibytes(without.pending),
                mebibytes(left),
                mebibytes(before)
            )
        })
    }

    /// The least limit, in whole MiB, that holds the least of everything.
    fn least_limit(&self) -> usize {
        let fits = |limit: &usize| {
            let budget = Self::new(Wishes { limit: *limit, ..self.wishes });
            budget.total(CACHE_MIN) <= usable(*limit)
        };
        (1..LEAST_LIMIT_MAX).map(mebi).find(fits).unwrap_or(mebi(LEAST_LIMIT_MAX))
    }

    /// All parts at their bounds, with so much as cache.
    fn total(&self, cache: usize) -> usize {
        let others = PROGRAM + self.workers * WORKER + self.clusters;
        let clients = self.held + self.connections * CONNECTION;
        others + self.pending + clients + cache + cache / CACHE_EXTRA
    }

    /// The division in one line.
    pub(crate) fn describe(&self, cache: Cache) -> String {
        let own = cache.octets().min(self.cache);
        let size = match cache {
            Cache::None => "no cache".to_owned(),
            _ => format!("cache {} and {} beside it", mebibytes(own), mebibytes(own / CACHE_EXTRA)),
        };
        format!(
            "at most {} of {}: {}, {size}, waiting queries {}, unread responses {}, {} client \
             connections {} ({} of one address, {} of one network), clusters {}, program {}; \
             data of zones at most {}, with the part of clusters",
            mebibytes_up(self.total(own)),
            mebibytes(self.wishes.limit),
            Workers(self.workers),
            mebibytes(self.pending),
            mebibytes(self.held),
            self.connections,
            mebibytes(self.connections * CONNECTION),
            nodens_net::connections_per_client(self.connections),
            nodens_net::connections_per_network(self.connections),
            mebibytes(self.clusters),
            mebibytes(PROGRAM),
            mebibytes(self.zones(cache))
        )
    }
}

/// What queries that wait take if `octets` are given to them, which is a number of queries for each
/// worker.
fn waiting(octets: usize, workers: usize) -> usize {
    let each = octets / PENDING_OCTETS / workers;
    each.clamp(PENDING_PER_WORKER_MIN, PENDING_PER_WORKER_MAX) * PENDING_OCTETS * workers
}

struct Workers(usize);

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.0, Self::word(self.0), mebibytes(self.0 * WORKER))
    }
}

impl Workers {
    fn word(number: usize) -> &'static str {
        if number == 1 { "worker" } else { "workers" }
    }
}

fn usable(limit: usize) -> usize {
    limit / 10 * USED_TENTHS
}

fn mebi(number: usize) -> usize {
    number << 20
}

/// The same as [`mebibytes`], rounded up.
fn mebibytes_up(octets: usize) -> String {
    mebibytes(octets.saturating_add((1 << 20) / 10 - 1))
}

/// As `12.5MiB`.
fn mebibytes(octets: usize) -> String {
    let tenths = octets / (1 << 20) * 10 + octets % (1 << 20) * 10 / (1 << 20);
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole}MiB"),
        (whole, tenth) => format!("{whole}.{tenth}MiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(limit_mib: usize, workers: usize) -> Budget {
        told(limit_mib, workers, None)
    }

    fn told(limit_mib: usize, workers: usize, pending_mib: Option<usize>) -> Budget {
        let pending = pending_mib.map(mebi);
        Budget::new(Wishes { limit: mebi(limit_mib), workers, pending, connections: 1 << 20 })
    }

    #[test]
    fn all_parts_fit_into_nine_tenths_of_any_limit_with_any_number_of_workers() {
        for limit in [32, 36, 40, 48, 50, 64, 70, 128, 170, 192, 256, 512, 4096, 65_536] {
            for workers in [1, 2, 16, 96, 192, 256, 1024] {
                for pending in [None, Some(0), Some(1), Some(24), Some(100), Some(4000)] {
                    let budget = told(limit, workers, pending);
                    let total = budget.total(budget.cache);
                    let what = format!("{limit} MiB, {workers}, {pending:?}: {total}");
                    assert!(total <= usable(mebi(limit)) + 8, "{what}");
                    assert!(budget.workers >= 1 && budget.cache >= CACHE_MIN, "{what}");
                }
            }
        }
    }

    #[test]
    fn the_charts_limits_leave_a_small_node_its_whole_cache() {
        let node = budget(192, 4);
        assert_eq!((node.workers, node.pending), (4, mebi(12)));
        assert!(node.cache >= mebi(64), "{}", node.cache);
        for cache in [Cache::None, Cache::Default, Cache::Wanted(mebi(64))] {
            assert!(node.warnings(cache).is_empty());
        }
        assert!(budget(170, 8).cache >= mebi(48));
    }

    #[test]
    fn zones_get_what_the_others_leave() {
        for limit in [64, 192, 4096] {
            for cache in [Cache::None, Cache::Default, Cache::Wanted(mebi(1 << 20))] {
                let budget = budget(limit, 2);
                let own = cache.octets().min(budget.cache);
                let all = budget.total(own) - budget.clusters + budget.zones(cache);
                assert!(all <= usable(mebi(limit)), "{limit} {cache:?}");
                // Octets are lost where parts are divided.
                assert!(budget.zones(cache) + 8 >= budget.clusters, "{limit} {cache:?}");
            }
        }
        assert!(
            budget(192, 2).zones(Cache::None) > budget(192, 2).zones(Cache::Default) + mebi(64)
        );
    }

    #[test]
    fn what_a_corefile_wants_is_known_before_it_is_compiled() {
        for (text, expected) in [
            (". {\n whoami\n}", Cache::None),
            (". {\n cache 30\n}", Cache::Default),
            (
                ". {\n cache {\n memory 8MiB\n }\n}\na. {\n cache {\n memory 9MiB\n }\n}",
                Cache::Wanted(mebi(9)),
            ),
            (". {\n cache {\n memory 9MiB\n }\n}\na. {\n cache\n}", Cache::Wanted(mebi(9))),
            ("(own) {\n cache {\n memory 7MiB\n }\n}\n. {\n import own\n}", Cache::Wanted(mebi(7))),
            (". {\n cache {\n memory much\n }\n}", Cache::Default),
        ] {
            let tree =
                nodens_corefile::parse("Corefile", text, &nodens_corefile::NoSources).unwrap();
            assert_eq!(Cache::written(&tree), expected, "{text}");
        }
    }

    #[test]
    fn zones_a_cache_and_a_predecessor_fit_together() {
        let node = budget(192, 4);
        for zones in [0, 10, 40, 60, 90].map(mebi) {
            let cache = node.cache_with(zones);
            let all = node.total(cache) - node.clusters + zones;
            assert!(all <= usable(mebi(192)) || cache == CACHE_MIN, "{zones} {cache}");
        }
        assert_eq!(node.cache_with(0), node.cache);
        assert!(node.zones_beside(mebi(100)) + mebi(100) < usable(mebi(192)));
        assert_eq!(node.zones_beside(mebi(190)), 0);
    }

    #[test]
    fn a_large_node_has_fewer_workers_and_says_so_with_both_numbers() {
        let node = budget(192, 128);
        assert!((32..128).contains(&node.workers), "{}", node.workers);
        assert!(node.cache >= mebi(24), "{}", node.cache);
        let warnings = node.warnings(Cache::Wanted(mebi(128)));
        assert!(warnings[0].contains("instead of 128"), "{warnings:?}");
        assert!(warnings[1].contains("instead of 128MiB"), "{warnings:?}");
    }

    #[test]
    fn the_line_has_the_numbers_that_are_used() {
        let node = budget(192, 4);
        assert_eq!(
            node.describe(Cache::Default),
            "at most 156.1MiB of 192MiB: 4 workers 3.2MiB, cache 64MiB and 12.7MiB beside it, waiting \
             queries 12MiB, unread responses 12MiB, 1024 client connections 12MiB (512 of one \
             address, 819 of one network), clusters 24MiB, program 16MiB; data \
             of zones at most 40.7MiB, with the part of clusters"
        );
        assert!(
            node.describe(Cache::None).contains("79.3MiB of 192MiB: 4 workers 3.2MiB, no cache")
        );
        // What each worker may have at least is more than the flag says.
        assert!(told(192, 16, Some(1)).describe(Cache::None).contains("waiting queries 2MiB"));
        let few = Budget::new(Wishes { connections: 500, ..budget(192, 4).wishes });
        let text = few.describe(Cache::Default);
        assert!(
            text.contains("500 client connections 5.8MiB (250 of one address, 400 of one network)"),
            "{text}"
        );
    }

    #[test]
    fn connections_are_bounded_by_memory_and_descriptors_alone() {
        let large = budget(24 << 10, 4);
        assert_eq!(large.connections, mebi(24 << 10) / SHARE / CONNECTION);
        assert!(large.connections > 100_000 && large.connections_wanted() < 22_000);
        assert!(large.cache >= mebi(64), "{}", large.cache);
        assert_eq!(budget(1 << 20, 4).connections, 1 << 20);
        assert_eq!(budget(192, 4).connections, 1024);
    }

    /// The unit of systemd allows the descriptors for as many connections as most machines ever have,
    /// and those for upstreams beside them.
    #[test]
    fn the_unit_has_descriptors_for_all_connections() {
        let unit = include_str!("../../../deploy/systemd/nodens.service");
        let limit = unit.lines().find_map(|line| line.strip_prefix("LimitNOFILE="));
        let limit: usize = limit.and_then(|limit| limit.parse().ok()).unwrap();
        let most = budget(1 << 20, 4).connections_wanted();
        assert_eq!(most, SHARE_MAX / CONNECTION);
        let needed = nodens_net::descriptors_for(most);
        assert!(limit >= needed, "{limit} < {needed}");
        let told = [grouped(needed), grouped(most)];
        assert!(told.iter().all(|number| unit.contains(number)), "the unit does not tell {told:?}");
    }

    /// As `1,234`.
    fn grouped(number: usize) -> String {
        format!("{},{:03}", number / 1000, number % 1000)
    }

    #[test]
    fn a_successor_takes_what_is_left() {
        let node = budget(192, 4);
        // Alone in its own group: all of it.
        assert_eq!(node.cache_beside(mebi(10)), node.cache);
        let beside = node.cache_beside(mebi(100));
        assert!(beside < node.cache && beside > mebi(16), "{beside}");
        assert_eq!(node.cache_beside(mebi(192)), CACHE_MIN);
    }

    #[test]
    fn what_a_flag_says_of_waiting_queries_is_taken_from_the_cache_and_said() {
        let node = told(192, 4, Some(64));
        assert_eq!(node.pending, mebi(64));
        let warnings = node.warnings(Cache::Default);
        assert_eq!(
            warnings,
            ["-pending-memory takes 64MiB of the memory limit of 192MiB, 12MiB without the flag: \
              34.6MiB are left for the cache instead of 64MiB"]
        );
        assert!(node.warnings(Cache::None).is_empty(), "there is no cache that has less");
        assert!(node.warnings(Cache::Wanted(mebi(16))).is_empty(), "as much as is wanted is left");
        assert!(told(192, 4, Some(13)).warnings(Cache::Default).is_empty());
    }

    #[test]
    fn a_flag_that_asks_for_more_than_fits_gets_less_and_it_is_said() {
        let node = told(192, 4, Some(1024));
        assert!(node.pending < mebi(110) && node.cache < mebi(2), "{node:?}");
        let warnings = node.warnings(Cache::Default);
        assert!(warnings[0].starts_with("-pending-memory of 104"), "{warnings:?}");
        assert!(warnings[0].contains("instead of 1024MiB: no more fits into"), "{warnings:?}");
        assert!(warnings[1].contains("left for the cache instead of 64MiB"), "{warnings:?}");
        let many = told(65_536, 1, Some(1024)).warnings(Cache::Default);
        assert_eq!(many.len(), 1);
        assert!(
            many[0].ends_with(
                "256MiB instead of 1024MiB: a worker has at most 65536 queries that wait"
            )
        );
    }

    #[test]
    fn a_limit_that_is_too_small_is_said_with_the_least_that_works() {
        let small = budget(24, 2);
        assert_eq!(small.workers, 1);
        let warnings = small.warnings(Cache::Default);
        assert!(
            warnings[0].starts_with("the memory limit of 24MiB is too small, "),
            "{warnings:?}"
        );
        let least = small.least_limit();
        assert!(warnings[0].ends_with(&format!(" is {}MiB", least >> 20)), "{warnings:?}");
        let is_enough = |mib| !budget(mib, 2).warnings(Cache::None).concat().contains("too small");
        assert!(is_enough(least >> 20) && !is_enough((least >> 20) - 1), "{least}");
    }
}
