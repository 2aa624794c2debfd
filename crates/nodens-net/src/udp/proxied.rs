//! Datagrams that a proxy sends for its clients, and the way back by that proxy.

use crate::counters::Counters;
use crate::slots::{Key, Slots};
use nodens_core::proxy::{Enveloped, ProxyRules};
use nodens_core::{Client, Now, Verdict, Worker};
use std::net::SocketAddr;

/// Set in [`Client::connection`] where that names a detour, not a socket. No key has this bit.
const DETOUR: u64 = 1 << 63;

/// The answers that are waited for and go to a proxy.
#[derive(Debug, Default)]
pub(super) struct Detours(Slots<Detour>);

#[derive(Debug)]
struct Detour {
    socket: Key,
    proxy: SocketAddr,
}

impl Detours {
    /// The socket by which the answer for `client` leaves, and where it goes. Each is asked for once.
    pub(super) fn take(&mut self, client: &Client) -> Option<(Key, SocketAddr)> {
        let key = Key::from_bits(client.connection);
        if client.connection & DETOUR == 0 {
            return Some((key, client.peer));
        }
        self.0.remove(key).map(|detour| (detour.socket, detour.proxy))
    }
}

/// What it takes to receive by a proxy.
pub(super) struct Way<'w> {
    pub(super) rules: &'w ProxyRules,
    pub(super) detours: &'w mut Detours,
    pub(super) worker: &'w mut Worker,
    pub(super) counters: &'w Counters,
}

impl Way<'_> {
    /// Takes the header off a datagram and hands on what is in it, as of the client that the header
    /// names.
    pub(super) fn receive(
        &mut self,
        now: Now,
        mut client: Client,
        octets: &[u8],
        answer: &mut Vec<u8>,
    ) -> Verdict {
        let proxy = client.peer;
        let (message, proxied) = match self.rules.unwrap(now.mono_ns, proxy, octets) {
            Ok(Enveloped::Message(message, proxied)) => (message, proxied),
            Ok(Enveloped::Announcement) => return Verdict::Silent,
            Err(refusal) => {
                self.counters.add(self.counters.datagrams_misproxied, 1);
                self.worker.note_refusal(now, proxy, refusal);
                return Verdict::Silent;
            }
        };
        let Some((source, _)) = proxied.addresses else {
            return self.worker.receive(now, client, message, answer);
        };
        // The address asked stays the proxy's: the answer leaves from it.
        let socket = Key::from_bits(client.connection);
        let detour = self.detours.0.insert(Detour { socket, proxy });
        (client.peer, client.connection) = (source, detour.bits() | DETOUR);
        self.worker.announce(proxied.tlvs.as_ref());
        let verdict = self.worker.receive(now, client, message, answer);
        self.worker.announce(None);
        if verdict != Verdict::Pending {
            self.detours.0.remove(detour);
        }
        verdict
    }
}
