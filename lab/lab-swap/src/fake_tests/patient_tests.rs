//! An API server that fails now and then.

use super::*;
use crate::patient::Patient;

/// Every second request for an object fails, or all do.
struct Failing<'f> {
    fake: &'f Fake,
    asked: Cell<usize>,
    always: bool,
    code: u16,
}

impl<'f> Failing<'f> {
    fn new(fake: &'f Fake, always: bool, code: u16) -> Self {
        Self { fake, asked: Cell::new(0), always, code }
    }
}

impl Api for Failing<'_> {
    fn get(&self, path: &str) -> Result<Option<Value>, Error> {
        self.asked.set(self.asked.get() + 1);
        if self.always || self.asked.get() % 2 == 1 {
            return Err(Error { what: path.to_owned(), code: self.code, message: "no".to_owned() });
        }
        self.fake.get(path)
    }

    fn text(&self, path: &str) -> Result<String, Error> {
        self.fake.text(path)
    }

    fn create(&self, path: &str, object: &Value) -> Result<Value, Error> {
        self.fake.create(path, object)
    }

    fn patch(&self, path: &str, patch: &Value) -> Result<Value, Error> {
        self.fake.patch(path, patch)
    }

    fn delete(&self, path: &str, uid: Option<&str>) -> Result<(), Error> {
        self.fake.delete(path, uid)
    }
}

#[test]
fn turns_go_on_although_every_second_look_fails() {
    let fake = cluster();
    let claim = Claim::make(&fake, "me", &record(&fake)).unwrap();
    let failing = Failing::new(&fake, false, 500);
    let api = Patient::new(&failing, Duration::from_secs(20), &|| false);
    let turns = Turns::new(&claim).unwrap();
    turns.next(&api, "new", "b1").unwrap();
    turns.check(&workload().get(&api).unwrap()).unwrap();
    turns.next(&api, "old", "a1").unwrap();
    assert!(failing.asked.get() >= 6, "nothing failed");
}

#[test]
fn patience_has_an_end_and_is_for_what_may_pass() {
    let fake = cluster();
    let asked = |code, most, stop: bool| {
        let failing = Failing::new(&fake, true, code);
        let stop = || stop;
        let error = Patient::new(&failing, most, &stop).get(OPERATOR).unwrap_err();
        assert_eq!(error.code, code);
        failing.asked.get()
    };
    assert!(asked(500, Duration::from_millis(20), false) > 1, "it was not asked again");
    assert_eq!(asked(403, Duration::from_secs(20), false), 1);
    assert_eq!(asked(500, Duration::from_secs(20), true), 1, "it did not stop");
}
