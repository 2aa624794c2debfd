//! The rules: where they go, whether they are there, and what is left of earlier ones.

use super::{Rules, State};
use crate::network::Level;
use crate::network::choice::{Choice, choose};
use crate::network::counts::count;
use crate::network::iptables::{Flavour, Iptables, has_legacy_table};
use crate::network::link::text;
use crate::network::nft::{Nft, Wanted as Table};
use crate::network::rules::Rule;
use crate::network::words::Topic;
use std::io;

impl State {
    /// Puts the rules right.
    pub(super) fn rules_right(&mut self) {
        if self.place.is_none() {
            self.choose();
            if self.place.is_none() {
                self.failing = true;
                self.rules_seen = None;
                return;
            }
        }
        self.begun = true;
        let before = self.interrupt.gave_way();
        let added = match &mut self.place {
            None | Some(Rules::Nowhere) => return,
            Some(Rules::Iptables(iptables)) => {
                let seen = self.route.as_ref().and_then(|route| route.addresses().ok());
                // Without a list nothing may be taken for nobody's.
                let local = |ip| seen.as_ref().is_none_or(|seen| seen.iter().any(|a| a.ip == ip));
                iptables.reconcile(&self.rules, &self.plan.addresses, &local).map(|done| done.added)
            }
            Some(Rules::Table { owned }) => match &self.nft {
                None => return,
                Some(nft) => {
                    table_right(nft, &self.plan.interface, &self.rules, self.installed, owned)
                }
            },
        };
        match added {
            Ok(added) => {
                if self.installed && added > 0 {
                    let text = format!("Added back {added} nodelocaldns rule(s)");
                    self.words.tell(Level::Warning, &text);
                    count(&self.counting.rules_put_back, added as u64);
                }
                self.installed = true;
                self.words.forget(Topic::Rules);
                self.warn_of_table_without_owner();
            }
            Err(error) => {
                self.failing = true;
                self.rules_seen = None;
                if self.interrupt.gave_way() != before {
                    return;
                }
                count(&self.counting.rules_errors, 1);
                let text = format!("cannot set up the packet filter's rules: {}", text(&error));
                self.words.state(Topic::Rules, Level::Error, text);
            }
        }
    }

    fn warn_of_table_without_owner(&mut self) {
        if let Some(Rules::Table { owned: false }) = self.place {
            let text = "this kernel has no tables with an owner (Linux 5.12): the rules stay when \
                        the process dies, without effect once the addresses are gone";
            self.words.state(Topic::Rules, Level::Warning, text.to_owned());
        }
    }

    /// Chooses where the rules go, and removes what is left of earlier ones elsewhere; nothing is
    /// chosen if a program gave way, because nobody knows what it would have said.
    fn choose(&mut self) {
        let before = self.interrupt.gave_way();
        let choice = choose(&self.plan, self.nft.as_ref(), &self.interrupt);
        if self.interrupt.gave_way() != before {
            return;
        }
        let place = match choice {
            Choice::Nftables(why) => {
                self.why = why;
                Rules::Table { owned: true }
            }
            Choice::Iptables(iptables, why) => {
                self.why = why;
                Rules::Iptables(iptables)
            }
            Choice::Nowhere(why) => {
                count(&self.counting.rules_errors, 1);
                let text = format!(
                    "no rules: {why}. Queries to addresses of Services still go to the central servers, and those that reach this node are tracked"
                );
                self.words.state(Topic::Rules, Level::Error, text);
                Rules::Nowhere
            }
        };
        self.leftovers(&place);
        if self.interrupt.gave_way() != before {
            return;
        }
        self.warn_of_firewall(&place);
        self.place = Some(place);
    }

    /// Removes rules of node-cache's, or ours, from where they are not to be.
    fn leftovers(&mut self, place: &Rules) {
        let before = self.interrupt.gave_way();
        let flavour = match place {
            Rules::Iptables(iptables) => Some(iptables.flavour),
            Rules::Table { .. } | Rules::Nowhere => None,
        };
        let mut removed = 0;
        if let Some(nft) = &self.nft {
            if flavour != Some(Flavour::Nft) {
                removed += nft.remove_leftovers(&self.plan.addresses).unwrap_or(0);
            }
            let name = &self.plan.interface;
            let tables = nft.tables().unwrap_or_default();
            let idle = tables.iter().any(|table| table.is_ours(name) && table.owner.is_none());
            if idle && flavour.is_some() && nft.remove(name).is_ok() {
                removed += 1;
            }
        }
        let legacy = has_legacy_table("raw", false) || has_legacy_table("raw", true);
        if legacy && flavour != Some(Flavour::Legacy) {
            let ours = &self.plan.addresses;
            let found = Iptables::find(Flavour::Legacy, &self.interrupt);
            match found.map(|found| found.reconcile(&[], ours, &|_| true)) {
                Some(Ok(changes)) => removed += changes.removed,
                _ if self.interrupt.gave_way() != before => {}
                Some(Err(error)) => {
                    let text =
                        format!("cannot look for rules of an earlier process: {}", text(&error));
                    self.words.state(Topic::Leftovers, Level::Warning, text);
                }
                None => {
                    let text = "there is no program iptables-legacy to look for rules of an earlier \
                                process with";
                    self.words.state(Topic::Leftovers, Level::Warning, text.to_owned());
                }
            }
        }
        if removed > 0 {
            let text = format!("removed {removed} rule(s) that an earlier process left behind");
            self.words.tell(Level::Info, &text);
        }
    }

    /// In nftables, what one table lets pass another may still drop.
    fn warn_of_firewall(&mut self, place: &Rules) {
        let (Rules::Table { .. }, Some(nft)) = (place, &self.nft) else { return };
        let chains = nft.chains().unwrap_or_default();
        let Some(chain) = chains.iter().find(|chain| chain.drops_input) else { return };
        let text = format!(
            "chain {} of table {} drops what it does not know: it has to let pass port {}",
            chain.chain, chain.table, self.plan.dns_port
        );
        self.words.state(Topic::Firewall, Level::Warning, text);
    }
}

/// Makes our table what it should be; returns how many rules that took.
fn table_right(
    nft: &Nft,
    name: &str,
    rules: &[Rule],
    installed: bool,
    owned: &mut bool,
) -> io::Result<usize> {
    let there = if installed { nft.rules(name)? } else { 0 };
    if installed && there == rules.len() {
        return Ok(0);
    }
    let replace = nft.tables()?.iter().any(|table| table.is_ours(name));
    let mark = format!("nodens, process {}", std::process::id());
    let mut failure = io::Error::other("no way to write the table");
    // Either the table ends with us, or its rules are without effect once the addresses are gone.
    for (owner, local) in [(true, true), (true, false), (false, true)] {
        match nft.install(&Table { name, mark: &mark, rules, owned: owner, local }, replace) {
            Ok(()) => {
                *owned = owner;
                return Ok(rules.len().saturating_sub(there));
            }
            Err(refused) if refused.error.raw_os_error() == Some(NOT_PERMITTED) && replace => {
                let what = format!("the table inet {name} belongs to another process");
                return Err(io::Error::new(refused.error.kind(), what));
            }
            Err(refused) => failure = refused.error,
        }
    }
    Err(failure)
}

/// `EPERM`
const NOT_PERMITTED: i32 = 1;
