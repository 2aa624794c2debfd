//! Server blocks that would serve the same zone on the same listener.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::key::Scheme;

/// What one server block serves on one address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listener {
    /// The transport.
    pub scheme: Scheme,
    /// Lower case, with the final dot.
    pub zone: String,
    /// The key's port or the scheme's default.
    pub port: u16,
    /// The address the block binds; empty for all addresses.
    pub address: String,
}

impl Listener {
    fn unbound(&self) -> Self {
        Self { address: String::new(), ..self.clone() }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme, self.zone, self.port)?;
        if !self.address.is_empty() {
            write!(f, " on {}", self.address)?;
        }
        Ok(())
    }
}

/// Two blocks of which only one could answer. The texts are CoreDNS's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Overlap {
    /// The same zone, port and address twice.
    #[error("cannot serve {listener} - it is already defined")]
    AlreadyDefined {
        /// The later of the two.
        listener: String,
    },
    /// The same zone and port, once on an address and once on all addresses.
    #[error("cannot serve {listener} - zone overlap listener capacity with {other}")]
    Capacity {
        /// The later of the two.
        listener: String,
        /// The earlier.
        other: String,
    },
}

/// The listeners seen so far.
#[derive(Clone, Debug, Default)]
pub struct Overlaps {
    registered: HashSet<Listener>,
    /// By the unbound form, the listener registered last.
    latest: HashMap<Listener, Listener>,
}

impl Overlaps {
    /// Adds a listener; call it for every key and bound address, in the order of the Corefile.
    /// A block with a `view` may repeat what another block serves and hides nothing from later
    /// ones, so it is checked but not added.
    ///
    /// # Errors
    /// The earlier listener that this one collides with.
    pub fn add(&mut self, listener: Listener, has_view: bool) -> Result<(), Overlap> {
        if self.registered.contains(&listener) {
            let listener = listener.to_string();
            return if has_view { Ok(()) } else { Err(Overlap::AlreadyDefined { listener }) };
        }
        let unbound = listener.unbound();
        if let Some(latest) = self.latest.get(&unbound) {
            let other = match listener.address.is_empty() {
                true => Some(latest),
                false => self.registered.get(&unbound),
            };
            if let Some(other) = other {
                let (listener, other) = (listener.to_string(), other.to_string());
                return Err(Overlap::Capacity { listener, other });
            }
        }
        if !has_view {
            self.latest.insert(unbound, listener.clone());
            self.registered.insert(listener);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds `zone:port[@address]`, a final `*` for a view; the first error.
    fn add_all(listeners: &[&str]) -> Option<String> {
        let mut overlaps = Overlaps::default();
        listeners.iter().find_map(|text| {
            let (text, has_view) = match text.strip_suffix('*') {
                Some(text) => (text, true),
                None => (*text, false),
            };
            let (key, address) = text.split_once('@').unwrap_or((text, ""));
            let (zone, port) = key.split_once(':').unwrap();
            let listener = Listener {
                scheme: Scheme::Dns,
                zone: zone.to_owned(),
                port: port.parse().unwrap(),
                address: address.to_owned(),
            };
            overlaps.add(listener, has_view).err().map(|overlap| overlap.to_string())
        })
    }

    #[test]
    fn follows_the_rules_of_coredns() {
        let table: [(&[&str], Option<&str>); 11] = [
            (&["a.:53", "b.:53", "a.:54"], None),
            (&["a.:53", "a.:53"], Some("cannot serve dns://a.:53 - it is already defined")),
            (
                &["a.:53@::1", "a.:53@::1"],
                Some("cannot serve dns://a.:53 on ::1 - it is already defined"),
            ),
            (&["a.:53@::1", "a.:53@::2"], None),
            (
                &["a.:53@::1", "a.:53"],
                Some(
                    "cannot serve dns://a.:53 - zone overlap listener capacity with \
                     dns://a.:53 on ::1",
                ),
            ),
            (
                &["a.:53", "a.:53@::1"],
                Some(
                    "cannot serve dns://a.:53 on ::1 - zone overlap listener capacity with \
                     dns://a.:53",
                ),
            ),
            // The bound listener seen last is named.
            (
                &["a.:53@::1", "a.:53@::2", "a.:53"],
                Some(
                    "cannot serve dns://a.:53 - zone overlap listener capacity with \
                     dns://a.:53 on ::2",
                ),
            ),
            // Views may repeat a listener, but not mix bound and unbound.
            (&["a.:53*", "a.:53*", "a.:53"], None),
            (&["a.:53", "a.:53*"], None),
            (&["a.:53@::1*", "a.:53"], None),
            (
                &["a.:53@::1", "a.:53*"],
                Some(
                    "cannot serve dns://a.:53 - zone overlap listener capacity with \
                     dns://a.:53 on ::1",
                ),
            ),
        ];
        for (listeners, expected) in table {
            assert_eq!(add_all(listeners).as_deref(), expected, "{listeners:?}");
        }
    }
}
