//! The state of the network and how it is made true.

mod connections;
mod inheritance;
mod packet_filter;
mod wanted;

pub(crate) use wanted::Wanted;
#[cfg(test)]
mod tests;

pub(crate) use connections::LOOK_EVERY;

use super::counts::{Counting, count};
use super::iptables::{Flavour, Iptables};
use super::link::{self, Held, Inherited, text};
use super::nft::Nft;
use super::programs::Interrupt;
use super::rights::{may_administer, no_rights};
use super::route::{Address, Route};
use super::rules::{Rule, rules};
use super::words::{Topic, Words, elsewhere};
use super::{Descriptors, Level, Plan};
use connections::Connections;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How soon to try again what did not work; events bring it forward.
const RETRY: Duration = Duration::from_secs(1);

/// Looks, one after each [`RETRY`], at rules whose changes no event tells of, after something else was
/// taken away: a node-cache that ends removes its link first and its rules one by one after that.
const LOOKS_AFTER_CHANGE: u32 = 10;

/// Where the rules are.
enum Rules {
    /// In a table of our own; whether it ends with its socket.
    Table {
        owned: bool,
    },
    Iptables(Iptables),
    Nowhere,
}

pub(crate) struct State {
    plan: Plan,
    rules: Vec<Rule>,
    pub(crate) wanted: Wanted,
    /// Addresses that a Service may have, and at which no other server answers now.
    kept: Vec<IpAddr>,
    route: Option<Route>,
    nft: Option<Nft>,
    /// What a predecessor left us and we have not looked at yet.
    inherited_link: Option<Inherited>,
    link: Option<Held>,
    link_kind: &'static str,
    place: Option<Rules>,
    why: String,
    /// The rules are, or were, where they belong.
    installed: bool,
    /// Some of the rules may be there, though not all of them could be made.
    begun: bool,
    /// When the rules were looked at last without finding that they cannot be made.
    rules_seen: Option<Instant>,
    /// The addresses are, or were, where they belong.
    addressed: bool,
    failing: bool,
    /// How many looks are to follow soon.
    looks: u32,
    /// Without the right to change anything.
    powerless: bool,
    counting: Arc<Counting>,
    interrupt: Interrupt,
    words: Words,
    connections: Connections,
}

impl State {
    pub(crate) fn new(
        plan: Plan,
        inherited: Descriptors,
        counting: Arc<Counting>,
        interrupt: Interrupt,
        mut words: Words,
    ) -> Self {
        let powerless = (plan.setup_interface || plan.setup_rules) && !may_administer();
        if powerless {
            words.state(Topic::Rights, Level::Error, no_rights(&plan));
        }
        // Whether the kernel knows of tables shows only when it is asked.
        let nft = Nft::open().ok().filter(|nft| powerless || nft.tables().is_ok());
        let rules = rules(&plan);
        let mut state = Self {
            plan,
            rules,
            wanted: Wanted::Nothing,
            kept: Vec::new(),
            route: Route::open().ok(),
            nft,
            inherited_link: None,
            link: None,
            link_kind: "",
            place: None,
            why: String::new(),
            installed: false,
            begun: false,
            rules_seen: None,
            addressed: false,
            failing: false,
            looks: 0,
            powerless,
            counting,
            interrupt,
            words,
            connections: Connections::default(),
        };
        state.take(inherited);
        state
    }

    /// Says that nobody looks after the network.
    pub(crate) fn cannot_watch(&mut self, error: &io::Error) {
        let text = format!(
            "cannot start the network watcher ({}): removed addresses and rules will not be restored",
            text(error)
        );
        self.words.tell(Level::Error, &text);
    }

