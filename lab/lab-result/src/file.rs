//! The types of the file. Their documentation is the description in `docs/result.schema.json`.

use crate::connections::ConnectionFates;
use crate::histogram::Buckets;
use crate::setting::{Generator, Plan, Provenance};
use crate::workers::{ClockOffset, WorkerReport};
use lab_histogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The result of one load on one server. All times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResultFile {
    /// Version of this layout.
    pub schema: u32,
    /// What wrote the file.
    pub generator: Generator,
    /// Where and how it was measured.
    pub provenance: Provenance,
    /// What was asked for.
    pub plan: Plan,
    /// When it ran and for how long.
    pub run: Run,
    /// Whether the generator vouches for the numbers.
    pub verdict: Verdict,
    /// Outcomes of queries and of received messages.
    pub counts: Counts,
    /// Answers by RCODE mnemonic; they add up to `counts.answered`.
    pub rcodes: BTreeMap<String, u64>,
    /// From the intended time of sending to the answer; lost queries are censored.
    #[serde(with = "crate::histogram")]
    #[schemars(with = "Buckets")]
    pub response: Histogram,
    /// From the sending to the answer; lost queries are censored.
    #[serde(with = "crate::histogram")]
    #[schemars(with = "Buckets")]
    pub service: Histogram,
    /// From the intended time to the sending.
    #[serde(with = "crate::histogram")]
    #[schemars(with = "Buckets")]
    pub lateness: Histogram,
    /// From the sending to answers that came after the timeout.
    #[serde(with = "crate::histogram")]
    #[schemars(with = "Buckets")]
    pub late: Histogram,
    /// From asking for a connection to having it.
    #[serde(with = "crate::histogram")]
    #[schemars(with = "Buckets")]
    pub connect: Histogram,
    /// Connections of the whole run; absent if the transport has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// What became of each connection; absent if the transport has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_fates: Option<ConnectionFates>,
    /// By QTYPE mnemonic.
    #[serde(default)]
    pub by_qtype: Vec<Group>,
    /// By RCODE mnemonic; lost queries have none.
    #[serde(default)]
    pub by_rcode: Vec<Group>,
    /// By transport, of a run that mixes several.
    #[serde(default)]
    pub by_transport: Vec<Group>,
    /// By second of the intended time: everything of a query stands in that second, whenever it
    /// happened.
    pub seconds: Vec<Second>,
    /// Planned and sent queries in short steps.
    pub rate: Rate,
    /// The generator's threads.
    pub threads: Vec<Thread>,
    /// The same plan on an echo server on the same path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// The requirements on the run and whether they were met; empty without requirements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<Requirement>,
    /// What the load cost the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cost: Option<ServerCost>,
    /// The workers of which this is the sum; empty if one process did all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerReport>,
}

/// A limit that the run had to keep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requirement {
    /// The limit, in words of the command line.
    pub limit: String,
    /// What was found.
    pub found: String,
    /// Whether the limit was kept.
    pub met: bool,
}

/// When it ran and for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Wall-clock time of the start since 1970-01-01 UTC: a label, no duration is computed from it.
    pub started_unix_ns: u64,
    /// Wall-clock time of the end.
    pub finished_unix_ns: u64,
    /// From the start to the end of sending or the last answer, whichever was later.
    pub active_ns: u64,
    /// From the start to the last outcome, or to the end of the schedule if that is later.
    pub elapsed_ns: u64,
    /// Whether the run was ended from outside.
    pub interrupted: bool,
    /// How this machine's clock stood to the one that gave the start, if it was given to several workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockOffset>,
}

/// Whether the generator vouches for the numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Whether it does.
    pub valid: bool,
    /// Why it does not.
    pub invalid_because: Vec<String>,
    /// Whether all of that is that queries left late: latencies are biased then, and not what an answer
    /// costs the server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_late: bool,
    /// What a reader should know and what does not spoil the run.
    pub notes: Vec<String>,
}

/// Outcomes. `scheduled = sent + skipped + send_errors`; `sent = answered + timed_out + icmp_refused +
/// connection_failed + interrupted`; `received = answered + late + duplicate + mismatched + unknown +
/// malformed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Queries whose intended time came.
    pub scheduled: u64,
    /// Queries never sent because no ID had rested long enough, or the run was over or stopped before.
    pub skipped: u64,
    /// Of the skipped queries: those that the generator had not sent by the end of the run.
    #[serde(default)]
    pub overdue: u64,
    /// Queries that the operating system refused to send.
    pub send_errors: u64,
    /// Queries sent.
    pub sent: u64,
    /// Sent queries answered within the timeout.
    pub answered: u64,
    /// Sent queries that were not.
    pub timed_out: u64,
    /// Sent queries that an ICMP message said no process listens to.
    #[serde(rename = "icmp_refused", alias = "refused")]
    pub refused: u64,
    /// Sent queries whose connection ended before the answer.
    pub connection_failed: u64,
    /// Sent queries still in flight when the run was interrupted.
    pub interrupted: u64,
    /// Messages received.
    pub received: u64,
    /// Messages that answer a query after it had timed out.
    pub late: u64,
    /// Messages that answer a query again.
    pub duplicate: u64,
    /// Messages with a known ID that are no response or have another question.
    pub mismatched: u64,
    /// Messages with an ID that nothing was asked with.
    pub unknown: u64,
    /// Messages that are no DNS message.
    pub malformed: u64,
    /// Answers with the TC bit.
    pub truncated: u64,
    /// Octets of answers.
    pub answer_octets: u64,
    /// Octets of queries sent.
    #[serde(default)]
    pub question_octets: u64,
}

