//! Responses that had to be waited for go back the way their queries came.

use super::EventLoop;
use nodens_core::{Client, Now, Stream, Transport};

impl EventLoop {
    /// An answer goes back the way its query came.
    pub(super) fn deliver(&mut self, client: &Client, wire: Vec<u8>, now: Now) {
        match client.transport {
            Transport::Udp => {
                return self.udp.send(client, wire, (&mut self.worker, &self.counters));
            }
            Transport::Quic | Transport::Https3 => {
                self.quic(now, |quic, cx| quic.send(client, &wire, cx))
            }
            Transport::Tcp | Transport::Tls | Transport::Https | Transport::Grpc => {
                if !self.tcp.send(client, &wire, now) {
                    self.counters.add(self.counters.greedy, 1);
                }
            }
        }
        self.worker.reuse(wire);
    }

    pub(super) fn begin_stream(
        &mut self,
        client: &Client,
        wire: Vec<u8>,
        rest: Box<Stream>,
        now: Now,
    ) {
        match client.transport {
            // A datagram holds one message, and so does a response of HTTP; what answers in several refuses
            // before that.
            Transport::Udp | Transport::Https3 => return self.deliver(client, wire, now),
            Transport::Quic => {
                self.quic(now, |quic, _| quic.begin_stream(client, (&wire, rest), now));
            }
            Transport::Tcp | Transport::Tls | Transport::Https | Transport::Grpc => {
                self.tcp.begin_stream(client, (&wire, rest), now);
            }
        }
        self.worker.reuse(wire);
    }

    pub(super) fn silence(&mut self, client: &Client, now: Now) {
        match client.transport {
            Transport::Udp => self.udp.forget(client),
            Transport::Quic | Transport::Https3 => {
                self.quic(now, |quic, cx| quic.forget(client, cx))
            }
            Transport::Tcp | Transport::Tls | Transport::Https | Transport::Grpc => {
                self.tcp.forget(client, now);
            }
        }
    }
}
