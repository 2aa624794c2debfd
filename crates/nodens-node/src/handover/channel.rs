//! Messages and descriptors over a local socket.

use super::Error;
use super::message::{MESSAGE_LEN_MAX, Message};
use nodens_net::Peer;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Descriptors of one message; the kernel allows 253.
pub(crate) const DESCRIPTORS_MAX: usize = 200;
/// Successors that wait while one is being served.
const BACKLOG: i32 = 16;
/// How often a message is sent again whose descriptors wait for too many others to be taken.
const TOO_MANY_TRIES: usize = 5000;
const TOO_MANY_PAUSE: Duration = Duration::from_millis(1);

/// One end of a connection between two processes; each message arrives whole or not at all.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: OwnedFd,
}

fn socket() -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?)
}

fn address(name: &str) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("nodens/{name}").as_bytes())?)
}

/// Takes `name` in the abstract namespace, which belongs to the network namespace and forgets the
/// name with the last descriptor.
pub(crate) fn bind(name: &str) -> io::Result<OwnedFd> {
    let listener = socket()?;
    rustix::net::bind(&listener, &address(name)?)?;
    Ok(listener)
}

/// Lets others connect to a name from [`bind`].
pub(crate) fn listen(listener: &OwnedFd) -> io::Result<()> {
    Ok(rustix::net::listen(listener, BACKLOG)?)
}

/// The next connection to `listener`.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<Channel> {
    loop {
        match rustix::net::accept_with(listener, SocketFlags::CLOEXEC) {
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            accepted => return Ok(Channel { socket: accepted? }),
        }
    }
}

impl Channel {
    /// A connection to whoever listens under `name`, or nothing if nobody does.
    pub(crate) fn connect(name: &str) -> io::Result<Option<Self>> {
        let socket = socket()?;
        match rustix::net::connect(&socket, &address(name)?) {
            Ok(()) => Ok(Some(Self { socket })),
            Err(Errno::CONNREFUSED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(test)]
    pub(crate) fn pair() -> (Self, Self) {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (a, b) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        (Self { socket: a }, Self { socket: b })
    }

    /// The same end once more. The connection closes with the last of them.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { socket: self.socket.try_clone()? })
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

    /// For how long a message may take to come or to be taken; `None` for ever.
    pub(crate) fn set_patience(&self, patience: Option<Duration>) -> Result<(), Error> {
        for timeout in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&self.socket, timeout, patience).map_err(io::Error::from)?;
        }
        Ok(())
    }

    /// Sends a message and the descriptors that come with it.
    pub(crate) fn send(&self, message: &Message, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        self.send_octets(&message.encode(), fds)
    }

    pub(crate) fn send_octets(&self, octets: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        for _ in 0..TOO_MANY_TRIES {
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
        Err(Error::Slow)
    }

    /// The next message and the descriptors that came with it.
    pub(crate) fn receive(&self) -> Result<(Message, VecDeque<OwnedFd>), Error> {
        let mut octets = vec![0; MESSAGE_LEN_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut parts = [IoSliceMut::new(&mut octets)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            match rustix::net::recvmsg(&self.socket, &mut parts, &mut control, flags) {
                Ok(received) => break received,
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Err(Error::Gone),
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

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
