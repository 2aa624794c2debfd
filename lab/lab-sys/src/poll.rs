//! Readiness of many descriptors.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// What to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Something to receive, or an error.
    Read,
    /// As [`Interest::Read`], or room to send.
    ReadWrite,
}

impl Interest {
    fn bits(self) -> u32 {
        let bits = match self {
            Self::Read => libc::EPOLLIN,
            Self::ReadWrite => libc::EPOLLIN | libc::EPOLLOUT,
        };
        bits as u32
    }
}

/// One ready descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// What it was registered with.
    pub token: u64,
    /// There is something to receive, an error, or the end.
    pub readable: bool,
    /// There is room to send, or an error.
    pub writable: bool,
}

/// A set of descriptors, level-triggered.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
    ready: usize,
    /// Whether the kernel has `epoll_pwait2`, as far as is known.
    precise: bool,
}

impl Poller {
    /// An empty set that reports up to `capacity` descriptors at once.
    pub fn new(capacity: usize) -> io::Result<Self> {
        // SAFETY: the call takes no pointer.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        crate::check(libc::c_long::from(fd))?;
        // SAFETY: `fd` was just opened and has no other owner.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        let events = vec![libc::epoll_event { events: 0, u64: 0 }; capacity.max(1)];
        Ok(Self { epoll, events, ready: 0, precise: true })
    }

    /// Watches `fd`; a closed descriptor leaves the set by itself.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// Changes what a watched `fd` is waited for.
    pub fn modify(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    fn control(
        &self,
        operation: libc::c_int,
        fd: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.bits(), u64: token };
        // SAFETY: `event` lives during the call and is not kept by the kernel.
        let result = unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd.as_raw_fd(), &raw mut event)
        };
        crate::check(libc::c_long::from(result)).map(drop)
    }

    /// Waits up to `timeout`, to the nanosecond, and returns what is ready; nothing after a signal.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<impl Iterator<Item = Ready> + '_> {
        let result = self.wait_precisely(timeout).unwrap_or_else(|| {
            if !timeout.is_zero() {
                self.sleep(timeout);
            }
            // SAFETY: `events` has room for as many events as the call is told.
            let count = unsafe {
                libc::epoll_wait(
                    self.epoll.as_raw_fd(),
                    self.events.as_mut_ptr(),
                    self.events.len() as libc::c_int,
                    0,
                )
            };
            libc::c_long::from(count)
        });
        self.ready = match crate::check(result) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => other?,
        };
        Ok(self.events.iter().take(self.ready).map(|event| Ready {
            token: event.u64,
            readable: event.events & !(libc::EPOLLOUT as u32) != 0,
            writable: event.events & (libc::EPOLLOUT | libc::EPOLLERR | libc::EPOLLHUP) as u32 != 0,
        }))
    }

    /// `epoll_pwait2`, which counts in nanoseconds; `None` on kernels before Linux 5.11.
    fn wait_precisely(&mut self, timeout: Duration) -> Option<libc::c_long> {
        if !self.precise {
            return None;
        }
        let timeout = timespec(timeout);
        // SAFETY: `events` has room for as many events as the call is told, `timeout` lives during
        // the call, and a null signal mask of any size leaves the mask alone.
        let result = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len() as libc::c_int,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        let missing = result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS);
        self.precise = !missing;
        (!missing).then_some(result)
    }

    /// Blocks until a descriptor is ready, a signal arrives, or `timeout` is over. An epoll wait
    /// counts in milliseconds; `ppoll` on the epoll descriptor counts in nanoseconds.
    fn sleep(&self, timeout: Duration) {
        let mut watched =
            libc::pollfd { fd: self.epoll.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let timeout = timespec(timeout);
        // SAFETY: one `pollfd` and one `timespec`, both alive during the call; no signal mask. The
        // result is not needed: what is ready is asked for afterwards.
        unsafe { libc::ppoll(&raw mut watched, 1, &raw const timeout, std::ptr::null()) };
    }
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::Instant;

    #[test]
    fn a_wait_ends_with_a_datagram_or_its_timeout() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut poller = Poller::new(4).unwrap();
        poller.add(socket.as_fd(), 7, Interest::Read).unwrap();
        let start = Instant::now();
        assert_eq!(poller.wait(Duration::from_millis(2)).unwrap().count(), 0);
        assert!(start.elapsed() >= Duration::from_millis(2));
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        let ready: Vec<_> = poller.wait(Duration::from_secs(5)).unwrap().collect();
        assert_eq!(ready, [Ready { token: 7, readable: true, writable: false }]);
        poller.modify(socket.as_fd(), 7, Interest::ReadWrite).unwrap();
        assert!(poller.wait(Duration::ZERO).unwrap().all(|ready| ready.writable));
    }

    #[test]
    fn an_old_kernel_waits_as_well() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut poller = Poller::new(4).unwrap();
        poller.precise = false;
        poller.add(socket.as_fd(), 7, Interest::Read).unwrap();
        let start = Instant::now();
        assert_eq!(poller.wait(Duration::from_millis(2)).unwrap().count(), 0);
        assert!(start.elapsed() >= Duration::from_millis(2));
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        assert_eq!(poller.wait(Duration::from_secs(5)).unwrap().count(), 1);
    }
}
