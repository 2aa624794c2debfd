//! The contract between the chain and a handler.

use crate::config::{BlockBuilder, Config, ServerBlock, Unserved};
use crate::handlers::HandlerStates;
use crate::job;
use crate::shared::Shared;
use crate::time::Now;
use crate::worker::WorkerState;
use arc_swap::Guard;
use nodens_corefile::{Directive, Error};
use nodens_wire::{Class, Name, NameRef, Rcode, Type};
use nodens_zone::data::Data;
use nodens_zone::table::Zones;
use std::sync::Arc;

/// Reads one occurrence of a directive and adds what it asks for to the block.
pub type Setup = fn(&Directive, &mut BlockBuilder<'_>) -> Result<(), Error>;

/// A directive, as it declares itself.
pub struct Spec {
    /// Its name in a Corefile.
    pub name: &'static str,
    /// How to read it; `None` if Nodens does not have it yet.
    pub setup: Option<Setup>,
    /// When it is read.
    pub phase: Phase,
    /// Whether a block that has it answers only some questions, so that another block may have the
    /// same zone.
    pub narrows: bool,
    /// Called in its turn for each block, which may have the directive or not.
    pub beside: Option<fn(&mut BlockBuilder<'_>)>,
    /// Called when the chain of a block is complete.
    pub chain_complete: Option<fn(&mut BlockBuilder<'_>)>,
    /// Called when the configuration is complete.
    pub complete: Option<fn(&mut Config, &Shared)>,
    /// Makes what hears of the questions that no zone of a server matches; called with its label.
    pub unserved: Option<fn(&Shared, &str) -> Unserved>,
}

/// When a directive is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before all others: it says where its block listens. It sees no other setting.
    Place,
    /// Before the chain: it makes settings that handlers look at, wherever it acts.
    Settings,
    /// In the order in which directives act.
    Chain,
}

impl Spec {
    /// A directive that takes its turn and needs nothing else.
    pub const fn new(name: &'static str, setup: Setup) -> Self {
        Self { setup: Some(setup), ..Self::lacking(name) }
    }

    /// A directive that Nodens does not have yet.
    pub const fn lacking(name: &'static str) -> Self {
        Self {
            name,
            setup: None,
            phase: Phase::Chain,
            narrows: false,
            beside: None,
            chain_complete: None,
            complete: None,
            unserved: None,
        }
    }
}

/// A question in progress, with what handlers remember of it.
pub type Job = job::Job<HandlerStates>;

/// One resolution of a [`Job`].
pub type Resolution = job::Resolution<HandlerStates>;

/// What a handler did with a question on the way down.
#[derive(Debug)]
pub enum Step {
    /// Nothing, or only a change of the question: the next handler's turn.
    Next,
    /// The response is written.
    Answered,
    /// No response: the server answers with this RCODE alone. The reason is in [`Job::error`].
    Fail(Rcode),
    /// The handler has started to wait for an upstream or for another job's answer.
    Wait,
    /// Resolve this first, then call [`Handle::resumed`].
    Lookup(Lookup),
    /// Say nothing to the client.
    Drop,
}

/// A nested lookup.
#[derive(Debug)]
pub struct Lookup {
    /// The name to look up.
    pub qname: Name,
    /// QTYPE.
    pub qtype: Type,
    /// QCLASS.
    pub qclass: Class,
    /// Which handlers take part.
    pub scope: Scope,
}

/// Where a nested lookup starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// As if a client had asked: server block by name, its whole chain.
    Server,
    /// The same without the directives that only watch what clients ask (`log`, `prometheus`, …).
    Unwatched,
    /// The handlers behind the one that asks, in the same chain.
    Behind,
}

/// Why a waiting handler is called again.
#[derive(Debug)]
pub enum Event<'e> {
    /// The nested lookup ended; its result is in [`Job::inner`].
    LookedUp,
    /// An upstream answered attempt `attempt` with `message`, already matched to the question.
    Reply {
        /// The attempt.
        attempt: u32,
        /// The message as it came.
        message: &'e [u8],
    },
    /// Attempt `attempt` failed.
    Failed {
        /// The attempt.
        attempt: u32,
        /// What went wrong.
        fault: &'e crate::upstream::Fault,
    },
    /// Another job asked the same and shares its result.
    Shared {
        /// What was waited for.
        query: u64,
        /// The upstream's message; `None` if the query failed.
        message: Option<&'e [u8]>,
    },
    /// The timer that the handler set has expired.
    Timer,
}

