//! One kind of object: list, then follow.

use crate::connection::{Answer, Connection, Pace, broken};
use crate::events::Seen;
use crate::fault::Fault;
use crate::form::{self, Form};
use crate::kinds::Resource;
use crate::limits::{
    ABSENT_WAIT, BACKOFF_MAX, FORBIDDEN_WAIT, LIST_PAUSE, LISTS_REST, STABLE_AFTER,
    UNREADABLE_NAMED, WATCH_GRACE, WATCH_TIME,
};
use crate::metrics::{Happening, Metrics};
use crate::pace::Backoff;
use crate::publish::Known;
use crate::report::{Line, Report};
use http_body_util::BodyExt;
use nodens_core::cluster::{Feed, Scope, Source};
use nodens_core::log::{Level, Sink};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// What the loops of one watch have in common.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) feed: Arc<Feed>,
    pub(crate) known: Arc<Known>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) report: Arc<Mutex<Report>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) sink: Sink,
    pub(crate) on_synced: OnSynced,
    pub(crate) lists_read: fn(),
}

/// What the program does at moments of the watches, on their thread.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// A cluster is known for the first time: before that nothing is as urgent as the thread's
    /// work, from then on answers are.
    pub synced: fn(),
    /// Lists were read, and the memory that this took is free again.
    pub lists_read: fn(),
}

impl Default for Moments {
    /// Nothing.
    fn default() -> Self {
        Self { synced: || {}, lists_read: || {} }
    }
}

/// What is called the first time that all is known; taken then.
pub(crate) type OnSynced = Arc<Mutex<Option<fn()>>>;

/// How lists are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lists {
    /// As streams.
    Streams,
    /// The next one in pages.
    PagesOnce,
    /// In pages: the server has said that it streams no lists.
    Pages,
}

/// The loop of one kind of object.
pub(crate) struct Loop {
    pub(crate) resource: Resource,
    common: Common,
    backoff: Backoff,
    /// The version to go on from; none if there has to be a list first.
    version: Option<String>,
    /// Whether the server may be another one than the one that gave that version, or with other data.
    is_in_doubt: bool,
    /// How lists are taken.
    lists: Lists,
    has_listed: bool,
    /// Whether the next request has to wait for its turn.
    pub(crate) pace: Pace,
    /// Whether this attempt was for a streamed list.
    in_streamed_list: bool,
    /// Since when the stream of this attempt gives what is there.
    following: Option<Instant>,
    unreadable: u64,
}

impl std::ops::Deref for Loop {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

impl Loop {
    pub(crate) fn new(resource: Resource, common: Common) -> Self {
        Self {
            resource,
            common,
            backoff: Backoff::default(),
            version: None,
            is_in_doubt: false,
            lists: Lists::Streams,
            has_listed: false,
            pace: Pace::InTurn,
            in_streamed_list: false,
            following: None,
            unreadable: 0,
        }
    }

    pub(crate) fn source(&self) -> &Source {
        self.feed.source()
    }

    /// Whether a list has been whole once.
    pub(crate) fn has_listed(&self) -> bool {
        self.has_listed
    }

    /// Lists and follows until the task is ended.
    pub(crate) async fn run(mut self) {
        loop {
            self.following = None;
            let result = self.attempt().await;
            let lived = self.following.map(|since| since.elapsed());
            // One that ends sooner than it was asked to may be restarting.
            self.is_in_doubt |= result.is_err() || lived.is_none_or(|lived| lived < WATCH_TIME);
            let wait = match result {
                Ok(()) => {
                    self.pace = Pace::InTurn;
                    self.backoff.ended(lived.unwrap_or_default())
                }
                Err(fault) => self.failed(fault, lived),
            };
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
                self.pace = Pace::InTurn;
            }
        }
    }

    /// One stream, from wherever we are to its end.
    async fn attempt(&mut self) -> Result<(), Fault> {
        if let Some(version) = self.version.clone().filter(|_| self.is_in_doubt)
            && self.has_gone_back(&version).await?
        {
            self.version = None;
        }
        self.is_in_doubt = false;
        if self.version.is_none() && self.lists != Lists::Streams {
            if self.lists == Lists::PagesOnce {
                self.lists = Lists::Streams;
            }
            let version = self.list_in_pages().await?;
            self.listed(version);
        }
        let in_list = self.version.is_none();
        self.in_streamed_list = in_list;
        let request = match &self.version {
            None => self.resource.stream(self.source()),
            Some(version) => self.resource.watch(self.source(), version),
        };
        let answer = self.get(&request, false).await?;
        if in_list {
            self.known.begin_list(self.resource.kind);
        } else {
            self.connected();
        }
        self.read(answer, in_list).await
    }

    /// Asks. What follows from an answer has had its turn with it: the next page, the watch after a
    /// list, a list in pages where it could not be streamed.
    pub(crate) async fn get(&mut self, request: &str, in_list: bool) -> Result<Answer, Fault> {
        let pace = std::mem::replace(&mut self.pace, Pace::AtOnce);
        let accepted = form::accepted(&self.source().scope, self.resource.kind, in_list);
        self.connection.get(request, accepted, pace).await
    }

