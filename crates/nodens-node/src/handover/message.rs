//! What the two processes say to each other, as octets.
//!
//! Each message is one packet: an octet that names it, then its fields. Numbers have the most
//! significant octet first; texts and octet strings have their length in front.

use super::limits::PROGRAM_LEN_MAX;
use super::secret::{Nonce, Proof};
use nodens_core::ListenerKind;
use nodens_net::ListenerAddress;

/// The version of everything in this module. Both sides name theirs first; they have to agree.
pub const VERSION: u16 = 3;
/// What a greeting begins with, so that nobody takes another protocol for this one.
const MAGIC: &[u8] = b"nodens-handover";
/// A message without its descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Predecessor, first message: prove that you know the secret.
    Challenge {
        /// [`VERSION`] of the predecessor.
        version: u16,
        /// What to prove it with.
        nonce: Nonce,
    },
    /// Successor: its proof and its nonce, with which the predecessor has to prove the same.
    Hello(Greeting, Nonce, Proof),
    /// Predecessor: its proof.
    Welcome(Greeting, Proof),
    /// Predecessor: it serves, and cannot hand over now.
    Busy(Proof),
    /// Predecessor: it continues to serve, whatever was sent before; and why.
    Refused(String),
    /// Predecessor: descriptors come with this, in this order.
    Descriptors(Vec<Item>),
    /// Predecessor: no descriptors follow; what it lacks itself, and how much of each.
    Whole(Vec<(String, u32)>),
    /// Predecessor: cached answers.
    Answers(Vec<Vec<u8>>),
    /// Predecessor: no answers follow.
    Warm,
    /// Successor: ready to read queries, at these listeners of the predecessor.
    Commit(Vec<ListenerAddress>),
    /// Predecessor: it reads no more queries. The descriptors of the node's network come with this, in
    /// this order.
    Paused(Vec<Item>),
    /// Successor: it reads queries.
    Stay,
    /// Either, while the other may have to continue without it: a sign of life.
    Alive,
    /// Predecessor: a connection comes with this.
    Connection {
        /// Its listener.
        listener: ListenerAddress,
        /// Queries it has asked.
        asked: u32,
        /// Octets received and not yet read as messages.
        input: Vec<u8>,
    },
    /// Predecessor: it has passed on everything, and ends.
    Left,
    /// Successor: it ends on purpose, or at least sends no more.
    Ending,
}

/// What both sides have to know of each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// The form of its cached answers.
    pub(crate) answers: u16,
    /// Its process ID, in its own namespace.
    pub(crate) pid: u32,
    /// The program's version, for people.
    pub(crate) program: String,
}

/// What descriptors of a message are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A socket for each transport of a listener, in the order of
    /// [`nodens_core::ListenerKind::transports`].
    Listener(ListenerAddress),
    /// One, by its name.
    Named(String),
}

impl Item {
    /// How many descriptors it stands for.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Listener(listener) => listener.kind.transports().len(),
            Self::Named(_) => 1,
        }
    }
}

/// What an item with the sockets of a listener begins with. `N` is taken.
const fn kind_octet(kind: ListenerKind) -> u8 {
    match kind {
        ListenerKind::Dns => b'P',
        ListenerKind::Tls => b't',
        ListenerKind::Https => b'h',
        ListenerKind::Grpc => b'g',
        ListenerKind::Quic => b'q',
        ListenerKind::Https3 => b'3',
    }
}

