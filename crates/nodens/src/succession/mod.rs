//! Handing over to a successor, and taking over from a predecessor: the main thread's part.
//!
//! Listeners are shared while both processes run. Until one of them is alone, no configuration is
//! taken up, and neither of them does to a socket what the other would feel.

mod after;
mod claim;
mod reaper;
mod retreat;
mod spare;
mod start;
mod steward;

pub(crate) use after::{After, Finished, finish};
pub(crate) use claim::{Inherited, claim};
pub(crate) use start::Successors;

use crate::VERSION;
use crate::events::Event;
use crate::flags::Flags;
use nodens_core::Shared;
use nodens_core::log::Level;
use nodens_net::{Runtime, clock};
use nodens_node::handover::{self, Error, Goodbye, Inheritance, Name, Offer};
use retreat::Retreat;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
pub(crate) use steward::Request;
use steward::Steward;

/// Names the running process to a successor that it starts.
const PREDECESSOR: &str = "NODENS_PREDECESSOR";
/// What HTTP listeners and the network's descriptors are called on the way.
const HTTP: &str = "http/";
const NETWORK: &str = "network/";
const OFFER: &str = "offer";

/// The name that processes which follow each other share.
fn name(flags: &Flags) -> Option<String> {
    let node = flags.node.as_ref().map(|node| node.interface.clone());
    let told = flags.handover.clone().or(node);
    told.or_else(|| std::env::var(PREDECESSOR).ok()).filter(|name| !name.is_empty())
}

/// What becomes of the running server.
pub(crate) struct Succession {
    name: Option<String>,
    trial: Duration,
    shared: Arc<Shared>,
    events: Sender<Event>,
    tell: Sender<Request>,
    requests: Receiver<Request>,
    pending: Option<(Inheritance, Option<OwnedFd>)>,
    /// Another process has our listeners too.
    together: bool,
    /// The descriptor under which successors find us, and the thread that serves them.
    offered: Option<OwnedFd>,
    steward: Option<JoinHandle<Option<u32>>>,
    successors: Successors,
    /// What was to be done while another process had our listeners too.
    put_off: Option<Event>,
    /// Whether the Corefile can be read once more, by another server of this process.
    repeatable: bool,
    /// What the predecessor has to hear if this process ends on purpose.
    goodbye: Option<Goodbye>,
    retreat: Retreat,
}

impl Succession {
    pub(crate) fn new(
        flags: &Flags,
        shared: &Arc<Shared>,
        events: Sender<Event>,
        inherited: Inherited,
        successors: Successors,
    ) -> Self {
        let (tell, requests) = channel();
        let together = inherited.inheritance.is_some();
        let mut succession = Self {
            name: name(flags),
            trial: flags.handover_trial,
            shared: shared.clone(),
            events,
            tell,
            requests,
            pending: inherited.inheritance.map(|inheritance| (inheritance, inherited.offer)),
            together,
            offered: None,
            steward: None,
            successors,
            put_off: None,
            repeatable: flags.conf != "stdin",
            goodbye: None,
            retreat: Retreat::default(),
        };
        if !together && succession.name.is_some() {
            succession.offer(inherited.name.map(Name::offer));
        }
        succession
    }

    /// Whether another process has our listeners too.
    pub(crate) fn is_together(&self) -> bool {
        self.together
    }

    /// Whether a predecessor waits for us to take questions.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// The next thing to be done for a hand-over.
    pub(crate) fn request(&self) -> Option<Request> {
        self.requests.try_recv().ok()
    }

    /// Keeps an event for when this process is alone with its listeners.
    pub(crate) fn put_off(&mut self, event: Event) {
        // A signal says more than a file.
        if self.put_off.is_none_or(|before| before == Event::Look) {
            self.put_off = Some(event);
        }
    }

    /// After the trial the predecessor stops, and questions are taken here: [`Request::Begin`]. In
    /// the background its connections come, and at last [`Request::Alone`].
    pub(crate) fn take_over(&mut self, runtime: &Runtime) {
        let Some((inheritance, offer)) = self.pending.take() else { return };
        let (kept, mut adopter) = (runtime.local_addresses(), runtime.adopter());
        let (tell, events, trial) = (self.tell.clone(), self.events.clone(), self.trial);
        self.say(Level::Info, format!("ready, taking over after a trial of {trial:?}"));
        let run = move || {
            let paused = inheritance.rehearse(trial).and_then(|()| inheritance.commit(&kept));
            // Without a predecessor, or beside one that does not stop, all the more.
            let (done, begun) = sync_channel(1);
            let goodbye = paused.as_ref().ok().and_then(|trial| trial.goodbye().ok());
            _ = tell.send(Request::Begin(done, goodbye));
            _ = events.send(Event::Handover);
            _ = begun.recv();
            let outcome = paused
                .and_then(|predecessor| predecessor.stay(|connection| adopter.adopt(connection)));
            _ = tell.send(Request::Alone(outcome, offer));
            _ = events.send(Event::Handover);
        };
        if let Err(error) = std::thread::Builder::new().name("heir".to_owned()).spawn(run) {
            // The connection to the predecessor closes, and it goes on beside us.
            self.say(Level::Error, format!("no thread to take over: {error}"));
            _ = self.tell.send(Request::Begin(sync_channel(1).0, None));
            self.alone();
        }
    }

