//! The thread that serves successors: it asks the main thread for what has to be done.

use super::{EndReason, HolderError};
use crate::events::Event;
use nodens_core::Shared;
use nodens_core::log::Level;
use nodens_net::{HandedConnection, ListenerAddress, clock};
use nodens_node::handover::{EndNotice, Error, HandoverState, Holder, Name, Named};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::time::{Duration, Instant};

/// How long the main thread may take to answer: a configuration may be being taken up.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long nothing is said of further processes that were turned away, after one was.
const REFUSED_QUIET: Duration = Duration::from_secs(60);

/// What the main thread is to do for a hand-over.
pub(crate) enum Request {
    /// Give what a successor needs to get ready, and change none of it.
    State(SyncSender<Result<HandoverState, HolderError>>),
    /// Take no more queries, and give what brings them here.
    Pause(SyncSender<Result<Named, HolderError>>),
    /// Leave everything to the successor, and be ready to resume.
    Retire,
    /// Resume, then log this.
    Resume(String),
    /// End, and send the connections of these listeners to the receiver. The last is dropped when that
    /// is done.
    Leave(Vec<ListenerAddress>, Sender<HandedConnection>, Sender<()>),
    /// Take queries from now on; answer once it does.
    Serve(SyncSender<()>, TakenOver),
    /// Take what the predecessor gives late.
    TakeLate(TakenOver),
    /// The predecessor is gone, or not.
    Alone(Result<(), Error>),
    /// End, because another process serves.
    End(EndReason),
}

/// What a process has that begins to take queries.
#[derive(Default)]
pub(crate) struct TakenOver {
    /// What the predecessor gave with its last message, if it sent one.
    pub(super) named: Named,
    /// The name, where the predecessor has ended and left none.
    pub(super) name: Option<Name>,
    /// What to say before an end on purpose.
    pub(super) end_notice: Option<EndNotice>,
}

/// Serves successors.
pub(super) struct PredecessorThread {
    pub(super) tell: Sender<Request>,
    pub(super) events: Sender<Event>,
    pub(super) shared: Arc<Shared>,
    /// How long this server stands by, and whether there is no time for it.
    pub(super) trial: Duration,
    pub(super) urgent: Arc<AtomicBool>,
    /// Whether a reload does not wait any longer.
    pub(super) called_off: Arc<AtomicBool>,
    pub(super) progress: Progress,
}

/// How far it has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Whether the server stands by.
    retired: bool,
    /// When it was said that a process was turned away.
    refused: Option<Instant>,
    /// Tells when the server has left.
    left: Option<Receiver<()>>,
}

impl PredecessorThread {
    fn tell(&self, request: Request) {
        _ = self.tell.send(request);
        _ = self.events.send(Event::Handover);
    }

    fn ask<T>(
        &self,
        request: impl FnOnce(SyncSender<Result<T, HolderError>>) -> Request,
    ) -> Result<T, String> {
        let (reply, answer) = sync_channel(1);
        self.tell(request(reply));
        let answer = answer.recv_timeout(PATIENCE);
        // What the other process is told is text.
        answer.unwrap_or(Err(HolderError::Busy)).map_err(|error| error.to_string())
    }

    fn say(&self, level: Level, text: String) {
        self.shared.sink.line(level, "handover", text);
    }
}

impl Holder for PredecessorThread {
    fn state(&mut self) -> Result<HandoverState, String> {
        self.say(Level::Info, "a successor asks for what this process holds".to_owned());
        self.ask(Request::State)
    }

    fn answers(&mut self, visit: &mut dyn FnMut(&[u8]) -> bool) {
        self.shared.cache.export(clock::now(), visit);
    }

    fn called_off(&self) -> Arc<AtomicBool> {
        self.called_off.clone()
    }

    fn pause(&mut self) -> Result<Named, String> {
        self.ask(Request::Pause)
    }

    fn retire(&mut self) -> Duration {
        self.progress.retired = true;
        self.tell(Request::Retire);
        self.trial
    }

    fn is_hurried(&self) -> bool {
        self.urgent.load(Ordering::Relaxed)
    }

    fn resume(&mut self, why: &Error) {
        let text = match (std::mem::take(&mut self.progress.retired), why) {
            (true, Error::Slow) => "the successor timed out, resuming service".to_owned(),
            (true, _) => {
                "the successor exited without completing the hand-over, resuming service".to_owned()
            }
            (false, _) => format!("the successor failed to take over, continuing to serve: {why}"),
        };
        self.tell(Request::Resume(text));
    }

    fn refused(&mut self, why: &Error) {
        if self.progress.refused.is_none_or(|at| at.elapsed() >= REFUSED_QUIET) {
            self.progress.refused = Some(Instant::now());
            let text = format!("refused a process that asked to take over: {why}");
            self.say(Level::Warning, text);
        }
    }

    fn leave(&mut self, kept: Vec<ListenerAddress>, successor: Sender<HandedConnection>) {
        self.say(Level::Info, "the successor has taken over".to_owned());
        let (leaving, left) = channel();
        self.progress.left = Some(left);
        self.tell(Request::Leave(kept, successor, leaving));
    }

    fn has_left(&mut self) -> bool {
        self.progress
            .left
            .as_ref()
            .is_none_or(|left| left.try_recv() == Err(TryRecvError::Disconnected))
    }
}
