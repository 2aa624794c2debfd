//! Options of sockets that a server listens on, changed from outside: connections inherit them.

use crate::error::Error;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// An option of the sockets that a server listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SocketOption {
    /// The length of the queue of connections that wait to be accepted: `listen`.
    Backlog,
    /// `TCP_NODELAY`
    NoDelay,
    /// `TCP_DEFER_ACCEPT`, in seconds.
    DeferAccept,
    /// `TCP_FASTOPEN`, the length of its queue.
    FastOpen,
    /// `SO_KEEPALIVE`
    KeepAlive,
    /// `SO_RCVBUF`, of TCP and UDP.
    ReceiveBuffer,
    /// `SO_SNDBUF`, of TCP and UDP.
    SendBuffer,
    /// `SO_BUSY_POLL`, in microseconds, of TCP and UDP.
    BusyPoll,
}

impl SocketOption {
    /// As the kernel calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Backlog => "listen backlog",
            Self::NoDelay => "TCP_NODELAY",
            Self::DeferAccept => "TCP_DEFER_ACCEPT",
            Self::FastOpen => "TCP_FASTOPEN",
            Self::KeepAlive => "SO_KEEPALIVE",
            Self::ReceiveBuffer => "SO_RCVBUF",
            Self::SendBuffer => "SO_SNDBUF",
            Self::BusyPoll => "SO_BUSY_POLL",
        }
    }

    fn of_datagrams(self) -> bool {
        matches!(self, Self::ReceiveBuffer | Self::SendBuffer | Self::BusyPoll)
    }

    fn read(self, socket: BorrowedFd<'_>) -> std::io::Result<i32> {
        use lab_sys::option;
        match self {
            Self::Backlog => option::backlog(socket),
            Self::NoDelay => option::get(socket, option::NO_DELAY),
            Self::DeferAccept => option::get(socket, option::DEFER_ACCEPT),
            Self::FastOpen => option::get(socket, option::FAST_OPEN),
            Self::KeepAlive => option::get(socket, option::KEEP_ALIVE),
            // The kernel doubles these two for its own overhead.
            Self::ReceiveBuffer => option::get(socket, option::RECEIVE_BUFFER).map(|n| n / 2),
            Self::SendBuffer => option::get(socket, option::SEND_BUFFER).map(|n| n / 2),
            Self::BusyPoll => option::get(socket, option::BUSY_POLL),
        }
    }

    fn write(self, socket: BorrowedFd<'_>, value: i32) -> std::io::Result<()> {
        use lab_sys::option;
        match self {
            Self::Backlog => rustix::net::listen(socket, value).map_err(Into::into),
            Self::NoDelay => option::set(socket, option::NO_DELAY, value),
            Self::DeferAccept => option::set(socket, option::DEFER_ACCEPT, value),
            Self::FastOpen => option::set(socket, option::FAST_OPEN, value),
            Self::KeepAlive => option::set(socket, option::KEEP_ALIVE, value),
            Self::ReceiveBuffer => option::set(socket, option::RECEIVE_BUFFER, value),
            Self::SendBuffer => option::set(socket, option::SEND_BUFFER, value),
            Self::BusyPoll => option::set(socket, option::BUSY_POLL, value),
        }
    }

    /// What counts as the value that was set: the kernel waits for a first octet in whole
    /// retransmissions of SYN and ACK, so seconds are rounded up.
    fn holds(self, value: i32, kept: i32) -> bool {
        kept == value || (self == Self::DeferAccept && value > 0 && kept >= value)
    }
}

/// What a socket of a server had before: enough to find it again, without keeping it open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    process: u32,
    descriptor: i32,
    /// `socket:[INODE]`
    link: String,
    option: SocketOption,
    before: i32,
}

