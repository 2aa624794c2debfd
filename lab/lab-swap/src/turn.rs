//! Image and mark of a workload, changed turn by turn, and only from what the last turn left.

use crate::api::{Api, Error};
use crate::change::{Change, test};
use crate::record::Claim;
use crate::workload::Workload;
use serde_json::{Value, json};
use std::cell::RefCell;

/// How often a change that meets another is tried.
const TRIES: usize = 8;

/// The two fields of a workload that a run changes, and what it gave them last.
pub struct Turns<'c> {
    claim: &'c Claim,
    own: [&'c Change; 2],
    last: RefCell<[Value; 2]>,
}

impl<'c> Turns<'c> {
    /// Of a record whose workload is as it was before.
    ///
    /// # Errors
    ///
    /// That the record has no image and mark.
    pub fn new(claim: &'c Claim) -> Result<Self, Error> {
        let path = claim.record.workload.path();
        let mut own = claim.record.changes.iter().filter(|change| change.path == path);
        let found: Option<[&Change; 2]> = own.next().zip(own.next()).map(Into::into);
        let own = found.ok_or_else(|| Error::new(&claim.path, "no image and mark to change"))?;
        Ok(Self { claim, own, last: RefCell::new(own.map(|change| change.before.clone())) })
    }

    /// Gives the workload an image and a mark, if it still has those of the last turn.
    ///
    /// # Errors
    ///
    /// What the server said, or that another program has changed the workload, or has the Lease.
    pub fn next(&self, api: &dyn Api, image: &str, mark: &str) -> Result<(), Error> {
        let workload = &self.claim.record.workload;
        // Whoever was suspended may have lost the Lease, and with it the workload.
        self.claim.renew(api)?;
        let to = self.admitted(api, [json!(image), json!(mark)])?;
        let mut tries = 0;
        loop {
            let object = workload.get(api)?;
            // A conflict may be the answer to a second copy of a patch that was applied.
            let made =
                |(change, to): (&&Change, &Value)| change.value(&object).as_ref() == Some(to);
            if tries > 0 && self.own.iter().zip(&to).all(made) {
                self.last.replace(to);
                return Ok(());
            }
            self.check(&object)?;
            // What was looked at is what is changed.
            let version = object.pointer("/metadata/resourceVersion");
            let version = version.map(|version| test("/metadata/resourceVersion", version));
            let mut patch: Vec<Value> = version.into_iter().collect();
            for (change, to) in self.own.iter().zip(&to) {
                patch.extend(change.set(&object, to));
            }
            tries += 1;
            match api.patch(&workload.path(), &Value::Array(patch)) {
                Ok(object) => {
                    let to = self.learn(api, &object, to)?;
                    self.last.replace(to);
                    return Ok(());
                }
                // Its status changes all the time.
                Err(error) if error.is_conflict() && tries < TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What the workload would have in place of `to`: admission may resolve the tag of an image, for example. It
    /// is in the record before the workload has it.
    fn admitted(&self, api: &dyn Api, to: [Value; 2]) -> Result<[Value; 2], Error> {
        let workload = &self.claim.record.workload;
        let object = workload.get(api)?;
        self.check(&object)?;
        let set = self.own.iter().zip(&to).flat_map(|(change, to)| change.set(&object, to));
        let patch = Value::Array(set.collect());
        match api.patch(&format!("{}?dryRun=All", workload.path()), &patch) {
            Ok(object) => self.learn(api, &object, to),
            // There is a webhook without dry runs.
            Err(error) if error.code == 400 => Ok(to),
            Err(error) => Err(error),
        }
    }

    /// What `object`, which was given `to`, has in its place, and the record as well.
    fn learn(
        &self,
        api: &dyn Api,
        object: &Value,
        [to, mark]: [Value; 2],
    ) -> Result<[Value; 2], Error> {
        let [image, _] = self.own;
        let Some(stored) = image.value(object).filter(|stored| *stored != to) else {
            return Ok([to, mark]);
        };
        if stored != image.before && !image.has_pair(&stored, &mark) {
            self.claim.learn(api, image, [&stored, &mark])?;
        }
        Ok([stored, mark])
    }

    /// Image and mark of the last turn.
    pub fn last(&self) -> [String; 2] {
        self.last.borrow().each_ref().map(|one| one.as_str().unwrap_or_default().to_owned())
    }

    /// Whether the workload has the image and the mark that it was given last.
    ///
    /// # Errors
    ///
    /// Which program has changed it.
    pub fn check(&self, object: &Value) -> Result<(), Error> {
        let workload = &self.claim.record.workload;
        for (change, last) in self.own.iter().zip(self.last.borrow().iter()) {
            let now = change.value(object);
            if now.as_ref() != Some(last) {
                let writer = Workload::image_writer(object).unwrap_or("an unknown program");
                let now = now.map_or("a container that is gone".to_owned(), |now| now.to_string());
                return Err(Error::new(
                    workload.to_string(),
                    format!(
                        "another program ({writer}?) has set the {} to {now}: if that was an owner, stop it with --scale-down NAMESPACE/DEPLOYMENT",
                        change.what
                    ),
                ));
            }
        }
        Ok(())
    }
}
