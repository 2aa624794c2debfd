//! What becomes of queries, and what they are told.

use super::connection::Connection;
use crate::context::Context;
use crate::quic::code;
use crate::upstream::Places;
use nodens_core::upstream::Fault;
use quinn_proto::ConnectionError;

/// Hands a message to the query it answers; the message comes with its length in front.
pub(super) fn take_answer(
    connection: &mut Connection,
    id: u16,
    framed: &[u8],
    places: &mut Places,
    cx: &mut Context<'_>,
) {
    let record = &mut connection.record;
    let message = framed.get(2..).unwrap_or_default();
    let answer = record.waiting.get(&id).and_then(|waiting| waiting.answer(message));
    let Some(answer) = answer else {
        cx.counters.add(cx.counters.strays, 1);
        let text = format!("response of {} is none to the query", record.upstream.name);
        return give_back(connection, id, &text, places, cx);
    };
    let Some(waiting) = record.take(id, cx.now) else { return };
    record.answers = record.answers.saturating_add(1);
    places.remove(waiting.attempt);
    cx.worker.reply(cx.now, waiting.ticket, waiting.attempt, &answer);
    places.reuse(waiting);
}

/// The query with this ID gets no response, for this reason.
pub(super) fn give_back(
    connection: &mut Connection,
    id: u16,
    text: &str,
    places: &mut Places,
    cx: &mut Context<'_>,
) {
    let Some(waiting) = connection.record.take(id, cx.now) else { return };
    places.remove(waiting.attempt);
    let fault = Fault::Refused(text.to_owned());
    cx.worker.failed(cx.now, waiting.ticket, waiting.attempt, &fault);
    places.reuse(waiting);
}

/// Whether the upstream closed a connection with nothing wrong.
pub(super) fn is_farewell(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::ApplicationClosed(close) if close.error_code == code::NO_ERROR)
}

/// What it means that a connection broke: before it is made, no query has left.
pub(super) fn breakage(connection: &Connection, text: String) -> Fault {
    if connection.record.connected { Fault::Broken(text) } else { Fault::Connect(text) }
}

/// That a connection was not made in time.
pub(super) fn dial_timeout(connection: &Connection) -> String {
    let address = connection.record.upstream.key.address;
    format!("dial udp {address}: quic handshake: i/o timeout")
}
