//! The local addresses and the rules that bring questions here.
//!
//! Link and table hang on descriptors. A TUN link belongs to an open file and a table with an owner
//! to a netlink socket: when the last process that holds one of them ends, in whatever way, the
//! kernel removes what belongs to it at once, and questions go to the central servers again.
//! A successor that is given the descriptors goes on with both.
//!
//! Where the kernel offers no such link or table, the addresses have a lease of a few seconds that
//! is renewed, and the rules ask whether the address they are for is one of this machine.

mod choice;
mod counts;
mod iptables;
mod keeper;
mod link;
mod netlink;
mod nft;
mod plan;
mod programs;
mod route;
mod rules;
mod state;
mod words;

pub use counts::Counts;
pub use plan::{Backend, Descriptors, Level, Plan};

use counts::Counting;
use keeper::Keeper;
use state::{State, Wanted};
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
    /// Ends when it is dropped.
    _keeper: Option<Keeper>,
}

struct Shared {
    state: Mutex<State>,
    attracting: AtomicBool,
    counting: Arc<Counting>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes true what is wanted; see [`State::reconcile`].
    fn reconcile(&self, state: &mut State, changed: bool) {
        let attracting = state.reconcile(changed);
        self.attracting.store(attracting, Ordering::Relaxed);
    }
}

impl Network {
    /// Makes ready to carry out `plan`, without any questions coming here yet. `inherited` are
    /// [`Network::descriptors`] of a predecessor, which are left alone until [`Network::attract`].
    ///
    /// Never fails: what is not possible is said, and the best that is possible is done. `say` is
    /// called from several threads, and must not call this `Network`.
    pub fn open(
        plan: Plan,
        inherited: Option<Descriptors>,
        say: impl Fn(Level, &str) + Send + Sync + 'static,
    ) -> Self {
        let counting = Arc::new(Counting::default());
        let words = Words::new(Box::new(say));
        let state = State::new(plan, inherited.unwrap_or_default(), Arc::clone(&counting), words);
        let (state, attracting) = (Mutex::new(state), AtomicBool::new(false));
        let shared = Arc::new(Shared { state, attracting, counting });
        let keeper = Keeper::start(Arc::clone(&shared));
        if let Err(error) = &keeper {
            shared.state().cannot_watch(error);
        }
        Self { shared, _keeper: keeper.ok() }
    }

    /// Lets questions come here, from now until [`Network::withdraw`]: what others take away is
    /// put back, and what does not work now is tried again.
    pub fn attract(&self) {
        let mut state = self.shared.state();
        state.attract();
        self.shared.reconcile(&mut state, true);
        drop(state);
        if let Some(keeper) = &self._keeper {
            keeper.wake();
        }
    }

    /// Leaves the addresses that Services may have, [`Network::shared`], to whoever answers there
    /// without this node, until [`Network::attract`]. Addresses of the node alone stay, with what is
    /// reached there, such as health; so does the link.
    pub fn step_back(&self) {
        let mut state = self.shared.state();
        state.step_back();
        self.shared.reconcile(&mut state, true);
    }

    /// The local addresses at which others may answer when this node does not: all but those of
    /// loopback and link-local ones. None where addresses are not ours to take away.
    pub fn shared(&self) -> Vec<IpAddr> {
        self.shared.state().shared()
    }

    /// Sends questions to the central servers again: link and addresses leave, the rules stay for
    /// the answers under way until [`Network::release_rules`].
    pub fn withdraw(&self) {
        let mut state = self.shared.state();
        state.withdraw();
        self.shared.attracting.store(false, Ordering::Relaxed);
    }

    /// Whether questions to the local addresses come here.
    pub fn attracting(&self) -> bool {
        self.shared.attracting.load(Ordering::Relaxed)
    }

    /// What happened so far, for the metrics.
    pub fn counts(&self) -> Counts {
        self.shared.counting.read()
    }

    /// Takes the rules away too, after the last answer.
    pub fn release_rules(&self) {
        let mut state = self.shared.state();
        state.release_rules();
        self.shared.attracting.store(false, Ordering::Relaxed);
    }

    /// Duplicates of everything that the state hangs on, for a successor.
    ///
    /// # Errors
    ///
    /// When no more descriptors may be opened.
    pub fn descriptors(&self) -> io::Result<Descriptors> {
        self.shared.state().descriptors()
    }

    /// Leaves everything to the successor that holds the descriptors: nothing is put right or
    /// removed from here on.
    pub fn abandon(&self) {
        self.shared.state().wanted = Wanted::Nothing;
    }
}
