//! One field of one object: what it was, what it becomes, and how it gets back.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A field that is changed for the time of a run. An absent field is `null`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// What it is, for people.
    pub what: String,
    /// Path of the object's URL.
    pub path: String,
    /// JSON pointer (RFC 6901) to the field.
    pub pointer: String,
    /// What it was.
    pub before: Value,
    /// What it may be while the run lasts.
    pub during: Vec<Value>,
    /// How many of the objects around the field were absent, too, and go with it.
    #[serde(default)]
    pub absent_around: usize,
    /// A field that must have this value, or the pointer leads elsewhere: the name of a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<(String, Value)>,
    /// A second field without which a value of `during` may be another writer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<Box<With>>,
}

/// A field that the run changes together with another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct With {
    /// JSON pointer to it.
    pub pointer: String,
    /// What the run may give both: the other one's value, and this one's.
    pub pairs: Vec<(Value, Value)>,
}

/// What putting a field back takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Nothing: it is as it was.
    Already,
    /// These operations of a JSON patch.
    Patch(Vec<Value>),
    /// It has a value that neither was there before nor comes from the run: another writer's.
    Foreign(Value),
}

impl Change {
    /// A change of a field of `object`, which is at `path`.
    pub fn of(what: &str, path: &str, object: &Value, pointer: &str, during: Vec<Value>) -> Self {
        let mut absent_around = 0;
        let mut parent = split(pointer).0;
        while !parent.is_empty() && object.pointer(parent).is_none() {
            absent_around += 1;
            parent = split(parent).0;
        }
        Self {
            what: what.to_owned(),
            path: path.to_owned(),
            pointer: pointer.to_owned(),
            before: object.pointer(pointer).cloned().unwrap_or(Value::Null),
            during,
            absent_around,
            guard: None,
            with: None,
        }
    }

    /// The same for an element of a list that is known by the value of a field.
    #[must_use]
    pub fn guarded(self, pointer: &str, value: Value) -> Self {
        Self { guard: Some((pointer.to_owned(), value)), ..self }
    }

    /// The same for a field that the run changes together with another one.
    #[must_use]
    pub fn together(self, pointer: &str, pairs: Vec<(Value, Value)>) -> Self {
        let with = With { pointer: pointer.to_owned(), pairs };
        Self { with: Some(Box::new(with)), ..self }
    }

    /// Another pair that the run gives this field and the one beside it.
    pub(crate) fn learn(&mut self, own: &Value, other: &Value) {
        if !self.during.contains(own) {
            self.during.push(own.clone());
        }
        if let Some(with) = &mut self.with {
            with.pairs.push((own.clone(), other.clone()));
        }
    }

    /// Whether the run gives this field and the one beside it these values.
    pub(crate) fn has_pair(&self, own: &Value, other: &Value) -> bool {
        let is_same = |pair: &(Value, Value)| (&pair.0, &pair.1) == (own, other);
        self.with.as_ref().is_none_or(|with| with.pairs.iter().any(is_same))
    }

    /// Whether `other` is this change, as another copy of the record has it.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.path, &self.pointer, &self.before, &self.guard)
            == (&other.path, &other.pointer, &other.before, &other.guard)
    }

    /// What the field of `object` is; `None` if the pointer leads elsewhere.
    pub fn value(&self, object: &Value) -> Option<Value> {
        let here = self.found(object)?;
        Some(object.pointer(&here.pointer).cloned().unwrap_or(Value::Null))
    }

    /// This change where `object` has its field now: others may have put elements in front of its list.
    fn found(&self, object: &Value) -> Option<Self> {
        let Some((at, value)) = &self.guard else { return Some(self.clone()) };
        if object.pointer(at) == Some(value) {
            return Some(self.clone());
        }
        let (element, key) = split(at);
        let (list, _) = split(element);
        let all = object.pointer(list)?.as_array()?;
        let place = all.iter().position(|one| one.get(key) == Some(value))?;
        let pointer = format!("{list}/{place}{}", self.pointer.strip_prefix(element)?);
        let guard = Some((format!("{list}/{place}/{key}"), value.clone()));
        Some(Self { pointer, guard, ..self.clone() })
    }

    /// The operations that give the field of `object` the value `to`; none if it has it.
    pub fn set(&self, object: &Value, to: &Value) -> Vec<Value> {
        // Where it is not found, the test of its guard refuses the patch.
        self.found(object).as_ref().unwrap_or(self).set_here(object, to)
    }

    fn set_here(&self, object: &Value, to: &Value) -> Vec<Value> {
        let now = object.pointer(&self.pointer).unwrap_or(&Value::Null);
        if now == to {
            return Vec::new();
        }
        let mut operations: Vec<Value> =
            self.guard.iter().map(|(at, value)| test(at, value)).collect();
        operations.push(if to.is_null() { self.remove(object) } else { self.put(object, to) });
        operations
    }

    /// What it takes that the field of `object` is as it was before.
    pub fn back(&self, object: &Value) -> Decision {
        let Some(here) = self.found(object) else {
            let at = self.guard.as_ref().and_then(|(at, _)| object.pointer(at));
            return Decision::Foreign(at.cloned().unwrap_or(Value::Null));
        };
        here.back_here(object)
    }

    fn back_here(&self, object: &Value) -> Decision {
        let now = object.pointer(&self.pointer).unwrap_or(&Value::Null);
        if *now == self.before {
            Decision::Already
        } else if self.is_ours(object, now) {
            Decision::Patch(self.set_here(object, &self.before))
        } else {
            Decision::Foreign(now.clone())
        }
    }

    /// Whether the run may have given the field of `object` the value `now`.
    fn is_ours(&self, object: &Value, now: &Value) -> bool {
        let is_pair = |with: &With| {
            let beside = object.pointer(&with.pointer).unwrap_or(&Value::Null);
            with.pairs.iter().any(|(own, other)| own == now && other == beside)
        };
        self.during.contains(now) && self.with.as_deref().is_none_or(is_pair)
    }

    /// Removes the field, and what was made around it as far as nothing else is in there.
    fn remove(&self, object: &Value) -> Value {
        let mut path = self.pointer.as_str();
        for _ in 0..self.absent_around {
            let (parent, _) = split(path);
            let map = object.pointer(parent).and_then(Value::as_object);
            if map.is_none_or(|map| map.len() != 1) {
                break;
            }
            path = parent;
        }
        json!({"op": "remove", "path": path})
    }

    /// Adds what is missing on the way, in one operation.
    fn put(&self, object: &Value, to: &Value) -> Value {
        let (mut path, mut value) = (self.pointer.as_str(), to.clone());
        loop {
            let (parent, key) = split(path);
            if parent.is_empty() || object.pointer(parent).is_some() {
                return json!({"op": "add", "path": path, "value": value});
            }
            let key = key.replace("~1", "/").replace("~0", "~");
            value = Value::Object(Map::from_iter([(key, value)]));
            path = parent;
        }
    }
}

