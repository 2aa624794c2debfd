//! Taking over what a predecessor holds, if there is one.

use super::HTTP;
use super::meeting::{Meeting, name_after};
use super::start::PREDECESSOR;
use crate::VERSION;
use crate::events::{Event, Later, unless_ended};
use crate::flags::Flags;
use nodens_core::log::{Level, Sink};
use nodens_core::{Now, Shared};
use nodens_net::InheritedListener;
use nodens_node::handover::{Claimed, Doorkeeper, Error, Inheritance, Name};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// How long a successor waits for a process that has shown that it serves, or is about to, and hands
/// over to another one first.
const BUSY_MAX: Duration = Duration::from_secs(120);
/// How long it waits for one that has the name and has shown nothing, and how often it looks.
const SILENT_MAX: Duration = Duration::from_secs(3);
const ROUND: Duration = Duration::from_millis(100);

/// What a predecessor passed on, sorted.
#[derive(Default)]
pub(crate) struct Inherited {
    pub(super) inheritance: Option<Inheritance>,
    pub(crate) listeners: Vec<InheritedListener>,
    pub(crate) http: Vec<(SocketAddr, TcpListener)>,
    /// Where processes that follow each other find each other.
    pub(super) meeting: Option<Meeting>,
    /// The name, where nobody had it.
    pub(super) door: Option<Doorkeeper>,
    /// Why this process has to end although it has not begun.
    refused: Option<String>,
}

impl Inherited {
    /// Whether there is a predecessor.
    pub(crate) fn is_some(&self) -> bool {
        self.inheritance.is_some()
    }

    /// Lets go of what the predecessor passed on if that one is gone, and takes its name; or has to end, if
    /// that one goes on without this process or another has the name. Says whether it is so just now.
    pub(super) fn let_go(&mut self, sink: &Sink) -> bool {
        let gone = self.inheritance.take_if(|inheritance| inheritance.is_closed());
        let Some(inheritance) = gone else { return false };
        // Each with what waits in it, for which it is better to be refused than to wait.
        self.listeners.clear();
        self.http.clear();
        let (pid, _) = inheritance.predecessor();
        match name_after(self.meeting.as_ref(), pid, inheritance.last_word()) {
            Ok(name) => {
                let text = "the process that ran before ended early; its sockets are closed until this process serves";
                sink.line(Level::Warning, "handover", text.to_owned());
                if let Some(name) = name {
                    keep(self, name, sink);
                }
            }
            Err(why) => self.refused = Some(format!("another process serves, ending: {why}")),
        }
        true
    }

    /// Whether it has to end.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// What a start that was ended says: nothing if a signal did it.
    ///
    /// # Errors
    /// A predecessor did it.
    pub(crate) fn ended<T>(self) -> Result<Option<T>, String> {
        self.refused.map_or(Ok(None), Err)
    }

    /// Fills the cache from that of the predecessor; false if a signal ends the wait for it. All else
    /// that comes meanwhile is for `later`.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn warm(
        &mut self,
        shared: &Arc<Shared>,
        now: Now,
        events: &Receiver<Event>,
        later: &mut Later,
    ) -> Result<bool, String> {
        let Some(mut inheritance) = self.inheritance.take() else { return Ok(true) };
        let cache = shared.clone();
        let take = move || {
            let mut count = 0;
            let taken = inheritance.answers(|packed| {
                count += usize::from(cache.cache.import(packed, now));
            });
            (inheritance, count, taken)
        };
        let Some((inheritance, count, taken)) =
            unless_ended(events, later, "warm", take).map_err(no_thread)?
        else {
            return Ok(false);
        };
        self.inheritance = Some(inheritance);
        let text = match taken {
            Ok(()) => format!("{count} answers of the running process are in the cache"),
            Err(error) => format!("only {count} answers of the running process came: {error}"),
        };
        shared.sink.line(Level::Info, "handover", text);
        Ok(true)
    }
}

