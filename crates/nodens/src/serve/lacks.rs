//! What a server has not got of what its configuration answers from.

use super::Services;
use crate::handover::Lack;
use crate::zones;

/// The kinds of it. A process of another version knows them by these words.
const CLUSTERS: &str = "clusters";
const ZONES: &str = "zones";
const STORED: &str = "stored zones";

/// What there is not (yet), of each kind: clusters that were never listed, zones without data, and zones that are
/// still being read from the disk.
pub(super) fn lacks(services: &Services) -> Vec<Lack> {
    let wanted = &services.config.services;
    let missing = wanted.clusters.iter().filter(|own| !own.optional && !own.feed.synced()).count();
    let clusters = Lack { kind: CLUSTERS, count: count(missing), example: "kubernetes".to_owned() };
    let (missing, example) = zones::without_data(&services.config);
    let of_zones = Lack { kind: ZONES, count: count(missing), example };
    let reads = services.has_store() && !services.is_restored();
    let stored = Lack { kind: STORED, count: u32::from(reads), example: String::new() };
    [clusters, of_zones, stored].into_iter().filter(|lack| lack.count > 0).collect()
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