impl Counts {
    /// Sent queries without an answer in time, whatever the cause; interrupted ones are not among
    /// them.
    pub fn lost(&self) -> u64 {
        self.timed_out.saturating_add(self.refused).saturating_add(self.connection_failed)
    }
}

/// Connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// Open at the end of the second or run.
    pub active: u64,
    /// Asked for.
    pub attempted: u64,
    /// Got, with the TLS or QUIC handshake if there is one.
    pub opened: u64,
    /// Asked for and not got.
    pub failed: u64,
    /// Got by resuming an earlier TLS or QUIC session.
    pub resumed: u64,
    /// Queries sent as early data (0-RTT).
    pub early_data_sent: u64,
    /// Of these, answered.
    pub early_data_answered: u64,
}

/// Queries that have something in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// What they have in common.
    pub name: String,
    /// Sent.
    pub sent: u64,
    /// Answered within the timeout.
    pub answered: u64,
    /// Lost.
    pub lost: u64,
    /// From the intended time of sending to the answer; lost queries are censored.
    #[serde(with = "crate::histogram")]
    #[schemars(with = "Buckets")]
    pub response: Histogram,
}

/// The queries intended for one second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Second {
    /// The second, counted from 0 at the start of the run.
    pub second: u64,
    /// Whether every query has its outcome. False only in an interrupted run.
    #[serde(rename = "final")]
    pub is_final: bool,
    /// Sent.
    pub sent: u64,
    /// Answered within the timeout, whenever the answer came.
    pub answered: u64,
    /// Lost, whenever that was noticed: `timed_out + icmp_refused + connection_failed`.
    pub lost: u64,
    /// Lost by timeout.
    pub timed_out: u64,
    /// Lost by ICMP.
    #[serde(rename = "icmp_refused", alias = "refused")]
    pub refused: u64,
    /// Lost with a connection.
    pub connection_failed: u64,
    /// Without outcome when the run was interrupted.
    pub interrupted: u64,
    /// Never sent: no ID, or an error.
    pub unsent: u64,
    /// Answers by RCODE mnemonic.
    pub rcodes: BTreeMap<String, u64>,
    /// From the intended time of sending to the answer; lost queries are censored.
    #[serde(with = "crate::histogram")]
    #[schemars(with = "Buckets")]
    pub response: Histogram,
    /// From the sending to the answer; lost queries are censored.
    #[serde(default, with = "crate::histogram")]
    #[schemars(with = "Buckets")]
    pub service: Histogram,
    /// From the intended time to the sending.
    #[serde(default, with = "crate::histogram")]
    #[schemars(with = "Buckets")]
    pub lateness: Histogram,
    /// From asking for a connection to having it, of connections that were had during the second; in
    /// the first also those from before the schedule.
    #[serde(default, with = "crate::histogram")]
    #[schemars(with = "Buckets")]
    pub connect: Histogram,
    /// Connections; absent if the transport has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
}

/// Planned and sent queries in short steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rate {
    /// Length of a step.
    pub step_ns: u64,
    /// For each step `[planned, sent]`: intended for it, and sent during it.
    pub steps: Vec<[u64; 2]>,
}

/// What a thread of the generator says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// CPU time used.
    pub cpu_ns: u64,
    /// Time in which it could have run and others had its CPU.
    pub waited_ns: u64,
    /// Time from the start to its last outcome.
    pub wall_ns: u64,
    /// Whether it kept looking instead of sleeping.
    pub spun: bool,
    /// Datagrams that the kernel dropped because this thread did not fetch them in time.
    pub dropped: u64,
    /// How often the kernel had no room for a datagram or segment to be sent.
    pub blocked: u64,
}

/// The same plan on an echo server on the same path. Its percentiles must not be subtracted from
/// the result's: quantiles do not subtract.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Baseline {
    /// Runs before and after the load, and one at a higher rate, in this order.
    pub runs: Vec<BaselineRun>,
}

/// One run of the baseline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BaselineRun {
    /// `before` or `after` the load, or `headroom`: afterwards at 1.5 times its rate.
    pub when: String,
    /// Wall-clock time of its start since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// Queries sent.
    pub sent: u64,
    /// Of these, lost.
    pub lost: u64,
    /// Response times.
    #[serde(with = "crate::histogram")]
    #[schemars(with = "Buckets")]
    pub response: Histogram,
}

/// What the load cost the server, from cumulative counters read before and after.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerCost {
    /// Where the counters come from.
    pub source: String,
    /// CPU time used.
    pub cpu_ns: u64,
    /// Time over which it was used.
    pub wall_ns: u64,
    /// CPU time used for each answered query; absent without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_per_answer_ns: Option<u64>,
    /// Octets of memory before, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_before: Option<u64>,
    /// Highest octets of memory that were seen, once a second, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak: Option<u64>,
}

impl ResultFile {
    /// Answers a second; 0 if nothing ran.
    pub fn answer_rate(&self) -> f64 {
        let seconds = self.run.active_ns as f64 / crate::SECOND as f64;
        if seconds > 0.0 { self.counts.answered as f64 / seconds } else { 0.0 }
    }

    /// The part of the sent queries that was lost; `None` if nothing was sent.
    pub fn loss(&self) -> Option<f64> {
        (self.counts.sent > 0).then(|| self.counts.lost() as f64 / self.counts.sent as f64)
    }
}