impl Message {
    /// The message as octets.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Challenge { version, nonce } => {
                out.push(b'c');
                out.extend_from_slice(MAGIC);
                out.extend(version.to_be_bytes());
                out.extend_from_slice(nonce);
            }
            Self::Hello(greeting, nonce, proof) => {
                out.push(b'H');
                out.extend_from_slice(nonce);
                out.extend_from_slice(proof);
                greeting.encode(&mut out);
            }
            Self::Welcome(greeting, proof) => {
                out.push(b'W');
                out.extend_from_slice(proof);
                greeting.encode(&mut out);
            }
            Self::Busy(proof) => {
                out.push(b'B');
                out.extend_from_slice(proof);
            }
            Self::Refused(why) => {
                out.push(b'R');
                push(&mut out, why.as_bytes());
            }
            Self::Descriptors(items) => {
                out.push(b'D');
                items.iter().for_each(|item| item.encode(&mut out));
            }
            Self::Whole(lacks) => {
                out.push(b'w');
                for (kind, count) in lacks {
                    push(&mut out, kind.as_bytes());
                    out.extend(count.to_be_bytes());
                }
            }
            Self::Answers(answers) => {
                out.push(b'A');
                answers.iter().for_each(|answer| push(&mut out, answer));
            }
            Self::Warm => out.push(b'a'),
            Self::Commit(kept) => {
                out.push(b'C');
                kept.iter().for_each(|listener| push_listener(&mut out, *listener));
            }
            Self::Paused(items) => {
                out.push(b'p');
                items.iter().for_each(|item| item.encode(&mut out));
            }
            Self::Stay => out.push(b'S'),
            Self::Alive => out.push(b'l'),
            Self::Connection { listener, asked, input } => {
                out.push(b'T');
                push_listener(&mut out, *listener);
                out.extend(asked.to_be_bytes());
                push(&mut out, input);
            }
            Self::Left => out.push(b'b'),
            Self::Ending => out.push(b'F'),
        }
        out
    }

    /// The reverse of [`Message::encode`].
    pub(crate) fn decode(octets: &[u8]) -> Option<Self> {
        let (kind, rest) = octets.split_first()?;
        let mut rest = Fields(rest);
        let message = match kind {
            b'c' => Self::challenge(&mut rest)?,
            b'H' => {
                let (nonce, proof) = (rest.take()?, rest.take()?);
                Self::Hello(Greeting::decode(&mut rest)?, nonce, proof)
            }
            b'W' => {
                let proof = rest.take()?;
                Self::Welcome(Greeting::decode(&mut rest)?, proof)
            }
            b'B' => Self::Busy(rest.take()?),
            b'R' => Self::Refused(rest.text()?),
            b'D' => Self::Descriptors(rest.all(Fields::item)?),
            b'w' => Self::Whole(
                rest.all(|rest| Some((rest.text()?, u32::from_be_bytes(rest.take()?))))?,
            ),
            b'A' => Self::Answers(rest.all(|rest| rest.octets().map(<[u8]>::to_vec))?),
            b'a' => Self::Warm,
            b'C' => Self::Commit(rest.all(Fields::listener)?),
            b'p' => Self::Paused(rest.all(Fields::item)?),
            b'S' => Self::Stay,
            b'l' => Self::Alive,
            b'T' => {
                let (listener, asked) = (rest.listener()?, u32::from_be_bytes(rest.take()?));
                Self::Connection { listener, asked, input: rest.octets()?.to_vec() }
            }
            b'b' => Self::Left,
            b'F' => Self::Ending,
            _ => return None,
        };
        rest.0.is_empty().then_some(message)
    }

    /// Of another version, whatever follows the version may look like.
    fn challenge(rest: &mut Fields<'_>) -> Option<Self> {
        rest.0 = rest.0.strip_prefix(MAGIC)?;
        let version = u16::from_be_bytes(rest.take()?);
        if version != VERSION {
            rest.0 = &[];
            return Some(Self::Challenge { version, nonce: Nonce::default() });
        }
        Some(Self::Challenge { version, nonce: rest.take()? })
    }
}

impl Greeting {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.answers.to_be_bytes());
        out.extend(self.pid.to_be_bytes());
        push(out, self.program.as_bytes());
    }

    fn decode(rest: &mut Fields<'_>) -> Option<Self> {
        let answers = u16::from_be_bytes(rest.take()?);
        let pid = u32::from_be_bytes(rest.take()?);
        let program = rest.text().filter(|program| program.len() <= PROGRAM_LEN_MAX)?;
        Some(Self { answers, pid, program })
    }
}

impl Item {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Listener(listener) => push_listener(out, *listener),
            Self::Named(name) => {
                out.push(b'N');
                push(out, name.as_bytes());
            }
        }
    }
}

fn push_listener(out: &mut Vec<u8>, listener: ListenerAddress) {
    out.push(kind_octet(listener.kind));
    push(out, listener.address.to_string().as_bytes());
}

