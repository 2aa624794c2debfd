//! Maximums.

/// Messages that are read ahead and kept until their responses are found.
pub(crate) const WINDOW_MAX: usize = 1 << 16;
/// Nanoseconds of the recording after which a response is not looked for any more.
pub(crate) const RESPONSE_WAIT: u64 = 5_000_000_000;
/// Nanoseconds of the recording by which its messages may be out of order.
pub(crate) const DISORDER: u64 = 100_000_000;
/// Connections without a recorded end that are known.
pub(crate) const ENDLESS_MAX: usize = 1 << 16;
/// Servers whose queries are counted.
pub(crate) const SERVERS_MAX: usize = 1 << 16;
/// Steps that the reading thread hands over at once, and how often it may do so ahead of the sending one.
pub(crate) const BATCH: usize = 64;
pub(crate) const BATCHES_MAX: usize = 256;
/// Steps taken before sockets are looked at again.
pub(crate) const STEPS_PER_TURN: usize = 64;
/// Sockets at which a search for one that can be used again, or closed, ends.
pub(crate) const TRIES: usize = 64;
/// Datagrams received by one system call, and the longest, of which none must be cut: servers may send more than
/// clients ask for.
pub(crate) const RECEIVED_MAX: usize = 8;
pub(crate) const RESPONSE_LEN_MAX: usize = 65_535;
/// Receive buffer asked for; the kernel may give less.
pub(crate) const RECEIVE_BUFFER: usize = 4 << 20;
/// Descriptors of which it is known at once that they are ready.
pub(crate) const READY_MAX: usize = 1_024;
/// Octets read from a connection at once.
pub(crate) const READ_LEN: usize = 1 << 13;
/// Octets of a connection that may wait to be sent.
pub(crate) const UNSENT_MAX: usize = 1 << 20;
/// Broken parts of a recording that are named.
pub(crate) const BROKEN_NAMED: usize = 10;
/// Local addresses that are tried before the first query is sent.
pub(crate) const LOCALS_MAX: usize = 1 << 16;
/// UDP sockets that are opened before the first query is sent; others are when their first one is due.
pub(crate) const EARLY_SOCKETS_MAX: usize = 1 << 15;
/// Nanoseconds that a replay may take: a year.
pub(crate) const SPAN_MAX: u64 = 366 * 86_400 * 1_000_000_000;
/// Seconds for which there is memory at once: a day.
pub(crate) const SECONDS_KEPT: usize = 86_400;
/// Queries that there is memory for at once, up to the end of the time that their IDs rest.
pub(crate) const FLIGHT_KEPT: usize = 1 << 20;
/// Sockets that are looked at before steps are taken again.
pub(crate) const SOCKETS_PER_TURN: usize = 16;
