//! Handing over to a successor, and taking over from a predecessor: the main thread's part.
//!
//! Listeners are shared while both processes run. Until one of them is alone, no configuration is
//! taken up, and neither changes a socket in a way that affects the other.

mod at_end;
mod claim;
mod deferred_stop;
mod descriptors;
mod error;
mod lacks;
mod predecessor;
mod rendezvous;
mod standby;
mod start;
mod subreaper;
mod successor;
mod waiting;

pub(crate) use at_end::{AtEnd, Finished, finish};
pub(crate) use claim::{Inherited, claim};
pub(crate) use descriptors::state;
pub(crate) use error::{ClaimError, EndReason, HolderError, SuccessorError};
pub(crate) use lacks::Lack;
pub(crate) use start::Successors;

use crate::VERSION;
use crate::context::Context;
use crate::events::Event;
use crate::flags::Flags;
use deferred_stop::DeferredStop;
use lacks::Lacks;
use nodens_core::Shared;
use nodens_core::log::Level;
use nodens_net::{Left, Runtime};
use nodens_node::handover::{
    BusyResponder, EndNotice, Error, Named, Offer, Parent, Successor, Takeover,
};
use predecessor::{PredecessorThread, Progress};
pub(crate) use predecessor::{Request, TakenOver};
use rendezvous::Rendezvous;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
pub(crate) use waiting::{Waited, Waiting};

/// How long a predecessor may take to stop taking queries before it counts as stopped itself.
const PAUSE_PATIENCE: Duration = Duration::from_secs(1);
/// How long one wait for its message lasts after that, while queries are taken beside it.
const LATE_PATIENCE: Duration = Duration::from_secs(60);
/// How long a changed configuration waits for a successor to get ready.
const RELOAD_PATIENCE: Duration = Duration::from_secs(10);

/// The state of hand-overs, to and from this process.
pub(crate) struct Handover {
    rendezvous: Option<Rendezvous>,
    trial: Duration,
    shared: Arc<Shared>,
    events: Sender<Event>,
    tell: Sender<Request>,
    requests: Receiver<Request>,
    pending: Option<Takeover>,
    lacks: Lacks,
    /// Another process has our listeners too.
    shares_listeners: bool,
    /// Whether it is this process that takes queries, and brings them to itself.
    active: bool,
    /// Tells successors to wait until there is something to take over.
    responder: Option<BusyResponder>,
    /// The descriptors of the name, and the thread that serves successors.
    offered: Option<[OwnedFd; 2]>,
    parent: Option<Parent>,
    thread: Option<JoinHandle<Option<Successor>>>,
    successors: Successors,
    /// What was to be done while another process had our listeners too.
    put_off: Option<Event>,
    /// Since when that waits, and whether it has waited for long enough.
    put_off_since: Option<Instant>,
    called_off: Arc<AtomicBool>,
    /// Whether the Corefile can be read once more, by another server of this process.
    repeatable: bool,
    /// Tells the predecessor if this process ends on purpose.
    end_notice: Option<EndNotice>,
    /// The workers that did not end with the others.
    stuck: Vec<usize>,
    deferred_stop: DeferredStop,
}

impl Handover {
    pub(crate) fn new(context: &Context, inherited: Inherited, successors: Successors) -> Self {
        let (tell, requests) = channel();
        let shares_listeners = inherited.takeover.is_some();
        let mut handover = Self {
            rendezvous: inherited.rendezvous,
            trial: context.flags.handover_trial,
            shared: context.shared.clone(),
            events: context.events.clone(),
            tell,
            requests,
            pending: inherited.takeover,
            lacks: Lacks::beside(inherited.lacks),
            shares_listeners,
            active: !shares_listeners,
            responder: inherited.responder,
            offered: None,
            parent: None,
            thread: None,
            successors,
            put_off: None,
            put_off_since: None,
            called_off: Arc::default(),
            repeatable: context.flags.conf != "stdin",
            end_notice: None,
            stuck: Vec::new(),
            deferred_stop: DeferredStop::default(),
        };
        if !shares_listeners && handover.responder.is_some() {
            handover.offer();
        }
        handover
    }

    /// Whether it is this process that takes queries, although another one may have our listeners.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// Whether another process has our listeners too.
    pub(crate) fn shares_listeners(&self) -> bool {
        self.shares_listeners
    }

    /// Whether a predecessor waits for us to take queries.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether that predecessor is gone, or wants us to end.
    pub(crate) fn is_over(&self) -> bool {
        self.pending.as_ref().is_some_and(Takeover::is_over)
    }

