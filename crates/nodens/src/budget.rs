//! What the memory there is goes to. One place divides it, so that all bounds together fit into
//! what the control group allows, with a tenth to spare.

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
/// The most of each of them.
const SHARE_MAX: usize = 256 << 20;
/// A connection of a client, in octets: in the kernel, and what each may hold beside the budget.
const CONNECTION: usize = 12 << 10;
/// What the allocator needs for a cache beside the entries: one part in so many.
const CACHE_EXTRA: usize = 5;
/// What a successor needs at once beside workers and cache, in octets.
const SUCCESSOR: usize = 12 << 20;
/// The cache is never smaller than this.
const CACHE_MIN: usize = nodens_core::limits::CACHE_MEMORY_MIN;

/// What the budget is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// Octets of memory there are.
    pub(crate) limit: usize,
    /// Workers that are wanted.
    pub(crate) workers: usize,
    /// Octets for queries that wait, if a flag says so.
    pub(crate) pending: Option<usize>,
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
        let most = (limit / WORKERS_SHARE / WORKER).max(1);
        let workers = wishes.workers.clamp(1, most);
        let share = (limit / SHARE).min(SHARE_MAX);
        let pending = wishes.pending.unwrap_or(share);
        let clusters = (limit / CLUSTERS_SHARE).min(CLUSTERS_MAX);
        let connections = share / CONNECTION;
        let (held, others) = (share, PROGRAM + workers * WORKER + clusters + pending);
        let left = usable(limit).saturating_sub(others + held + share);
        let cache = (left - left / (CACHE_EXTRA + 1)).max(CACHE_MIN);
        Self { wishes, workers, pending, held, connections, cache, clusters }
    }

    /// What a successor may have as cache while its predecessor still has all it has; `used` is
    /// what is in use now in the group of both, or of the successor alone.
    pub(crate) fn cache_beside(&self, used: usize) -> usize {
        let own = SUCCESSOR + self.workers * WORKER / 2;
        let left = usable(self.wishes.limit).saturating_sub(used + own + self.pending);
        (left - left / (CACHE_EXTRA + 1)).clamp(CACHE_MIN, self.cache)
    }

    /// What does not fit, for an operator who asked for it. `cache` is what the Corefile wants,
    /// if it says so.
    pub(crate) fn warnings(&self, cache: Option<usize>) -> Vec<String> {
        let mut warnings = Vec::new();
        let (wanted, limit) = (self.wishes.workers, mebibytes(self.wishes.limit));
        if self.workers < wanted {
            warnings.push(format!(
                "{} workers instead of {wanted}: no more fit into the memory limit of {limit}",
                self.workers
            ));
        }
        if let Some(cache) = cache.filter(|cache| *cache > self.cache) {
            warnings.push(format!(
                "cache of {} instead of {}: no more fits into the memory limit of {limit}",
                mebibytes(self.cache),
                mebibytes(cache)
            ));
        }
        warnings
    }

    /// The division in one line; `cache` is what the cache may have of its part.
    pub(crate) fn describe(&self, cache: usize) -> String {
        let used = usable(self.wishes.limit);
        format!(
            "{} of {} given out: {}, cache {}, waiting queries {}, unread responses {}, {} client \
             connections {}, clusters {}, program {}",
            mebibytes(used),
            mebibytes(self.wishes.limit),
            Workers(self.workers),
            mebibytes(cache.min(self.cache)),
            mebibytes(self.pending),
            mebibytes(self.held),
            self.connections,
            mebibytes(self.connections * CONNECTION),
            mebibytes(self.clusters),
            mebibytes(PROGRAM)
        )
    }
}

struct Workers(usize);

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.0 == 1 { "worker" } else { "workers" };
        write!(f, "{} {word} {}", self.0, mebibytes(self.0 * WORKER))
    }
}

fn usable(limit: usize) -> usize {
    limit / 10 * USED_TENTHS
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
        Budget::new(Wishes { limit: limit_mib << 20, workers, pending: None })
    }

    /// Everything at its bound, in octets.
    fn total(budget: &Budget, cache: usize) -> usize {
        let connections = budget.connections * CONNECTION;
        let others = PROGRAM + budget.workers * WORKER + budget.clusters;
        others + budget.pending + budget.held + connections + cache + cache / CACHE_EXTRA
    }

    #[test]
    fn all_parts_fit_into_nine_tenths_of_any_limit_with_any_number_of_workers() {
        for limit in [64, 70, 128, 170, 192, 256, 512, 4096, 65_536] {
            for workers in [1, 2, 16, 96, 192, 256, 1024] {
                let budget = budget(limit, workers);
                let total = total(&budget, budget.cache);
                assert!(total <= usable(limit << 20) + 8, "{limit} MiB, {workers}: {total}");
                assert!(budget.workers >= 1 && budget.cache >= CACHE_MIN);
            }
        }
    }

    #[test]
    fn the_charts_limits_leave_a_small_node_its_whole_cache() {
        let node = budget(192, 4);
        assert_eq!((node.workers, node.pending), (4, 12 << 20));
        assert!(node.cache >= 64 << 20, "{}", node.cache);
        assert!(node.warnings(None).is_empty() && node.warnings(Some(64 << 20)).is_empty());
        assert!(budget(170, 8).cache >= 48 << 20);
    }

    #[test]
    fn a_large_node_has_fewer_workers_and_says_so_with_both_numbers() {
        let node = budget(192, 128);
        assert!((32..128).contains(&node.workers), "{}", node.workers);
        assert!(node.cache >= 24 << 20, "{}", node.cache);
        let warnings = node.warnings(Some(128 << 20));
        assert!(warnings[0].contains("instead of 128"), "{warnings:?}");
        assert!(warnings[1].contains("instead of 128MiB"), "{warnings:?}");
        assert!(node.describe(64 << 20).starts_with("172.7MiB of 192MiB given out: "));
    }

    #[test]
    fn a_successor_takes_what_is_left() {
        let node = budget(192, 4);
        // Alone in its own group: all of it.
        assert_eq!(node.cache_beside(10 << 20), node.cache);
        let beside = node.cache_beside(100 << 20);
        assert!(beside < node.cache && beside > 16 << 20, "{beside}");
        assert_eq!(node.cache_beside(192 << 20), CACHE_MIN);
    }

    #[test]
    fn what_a_flag_says_of_waiting_queries_is_taken_from_the_cache() {
        let wishes = Wishes { limit: 192 << 20, workers: 4, pending: Some(24 << 20) };
        let told = Budget::new(wishes);
        assert_eq!(told.pending, 24 << 20);
        assert!(told.cache < budget(192, 4).cache);
    }
}
