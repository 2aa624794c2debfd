//! Questions and answers in datagrams.

mod proxied;

use crate::clock::{self, Translator};
use crate::counters::Counters;
use crate::limits::{ANSWER_BUFFER_LEN, BATCH, BATCHES_IN_A_ROW};
use crate::slots::{Key, Slots};
use crate::sys::{self, Batch, Outgoing, Sender};
use crate::tcp::Endpoint;
use nodens_core::metrics::Counter;
use nodens_core::proxy::ProxyRules;
use nodens_core::{Client, Now, Transport, Verdict, Worker};
use proxied::{Detours, Way};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The port of the discard service (RFC 863).
const DISCARD: u16 = 9;

/// What a worker is told of at once is fetched as a whole.
const _: () = assert!(BATCH <= nodens_core::limits::FETCHED_AT_ONCE);

/// The UDP sockets of one worker.
pub(crate) struct UdpServer {
    sockets: Slots<Socket>,
    batch: Batch,
    translator: Translator,
    /// The answer to each datagram of the batch. The worker swaps its buffer with ours, so that
    /// buffers go round and none is allocated.
    answers: Vec<Vec<u8>>,
    /// Which datagrams of the batch have an answer.
    answered: Vec<usize>,
    /// Answers that had to be waited for, all of `queued_at`.
    queue: Vec<Outgoing>,
    /// The socket they go out by.
    queued_at: Option<Key>,
    sender: Sender,
    /// Which proxies the answers go to that are waited for.
    detours: Detours,
}

struct Socket {
    socket: Arc<OwnedFd>,
    /// The worker it is borrowed from.
    of: Option<usize>,
    /// The listener, as the control thread numbers them for good.
    endpoint: u32,
    /// The listener's place in the configuration at work.
    listener: u16,
    /// Counts responses that the kernel does not take, if the server wants to know.
    untaken: Option<Counter>,
    /// Whom it believes to be a proxy, if it expects any.
    proxy: Option<Arc<ProxyRules>>,
    bound: SocketAddr,
    /// Datagrams the kernel had dropped when it was last asked; wraps.
    dropped: u32,
    /// When it was last found empty: whatever is in it now arrived later.
    emptied_ns: u64,
    /// Questions that wait for their answer.
    waiting: usize,
    /// Set when the listener is gone: the socket only sends what is still waited for.
    retired: bool,
}

impl Socket {
    /// Whether it is an IPv6 socket that serves IPv4 too.
    fn mapped(&self) -> bool {
        self.bound.is_ipv6()
    }

    /// Takes what has arrived; how many datagrams that is.
    fn receive(&self, batch: &mut Batch) -> usize {
        // An error is an ICMP message to an earlier answer: there is nothing to do about that.
        batch.receive(&*self.socket, self.bound.ip().is_unspecified()).unwrap_or(0)
    }

    /// Lets the worker see what is coming, unless it stands behind headers that have to be read first.
    fn announce(&self, batch: &Batch, worker: &Worker) {
        if self.proxy.is_none() {
            worker.expect(self.listener, batch.requests());
        }
    }

    /// So many answers were not taken by the kernel.
    fn count_lost(&self, count: u64, worker: &Worker, counters: &Counters) {
        if count > 0 {
            counters.add(counters.answers_lost, count);
            _ = self.untaken.map(|untaken| worker.cells().add(untaken, count));
        }
    }
}

impl UdpServer {
    pub(crate) fn new() -> Self {
        Self {
            sockets: Slots::default(),
            batch: Batch::new(),
            translator: Translator::default(),
            answers: (0..BATCH).map(|_| Vec::with_capacity(512)).collect(),
            answered: Vec::with_capacity(BATCH),
            queue: Vec::with_capacity(BATCH),
            queued_at: None,
            sender: Sender::new(),
            detours: Detours::default(),
        }
    }

    /// Adds a socket of a listener; `of` is the worker that it is borrowed from.
    pub(crate) fn add(
        &mut self,
        socket: Arc<OwnedFd>,
        endpoint: Endpoint,
        bound: SocketAddr,
        of: Option<usize>,
    ) -> Key {
        self.sockets.insert(Socket {
            socket,
            of,
            endpoint: endpoint.id,
            listener: endpoint.listener,
            untaken: endpoint.untaken,
            proxy: endpoint.proxy,
            bound,
            dropped: 0,
            emptied_ns: 0,
            waiting: 0,
            retired: false,
        })
    }

