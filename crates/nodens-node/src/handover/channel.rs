//! Messages and descriptors over a local socket.

use super::Error;
use super::limits::{BACKLOG, DESCRIPTORS_MAX, GREETING_LEN_MAX, MESSAGE_LEN_MAX};
use super::message::Message;
use nodens_net::Peer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How soon a message is sent again whose descriptors wait for too many others to be taken.
const TOO_MANY_PAUSE: Duration = Duration::from_millis(1);
/// A timeout of a socket that is not for ever, which zero would mean.
const AT_ONCE: Duration = Duration::from_millis(1);

/// One end of a connection between two processes; each message arrives whole or not at all.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: OwnedFd,
    /// When everything that is waited for has to be done.
    deadline: Cell<Option<Instant>>,
}

fn socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC | flags, None)?)
}

/// Lets others connect at `address`. Nobody who accepts waits.
pub(crate) fn listen(address: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let listener = socket(SocketFlags::NONBLOCK)?;
    rustix::net::bind(&listener, address)?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// The next connection to `listener`, if there is one.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<Option<Channel>> {
    loop {
        match rustix::net::accept_with(listener, SocketFlags::CLOEXEC) {
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            Err(Errno::AGAIN) => return Ok(None),
            accepted => return Ok(Some(Channel::of(accepted?))),
        }
    }
}

/// Waits until one of `fds` has something, for at most `time`.
pub(crate) fn wait<'f>(fds: impl IntoIterator<Item = (BorrowedFd<'f>, PollFlags)>, time: Duration) {
    let mut fds: Vec<_> =
        fds.into_iter().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
    // Whoever waits looks itself at what there is.
    _ = poll(&mut fds, Timespec::try_from(time).ok().as_ref());
}

impl Channel {
    /// One end of a connection.
    pub(crate) fn of(socket: OwnedFd) -> Self {
        Self { socket, deadline: Cell::new(None) }
    }

    /// A connection to whoever listens at `address`, or nothing if nobody does; within `time`.
    pub(crate) fn connect(address: &SocketAddrUnix, time: Duration) -> io::Result<Option<Self>> {
        let channel = Self::of(socket(SocketFlags::empty())?);
        channel.set_deadline(Some(time));
        // So many may wait there that there is no room for another one.
        channel.set_timeout(Timeout::Send)?;
        match rustix::net::connect(&channel.socket, address) {
            Ok(()) => Ok(Some(channel)),
            Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(None),
            Err(Errno::AGAIN) => Err(io::ErrorKind::TimedOut.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Both ends of a connection.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (a, b) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
        Ok((Self::of(a), b))
    }

    /// The same end once more. The connection closes with the last of them.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self::of(self.socket.try_clone()?))
    }

    /// Refuses to speak to a process of another user, who might give what is not its own, or take
    /// what is not for it.
    pub(crate) fn check_peer(&self) -> Result<Peer, Error> {
        let peer = nodens_net::peer(&self.socket)?;
        if peer.uid == rustix::process::geteuid().as_raw() {
            return Ok(peer);
        }
        Err(Error::Stranger(peer.uid))
    }

    /// How long all that follows may take together, until this is called again; `None` for ever.
    pub(crate) fn set_deadline(&self, time: Option<Duration>) {
        self.deadline.set(time.map(|time| Instant::now() + time));
    }

    /// How long it may take from now on.
    fn left(&self) -> Result<Option<Duration>, Error> {
        let Some(deadline) = self.deadline.get() else { return Ok(None) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(Error::Slow) } else { Ok(Some(left)) }
    }

    fn set_timeout(&self, timeout: Timeout) -> io::Result<()> {
        let left = self.left().unwrap_or(Some(AT_ONCE)).map(|left| left.max(AT_ONCE));
        Ok(set_socket_timeout(&self.socket, timeout, left)?)
    }

    /// Waits until a message has come or the other side is gone, for at most `time`; whether that is so.
    pub(crate) fn has_word(&self, time: Duration) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let ready = poll(&mut fds, Timespec::try_from(time).ok().as_ref());
        // An interrupted wait is over early, which no caller minds.
        ready.is_ok_and(|ready| ready > 0)
    }

