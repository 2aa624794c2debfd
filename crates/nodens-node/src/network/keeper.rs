//! A thread that keeps true what is wanted, woken by the kernel when something changes.

use super::Shared;
use super::netlink::Events;
use super::state::{LOOK_EVERY, State};
use super::{nft, route};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The least time between two looks, so that a quarrel with another program costs little.
const PAUSE: Duration = Duration::from_millis(50);

/// The thread; it ends when this is dropped.
pub(crate) struct Keeper {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

struct Signal {
    wake: OwnedFd,
    stop: AtomicBool,
    /// Whether somebody wants to have it looked at, whatever was said to have changed.
    look: AtomicBool,
}

impl Keeper {
    pub(crate) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let signal =
            Arc::new(Signal { wake, stop: AtomicBool::new(false), look: AtomicBool::new(false) });
        let links = route::events().ok();
        let run = {
            let signal = Arc::clone(&signal);
            move || keep(&shared, &signal, links)
        };
        let thread = std::thread::Builder::new().name("network".to_owned()).spawn(run)?;
        Ok(Self { signal, thread: Some(thread) })
    }

    /// Makes the thread look again at how long it may sleep.
    pub(crate) fn wake(&self) {
        _ = rustix::io::write(&self.signal.wake, &1u64.to_ne_bytes());
    }

    /// Makes the thread look at everything.
    pub(crate) fn look(&self) {
        self.signal.look.store(true, Ordering::Release);
        self.wake();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.signal.stop.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn keep(shared: &Shared, signal: &Signal, links: Option<Events>) {
    let mut rules: Option<Events> = None;
    let mut looked = Instant::now();
    let mut connections: Option<Instant> = None;
    loop {
        let rest = connections.map_or(Duration::ZERO, |at| LOOK_EVERY.saturating_sub(at.elapsed()));
        let sleep = {
            let state = shared.state();
            if state.shares_tables() && rules.is_none() {
                rules = nft::events().ok();
            }
            state.next_look().map(|next| next.saturating_sub(looked.elapsed()))
        };
        wait(signal, [&links, &rules], sleep.map_or(rest, |sleep| sleep.min(rest)));
        if signal.stop.load(Ordering::Acquire) {
            return;
        }
        let mut state = shared.state();
        if connections.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            state.look_at_connections();
            connections = Some(Instant::now());
        }
        let changed = signal.look.swap(false, Ordering::AcqRel)
            | concerned(&state, links.as_ref(), rules.as_ref());
        let due = state.next_look().is_some_and(|next| looked.elapsed() >= next);
        if changed || due {
            if let Some(early) = PAUSE.checked_sub(looked.elapsed()) {
                drop(state);
                std::thread::sleep(early);
                state = shared.state();
            }
            if state.next_look().is_some() {
                shared.reconcile(&mut state, changed);
            }
            looked = Instant::now();
        }
    }
}

/// Waits for an event, for a wake-up, or until `sleep` is over.
fn wait(signal: &Signal, events: [&Option<Events>; 2], sleep: Duration) {
    let mut fds = vec![PollFd::new(&signal.wake, PollFlags::IN)];
    for events in events.into_iter().flatten() {
        fds.push(PollFd::from_borrowed_fd(events.as_fd(), PollFlags::IN));
    }
    let sleep = Timespec::try_from(sleep).ok();
    _ = poll(&mut fds, sleep.as_ref());
    let mut count = [0; 8];
    _ = rustix::io::read(&signal.wake, &mut count);
}

/// Whether one of the changes is about what is ours.
fn concerned(state: &State, links: Option<&Events>, rules: Option<&Events>) -> bool {
    let mut concerned = false;
    if let Some(events) = links {
        let changes = events.take();
        concerned |= changes.is_none_or(|changes| {
            changes.iter().any(|message| match route::change(message) {
                Some(route::Change::Link(link)) => state.concerns(&link.name, link.index),
                Some(route::Change::Address { address, gone }) => {
                    state.concerns_address(address, gone)
                }
                None => false,
            })
        });
    }
    if let Some(events) = rules {
        let changes = events.take();
        concerned |= changes.is_none_or(|changes| {
            changes.iter().any(|message| nft::takes_away(message, state.table()))
        });
    }
    concerned
}
