//! Messages with their lengths in front, over TCP (RFC 7766) or TLS (RFC 7858).

use super::carrier::{Carrier, End, Leftover, Sink, Taken};
use super::pipe::{Pipe, is_pending};
use nodens_wire::MESSAGE_LEN_MAX;
use nodens_wire::framing::{first_message, push_message};
use std::collections::HashSet;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// Reads of a full buffer from one connection before others have their turn.
const READS_PER_TURN: usize = 4;

pub(super) struct Framed {
    pipe: Pipe,
    open: bool,
    /// Octets that the pipe has not taken yet, from `taken` on.
    out: Vec<u8>,
    taken: usize,
    /// How many octets the pipe took before those in `out`.
    before: u64,
    /// `(ID, first octet, last octet + 1)` of queries that the kernel does not have as a whole.
    pending: VecDeque<(u16, u64, u64)>,
    /// How many of `pending` were said to be written.
    announced: usize,
    /// Octets read that are no whole message yet.
    into: Vec<u8>,
}

impl Framed {
    pub(super) fn new(pipe: Pipe) -> Self {
        Self {
            pipe,
            open: false,
            out: Vec::new(),
            taken: 0,
            before: 0,
            pending: VecDeque::new(),
            announced: 0,
            into: Vec::new(),
        }
    }

    /// Octets that the pipe has taken.
    fn position(&self) -> u64 {
        self.before + self.taken as u64
    }

    fn write(&mut self, sink: &mut Sink<'_, '_>) -> Result<(), End> {
        self.pipe.flush()?;
        while self.taken < self.out.len() {
            let now = sink.clock.now();
            match self.pipe.write(self.out.get(self.taken..).unwrap_or_default()) {
                Ok(count) => self.taken += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
            let position = self.position();
            for (id, first, _) in self.pending.iter().skip(self.announced) {
                if *first >= position {
                    break;
                }
                sink.wrote(*id, now);
                self.announced += 1;
            }
        }
        if self.taken == self.out.len() {
            self.before = self.position();
            self.taken = 0;
            self.out.clear();
        }
        if self.pipe.is_flushed() {
            let position = self.position();
            while self.pending.front().is_some_and(|(_, _, end)| *end <= position) {
                self.pending.pop_front();
                self.announced = self.announced.saturating_sub(1);
            }
        }
        Ok(())
    }

    fn read(&mut self, sink: &mut Sink<'_, '_>) -> Result<(), End> {
        for _ in 0..READS_PER_TURN {
            let count = match self.pipe.read(sink.buffer) {
                Ok(0) => return Err(End::Closed),
                Ok(count) => count,
                Err(end) if is_pending(&end) => return Ok(()),
                Err(end) => return Err(end),
            };
            let now = sink.clock.now();
            self.into.extend(sink.buffer.iter().take(count));
            let mut at = 0;
            while let Some((message, len)) = self.into.get(at..).and_then(first_message) {
                sink.message(message, now);
                at += len;
            }
            self.into.drain(..at);
        }
        Ok(())
    }
}

impl Carrier for Framed {
    fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.fd()
    }

    fn ask(&mut self, id: u16, message: &[u8]) -> Taken {
        if message.len() > MESSAGE_LEN_MAX {
            return Taken::Over;
        }
        let first = self.before + self.out.len() as u64;
        push_message(&mut self.out, message);
        self.pending.push_back((id, first, self.before + self.out.len() as u64));
        Taken::Yes
    }

    /// What timed out takes no room on a stream of octets, and an answer names its query by ID.
    fn forget(&mut self, _: &HashSet<u16>) {}

    fn drive(&mut self, sink: &mut Sink<'_, '_>) -> Result<(), End> {
        if !self.open {
            if !self.pipe.establish(|| sink.connected())? {
                return Ok(());
            }
            self.open = true;
            sink.opened(self.pipe.handshake());
        }
        let written = self.write(sink);
        // What came before an error on the way out still counts.
        self.read(sink)?;
        written
    }

    fn wants_write(&self) -> bool {
        self.pipe.wants_write() || (self.open && self.taken < self.out.len())
    }

    fn close(&mut self, _: Instant) {
        self.pipe.close();
    }

    fn leftover(&mut self) -> Leftover {
        let position = self.position();
        let unwritten = self.pending.iter().filter(|(_, first, _)| *first >= position);
        let unwritten: Vec<_> = unwritten.map(|(id, ..)| *id).collect();
        let half_written = (self.pending.len() - unwritten.len()) as u64;
        Leftover { unwritten, half_written }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;
    use crate::clock::Clock;
    use crate::session::{Limits, Session};
    use crate::stream::carrier::Status;
    use crate::table::Rest;
    use nodens_wire::{Name, Type};
    use socket2::Socket;
    use std::net::TcpListener;
    use std::time::{Duration, SystemTime};

    /// A connection whose server reads nothing, and that is full after little.
    fn deaf() -> (Framed, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let listener = Socket::from(listener);
        listener.set_recv_buffer_size(2_048).unwrap();
        let listener = TcpListener::from(listener);
        let pipe = Pipe::open((None, listener.local_addr().unwrap()), None).unwrap();
        pipe.socket().set_send_buffer_size(2_048).unwrap();
        (Framed::new(pipe), listener)
    }

    #[test]
    fn a_query_is_written_from_its_first_octet_and_whole_with_its_last() {
        let mut workload = Workload::new(1);
        workload.push(Name::parse("a-name-of-some-length.example.").unwrap().view(), Type::A, None);
        let rest = Rest { answered: 1, given_up: 1 };
        let limits =
            Limits { ids: 1 << 16, ids_max: 1 << 16, timeout: u64::MAX / 4, rest, seed: 1 };
        let mut session = Session::new(&workload, 1, limits);
        let (mut framed, listener) = deaf();
        let mut asked = Vec::new();
        for item in 0..4_000 {
            let mut message = Vec::new();
            let id = session.issue(0, 0, (item, 0), &mut message).unwrap();
            session.sent(0, id, 0);
            session.assign(0, id, 1);
            assert_eq!(framed.ask(id, &message), Taken::Yes);
            asked.push(id);
        }
        let (returned, mut last_answer) = (Vec::new(), 0);
        let mut status = Status {
            client: 0,
            lane: 1,
            began: 0,
            connected: None,
            opened: None,
            active: 0,
            returned,
        };
        let accepted = listener.accept().unwrap();
        let mut buffer = Sink::buffer();
        for _ in 0..200 {
            let mut sink = Sink {
                clock: Clock::new(Duration::ZERO, SystemTime::now),
                session: &mut session,
                status: &mut status,
                last_answer: &mut last_answer,
                buffer: &mut buffer,
            };
            framed.drive(&mut sink).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(framed.wants_write() && status.opened.is_some());
        let leftover = framed.leftover();
        let written = session.tally.connections.waited.recorded() as usize;
        assert!(written > 0 && leftover.half_written <= 1, "{}", leftover.half_written);
        assert_eq!(asked.get(written..), Some(&leftover.unwritten[..]), "the rest, in order");
        drop(accepted);
    }
}
