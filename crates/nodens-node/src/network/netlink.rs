//! Netlink: requests to the kernel and what it says.

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send,
    socket_with,
};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The kernel answers at once; who waits longer has lost the answer to another holder of the
/// socket.
const PATIENCE: Duration = Duration::from_secs(5);
/// No message of the kernel's is longer.
const LEN_MAX: usize = 1 << 16;
/// Room for the changes of a large cluster's rules while somebody else has the CPU.
const EVENTS_LEN: usize = 1 << 20;
/// How often a list is asked for before it counts as one that cannot be had.
const LIST_ATTEMPTS: u32 = 10;

const HEADER: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `NLM_F_REQUEST`
const REQUEST: u16 = 1;
/// `NLM_F_DUMP_INTR`: something changed while the kernel wrote a list, which may lack what is there.
const TORN: u16 = 0x10;
/// `NLM_F_ACK`
pub(crate) const ACK: u16 = 4;
/// `NLM_F_DUMP`
pub(crate) const DUMP: u16 = 0x300;
/// `NLM_F_EXCL`
pub(crate) const EXCLUSIVE: u16 = 0x200;
/// `NLM_F_REPLACE`
pub(crate) const REPLACE: u16 = 0x100;
/// `NLM_F_CREATE`
pub(crate) const CREATE: u16 = 0x400;
/// `NLM_F_APPEND`
pub(crate) const APPEND: u16 = 0x800;

const NESTED: u16 = 0x8000;
const TYPE_MASK: u16 = 0x3fff;

/// Requests in the making, numbered from zero.
#[derive(Default)]
pub(crate) struct Requests {
    octets: Vec<u8>,
    starts: Vec<usize>,
}

impl Requests {
    /// Adds a request of type `kind` with the flags besides `NLM_F_REQUEST`.
    pub(crate) fn add(&mut self, kind: u16, flags: u16, body: impl FnOnce(&mut Body)) -> &mut Self {
        let start = self.octets.len();
        self.starts.push(start);
        self.octets.extend_from_slice(&[0; 4]);
        self.octets.extend_from_slice(&kind.to_ne_bytes());
        self.octets.extend_from_slice(&(REQUEST | flags).to_ne_bytes());
        self.octets.extend_from_slice(&[0; 8]);
        let mut inner = Body(std::mem::take(&mut self.octets));
        body(&mut inner);
        self.octets = inner.0;
        let len = u32::try_from(self.octets.len() - start).unwrap_or(u32::MAX);
        self.put(start, len);
        align(&mut self.octets);
        self
    }

    fn put(&mut self, place: usize, value: u32) {
        if let Some(place) = self.octets.get_mut(place..place + 4) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
    }

    fn number(&mut self, first: u32) {
        for (index, start) in self.starts.clone().into_iter().enumerate() {
            self.put(start + 8, first.wrapping_add(index as u32));
        }
    }
}

/// The body of a request, or of an attribute in it.
pub(crate) struct Body(Vec<u8>);

impl Body {
    /// Octets as they are, for the fixed part at the start.
    pub(crate) fn octets(&mut self, octets: &[u8]) -> &mut Self {
        self.0.extend_from_slice(octets);
        align(&mut self.0);
        self
    }

    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.nested_as(kind, |body| body.0.extend_from_slice(value))
    }

    /// A string with the zero that ends it.
    pub(crate) fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// A number in network order, as the packet filter wants it.
    pub(crate) fn number(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attribute(kind, &value.to_be_bytes())
    }

    pub(crate) fn nested(&mut self, kind: u16, body: impl FnOnce(&mut Self)) -> &mut Self {
        self.nested_as(kind | NESTED, body)
    }

    fn nested_as(&mut self, kind: u16, body: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.0.len();
        self.0.extend_from_slice(&[0; 2]);
        self.0.extend_from_slice(&kind.to_ne_bytes());
        body(self);
        let len = u16::try_from(self.0.len() - start).unwrap_or(u16::MAX);
        if let Some(place) = self.0.get_mut(start..start + 2) {
            place.copy_from_slice(&len.to_ne_bytes());
        }
        align(&mut self.0);
        self
    }
}

fn align(octets: &mut Vec<u8>) {
    octets.resize(octets.len().next_multiple_of(4), 0);
}

/// A message of the kernel's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    flags: u16,
    sequence: u32,
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// The octets from `start` on, `N` of them.
    pub(crate) fn part<const N: usize>(&self, start: usize) -> Option<[u8; N]> {
        self.body.get(start..start.checked_add(N)?)?.try_into().ok()
    }

    /// The attributes after a fixed part of this length.
    pub(crate) fn attributes(&self, fixed: usize) -> Attributes<'_> {
        Attributes(self.body.get(fixed..).unwrap_or_default())
    }
}

