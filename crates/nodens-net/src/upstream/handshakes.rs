//! Handshakes with upstreams take turns: each step costs as much as hundreds of hits, which go first.

use super::Places;
use super::streams::Streams;
use crate::context::Context;
use crate::slots::Key;
use nodens_core::upstream::Fault;

impl Streams {
    /// Whether what has arrived on a connection has to wait for its turn: it belongs to a handshake.
    pub(super) fn puts_off(&mut self, key: Key) -> bool {
        let Some(stream) = self.open.get_mut(key) else { return false };
        let waits = !stream.connected;
        if waits && !stream.in_turn {
            stream.in_turn = true;
            self.handshakes.push_back(key);
        }
        waits
    }

    /// Notes that a connection is made, if it is.
    pub(super) fn note_handshake(&mut self, key: Key, places: &mut Places, cx: &mut Context<'_>) {
        let Some(stream) = self.open.get_mut(key) else { return };
        if !stream.is_handshake_over() {
            return;
        }
        if let Some(text) = stream.mismatch() {
            return self.fail_closed(key, &Fault::Connect(text), places, cx);
        }
        stream.note_handshake(cx);
        if stream.is_made() {
            self.manners.made(&stream.upstream, cx.now);
        }
    }

    /// Whether [`Streams::take_handshake`] has something to do now.
    pub(super) fn has_handshakes(&self) -> bool {
        !self.handshakes.is_empty()
    }

    /// Goes on with the handshake whose turn it is by one step. A connection that has closed was no turn.
    pub(super) fn take_handshake(
        &mut self,
        places: &mut Places,
        scratch: &mut [u8],
        cx: &mut Context<'_>,
    ) {
        while let Some(key) = self.handshakes.pop_front() {
            let Some(stream) = self.open.get_mut(key) else { continue };
            stream.in_turn = false;
            self.read(key, places, scratch, cx);
            self.note_handshake(key, places, cx);
            self.mark(key);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;
    use crate::poll::Poll;
    use crate::random::Random;
    use crate::upstream::waiting::Waiting;
    use nodens_core::log::Sink;
    use nodens_core::testing::request;
    use nodens_core::upstream::{Ask, Carrier, Key as Identity, Peer, Settings};
    use nodens_core::worker::{Ticket, Worker};
    use nodens_core::{ListenerKind, Now, Shared, build, config::BuildOptions};
    use nodens_tls::{Client, ClientFiles, Protocol};
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    const UPSTREAMS: usize = 5;

    /// Whatever has arrived, each turn is one step, so that queries wait for no more than that.
    #[test]
    fn a_turn_is_one_step_of_one_handshake() {
        let shared = Arc::new(Shared::new(1, Sink::new(std::sync::mpsc::sync_channel(100).0)));
        let tree = nodens_corefile::parse("", ".:0 {}", &nodens_corefile::NoSources);
        let config = build(&tree.unwrap(), &BuildOptions::default(), &shared).unwrap();
        let mut worker = Worker::new(0, shared.clone(), Arc::new(config), 0);
        let (mut poll, counters) = (Poll::new().unwrap(), Counters::new(&shared, 0));
        let mut random = Random::new();
        let (mut streams, mut places) = (Streams::default(), Places::default());
        let client = Arc::new(Client::load(ClientFiles::default()).unwrap());
        // Each answers the first octets with an alert, which ends its connection with the step that reads it.
        let listeners: Vec<_> = (0..UPSTREAMS)
            .map(|number| {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let address = listener.local_addr().unwrap();
                let peer = Arc::new(Peer::new(client.clone(), address.ip().into(), Protocol::Dot));
                let settings = Settings::default();
                let kind = ListenerKind::Tls;
                let key = Identity { address, kind, source: None, tls: Some(peer), settings };
                let upstream = shared.upstreams.get(key, &shared.registry);
                let ticket = Ticket::default();
                let (attempt, carrier) = (number as u32, Carrier::Tls);
                let ask = Ask { ticket, attempt, upstream, carrier, elsewhere: false };
                let mut message = request("example.org A");
                let waiting = Waiting::new(&ask, &message, Now::default(), Vec::new()).unwrap();
                let (now, worker, counters) = (Now::default(), &mut worker, &counters);
                let mut cx = Context { now, poll: &poll, worker, counters };
                streams.ask(&ask, &mut message, waiting, &mut random, &mut cx).unwrap();
                listener
            })
            .collect();
        let refusing = std::thread::spawn(move || {
            listeners
                .into_iter()
                .map(|listener| {
                    let (mut stream, _) = listener.accept().unwrap();
                    _ = stream.read(&mut [0; 4096]).unwrap();
                    stream.write_all(b"\x15\x03\x03\x00\x02\x02\x28").unwrap();
                    stream
                })
                .collect::<Vec<_>>()
        });
        let mut scratch = vec![0; 1 << 16];
        let until = Instant::now() + Duration::from_secs(10);
        while streams.handshakes.len() < UPSTREAMS && Instant::now() < until {
            for index in 0..poll.wait(Some(10_000_000)) {
                let Some(ready) = poll.ready(index) else { continue };
                let (now, worker, counters) = (Now::default(), &mut worker, &counters);
                let mut cx = Context { now, poll: &poll, worker, counters };
                streams.ready(ready, &mut places, &mut scratch, &mut cx);
                streams.flush(&mut places, &mut cx);
            }
            assert_eq!(streams.open.len(), UPSTREAMS);
        }
        for left in (0..UPSTREAMS).rev() {
            assert!(streams.has_handshakes());
            let (now, worker, counters) = (Now::default(), &mut worker, &counters);
            let mut cx = Context { now, poll: &poll, worker, counters };
            streams.take_handshake(&mut places, &mut scratch, &mut cx);
            assert_eq!(streams.open.len(), left);
        }
        assert!(!streams.has_handshakes());
        drop(refusing.join().unwrap());
    }
}
