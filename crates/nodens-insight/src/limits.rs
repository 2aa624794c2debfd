//! Every maximum of what is kept and shown.

/// Keys a ledger keeps of each sort; the rarest leave.
pub const KEYS_MAX: usize = 2048;
/// Moments of the history, one a second.
pub const HISTORY: usize = 120;
/// Leaks of a report.
pub const LEAKS_SHOWN: usize = 40;
/// Clients, names and slow names of a report, each.
pub const ROWS_SHOWN: usize = 50;
/// Sources shown of one leak.
pub const SOURCES_SHOWN: usize = 8;
/// Search domains kept of one leak.
pub const DOMAINS_SHOWN: usize = 12;
/// So many names below one, none of which exists, are a storm.
pub const STORM_NAMES: usize = 10;
/// Counts fade by this each second: half is left after five.
pub const FADE: f64 = 0.87;
/// What is less than this, after fading, is forgotten.
pub const FORGOTTEN: f64 = 0.05;
/// Zones on one page.
pub const ZONES_SHOWN: usize = 100;
/// Octets of a process's environment that are looked at.
pub const ENVIRONMENT_LEN_MAX: usize = 256 << 10;
/// Octets of the lists of a network namespace's addresses that are looked at.
pub const SEEN_FILE_LEN_MAX: usize = 4 << 20;
/// The longest name of a pod or namespace, in octets (RFC 1123).
pub const NAME_LEN_MAX: usize = 253;
