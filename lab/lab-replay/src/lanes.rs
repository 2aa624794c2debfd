//! The sockets of a replay: one for each recorded source, and one for each recorded connection.
//!
//! There are at most so many. When there are, the UDP socket that was not used for longest is used for one more
//! source, and the connection that was not used for longest, and has nothing in flight, is closed.

use crate::connection::{Connection, Dial};
use crate::limits::{RECEIVE_BUFFER, TRIES};
use slab::Slab;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::ops::Bound;
use std::os::fd::AsFd;

/// Whom a socket stands for: a client over UDP, or a client's connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) client: SocketAddr,
    /// `None` for UDP.
    pub(crate) server: Option<SocketAddr>,
}

pub(crate) struct Lane {
    key: Key,
    /// A number that no other socket gets.
    pub(crate) serial: u64,
    local: Option<IpAddr>,
    /// When it was used last, as a place in the order of all uses.
    used_at: u64,
    /// Queries without an outcome.
    pub(crate) waiting: usize,
    /// IDs that are in use or rest.
    pub(crate) ids: usize,
    pub(crate) kind: Kind,
}

pub(crate) enum Kind {
    Udp(Socket),
    Tcp(Box<Connection>),
}

impl Lane {
    pub(crate) fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.kind {
            Kind::Tcp(connection) => Some(connection),
            Kind::Udp(_) => None,
        }
    }
}

/// What sockets are like, and how many there may be.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) dial: Dial,
    pub(crate) sockets_max: usize,
}

pub(crate) struct Lanes {
    plan: Plan,
    all: Slab<Lane>,
    by_key: HashMap<Key, usize>,
    /// From the one that was not used for longest.
    order: BTreeMap<u64, usize>,
    uses: u64,
    serials: u64,
    /// UDP sockets that were opened.
    pub(crate) opened: u64,
    /// How often a UDP socket was given to another source.
    pub(crate) reused: u64,
    /// How many connections gave way to others.
    pub(crate) closed: u64,
}

/// Where a message goes.
pub(crate) enum Found {
    /// To the socket that is there.
    Lane(usize),
    /// To one that has to be opened, after the one that is given here, which has nothing in flight, was closed.
    New(Option<usize>),
    /// There is none: all are in use.
    None,
}

impl Lanes {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            all: Slab::new(),
            by_key: HashMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            serials: 0,
            opened: 0,
            reused: 0,
            closed: 0,
        }
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Lane> {
        self.all.get(at)
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut Lane> {
        self.all.get_mut(at)
    }

    /// The lane at `at`, if it is still the one with this number.
    pub(crate) fn same(&mut self, at: usize, serial: u64) -> Option<&mut Lane> {
        self.all.get_mut(at).filter(|lane| lane.serial == serial)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Lane)> {
        self.all.iter()
    }

    /// Some of the sockets that were not used for longest, the oldest first.
    fn oldest(&self) -> impl Iterator<Item = (usize, &Lane)> {
        self.behind(0).map(|(_, at, lane)| (at, lane))
    }

    /// Some of the sockets that were used later than the one at this place in the order of all uses, with their places.
    pub(crate) fn behind(&self, place: u64) -> impl Iterator<Item = (u64, usize, &Lane)> {
        let some = self.order.range((Bound::Excluded(place), Bound::Unbounded)).take(TRIES);
        some.filter_map(|(place, at)| Some((*place, *at, self.all.get(*at)?)))
    }

    /// The lane of `key`, without any change.
    pub(crate) fn known(&self, key: &Key) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    /// Where a message of `key`, whose local address is `local`, goes.
    pub(crate) fn find(&mut self, key: Key, local: Option<IpAddr>) -> Found {
        if let Some(at) = self.known(&key) {
            self.touch(at);
            return Found::Lane(at);
        }
        if self.all.len() < self.plan.sockets_max {
            return Found::New(None);
        }
        let fits = |lane: &Lane| {
            matches!(lane.kind, Kind::Udp(_)) && key.server.is_none() && lane.local == local
        };
        let idle = self.oldest().find(|(_, lane)| fits(lane) && lane.waiting == 0);
        // Better two sources on one socket than a query that is not sent.
        if let Some((at, _)) = idle.or_else(|| self.oldest().find(|(_, lane)| fits(lane))) {
            self.give(at, key);
            return Found::Lane(at);
        }
        let idle = self.oldest().find(|(_, lane)| lane.waiting == 0);
        let Some((at, is_udp)) = idle.map(|(at, lane)| (at, matches!(lane.kind, Kind::Udp(_))))
        else {
            return Found::None;
        };
        *(if is_udp { &mut self.reused } else { &mut self.closed }) += 1;
        Found::New(Some(at))
    }

    /// Gives a UDP socket to another source. What it was asked before is still matched by its ID.
    fn give(&mut self, at: usize, key: Key) {
        self.reused += 1;
        if let Some(lane) = self.all.get_mut(at) {
            self.by_key.remove(&lane.key);
            lane.key = key;
        }
        self.by_key.insert(key, at);
        self.touch(at);
    }

    fn touch(&mut self, at: usize) {
        let Some(lane) = self.all.get_mut(at) else { return };
        self.order.remove(&lane.used_at);
        self.uses += 1;
        lane.used_at = self.uses;
        self.order.insert(self.uses, at);
    }

    /// Opens a socket for `key`.
    pub(crate) fn open(
        &mut self,
        key: Key,
        local: Option<IpAddr>,
        (now, round): (u64, u64),
    ) -> io::Result<usize> {
        let kind = match key.server {
            None => Kind::Udp(datagrams(self.plan.dial.target, local)?),
            Some(_) => Kind::Tcp(Box::new(Connection::dial(&self.plan.dial, local, now, round)?)),
        };
        self.opened += u64::from(key.server.is_none());
        self.serials += 1;
        let (serial, used_at) = (self.serials, 0);
        let at = self.all.insert(Lane { key, serial, local, used_at, waiting: 0, ids: 0, kind });
        self.by_key.insert(key, at);
        self.touch(at);
        Ok(at)
    }

    /// Takes a socket away; it is closed with what is returned.
    pub(crate) fn remove(&mut self, at: usize) -> Option<Lane> {
        let lane = self.all.try_remove(at)?;
        self.order.remove(&lane.used_at);
        if self.by_key.get(&lane.key) == Some(&at) {
            self.by_key.remove(&lane.key);
        }
        Some(lane)
    }

    /// Notes that the machine has no more sockets than there are; false if there is none at all.
    pub(crate) fn is_full(&mut self, error: &io::Error) -> bool {
        let short = error.kind() == ErrorKind::AddrNotAvailable
            || error.kind() == ErrorKind::AddrInUse
            || error.kind() == ErrorKind::WouldBlock
            // ENFILE and EMFILE have no kind of their own.
            || matches!(error.raw_os_error(), Some(23 | 24));
        let is_full = short && !self.all.is_empty();
        if is_full {
            self.plan.sockets_max = self.all.len();
        }
        is_full
    }

    /// Sockets that there may be.
    pub(crate) fn sockets_max(&self) -> usize {
        self.plan.sockets_max
    }
}

