//! The local addresses and the rules that bring questions here.

mod counts;
mod plan;

pub use counts::Counts;
pub use plan::{Backend, Descriptors, Level, Plan};

use counts::Counting;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says something to the operator.
pub(crate) type Say = Box<dyn Fn(Level, &str) + Send + Sync>;

/// The state of the machine's network that a [`Plan`] asks for.
pub struct Network {
    plan: Plan,
    inherited: Descriptors,
    attracting: AtomicBool,
    counting: Counting,
    say: Say,
}

impl Network {
    /// Makes ready to carry out `plan`, without any questions coming here yet. `inherited` are
    /// [`Network::descriptors`] of a predecessor.
    ///
    /// Never fails: what is not possible is said, and the best that is possible is done.
    pub fn open(
        plan: Plan,
        inherited: Option<Descriptors>,
        say: impl Fn(Level, &str) + Send + Sync + 'static,
    ) -> Self {
        let inherited = inherited.unwrap_or_default();
        let (attracting, counting) = (AtomicBool::new(false), Counting::default());
        Self { plan, inherited, attracting, counting, say: Box::new(say) }
    }

    /// Lets questions come here, from now until [`Network::withdraw`]: what others take away is
    /// put back.
    pub fn attract(&self) {
        if self.plan.setup_interface || self.plan.setup_rules {
            (self.say)(Level::Error, "addresses and rules are not set up by this version");
            return;
        }
        self.attracting.store(true, Ordering::Relaxed);
    }

    /// Sends questions to the central servers again: the addresses leave, the rules stay for the
    /// answers under way until [`Network::release_rules`].
    pub fn withdraw(&self) {
        self.attracting.store(false, Ordering::Relaxed);
    }

    /// Whether questions to the local addresses come here.
    pub fn attracting(&self) -> bool {
        self.attracting.load(Ordering::Relaxed)
    }

    /// What happened so far, for the metrics.
    pub fn counts(&self) -> Counts {
        self.counting.read()
    }

    /// Takes the rules away too, after the last answer.
    pub fn release_rules(&self) {}

    /// Duplicates of everything that the state hangs on, for a successor.
    ///
    /// # Errors
    ///
    /// When no more descriptors may be opened.
    pub fn descriptors(&self) -> io::Result<Descriptors> {
        let copy =
            |(name, fd): &(String, std::os::fd::OwnedFd)| Ok((name.clone(), fd.try_clone()?));
        self.inherited.iter().map(copy).collect()
    }

    /// Leaves everything to the successor that holds the descriptors.
    pub fn abandon(self) {}
}