    /// When to look again without an event, if at all.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        if !self.wanted.has_addresses() {
            return None;
        }
        Some(if self.failing || self.looks > 0 { RETRY } else { self.sync() })
    }

    fn sync(&self) -> Duration {
        self.plan.sync.max(RETRY)
    }

    /// Whether changes of other programs' rules can concern ours.
    pub(crate) fn shares_tables(&self) -> bool {
        match &self.place {
            Some(Rules::Table { owned }) => !owned,
            Some(Rules::Iptables(iptables)) => iptables.flavour == Flavour::Nft,
            Some(Rules::Nowhere) | None => false,
        }
    }

    pub(crate) fn concerns(&self, name: &str, index: u32) -> bool {
        name == self.plan.interface || self.link.as_ref().is_some_and(|held| held.index == index)
    }

    /// Whether somebody may have to do something because an address came, went or changed. That
    /// one of our link's was renewed, which we do, is no reason to do it again.
    pub(crate) fn concerns_address(&self, address: Address, gone: bool) -> bool {
        let on_our_link = self.link.as_ref().is_some_and(|held| held.index == address.index);
        self.plan.addresses.contains(&address.ip) && (gone || !on_our_link)
    }

    pub(crate) fn table(&self) -> &str {
        &self.plan.interface
    }

    /// Makes true what is wanted, as far as that is possible. `changed` is whether something may
    /// have changed, or else this is only because time went by. Returns whether queries to the
    /// local addresses come here.
    pub(crate) fn reconcile(&mut self, changed: bool) -> bool {
        if !self.wanted.has_addresses() {
            return false;
        }
        // Trying again to make the link is no reason to run four programs.
        let rules_due =
            self.looks > 0 || self.rules_seen.is_none_or(|at| at.elapsed() >= self.sync());
        self.failing = false;
        self.looks = self.looks.saturating_sub(1);
        if self.powerless {
            return self.is_reached();
        }
        if self.plan.setup_rules && (changed || rules_due) {
            self.rules_seen = Some(Instant::now());
            self.rules_right();
        }
        let reached = if self.plan.setup_interface {
            self.link_right()
        } else {
            // Somebody else brings the queries here.
            true
        };
        let attracting = reached && self.wanted == Wanted::All;
        if attracting {
            let text = self.summary();
            self.words.state(Topic::State, Level::Info, text);
        }
        attracting
    }

    /// Whether any of the addresses is here although we could not bring that about for all.
    fn is_reached(&self) -> bool {
        if !self.plan.setup_interface {
            return true;
        }
        let seen = self.route.as_ref().and_then(|route| route.addresses().ok()).unwrap_or_default();
        self.plan.addresses.iter().any(|ip| seen.iter().any(|address| address.ip == *ip))
    }

    fn summary(&self) -> String {
        let addresses: Vec<String> = self.plan.addresses.iter().map(IpAddr::to_string).collect();
        let mut text = format!("taking over queries to {}", addresses.join(", "));
        if let Some(held) = &self.link {
            text += &format!("; link {} ({})", self.plan.interface, self.link_kind);
            match held.lease() {
                None => text += ", which ends with this process",
                Some(seconds) => {
                    text +=
                        &format!(", whose addresses end {seconds} to {} s after it", seconds + 1);
                }
            }
        }
        let (count, why) = (self.rules.len(), &self.why);
        match &self.place {
            _ if !self.installed => {}
            Some(Rules::Table { owned }) => {
                let ends = if *owned { ", which ends with this process" } else { "" };
                let table = &self.plan.interface;
                text += &format!("; {count} rules in nftables, table inet {table}{ends} ({why})");
            }
            Some(Rules::Iptables(iptables)) => {
                let name = iptables.flavour.name();
                text += &format!(
                    "; {count} rules in {name}, without effect once the addresses are gone ({why})"
                );
            }
            Some(Rules::Nowhere) | None => {}
        }
        text
    }

    /// Puts the link and its addresses right. Returns whether all are there.
    fn link_right(&mut self) -> bool {
        match self.try_link() {
            Ok(()) => {
                self.words.forget(Topic::Link);
                self.words.forget(Topic::Address);
                self.addressed = true;
                true
            }
            Err((topic, text)) => {
                count(&self.counting.interface_errors, 1);
                self.failing = true;
                self.words.state(topic, Level::Error, text);
                self.is_reached()
            }
        }
    }

    fn try_link(&mut self) -> Result<(), (Topic, String)> {
        let wanted = self.addresses();
        let about_link = |text| (Topic::Link, text);
        self.adopt_link().map_err(about_link)?;
        let Self { plan, route, counting, words, looks, .. } = self;
        let Some(route) = route else {
            return Err((Topic::Link, "no netlink socket: cannot make links".to_owned()));
        };
        let name = &plan.interface;
        let mut seen = link::find(route, name).map_err(about_link)?;
        let index = seen.as_ref().map(|link| link.index);
        let held = match self.link.take().filter(|held| Some(held.index) == index) {
            Some(held) => held,
            None => {
                let made = link::make(route, name).map_err(about_link)?;
                self.link_kind = made.kind;
                if !made.obstacles.is_empty() {
                    let text = format!("{}: using a {} link", made.obstacles.join("; "), made.kind);
                    words.state(Topic::Link, Level::Warning, text);
                }
                if self.addressed {
                    words.tell(Level::Warning, &format!("Added interface - {name}"));
                    count(&counting.addresses_put_back, 1);
                    *looks = LOOKS_AFTER_CHANGE;
                }
                seen = None;
                made.held
            }
        };
        // Whatever fails from here on, the link stays: dropping its descriptor would remove it.
        let held = &*self.link.insert(held);
        let up = seen.is_some_and(|link| link.up);
        if !up && let Err(error) = route.up(held.index) {
            return Err((Topic::Link, format!("cannot take {name} up: {}", text(&error))));
        }
        let done = link::address(route, held, &wanted).map_err(about_link)?;
        // Addresses of a link that was made anew came with it.
        if self.addressed && up && done.added > 0 {
            let text = format!("Added back {} address(es) of {name}", done.added);
            words.tell(Level::Warning, &text);
            count(&counting.addresses_put_back, done.added as u64);
            *looks = LOOKS_AFTER_CHANGE;
        }
        match done.elsewhere.is_empty() {
            true => words.forget(Topic::Elsewhere),
            false => words.state(Topic::Elsewhere, Level::Warning, elsewhere(&done.elsewhere)),
        }
        match done.failures.is_empty() {
            true => Ok(()),
            false => Err((Topic::Address, done.failures.join("; "))),
        }
    }

    /// Takes link and addresses away.
    pub(crate) fn withdraw(&mut self) {
        if !self.wanted.has_addresses() {
            return;
        }
        self.wanted = Wanted::Rules;
        self.words.forget(Topic::State);
        self.addressed = false;
        let Some(held) = self.link.take() else { return };
        let Some(route) = &self.route else { return };
        // All at once; the descriptor then owns nothing.
        if let Err(error) = route.delete(held.index) {
            for &ip in &self.plan.addresses {
                _ = route.remove(held.index, ip);
            }
            let text = format!("cannot remove the link {}: {}", self.plan.interface, text(&error));
            self.words.tell(Level::Warning, &text);
        }
    }

    /// Takes the rules away.
    pub(crate) fn release_rules(&mut self) {
        self.withdraw();
        self.wanted = Wanted::Nothing;
        let (installed, begun) = (self.installed, self.begun);
        (self.installed, self.begun) = (false, false);
        // A table is made in one step, rules of iptables one table after the other.
        let in_part = begun && matches!(self.place, Some(Rules::Iptables(_)));
        if !installed && !in_part {
            return;
        }
        let done = match (&self.place, &self.nft) {
            (Some(Rules::Table { .. }), Some(nft)) => nft.remove(&self.plan.interface),
            (Some(Rules::Iptables(iptables)), _) => {
                iptables.reconcile(&[], &self.plan.addresses, &|_| true).map(|_| ())
            }
            _ => Ok(()),
        };
        if let Err(error) = done {
            let text = format!("cannot remove the packet filter's rules: {}", text(&error));
            self.words.tell(Level::Error, &text);
        }
    }
}