fn datagrams(target: SocketAddr, local: Option<IpAddr>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(target), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.set_nonblocking(true)?;
    lab_sys::socket::queue_errors(socket.as_fd(), target.is_ipv6())?;
    if let Some(local) = local {
        socket.bind(&SocketAddr::new(local, 0).into())?;
    }
    socket.connect(&target.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(client: u8) -> Key {
        Key { client: SocketAddr::from(([10, 0, 0, client], 4_000)), server: None }
    }

    fn lanes(sockets_max: usize) -> Lanes {
        let dial = Dial { target: "127.0.0.1:9".parse().unwrap(), tls: None };
        Lanes::new(Plan { dial, sockets_max })
    }

    fn take(lanes: &mut Lanes, key: Key, local: Option<IpAddr>) -> usize {
        match lanes.find(key, local) {
            Found::Lane(at) => at,
            Found::New(close) => {
                close.into_iter().for_each(|at| drop(lanes.remove(at)));
                lanes.open(key, local, (0, 0)).unwrap()
            }
            Found::None => panic!("no socket"),
        }
    }

    #[test]
    fn the_socket_that_was_idle_for_longest_gets_another_source() {
        let mut lanes = lanes(2);
        let (one, two) = (take(&mut lanes, key(1), None), take(&mut lanes, key(2), None));
        assert_ne!(one, two);
        assert_eq!(take(&mut lanes, key(1), None), one);
        assert_eq!(take(&mut lanes, key(3), None), two, "1 was used later");
        assert_eq!((lanes.opened, lanes.reused), (2, 1));
        // With a query in flight it is taken only if there is no other.
        lanes.get_mut(one).unwrap().waiting = 1;
        assert_eq!(take(&mut lanes, key(4), None), two);
        lanes.get_mut(two).unwrap().waiting = 1;
        assert_eq!(take(&mut lanes, key(5), None), one);
        assert_eq!(take(&mut lanes, key(2), None), two, "its first source is forgotten");
    }

    #[test]
    fn a_socket_of_another_address_is_closed_if_nothing_is_in_flight() {
        let mut lanes = lanes(1);
        let [first, second] = ["127.0.0.2", "127.0.0.3"].map(|ip| Some(ip.parse().unwrap()));
        let at = take(&mut lanes, key(1), first);
        let serial = lanes.get(at).unwrap().serial;
        let at = take(&mut lanes, key(2), second);
        assert_ne!(lanes.get(at).unwrap().serial, serial);
        assert!(lanes.same(at, serial).is_none());
        lanes.get_mut(at).unwrap().waiting = 1;
        assert!(matches!(lanes.find(key(3), first), Found::None));
        assert_eq!((lanes.opened, lanes.reused, lanes.closed), (2, 1, 0));
    }
}
