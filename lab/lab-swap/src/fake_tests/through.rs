//! The API server in memory behind something that meddles with requests.

use super::Fake;
use crate::api::{Api, Error};
use serde_json::Value;

type Get<'f> = dyn Fn(&str) -> Result<Option<Value>, Error> + 'f;
type Patch<'f> = dyn Fn(&str, &Value) -> Result<Value, Error> + 'f;

/// Requests of one kind are answered by a closure, the others by the server itself.
pub(super) struct Through<'f> {
    fake: &'f Fake,
    get: Box<Get<'f>>,
    patch: Box<Patch<'f>>,
}

impl<'f> Through<'f> {
    pub(super) fn get(
        fake: &'f Fake,
        get: impl Fn(&str) -> Result<Option<Value>, Error> + 'f,
    ) -> Self {
        let patch = |path: &str, patch: &Value| fake.patch(path, patch);
        Self { fake, get: Box::new(get), patch: Box::new(patch) }
    }

    pub(super) fn patch(
        fake: &'f Fake,
        patch: impl Fn(&str, &Value) -> Result<Value, Error> + 'f,
    ) -> Self {
        Self { fake, get: Box::new(|path| fake.get(path)), patch: Box::new(patch) }
    }
}

impl Api for Through<'_> {
    fn get(&self, path: &str) -> Result<Option<Value>, Error> {
        (self.get)(path)
    }

    fn text(&self, path: &str) -> Result<String, Error> {
        self.fake.text(path)
    }

    fn create(&self, path: &str, object: &Value) -> Result<Value, Error> {
        self.fake.create(path, object)
    }

    fn patch(&self, path: &str, patch: &Value) -> Result<Value, Error> {
        (self.patch)(path, patch)
    }

    fn delete(&self, path: &str, uid: Option<&str>) -> Result<(), Error> {
        self.fake.delete(path, uid)
    }
}