/// What a handler sees and may change.
pub struct Cx<'a> {
    /// The time of the batch.
    pub now: Now,
    /// The question.
    pub job: &'a mut Job,
    /// The server block at work.
    pub block: &'a ServerBlock,
    /// The whole configuration.
    pub config: &'a Config,
    /// What belongs to this worker alone: counters, random numbers, actions for the sockets.
    pub worker: &'a mut WorkerState,
}

impl Cx<'_> {
    /// The resolution at work.
    pub fn q(&mut self) -> &mut Resolution {
        &mut self.job.current
    }
}

/// What a handler searches for a name.
#[derive(Default)]
pub enum Searches {
    /// Nothing: it does not answer for the name.
    #[default]
    Nothing,
    /// A cache: there is no need to fetch it, and the handlers behind it are seldom asked.
    Cached,
    /// A zone.
    Zone(Guard<Option<Arc<Data>>>),
    /// One of so many small zones that each query is likely to be for another.
    Zones(Guard<Arc<Zones>>),
}

impl Searches {
    /// Whether the caches of the processor are unlikely to hold it, and there is a way to have it fetched.
    pub(crate) fn is_fetched(&self) -> bool {
        match self {
            Self::Zone(data) => data.as_ref().is_some_and(|data| data.is_fetched()),
            Self::Zones(_) => true,
            Self::Nothing | Self::Cached => false,
        }
    }

    /// Has the processor fetch what searches for these names will read.
    pub(crate) fn fetch(&self, names: &[NameRef<'_>]) {
        match self {
            Self::Zone(data) => data.iter().for_each(|data| data.fetch(names)),
            Self::Zones(zones) => _ = zones.fetch(names),
            Self::Nothing | Self::Cached => {}
        }
    }
}

/// One directive at work in a chain.
///
/// `answer` runs on the way down until one handler does not say [`Step::Next`]; `amend` runs on
/// the way back for each handler that said `Next`, last first.
pub trait Handle {
    /// Whether it looks at questions; one that does not is passed without being called.
    const LOOKS_AT_QUESTIONS: bool = true;

    /// Whether it only watches questions of clients or decorates what they get: it neither changes
    /// nor gives an answer. It does not see what handlers look up for themselves.
    const ONLY_WATCHES: bool = false;

    /// Whether it has something to do on the way back where no response is sent: to count or log
    /// the question, or to turn it back into what was asked.
    const NOTES_DROPS: bool = false;

    /// Whether it answers questions of other classes than IN.
    const ANSWERS_OTHER_CLASSES: bool = false;

    /// Looks at the question.
    fn answer(&self, _cx: &mut Cx<'_>) -> Step {
        const { assert!(!Self::LOOKS_AT_QUESTIONS, "it has no `answer` of its own: say so") };
        Step::Next
    }

    /// What it will search if it is asked for a name; for all names of queries that arrived together it is fetched
    /// into the processor's caches.
    fn searches(&self, _name: NameRef<'_>) -> Searches {
        Searches::Nothing
    }

    /// Called again after [`Step::Wait`] or [`Step::Lookup`].
    fn resumed(&self, _cx: &mut Cx<'_>, _event: Event<'_>) -> Step {
        Step::Next
    }

    /// Looks at the response, written or not, on the way back.
    fn amend(&self, _cx: &mut Cx<'_>) {}

    /// Sees the answer to a client as it is sent, where the job says [`Job::tapped`].
    fn sent(&self, _now: Now, _job: &Job, _block: &ServerBlock) {}

    /// The value of a metadata label for the current question of `job`, whose client asked for
    /// `asked`; `None` if it does not know the label.
    fn label(&self, _job: &Job, _asked: NameRef<'_>, _label: &str) -> Option<String> {
        None
    }
}