/// Type and value of attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Attributes<'a> {
    pub(crate) fn get(self, kind: u16) -> Option<&'a [u8]> {
        let mut these = self;
        these.find(|(k, _)| *k == kind).map(|(_, value)| value)
    }

    /// A string, without the zero that ends it.
    pub(crate) fn text(self, kind: u16) -> Option<&'a str> {
        let value = self.get(kind)?;
        std::str::from_utf8(value.strip_suffix(&[0]).unwrap_or(value)).ok()
    }

    /// A number in network order.
    pub(crate) fn number(self, kind: u16) -> Option<u32> {
        Some(u32::from_be_bytes(self.get(kind)?.try_into().ok()?))
    }

    pub(crate) fn nested(self, kind: u16) -> Attributes<'a> {
        Attributes(self.get(kind).unwrap_or_default())
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let word = |at: usize| Some(u16::from_ne_bytes(self.0.get(at..at + 2)?.try_into().ok()?));
        let (len, kind) = (usize::from(word(0)?), word(2)?);
        let value = self.0.get(4..len)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & TYPE_MASK, value))
    }
}

/// The messages of one datagram.
fn messages(mut octets: &[u8]) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some(header) = octets.get(..HEADER) {
        let word = |at: usize| {
            header.get(at..at + 4).and_then(|w| w.try_into().ok()).map_or(0, u32::from_ne_bytes)
        };
        let half = |at: usize| {
            header.get(at..at + 2).and_then(|h| h.try_into().ok()).map_or(0, u16::from_ne_bytes)
        };
        let len = word(0) as usize;
        let Some(body) = octets.get(HEADER..len) else { break };
        messages.push(Message {
            kind: half(4),
            flags: half(6),
            sequence: word(8),
            body: body.to_vec(),
        });
        octets = octets.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    messages
}

/// A request that the kernel refused.
#[derive(Debug)]
pub(crate) struct Refused {
    /// Which one, by its number.
    pub(crate) request: usize,
    pub(crate) error: io::Error,
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self { request: 0, error }
    }
}

impl From<rustix::io::Errno> for Refused {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}

/// A netlink socket for requests.
pub(crate) struct Socket {
    fd: OwnedFd,
    sequence: AtomicU32,
    turn: Mutex<()>,
}

impl Socket {
    pub(crate) fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let fd = bound(protocol, 0, SocketFlags::CLOEXEC)?;
        set_socket_timeout(&fd, Timeout::Recv, Some(PATIENCE))?;
        Ok(Self::of(fd))
    }

    /// A socket that another process may hold too.
    pub(crate) fn of(fd: OwnedFd) -> Self {
        // So that answers to the other process are told from ours: in pods both have the same ID.
        let sequence = AtomicU32::new(RandomState::new().hash_one(std::process::id()) as u32);
        Self { fd, sequence, turn: Mutex::new(()) }
    }

    /// Asks for a list, again if it changed while the kernel wrote it.
    pub(crate) fn list(&self, kind: u16, fixed: &[u8]) -> io::Result<Vec<Message>> {
        for _ in 0..LIST_ATTEMPTS {
            let mut requests = Requests::default();
            requests.add(kind, DUMP, |body| {
                body.octets(fixed);
            });
            let list = self.talk(requests, None).map_err(|refused| refused.error)?;
            if list.iter().all(|message| message.flags & TORN == 0) {
                return Ok(list);
            }
        }
        Err(io::Error::other("a list of the kernel changed each time it was read"))
    }

    /// Asks for changes, the last of which must have the flag [`ACK`].
    pub(crate) fn change(&self, requests: Requests, last: usize) -> Result<(), Refused> {
        self.talk(requests, Some(last)).map(|_| ())
    }

    /// Sends requests, and receives until the one numbered `last`, or a list, is done.
    fn talk(&self, mut requests: Requests, last: Option<usize>) -> Result<Vec<Message>, Refused> {
        let _turn = self.turn.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let count = requests.starts.len() as u32;
        let first = self.sequence.fetch_add(count, Ordering::Relaxed);
        requests.number(first);
        send(&self.fd, &requests.octets, SendFlags::empty())?;
        let mut buffer = vec![0; LEN_MAX];
        let mut list = Vec::new();
        let mut refused: Option<Refused> = None;
        loop {
            let len = match recv(&self.fd, &mut buffer, RecvFlags::empty()) {
                Ok((len, _)) => len,
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) => return Err(silence().into()),
                Err(error) => return Err(error.into()),
            };
            for message in messages(buffer.get(..len).unwrap_or_default()) {
                let request = message.sequence.wrapping_sub(first);
                if request >= count {
                    continue;
                }
                let request = request as usize;
                match message.kind {
                    DONE => {
                        // It may be the one that says the list is torn.
                        list.push(message);
                        return refused.map_or(Ok(list), Err);
                    }
                    ERROR => {
                        if let Some(error) = error_of(&message) {
                            refused = refused.or(Some(Refused { request, error }));
                        }
                        // What refuses the first request of a batch refuses it whole.
                        let whole = refused.as_ref().is_some_and(|refused| refused.request == 0);
                        if whole || last.is_none_or(|last| request >= last) {
                            return refused.map_or(Ok(std::mem::take(&mut list)), Err);
                        }
                    }
                    _ => list.push(message),
                }
            }
        }
    }

    pub(crate) fn try_clone(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }
}

