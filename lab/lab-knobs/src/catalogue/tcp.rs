//! TCP: opening and closing connections, acknowledgements, pace.

use super::claims::{LIKE_SACK, SPREAD, esnet, not_operator, operator, trials};
use super::{FLAG, INT, ROW, Row, number};
use crate::knob::{Expect, Side, Takes, Values};

/// What somebody has advised or measured.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "tcp_abort_on_overflow",
        takes: Takes::AtOnce,
        needs: "connections that are not accepted in time: a load near the server's limit",
        default: "0",
        high: "1",
        about: "resets connections for which the queue of those to be accepted has no room",
        claims: &[trials(
            "1",
            Expect::Better,
            "at full load latency about 5 % lower, rate about 8 % higher, about 98 % fewer lost; no effect at other loads",
        )],
        ..ROW
    },
    Row {
        name: "tcp_sack",
        default: "1",
        high: "0",
        about: "selective acknowledgements (RFC 2018)",
        claims: &[
            operator("0", "switch it off"),
            trials(
                "1",
                Expect::Better,
                "at full load latency about 1.5 % lower, confirmed by the tests; the rate looks higher, which they do not confirm",
            ),
            LIKE_SACK,
        ],
        ..ROW
    },
    Row {
        name: "tcp_tso_win_divisor",
        values: number(0, 255, ""),
        default: "3",
        high: "1",
        about: "the part of the congestion window that one segment for the network card to divide may take",
        claims: &[trials("1", Expect::Worse, "massive harm, confirmed by the tests")],
        ..ROW
    },
    Row {
        name: "tcp_fin_timeout",
        values: number(1, 3600, "seconds"),
        default: "60",
        high: "15",
        about: "how long a closed connection waits for the other side's FIN",
        claims: &[operator("15", "less than 60, which is the default"), LIKE_SACK],
        ..ROW
    },
    Row {
        name: "tcp_max_tw_buckets",
        values: number(0, INT, "connections"),
        takes: Takes::AtOnce,
        default: "by memory, up to 262144",
        high: "2000000",
        about: "connections in TIME_WAIT; those beyond are forgotten at once",
        claims: &[
            operator("2000000", "a larger pool prevents simple denials of service"),
            LIKE_SACK,
        ],
        ..ROW
    },
    Row {
        name: "tcp_no_metrics_save",
        default: "0",
        high: "1",
        about: "keeps no round-trip times and windows of closed connections for the next ones",
        claims: &[operator("1", "keep no metrics"), LIKE_SACK],
        ..ROW
    },
    Row {
        name: "tcp_orphan_retries",
        values: number(0, 255, "retransmissions"),
        takes: Takes::AtOnce,
        default: "0, which means 8",
        high: "1",
        about: "how often the end of a connection that no process has is sent again",
        claims: &[operator("1", "fewer, so that it times out sooner"), LIKE_SACK],
        ..ROW
    },
    Row {
        name: "tcp_synack_retries",
        values: number(0, 255, "retransmissions"),
        default: "5",
        high: "1",
        about: "how often the answer to a SYN is sent again",
        claims: &[operator("1", "fewer, so that it times out sooner"), LIKE_SACK],
        ..ROW
    },
    Row {
        name: "tcp_max_syn_backlog",
        values: number(1, INT, "connections"),
        takes: Takes::AtOnce,
        needs: "somaxconn and the server's listen backlog at least as large",
        default: "by memory, 128 to 4096",
        high: "65536",
        about: "connections whose handshake is not complete",
        claims: &[operator("65536", "larger"), LIKE_SACK],
        ..ROW
    },
    Row {
        name: "tcp_tw_reuse",
        values: number(0, 2, ""),
        side: Side::Client,
        needs: "tcp_timestamps at both ends",
        default: "2 (on loopback only)",
        high: "1",
        about: "new connections may take the port of one in TIME_WAIT",
        claims: &[not_operator("1", "not recommended")],
        ..ROW
    },
    Row {
        name: "tcp_timestamps",
        values: number(0, 2, ""),
        default: "1",
        high: "0",
        about: "timestamps in segments (RFC 7323); with 2 they begin at no random number",
        claims: &[
            not_operator("0", "not since Linux 4.12, whose timestamps begin at random numbers"),
            LIKE_SACK,
        ],
        ..ROW
    },
    Row {
        name: "tcp_congestion_control",
        values: Values::Text,
        default: "cubic",
        high: "reno",
        needs: "the algorithm in net.ipv4.tcp_available_congestion_control; other namespaces than the first may use those of tcp_allowed_congestion_control",
        about: "how fast a sender may be",
        claims: &[esnet("htcp", "the default to recommend"), SPREAD],
        ..ROW
    },
    Row {
        name: "tcp_mtu_probing",
        values: number(0, 2, ""),
        default: "0",
        high: "1",
        about: "finds out how large packets may be (RFC 4821), with 1 after a black hole was found",
        claims: &[esnet("1", "for hosts with jumbo frames"), SPREAD],
        ..ROW
    },
];