    /// Whether this process has what its predecessor answers from, if one waits for it; `lacks` looks.
    pub(crate) fn has_enough(&mut self, lacks: impl FnOnce() -> Vec<Lack>) -> bool {
        let looked = if self.is_pending() { self.lacks.look(lacks) } else { Ok(()) };
        if let Err(Some(lack)) = &looked {
            let text = "waiting for what the running process has, which serves meanwhile";
            self.say(Level::Warning, format!("{text}: without data: {lack}"));
        }
        looked.is_ok()
    }

    /// What this process lacks of it, for the end of a line that says why it ends.
    pub(crate) fn lacked(&self) -> String {
        let lack = self.lacks.text();
        if lack.is_empty() { lack } else { format!("; this process has no data of {lack}") }
    }

    /// The next thing to be done for a hand-over.
    pub(crate) fn request(&self) -> Option<Request> {
        self.requests.try_recv().ok()
    }

    /// Keeps an event for when this process is alone with its listeners.
    pub(crate) fn put_off(&mut self, event: Event) {
        self.put_off_since.get_or_insert_with(Instant::now);
        // A signal says more than a file.
        if self.put_off.is_none_or(|before| before == Event::Look) {
            self.put_off = Some(event);
        }
    }

    /// Calls off what a successor does to get ready, if something else has waited for it long enough.
    pub(crate) fn keep_time(&self) {
        if self.put_off_since.is_some_and(|since| since.elapsed() >= RELOAD_PATIENCE) {
            self.called_off.store(true, Ordering::Relaxed);
        }
    }

    /// After the trial the predecessor stops, and queries are taken here: [`Request::Serve`]. In
    /// the background its connections come, and at last [`Request::Alone`].
    pub(crate) fn take_over(&mut self, runtime: &Runtime) {
        let Some(takeover) = self.pending.take() else { return };
        let successor = successor::SuccessorThread {
            kept: runtime.bound_listeners(),
            adopter: runtime.adopter(),
            rendezvous: self.rendezvous.clone(),
            trial: self.trial,
            tell: self.tell.clone(),
            events: self.events.clone(),
            shared: self.shared.clone(),
        };
        self.say(Level::Info, format!("ready, taking over after a trial of {:?}", self.trial));
        let run = move || successor.take_over(takeover);
        if let Err(error) = std::thread::Builder::new().name("takeover".to_owned()).spawn(run) {
            // The connection closes, and the predecessor resumes.
            _ = self.tell.send(Request::End(EndReason::Thread(error)));
        }
    }

    /// The predecessor is gone: from here on others may succeed.
    pub(crate) fn taken_over(&mut self, outcome: Result<(), Error>) {
        self.end_notice = None;
        match outcome {
            Ok(()) => self.say(Level::Info, "the process that ran before is gone".to_owned()),
            Err(Error::Gone) => {
                self.say(Level::Warning, "the process that ran before ended early".to_owned());
            }
            Err(error) => {
                let text = format!("the process that ran before does not end: {error}");
                self.say(Level::Error, text);
            }
        }
        self.alone();
        if self.responder.is_some() {
            self.offer();
        }
    }

    /// This process takes queries. Keeps the name, and gives what brings queries here.
    pub(crate) fn serving(&mut self, taken: TakenOver) -> Named {
        self.active = true;
        self.end_notice = taken.end_notice;
        let (network, name) = descriptors::sort(taken.named);
        if let (Some(descriptors), Some(rendezvous)) = (name, &self.rendezvous) {
            let Rendezvous { folder, name } = rendezvous.clone();
            let offer = Offer::inherited(folder, &name, descriptors);
            self.keep(offer.and_then(BusyResponder::of));
        }
        if let Some(name) = taken.name {
            self.keep(BusyResponder::start(name));
        }
        network
    }

    fn keep(&mut self, responder: io::Result<BusyResponder>) {
        match responder {
            Ok(responder) => self.responder = Some(responder),
            Err(error) => self.cannot_offer(&error),
        }
    }

    fn cannot_offer(&self, error: &io::Error) {
        let why = nodens_net::errno_text(error);
        self.say(Level::Error, format!("no successor can take over from this process: {why}"));
    }

    /// This process ends on purpose.
    pub(crate) fn announce_end(&mut self) {
        if let Some(end_notice) = self.end_notice.take() {
            end_notice.send();
        }
    }

    /// A successor takes queries, and this process stands by.
    pub(crate) fn retire(&mut self) {
        self.deferred_stop.retired = true;
        self.active = false;
        let text = format!("the successor takes queries, standing by for {:?}", self.trial);
        self.say(Level::Info, text);
    }

    /// Whether this process stood by, which it does not any more.
    pub(crate) fn take_retired(&mut self) -> bool {
        self.active |= self.deferred_stop.retired;
        std::mem::take(&mut self.deferred_stop.retired)
    }

