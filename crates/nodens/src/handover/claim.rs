//! Taking over what a predecessor holds, if there is one.

use super::rendezvous::{Rendezvous, name_after};
use super::start::PREDECESSOR;
use super::{ClaimError, EndReason, descriptors};
use crate::VERSION;
use crate::events::{Deferred, Event, unless_ended};
use crate::flags::Flags;
use nodens_core::log::{Level, Sink};
use nodens_core::{Now, Shared};
use nodens_net::InheritedListener;
use nodens_node::handover::{BusyResponder, Claimed, Error, HandoverState, Name, Takeover};
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
    pub(super) takeover: Option<Takeover>,
    /// What the predecessor lacks itself.
    pub(super) lacks: Vec<(String, u32)>,
    pub(crate) listeners: Vec<InheritedListener>,
    pub(crate) http: Vec<(SocketAddr, TcpListener)>,
    /// Where processes that follow each other find each other.
    pub(super) rendezvous: Option<Rendezvous>,
    /// The name, where no process had it.
    pub(super) responder: Option<BusyResponder>,
    /// Why this process has to end although it has not begun.
    refused: Option<EndReason>,
}

impl Inherited {
    /// Whether there is a predecessor.
    pub(crate) fn is_some(&self) -> bool {
        self.takeover.is_some()
    }

    /// Lets go of what the predecessor passed on if that one is gone, and takes its name; or has to end, if
    /// that one continues without this process or another has the name. Says whether it is so just now.
    pub(super) fn let_go(&mut self, sink: &Sink) -> bool {
        let gone = self.takeover.take_if(|takeover| takeover.is_closed());
        let Some(takeover) = gone else { return false };
        // Each with what waits in it, for which it is better to be refused than to wait.
        self.listeners.clear();
        self.http.clear();
        let (pid, _) = takeover.predecessor();
        match name_after(self.rendezvous.as_ref(), pid, takeover.last_word()) {
            Ok(name) => {
                let text = "the process that ran before ended early; its sockets are closed until this process serves";
                sink.line(Level::Warning, "handover", text.to_owned());
                if let Some(name) = name {
                    keep(self, name, sink);
                }
            }
            Err(why) => self.refused = Some(why),
        }
        true
    }

    /// Whether it has to end.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Why a predecessor ended the start, if one did.
    pub(crate) fn refusal(self) -> Option<ClaimError> {
        self.refused.map(ClaimError::AnotherServes)
    }

    /// Fills the cache from that of the predecessor; false if a signal ends the wait for it. All else
    /// that comes meanwhile is for `deferred`.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn warm(
        &mut self,
        shared: &Arc<Shared>,
        now: Now,
        events: &Receiver<Event>,
        deferred: &mut Deferred,
    ) -> Result<bool, ClaimError> {
        let Some(mut takeover) = self.takeover.take() else { return Ok(true) };
        let cache = shared.clone();
        let take = move || {
            let mut count = 0;
            let taken = takeover.answers(|packed| {
                count += usize::from(cache.cache.import(packed, now));
            });
            (takeover, count, taken)
        };
        let Some((takeover, count, taken)) =
            unless_ended(events, deferred, "warm", take).map_err(ClaimError::Thread)?
        else {
            return Ok(false);
        };
        self.takeover = Some(takeover);
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
) -> Result<Option<Inherited>, ClaimError> {
    let rendezvous = Rendezvous::of(flags, sink);
    if let Some(name) = taken {
        sink.line(
            Level::Warning,
            "handover",
            "the serving process is gone, taking over again".to_owned(),
        );
        let mut inherited = Inherited { rendezvous, ..Inherited::default() };
        keep(&mut inherited, name, sink);
        return Ok(Some(inherited));
    }
    let parent = connection_to_parent().map_err(ClaimError::Connection)?;
    if parent.is_none() && rendezvous.is_none() {
        return Ok(Some(Inherited::default()));
    }
    let sink = sink.clone();
    // The Corefile is still to be read: nothing that comes before has to be done later.
    let deferred = &mut Deferred::default();
    let ask = move || {
        let mut inherited = match (parent, &rendezvous) {
            (Some(end), _) => ask_parent(end, &sink)?,
            (None, Some(rendezvous)) => ask(rendezvous, &sink),
            (None, None) => Inherited::default(),
        };
        inherited.rendezvous = rendezvous;
        Ok(inherited)
    };
    unless_ended(events, deferred, "claim", ask).map_err(ClaimError::Thread)?.transpose()
}

/// Our end of the connection to the process that started this one as its successor, once.
fn connection_to_parent() -> io::Result<Option<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if std::env::var_os(PREDECESSOR).is_none() || TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(None);
    }
    nodens_net::take_stdin().map(Some)
}

fn ask_parent(end: OwnedFd, sink: &Sink) -> Result<Inherited, ClaimError> {
    match Takeover::from_parent(end, VERSION) {
        Ok(Claimed::Successor(takeover)) => Ok(sort(*takeover, sink)),
        Ok(Claimed::Nobody | Claimed::Busy) => Err(ClaimError::ParentBusy),
        Err(error) => Err(ClaimError::Parent(error)),
    }
}

/// Asks the process that has the name. One that has shown that it belongs here is waited for; all else is over in
/// seconds.
fn ask(rendezvous: &Rendezvous, sink: &Sink) -> Inherited {
    let name = &rendezvous.name;
    let say = |level, text| sink.line(level, "handover", text);
    let begun = Instant::now();
    let (mut heard, mut said, mut over) = (begun, false, false);
    loop {
        let why = match Takeover::claim(&rendezvous.folder, name, VERSION) {
            Ok(Claimed::Successor(takeover)) => return sort(*takeover, sink),
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
                match rendezvous.take() {
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
    match BusyResponder::start(name) {
        Ok(responder) => inherited.responder = Some(responder),
        Err(error) => {
            let why = nodens_net::errno_text(&error);
            let text = format!("no successor can take over from this process: {why}");
            sink.line(Level::Error, "handover", text);
        }
    }
}

fn sort(mut takeover: Takeover, sink: &Sink) -> Inherited {
    let mut state = std::mem::take(&mut takeover.state);
    let http = descriptors::http(std::mem::take(&mut state.others));
    let HandoverState { listeners, lacks, .. } = state;
    let mut inherited = Inherited { listeners, http, lacks, ..Inherited::default() };
    let (pid, version) = takeover.predecessor();
    let text = format!("taking over from process {pid}, version {version}");
    sink.line(Level::Info, "handover", text);
    inherited.takeover = Some(takeover);
    inherited
}
