//! What probes are told.

use super::{Facts, Gate};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use nodens_core::log::Level;
use std::sync::atomic::Ordering;

pub(super) fn health(facts: &Facts) -> Response {
    match facts.vitals.get().and_then(|vitals| vitals.complaint()) {
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
        None => "OK".into_response(),
    }
}

pub(super) fn ready(facts: &Facts, gate: &Gate) -> Response {
    if facts.stopping.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "Shutting down").into_response();
    }
    if !facts.ready.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "server").into_response();
    }
    if facts.vitals.get().is_some_and(|vitals| vitals.all_stalled()) {
        return (StatusCode::SERVICE_UNAVAILABLE, "workers").into_response();
    }
    let missing = gate.missing().join(",");
    if missing.is_empty() {
        return "OK".into_response();
    }
    let text = format!("Plugins not ready: {missing:?}");
    facts.shared.sink.line(Level::Info, "ready", text);
    (StatusCode::SERVICE_UNAVAILABLE, missing).into_response()
}