fn silence() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the kernel did not answer a netlink request")
}

/// The error of an acknowledgement, or none when it says that all is well.
fn error_of(message: &Message) -> Option<io::Error> {
    let code = i32::from_ne_bytes(message.part(0)?);
    (code != 0).then(|| io::Error::from_raw_os_error(code.saturating_neg()))
}

/// A netlink socket on which the kernel says what changes.
pub(crate) struct Events {
    fd: OwnedFd,
}

impl Events {
    /// Listens to the groups of a mask.
    pub(crate) fn open(protocol: Option<Protocol>, groups: u32) -> io::Result<Self> {
        let fd = bound(protocol, groups, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        _ = set_socket_recv_buffer_size(&fd, EVENTS_LEN);
        Ok(Self { fd })
    }

    /// Everything that was said since; none if so much was said that some of it was lost.
    pub(crate) fn take(&self) -> Option<Vec<Message>> {
        let mut buffer = vec![0; LEN_MAX];
        let mut taken = Some(Vec::new());
        loop {
            match recv(&self.fd, &mut buffer, RecvFlags::empty()) {
                Ok((len, _)) => {
                    if let Some(taken) = &mut taken {
                        taken.extend(messages(buffer.get(..len).unwrap_or_default()));
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::NOBUFS) => taken = None,
                Err(_) => return taken,
            }
        }
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn bound(protocol: Option<Protocol>, groups: u32, flags: SocketFlags) -> io::Result<OwnedFd> {
    let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    bind(&fd, &SocketAddrNetlink::new(0, groups))?;
    Ok(fd)
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use rustix::net::socketpair;

    /// An answer: its type, its flags and its body.
    pub(crate) type Answer = (u16, u16, Vec<u8>);

    /// A socket to a kernel that gives one answer after the other: each is a datagram of messages.
    /// Gives the types of the requests, once the socket is gone.
    pub(crate) fn kernel(answers: Vec<Vec<Answer>>) -> (Socket, std::thread::JoinHandle<Vec<u16>>) {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let kernel = move || {
            let mut asked = Vec::new();
            let mut answers = answers.into_iter();
            let mut buffer = vec![0; LEN_MAX];
            loop {
                let (len, _) = recv(&theirs, &mut buffer, RecvFlags::empty()).unwrap();
                let Some(request) = messages(&buffer[..len]).pop() else { return asked };
                asked.push(request.kind);
                let mut reply = Vec::new();
                for (kind, flags, body) in answers.next().unwrap() {
                    let len = (HEADER + body.len()) as u32;
                    reply.extend(len.to_ne_bytes());
                    reply.extend([kind.to_ne_bytes(), flags.to_ne_bytes()].as_flattened());
                    reply.extend([request.sequence.to_ne_bytes(), [0; 4]].as_flattened());
                    reply.extend(body);
                    align(&mut reply);
                }
                send(&theirs, &reply, SendFlags::empty()).unwrap();
            }
        };
        (Socket::of(ours), std::thread::spawn(kernel))
    }

    /// The end of a list.
    pub(crate) fn end(flags: u16) -> Answer {
        (DONE, flags, vec![0; 4])
    }

    /// A refusal.
    pub(crate) fn refusal(code: i32) -> Answer {
        (ERROR, 0, (-code).to_ne_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{end, kernel, refusal};
    use super::*;

    const LINK: u16 = 16;

    #[test]
    fn a_list_that_changed_while_it_was_read_is_asked_for_again() {
        let link = |number: u8, flags| (LINK, flags, vec![number; 4]);
        let (socket, asked) = kernel(vec![
            vec![link(1, TORN), end(TORN)],
            // Only the end may say so.
            vec![link(1, 0), end(TORN)],
            vec![link(1, 0), link(2, 0), end(0)],
        ]);
        let list = socket.list(18, &[0; 16]).unwrap();
        let links: Vec<u8> =
            list.iter().filter(|message| message.kind == LINK).map(|m| m.body[0]).collect();
        assert_eq!(links, [1, 2]);
        drop(socket);
        assert_eq!(asked.join().unwrap(), [18; 3]);
    }

    #[test]
    fn two_holders_of_a_socket_number_their_requests_differently() {
        let (socket, _) = kernel(Vec::new());
        let other = Socket::of(socket.try_clone().unwrap());
        let starts = [&socket, &other].map(|socket| socket.sequence.load(Ordering::Relaxed));
        assert!(starts[0].abs_diff(starts[1]) > 4, "{starts:?}");
    }

    #[test]
    fn a_list_that_always_changes_is_an_error_and_so_is_a_refusal() {
        let (socket, asked) = kernel((0..LIST_ATTEMPTS).map(|_| vec![end(TORN)]).collect());
        let error = socket.list(18, &[0; 16]).unwrap_err();
        assert!(error.to_string().contains("changed each time"), "{error}");
        drop(socket);
        assert_eq!(asked.join().unwrap().len(), LIST_ATTEMPTS as usize);
        let (socket, _) = kernel(vec![vec![refusal(1)]]);
        let error = socket.list(18, &[0; 16]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(1));
    }
}
