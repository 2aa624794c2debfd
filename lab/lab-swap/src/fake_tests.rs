//! An API server in memory, and what is restored there.

use crate::api::{Api, Error};
use crate::change::Change;
use crate::owner::{Owner, owners, scaled_down};
use crate::record::{Claim, LEASE_SECONDS, Record, lease_path};
use crate::restore::{Outcome, restore};
use crate::turn::Turns;
use crate::workload::Workload;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

mod fence_tests;
mod patient_tests;
mod pause_tests;
mod through;

use through::Through;

/// Objects by path; each change gives a new version. After `left` requests that change something all
/// fail, as if the program had ended.
#[derive(Default)]
struct Fake {
    objects: RefCell<BTreeMap<String, Value>>,
    left: Cell<Option<usize>>,
    /// Before the next patch another writer changes the object's version.
    races: Cell<usize>,
    /// Whether admission resolves the tags of images, and whether it says so in dry runs.
    admission: Cell<Option<bool>>,
    /// Objects that were created.
    made: Cell<usize>,
}

impl Fake {
    fn put(&self, path: &str, mut object: Value) {
        object["metadata"]["resourceVersion"] = json!("1");
        self.objects.borrow_mut().insert(path.to_owned(), object);
    }

    fn at(&self, path: &str, pointer: &str) -> Value {
        self.objects.borrow()[path].pointer(pointer).cloned().unwrap_or(Value::Null)
    }

    /// As a dry run of a patch.
    fn dry(&self, path: &str, patch: &Value) -> Result<Value, Error> {
        if self.admission.get() == Some(false) {
            return Err(Error { code: 400, ..Error::new(path, "does not support dry run") });
        }
        let mut object = self.at(path, "");
        for operation in patch.as_array().unwrap() {
            apply(&mut object, operation)?;
        }
        self.admit(&mut object);
        Ok(object)
    }

    fn admit(&self, object: &mut Value) {
        let image = object.pointer_mut(IMAGE).filter(|_| self.admission.get().is_some());
        if let Some(Value::String(image)) = image
            && !image.contains('@')
        {
            *image += "@sha256:x";
        }
    }

    fn may_change(&self) -> Result<(), Error> {
        match self.left.get() {
            Some(0) => Err(Error::new("request", "killed")),
            left => {
                self.left.set(left.map(|left| left - 1));
                Ok(())
            }
        }
    }
}

fn conflict(what: &str) -> Error {
    Error { what: what.to_owned(), code: 409, message: "conflict".to_owned() }
}

fn bump(object: &mut Value) {
    let version: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    object["metadata"]["resourceVersion"] = json!((version + 1).to_string());
}

/// The operations that this crate uses of RFC 6902, on maps and lists.
fn apply(object: &mut Value, operation: &Value) -> Result<(), Error> {
    let (op, path) = (operation["op"].as_str().unwrap(), operation["path"].as_str().unwrap());
    let (parent, key) = path.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    if op == "test" {
        let same = object.pointer(path) == Some(&operation["value"]);
        return if same { Ok(()) } else { Err(conflict(path)) };
    }
    let parent = object.pointer_mut(parent).ok_or_else(|| conflict(path))?;
    match (op, parent) {
        ("add" | "replace", Value::Object(map)) => {
            map.insert(key, operation["value"].clone());
        }
        ("remove", Value::Object(map)) => {
            map.remove(&key).ok_or_else(|| conflict(path))?;
        }
        _ => panic!("{operation}"),
    }
    Ok(())
}

impl Api for Fake {
    fn get(&self, path: &str) -> Result<Option<Value>, Error> {
        Ok(self.objects.borrow().get(path).cloned())
    }

    fn text(&self, path: &str) -> Result<String, Error> {
        Err(conflict(path))
    }

    fn create(&self, path: &str, object: &Value) -> Result<Value, Error> {
        self.may_change()?;
        let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
        if self.objects.borrow().contains_key(&path) {
            return Err(conflict(&path));
        }
        let mut made = object.clone();
        self.made.set(self.made.get() + 1);
        made["metadata"]["uid"] = json!(format!("u{}", self.made.get()));
        self.put(&path, made.clone());
        Ok(made)
    }

