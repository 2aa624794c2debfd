//! Handing over to a successor, and taking over from a predecessor: the main thread's part.
//!
//! Listeners are shared while both processes run. Until one of them is alone, no configuration is
//! taken up, and neither of them does to a socket what the other would feel.

mod after;
mod claim;
mod heir;
mod meeting;
mod reaper;
mod retreat;
mod spare;
mod start;
mod steward;
mod waiting;

pub(crate) use after::{After, Finished, finish};
pub(crate) use claim::{Inherited, claim};
pub(crate) use start::Successors;

use crate::VERSION;
use crate::events::Event;
use crate::flags::Flags;
use meeting::Meeting;
use nodens_core::Shared;
use nodens_core::log::Level;
use nodens_net::{Left, Runtime};
use nodens_node::handover::{
    self, Doorkeeper, Error, Goodbye, Heir, Inheritance, Named, Offer, Parent,
};
use retreat::Retreat;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use steward::Steward;
pub(crate) use steward::{Begun, Request};
pub(crate) use waiting::{Waited, Waiting};

/// What HTTP listeners and the network's descriptors are called on the way.
const HTTP: &str = "http/";
const NETWORK: &str = "network/";
/// The lock of the name, and its socket.
const NAME: [&str; 2] = ["name/lock", "name/socket"];

/// How long a predecessor may take to stop taking questions before it counts as stopped itself.
const PAUSE_PATIENCE: Duration = Duration::from_secs(1);
/// How long its word is waited for after that, while questions are taken beside it.
const LATE_PATIENCE: Duration = Duration::from_secs(60);
/// How long a changed configuration waits for a successor to get ready.
const RELOAD_PATIENCE: Duration = Duration::from_secs(10);

