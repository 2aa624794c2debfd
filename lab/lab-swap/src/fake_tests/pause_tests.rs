//! Owners that are no longer what they were, and those that are paused already.

use super::*;
use crate::pause::{is_needed, pause};

/// Between reading an operator and changing it, others scale it once.
fn meddled(fake: &Fake, to: Option<u64>) -> Through<'_> {
    let to = Cell::new(to);
    Through::get(fake, move |path| {
        let found = fake.get(path);
        if path == OPERATOR
            && let Some(to) = to.take()
        {
            scale(fake, to);
        }
        found
    })
}

fn scale(fake: &Fake, to: u64) {
    let patch = json!([{"op": "replace", "path": "/spec/replicas", "value": to}]);
    fake.patch(OPERATOR, &patch).unwrap();
}

fn replicas(fake: &Fake) -> Value {
    fake.at(OPERATOR, "/spec/replicas")
}

#[test]
fn an_owner_that_others_changed_since_is_not_paused_and_keeps_what_they_chose() {
    for (to, between) in [(5, false), (5, true), (0, false)] {
        let fake = cluster();
        let mut claim = Claim::make(&fake, "me", &record(&fake)).unwrap();
        if !between {
            scale(&fake, to);
        }
        let api = meddled(&fake, between.then_some(to));
        let error = pause(&api, &mut claim).unwrap_err().to_string();
        assert!(error.contains(&format!("from 1 to {to}")), "{error}");
        assert_eq!(replicas(&fake), json!(to), "it was overwritten");
        // The Lease, which later runs read, says so too.
        let found = Claim::find(&fake, &workload()).unwrap().unwrap();
        assert_eq!(found.record, claim.record);
        restore(&fake, &found, Duration::ZERO).unwrap();
        assert_eq!(replicas(&fake), json!(to), "it was reverted");
        assert_eq!(fake.at(FLUX, "/spec/suspend"), Value::Null, "it was left paused");
    }
}

/// A proxy that repeats patches beside the Lease: they are applied, and the answer is a conflict.
fn repeated(fake: &Fake) -> Through<'_> {
    Through::patch(fake, |path, patch| {
        let done = fake.patch(path, patch)?;
        if path == lease_path(&workload()) { Ok(done) } else { fake.patch(path, patch) }
    })
}

#[test]
fn what_a_proxy_repeats_is_known_for_the_runs_own_and_put_back() {
    let fake = cluster();
    let mut claim = Claim::make(&fake, "me", &record(&fake)).unwrap();
    pause(&repeated(&fake), &mut claim).unwrap();
    assert_eq!(replicas(&fake), json!(0));
    let turns = Turns::new(&claim).unwrap();
    turns.next(&repeated(&fake), "new", "b1").unwrap();
    turns.check(&workload().get(&fake).unwrap()).unwrap();
    let found = Claim::find(&fake, &workload()).unwrap().unwrap();
    restore(&fake, &found, Duration::ZERO).unwrap();
    assert_eq!(specs(&fake), specs(&cluster()));
}

#[test]
fn an_owner_that_others_pause_while_it_is_paused_stays_in_the_record() {
    let fake = cluster();
    let mut claim = Claim::make(&fake, "me", &record(&fake)).unwrap();
    pause(&meddled(&fake, Some(0)), &mut claim).unwrap();
    restore(&fake, &claim, Duration::ZERO).unwrap();
    assert_eq!(replicas(&fake), json!(1), "whose pause it is cannot be told");
}

#[test]
fn owners_are_paused_although_their_status_changes_and_after_no_answer_they_stay_in_the_record() {
    let fake = cluster();
    let mut claim = Claim::make(&fake, "me", &record(&fake)).unwrap();
    fake.races.set(3);
    pause(&fake, &mut claim).unwrap();
    assert_eq!((replicas(&fake), fake.at(FLUX, "/spec/suspend")), (json!(0), json!(true)));
    assert_eq!(claim.record.changes.len(), 4);
    restore(&fake, &claim, Duration::ZERO).unwrap();
    assert_eq!(specs(&fake), specs(&cluster()));
    let mut claim = Claim::make(&fake, "me", &record(&fake)).unwrap();
    // The Lease, and nothing more: the patch of Flux's object may or may not have been applied.
    fake.left.set(Some(1));
    assert!(pause(&fake, &mut claim).is_err());
    let left: Vec<_> = claim.record.changes.iter().map(|change| &*change.path).collect();
    assert_eq!(left, [FLUX, &workload().path(), &workload().path()]);
}

#[test]
fn what_was_paused_by_hand_is_no_change_and_what_another_run_paused_is_refused() {
    let fake = cluster();
    let other: Workload = "dns/daemonset/other".parse().unwrap();
    let change = scaled_down(&fake, "dns/operator").unwrap();
    assert!(is_needed(&fake, &change).unwrap());
    let record = Record::new("r2", &other, vec![change]);
    let mut claim = Claim::make(&fake, "her", &record).unwrap();
    pause(&fake, &mut claim).unwrap();
    let now = scaled_down(&fake, "dns/operator").unwrap();
    assert!(!is_needed(&fake, &now).unwrap(), "by hand: no run is in the list");
    let mut lease = fake.at(&claim.path, "");
    lease["metadata"]["namespace"] = json!("dns");
    lease["metadata"]["name"] = json!(claim.path.rsplit('/').next());
    fake.put("/apis/coordination.k8s.io/v1/leases", json!({"metadata": {}, "items": [lease]}));
    let error = is_needed(&fake, &now).unwrap_err().to_string();
    assert!(error.contains("her on dns/daemonset/other"), "{error}");
}
