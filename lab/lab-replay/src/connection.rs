//! One connection, with or without TLS: a stream of messages in both directions (RFC 1035 section 4.2.2).

use crate::limits::{READ_LEN, UNSENT_MAX};
use lab_load::pipe::{End, Handshake, Pipe, TlsSettings, is_pending};
use lab_sys::poll::Interest;
use nodens_wire::framing;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::{fmt, io};

/// Where connections go, and TLS if they have it.
#[derive(Clone)]
pub(crate) struct Dial {
    pub(crate) target: SocketAddr,
    pub(crate) tls: Option<TlsSettings>,
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.target, if self.tls.is_some() { " over TLS" } else { "" })
    }
}

pub(crate) struct Connection {
    pipe: Pipe,
    /// When it was asked for.
    pub(crate) began: u64,
    /// When TCP's handshake was over.
    pub(crate) connected: Option<u64>,
    pub(crate) is_open: bool,
    /// When it was asked last.
    pub(crate) asked: u64,
    /// Whether both the start and the end of the recorded one are in the recording: this one waits for the end.
    pub(crate) is_recorded: bool,
    /// Whether the recorded one has ended: this one does when nothing is in flight on it.
    pub(crate) is_ending: bool,
    /// The round of the recording that it belongs to.
    pub(crate) round: u64,
    /// IDs in the order of sending; those at the front may have their outcome.
    pub(crate) ids: VecDeque<u16>,
    /// What the poller looks for.
    watched: Interest,
    unsent: Vec<u8>,
    received: Vec<u8>,
}

impl Connection {
    /// Asks for a connection; that it is there is seen when it can be written to.
    pub(crate) fn dial(to: &Dial, local: Option<IpAddr>, now: u64, round: u64) -> io::Result<Self> {
        let tls = to.tls.as_ref().map(|tls| (tls.of_client(), tls.name()));
        let local = local.map(|local| SocketAddr::new(local, 0));
        Ok(Self {
            pipe: Pipe::open((local, to.target), tls)?,
            began: now,
            connected: None,
            is_open: false,
            asked: now,
            is_recorded: false,
            is_ending: false,
            round,
            ids: VecDeque::new(),
            watched: Interest::ReadWrite,
            unsent: Vec::new(),
            received: Vec::new(),
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.fd()
    }

    /// Continues with setting up; whether that is done.
    pub(crate) fn establish(&mut self, now: u64) -> Result<bool, End> {
        let connected = &mut self.connected;
        self.is_open = self.pipe.establish(|| *connected = Some(now))?;
        Ok(self.is_open)
    }

    /// The handshake that there was.
    pub(crate) fn handshake(&self) -> Handshake {
        self.pipe.handshake()
    }

    /// Appends a message; false if too much waits already.
    pub(crate) fn push(&mut self, message: &[u8], now: u64) -> bool {
        let has_room = self.unsent.len() < UNSENT_MAX;
        if has_room {
            framing::push_message(&mut self.unsent, message);
            self.asked = now;
        }
        has_room
    }

    /// Whether something waits to be sent, or the connection to be there.
    pub(crate) fn is_busy(&self) -> bool {
        !self.is_open || !self.unsent.is_empty() || self.pipe.wants_write()
    }

    /// What the poller has to look for from now on, if it is something else than before.
    pub(crate) fn change_of_interest(&mut self) -> Option<Interest> {
        let writes = self.pipe.wants_write() || (self.is_open && !self.unsent.is_empty());
        let wanted = if writes { Interest::ReadWrite } else { Interest::Read };
        (std::mem::replace(&mut self.watched, wanted) != wanted).then_some(wanted)
    }

    /// Writes as much as the kernel takes. Until the connection is set up that is nothing: whether it can be is for
    /// [`Connection::establish`] to find out.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if !self.is_open {
            return Ok(());
        }
        while !self.unsent.is_empty() {
            match self.pipe.write(&self.unsent) {
                Ok(count) => _ = self.unsent.drain(..count.min(self.unsent.len())),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.pipe.flush().map(drop)
    }

    /// Reads what is there and gives whole messages to `each`; the end, if there is one.
    pub(crate) fn receive(&mut self, mut each: impl FnMut(&[u8])) -> Option<End> {
        let end = loop {
            let had = self.received.len();
            self.received.resize(had + READ_LEN, 0);
            let room = self.received.get_mut(had..).unwrap_or_default();
            let read = self.pipe.read(room);
            self.received.truncate(had + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) => break Some(End::Closed),
                Ok(_) => self.take(&mut each),
                Err(end) if is_pending(&end) => break None,
                Err(End::Io(error)) if error.kind() == ErrorKind::Interrupted => {}
                Err(end) => break Some(end),
            }
        };
        self.take(&mut each);
        end
    }

    fn take(&mut self, each: &mut impl FnMut(&[u8])) {
        let mut at = 0;
        while let Some((message, used)) =
            framing::first_message(self.received.get(at..).unwrap_or_default())
        {
            each(message);
            at += used;
        }
        self.received.drain(..at.min(self.received.len()));
    }

    /// Tells the other side that nothing more comes.
    pub(crate) fn close(&mut self) {
        self.pipe.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_load::Transport;
    use lab_load::transport::{Tls, Trust};
    use std::net::TcpListener;
    use std::time::Duration;

    #[test]
    fn a_connection_that_is_refused_is_not_set_up_whatever_is_sent_before_that_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        drop(listener);
        let tls = Tls { trust: Trust::Anyone, ..Tls::default() };
        let tls = Some(TlsSettings::new(&tls, Transport::Dot, target).unwrap());
        let mut connection = Connection::dial(&Dial { target, tls }, None, 0, 0).unwrap();
        // The refusal is there before the poller is asked.
        std::thread::sleep(Duration::from_millis(50));
        assert!(connection.push(b"a message", 0));
        connection.flush().unwrap();
        assert!(matches!(connection.establish(0), Err(End::Io(_))));
    }
}
