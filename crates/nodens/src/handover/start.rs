//! Successors that this process starts itself.

use super::at_end::AtEnd;
use super::subreaper::{LAST_CODE, STAYS, SUBREAPER, is_ancestor};
use super::{Rendezvous, SuccessorError};
use nodens_core::log::{Level, Sink};
use nodens_node::handover::Successor;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, set_child_subreaper, waitid,
};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

/// How long a process that ends waits for a successor that it told to end too, and how often it looks.
const END_PATIENCE: Duration = Duration::from_secs(10);
const END_ROUND: Duration = Duration::from_millis(5);

/// Says in the environment of a successor that its standard input is a connection to its predecessor.
pub(super) const PREDECESSOR: &str = "NODENS_PREDECESSOR";
type Started = Result<(u32, Arc<AtomicBool>), SuccessorError>;

/// Starts successors, on a thread of its own: a process is as nice as the thread that starts it,
/// and the main thread has become nicer than a server ought to be.
pub(crate) struct Successors {
    wanted: Option<Sender<(OwnedFd, SyncSender<Started>)>>,
    /// The one that was started last, and whether it has ended.
    last: Option<(u32, Arc<AtomicBool>)>,
}

impl Successors {
    /// Makes ready. To be called while the calling thread is as nice as the process was.
    pub(crate) fn prepare(sink: Sink) -> Self {
        let (sender, wanted) = channel();
        let thread = std::thread::Builder::new().name("successors".to_owned());
        let wanted = thread.spawn(move || start_all(&wanted, &sink)).ok().map(|_| sender);
        Self { wanted, last: None }
    }

    /// Starts the same program with the same arguments and `connection` as its standard input, unless
    /// the one started before still runs; gives its process ID.
    pub(super) fn start(&mut self, connection: OwnedFd) -> Result<u32, SuccessorError> {
        if let Some((pid, _)) = self.last.as_ref().filter(|_| self.is_starting()) {
            return Err(SuccessorError::Starting(*pid));
        }
        let (reply, started) = sync_channel(1);
        let wanted = self.wanted.as_ref().map(|wanted| wanted.send((connection, reply)));
        if !matches!(wanted, Some(Ok(()))) {
            return Err(SuccessorError::ThreadFailed);
        }
        let last = started.recv()??;
        let pid = last.0;
        self.last = Some(last);
        Ok(pid)
    }

    /// Whether the one that was started last still runs.
    pub(super) fn is_starting(&self) -> bool {
        self.last.as_ref().is_some_and(|(_, ended)| !ended.load(Ordering::Acquire))
    }

    /// Tells the one that was started last to end, if it still runs: it would serve on as if nobody had been told.
    pub(crate) fn tell(&self, signal: Signal) {
        let pid = self.last.as_ref().filter(|_| self.is_starting()).map(|(pid, _)| *pid);
        let pid = pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        // One that has just ended needs none.
        _ = pid.map(|pid| kill_process(pid, signal));
    }

    /// Waits until it has ended; not for ever for one that hangs.
    pub(crate) fn wait_for_end(&self) {
        let until = Instant::now() + END_PATIENCE;
        while self.is_starting() && Instant::now() < until {
            std::thread::sleep(END_ROUND);
        }
    }

    /// What this process has to do once `successor` has taken over; `name` is what it could serve
    /// under once more.
    pub(super) fn at_end(&self, successor: Option<Successor>, name: Option<Rendezvous>) -> AtEnd {
        let successor = |pid: &u32| successor == Some(Successor::Child(*pid));
        let own = self.last.as_ref().is_some_and(|(pid, _)| successor(pid));
        let is_reaped = subreaper() != std::process::id();
        match (own, is_reaped) {
            (true, true) => AtEnd::Exit,
            (true, false) => AtEnd::WaitForChildren,
            (false, _) if in_pod() || is_reaped => AtEnd::Standby(name),
            (false, _) => AtEnd::Exit,
        }
    }
}

/// Whether somebody starts this process again when it ends.
pub(super) fn in_pod() -> bool {
    std::process::id() == 1 || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

fn start_all(wanted: &Receiver<(OwnedFd, SyncSender<Started>)>, sink: &Sink) {
    for (connection, reply) in wanted {
        // Servers that follow this one's successors lose their parent, and are ours then. Where
        // that cannot be, the end of a successor is taken for the end of all.
        _ = set_child_subreaper(Some(getpid()));
        let started = spawn(connection).map(|child| {
            let ended = Arc::new(AtomicBool::new(false));
            let pid = child.id();
            watch(child, ended.clone(), sink.clone());
            (pid, ended)
        });
        _ = reply.send(started);
    }
}

fn spawn(connection: OwnedFd) -> Result<Child, SuccessorError> {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    let arguments: Vec<OsString> = arguments.collect();
    let subreaper = subreaper().to_string();
    let spawn = |command: &mut Command| {
        // No other program that is started meanwhile inherits it.
        command.stdin(connection.try_clone()?);
        command.args(&arguments).env(PREDECESSOR, "stdin").env(SUBREAPER, &subreaper).spawn()
    };
    // The file of that name may be a newer one; if it is gone, the one that runs will do.
    let child = spawn(&mut Command::new(&program))
        .or_else(|_| spawn(Command::new("/proc/self/exe").arg0(&program)));
    let program = program.to_string_lossy().into_owned();
    child.map_err(|error| SuccessorError::Program { program, error })
}

/// The process that stays when others follow each other: the one that does so already, unless we
/// do not descend from it, else this one.
fn subreaper() -> u32 {
    let told = std::env::var(SUBREAPER).ok().and_then(|pid| pid.parse().ok());
    told.filter(|pid| is_ancestor(*pid)).unwrap_or(std::process::id())
}

/// Says if the successor ends while this process is there to see it.
fn watch(mut child: Child, ended: Arc<AtomicBool>, sink: Sink) {
    let pid = child.id();
    let run = move || {
        // Where this process stays for its successors, their exit codes are for it to take.
        let id = Pid::from_child(&child);
        let ended_as = waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        if let Ok(Some(status)) = ended_as {
            // It may have taken over, and this process be about to stay.
            let signal = status.terminating_signal().map(|signal| 128 + signal);
            LAST_CODE.store(status.exit_status().or(signal).unwrap_or(1), Ordering::Release);
        }
        ended.store(true, Ordering::Release);
        if STAYS.load(Ordering::Acquire) {
            return;
        }
        let status = child.wait();
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        sink.line(Level::Error, "handover", format!("successor {pid} ended: {how}"));
    };
    // Without a thread it stays unseen, and nothing else.
    _ = std::thread::Builder::new().name("successor".to_owned()).spawn(run);
}
