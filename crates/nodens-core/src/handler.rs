//! The contract between the chain and a handler.

use crate::config::{Config, ServerBlock};
use crate::handlers::Handler;
use crate::handlers::transfer::Source;
use crate::job::{Job, Resolution};
use crate::time::Now;
use crate::worker::WorkerState;
use nodens_wire::{Class, Name, Rcode, Type};

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
        flight: u64,
        /// The upstream's message; `None` if there is none to be had.
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

/// One directive at work in a chain.
///
/// `answer` runs on the way down until one handler does not say [`Step::Next`]; `amend` runs on
/// the way back for each handler that said `Next`, last first.
pub trait Handle {
    /// Whether it looks at questions; one that does not is passed without being called.
    const LOOKS_AT_QUESTIONS: bool = true;

    /// Looks at the question.
    fn answer(&self, _cx: &mut Cx<'_>) -> Step {
        const { assert!(!Self::LOOKS_AT_QUESTIONS, "it has no `answer` of its own: say so") };
        Step::Next
    }

    /// Called again after [`Step::Wait`] or [`Step::Lookup`].
    fn resumed(&self, _cx: &mut Cx<'_>, _event: Event<'_>) -> Step {
        Step::Next
    }

    /// Looks at the response, written or not, on the way back.
    fn amend(&self, _cx: &mut Cx<'_>) {}

    /// The zones it can hand to `transfer`. Looked at once, when the chain is whole.
    fn zones(&self, _chain: &[Handler]) -> Vec<Source> {
        Vec::new()
    }
}
