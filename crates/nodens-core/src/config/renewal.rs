//! Files of certificates and keys that may change.

use crate::config::Task;
use crate::log::{Level, Sink};
use nodens_tls::LoadError;
use std::time::Duration;

/// Looks from time to time whether files changed, and says what came of it.
pub(crate) struct Renewal {
    /// The directive that log lines name.
    pub(crate) origin: &'static str,
    /// What it is about.
    pub(crate) subject: String,
    /// Time between two looks.
    pub(crate) interval: Duration,
    /// What is said when they changed.
    pub(crate) changed: String,
    /// What is said when they cannot be used; why follows.
    pub(crate) failed: String,
    /// Reads them again; says whether they changed.
    pub(crate) reload: Box<dyn FnMut() -> Result<bool, LoadError> + Send + Sync>,
}

impl Renewal {
    /// The work to repeat.
    pub(crate) fn into_task(self, sink: Sink) -> Task {
        let Self { origin, subject, interval, changed, failed, mut reload } = self;
        let mut said = String::new();
        let run = Box::new(move || {
            let (level, text) = match reload() {
                Ok(false) => return said.clear(),
                Ok(true) => (Level::Info, changed.clone()),
                Err(error) => (Level::Error, format!("{failed}: {error}")),
            };
            // Files are often written one after the other, and a fault may stay for days.
            if text != said {
                sink.line(level, origin, text.clone());
                said = text;
            }
        });
        Task { name: format!("{origin} {subject}"), interval, run }
    }
}