    fn patch(&self, path: &str, patch: &Value) -> Result<Value, Error> {
        if let Some(path) = path.strip_suffix("?dryRun=All") {
            return self.dry(path, patch);
        }
        self.may_change()?;
        let mut objects = self.objects.borrow_mut();
        let object = objects.get_mut(path).ok_or_else(|| conflict(path))?;
        if self.races.get() > 0 {
            self.races.set(self.races.get() - 1);
            bump(object);
        }
        let mut changed = object.clone();
        for operation in patch.as_array().unwrap() {
            apply(&mut changed, operation)?;
        }
        self.admit(&mut changed);
        bump(&mut changed);
        *object = changed.clone();
        Ok(changed)
    }

    fn delete(&self, path: &str, uid: Option<&str>) -> Result<(), Error> {
        self.may_change()?;
        let found =
            self.get(path)?.and_then(|found| found["metadata"]["uid"].as_str().map(str::to_owned));
        if uid.is_some() && found.is_some() && found.as_deref() != uid {
            return Err(conflict(path));
        }
        self.objects.borrow_mut().remove(path);
        Ok(())
    }
}

const IMAGE: &str = "/spec/template/spec/containers/0/image";
const FLUX: &str = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/dns";
const OPERATOR: &str = "/apis/apps/v1/namespaces/dns/deployments/operator";

fn workload() -> Workload {
    "kube-system/deployment/coredns".parse().unwrap()
}

/// A cluster with a workload that Flux deploys, and an operator.
fn cluster() -> Fake {
    let fake = Fake::default();
    let labels = json!({
        "kustomize.toolkit.fluxcd.io/name": "dns",
        "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
    });
    fake.put(
        &workload().path(),
        json!({
            "metadata": {"labels": labels},
            "spec": {"replicas": 2, "template": {"spec": {
                "containers": [{"name": "coredns", "image": "old"}],
            }}},
        }),
    );
    fake.put(FLUX, json!({"metadata": {}, "spec": {}}));
    fake.put(OPERATOR, json!({"metadata": {}, "spec": {"replicas": 1}}));
    fake
}

fn record(fake: &Fake) -> Record {
    let object = workload().get(fake).unwrap();
    let found = owners(fake, &workload(), &object).unwrap();
    let [Owner::Pausable { change, .. }] = &found[..] else { panic!("{found:?}") };
    let mut changes = vec![change.clone(), scaled_down(fake, "dns/operator").unwrap()];
    changes.extend(workload().changes(&object, (0, "coredns"), &[("old", "a1"), ("new", "b1")]));
    Record::new("r1", &workload(), changes)
}

/// All steps of a run.
fn run(fake: &Fake, record: &Record) -> Result<Claim, Error> {
    let claim = Claim::make(fake, "me", record)?;
    let (beside, own) = record.changes.split_at(2);
    for (changes, to) in [
        (&beside[..1], [json!(true)].as_slice()),
        (&beside[1..], &[json!(0)]),
        (own, &[json!("new"), json!("b1")]),
    ] {
        let path = &changes[0].path;
        let object = fake.get(path)?.unwrap();
        let set = changes.iter().zip(to).flat_map(|(change, to)| change.set(&object, to));
        fake.patch(path, &Value::Array(set.collect()))?;
    }
    Ok(claim)
}

fn specs(fake: &Fake) -> [Value; 3] {
    [workload().path(), FLUX.to_owned(), OPERATOR.to_owned()].map(|path| fake.at(&path, "/spec"))
}

#[test]
fn a_run_that_ends_after_any_step_is_restored_from_its_record() {
    let before = specs(&cluster());
    for steps in 0..=4 {
        let fake = cluster();
        let record = record(&fake);
        fake.left.set(Some(steps));
        assert_eq!(run(&fake, &record).is_ok(), steps == 4);
        fake.left.set(None);
        let found = Claim::find(&fake, &workload()).unwrap();
        assert_eq!(found.is_some(), steps > 0, "something may be changed and there is no record");
        assert!(steps < 3 || specs(&fake) != before);
        if let Some(claim) = found {
            assert_eq!(claim.record, record);
            restore(&fake, &claim, Duration::ZERO).unwrap();
        }
        assert_eq!(specs(&fake), before, "after {steps} steps");
        assert_eq!(Claim::find(&fake, &workload()).unwrap(), None);
    }
}

#[test]
fn a_restoration_that_ends_after_any_step_is_done_again() {
    let before = specs(&cluster());
    for steps in 0..=4 {
        let fake = cluster();
        let claim = run(&fake, &record(&fake)).unwrap();
        fake.left.set(Some(steps));
        let ended = restore(&fake, &claim, Duration::ZERO);
        assert_eq!(ended.is_ok(), steps == 4);
        fake.left.set(None);
        assert_eq!(Claim::find(&fake, &workload()).unwrap().is_none(), steps == 4);
        restore(&fake, &claim, Duration::ZERO).unwrap();
        assert_eq!(specs(&fake), before, "after {steps} steps");
    }
}

