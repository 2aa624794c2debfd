//! What is wanted of the network, and which addresses that means.

use super::{Rules, State};
use crate::network::rules::rules;
use std::net::IpAddr;

/// What is wanted of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing of ours.
    Nothing,
    /// The rules alone, for answers under way.
    Rules,
    /// The addresses at which no other server answers, with their rules: those that mean this node, and
    /// [`State::kept`].
    Own,
    /// Addresses and rules.
    All,
}

impl Wanted {
    /// Whether some addresses are to be here.
    pub(super) fn has_addresses(self) -> bool {
        matches!(self, Self::Own | Self::All)
    }
}

impl State {
    /// Wants addresses and rules.
    pub(crate) fn attract(&mut self) {
        if self.wanted != Wanted::All {
            // They are missing because this process has removed them: no other program has.
            (self.installed, self.addressed) = (false, false);
        }
        self.wanted = Wanted::All;
        self.kept.clear();
        self.rules = rules(&self.plan);
    }

    /// Wants these, too, of the addresses that were left.
    pub(crate) fn keep(&mut self, addresses: &[IpAddr]) {
        if self.wanted != Wanted::Own {
            return;
        }
        addresses.clone_into(&mut self.kept);
        // What comes now was taken away by nobody else.
        (self.installed, self.addressed) = (false, false);
        let own = self.addresses();
        self.rules = rules(&self.plan);
        self.rules.retain(|rule| own.contains(&rule.ip));
    }

    /// Wants only the addresses that nobody else answers at, if it wanted all. Rules that are made
    /// without another program are changed at once, and so are addresses.
    pub(crate) fn step_back(&mut self) {
        if self.wanted != Wanted::All {
            return;
        }
        self.wanted = Wanted::Own;
        let own = self.addresses();
        self.rules.retain(|rule| own.contains(&rule.ip));
        if self.powerless {
            return;
        }
        if self.plan.setup_rules && matches!(self.place, Some(Rules::Table { .. })) {
            self.rules_right();
        } else {
            // Without effect once the addresses are gone.
            (self.rules_seen, self.looks) = (None, self.looks.max(1));
        }
        if self.plan.setup_interface {
            self.link_right();
        }
    }

    /// Leaves everything as it is, to somebody else.
    pub(crate) fn abandon(&mut self) {
        self.wanted = Wanted::Nothing;
        if let Some(held) = &self.link {
            held.renew(&[]);
        }
    }

    /// Addresses at which others may answer: none where nothing may be taken away.
    pub(crate) fn shared(&self) -> Vec<IpAddr> {
        let all = self.plan.addresses.iter().filter(|_| !self.powerless);
        all.copied().filter(|ip| !is_of_node(*ip)).collect()
    }

    /// The addresses that are to be here.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        let all = self.plan.addresses.iter().copied();
        let all_of_them = self.wanted == Wanted::All;
        all.filter(|ip| all_of_them || is_of_node(*ip) || self.kept.contains(ip)).collect()
    }
}

/// Whether an address means this node wherever it is used, so that no Service can have it.
fn is_of_node(ip: IpAddr) -> bool {
    ip.is_loopback()
        || match ip {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        }
}