/// The operation of a patch without which the others do not happen.
pub(crate) fn test(pointer: &str, value: &Value) -> Value {
    json!({"op": "test", "path": pointer, "value": value})
}

fn split(pointer: &str) -> (&str, &str) {
    pointer.rsplit_once('/').unwrap_or(("", pointer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> (Value, Change) {
        let object = json!({"spec": {"containers": [{"name": "dns", "image": "old"}]}});
        let change =
            Change::of("image", "/d", &object, "/spec/containers/0/image", vec!["new".into()]);
        (object, change.guarded("/spec/containers/0/name", "dns".into()))
    }

    #[test]
    fn a_field_comes_back_unless_another_writer_has_changed_it() {
        let (mut object, change) = image();
        assert_eq!(change.back(&object), Decision::Already);
        assert_eq!(change.set(&object, &"old".into()), [] as [Value; 0]);
        object["spec"]["containers"][0]["image"] = "new".into();
        let Decision::Patch(operations) = change.back(&object) else { panic!("not put back") };
        let test = json!({"op": "test", "path": "/spec/containers/0/name", "value": "dns"});
        let add = json!({"op": "add", "path": "/spec/containers/0/image", "value": "old"});
        assert_eq!(operations, [test, add]);
        object["spec"]["containers"][0]["image"] = "third".into();
        assert_eq!(change.back(&object), Decision::Foreign("third".into()));
        object["spec"]["containers"][0]["name"] = "sidecar".into();
        assert_eq!(change.back(&object), Decision::Foreign("sidecar".into()));
    }

    #[test]
    fn what_was_absent_is_removed_with_what_was_made_around_it() {
        let bare = json!({"spec": {"template": {}}});
        let pointer = "/spec/template/metadata/annotations/lab~1mark";
        let change = Change::of("mark", "/d", &bare, pointer, vec!["a1".into()]);
        assert_eq!(change.absent_around, 2);
        let value = json!({"annotations": {"lab/mark": "a1"}});
        let add = json!({"op": "add", "path": "/spec/template/metadata", "value": value});
        assert_eq!(change.set(&bare, &"a1".into()), [add]);
        let marked =
            json!({"spec": {"template": {"metadata": {"annotations": {"lab/mark": "a1"}}}}});
        let remove = |path: &str| Decision::Patch(vec![json!({"op": "remove", "path": path})]);
        assert_eq!(change.back(&marked), remove("/spec/template/metadata"));
        let mut more = marked.clone();
        more["spec"]["template"]["metadata"]["annotations"]["other"] = "x".into();
        assert_eq!(change.back(&more), remove(pointer));
        let beside =
            Change::of("mark", "/d", &more, &pointer.replace("mark", "2"), vec!["1".into()]);
        assert_eq!(beside.absent_around, 0);
    }

    #[test]
    fn a_field_may_be_absent_during_the_run() {
        let object = json!({"spec": {"syncPolicy": {"automated": {"prune": true}}}});
        let pointer = "/spec/syncPolicy/automated";
        let change = Change::of("sync", "/a", &object, pointer, vec![Value::Null]);
        let paused = json!({"spec": {"syncPolicy": {}}});
        let add = json!({"op": "add", "path": pointer, "value": {"prune": true}});
        assert_eq!(change.back(&paused), Decision::Patch(vec![add]));
    }
}