    /// Whether it is ready for `flags`, or the other side is gone.
    pub(crate) fn is_ready(&self, flags: PollFlags) -> bool {
        let mut fds = [PollFd::new(&self.socket, flags)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Whether the other side is gone. What it has said last may still wait to be read.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_ready(PollFlags::empty())
    }

    /// Sends a message and the descriptors that come with it.
    pub(crate) fn send(&self, message: &Message, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        self.send_octets(&message.encode(), fds)
    }

    pub(crate) fn send_octets(&self, octets: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        loop {
            self.left()?;
            self.set_timeout(Timeout::Send)?;
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
                return Err(Error::Protocol("too many descriptors for one message"));
            }
            let parts = [IoSlice::new(octets)];
            match rustix::net::sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                // More descriptors are under way than may be until the other side has taken some.
                Err(Errno::TOOMANYREFS) => std::thread::sleep(TOO_MANY_PAUSE),
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Error::Gone),
                Err(Errno::AGAIN) => return Err(Error::Slow),
                Err(error) => return Err(Error::Io(error.into())),
            }
        }
    }

    /// Sends a message if there is room for it now.
    pub(crate) fn send_at_once(&self, message: &Message) {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        // Whoever is gone or does not read need not know.
        _ = rustix::net::send(&self.socket, &message.encode(), flags);
    }

    /// The next message of a process of which nothing is known yet: a short one, and no descriptors,
    /// which the kernel closes. Nothing if it has sent none and `flags` do not wait.
    pub(crate) fn receive_greeting(&self, flags: RecvFlags) -> Result<Option<Message>, Error> {
        let mut octets = [0; GREETING_LEN_MAX];
        loop {
            self.left()?;
            self.set_timeout(Timeout::Recv)?;
            // With `TRUNC` the length is that of the whole message.
            let (_, len) =
                match rustix::net::recv(&self.socket, &mut octets, flags | RecvFlags::TRUNC) {
                    Ok(received) => received,
                    Err(Errno::INTR) => continue,
                    Err(Errno::AGAIN) if flags.contains(RecvFlags::DONTWAIT) => return Ok(None),
                    Err(Errno::AGAIN) => return Err(Error::Slow),
                    // As in `receive`.
                    Err(Errno::CONNRESET) => continue,
                    Err(error) => return Err(Error::Io(error.into())),
                };
            if len == 0 {
                return Err(Error::Gone);
            }
            let octets = octets.get(..len).ok_or(Error::Protocol("a greeting that is too long"))?;
            let message = Message::decode(octets);
            return message.map(Some).ok_or(Error::Protocol("a message that makes no sense"));
        }
    }

    /// The next message and the descriptors that came with it.
    pub(crate) fn receive(&self) -> Result<(Message, VecDeque<OwnedFd>), Error> {
        let mut octets = vec![0; MESSAGE_LEN_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            self.left()?;
            self.set_timeout(Timeout::Recv)?;
            let mut parts = [IoSliceMut::new(&mut octets)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            match rustix::net::recvmsg(&self.socket, &mut parts, &mut control, flags) {
                Ok(received) => break received,
                Err(Errno::INTR) => {}
                // The other side has closed with words of ours unread. Said once, and before its own
                // last words, which say how it ended.
                Err(Errno::CONNRESET) => {}
                Err(Errno::AGAIN) => return Err(Error::Slow),
                Err(error) => return Err(Error::Io(error.into())),
            }
        };
        // Taken whatever follows, so that none stays open unseen.
        let mut fds = VecDeque::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        if received.bytes == 0 {
            return Err(Error::Gone);
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(Error::Protocol("a message that was cut short"));
        }
        let message = octets.get(..received.bytes).and_then(Message::decode);
        Ok((message.ok_or(Error::Protocol("a message that makes no sense"))?, fds))
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> Self {
        channel.socket
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
