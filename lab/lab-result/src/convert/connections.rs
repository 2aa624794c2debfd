//! From what a run counted of its connections to what the file says of them.

use super::nanos;
use crate::{Connecting, ConnectionFates, Connections, Second};
use lab_load::transport::{Method, Trust};
use lab_load::{Config, Transport, tally};

fn has_connections(config: &Config) -> bool {
    config.shares().iter().any(|share| share.transport != Transport::Udp)
}

/// What connections were asked to be like.
pub(super) fn connecting(config: &Config) -> Option<Connecting> {
    let streams = &config.streams;
    has_connections(config).then(|| Connecting {
        connect_first: streams.connects_first(),
        life: streams.life.to_string(),
        pipelining: streams.pipelining.map(Into::into),
        set_up_timeout_ns: nanos(config.set_up_timeout()),
        resumption: !streams.tls.no_resumption,
        early_data: streams.tls.early_data,
        tls_name: streams.tls.name.clone(),
        trust: match streams.tls.trust {
            Trust::System => "system",
            Trust::File(_) => "file",
            Trust::Anyone => "anyone",
        }
        .to_owned(),
        doh_path: streams.doh.path.clone(),
        doh_method: match streams.doh.method {
            Method::Get => "get",
            Method::Post => "post",
        }
        .to_owned(),
    })
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

/// Adds to each second the fates of connections during it.
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