/// Sets an option of all sockets that `process` and its children listen on; what they had before is
/// appended to `changed`.
pub(crate) fn set(
    process: u32,
    knob: &str,
    option: SocketOption,
    value: i32,
    changed: &mut Vec<Changed>,
) -> Result<(), Error> {
    let failed = |reason: String| Error::Sockets { process, reason };
    let mut seen = BTreeSet::new();
    for process in family(process) {
        for (descriptor, link) in sockets(process) {
            if seen.contains(&link) {
                continue;
            }
            let Some(socket) = take(process, descriptor) else { continue };
            if !serves(socket.as_fd(), option.of_datagrams()) {
                continue;
            }
            let refused = |error: std::io::Error| Error::Refused {
                knob: knob.to_owned(),
                value: value.to_string(),
                reason: error.to_string(),
            };
            let before = option.read(socket.as_fd()).map_err(refused)?;
            changed.push(Changed { process, descriptor, link: link.clone(), option, before });
            option.write(socket.as_fd(), value).map_err(refused)?;
            let kept = option.read(socket.as_fd()).map_err(refused)?;
            if !option.holds(value, kept) {
                let (knob, value) = (knob.to_owned(), value.to_string());
                return Err(Error::Kept { knob, value, kept: kept.to_string() });
            }
            seen.insert(link);
        }
    }
    if seen.is_empty() {
        return Err(failed(format!("none has {}: it listens on no socket", option.name())));
    }
    Ok(())
}

/// Gives sockets that are still there what they had before.
pub(crate) fn restore(changed: &mut Vec<Changed>) -> Result<(), Error> {
    while let Some(Changed { process, descriptor, link, option, before }) = changed.pop() {
        if !sockets(process).contains(&(descriptor, link)) {
            continue;
        }
        let Some(socket) = take(process, descriptor) else { continue };
        let written = option.write(socket.as_fd(), before);
        let kept = option.read(socket.as_fd());
        if written.is_err() || !kept.is_ok_and(|kept| option.holds(before, kept)) {
            let name = option.name();
            let reason = format!("{name} was {before} and could not be restored");
            return Err(Error::Sockets { process, reason });
        }
    }
    Ok(())
}

/// A process and all that it has started.
fn family(process: u32) -> Vec<u32> {
    let mut all = vec![process];
    let mut next = 0;
    while let Some(process) = all.get(next).copied() {
        next += 1;
        let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_ascii_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
    }
    all
}

/// The descriptors of a process that are sockets.
fn sockets(process: u32) -> Vec<(i32, String)> {
    let folder = format!("/proc/{process}/fd");
    let entries = fs::read_dir(Path::new(&folder)).into_iter().flatten().flatten();
    let mut all: Vec<(i32, String)> = entries
        .filter_map(|entry| {
            let link = fs::read_link(entry.path()).ok()?.to_str()?.to_owned();
            let descriptor = entry.file_name().to_str()?.parse().ok()?;
            link.starts_with("socket:").then_some((descriptor, link))
        })
        .collect();
    all.sort_unstable();
    all
}

/// A second descriptor of the same socket; none if either has gone.
fn take(process: u32, descriptor: i32) -> Option<OwnedFd> {
    let process = Pid::from_raw(i32::try_from(process).ok()?)?;
    let process = pidfd_open(process, PidfdFlags::empty()).ok()?;
    pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty()).ok()
}

/// True if it listens, or receives datagrams of anybody.
fn serves(socket: BorrowedFd<'_>, datagrams: bool) -> bool {
    use rustix::net::{AddressFamily, SocketType, getpeername, sockopt};
    let internet = sockopt::socket_domain(socket)
        .is_ok_and(|family| matches!(family, AddressFamily::INET | AddressFamily::INET6));
    let kind = sockopt::socket_type(socket);
    internet
        && match kind {
            Ok(SocketType::STREAM) => sockopt::socket_acceptconn(socket).unwrap_or(false),
            Ok(SocketType::DGRAM) => datagrams && getpeername(socket).is_err(),
            _ => false,
        }
}
