//! The maximums of this crate.

/// Octets of a file: more is no result of a load generator but a log.
pub const FILE_LEN_MAX: u64 = 1 << 30;
/// Trials of all files together.
pub const TRIALS_MAX: usize = 100_000;
/// Values of a group that are tested: the differences of all pairs of values are kept in memory.
pub const VALUES_MAX: usize = 3_000;
/// Groups: the tests compare all pairs of them.
pub const GROUPS_MAX: usize = 64;
/// The highest count of a file: sums of all counts of all trials stay whole numbers.
pub const COUNT_MAX: u64 = 1_000_000_000_000;
