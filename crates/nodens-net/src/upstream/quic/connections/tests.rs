use super::*;
use crate::counters::Counters;
use crate::limits::{QUIC_WAITING_EVENTS, UPSTREAM_SPREAD};
use crate::poll::Poll;
use nodens_core::log::Sink;
use nodens_core::testing::request;
use nodens_core::upstream::{Key as Identity, Peer, Settings};
use nodens_core::worker::{Ticket, Worker};
use nodens_core::{ListenerKind, Now, Shared, build, config::BuildOptions};
use nodens_testkit::PATIENCE;
use nodens_tls::{Client, ClientFiles, Protocol};
use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

const UPSTREAMS: usize = 5;

/// What a server would send next in a handshake, as far as somebody without keys can tell: to the connection
/// that `first` began.
fn next_packet(first: &[u8]) -> Vec<u8> {
    let at = 6 + usize::from(first[5]);
    let own = &first[at + 1..at + 1 + usize::from(first[at])];
    let head = [&[0xe0, 0, 0, 0, 1, own.len() as u8], own, &[0, 0x44, 0]].concat();
    [head, vec![7; 1024]].concat()
}

/// Connections, and what they need.
struct Asking {
    connections: Connections,
    places: Places,
    poll: Poll,
    worker: Worker,
    counters: Counters,
    random: Random,
    shared: Arc<Shared>,
    client: Arc<Client>,
}

impl Asking {
    fn new() -> Self {
        let shared = Arc::new(Shared::new(1, Sink::new(std::sync::mpsc::sync_channel(100).0)));
        let tree = nodens_corefile::parse("", ".:0 {}", &nodens_corefile::NoSources);
        let config = build(&tree.unwrap(), &BuildOptions::default(), &shared).unwrap();
        Self {
            connections: Connections::new(),
            places: Places::default(),
            poll: Poll::new().unwrap(),
            worker: Worker::new(0, shared.clone(), Arc::new(config), 0),
            counters: Counters::new(&shared, 0),
            random: Random::new(),
            shared,
            client: Arc::new(Client::load(ClientFiles::default()).unwrap()),
        }
    }

    fn with<T>(
        &mut self,
        act: impl FnOnce(&mut Connections, &mut Places, &mut Context<'_>) -> T,
    ) -> T {
        let (now, worker) = (Now::default(), &mut self.worker);
        let mut cx = Context { now, poll: &self.poll, worker, counters: &self.counters };
        act(&mut self.connections, &mut self.places, &mut cx)
    }

    /// Asks the server at this socket; gives the number of the upstream.
    fn put(&mut self, number: u32, server: &UdpSocket) -> Arc<Upstream> {
        let address = server.local_addr().unwrap();
        let peer = Peer::new(self.client.clone(), address.ip().into(), Protocol::Doq);
        let (kind, tls, settings) = (ListenerKind::Quic, Some(Arc::new(peer)), Settings::default());
        let key = Identity { address, kind, source: None, tls, settings };
        let upstream = self.shared.upstreams.get(key, &self.shared.registry);
        let (ticket, carrier) = (Ticket::default(), Carrier::Quic);
        let ask =
            Ask { ticket, attempt: number, upstream: upstream.clone(), carrier, elsewhere: false };
        let mut message = request("example.org A");
        let waiting = Waiting::new(&ask, &message, Now::default(), Vec::new()).unwrap();
        let mut random = std::mem::replace(&mut self.random, Random::new());
        self.with(|connections, places, cx| {
            connections.ask(&ask, &mut message, waiting, &mut random, cx).unwrap();
            connections.flush(places, cx);
        });
        upstream
    }

    /// The same; gives the first packet of the handshake.
    fn ask(&mut self, number: u32, server: &UdpSocket) -> (Vec<u8>, SocketAddr) {
        self.put(number, server);
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut buffer = [0; 2000];
        let (len, from) = server.recv_from(&mut buffer).unwrap();
        (buffer[..len].to_vec(), from)
    }

    /// Takes what has arrived until so many handshakes wait for their turn.
    fn take_until(&mut self, handshakes: usize) {
        let until = Instant::now() + PATIENCE;
        while self.connections.handshakes.len() < handshakes && Instant::now() < until {
            for index in 0..self.poll.wait(Some(10_000_000)) {
                let Some(ready) = self.poll.ready(index) else { continue };
                self.with(|connections, places, cx| {
                    connections.ready(ready.key, cx);
                    connections.flush(places, cx);
                });
            }
        }
        assert_eq!(self.connections.handshakes.len(), handshakes);
    }
}

/// Whatever has arrived, each turn is one step, so that queries wait for no more than that.
#[test]
fn a_turn_is_one_step_of_one_handshake_over_quic() {
    let mut asking = Asking::new();
    for number in 0..UPSTREAMS {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (first, from) = asking.ask(number as u32, &server);
        for _ in 0..3 {
            server.send_to(&next_packet(&first), from).unwrap();
        }
    }
    asking.take_until(UPSTREAMS);
    for left in (0..UPSTREAMS).rev() {
        assert!(asking.connections.has_handshakes());
        asking.with(|connections, _, _| connections.take_handshake());
        assert_eq!(asking.connections.handshakes.len(), left);
    }
    assert!(!asking.connections.has_handshakes());
    // None of it was from who has the keys.
    assert_eq!(asking.connections.open.len(), UPSTREAMS);
}

#[test]
fn what_waits_for_its_turn_is_bounded() {
    let mut asking = Asking::new();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (first, from) = asking.ask(0, &server);
    for _ in 0..4 * QUIC_WAITING_EVENTS {
        server.send_to(&next_packet(&first), from).unwrap();
    }
    asking.take_until(1);
    // All of it has arrived once this has.
    let until = Instant::now() + PATIENCE;
    while asking.poll.wait(Some(1_000_000)) > 0 && Instant::now() < until {
        let key = asking.poll.ready(0).unwrap().key;
        asking.with(|connections, _, cx| connections.ready(key, cx));
    }
    let key = asking.connections.open.keys(|_| true)[0];
    let waiting = asking.connections.open.get(key).unwrap().waiting_events();
    assert_eq!((waiting, asking.connections.handshakes.len()), (QUIC_WAITING_EVENTS, 1));
}

#[test]
fn a_busy_connection_takes_more_while_no_other_may_be_opened() {
    let mut asking = Asking::new();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut number = 0..;
    let mut put = |asking: &mut Asking| asking.put(number.next().unwrap(), &server);
    let upstream = (0..UPSTREAM_SPREAD).map(|_| put(&mut asking)).last().unwrap();
    asking.connections.manners.handshake_failed(upstream.id, "no", Now::default());
    put(&mut asking);
    assert_eq!(asking.connections.open.len(), 1);
    asking.connections.manners.made(&upstream, Now::default());
    put(&mut asking);
    assert_eq!(asking.connections.open.len(), 2);
}