/// What becomes of the running server.
pub(crate) struct Succession {
    meeting: Option<Meeting>,
    trial: Duration,
    shared: Arc<Shared>,
    events: Sender<Event>,
    tell: Sender<Request>,
    requests: Receiver<Request>,
    pending: Option<Inheritance>,
    /// Another process has our listeners too.
    together: bool,
    /// Whether it is this process that takes questions, and brings them to itself.
    active: bool,
    /// Tells successors to wait until there is something to take over.
    door: Option<Doorkeeper>,
    /// The descriptors of the name, and the thread that serves successors.
    offered: Option<[OwnedFd; 2]>,
    parent: Option<Parent>,
    steward: Option<JoinHandle<Option<Heir>>>,
    successors: Successors,
    /// What was to be done while another process had our listeners too.
    put_off: Option<Event>,
    /// Since when that waits, and whether it has waited for long enough.
    put_off_since: Option<Instant>,
    called_off: Arc<AtomicBool>,
    /// Whether the Corefile can be read once more, by another server of this process.
    repeatable: bool,
    /// What the predecessor has to hear if this process ends on purpose.
    goodbye: Option<Goodbye>,
    /// The workers that did not end with the others.
    stuck: Vec<usize>,
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
            meeting: inherited.meeting,
            trial: flags.handover_trial,
            shared: shared.clone(),
            events,
            tell,
            requests,
            pending: inherited.inheritance,
            together,
            active: !together,
            door: inherited.door,
            offered: None,
            parent: None,
            steward: None,
            successors,
            put_off: None,
            put_off_since: None,
            called_off: Arc::default(),
            repeatable: flags.conf != "stdin",
            goodbye: None,
            stuck: Vec::new(),
            retreat: Retreat::default(),
        };
        if !together && succession.door.is_some() {
            succession.offer();
        }
        succession
    }

    /// Whether it is this process that takes questions, although another one may have our listeners.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// Whether another process has our listeners too.
    pub(crate) fn is_together(&self) -> bool {
        self.together
    }

    /// Whether a predecessor waits for us to take questions.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether that predecessor is gone, or wants us to end.
    pub(crate) fn is_over(&self) -> bool {
        self.pending.as_ref().is_some_and(Inheritance::is_over)
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

    /// After the trial the predecessor stops, and questions are taken here: [`Request::Begin`]. In
    /// the background its connections come, and at last [`Request::Alone`].
    pub(crate) fn take_over(&mut self, runtime: &Runtime) {
        let Some(inheritance) = self.pending.take() else { return };
        let heir = heir::Heir {
            kept: runtime.local_addresses(),
            adopter: runtime.adopter(),
            meeting: self.meeting.clone(),
            trial: self.trial,
            tell: self.tell.clone(),
            events: self.events.clone(),
            shared: self.shared.clone(),
        };
        self.say(Level::Info, format!("ready, taking over after a trial of {:?}", self.trial));
        let run = move || heir.take_over(inheritance);
        if let Err(error) = std::thread::Builder::new().name("heir".to_owned()).spawn(run) {
            // The connection closes, and the predecessor resumes.
            _ = self
                .tell
                .send(Request::End(format!("cannot start the thread that takes over: {error}")));
        }
    }

    /// The predecessor is gone: from here on others may succeed.
    pub(crate) fn taken_over(&mut self, outcome: Result<(), Error>) {
        self.goodbye = None;
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
        if self.door.is_some() {
            self.offer();
        }
    }

    /// This process takes questions. Gives what brings them here.
    pub(crate) fn begun(&mut self, begun: Begun) -> Named {
        self.active = true;
        self.goodbye = begun.goodbye;
        let named = self.inherit(begun.named);
        if let Some(name) = begun.name {
            self.keep(Doorkeeper::start(name));
        }
        named
    }

    /// Sorts what the predecessor gave with its last word: keeps the name, and gives the rest.
    pub(crate) fn inherit(&mut self, named: Named) -> Named {
        let (mut network, mut name) = (Named::new(), NAME.map(|_| None));
        for (what, descriptor) in named {
            if let Some(what) = what.strip_prefix(NETWORK) {
                network.push((what.to_owned(), descriptor));
            } else if let Some(place) = NAME.iter().position(|name| *name == what) {
                name.get_mut(place).map(|name| name.replace(descriptor));
            }
        }
        if let ([Some(lock), Some(socket)], Some(meeting)) = (name, &self.meeting) {
            let Meeting { folder, name } = meeting.clone();
            let offer = Offer::inherited(folder, &name, [lock, socket]);
            self.keep(offer.and_then(Doorkeeper::of));
        }
        network
    }

    fn keep(&mut self, door: io::Result<Doorkeeper>) {
        match door {
            Ok(door) => self.door = Some(door),
            Err(error) => self.cannot_offer(&error),
        }
    }

    fn cannot_offer(&self, error: &io::Error) {
        let why = nodens_net::errno_text(error);
        self.say(Level::Error, format!("no successor can take over from this process: {why}"));
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
        self.active = false;
        let text = format!("the successor takes queries, standing by for {:?}", self.trial);
        self.say(Level::Info, text);
    }

    /// Whether this process stood by, which it does not any more.
    pub(crate) fn take_retired(&mut self) -> bool {
        self.active |= self.retreat.retired;
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
        self.put_off_since = None;
        self.called_off.store(false, Ordering::Relaxed);
        if let Some(signal) = self.retreat.call_off() {
            _ = self.events.send(Event::Signal(signal));
        }
        // Files may have changed meanwhile.
        _ = self.events.send(self.put_off.take().unwrap_or(Event::Look));
    }

    /// Begins to offer what we have to successors, under the name if we have it.
    fn offer(&mut self) {
        let offer = match self.door.take() {
            Some(door) => door.finish(),
            None => Offer::new(None),
        };
        if let Err(error) = offer.and_then(|offer| self.serve(offer)) {
            self.cannot_offer(&error);
        }
    }

    fn serve(&mut self, mut offer: Offer) -> io::Result<()> {
        self.offered = offer.descriptors()?;
        self.parent = Some(offer.parent());
        let (tell, events) = (self.tell.clone(), self.events.clone());
        let flags = [self.retreat.in_haste(), self.called_off.clone()];
        let mut steward = Steward::new(tell, events, self.shared.clone(), self.trial, flags);
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
        if self.steward.as_ref().is_none_or(JoinHandle::is_finished) {
            self.offer();
        }
        let parent = self.parent.as_ref().ok_or("the hand-over thread failed to start")?;
        let (ours, theirs) = parent.connection().map_err(|error| error.to_string())?;
        let pid = self.successors.start(theirs)?;
        parent.expect(pid, ours);
        Ok(pid)
    }

    /// What this process holds that a successor needs to get ready.
    pub(crate) fn estate(runtime: &Runtime, http: Vec<(SocketAddr, OwnedFd)>) -> handover::Estate {
        let listeners = runtime.export();
        let http = http.into_iter().map(|(address, fd)| (format!("{HTTP}{address}"), fd));
        handover::Estate { listeners, others: http.collect() }
    }

    /// What belongs to the process that takes questions: the name, and what brings questions to it.
    pub(crate) fn last_estate(&self, network: Named) -> io::Result<Named> {
        let network = network.into_iter().map(|(name, fd)| (format!("{NETWORK}{name}"), fd));
        let mut last: Named = network.collect();
        for (what, fd) in NAME.iter().zip(self.offered.iter().flatten()) {
            last.push(((*what).to_owned(), fd.try_clone()?));
        }
        Ok(last)
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
    pub(crate) fn finish(&mut self) -> After {
        let successor = self.steward.take().and_then(|steward| steward.join().ok().flatten());
        let meeting = self.meeting.clone().filter(|_| self.repeatable);
        // The name is the successor's.
        self.offered = None;
        let after = self.successors.after(successor, meeting).with_stuck(&self.stuck);
        let signal = self.retreat.call_off();
        if let Some(signal) = signal {
            _ = self.events.send(Event::Signal(signal));
        }
        if let Some((level, text)) = after.text(signal.is_some()) {
            self.say(level, text);
        }
        after
    }

    fn say(&self, level: Level, text: String) {
        self.shared.sink.line(level, "handover", text);
    }
}
