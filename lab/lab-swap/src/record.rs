//! What a run changes, kept in the cluster before it is changed.
//!
//! The record is an annotation of a Lease beside the workload. The Lease is there exactly as long as
//! something may have to be put back; its holder renews it, so that others see whether the run lives.
//! What a run creates is owned by the Lease and goes with it.

use crate::api::{Api, Error};
use crate::change::{Change, test};
use crate::known::is_known;
use crate::workload::Workload;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How long a Lease counts without being renewed.
pub const LEASE_SECONDS: u32 = 30;
/// The annotation with the record.
const ANNOTATION: &str = "nodens-lab/swap";
/// Octets of a record at most: the API server takes 256 KiB of annotations.
const RECORD_LEN_MAX: usize = 200 << 10;
/// The layout of the record.
const VERSION: u32 = 1;

/// All changes of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of this layout.
    pub version: u32,
    /// Names the run.
    pub run: String,
    /// Whose images are exchanged.
    pub workload: Workload,
    /// The changes, in the order in which they are made.
    pub changes: Vec<Change>,
}

impl Record {
    /// The record of the run called `run`.
    pub fn new(run: &str, workload: &Workload, changes: Vec<Change>) -> Self {
        Self { version: VERSION, run: run.to_owned(), workload: workload.clone(), changes }
    }
}

/// A Lease with a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Path of its URL.
    pub path: String,
    /// Its UID, by which it owns other objects.
    pub uid: String,
    /// Who holds it.
    pub holder: String,
    /// Seconds since it was renewed, by this machine's clock.
    pub age: i64,
    /// The record.
    pub record: Record,
}

/// Where the Lease of a workload is.
pub fn lease_path(workload: &Workload) -> String {
    format!("{}/{}", leases(workload), name(workload))
}

fn leases(workload: &Workload) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", workload.namespace)
}

fn name(workload: &Workload) -> String {
    format!("nodens-lab-swap-{}-{}", workload.kind.lower(), workload.name)
}

fn now() -> String {
    format!("{:.6}", Timestamp::now())
}