    /// Whether a signal to end is obeyed only after the hand-over. It cuts the trial period short.
    pub(crate) fn defer_stop(&mut self, signal: i32) -> bool {
        // A successor of our own was meant as well.
        let waits = self.deferred_stop.defer(signal, !self.successors.is_starting());
        if waits && !self.deferred_stop.retired {
            self.say(Level::Info, "told to end: after the hand-over, or in 10 s".to_owned());
        }
        waits
    }

    /// Those that this process starts.
    pub(crate) fn successors(&self) -> &Successors {
        &self.successors
    }

    /// Whether this process was told to end, and its successor has taken too long.
    pub(crate) fn is_overdue(&self) -> bool {
        self.deferred_stop.is_overdue()
    }

    /// A successor has what is ours, from here on.
    pub(crate) fn share(&mut self) {
        self.shares_listeners = true;
        self.deferred_stop.has_successor = true;
    }

    /// No other process has our listeners any more.
    pub(crate) fn alone(&mut self) {
        self.shares_listeners = false;
        self.put_off_since = None;
        self.called_off.store(false, Ordering::Relaxed);
        self.end_deferral();
        // Files may have changed meanwhile.
        _ = self.events.send(self.put_off.take().unwrap_or(Event::Look));
    }

    /// Begins to offer what we have to successors, under the name if we have it.
    fn offer(&mut self) {
        let offer = match self.responder.take() {
            Some(responder) => responder.finish(),
            None => Offer::new(None),
        };
        if let Err(error) = offer.and_then(|offer| self.serve(offer)) {
            self.cannot_offer(&error);
        }
    }

    fn serve(&mut self, mut offer: Offer) -> io::Result<()> {
        self.offered = offer.descriptors()?;
        self.parent = Some(offer.parent());
        let mut holder = PredecessorThread {
            tell: self.tell.clone(),
            events: self.events.clone(),
            shared: self.shared.clone(),
            trial: self.trial,
            urgent: self.deferred_stop.urgent(),
            called_off: self.called_off.clone(),
            progress: Progress::default(),
        };
        let run = move || offer.serve(&mut holder, VERSION).ok();
        self.thread = Some(std::thread::Builder::new().name("handover".to_owned()).spawn(run)?);
        Ok(())
    }

    /// Starts a successor: the same program with the same arguments.
    pub(crate) fn start_successor(&mut self, flags: &Flags) -> Result<u32, SuccessorError> {
        if flags.conf == "stdin" {
            return Err(SuccessorError::StandardInput);
        }
        if self.shares_listeners {
            return Err(SuccessorError::UnderWay);
        }
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            self.offer();
        }
        let parent = self.parent.as_ref().ok_or(SuccessorError::NotOffered)?;
        let (ours, theirs) = parent.connection()?;
        let pid = self.successors.start(theirs)?;
        parent.expect(pid, ours);
        Ok(pid)
    }

    /// What belongs to the process that takes queries: the name, and what brings queries to it.
    pub(crate) fn last_descriptors(&self, network: Named) -> io::Result<Named> {
        descriptors::last(network, self.offered.as_ref())
    }

    /// Workers hang and did not end with the server.
    pub(crate) fn left_behind(&mut self, Left { stuck, unclosed }: Left) {
        if !stuck.is_empty() {
            let text = format!("workers {stuck:?} are stuck and did not end with the others");
            self.say(Level::Warning, text);
        }
        if let Some(error) = unclosed {
            let text = "failed to close listeners of stuck workers, queries may be lost in them";
            self.say(Level::Error, format!("{text}: {}", nodens_net::errno_text(&error)));
        }
        self.stuck = stuck;
    }

    /// Waits until everything is passed on; gives what this process has to do then.
    pub(crate) fn finish(&mut self) -> AtEnd {
        let successor = self.thread.take().and_then(|thread| thread.join().ok().flatten());
        let rendezvous = self.rendezvous.clone().filter(|_| self.repeatable);
        // The name is the successor's.
        self.offered = None;
        let at_end = self.successors.at_end(successor, rendezvous).with_stuck(&self.stuck);
        let is_told = self.end_deferral();
        if let Some((level, text)) = at_end.text(is_told) {
            self.say(level, text);
        }
        at_end
    }

    /// Sends the signal that waited for the hand-over; says whether there was one.
    fn end_deferral(&mut self) -> bool {
        let signal = self.deferred_stop.call_off();
        signal.is_some_and(|signal| self.events.send(Event::Signal(signal)).is_ok())
    }

    fn say(&self, level: Level, text: String) {
        self.shared.sink.line(level, "handover", text);
    }
}
