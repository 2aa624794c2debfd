//! What became of the connections of a run, in full.

use crate::histogram::Buckets;
use lab_histogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The fate of every connection: `attempted = opened + refused + reset + handshake_failed +
/// timed_out + not_tried + unfinished`, `opened = closed_by_server + closed_by_client + broken +
/// left_open`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionFates {
    /// When clients leave their connections, in words of the command line.
    pub life: String,
    /// Not set up: refused.
    pub refused: u64,
    /// Not set up: reset or closed during the handshake.
    pub reset: u64,
    /// Not set up: TLS failed.
    pub handshake_failed: u64,
    /// Not set up in the time for it.
    pub timed_out: u64,
    /// Not set up: this machine could not ask.
    pub not_tried: u64,
    /// Neither set up nor failed when the run ended.
    pub unfinished: u64,
    /// Opened and closed by the server.
    pub closed_by_server: u64,
    /// Opened and closed by the client, whose connection's life was over.
    pub closed_by_client: u64,
    /// Opened and ended out of order.
    pub broken: u64,
    /// Open at the end of the run.
    pub left_open: u64,
    /// Connections on which queries were sent as early data (0-RTT).
    pub early_offered: u64,
    /// Those on which the server took them.
    pub early_accepted: u64,
    /// Queries cut by the end of their connection; they are among `connection_failed`.
    pub half_written: u64,
    /// Queries asked on another connection because theirs ended before it brought them out.
    pub asked_again: u64,
    /// Queries whose stream ended without an answer; they are among `connection_failed`.
    pub rejected: u64,
    /// Queries that waited because the server allows no more streams at once.
    pub stream_waits: u64,
    /// The lowest and highest number of streams at once that servers were seen to allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams_allowed: Option<(u64, u64)>,
    /// HTTP responses by status.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub http: BTreeMap<u16, u64>,
    /// Texts of failures, and how often each occurred.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u64>,
    /// From asking to the end of TCP's handshake.
    #[serde(with = "crate::histogram")]
    #[schemars(with = "Buckets")]
    pub tcp: Histogram,
    /// From there to the end of TLS's; with QUIC from asking.
    #[serde(with = "crate::histogram")]
    #[schemars(with = "Buckets")]
    pub tls: Histogram,
    /// From when a query was handed to its client until its first octet left: it waited for a
    /// connection, for its turn on one, or for room. Part of `response` and not of `service`.
    #[serde(with = "crate::histogram")]
    #[schemars(with = "Buckets")]
    pub waited: Histogram,
}