#[test]
fn what_others_change_at_the_same_time_is_tried_again_and_what_they_chose_stays() {
    let fake = cluster();
    let claim = run(&fake, &record(&fake)).unwrap();
    fake.races.set(3);
    let image = "/spec/template/spec/containers/0";
    fake.objects.borrow_mut().get_mut(&workload().path()).unwrap().pointer_mut(image).unwrap()["image"] =
        json!("newer");
    let restored = restore(&fake, &claim, Duration::ZERO).unwrap();
    let foreign = restored.iter().find(|one| one.outcome == Outcome::Foreign(json!("newer")));
    assert!(foreign.is_some_and(|one| one.what.starts_with("image of coredns")), "{restored:?}");
    assert_eq!(fake.at(&workload().path(), &format!("{image}/image")), json!("newer"));
    assert_eq!(fake.at(&workload().path(), "/spec/template/metadata"), Value::Null);
    assert_eq!(
        (fake.at(FLUX, "/spec/suspend"), fake.at(OPERATOR, "/spec/replicas")),
        (Value::Null, json!(1))
    );
}

#[test]
fn what_another_program_deploys_during_a_run_stays_and_ends_the_run() {
    let image = "/spec/template/spec/containers/0/image";
    let deploy = |fake: &Fake, pointer: &str, value: Value| {
        let patch = json!([{"op": "add", "path": pointer, "value": value}]);
        fake.patch(&workload().path(), &patch).unwrap();
    };
    for turns_before in [0, 1] {
        let fake = cluster();
        let claim = Claim::make(&fake, "me", &record(&fake)).unwrap();
        let turns = Turns::new(&claim).unwrap();
        for _ in 0..turns_before {
            fake.races.set(2);
            turns.next(&fake, "new", "b1").unwrap();
            assert_eq!(turns.last(), ["new", "b1"]);
        }
        let object = workload().get(&fake).unwrap();
        turns.check(&object).unwrap();
        deploy(&fake, image, json!("hotfix"));
        assert!(turns.check(&workload().get(&fake).unwrap()).is_err());
        let error = turns.next(&fake, "old", "a1").unwrap_err().to_string();
        assert!(error.contains("to \"hotfix\""), "{error}");
        assert_eq!(fake.at(&workload().path(), image), json!("hotfix"), "it was overwritten");
        restore(&fake, &claim, Duration::ZERO).unwrap();
        assert_eq!(fake.at(&workload().path(), image), json!("hotfix"), "it was reverted");
    }
    let fake = cluster();
    let claim = Claim::make(&fake, "me", &record(&fake)).unwrap();
    let turns = Turns::new(&claim).unwrap();
    turns.next(&fake, "new", "b1").unwrap();
    deploy(&fake, "/spec/template/metadata/annotations", json!({}));
    assert!(turns.next(&fake, "old", "a1").is_err(), "the whole template was replaced");
    // The candidate, as the next release: with the mark of a baseline turn, and with none.
    for is_whole in [false, true] {
        let fake = cluster();
        let claim = Claim::make(&fake, "me", &record(&fake)).unwrap();
        let turns = Turns::new(&claim).unwrap();
        turns.next(&fake, "old", "a1").unwrap();
        deploy(&fake, image, json!("new"));
        if is_whole {
            deploy(&fake, "/spec/template/metadata/annotations", json!({}));
        }
        assert!(turns.check(&workload().get(&fake).unwrap()).is_err());
        restore(&fake, &claim, Duration::ZERO).unwrap();
        assert_eq!(fake.at(&workload().path(), image), json!("new"), "it was reverted");
    }
}

#[test]
fn what_admission_makes_of_an_image_is_the_runs_own_and_put_back() {
    for says_before in [true, false] {
        let fake = cluster();
        let claim = Claim::make(&fake, "me", &record(&fake)).unwrap();
        let turns = Turns::new(&claim).unwrap();
        fake.admission.set(Some(says_before));
        turns.next(&fake, "new", "b1").unwrap();
        assert_eq!(turns.last(), ["new@sha256:x", "b1"]);
        assert_eq!(fake.at(&workload().path(), IMAGE), json!("new@sha256:x"));
        turns.check(&workload().get(&fake).unwrap()).unwrap();
        // By another program, which has the record of the Lease, and by the run itself.
        let found = Claim::find(&fake, &workload()).unwrap().unwrap();
        fake.admission.set(None);
        restore(&fake, if says_before { &found } else { &claim }, Duration::ZERO).unwrap();
        assert_eq!(specs(&fake), specs(&cluster()));
    }
}