fn push(out: &mut Vec<u8>, octets: &[u8]) {
    let len = u32::try_from(octets.len()).unwrap_or(u32::MAX);
    out.extend(len.to_be_bytes());
    out.extend_from_slice(octets);
}

/// The fields of a message that are left.
struct Fields<'m>(&'m [u8]);

impl<'m> Fields<'m> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn octets(&mut self) -> Option<&'m [u8]> {
        let len = u32::from_be_bytes(self.take()?) as usize;
        let (octets, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(octets)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.octets()?.to_vec()).ok()
    }

    fn item(&mut self) -> Option<Item> {
        match self.take()? {
            [b'N'] => self.text().map(Item::Named),
            [octet] => self.listener_of(octet).map(Item::Listener),
        }
    }

    fn listener(&mut self) -> Option<ListenerAddress> {
        let [octet] = self.take()?;
        self.listener_of(octet)
    }

    /// The listener whose kind is this.
    fn listener_of(&mut self, octet: u8) -> Option<ListenerAddress> {
        let mut kinds = ListenerKind::ALL.into_iter();
        let kind = kinds.find(|kind| kind_octet(*kind) == octet)?;
        Some(ListenerAddress { kind, address: self.text()?.parse().ok()? })
    }

    fn all<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut all = Vec::new();
        while !self.0.is_empty() {
            all.push(read(self)?);
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodens_core::Transport;

    #[test]
    fn what_is_said_is_understood_and_no_part_of_it() {
        let greeting = Greeting { answers: 3, pid: 7, program: "nodens 1".to_owned() };
        let (nonce, proof) = ([5; 32], [6; 32]);
        let listener = |kind, text: &str| ListenerAddress { kind, address: text.parse().unwrap() };
        // Of two kinds, at one address.
        let a = listener(ListenerKind::Dns, "127.0.0.1:53");
        let b = listener(ListenerKind::Tls, "127.0.0.1:53");
        let c = listener(ListenerKind::Dns, "[::1]:53");
        let messages = [
            Message::Challenge { version: VERSION, nonce },
            Message::Hello(greeting.clone(), nonce, proof),
            Message::Welcome(greeting, proof),
            Message::Busy(proof),
            Message::Refused("why".to_owned()),
            Message::Descriptors(vec![
                Item::Listener(a),
                Item::Listener(b),
                Item::Named("tun".to_owned()),
            ]),
            Message::Whole(vec![("zones".to_owned(), 7), ("clusters".to_owned(), 1)]),
            Message::Answers(vec![vec![1, 2, 3], vec![], vec![4]]),
            Message::Warm,
            Message::Commit(vec![a, b, c]),
            Message::Paused(vec![Item::Named("tun".to_owned())]),
            Message::Stay,
            Message::Alive,
            Message::Connection { listener: c, asked: 9, input: vec![0, 20, 1] },
            Message::Left,
            Message::Ending,
        ];
        for message in messages {
            let octets = message.encode();
            assert_eq!(Message::decode(&octets).as_ref(), Some(&message));
            for cut in 0..octets.len() {
                // A list may end after any of its items.
                assert_ne!(Message::decode(&octets[..cut]).as_ref(), Some(&message));
            }
            assert_eq!(Message::decode(&[&octets[..], &[0]].concat()), None);
        }
    }

    /// A successor may be a later version of the program. A change of this needs a new [`VERSION`].
    #[test]
    fn the_octets_of_a_listener_and_the_order_of_its_sockets_stay_as_they_are() {
        let address = "127.0.0.1:53".parse().unwrap();
        let listener = ListenerAddress { kind: ListenerKind::Dns, address };
        let item = Item::Listener(listener);
        assert_eq!(item.count(), 2);
        let octets = b"DP\0\0\0\x0c127.0.0.1:53";
        assert_eq!(Message::Descriptors(vec![item]).encode(), octets);
        assert_eq!(ListenerKind::Dns.transports(), [Transport::Udp, Transport::Tcp]);
    }

    #[test]
    fn another_version_is_known_as_such_whatever_it_says() {
        let mut octets = [b"c", MAGIC, &[0, 99], b"something else"].concat();
        let other = Message::decode(&octets);
        assert!(matches!(other, Some(Message::Challenge { version: 99, .. })));
        octets[1] = b'x';
        assert_eq!(Message::decode(&octets), None);
    }
}
