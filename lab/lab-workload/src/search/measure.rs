//! What a lookup would ask if something were different: the name, `ndots`, or the server.

use super::{Found, Libc, Resolver};
use nodens_wire::Name;

/// Something that changes how many queries a lookup takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Nothing.
    AsItIs,
    /// Another `ndots` in `resolv.conf`.
    Ndots(usize),
    /// The application writes the whole name, with a dot at its end.
    TrailingDot,
    /// The server walks the list (`autopath`): it answers the query for the name with the first domain of
    /// the list with what the first name has that exists.
    Autopath,
}

/// What a lookup sends, and what its server does for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// The names that the client asks for, in order.
    pub asked: Vec<Name>,
    /// How many of them bring the client no address.
    pub denied: usize,
    /// The names that the server looks up for the last one asked for, if it walks the list.
    pub by_server: Vec<Name>,
}

impl Course {
    /// How long the lookup waits, at least and at most, if the answers for a name take `time`. Where the
    /// server walks, it has the names in memory but for the last one, or asks for each as the client
    /// would have done.
    pub fn wait(&self, time: impl Fn(&Name) -> u64) -> (u64, u64) {
        let sum = |names: &[Name]| names.iter().map(&time).fold(0, u64::saturating_add);
        match (self.by_server.last(), self.asked.split_last()) {
            (Some(last), Some((_, before))) => {
                let before = sum(before);
                let (least, most) = (time(last), sum(&self.by_server));
                (before.saturating_add(least), before.saturating_add(most))
            }
            _ => (sum(&self.asked), sum(&self.asked)),
        }
    }
}

impl Resolver {
    /// What a lookup of `text` sends with `measure`, until a name ends it.
    pub fn with(&self, measure: Measure, text: &str, found: impl Fn(&Name) -> Found) -> Course {
        let asked = match measure {
            Measure::AsItIs => self.walk(text, &found),
            Measure::Ndots(ndots) => Self { ndots, ..self.clone() }.walk(text, &found),
            Measure::TrailingDot => self.whole(text, &found),
            Measure::Autopath => return self.with_autopath(text, &found),
        };
        let denied = asked.iter().filter(|name| found(name) != Found::Addresses).count();
        Course { asked, denied, by_server: Vec::new() }
    }

    /// The walk of an application that writes the name it means with a dot at the end.
    fn whole(&self, text: &str, found: &impl Fn(&Name) -> Found) -> Vec<Name> {
        let walk = self.walk(text, found);
        match walk.last() {
            None => walk,
            Some(last) if found(last) == Found::Addresses => self.walk(&last.to_string(), found),
            Some(_) if text.ends_with('.') => walk,
            Some(_) => self.walk(&format!("{text}."), found),
        }
    }

    /// The client's part of a walk that the server takes over at the first domain of the list.
    fn with_autopath(&self, text: &str, found: &impl Fn(&Name) -> Found) -> Course {
        let mut asked = self.walk(text, found);
        let denied = asked.iter().filter(|name| found(name) != Found::Addresses).count();
        let first = self.search.first().and_then(|domain| {
            Name::parse(&format!("{text}.{}", domain.strip_suffix('.').unwrap_or(domain))).ok()
        });
        let at = first.and_then(|first| asked.iter().position(|name| *name == first));
        // The server ends its walk at the first name that is not denied, and the client ends its own
        // if that is an answer for it. Where all names are denied, or one fails, the client walks itself.
        let rest = at.and_then(|at| asked.get(at..)).unwrap_or_default();
        let decides = rest.iter().position(|name| found(name) != Found::NoName);
        let ends = decides.and_then(|decides| rest.get(..=decides)).filter(|by_server| {
            let found = by_server.last().map(found);
            found == Some(Found::Addresses)
                || (found == Some(Found::NoData) && self.libc == Libc::Musl)
        });
        let (Some(at), Some(by_server)) = (at, ends) else {
            return Course { asked, denied, by_server: Vec::new() };
        };
        let by_server = by_server.to_vec();
        let is_found = by_server.last().is_some_and(|name| found(name) == Found::Addresses);
        asked.truncate(at + 1);
        Course { denied: at + usize::from(!is_found), asked, by_server }
    }
}
