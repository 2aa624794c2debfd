//! Packets to send: those of a round leave together.

use super::server::QuicServer;
use crate::context::Context;
use crate::limits::BATCH;
use crate::slots::Key;
use crate::sys::Outgoing;
use quinn_proto::Transmit;

impl QuicServer {
    /// Puts the packets of a connection into the queue, and forgets it once it is over.
    pub(super) fn transmit(&mut self, key: Key, cx: &mut Context<'_>) {
        let at = self.instant(cx.now);
        loop {
            let mut packet = self.spare.pop().unwrap_or_default();
            let Some(connection) = self.connections.get_mut(key) else { return };
            let site = connection.site;
            match connection.quinn.poll_transmit(at, 1, &mut packet) {
                Some(transmit) => self.queue(site, &transmit, packet, cx),
                None => {
                    self.give_back(packet);
                    break;
                }
            }
        }
        let Some(connection) = self.connections.get_mut(key) else { return };
        let (site, handle) = (connection.site, connection.handle);
        let Some(site) = self.sites.get_mut(site) else { return };
        while let Some(event) = connection.quinn.poll_endpoint_events() {
            if let Some(event) = site.endpoint.handle_event(handle, event) {
                connection.quinn.handle_event(event);
            }
        }
        if connection.quinn.is_drained() {
            site.connections.remove(&handle);
            self.remove(key);
        }
    }

    /// Puts a packet into the queue.
    pub(super) fn queue(
        &mut self,
        site: Key,
        transmit: &Transmit,
        mut wire: Vec<u8>,
        cx: &mut Context<'_>,
    ) {
        wire.truncate(transmit.size);
        if self.queued_at != Some(site) || self.queue.len() >= BATCH {
            self.send_queue(cx);
        }
        self.queued_at = Some(site);
        let (peer, source) = (Some(transmit.destination), transmit.src_ip);
        self.queue.push(Outgoing { wire, peer, source });
    }

    pub(super) fn send_queue(&mut self, cx: &mut Context<'_>) {
        let Some(site) = self.queued_at.take().and_then(|key| self.sites.get(key)) else {
            return self.queue.clear();
        };
        if let Some(sender) = &mut self.sender {
            // What is lost here is sent again, as if it were lost on the way.
            let lost = |_, _| cx.counters.add(cx.counters.answers_lost, 1);
            sender.send_all(&site.socket, &self.queue, site.is_mapped(), lost);
        }
        let mut queue = std::mem::take(&mut self.queue);
        queue.drain(..).for_each(|packet| self.give_back(packet.wire));
        self.queue = queue;
    }

    pub(super) fn give_back(&mut self, mut packet: Vec<u8>) {
        if self.spare.len() < BATCH && packet.capacity() > 0 {
            packet.clear();
            self.spare.push(packet);
        }
    }
}
