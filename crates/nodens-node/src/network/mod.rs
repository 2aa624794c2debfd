//! The local addresses and the rules that bring queries here.
//!
//! Link and table hang on descriptors. A TUN link belongs to an open file and a table with an owner
//! to a netlink socket: when the last process that holds one of them ends, in whatever way, the
//! kernel removes what belongs to it at once, and queries go to the central servers again.
//! A successor that is given the descriptors goes on with both.
//!
//! Where the kernel offers no such link or table, the addresses have a lease of a few seconds that
//! is renewed, and the rules ask whether the address they are for is one of this machine.
//!
//! Everything is done over netlink but rules of iptables, which are made by its programs. Those can
//! hang, with the packet filter's lock for instance, so only who brings queries here waits for
//! them: renewing leases, giving queries up and handing over never do.

mod choice;
mod counts;
mod iptables;
mod keeper;
mod lease;
mod link;
mod netlink;
mod nft;
mod plan;
mod programs;
mod rights;
mod route;
mod rules;
mod state;
mod words;

pub use counts::Counts;
pub use plan::{Backend, Descriptors, Level, Plan};
pub use programs::Hurry;

use counts::Counting;
use keeper::Keeper;
use programs::Interrupt;
use state::State;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use words::Words;

/// Says something to the operator.
type Say = Box<dyn Fn(Level, &str) + Send + Sync>;

/// The state of the machine's network that a [`Plan`] asks for.
///
/// When it is dropped, what hangs on descriptors is gone, unless a successor holds them too.
pub struct Network {
    shared: Arc<Shared>,
    keeper: Option<Keeper>,
    owns_addresses: bool,
    /// [`Network::shared`]
    addresses: Vec<IpAddr>,
}

struct Shared {
    state: Mutex<State>,
    attracting: AtomicBool,
    counting: Arc<Counting>,
    interrupt: Interrupt,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, without waiting for a program that may hang: one that runs gives way, and runs
    /// again later.
    fn state_at_once(&self) -> MutexGuard<'_, State> {
        let _hurry = self.interrupt.hurry();
        self.state()
    }

    /// Makes true what is wanted; see [`State::reconcile`].
    fn reconcile(&self, state: &mut State, changed: bool) {
        let attracting = state.reconcile(changed);
        self.attracting.store(attracting, Ordering::Relaxed);
    }
}

impl Network {
    /// Makes ready to carry out `plan`, without any queries coming here yet. `inherited` are
    /// [`Network::descriptors`] of a predecessor, which are left alone until [`Network::attract`].
    ///
    /// Never fails: what is not possible is said, and the best that is possible is done. `say` is
    /// called from several threads, and must not call this `Network`.
    pub fn open(
        plan: Plan,
        inherited: Option<Descriptors>,
        say: impl Fn(Level, &str) + Send + Sync + 'static,
    ) -> Self {
        let (counting, owns_addresses) = (Arc::new(Counting::default()), plan.setup_interface);
        let (words, interrupt) = (Words::new(Box::new(say)), Interrupt::default());
        let (inherited, counts) = (inherited.unwrap_or_default(), Arc::clone(&counting));
        let state = State::new(plan, inherited, counts, interrupt.clone(), words);
        let addresses = state.shared();
        let (state, attracting) = (Mutex::new(state), AtomicBool::new(false));
        let shared = Arc::new(Shared { state, attracting, counting, interrupt });
        let keeper = Keeper::start(Arc::clone(&shared));
        if let Err(error) = &keeper {
            shared.state().cannot_watch(error);
        }
        Self { shared, keeper: keeper.ok(), owns_addresses, addresses }
    }

    /// Lets queries come here, from now until [`Network::withdraw`]: what others take away is
    /// put back, and what does not work now is tried again. Waits for the programs that this
    /// takes, each of which may take 10 seconds.
    pub fn attract(&self) {
        let mut state = self.shared.state();
        state.attract();
        self.shared.reconcile(&mut state, true);
        drop(state);
        if let Some(keeper) = &self.keeper {
            keeper.wake();
        }
    }

