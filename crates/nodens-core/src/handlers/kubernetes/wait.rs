//! Patience until the cluster is known for the first time.

use crate::handler::{Cx, Step};
use crate::limits::{SYNC_PAUSE_MAX, SYNC_TIME_MAX};
use nodens_wire::Rcode;
use nodens_wire::edns::extended_error;
use std::time::Duration;

/// The first pause between two looks; each is twice as long as the one before it.
const PAUSE_FIRST: Duration = Duration::from_millis(10);

/// A question that waits for the first whole snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// When it is refused, monotonic nanoseconds.
    until_ns: u64,
    pause: Duration,
}

impl Patience {
    /// That of a new question.
    pub(crate) fn new(cx: &Cx<'_>) -> Self {
        Self { until_ns: cx.now.plus(SYNC_TIME_MAX), pause: PAUSE_FIRST }
    }

    /// Waits a while; `None` if it has waited long enough.
    pub(crate) fn wait(mut self, cx: &mut Cx<'_>) -> Option<Self> {
        if cx.now.mono_ns >= self.until_ns {
            return None;
        }
        let at_ns = cx.now.plus(self.pause).min(self.until_ns);
        cx.worker.set_timer(cx.job, at_ns);
        self.pause = SYNC_PAUSE_MAX.min(2 * self.pause);
        Some(self)
    }
}

/// Answers that nothing can be said yet, which must never look like a name that does not exist.
pub(crate) fn refuse(cx: &mut Cx<'_>) -> Step {
    let q = cx.q();
    q.response.live = true;
    q.reply(Rcode::SERVFAIL, true);
    let text = "not synchronized with the Kubernetes API yet";
    q.response.extended_error(extended_error::NOT_READY, text);
    Step::Answered
}