impl Claim {
    /// Writes the record for `holder`. A conflict if there is a record already.
    ///
    /// # Errors
    ///
    /// What the server said, or that the record is too large.
    pub fn make(api: &dyn Api, holder: &str, record: &Record) -> Result<Self, Error> {
        let what = || format!("the record of {}", record.workload);
        let text = serde_json::to_string(record).map_err(|error| Error::new(what(), error))?;
        if text.len() > RECORD_LEN_MAX {
            let message = format!("{} octets, expected at most {RECORD_LEN_MAX}", text.len());
            return Err(Error::new(what(), message));
        }
        check(&lease_path(&record.workload), record)?;
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name(&record.workload), "annotations": {ANNOTATION: text}},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": LEASE_SECONDS,
                "acquireTime": now(),
                "renewTime": now(),
            },
        });
        let made = api.create(&leases(&record.workload), &lease)?;
        Self::read(&lease_path(&record.workload), &made)
    }

    /// The record of a workload, if there is one.
    ///
    /// # Errors
    ///
    /// What the server said, or what is wrong with the record.
    pub fn find(api: &dyn Api, workload: &Workload) -> Result<Option<Self>, Error> {
        let path = lease_path(workload);
        api.get(&path)?.map(|lease| Self::read(&path, &lease)).transpose()
    }

    /// The records of all workloads of the cluster, each of them or what is wrong with it.
    ///
    /// # Errors
    ///
    /// What the server said.
    pub fn find_all(api: &dyn Api) -> Result<Vec<Result<Self, Error>>, Error> {
        let list = api.get("/apis/coordination.k8s.io/v1/leases")?.unwrap_or_default();
        let items = list.pointer("/items").and_then(Value::as_array).cloned().unwrap_or_default();
        let ours = items.iter().filter(|lease| annotation(lease).is_some());
        let read = |lease: &Value| {
            let (namespace, name) =
                (text(lease, "/metadata/namespace"), text(lease, "/metadata/name"));
            let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
            Self::read(&path, lease)
        };
        Ok(ours.map(read).collect())
    }

    fn read(path: &str, lease: &Value) -> Result<Self, Error> {
        let wrong = |message: String| Error::new(path, message);
        let record = annotation(lease)
            .ok_or_else(|| wrong(format!("a Lease without the annotation {ANNOTATION}")))?;
        let record: Record = serde_json::from_str(record)
            .map_err(|error| wrong(format!("its annotation {ANNOTATION} is no record: {error}")))?;
        if record.version != VERSION {
            let found = record.version;
            return Err(wrong(format!(
                "a record of layout {found}, expected {VERSION}: use the nodens-lab that wrote it"
            )));
        }
        check(path, &record)?;
        let renewed: Option<Timestamp> = text(lease, "/spec/renewTime").parse().ok();
        Ok(Self {
            path: path.to_owned(),
            uid: text(lease, "/metadata/uid").to_owned(),
            holder: text(lease, "/spec/holderIdentity").to_owned(),
            age: renewed.map_or(i64::MAX, |at| Timestamp::now().as_second() - at.as_second()),
            record,
        })
    }

    /// Whether its run may still live.
    pub fn is_alive(&self) -> bool {
        self.age <= i64::from(LEASE_SECONDS)
    }

    /// Says that the holder lives. A conflict, or an absent Lease, says that another program has restored
    /// the workload.
    ///
    /// # Errors
    ///
    /// What the server said.
    pub fn renew(&self, api: &dyn Api) -> Result<(), Error> {
        let patch = json!([
            test("/metadata/uid", &json!(self.uid)),
            test("/spec/holderIdentity", &json!(self.holder)),
            {"op": "replace", "path": "/spec/renewTime", "value": now()},
        ]);
        api.patch(&self.path, &patch).map(|_| ())
    }

    /// Takes changes that were not made out of the record, here and in the Lease.
    pub(crate) fn forget(&mut self, api: &dyn Api, changes: &[Change]) -> Result<(), Error> {
        self.record.changes.retain(|one| !changes.contains(one));
        self.write(api, &self.record)
    }

    /// Adds a pair that the run gives an image and its mark to the record in the Lease.
    pub(crate) fn learn(
        &self,
        api: &dyn Api,
        image: &Change,
        [own, other]: [&Value; 2],
    ) -> Result<(), Error> {
        let found = Self::find(api, &self.record.workload)?.filter(|found| found.uid == self.uid);
        let lost = || Error::new(&self.path, "another run has the Lease");
        let mut record = found.ok_or_else(lost)?.record;
        let mine = |one: &&mut Change| one.is_same(image) && !one.has_pair(own, other);
        record.changes.iter_mut().filter(mine).for_each(|one| one.learn(own, other));
        self.write(api, &record)
    }

    /// The changes as the Lease has them, which may know more values of the run.
    pub(crate) fn learned(&self, lease: Option<&Value>) -> Vec<Change> {
        let found = lease.and_then(|lease| Self::read(&self.path, lease).ok());
        let all = found.map(|found| found.record.changes).unwrap_or_default();
        let learned = |own: &Change| all.iter().find(|one| one.is_same(own)).unwrap_or(own).clone();
        self.record.changes.iter().map(learned).collect()
    }

    fn write(&self, api: &dyn Api, record: &Record) -> Result<(), Error> {
        let text = serde_json::to_string(record).map_err(|error| Error::new(&self.path, error))?;
        let pointer = format!("/metadata/annotations/{}", ANNOTATION.replace('/', "~1"));
        let patch = json!([
            test("/metadata/uid", &json!(self.uid)),
            test("/spec/holderIdentity", &json!(self.holder)),
            {"op": "replace", "path": pointer, "value": text},
        ]);
        api.patch(&self.path, &patch).map(|_| ())
    }

    /// What objects that go with the Lease have in `metadata.ownerReferences`.
    pub fn owner(&self) -> Value {
        json!([{
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "name": name(&self.record.workload),
            "uid": self.uid,
        }])
    }
}

/// Whether the record in the Lease at `path` is one that a run wrote there: who may write a Lease must not have
/// others write elsewhere.
fn check(path: &str, record: &Record) -> Result<(), Error> {
    let wrong = |message: String| Err(Error::new(path, message));
    let expected = lease_path(&record.workload);
    if path != expected {
        return wrong(format!("a record of {}, expected in {expected}", record.workload));
    }
    match record.changes.iter().find(|one| !is_known(&record.workload, one)) {
        None => Ok(()),
        Some(Change { path, pointer, .. }) => wrong(format!(
            "its record would change {pointer} of {path}, which no run changes in this way"
        )),
    }
}

fn annotation(lease: &Value) -> Option<&str> {
    lease.pointer("/metadata/annotations")?.get(ANNOTATION)?.as_str()
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
