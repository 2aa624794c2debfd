//! What probes are told.

use super::Facts;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use nodens_core::config::{Readiness, Services};
use nodens_core::log::Level;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// What `/ready` waits for.
#[derive(Debug, Default)]
pub(super) struct Gate {
    waiting: Mutex<Vec<Readiness>>,
    /// Whether what was ready once is asked again.
    continuously: AtomicBool,
}

impl Gate {
    pub(super) fn set(&self, services: &Services) {
        let continuously = services.ready.last().is_some_and(|service| service.continuously);
        self.continuously.store(continuously, Ordering::Relaxed);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.clone_from(&services.readiness);
    }

    /// The directives that are not ready, in order, each once.
    fn missing(&self) -> Vec<&'static str> {
        let continuously = self.continuously.load(Ordering::Relaxed);
        let mut missing = Vec::new();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|readiness| {
            let is_missing = !(readiness.check)();
            if is_missing {
                missing.push(readiness.directive);
            }
            is_missing || continuously || readiness.can_be_lost
        });
        missing.sort_unstable();
        missing.dedup();
        missing
    }
}

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