/// Asks the process that runs already for what it holds. Without one, or where it does not hand
/// over, this process starts as if it were the first. With `taken`, the name, it is. Gives nothing
/// if a signal ends the wait for the other process.
///
/// # Errors
/// There is no thread to be had, or the process that started this one does not hand over.
pub(crate) fn claim(
    flags: &Flags,
    sink: &Sink,
    taken: Option<Name>,
    events: &Receiver<Event>,
) -> Result<Option<Inherited>, String> {
    let meeting = Meeting::of(flags, sink);
    if let Some(name) = taken {
        sink.line(
            Level::Warning,
            "handover",
            "the serving process is gone, taking over again".to_owned(),
        );
        let mut inherited = Inherited { meeting, ..Inherited::default() };
        keep(&mut inherited, name, sink);
        return Ok(Some(inherited));
    }
    let parent = connection_to_parent().map_err(|error| format!("{PREDECESSOR}: {error}"))?;
    if parent.is_none() && meeting.is_none() {
        return Ok(Some(Inherited::default()));
    }
    let sink = sink.clone();
    // The Corefile is still to be read: nothing that comes before has to be done later.
    let later = &mut Later::default();
    let ask = move || {
        let mut inherited = match (parent, &meeting) {
            (Some(end), _) => ask_parent(end, &sink)?,
            (None, Some(meeting)) => ask(meeting, &sink),
            (None, None) => Inherited::default(),
        };
        inherited.meeting = meeting;
        Ok(inherited)
    };
    unless_ended(events, later, "claim", ask).map_err(no_thread)?.transpose()
}

fn no_thread(error: io::Error) -> String {
    format!("cannot start the thread that takes over: {error}")
}

/// Our end of the connection to the process that started this one as its successor, once.
fn connection_to_parent() -> io::Result<Option<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if std::env::var_os(PREDECESSOR).is_none() || TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(None);
    }
    nodens_net::take_stdin().map(Some)
}

fn ask_parent(end: OwnedFd, sink: &Sink) -> Result<Inherited, String> {
    let refused = |why: &str| format!("no hand-over from the process that started this one: {why}");
    match Inheritance::from_parent(end, VERSION) {
        Ok(Claimed::Heir(inheritance)) => Ok(sort(*inheritance, sink)),
        Ok(Claimed::Nobody | Claimed::Busy) => Err(refused("it is busy")),
        Err(error) => Err(refused(&error.to_string())),
    }
}

/// Asks whoever has the name. One that has shown that it belongs here is waited for; all else is over in
/// seconds.
fn ask(meeting: &Meeting, sink: &Sink) -> Inherited {
    let name = &meeting.name;
    let say = |level, text| sink.line(level, "handover", text);
    let begun = Instant::now();
    let (mut heard, mut said, mut over) = (begun, false, false);
    loop {
        let why = match Inheritance::claim(&meeting.folder, name, VERSION) {
            Ok(Claimed::Heir(inheritance)) => return sort(*inheritance, sink),
            Ok(Claimed::Busy) => {
                heard = Instant::now();
                if !std::mem::replace(&mut said, true) {
                    say(
                        Level::Info,
                        format!(
                            "another process is starting as {name:?}, waiting for up to {BUSY_MAX:?} to take over from it"
                        ),
                    );
                }
                "it is busy".to_owned()
            }
            // It may have handed over to another one in this moment.
            Ok(Claimed::Nobody) | Err(Error::Gone) => {
                let mut inherited = Inherited::default();
                match meeting.take() {
                    Ok(name) => {
                        keep(&mut inherited, name, sink);
                        return inherited;
                    }
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                    Err(error) => {
                        let why = nodens_net::errno_text(&error);
                        say(
                            Level::Error,
                            format!("no successor can take over from this process: {why}"),
                        );
                        return inherited;
                    }
                }
                "it does not answer".to_owned()
            }
            Err(error) => {
                // It has been waited for already.
                over = true;
                error.to_string()
            }
        };
        if over || heard.elapsed() >= SILENT_MAX || begun.elapsed() >= BUSY_MAX {
            let beside = "starting beside it, and no successor can take over from this process";
            let text =
                format!("no hand-over from the process that runs as {name:?}: {why}; {beside}");
            say(Level::Error, text);
            return Inherited::default();
        }
        std::thread::sleep(ROUND);
    }
}

/// Keeps the name for when there is something to take over.
fn keep(inherited: &mut Inherited, name: Name, sink: &Sink) {
    match Doorkeeper::start(name) {
        Ok(door) => inherited.door = Some(door),
        Err(error) => {
            let why = nodens_net::errno_text(&error);
            let text = format!("no successor can take over from this process: {why}");
            sink.line(Level::Error, "handover", text);
        }
    }
}

fn sort(mut inheritance: Inheritance, sink: &Sink) -> Inherited {
    let estate = std::mem::take(&mut inheritance.estate);
    let mut inherited = Inherited { listeners: estate.listeners, ..Inherited::default() };
    for (name, descriptor) in estate.others {
        if let Some(address) = name.strip_prefix(HTTP)
            && let Ok(address) = address.parse()
        {
            inherited.http.push((address, descriptor.into()));
        }
    }
    let (pid, version) = inheritance.predecessor();
    let text = format!("taking over from process {pid}, version {version}");
    sink.line(Level::Info, "handover", text);
    inherited.inheritance = Some(inheritance);
    inherited
}
