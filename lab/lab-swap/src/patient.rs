//! An API server that may be away for a while.

use crate::api::{Api, Error};
use serde_json::Value;
use std::time::{Duration, Instant};

/// How long it waits between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// Asks again when a request for an object or a text fails for a reason that may pass, so that a restart of
/// the API server does not end a run. Changes are passed on as they are.
pub struct Patient<'a> {
    api: &'a dyn Api,
    most: Duration,
    stop: &'a dyn Fn() -> bool,
}

impl<'a> Patient<'a> {
    /// Asks again for `most` at most, and until `stop`.
    pub fn new(api: &'a dyn Api, most: Duration, stop: &'a dyn Fn() -> bool) -> Self {
        Self { api, most, stop }
    }

    fn ask<T>(&self, ask: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        let until = Instant::now() + self.most;
        loop {
            match ask() {
                Err(error) if error.may_pass() && Instant::now() < until && !(self.stop)() => {
                    std::thread::sleep(PAUSE.min(self.most));
                }
                answer => return answer,
            }
        }
    }
}

impl Api for Patient<'_> {
    fn get(&self, path: &str) -> Result<Option<Value>, Error> {
        self.ask(|| self.api.get(path))
    }

    fn text(&self, path: &str) -> Result<String, Error> {
        self.ask(|| self.api.text(path))
    }

    fn create(&self, path: &str, object: &Value) -> Result<Value, Error> {
        self.api.create(path, object)
    }

    fn patch(&self, path: &str, patch: &Value) -> Result<Value, Error> {
        self.api.patch(path, patch)
    }

    fn delete(&self, path: &str, uid: Option<&str>) -> Result<(), Error> {
        self.api.delete(path, uid)
    }
}