#[test]
fn what_admission_makes_of_an_image_is_recorded_before_it_is_there() {
    for steps in 0..=3 {
        let fake = cluster();
        let claim = Claim::make(&fake, "me", &record(&fake)).unwrap();
        fake.admission.set(Some(true));
        fake.left.set(Some(steps));
        assert_eq!(Turns::new(&claim).unwrap().next(&fake, "new", "b1").is_ok(), steps == 3);
        fake.left.set(None);
        fake.admission.set(None);
        let found = Claim::find(&fake, &workload()).unwrap().unwrap();
        restore(&fake, &found, Duration::ZERO).unwrap();
        assert_eq!(specs(&fake), specs(&cluster()), "after {steps} steps");
    }
}

#[test]
fn a_run_whose_lease_another_has_changes_and_deletes_nothing() {
    let fake = cluster();
    let first = run(&fake, &record(&fake)).unwrap();
    restore(&fake, &first, Duration::ZERO).unwrap();
    let before = specs(&fake);
    let turns = Turns::new(&first).unwrap();
    assert!(turns.next(&fake, "new", "b1").is_err(), "the Lease is gone");
    assert_eq!(specs(&fake), before);
    let second = run(&fake, &record(&fake)).unwrap();
    let during = specs(&fake);
    assert!(turns.next(&fake, "new", "a1").is_err(), "the Lease is another run's");
    let error = restore(&fake, &first, Duration::ZERO).unwrap_err();
    assert!(
        error.is_others() && error.to_string().contains("another run has the Lease"),
        "{error}"
    );
    assert!(fake.delete(&first.path, Some(&first.uid)).unwrap_err().is_conflict());
    assert_eq!(specs(&fake), during);
    assert_eq!(Claim::find(&fake, &workload()).unwrap().map(|found| found.uid), Some(second.uid));
}