    pub(crate) fn socket(&self, key: Key) -> Option<&OwnedFd> {
        self.sockets.get(key).map(|socket| &*socket.socket)
    }

    /// Whether it takes questions from this socket.
    pub(crate) fn has(&self, wanted: &Arc<OwnedFd>) -> bool {
        self.sockets.iter().any(|(_, own)| !own.retired && Arc::ptr_eq(&own.socket, wanted))
    }

    /// The sockets that take questions and are borrowed from this worker.
    pub(crate) fn borrowed(&self, worker: usize) -> Vec<Key> {
        self.sockets.keys(|socket| !socket.retired && socket.of == Some(worker))
    }

    /// Gives each socket what its listener has in the configuration at work.
    pub(crate) fn configure(&mut self, of: impl Fn(u32) -> Option<Endpoint>) {
        for (_, socket) in self.sockets.iter_mut() {
            let endpoint = of(socket.endpoint);
            socket.listener = endpoint.as_ref().map_or(u16::MAX, |endpoint| endpoint.listener);
            socket.untaken = endpoint.as_ref().and_then(|endpoint| endpoint.untaken);
            socket.proxy = endpoint.and_then(|endpoint| endpoint.proxy);
        }
    }

    /// The sockets whose listener has no place in a new configuration.
    pub(crate) fn gone(&self, place: impl Fn(u32) -> Option<u16>) -> Vec<Key> {
        self.sockets.keys(|socket| !socket.retired && place(socket.endpoint).is_none())
    }

    /// Takes no more questions from this socket; it closes once nobody waits for it.
    pub(crate) fn retire(&mut self, key: Key) {
        if let Some(socket) = self.sockets.get_mut(key) {
            socket.retired = true;
            if socket.waiting == 0 {
                self.sockets.remove(key);
            }
        }
    }

    /// Answers what has arrived on one socket, in batches; a lone question at once.
    pub(crate) fn receive(&mut self, key: Key, now: Now, worker: &mut Worker, counters: &Counters) {
        for round in 0..BATCHES_IN_A_ROW {
            let full = self.receive_batch(key, now, worker, counters) == BATCH;
            if full && round == 0 {
                // Only a socket that gets more than one batch at a time can overflow.
                self.count_drops(key, counters);
            }
            if !full {
                return;
            }
        }
    }

    fn count_drops(&mut self, key: Key, counters: &Counters) {
        let Some(socket) = self.sockets.get_mut(key) else { return };
        if let Some(dropped) = sys::dropped(&socket.socket) {
            let new = dropped.wrapping_sub(socket.dropped);
            counters.add(counters.overflowed, u64::from(new));
            socket.dropped = dropped;
        }
    }

    /// Makes the kernel pass the datagrams of others to the other sockets of the address: it is
    /// connected to an address that asks nothing, which does not keep it from sending anywhere.
    pub(crate) fn turn_away(&self, key: Key) {
        let Some(socket) = self.sockets.get(key) else { return };
        let ip = match socket.bound.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        // Where it fails, questions may be lost while the last answers are waited for.
        _ = rustix::net::connect(&socket.socket, &SocketAddr::new(ip, DISCARD));
    }

    /// Answers everything that has arrived so far, for a socket that is about to be retired.
    pub(crate) fn drain(&mut self, key: Key, now: Now, worker: &mut Worker, counters: &Counters) {
        // As many as a receive buffer of the size asked for can hold, at most.
        for _ in 0..crate::limits::RECEIVE_BUFFER / (BATCH * 512) {
            if self.receive_batch(key, now, worker, counters) == 0 {
                return;
            }
        }
    }

