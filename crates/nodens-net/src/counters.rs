//! What the sockets count.

use nodens_core::Shared;
use nodens_core::metrics::{Cells, Counter, Histogram};
use std::sync::Arc;

/// The counters of one worker.
pub(crate) struct Counters {
    cells: Cells,
    /// Datagrams not looked at: longer than any request, or without a port to answer to.
    pub(crate) datagrams_refused: Counter,
    /// Datagrams that came faster than they were read.
    pub(crate) overflowed: Counter,
    /// Answers the kernel did not take.
    pub(crate) answers_lost: Counter,
    /// Connections accepted.
    pub(crate) accepted: Counter,
    /// Connections closed for room: the oldest idle one, or a new one.
    pub(crate) evicted: Counter,
    /// Idle connections closed early because few places were left.
    pub(crate) pressed: Counter,
    /// Connections closed because a timeout passed.
    pub(crate) timed_out: Counter,
    /// Connections closed because their client left too many octets of answers unread.
    pub(crate) unread: Counter,
    /// Connections closed because all of them together held too much, and their client most.
    pub(crate) greedy: Counter,
    /// Connections closed because a message was announced that is longer than any question.
    pub(crate) oversized: Counter,
    /// Connections closed because the rest of an answer of many messages could not be made.
    pub(crate) broken: Counter,
    /// Connections closed for their PROXY protocol header.
    pub(crate) misproxied: Counter,
    /// Datagrams dropped for theirs.
    pub(crate) datagrams_misproxied: Counter,
    /// Connections closed for the certificate of their client.
    pub(crate) untrusted: Counter,
    /// Connections over QUIC that began.
    pub(crate) quic_accepted: Counter,
    /// Those that were refused, for want of room.
    pub(crate) quic_refused: Counter,
    /// Clients that had to show their address first.
    pub(crate) quic_retries: Counter,
    /// Connections over QUIC closed for the certificate of their client.
    pub(crate) quic_untrusted: Counter,
    /// Connections over QUIC closed because a timeout passed.
    pub(crate) quic_timed_out: Counter,
    /// Messages from upstreams that answer no question.
    pub(crate) strays: Counter,
    /// How long the first datagram of each batch waited until it was read, in nanoseconds.
    pub(crate) batch_delay: Histogram,
}

/// Seconds: 50 µs, then about twice as much each, to four.
static DELAY_BOUNDS: [f64; 14] = [
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.064, 0.256, 0.512,
    1.024, 4.096,
];

impl Counters {
    pub(crate) fn new(shared: &Arc<Shared>, worker: usize) -> Self {
        let registry = &shared.registry;
        let dropped = |reason| {
            let help = "Counter of datagrams dropped by the sockets.";
            registry.counter("nodens_udp_dropped_total", help, &[("reason", reason)])
        };
        let closed = |reason| {
            let help = "Counter of client connections closed by the server.";
            registry.counter("nodens_tcp_closed_total", help, &[("reason", reason)])
        };
        let (datagrams_refused, answers_lost) = (dropped("request_refused"), dropped("send"));
        let overflowed = dropped("receive_buffer");
        let (evicted, timed_out) = (closed("limit"), closed("timeout"));
        let (unread, oversized) = (closed("unread"), closed("oversized"));
        let pressed = closed("pressure");
        let greedy = closed("unread_in_all");
        let broken = closed("broken_answer");
        let (misproxied, datagrams_misproxied) = (closed("proxy_header"), dropped("proxy_header"));
        let untrusted = closed("client_certificate");
        let help = "Counter of client connections accepted.";
        let accepted = registry.counter("nodens_tcp_accepted_total", help, &[]);
        let help = "Counter of messages from upstreams that match no query.";
        let strays = registry.counter("nodens_upstream_strays_total", help, &[]);
        let help = "Seconds that the first datagram of a batch waited until the batch was read.";
        let name = "nodens_udp_batch_delay_seconds";
        let batch_delay = registry.histogram(name, help, &[], &DELAY_BOUNDS, 1e-9);
        let help = "Counter of client connections over QUIC that began, by what became of them.";
        let quic =
            |outcome| registry.counter("nodens_quic_begun_total", help, &[("outcome", outcome)]);
        let (quic_accepted, quic_refused) = (quic("accepted"), quic("refused"));
        let (quic_retries, quic_timed_out) = (quic("retry"), quic("timeout"));
        let quic_untrusted = quic("client_certificate");
        let cells = registry.cells(worker);
        Self {
            cells,
            datagrams_refused,
            overflowed,
            answers_lost,
            accepted,
            evicted,
            pressed,
            timed_out,
            unread,
            greedy,
            oversized,
            broken,
            misproxied,
            datagrams_misproxied,
            untrusted,
            quic_accepted,
            quic_refused,
            quic_retries,
            quic_untrusted,
            quic_timed_out,
            strays,
            batch_delay,
        }
    }

    pub(crate) fn observe(&self, histogram: Histogram, value: u64) {
        self.cells.observe(histogram, value);
    }

    pub(crate) fn add(&self, counter: Counter, n: u64) {
        if n > 0 {
            self.cells.add(counter, n);
        }
    }
}
