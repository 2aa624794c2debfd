//! From what a run counted of its connections to what the file says of them.

use crate::{ConnectionFates, Connections, Second};
use lab_load::{Config, Transport, tally};

fn has_connections(config: &Config) -> bool {
    config.shares().iter().any(|share| share.transport != Transport::Udp)
}

/// The connections of the whole run.
pub(super) fn whole(config: &Config, from: &tally::Connections) -> Option<Connections> {
    has_connections(config).then(|| Connections {
        active: from.left_open,
        attempted: from.attempts,
        opened: from.opened,
        failed: from.failed() + from.unfinished,
        resumed: from.resumed,
        early_data_sent: from.early_questions,
        early_data_answered: from.early_questions_taken,
    })
}

/// Adds to each second what became of connections during it.
pub(super) fn by_second(config: &Config, from: &tally::Connections, seconds: &mut [Second]) {
    if !has_connections(config) {
        return;
    }
    let mut active = 0_u64;
    for (at, second) in seconds.iter_mut().enumerate() {
        let found = from.seconds.get(at).copied().unwrap_or_default();
        active = (active + found.opened).saturating_sub(found.closed);
        second.connections = Some(Connections {
            active,
            attempted: found.attempts,
            opened: found.opened,
            failed: found.failed,
            resumed: found.resumed,
            early_data_sent: 0,
            early_data_answered: 0,
        });
    }
}

pub(super) fn fates(config: &Config, from: &tally::Connections) -> Option<ConnectionFates> {
    has_connections(config).then(|| ConnectionFates {
        life: config.streams.life.to_string(),
        refused: from.refused,
        reset: from.reset,
        handshake_failed: from.handshake_failed,
        timed_out: from.timed_out,
        not_tried: from.not_tried,
        unfinished: from.unfinished,
        closed_by_server: from.closed_by_server,
        closed_by_client: from.closed_by_client,
        broken: from.broken,
        left_open: from.left_open,
        early_offered: from.early_offered,
        early_accepted: from.early_accepted,
        half_written: from.half_written,
        asked_again: from.asked_again,
        rejected: from.rejected,
        stream_waits: from.stream_waits,
        streams_allowed: from.streams_allowed,
        http: from.http.clone(),
        failures: from.failures.clone(),
        tcp: from.tcp.clone(),
        tls: from.tls.clone(),
        waited: from.waited.clone(),
    })
}
