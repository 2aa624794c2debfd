//! Taking over what a predecessor holds, if there is one.

use super::{HTTP, NETWORK, OFFER, name};
use crate::VERSION;
use crate::events::{Event, Later, unless_ended};
use crate::flags::Flags;
use nodens_core::log::{Level, Sink};
use nodens_core::{Now, Shared};
use nodens_net::InheritedListener;
use nodens_node::handover::{Inheritance, Name};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// How long a successor waits while another one is being served.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a process waits for one that has the name and nothing to offer yet, and how often it
/// looks.
const STARTING: Duration = Duration::from_secs(20);
const STARTING_ROUND: Duration = Duration::from_millis(100);

/// What a predecessor passed on, sorted.
#[derive(Default)]
pub(crate) struct Inherited {
    pub(super) inheritance: Option<Inheritance>,
    pub(crate) listeners: Vec<InheritedListener>,
    pub(crate) http: Vec<(SocketAddr, TcpListener)>,
    pub(crate) network: Option<Vec<(String, OwnedFd)>>,
    pub(super) offer: Option<OwnedFd>,
    /// The name, where nobody had it.
    pub(super) name: Option<Name>,
}

impl Inherited {
    /// Whether there is a predecessor.
    pub(crate) fn is_some(&self) -> bool {
        self.inheritance.is_some()
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
/// There is no thread to be had.
pub(crate) fn claim(
    flags: &Flags,
    sink: &Sink,
    taken: Option<Name>,
    events: &Receiver<Event>,
) -> Result<Option<Inherited>, String> {
    if taken.is_some() {
        sink.line(Level::Warning, "handover", "nobody serves any more, starting again".to_owned());
        return Ok(Some(Inherited { name: taken, ..Inherited::default() }));
    }
    let Some(name) = name(flags) else { return Ok(Some(Inherited::default())) };
    let sink = sink.clone();
    // The Corefile is still to be read: nothing that comes before has to be done later.
    let later = &mut Later::default();
    unless_ended(events, later, "claim", move || ask(&name, &sink)).map_err(no_thread)
}

fn no_thread(error: io::Error) -> String {
    format!("no thread to take over with: {error}")
}

/// Asks whoever has `name`, for as long as that takes.
fn ask(name: &str, sink: &Sink) -> Inherited {
    let until = Instant::now() + STARTING;
    let mut said = false;
    loop {
        match Inheritance::claim(name, VERSION, PATIENCE) {
            Ok(None) => {}
            Ok(Some(inheritance)) => return sort(inheritance, sink),
            Err(error) => {
                let text = format!(
                    "no hand-over from the process that runs as {name:?}, starting beside it: {error}"
                );
                sink.line(Level::Error, "handover", text);
                return Inherited::default();
            }
        }
        match Name::take(name) {
            Ok(name) => return Inherited { name: Some(name), ..Inherited::default() },
            // Somebody else starts too.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                if !said {
                    said = true;
                    let text = format!(
                        "another process is starting as {name:?}, waiting for up to {STARTING:?} to take over from it"
                    );
                    sink.line(Level::Info, "handover", text);
                }
                std::thread::sleep(STARTING_ROUND);
            }
            // It is said when there is something to offer.
            Err(_) => return Inherited::default(),
        }
    }
}

fn sort(mut inheritance: Inheritance, sink: &Sink) -> Inherited {
    let estate = std::mem::take(&mut inheritance.estate);
    let mut inherited = Inherited { listeners: estate.listeners, ..Inherited::default() };
    for (name, descriptor) in estate.others {
        if let Some(address) = name.strip_prefix(HTTP) {
            if let Ok(address) = address.parse() {
                inherited.http.push((address, descriptor.into()));
            }
        } else if let Some(name) = name.strip_prefix(NETWORK) {
            inherited.network.get_or_insert_default().push((name.to_owned(), descriptor));
        } else if name == OFFER {
            inherited.offer = Some(descriptor);
        }
    }
    let (pid, version) = inheritance.predecessor();
    let text = format!("taking over from process {pid}, version {version}");
    sink.line(Level::Info, "handover", text);
    inherited.inheritance = Some(inheritance);
    inherited
}
