//! What a secondary takes from its primaries, and keeps on disk.

use super::QUIC_UPSTREAM_WINDOW;
use std::time::Duration;

/// How long a connection to a primary may take to be made.
pub const PRIMARY_CONNECT_TIME: Duration = Duration::from_secs(5);
/// How long a primary may send nothing while it has to.
pub const PRIMARY_SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long one transfer from a primary may take.
pub const PRIMARY_TRANSFER_TIME_MAX: Duration = Duration::from_secs(4 * 3600);
/// Octets that have to come in [`PRIMARY_PACE_TIME`], or the transfer is ended: what has come of it holds memory that others
/// wait for. Both are those of BIND 9.20 (`min-transfer-rate-in 10240 5`).
pub const PRIMARY_PACE_OCTETS: usize = 10 << 10;
/// See [`PRIMARY_PACE_OCTETS`].
pub const PRIMARY_PACE_TIME: Duration = Duration::from_secs(300);
/// How long a primary to which no connection could be made, or that said nothing, is passed over where there is another.
pub const PRIMARY_DOWN_TIME: Duration = Duration::from_secs(60);
/// The least time between two attempts with such a primary that NOTIFY asks for: its sender may be anybody.
pub const PRIMARY_HINT_INTERVAL: Duration = Duration::from_secs(10);
/// For how many reasons the failures of a primary are said until it answers again; a zone has a line for each.
pub const FAILURES_SAID_MAX: usize = 4;
/// How long a reload or the end of the process waits for zones that are being read or written: a disk that does not
/// answer must not keep it from doing anything else.
pub const STORE_END: Duration = Duration::from_secs(5);
/// Between two attempts to get the lock of a folder with zones that another process has.
pub const STORE_LOCK_INTERVAL: Duration = Duration::from_millis(500);
/// How long another process may have it until that is said: in a hand-over it leaves soon.
pub const STORE_LOCK_PATIENCE: Duration = Duration::from_secs(120);
/// Until the next look at versions of zones that still had readers when they were replaced.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Members of a catalog that a line of the log names where other zones are in their places.
pub const CLASHES_NAMED: usize = 10;
/// Zones that are asked for in a row before primaries that have answered are heard.
pub const BEGUN_IN_A_ROW: usize = 256;
/// How long no connection to an address is begun for which there was no port. They are free again 60 seconds after
/// the end of the connections that had them, so more often is of no use.
pub const PORTS_PAUSE: Duration = Duration::from_secs(1);
/// Such pauses in a row, after which it counts as a failure: another primary may have the zone.
pub const PORTS_PAUSES_MAX: u32 = 10;
/// Reads from one primary before others get their turn.
pub const PRIMARY_READS_IN_A_ROW: usize = 16;
/// Octets up to which differences are appended to a stored zone however short it is: a disk gives no file less.
pub const STORED_LEN_MIN: u64 = 4096;
/// Datagrams that are taken from one primary over QUIC at once.
pub const PRIMARY_DATAGRAMS_IN_A_ROW: usize = 64;
/// Octets of a response on a stream of QUIC that a primary may send before they are read.
pub const PRIMARY_STREAM_WINDOW: u32 = QUIC_UPSTREAM_WINDOW;
/// Octets read from a primary at once.
pub const PRIMARY_BUFFER_LEN: usize = 64 << 10;

/// How often memory is looked for while members of catalogs wait for some, which others of the process may have freed.
pub const MEMBERS_AGAIN_INTERVAL: Duration = Duration::from_secs(5);

/// Members of one catalog that are begun at such a look: other work of the thread waits for that.
pub const MEMBERS_AGAIN: usize = 10_000;

/// Files of zones from which on several threads read them.
pub const AHEAD_MIN: usize = 1000;
/// Such threads; no more than there are CPUs.
pub const AHEAD_READERS_MAX: usize = 4;
/// Zones that each of them has read before they are taken.
pub const AHEAD_WAITING: usize = 64;
