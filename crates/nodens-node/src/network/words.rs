//! What is said to the operator: each thing once, until it changes.

use super::{Level, Say};
use std::collections::HashMap;
use std::net::IpAddr;

/// What something that is said is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    Rights,
    Link,
    Address,
    Elsewhere,
    Rules,
    Leftovers,
    Firewall,
    State,
}

/// Says things.
pub(crate) struct Words {
    say: Say,
    said: HashMap<Topic, String>,
}

impl Words {
    pub(crate) fn new(say: Say) -> Self {
        Self { say, said: HashMap::new() }
    }

    /// Says something that happened.
    pub(crate) fn tell(&self, level: Level, text: &str) {
        (self.say)(level, text);
    }

    /// Says how something is, unless that was the last thing said about it.
    pub(crate) fn state(&mut self, topic: Topic, level: Level, text: String) {
        if self.said.get(&topic) != Some(&text) {
            (self.say)(level, &text);
            self.said.insert(topic, text);
        }
    }

    /// There is nothing to say about it any more.
    pub(crate) fn forget(&mut self, topic: Topic) {
        self.said.remove(&topic);
    }
}

/// What it means that other links have our addresses too.
pub(crate) fn elsewhere(addresses: &[(IpAddr, String)]) -> String {
    let each = |(ip, link): &(IpAddr, String)| format!("{ip} is an address of the link {link} too");
    let all: Vec<String> = addresses.iter().map(each).collect();
    let all = all.join(", ");
    format!("{all}: queries to it stay on this node even while this server is down")
}
