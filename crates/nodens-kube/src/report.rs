//! What is said about the state of a watch: one line for each change of it, not for each attempt.

use crate::fault::Fault;
use crate::kinds::Resource;
use crate::limits::{REMIND_MAX, REMIND_MIN};
use nodens_core::cluster::{Kind, Link};
use nodens_core::log::Level;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A line for the log.
pub(crate) type Line = (Level, String);

/// The state of all loops of one watch.
#[derive(Debug)]
pub(crate) struct Report {
    /// How the server is called.
    server: String,
    /// Whether the server does without what it has no right to read.
    optional: bool,
    /// Whether that has been said.
    without_said: bool,
    kinds: BTreeMap<Kind, State>,
    /// What is wrong with the server as a whole.
    trouble: Option<Trouble>,
}

/// How it stands with one kind of object.
#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Connecting,
    Connected,
    /// The server has no such kind, which is as good as none of it.
    Absent,
    Lost {
        since: SystemTime,
        reason: String,
        /// What is wrong with this kind alone.
        trouble: Option<Trouble>,
        /// Whether a whole list has been there.
        knew: bool,
    },
}

/// Something that has been said.
#[derive(Clone, Debug)]
struct Trouble {
    class: &'static str,
    since: SystemTime,
    said: SystemTime,
    again: Duration,
}

impl Trouble {
    fn new(class: &'static str, now: SystemTime) -> Self {
        Self { class, since: now, said: now, again: REMIND_MIN }
    }

    /// Whether it is time to say it again.
    fn is_due(&mut self, now: SystemTime) -> bool {
        let due = now.duration_since(self.said).is_ok_and(|passed| passed >= self.again);
        if due {
            self.said = now;
            self.again = (self.again * 2).min(REMIND_MAX);
        }
        due
    }
}

impl Report {
    /// Nothing has happened yet.
    pub(crate) fn new(
        server: String,
        optional: bool,
        kinds: impl IntoIterator<Item = Kind>,
    ) -> Self {
        let kinds = kinds.into_iter().map(|kind| (kind, State::default())).collect();
        Self { server, optional, without_said: false, kinds, trouble: None }
    }

    /// What is known of a kind is what is there.
    pub(crate) fn connected(&mut self, of: &Resource, now: SystemTime) -> Option<Line> {
        let state = self.kinds.insert(of.kind, State::Connected).unwrap_or_default();
        let server = &self.server;
        if let Some(trouble) = self.trouble.take() {
            let age = age(trouble.since, now);
            let text = format!("Kubernetes API at {server}: watching again after {age}");
            return Some((Level::Info, text));
        }
        match state {
            State::Absent => {
                let text = format!("Kubernetes API at {server}: there are {} now", of.title);
                Some((Level::Info, text))
            }
            State::Lost { trouble: Some(trouble), .. } => {
                let (what, age) = (of.title, age(trouble.since, now));
                let text = format!("Kubernetes API at {server}: watching {what} again after {age}");
                Some((Level::Info, text))
            }
            _ => None,
        }
    }

    /// The server has no such kind of object, which a cluster may do without.
    pub(crate) fn absent(&mut self, of: &Resource, fault: &Fault) -> Option<Line> {
        let known = self.kinds.insert(of.kind, State::Absent);
        let new = !matches!(known, Some(State::Absent));
        new.then(|| (Level::Warning, said(&self.server, of, fault)))
    }

