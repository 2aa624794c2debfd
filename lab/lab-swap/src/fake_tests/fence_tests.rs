//! Patches that arrive late.

use super::*;

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
        // The first patch beside the Lease gets no answer, and is applied when everything was put back.
        let held = RefCell::new(None);
        let api = Through::patch(&fake, |path, patch| {
            let is_lease = path == lease_path(&workload());
            if is_lease || path.contains('?') || held.borrow().is_some() {
                return fake.patch(path, patch);
            }
            held.replace(Some((path.to_owned(), patch.clone())));
            Err(Error::new(path, "the connection broke"))
        });
        let mut claim = Claim::make(&fake, "me", &record(&fake)).unwrap();
        if of_owner {
            assert!(crate::pause(&api, &mut claim).is_err());
        } else {
            crate::pause(&fake, &mut claim).unwrap();
            assert!(Turns::new(&claim).unwrap().next(&api, "new", "b1").is_err());
        }
        let restored = restore(&fake, &claim, Duration::ZERO).unwrap();
        assert!(restored.iter().any(|one| one.outcome == Outcome::Already), "{restored:?}");
        let (path, patch) = held.take().unwrap();
        assert!(fake.patch(&path, &patch).is_err(), "it was applied");
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
    let fake = cluster();
    let claim = Claim::make(&fake, "me", &record(&fake)).unwrap();
    let refusing =
        Through::patch(&fake, |path, _| Err(Error { code: 422, ..Error::new(path, "refused") }));
    restore(&refusing, &claim, Duration::ZERO).unwrap();
    assert_eq!(Claim::find(&fake, &workload()).unwrap(), None);
}