    /// The predecessor is gone: from here on others may succeed.
    pub(crate) fn taken_over(&mut self, outcome: Result<(), Error>, offer: Option<OwnedFd>) {
        self.goodbye = None;
        match outcome {
            Ok(()) => self.say(Level::Info, "the process that ran before is gone".to_owned()),
            Err(Error::Gone) => {
                self.say(Level::Warning, "the process that ran before ended early".to_owned());
            }
            Err(error) => {
                self.say(Level::Error, format!("the process that ran before goes on: {error}"));
            }
        }
        self.alone();
        if self.name.is_some() {
            self.offer(offer.map(|descriptor| Ok(Offer::inherited(descriptor))));
        }
    }

    /// This process takes questions; `goodbye` is for when it ends beside its predecessor.
    pub(crate) fn begun(&mut self, goodbye: Option<Goodbye>) {
        self.goodbye = goodbye;
    }

    /// This process ends on purpose.
    pub(crate) fn farewell(&mut self) {
        if let Some(goodbye) = self.goodbye.take() {
            goodbye.say();
        }
    }

    /// A successor takes questions, and this process stands by.
    pub(crate) fn retire(&mut self) {
        self.retreat.retired = true;
        let text = format!("the successor takes questions, standing by for {:?}", self.trial);
        self.say(Level::Info, text);
    }

    /// Whether this process stood by, which it does not any more.
    pub(crate) fn take_retired(&mut self) -> bool {
        std::mem::take(&mut self.retreat.retired)
    }

    /// Whether a signal to end is obeyed only after the hand-over. Standing by is cut short.
    pub(crate) fn hurry(&mut self, signal: i32) -> bool {
        // A successor of our own was meant as well.
        let waits = self.retreat.hurry(signal, !self.successors.is_starting());
        if waits && !self.retreat.retired {
            self.say(Level::Info, "told to end: after the hand-over, or in 10 s".to_owned());
        }
        waits
    }

    /// Whether this process was told to end, and its successor has taken too long.
    pub(crate) fn is_overdue(&self) -> bool {
        self.retreat.is_overdue()
    }

    /// A successor has what is ours, from here on.
    pub(crate) fn share(&mut self) {
        self.together = true;
        self.retreat.has_heir = true;
    }

    /// Nobody else has our listeners any more.
    pub(crate) fn alone(&mut self) {
        self.together = false;
        if let Some(signal) = self.retreat.call_off() {
            _ = self.events.send(Event::Signal(signal));
        }
        // Files may have changed meanwhile.
        _ = self.events.send(self.put_off.take().unwrap_or(Event::Look));
    }

    /// Begins to offer what we have to successors, under the name that we have already if we do.
    fn offer(&mut self, held: Option<io::Result<Offer>>) {
        let Some(name) = self.name.clone() else { return };
        let offer = held.unwrap_or_else(|| Offer::bind(&name));
        if let Err(error) = offer.and_then(|offer| self.serve(offer)) {
            let why = nodens_net::errno_text(&error);
            self.say(Level::Error, format!("no successor can take over from this process: {why}"));
        }
    }

    fn serve(&mut self, offer: Offer) -> io::Result<()> {
        self.offered = Some(offer.descriptor()?);
        let (tell, events) = (self.tell.clone(), self.events.clone());
        let grace = (self.trial, self.retreat.in_haste());
        let mut steward = Steward::new(tell, events, self.shared.clone(), grace);
        let run = move || offer.serve(&mut steward, VERSION).ok();
        self.steward = Some(std::thread::Builder::new().name("handover".to_owned()).spawn(run)?);
        Ok(())
    }

    /// Starts a successor: the same program with the same arguments.
    pub(crate) fn start_successor(&mut self, flags: &Flags) -> Result<u32, String> {
        if flags.conf == "stdin" {
            return Err("the Corefile came from standard input, which a successor cannot read \
                        again"
                .to_owned());
        }
        if self.together {
            return Err("a hand-over is under way".to_owned());
        }
        if self.name.is_none() {
            self.name = Some(format!("process-{}-{}", std::process::id(), clock::now().mono_ns));
        }
        if self.steward.as_ref().is_none_or(JoinHandle::is_finished) {
            self.offer(None);
        }
        let name = self.name.clone().unwrap_or_default();
        self.successors.start((PREDECESSOR, name))
    }

    /// What this process holds beside its listeners, with `others` by their names.
    pub(crate) fn estate(
        &self,
        runtime: &Runtime,
        http: Vec<(SocketAddr, OwnedFd)>,
        network: Vec<(String, OwnedFd)>,
    ) -> Result<handover::Estate, String> {
        let listeners = runtime.export();
        let http = http.into_iter().map(|(address, fd)| (format!("{HTTP}{address}"), fd));
        let network = network.into_iter().map(|(name, fd)| (format!("{NETWORK}{name}"), fd));
        let offer = self.offered.as_ref().and_then(|fd| fd.try_clone().ok());
        let offer = offer.map(|fd| (OFFER.to_owned(), fd));
        Ok(handover::Estate { listeners, others: http.chain(network).chain(offer).collect() })
    }

    /// Waits until everything is passed on; gives what this process has to do then.
    pub(crate) fn finish(&mut self) -> After {
        let successor = self.steward.take().and_then(|steward| steward.join().ok().flatten());
        let after = self.successors.after(successor, self.name.clone().filter(|_| self.repeatable));
        if let Some(signal) = self.retreat.call_off() {
            _ = self.events.send(Event::Signal(signal));
        } else if let After::Wait(name) = &after {
            let until = "idle until told to end";
            let text = match name {
                Some(name) => format!("{until}, or until nobody serves as {name:?} any more"),
                None => until.to_owned(),
            };
            self.say(Level::Info, text);
        }
        after
    }

    fn say(&self, level: Level, text: String) {
        self.shared.sink.line(level, "handover", text);
    }
}
