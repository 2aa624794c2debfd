//! The report as a file: `report.json`.

use crate::notes::Notes;
use crate::{Check, Rebuilt, Validation, output};
use schemars::JsonSchema;
use serde::Serialize;
use std::net::IpAddr;

/// What was rebuilt, from what, and how it differs from the recording.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Responses that were read.
    pub responses: u64,
    /// Different responses that say something about a zone.
    pub different_responses: usize,
    /// Responses that say nothing about a zone.
    pub left_out: Vec<LeftOutCount>,
    /// Responses to other resolvers than those named.
    pub responses_to_others: u64,
    /// RRsets that were left out because the server has not their zone.
    pub foreign_rrsets: u64,
    /// The addresses of all servers.
    pub addresses: Vec<IpAddr>,
    /// The zones, by name.
    pub zones: Vec<ZoneLine>,
    /// The zones beside the recording.
    pub check: Check,
    /// How far a resolver that validates gets in the zones.
    pub validation: Validation,
    /// What was done beside copying.
    pub notes: Notes,
    /// Questions that a server refused or failed to answer.
    pub failed_questions: Vec<FailedQuestion>,
}

/// Responses that were left out for one reason.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LeftOutCount {
    /// The reason.
    pub what: String,
    /// So many.
    pub responses: u64,
}

/// A zone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ZoneLine {
    /// Its name.
    pub name: String,
    /// Its master file, in the folder of the report.
    pub file: String,
    /// The addresses that it is served at.
    pub servers: Vec<IpAddr>,
    /// Records in it, signatures among them.
    pub records: usize,
}

/// A question that a server refused or failed to answer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FailedQuestion {
    /// Who was asked.
    pub server: IpAddr,
    /// The name.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// What the server said.
    pub what: String,
}

impl Report {
    /// The report of what was rebuilt.
    pub fn of(rebuilt: &Rebuilt) -> Self {
        let zones = rebuilt.zones.values().map(|zone| ZoneLine {
            name: zone.name.to_string(),
            file: output::file_name(&zone.name),
            servers: zone.servers.iter().copied().collect(),
            records: zone.count(),
        });
        let left_out = rebuilt.left_out.iter();
        let failures = rebuilt.failures.iter();
        Self {
            responses: rebuilt.responses,
            different_responses: rebuilt.distinct,
            left_out: left_out
                .map(|(why, count)| LeftOutCount { what: why.text(), responses: *count })
                .collect(),
            responses_to_others: rebuilt.others,
            foreign_rrsets: rebuilt.foreign,
            addresses: output::all_addresses(&rebuilt.zones).into_iter().collect(),
            zones: zones.collect(),
            check: rebuilt.check.clone(),
            validation: rebuilt.validation.clone(),
            notes: rebuilt.notes.clone(),
            failed_questions: failures
                .map(|(server, name, rtype, why)| FailedQuestion {
                    server: *server,
                    name: name.to_string(),
                    rtype: rtype.to_string(),
                    what: why.text(),
                })
                .collect(),
        }
    }
}

/// The JSON schema of the file.
pub fn json_schema() -> schemars::Schema {
    schemars::schema_for!(Report)
}
