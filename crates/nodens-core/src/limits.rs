//! Every maximum of the core in one place, with compile-time checks of how they relate.

use std::time::Duration;

/// Nested lookups one question may cause (CNAME targets, search paths, DNS64).
pub const LOOKUP_DEPTH_MAX: usize = 8;
/// Lookups one question may cause in all.
pub const LOOKUPS_PER_JOB_MAX: u32 = 32;
/// Questions that may wait in one worker for an upstream or another's answer.
pub const PENDING_PER_WORKER_MAX: usize = 65_536;
/// Clients that may wait for one and the same upstream answer.
pub const WAITERS_PER_FLIGHT_MAX: usize = 16_384;
/// Finished jobs a worker keeps for reuse.
pub const SPARE_JOBS_MAX: usize = 1024;
/// Longest time a question may take from receipt to answer.
pub const QUESTION_TIME_MAX: Duration = Duration::from_secs(5);
/// The UDP payload Nodens announces and the most it sends where no `bufsize` says otherwise
/// (the value of DNS Flag Day 2020).
pub const UDP_SIZE_DEFAULT: u16 = 1232;

const _: () = assert!(SPARE_JOBS_MAX <= PENDING_PER_WORKER_MAX);
const _: () = assert!(LOOKUP_DEPTH_MAX <= LOOKUPS_PER_JOB_MAX as usize);