#[test]
fn a_record_changes_only_what_runs_change() {
    let refused = |lie: &dyn Fn(&mut Record)| {
        let fake = cluster();
        let mut record = record(&fake);
        lie(&mut record);
        let error = Claim::make(&fake, "me", &record).unwrap_err().to_string();
        assert_eq!(Claim::find(&fake, &workload()).unwrap(), None);
        error
    };
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/admins";
    for (pointer, path) in [
        ("/subjects", role),
        ("/spec/replicas", role),
        ("/spec/replicas", "/apis/apps/v1/namespaces/dns/deployments/../../x"),
        ("/spec/template/spec/containers/0/command", &workload().path()),
        ("/spec/template/spec/containers/0/image", OPERATOR),
    ] {
        let error = refused(&|record| {
            let change = &mut record.changes[1];
            (change.pointer, change.path) = (pointer.to_owned(), path.to_owned());
        });
        assert!(error.contains("no run changes in this way"), "{pointer} {path}: {error}");
    }
    let error = refused(&|record| record.changes[2].guard = None);
    assert!(error.contains("containers/0/image"), "{error}");
    // A record in another workload's Lease.
    let fake = cluster();
    let claim = run(&fake, &record(&fake)).unwrap();
    let lease = fake.get(&claim.path).unwrap().unwrap();
    let elsewhere: Workload = "kube-system/deployment/other".parse().unwrap();
    fake.put(&lease_path(&elsewhere), lease);
    let error = Claim::find(&fake, &elsewhere).unwrap_err().to_string();
    assert!(error.contains("a record of kube-system/deployment/coredns"), "{error}");
    // It does not keep the others from being restored.
    let leases = [lease_path(&elsewhere), claim.path.clone()].map(|path| {
        let mut lease = fake.at(&path, "");
        let name = path.rsplit('/').next();
        lease["metadata"]["namespace"] = json!("kube-system");
        lease["metadata"]["name"] = json!(name);
        lease
    });
    fake.put("/apis/coordination.k8s.io/v1/leases", json!({"metadata": {}, "items": leases}));
    let all = Claim::find_all(&fake).unwrap();
    assert_eq!(all.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_container_is_found_by_its_name_when_others_have_come_before_it() {
    let fake = cluster();
    let claim = run(&fake, &record(&fake)).unwrap();
    let list = "/spec/template/spec/containers";
    let sidecar = json!({"name": "sidecar", "image": "other"});
    let mut objects = fake.objects.borrow_mut();
    let object = objects.get_mut(&workload().path()).unwrap();
    object.pointer_mut(list).unwrap().as_array_mut().unwrap().insert(0, sidecar.clone());
    drop(objects);
    restore(&fake, &claim, Duration::ZERO).unwrap();
    let expected = json!([sidecar, {"name": "coredns", "image": "old"}]);
    assert_eq!(fake.at(&workload().path(), list), expected);
}

#[test]
fn one_run_at_a_time_has_the_record() {
    let fake = cluster();
    let record = record(&fake);
    let claim = Claim::make(&fake, "me", &record).unwrap();
    assert!(Claim::make(&fake, "other", &record).unwrap_err().is_conflict());
    assert!(claim.is_alive());
    claim.renew(&fake).unwrap();
    fake.objects.borrow_mut().get_mut(&lease_path(&workload())).unwrap()["spec"]["holderIdentity"] =
        json!("other");
    assert!(claim.renew(&fake).unwrap_err().is_conflict(), "it was taken over and goes on");
    fake.objects.borrow_mut().get_mut(&lease_path(&workload())).unwrap()["spec"]["renewTime"] =
        json!("2020-01-01T00:00:00.000000Z");
    let old = Claim::find(&fake, &workload()).unwrap().unwrap();
    assert!(!old.is_alive() && old.age > i64::from(LEASE_SECONDS));
}

#[test]
fn each_owner_has_its_way() {
    let owner = |metadata: Value| {
        let fake = cluster();
        fake.put(
            "/apis/operator.openshift.io/v1/dnses/default",
            json!({"metadata": {}, "spec": {}}),
        );
        let app = json!({
            "metadata": {"name": "dns", "namespace": "argocd"},
            "spec": {"syncPolicy": {"automated": {"prune": true}}},
            "status": {"resources": [
                {"kind": "Deployment", "namespace": "kube-system", "name": "coredns"}
            ]},
        });
        fake.put(
            "/apis/argoproj.io/v1alpha1/applications",
            json!({"metadata": {}, "items": [app]}),
        );
        owners(&fake, &workload(), &json!({ "metadata": metadata })).unwrap()
    };
    let pauses = |metadata: Value| match &owner(metadata)[..] {
        [Owner::Pausable { change: Change { path, pointer, during, .. }, .. }] => {
            format!("{path} {pointer} {}", during[0])
        }
        other => panic!("{other:?}"),
    };
    let openshift = json!({
        "labels": {"dns.operator.openshift.io/owning-dns": "default"},
        "ownerReferences": [{"kind": "DNS", "name": "default", "apiVersion": "operator.openshift.io/v1", "controller": true}],
    });
    assert_eq!(
        pauses(openshift),
        "/apis/operator.openshift.io/v1/dnses/default /spec/managementState \"Unmanaged\""
    );
    let argo = json!({"annotations": {"argocd.argoproj.io/tracking-id": "dns:apps/Deployment:kube-system/coredns"}});
    assert_eq!(
        pauses(argo),
        "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/dns /spec/syncPolicy/automated null"
    );
    let addon = json!({"labels": {"addonmanager.kubernetes.io/mode": "Reconcile"}});
    assert!(matches!(&owner(addon)[..], [Owner::Undoes { name, .. }] if name.contains("GKE")));
    let eks = json!({"labels": {"eks.amazonaws.com/component": "coredns"}});
    assert!(matches!(&owner(eks)[..], [Owner::Known { .. }]));
    let unknown = json!({"ownerReferences": [{"kind": "Dns", "name": "x", "apiVersion": "y/v1", "controller": true}]});
    assert!(matches!(&owner(unknown)[..], [Owner::Undoes { name, .. }] if name == "Dns x (y/v1)"));
    assert_eq!(owner(json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}})), []);
    let absent = json!({"labels": {
        "helm.toolkit.fluxcd.io/name": "dns", "helm.toolkit.fluxcd.io/namespace": "flux-system",
    }});
    let error = owners(&cluster(), &workload(), &json!({ "metadata": absent })).unwrap_err();
    assert!(error.to_string().contains("helmreleases/dns"), "{error}");
}