    async fn read(&mut self, answer: Answer, mut in_list: bool) -> Result<(), Fault> {
        let Answer { form, mut body } = answer;
        let mut events = form.cutter();
        loop {
            let patience = if in_list { LIST_PAUSE } else { 2 * WATCH_TIME + WATCH_GRACE };
            let silent = || format!("nothing was heard for {patience:?}");
            let frame = match tokio::time::timeout(patience, body.frame()).await {
                Ok(Some(frame)) => frame.map_err(|error| broken(&error))?,
                Ok(None) => break,
                Err(_) if in_list => return Err(Fault::NotOffered(silent())),
                Err(_) => return Err(Fault::Unreachable(silent())),
            };
            let Some(data) = frame.data_ref() else { continue };
            events.feed(data, |event| self.event(form, event, &mut in_list))?;
            for _ in 0..events.take_skipped() {
                self.unreadable("an object that is too large");
            }
            // Many frames may be there at once; others want to work too.
            tokio::task::consume_budget().await;
        }
        match (events.is_within_an_event(), in_list) {
            (true, _) => Err(Fault::Unreachable("the stream ended within an object".to_owned())),
            (_, true) => Err(Fault::Unreachable("the stream ended within a list".to_owned())),
            _ => Ok(()),
        }
    }

    fn event(&mut self, form: Form, octets: &[u8], in_list: &mut bool) -> Result<(), Fault> {
        if octets.is_empty() {
            return Ok(());
        }
        let version = match self.known.event((self.resource.kind, form), octets, *in_list) {
            Seen::Change { version, .. } => {
                self.metrics.count(Happening::Event, self.resource.label, 1);
                version
            }
            Seen::Bookmark { version, list_ends: true } if *in_list => {
                *in_list = false;
                self.listed(version);
                return Ok(());
            }
            Seen::Bookmark { version, .. } => version,
            Seen::Unreadable { version, text } => {
                self.unreadable(&text);
                version.unwrap_or_default()
            }
            Seen::Error(fault) => return Err(fault),
        };
        // Versions within a list are in no order.
        if !*in_list && !version.is_empty() {
            self.version = Some(version);
        }
        Ok(())
    }

    /// A list is whole.
    fn listed(&mut self, version: String) {
        self.metrics.count(Happening::List, self.resource.label, 1);
        self.version = Some(version).filter(|version| !version.is_empty());
        (self.has_listed, self.in_streamed_list) = (true, false);
        self.connected();
        let completes = self.known.end_list(self.resource.kind);
        self.clear_up();
        if completes {
            let text = format!("Kubernetes API at {}: synced", self.connection.host());
            self.sink.line(Level::Info, "kubernetes", text);
            let on_synced = self.on_synced.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(on_synced) = on_synced {
                on_synced();
            }
        }
    }

    /// Tells the program when no list is under way any more, once for all that end together.
    fn clear_up(&self) {
        let Common { known, lists_read, .. } = self.common.clone();
        if !known.begin_clearing_up() {
            return;
        }
        tokio::spawn(async move {
            // The connection's buffers are emptied, and other lists begun, soon after.
            tokio::time::sleep(LISTS_REST).await;
            if known.end_clearing_up() {
                lists_read();
            }
        });
    }

    /// From here on what is known is what is there.
    fn connected(&mut self) {
        self.following = Some(Instant::now());
        self.say(|report, resource, now| report.connected(resource, now));
    }

    /// What to do about a fault, and how long to wait first.
    fn failed(&mut self, fault: Fault, lived: Option<Duration>) -> Duration {
        let asked_for_a_stream = std::mem::take(&mut self.in_streamed_list);
        self.metrics.count(Happening::Failure, self.resource.label, 1);
        if lived.is_some_and(|lived| lived >= STABLE_AFTER) {
            self.backoff.worked();
        }
        match &fault {
            fault if asked_for_a_stream && fault.suggests_pages() => {
                let for_good = matches!(fault, Fault::NotOffered(_));
                self.lists = if for_good { Lists::Pages } else { Lists::PagesOnce };
                return Duration::ZERO;
            }
            Fault::Gone(_) => {
                // Nothing is lost by it but the place: a list tells what changed meanwhile.
                self.version = None;
                return self.backoff.failed();
            }
            Fault::Absent(_) if self.resource.optional => {
                self.known.begin_list(self.resource.kind);
                self.known.end_list(self.resource.kind);
                self.version = None;
                self.say(|report, resource, _| report.absent(resource, &fault));
                return ABSENT_WAIT;
            }
            // A stream that breaks is taken up again before anyone is told.
            Fault::Unreachable(_) if lived.is_some() => return self.backoff.failed(),
            _ => {}
        }
        self.say(|report, resource, now| report.failed(resource, &fault, now));
        let wait = self.backoff.failed();
        match fault {
            Fault::Forbidden(_) if self.source().scope != Scope::Whole => FORBIDDEN_WAIT,
            Fault::Busy { after: Some(after), .. } => wait.max(after.min(BACKOFF_MAX)),
            _ => wait,
        }
    }

    fn say(&self, what: impl FnOnce(&mut Report, &Resource, SystemTime) -> Option<Line>) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        let line = what(&mut report, &self.resource, SystemTime::now());
        self.feed.set_link(report.link());
        drop(report);
        if let Some((level, text)) = line {
            self.sink.line(level, "kubernetes", text);
        }
    }

    /// Counts an object that cannot be used, and says which it is.
    pub(crate) fn unreadable(&mut self, text: &str) {
        self.unreadable += 1;
        self.metrics.count(Happening::Unreadable, self.resource.label, 1);
        let title = self.resource.title;
        let text = match self.unreadable {
            ..=UNREADABLE_NAMED => format!("skipped one of the {title}: {text}"),
            n if n == UNREADABLE_NAMED + 1 => {
                format!("skipped more of the {title}; from here on they are only counted")
            }
            _ => return,
        };
        self.sink.line(Level::Warning, "kubernetes", text);
    }
}
