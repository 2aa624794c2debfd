//! An API server that fails now and then.

use super::*;
use crate::patient::Patient;

/// Every second request for an object fails, or all do; each is counted.
fn failing<'f>(fake: &'f Fake, asked: &'f Cell<usize>, always: bool, code: u16) -> Through<'f> {
    Through::get(fake, move |path| {
        asked.set(asked.get() + 1);
        if always || asked.get() % 2 == 1 {
            return Err(Error { what: path.to_owned(), code, message: "no".to_owned() });
        }
        fake.get(path)
    })
}

#[test]
fn turns_go_on_although_every_second_look_fails() {
    let fake = cluster();
    let claim = Claim::make(&fake, "me", &record(&fake)).unwrap();
    let asked = Cell::new(0);
    let failing = failing(&fake, &asked, false, 500);
    let api = Patient::new(&failing, Duration::from_secs(20), &|| false);
    let turns = Turns::new(&claim).unwrap();
    turns.next(&api, "new", "b1").unwrap();
    turns.check(&workload().get(&api).unwrap()).unwrap();
    turns.next(&api, "old", "a1").unwrap();
    assert!(asked.get() >= 6, "nothing failed");
}

#[test]
fn patience_has_an_end_and_is_for_what_may_pass() {
    let fake = cluster();
    let asked = |code, most, stop: bool| {
        let asked = Cell::new(0);
        let failing = failing(&fake, &asked, true, code);
        let stop = || stop;
        let error = Patient::new(&failing, most, &stop).get(OPERATOR).unwrap_err();
        assert_eq!(error.code, code);
        asked.get()
    };
    assert!(asked(500, Duration::from_millis(20), false) > 1, "it was not asked again");
    assert_eq!(asked(403, Duration::from_secs(20), false), 1);
    assert_eq!(asked(500, Duration::from_secs(20), true), 1, "it did not stop");
}