    fn receive_batch(
        &mut self,
        key: Key,
        now: Now,
        worker: &mut Worker,
        counters: &Counters,
    ) -> usize {
        let Some(socket) = self.sockets.get_mut(key) else { return 0 };
        let count = socket.receive(&mut self.batch);
        self.answered.clear();
        if let Some(date_ns) = self.batch.stamp() {
            // No earlier than it can have been, should the date have been set meanwhile.
            let arrived_ns = self.translator.mono_ns(date_ns, now).max(socket.emptied_ns);
            worker.arrived(arrived_ns);
            counters.observe(counters.batch_delay, now.mono_ns.saturating_sub(arrived_ns));
        }
        if count < BATCH {
            socket.emptied_ns = now.mono_ns;
        }
        socket.announce(&self.batch, worker);
        for (index, answer) in self.answers.iter_mut().enumerate().take(count) {
            let Some(datagram) = self.batch.datagram(index) else { break };
            let Some(peer) = datagram.peer.filter(|peer| peer.port() != 0 && !datagram.cut) else {
                counters.add(counters.datagrams_refused, 1);
                continue;
            };
            let local =
                datagram.local.map_or(socket.bound, |ip| SocketAddr::new(ip, socket.bound.port()));
            let client = Client {
                peer,
                local,
                transport: Transport::Udp,
                listener: socket.listener,
                connection: key.bits(),
                stream: 0,
                old_tls: false,
            };
            let verdict = match &socket.proxy {
                None => worker.receive(now, client, datagram.octets, answer),
                Some(rules) => {
                    let detours = &mut self.detours;
                    let mut way = Way { rules, detours, worker: &mut *worker, counters };
                    way.receive(now, client, datagram.octets, answer)
                }
            };
            match verdict {
                Verdict::Answered => self.answered.push(index),
                Verdict::Streaming => {
                    // A datagram holds one message; what answers in several refuses before that.
                    drop(worker.take_stream());
                    self.answered.push(index);
                }
                Verdict::Pending => socket.waiting += 1,
                Verdict::Silent => {}
            }
        }
        if !self.answered.is_empty() {
            let lost = self.batch.answer(&socket.socket, &self.answers, &self.answered);
            socket.count_lost(lost as u64, worker, counters);
            // A long answer that was cut has left its buffer long.
            for answer in self.answers.iter_mut().take(count) {
                if answer.capacity() > ANSWER_BUFFER_LEN {
                    *answer = Vec::with_capacity(512);
                }
            }
        }
        worker.sent(if worker.has_unsent() { clock::mono_ns() } else { now.mono_ns });
        count
    }

    /// Takes an answer that had to be waited for; it goes out with the others of the round.
    pub(crate) fn send(
        &mut self,
        client: &Client,
        wire: Vec<u8>,
        (worker, counters): (&mut Worker, &Counters),
    ) {
        let Some((key, peer)) = self.detours.take(client) else { return };
        if self.queued_at != Some(key) || self.queue.len() >= BATCH {
            self.flush(worker, counters);
        }
        let Some(socket) = self.sockets.get(key) else { return };
        let wild = socket.bound.ip().is_unspecified();
        let source = wild.then(|| client.local.ip());
        self.queued_at = Some(key);
        self.queue.push(Outgoing { wire, peer: Some(peer), source });
    }

    /// Sends the answers that have come together.
    pub(crate) fn flush(&mut self, worker: &mut Worker, counters: &Counters) {
        let Some(key) = self.queued_at.take() else { return };
        if let Some(socket) = self.sockets.get(key) {
            let lost = |_, _| socket.count_lost(1, worker, counters);
            self.sender.send_all(&socket.socket, &self.queue, socket.mapped(), lost);
        }
        self.settle(key, self.queue.len());
        self.queue.drain(..).for_each(|answer| worker.reuse(answer.wire));
    }

    /// A client that waited gets no answer.
    pub(crate) fn forget(&mut self, client: &Client) {
        if let Some((key, _)) = self.detours.take(client) {
            self.settle(key, 1);
        }
    }

    /// So many clients of a socket do not wait any more.
    fn settle(&mut self, key: Key, count: usize) {
        let Some(socket) = self.sockets.get_mut(key) else { return };
        socket.waiting = socket.waiting.saturating_sub(count);
        if socket.retired && socket.waiting == 0 {
            self.sockets.remove(key);
        }
    }

    /// Whether a socket is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.sockets.len() == 0
    }
}
