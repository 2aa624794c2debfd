//! Every maximum and every wait of this crate.

use std::time::Duration;

/// Longest line of a watch, and largest object of a list, in octets. The API server accepts
/// objects of 3 MiB at most.
pub(crate) const LINE_MAX: usize = 16 << 20;
/// What may stand around the objects of a list, in octets.
pub(crate) const ENVELOPE_MAX: usize = 1 << 20;
/// Largest refusal that is read, in octets.
pub(crate) const REFUSAL_MAX: usize = 64 << 10;
/// What a buffer may keep between two lines, in octets.
pub(crate) const BUFFER_KEPT: usize = 256 << 10;
/// Objects in a page of a list.
pub(crate) const PAGE_OBJECTS: u32 = 500;

/// Requests a second if the source does not say, as in client-go.
pub(crate) const QPS: f64 = 5.0;
/// Requests at once if the source does not say, as in client-go.
pub(crate) const BURST: u32 = 10;

/// How long connecting may take.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the head of a response may take.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a list may pause. A server that streams no lists may keep silent instead of saying so.
pub(crate) const LIST_PAUSE: Duration = Duration::from_secs(30);
/// A quiet connection is probed after this time, as client-go does.
pub(crate) const PROBE_AFTER: Duration = Duration::from_secs(30);
/// How long the answer to a probe may take.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_secs(15);
/// The same two where a node judges by what is known whether a name exists: what it does not hear
/// of, it would deny.
pub(crate) const NAMES_PROBE_AFTER: Duration = Duration::from_secs(5);
/// See [`NAMES_PROBE_AFTER`].
pub(crate) const NAMES_PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// The server is asked to end a watch after this time and up to as much again, as in client-go.
pub(crate) const WATCH_TIME: Duration = Duration::from_secs(300);
/// How much longer than that a watch may be silent before it counts as broken.
pub(crate) const WATCH_GRACE: Duration = Duration::from_secs(30);

/// First wait after a failure; each further one doubles it.
pub(crate) const BACKOFF_MIN: Duration = Duration::from_millis(200);
/// Longest wait between two attempts.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// A stream that lived so long ends a row of failures.
pub(crate) const STABLE_AFTER: Duration = Duration::from_secs(5);
/// Wait until a kind that does not exist is asked for again.
pub(crate) const ABSENT_WAIT: Duration = Duration::from_secs(30);
/// Wait until something that would be good to know is asked for again when it was forbidden. Every
/// node may be in that state.
pub(crate) const FORBIDDEN_WAIT: Duration = Duration::from_secs(300);
/// A state that lasts is mentioned again after this time, then after twice as long, and so on.
pub(crate) const REMIND_MIN: Duration = Duration::from_secs(60);
/// Longest time between two mentions.
pub(crate) const REMIND_MAX: Duration = Duration::from_secs(3600);
/// A token that was read so long ago is read anew, as in client-go: the kubelet replaces it.
pub(crate) const TOKEN_FRESH: Duration = Duration::from_secs(50);
/// Credentials are not read anew more often than this.
pub(crate) const RENEW_MIN: Duration = Duration::from_secs(1);

/// How long after a list its memory is cleared up, unless another is under way then.
pub(crate) const LISTS_REST: Duration = Duration::from_secs(1);

/// Time between two publications while changes keep coming.
pub(crate) const PUBLISH_GAP: Duration = Duration::from_millis(4);
/// How long after a publication that shares its serial with the one before the next one comes, with
/// a serial of its own. A serial is a second.
pub(crate) const SERIAL_GAP: Duration = Duration::from_secs(1);
/// How many publications may be made at once before that.
pub(crate) const PUBLISH_ROW: u32 = 8;
/// After so many objects in a row the thread that watches lets others have its CPU: after about a
/// quarter of a millisecond.
pub(crate) const TURN_OBJECTS: u32 = 5;
/// For how long. The kernel's timers add 50 µs.
pub(crate) const TURN_PAUSE: Duration = Duration::from_micros(1);
/// Objects that cannot be read are named in the log up to this many, then counted only.
pub(crate) const UNREADABLE_NAMED: u64 = 20;

const _: () = assert!(BUFFER_KEPT < LINE_MAX && REFUSAL_MAX < LINE_MAX);