    /// Looks soon, and in the background, whether all is as it should be.
    pub fn look(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.look();
        }
    }

    /// As long as what this gives lives, nobody waits for a program such as `iptables`: what takes
    /// one is not done, and tried again after that. For who has to wait for somebody that may be in
    /// [`Network::attract`].
    pub fn hurry(&self) -> Hurry {
        self.shared.interrupt.hurry()
    }

    /// Leaves the addresses that Services may have, [`Network::shared`], to whoever answers there
    /// without this node, until [`Network::attract`]. Addresses of the node alone stay, with what is
    /// reached there, such as health; so does the link. Waits for no program: rules of iptables,
    /// which are without effect by then, go later.
    pub fn step_back(&self) {
        let mut state = self.shared.state_at_once();
        state.step_back();
        self.shared.attracting.store(false, Ordering::Relaxed);
        drop(state);
        if let Some(keeper) = &self.keeper {
            keeper.wake();
        }
    }

    /// Takes back some of the addresses that [`Network::step_back`] has left: no other server answers at
    /// these. Waits for programs as [`Network::attract`] does.
    pub fn keep(&self, addresses: &[IpAddr]) {
        let mut state = self.shared.state();
        state.keep(addresses);
        self.shared.reconcile(&mut state, true);
    }

    /// The local addresses at which others may answer when this node does not: all but those of
    /// loopback and link-local ones. None where nothing is ours to take away.
    pub fn shared(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Whether the addresses are ours, so that [`Network::step_back`] takes effect at once. If not,
    /// another program directs queries here and has to see that [`Network::attracting`] is over.
    pub fn owns_addresses(&self) -> bool {
        self.owns_addresses
    }

    /// Sends queries to the central servers again: link and addresses leave, the rules stay for
    /// the answers under way until [`Network::release_rules`]. Waits for no program.
    pub fn withdraw(&self) {
        let mut state = self.shared.state_at_once();
        state.withdraw();
        self.shared.attracting.store(false, Ordering::Relaxed);
    }

    /// Whether queries to the local addresses come here.
    pub fn attracting(&self) -> bool {
        self.shared.attracting.load(Ordering::Relaxed)
    }

    /// What happened so far, for the metrics.
    pub fn counts(&self) -> Counts {
        self.shared.counting.read()
    }

    /// Takes the rules away too, after the last answer. Of programs that this takes, one may take
    /// 10 seconds; then the rules stay, which are without effect.
    pub fn release_rules(&self) {
        let mut state = self.shared.state_at_once();
        state.release_rules();
        self.shared.attracting.store(false, Ordering::Relaxed);
    }

    /// Duplicates of everything that the state hangs on, for a successor.
    ///
    /// # Errors
    ///
    /// When no more descriptors may be opened.
    pub fn descriptors(&self) -> io::Result<Descriptors> {
        self.shared.state_at_once().descriptors()
    }

    /// Takes over [`Network::descriptors`] of a predecessor that has left the network to this process.
    /// Waits for no program; [`Network::attract`] follows.
    pub fn inherit(&self, descriptors: Descriptors) {
        self.shared.state_at_once().inherit(descriptors);
        self.look();
    }

    /// Leaves everything to the successor that holds the descriptors: nothing is put right or
    /// removed from here on, until [`Network::attract`].
    pub fn abandon(&self) {
        self.shared.state_at_once().abandon();
    }

    /// Closes the descriptors too: from here on link and rules end with the successor.
    pub fn let_go(&self) {
        self.shared.state_at_once().let_go();
    }
}

impl Drop for Network {
    /// Waits for its thread, but not for a program.
    fn drop(&mut self) {
        let _hurry = self.shared.interrupt.hurry();
        drop(self.keeper.take());
    }
}
