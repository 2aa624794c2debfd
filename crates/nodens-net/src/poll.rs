//! Waiting for any of many descriptors, and being woken by another thread.

use crate::slots::{Key, Kind};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// What a descriptor is ready for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) kind: Kind,
    pub(crate) key: Key,
    pub(crate) readable: bool,
    /// Closed in both directions, or failed.
    pub(crate) broken: bool,
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Interest {
    pub(crate) const READ: Self = Self { read: true, write: false };
    pub(crate) const WRITE: Self = Self { read: false, write: true };

    fn flags(self) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, self.read);
        flags.set(EventFlags::OUT, self.write);
        flags
    }
}

/// An epoll instance; level-triggered throughout, so that work left over is seen again.
pub(crate) struct Poll {
    epoll: Arc<OwnedFd>,
    events: Vec<Event>,
}

impl Poll {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        Ok(Self { epoll, events: Vec::with_capacity(crate::limits::EVENTS) })
    }

    /// What is waited at: it is readable itself while there is something to take up.
    pub(crate) fn descriptor(&self) -> &Arc<OwnedFd> {
        &self.epoll
    }

    pub(crate) fn add(
        &self,
        fd: impl AsFd,
        kind: Kind,
        key: Key,
        interest: Interest,
    ) -> io::Result<()> {
        let data = EventData::new_u64(key.pack(kind));
        Ok(epoll::add(&self.epoll, fd, data, interest.flags())?)
    }

    pub(crate) fn modify(
        &self,
        fd: impl AsFd,
        kind: Kind,
        key: Key,
        interest: Interest,
    ) -> io::Result<()> {
        let data = EventData::new_u64(key.pack(kind));
        Ok(epoll::modify(&self.epoll, fd, data, interest.flags())?)
    }

    /// A descriptor that is closed is forgotten anyway; this is for those that live on.
    pub(crate) fn remove(&self, fd: impl AsFd) {
        _ = epoll::delete(&self.epoll, fd);
    }

    /// Waits for at most `timeout_ns`, or for ever, and gives the number of [`Poll::ready`].
    pub(crate) fn wait(&mut self, timeout_ns: Option<u64>) -> usize {
        let timeout = timeout_ns.map(|ns| Timespec {
            tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        self.events.clear();
        let events = spare_capacity(&mut self.events);
        // The only error is a signal; whoever waits looks at its timers and comes back.
        epoll::wait(&self.epoll, events, timeout.as_ref()).unwrap_or_default()
    }

    /// The descriptor at place `index` of the last wait.
    pub(crate) fn ready(&self, index: usize) -> Option<Ready> {
        let event = self.events.get(index)?;
        // Both are copied: the struct is packed.
        let (data, flags) = (event.data, event.flags);
        let (kind, key) = Key::unpack(data.u64())?;
        let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        let readable = broken || flags.contains(EventFlags::IN);
        Some(Ready { kind, key, readable, broken })
    }
}

/// Wakes a thread out of [`Poll::wait`].
pub(crate) struct Waker {
    event: OwnedFd,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event })
    }

    /// Wakes; many calls before the thread gets there count as one.
    pub(crate) fn wake(&self) {
        // It can only fail because the counter is full, and then the thread is awake.
        _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Makes the next [`Waker::wake`] count again.
    pub(crate) fn reset(&self) {
        _ = rustix::io::read(&self.event, &mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.event.as_fd()
    }
}