    /// A request or stream came to nothing.
    pub(crate) fn failed(&mut self, of: &Resource, fault: &Fault, now: SystemTime) -> Option<Line> {
        let (since, knew, mut trouble) = match self.kinds.remove(&of.kind).unwrap_or_default() {
            State::Connecting => (now, false, None),
            State::Connected | State::Absent => (now, true, None),
            State::Lost { since, knew, trouble, .. } => (since, knew, trouble),
        };
        let does_without = self.optional && !knew && matches!(fault, Fault::Forbidden(_));
        let slot = match fault.is_of_server() {
            true => &mut self.trouble,
            false => &mut trouble,
        };
        let mut say = true;
        let mut lasting = None;
        match slot {
            Some(known) if known.class == fault.class() => {
                say = !does_without && known.is_due(now);
                lasting = Some(age(known.since, now));
            }
            known => {
                let begun = known.as_ref().map_or(now, |known| known.since);
                *known = Some(Trouble { since: begun, ..Trouble::new(fault.class(), now) });
            }
        }
        if does_without {
            // Once, and not for each kind.
            say &= !std::mem::replace(&mut self.without_said, true);
        }
        let line = say.then(|| {
            if does_without {
                return (Level::Info, without(&self.server, of));
            }
            let lasting = lasting.map(|age| format!(" (for {age} now)")).unwrap_or_default();
            let known = match knew {
                true => format!("; answering from what was known {} ago", age(since, now)),
                false => "; nothing is known yet".to_owned(),
            };
            let said = said(&self.server, of, fault);
            (Level::Warning, format!("{said}{lasting}{known}"))
        });
        let reason = fault.to_string();
        self.kinds.insert(of.kind, State::Lost { since, reason, trouble, knew });
        line
    }

    /// The state as a whole: that of the kind that was lost first.
    pub(crate) fn link(&self) -> Link {
        let lost = self.kinds.values().filter_map(|state| match state {
            State::Lost { since, reason, .. } => Some((since, reason)),
            _ => None,
        });
        if let Some((since, reason)) = lost.min_by_key(|(since, _)| **since) {
            let since_unix_s = since.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            return Link::Lost { since_unix_s, reason: reason.clone() };
        }
        match !self.kinds.values().any(|state| matches!(state, State::Connecting)) {
            true => Link::Connected,
            false => Link::Connecting,
        }
    }

    /// Since when a kind has not been known to be right; `None` if it is.
    pub(crate) fn lost_since(&self, kind: Kind) -> Option<SystemTime> {
        match self.kinds.get(&kind)? {
            State::Lost { since, .. } => Some(*since),
            _ => None,
        }
    }
}

/// What is said where a right is missing that nothing depends on.
fn without(server: &str, of: &Resource) -> String {
    let (what, rbac) = (of.title, of.rbac);
    format!(
        "no right to read {what} from the Kubernetes API at {server} (list and watch on {rbac}), \
         working without: see Rights in docs/node.md"
    )
}

fn said(server: &str, of: &Resource, fault: &Fault) -> String {
    let (what, rbac) = (of.title, of.rbac);
    match fault {
        Fault::Unreachable(text) => {
            format!("no connection to the Kubernetes API at {server}: {text}")
        }
        Fault::Tls(text) => format!(
            "no TLS with the Kubernetes API at {server}: {text}; expected a certificate that the \
             configured authority has signed for this server, and one of ours that it accepts"
        ),
        Fault::Config(text) => format!("Kubernetes API at {server}: {text}"),
        Fault::Unauthorized(text) => format!(
            "the Kubernetes API at {server} does not know us (401 {text}); expected a token or \
             certificate that is valid now, reading them anew"
        ),
        Fault::Forbidden(text) => format!(
            "the Kubernetes API at {server} does not let us read {what}: {text}; expected the \
             verbs list and watch on {rbac}"
        ),
        Fault::Absent(text) if of.optional => {
            format!(
                "the Kubernetes API at {server} has no {what} ({rbac}): {text}; taking it for none"
            )
        }
        Fault::Absent(text) => {
            format!("the Kubernetes API at {server} has no {what} ({rbac}): {text}")
        }
        Fault::Gone(text)
        | Fault::NotOffered(text)
        | Fault::Strange(text)
        | Fault::Failed(text) => {
            format!("the Kubernetes API at {server} does not give {what}: {text}")
        }
        Fault::Busy { text, .. } => {
            format!("the Kubernetes API at {server} does not give {what} now: {text}")
        }
    }
}

/// A duration for people, in whole seconds.
fn age(since: SystemTime, now: SystemTime) -> String {
    let seconds = now.duration_since(since).unwrap_or_default().as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{}s", seconds % 60),
        _ => format!("{hours}h{minutes}m{}s", seconds % 60),
    }
}

#[cfg(test)]
mod tests;
