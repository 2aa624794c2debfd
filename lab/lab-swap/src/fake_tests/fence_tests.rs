//! Patches that arrive late.

use super::*;

/// The first patch beside the Lease gets no answer, and waits until it is let go.
struct Late<'f> {
    fake: &'f Fake,
    held: RefCell<Option<(String, Value)>>,
}

impl Late<'_> {
    fn let_go(&self) -> bool {
        let held = self.held.take();
        held.is_some_and(|(path, patch)| self.fake.patch(&path, &patch).is_ok())
    }
}

impl Api for Late<'_> {
    fn get(&self, path: &str) -> Result<Option<Value>, Error> {
        self.fake.get(path)
    }

    fn text(&self, path: &str) -> Result<String, Error> {
        self.fake.text(path)
    }

    fn create(&self, path: &str, object: &Value) -> Result<Value, Error> {
        self.fake.create(path, object)
    }

    fn patch(&self, path: &str, patch: &Value) -> Result<Value, Error> {
        if path == lease_path(&workload()) || path.contains('?') || self.held.borrow().is_some() {
            return self.fake.patch(path, patch);
        }
        self.held.replace(Some((path.to_owned(), patch.clone())));
        Err(Error::new(path, "the connection broke"))
    }

    fn delete(&self, path: &str, uid: Option<&str>) -> Result<(), Error> {
        self.fake.delete(path, uid)
    }
}

/// Without empty maps, which servers leave out.
fn labels(fake: &Fake) -> [Value; 3] {
    [workload().path(), FLUX.to_owned(), OPERATOR.to_owned()].map(|path| {
        let labels = fake.at(&path, "/metadata/labels");
        if labels == json!({}) { Value::Null } else { labels }
    })
}

#[test]
fn a_patch_that_arrives_after_everything_was_put_back_changes_nothing() {
    for of_owner in [true, false] {
        let fake = cluster();
        let api = Late { fake: &fake, held: RefCell::default() };
        let mut claim = Claim::make(&fake, "me", &record(&fake)).unwrap();
        if of_owner {
            assert!(crate::pause(&api, &mut claim).is_err());
        } else {
            crate::pause(&fake, &mut claim).unwrap();
            assert!(Turns::new(&claim).unwrap().next(&api, "new", "b1").is_err());
        }
        let restored = restore(&fake, &claim, Duration::ZERO).unwrap();
        assert!(restored.iter().any(|one| one.outcome == Outcome::Already), "{restored:?}");
        assert!(!api.let_go(), "it was applied");
        assert_eq!(specs(&fake), specs(&cluster()));
        assert_eq!(labels(&fake), labels(&cluster()));
        assert_eq!(Claim::find(&fake, &workload()).unwrap(), None);
    }
}

#[test]
fn a_fence_that_a_killed_restoration_has_left_goes() {
    for steps in 0..=6 {
        let fake = cluster();
        let claim = Claim::make(&fake, "me", &record(&fake)).unwrap();
        fake.left.set(Some(steps));
        assert!(restore(&fake, &claim, Duration::ZERO).is_err());
        fake.left.set(None);
        restore(&fake, &claim, Duration::ZERO).unwrap();
        assert_eq!(labels(&fake), labels(&cluster()), "after {steps} steps");
        assert_eq!(specs(&fake), specs(&cluster()));
    }
}

#[test]
fn what_refuses_a_fence_does_not_keep_the_lease() {
    /// Nobody may change anything.
    struct Refusing<'f>(&'f Fake);

    impl Api for Refusing<'_> {
        fn get(&self, path: &str) -> Result<Option<Value>, Error> {
            self.0.get(path)
        }

        fn text(&self, path: &str) -> Result<String, Error> {
            self.0.text(path)
        }

        fn create(&self, path: &str, object: &Value) -> Result<Value, Error> {
            self.0.create(path, object)
        }

        fn patch(&self, path: &str, _: &Value) -> Result<Value, Error> {
            Err(Error { code: 422, ..Error::new(path, "refused") })
        }

        fn delete(&self, path: &str, uid: Option<&str>) -> Result<(), Error> {
            self.0.delete(path, uid)
        }
    }

    let fake = cluster();
    let claim = Claim::make(&fake, "me", &record(&fake)).unwrap();
    restore(&Refusing(&fake), &claim, Duration::ZERO).unwrap();
    assert_eq!(Claim::find(&fake, &workload()).unwrap(), None);
}