/// What else could matter to short connections with small messages.
pub(super) const MORE: &[Row] = &[
    Row {
        name: "tcp_fastopen",
        values: number(0, INT, ""),
        needs: "a server that sets TCP_FASTOPEN, or 0x400 in the value; clients that use it",
        default: "1",
        high: "1027",
        about: "queries within the SYN (RFC 7413): 1 as client, 2 as server, 1024 for all listeners",
        ..ROW
    },
    Row {
        name: "tcp_syncookies",
        values: number(0, 2, ""),
        takes: Takes::AtOnce,
        default: "1",
        high: "0",
        about: "answers SYNs for which the backlog has no room without keeping state",
        ..ROW
    },
    Row {
        name: "tcp_window_scaling",
        default: "1",
        high: "0",
        about: "windows of more than 64 KB (RFC 7323)",
        ..ROW
    },
    Row {
        name: "tcp_moderate_rcvbuf",
        default: "1",
        high: "0",
        about: "receive buffers that grow with the connection",
        ..ROW
    },
    Row {
        name: "tcp_autocorking",
        takes: Takes::AtOnce,
        default: "1",
        high: "0",
        about: "collects small writes while earlier segments are still in the queue",
        ..ROW
    },
    Row {
        name: "tcp_slow_start_after_idle",
        takes: Takes::AtOnce,
        default: "1",
        high: "0",
        about: "begins slowly again after a connection was idle",
        ..ROW
    },
    Row {
        name: "tcp_notsent_lowat",
        values: number(0, u32::MAX as i64, "octets"),
        default: "4294967295",
        high: "16384",
        about: "a socket is writable while less than this is not sent",
        ..ROW
    },
    Row {
        name: "tcp_limit_output_bytes",
        values: number(0, INT, "octets"),
        takes: Takes::AtOnce,
        default: "1048576, of newer kernels 4194304",
        high: "262144",
        about: "octets of a connection in the queues below TCP",
        ..ROW
    },
    Row {
        name: "tcp_min_tso_segs",
        values: number(1, 255, "segments"),
        default: "2",
        high: "1",
        about: "the least that is handed to the network card to divide",
        ..ROW
    },
    Row {
        name: "tcp_early_retrans",
        values: number(0, 4, ""),
        default: "3",
        high: "0",
        about: "tail loss probes (RFC 8985)",
        ..ROW
    },
    Row {
        name: "tcp_recovery",
        values: number(0, 7, ""),
        default: "1",
        high: "0",
        about: "detects losses by time (RACK, RFC 8985)",
        ..ROW
    },
    Row {
        name: "tcp_dsack",
        default: "1",
        high: "0",
        needs: "tcp_sack",
        about: "reports duplicate segments (RFC 2883)",
        ..ROW
    },
    Row {
        name: "tcp_ecn",
        values: number(0, 5, ""),
        default: "2",
        high: "1",
        about: "explicit congestion notification: 2 if clients ask for it, 1 also asks",
        ..ROW
    },
    Row {
        name: "tcp_comp_sack_nr",
        values: number(0, 255, "acknowledgements"),
        default: "44",
        high: "0",
        needs: "tcp_sack",
        about: "selective acknowledgements that are sent as one",
        ..ROW
    },
    Row {
        name: "tcp_thin_linear_timeouts",
        default: "0",
        high: "1",
        about: "connections with little in flight repeat at even distances at first",
        ..ROW
    },
    Row {
        name: "tcp_retries2",
        values: number(0, 255, "retransmissions"),
        takes: Takes::AtOnce,
        default: "15",
        high: "5",
        about: "how often octets are sent again before the connection is given up",
        ..ROW
    },
    Row {
        name: "tcp_rto_min_us",
        values: number(1, INT, "µs"),
        needs: "Linux 6.11",
        default: "200000",
        high: "20000",
        about: "the least time after which a segment is sent again",
        ..ROW
    },
    Row {
        name: "tcp_backlog_ack_defer",
        takes: Takes::AtOnce,
        needs: "Linux 6.7",
        default: "1",
        high: "0",
        about: "one acknowledgement for all segments that waited while the socket was in use",
        ..ROW
    },
    Row {
        name: "tcp_pingpong_thresh",
        values: number(1, 255, "exchanges"),
        needs: "Linux 6.7",
        default: "1",
        high: "3",
        about: "exchanges after which acknowledgements wait for a response to go with",
        ..ROW
    },
    Row {
        name: "tcp_early_demux",
        values: FLAG,
        takes: Takes::AtOnce,
        default: "1",
        high: "0",
        about: "finds the socket of a segment before its route",
        ..ROW
    },
    Row {
        name: "tcp_migrate_req",
        takes: Takes::AtOnce,
        needs: "a server with a listener for each thread (SO_REUSEPORT)",
        default: "0",
        high: "1",
        about: "connections of a closed listener go to another one of the same port",
        ..ROW
    },
];
