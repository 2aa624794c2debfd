//! Answers to the challenges of ACME servers (RFC 8555 section 8.4), for as long as somebody waits for them.

use arc_swap::ArcSwap;
use nodens_wire::Name;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The TXT records that ACME servers are to find: names, each with its texts. Readers take no lock; while no challenge
/// is under way they read one flag.
#[derive(Debug, Default)]
pub struct Challenges {
    any: AtomicBool,
    table: ArcSwap<Vec<Challenge>>,
}

/// One text at one name.
#[derive(Clone, Debug)]
struct Challenge {
    name: Name,
    text: Arc<str>,
}

/// The text is there until this is dropped.
#[derive(Debug)]
pub struct Presented {
    challenges: Arc<Challenges>,
    text: Arc<str>,
}

impl Challenges {
    /// Answers questions for TXT records of `name` also with `text`, of at most 255 octets.
    #[must_use]
    pub fn present(self: &Arc<Self>, name: &Name, text: &str) -> Presented {
        let text: Arc<str> = text.into();
        let new = Challenge { name: name.clone(), text: text.clone() };
        self.change(|table| table.push(new.clone()));
        Presented { challenges: self.clone(), text }
    }

    fn change(&self, change: impl Fn(&mut Vec<Challenge>)) {
        self.table.rcu(|table| {
            let mut table = Vec::clone(table);
            change(&mut table);
            table
        });
        self.any.store(!self.table.load().is_empty(), Ordering::Release);
    }

    /// The texts of `name`, each once, in order; mostly there are none.
    pub(crate) fn texts(&self, name: &Name) -> Vec<Arc<str>> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let table = self.table.load();
        let here = table.iter().filter(|challenge| challenge.name == *name);
        let mut texts: Vec<_> = here.map(|challenge| challenge.text.clone()).collect();
        texts.sort_unstable();
        texts.dedup();
        texts
    }
}

impl Drop for Presented {
    fn drop(&mut self) {
        // Another one with the same text stays.
        self.challenges.change(|table| table.retain(|own| !Arc::ptr_eq(&own.text, &self.text)));
    }
}
