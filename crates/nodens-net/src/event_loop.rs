//! The loop of one worker's thread: wait, let the worker decide, do what it wants.

use crate::clock;
use crate::context::Context;
use crate::counters::Counters;
use crate::listeners::Assigned;
use crate::poll::{Interest, Poll, Ready, Waker};
use crate::quic::{Books, QuicServer};
use crate::slots::{Key, Kind};
use crate::tcp::{Endpoint, HandedConnection, Leaving, Quota, TcpServer, Unsent};
use crate::udp::UdpServer;
use crate::upstream::Asker;
use crate::vitals::Vitals;
use nodens_core::{Action, Config, Now, Shared, Worker};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

mod responses;
mod sockets;

/// What the control thread tells a worker.
pub(crate) enum Command {
    /// Take up a configuration and its listeners; answer when it is done.
    Configure(Setup, SyncSender<()>),
    /// Take no more questions; end when those under way are answered, or at this time.
    Stop(u64),
    /// Leave what arrives where it is (`true`), or go on taking it; answer when it is done.
    Pause(bool, SyncSender<()>),
    /// As [`Command::Stop`], but what arrives at the listeners that go on elsewhere stays there,
    /// and so do their connections.
    Leave(u64, Leaving),
    /// Go on with a connection of another process, at the listener with this number.
    Adopt(HandedConnection, u32),
    /// Answer at sockets of this worker too, which is stuck.
    StandIn(usize, Vec<Assigned>),
    /// That worker has recovered, or another stands in for it.
    StandDown(usize),
}

/// A configuration and its listeners, for one worker.
pub(crate) struct Setup {
    pub(crate) config: Arc<Config>,
    /// The numbers for good of the configuration's listeners, in the same order: a listener that a
    /// reload does not touch keeps its own.
    pub(crate) listeners: Vec<u32>,
    /// Sockets that are new.
    pub(crate) sockets: Vec<Assigned>,
}

/// One worker and its sockets.
pub(crate) struct EventLoop {
    worker: Worker,
    poll: Poll,
    wakers: Arc<Vec<Waker>>,
    vitals: Arc<Vitals>,
    index: usize,
    commands: Receiver<Command>,
    counters: Counters,
    udp: UdpServer,
    tcp: TcpServer,
    quic: QuicServer,
    asker: Asker,
    actions: Vec<Action>,
    /// Once stopping: when to end at the latest.
    stop_at: Option<u64>,
    /// Whether sockets that listen are not listened to.
    pub(crate) paused: bool,
    /// Whose handshake goes on next where both wait.
    upstreams_turn: bool,
    /// Whether the next step of a handshake is one over QUIC, if there is any.
    quics_turn: bool,
}

impl EventLoop {
    pub(crate) fn new(
        index: usize,
        (shared, config): (Arc<Shared>, Arc<Config>),
        ports_max: usize,
        (wakers, vitals): (Arc<Vec<Waker>>, Arc<Vitals>),
        commands: Receiver<Command>,
        (quota, unsent, books): (Arc<Quota>, Arc<Unsent>, Arc<Books>),
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        vitals.waits_at(index, poll.descriptor());
        if let Some(waker) = wakers.get(index) {
            poll.add(waker, Kind::Wake, Key::ONLY, Interest::READ)?;
        }
        let counters = Counters::new(&shared, index);
        let mut asker = Asker::new(ports_max);
        let worker = Worker::new(index, shared, config, asker.seed());
        Ok(Self {
            worker,
            poll,
            wakers,
            vitals,
            index,
            commands,
            counters,
            udp: UdpServer::new(),
            quic: QuicServer::new(index, books, unsent.clone()),
            tcp: TcpServer::new(index, quota, unsent),
            asker,
            actions: Vec::new(),
            stop_at: None,
            paused: false,
            upstreams_turn: true,
            quics_turn: true,
        })
    }

    /// Runs until it is told to stop.
    pub(crate) fn run(&mut self) {
        let mut now = clock::now();
        while !self.is_done(now) {
            let has_turns = self.tcp.has_turns() || self.asker.has_turn() || self.quic.has_turns();
            let deadline = if has_turns { Some(0) } else { self.next_deadline() };
            let timeout = deadline.map(|at| at.saturating_sub(now.mono_ns));
            let count = self.poll.wait(timeout);
            now = clock::now();
            self.vitals.beat(self.index, now);
            for index in 0..count {
                if let Some(ready) = self.poll.ready(index) {
                    self.dispatch(ready, now);
                }
                if self.worker.has_much_to_send() {
                    self.act(now);
                }
            }
            self.tick(now);
            self.take_turns(now);
            self.act(now);
            self.relieve_others(now);
        }
    }

    /// Lets those go on for a moment who cost much: of handshakes one at a time, with upstreams, of clients
    /// and of those over QUIC by turns, so that none keeps the others waiting.
    fn take_turns(&mut self, now: Now) {
        let others = self.asker.has_turn() || self.tcp.has_handshakes();
        let over_quic = self.quic.has_turns() && (self.quics_turn || !others);
        self.quics_turn = !over_quic;
        if over_quic {
            self.quic(now, QuicServer::take_turns);
            return self.split(now, |tcp, _, cx| tcp.take_turns(false, cx));
        }
        let with_upstream =
            self.asker.has_turn() && (self.upstreams_turn || !self.tcp.has_handshakes());
        self.upstreams_turn = !with_upstream;
        self.split(now, |tcp, asker, cx| {
            if with_upstream {
                asker.take_turn(cx);
            }
            tcp.take_turns(!with_upstream, cx);
        });
    }

    /// Memory or places are short: connections of others may have to go for it.
    fn relieve_others(&mut self, now: Now) {
        if let Some(waker) = self.tcp.take_asked().and_then(|worker| self.wakers.get(worker)) {
            waker.wake();
        }
        let of_tcp = self.tcp.take_pressure(now);
        let of_quic = self.quic.take_pressure();
        if !of_tcp && !of_quic {
            return;
        }
        self.quic(now, QuicServer::close_doomed);
        if of_quic {
            self.split(now, |tcp, _, cx| tcp.relieve(cx));
        }
        self.wake_others();
    }

    fn wake_others(&self) {
        let others = self.wakers.iter().enumerate().filter(|(at, _)| *at != self.index);
        others.for_each(|(_, waker)| waker.wake());
    }

    fn dispatch(&mut self, ready: Ready, now: Now) {
        let key = ready.key;
        match ready.kind {
            Kind::UdpServer => self.udp.receive(key, now, &mut self.worker, &self.counters),
            Kind::QuicServer => self.quic(now, |quic, cx| quic.receive(key, cx)),
            Kind::TcpListener => self.split(now, |tcp, _, cx| _ = tcp.accept(key, cx)),
            Kind::TcpServer => self.split(now, |tcp, _, cx| tcp.ready(key, ready, cx)),
            Kind::UdpUpstream | Kind::TcpUpstream | Kind::QuicUpstream => {
                self.split(now, |_, asker, cx| asker.ready(ready, cx));
            }
            Kind::Wake => self.wake_up(now),
        }
    }

    /// Lends the parts to each other for one call.
    fn split(&mut self, now: Now, act: impl FnOnce(&mut TcpServer, &mut Asker, &mut Context<'_>)) {
        let (poll, worker, counters) = (&self.poll, &mut self.worker, &self.counters);
        let mut cx = Context { now, poll, worker, counters };
        act(&mut self.tcp, &mut self.asker, &mut cx);
    }

    /// The same for QUIC.
    fn quic(&mut self, now: Now, act: impl FnOnce(&mut QuicServer, &mut Context<'_>)) {
        let (poll, worker, counters) = (&self.poll, &mut self.worker, &self.counters);
        act(&mut self.quic, &mut Context { now, poll, worker, counters });
    }

    fn wake_up(&mut self, now: Now) {
        if let Some(waker) = self.wakers.get(self.index) {
            waker.reset();
        }
        self.worker.collect_mail(now);
        self.split(now, |tcp, _, cx| tcp.relieve(cx));
        self.quic(now, QuicServer::relieve);
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Configure(setup, done) => {
                    self.configure(setup, now);
                    // Nobody waits for it any more: no harm.
                    _ = done.try_send(());
                }
                Command::Stop(at) => {
                    self.stop(now);
                    self.stop_at = Some(at);
                }
                Command::Leave(at, leaving) => {
                    self.leave(leaving, now);
                    self.stop_at = Some(at);
                }
                Command::Adopt(handed, endpoint) => {
                    self.split(now, |tcp, _, cx| tcp.adopt(handed, endpoint, cx));
                }
                Command::StandIn(worker, sockets) => self.stand_in(worker, sockets),
                Command::StandDown(worker) => self.stand_down(worker, now),
                Command::Pause(paused, done) => {
                    self.pause(paused);
                    _ = done.try_send(());
                }
            }
        }
    }

    fn next_deadline(&self) -> Option<u64> {
        let deadlines = [
            self.worker.next_deadline(),
            self.tcp.next_deadline(),
            self.quic.next_deadline(),
            self.asker.next_deadline(),
            self.stop_at,
        ];
        deadlines.into_iter().flatten().min()
    }

    fn tick(&mut self, now: Now) {
        if self.worker.next_deadline().is_some_and(|at| at <= now.mono_ns) {
            self.worker.tick(now);
        }
        self.tcp.tick(now, &self.poll, &self.counters);
        self.quic(now, QuicServer::tick);
        self.split(now, |_, asker, cx| asker.tick(cx));
    }

    /// Does what the worker wants until it wants nothing, then sends what has come together.
    fn act(&mut self, now: Now) {
        loop {
            let mut actions = std::mem::take(&mut self.actions);
            self.worker.take_actions(&mut actions);
            for action in actions.drain(..) {
                self.perform(action, now);
            }
            self.actions = actions;
            self.split(now, |tcp, asker, cx| {
                tcp.flush(cx);
                asker.flush(cx);
            });
            self.quic(now, QuicServer::flush);
            self.worker.go_on(now);
            if !self.worker.has_actions() {
                break;
            }
        }
        self.udp.flush(&mut self.worker, &self.counters);
        if self.worker.has_unsent() {
            self.worker.sent(clock::mono_ns());
        }
    }

    fn perform(&mut self, action: Action, now: Now) {
        match action {
            Action::Ask(ask) => self.split(now, |tcp, asker, cx| {
                asker.ask(&ask, |cx| tcp.make_room_for_upstreams(cx), cx);
            }),
            Action::Forget { attempt, .. } => {
                self.split(now, |_, asker, cx| asker.forget(attempt, cx));
            }
            Action::GiveUp { ticket, attempt } => {
                self.split(now, |_, asker, cx| asker.give_up(ticket, attempt, cx));
            }
            Action::Send { client, wire } => self.deliver(&client, wire, now),
            Action::Stream { client, wire, rest } => {
                self.begin_stream(&client, wire, rest, now);
            }
            Action::Silence(client) => self.silence(&client, now),
            Action::Wake(worker) => {
                if let Some(waker) = self.wakers.get(worker) {
                    waker.wake();
                }
            }
        }
    }

    /// Takes up a configuration. What has arrived at listeners that go is still answered by the
    /// old one, but for questions behind a long answer.
    fn configure(&mut self, setup: Setup, now: Now) {
        let Setup { config, listeners, sockets } = setup;
        let place = |wanted: u32| listeners.iter().position(|id| *id == wanted);
        let place = |id: u32| place(id).and_then(|place| u16::try_from(place).ok());
        for key in self.udp.gone(place) {
            self.retire(key, now);
        }
        let endpoints = Endpoint::all(&config, &listeners, self.tcp.quota());
        let endpoint = |id: u32| endpoints.iter().find(|own| own.id == id).cloned();
        self.quic(now, |quic, cx| quic.configure(endpoint, cx));
        self.split(now, |tcp, _, cx| tcp.configure(endpoints, cx));
        self.worker.set_config(config);
        self.udp.configure(|id| self.tcp.endpoint(id));
        sockets.into_iter().for_each(|socket| self.listen(socket, None));
    }

    /// Leaves what arrives at listeners where it is, or goes on taking it. Connections go on.
    fn pause(&mut self, paused: bool) {
        if self.paused == paused {
            return;
        }
        self.paused = paused;
        for key in self.udp.gone(|_| None) {
            let Some(socket) = self.udp.socket(key) else { continue };
            if paused {
                self.poll.remove(socket);
            } else {
                _ = self.poll.add(socket, Kind::UdpServer, key, Interest::READ);
            }
        }
        self.tcp.pause(paused, &self.poll);
        self.quic.pause(paused, &self.poll);
    }

    fn leave(&mut self, leaving: Leaving, now: Now) {
        self.pause(true);
        self.quic(now, |quic, cx| quic.leave(|id| leaving.kept.contains_key(&id), cx));
        for key in self.udp.gone(|id| leaving.kept.contains_key(&id).then_some(0)) {
            self.retire(key, now);
        }
        for key in self.udp.gone(|_| None) {
            self.udp.retire(key);
        }
        self.split(now, |tcp, _, cx| tcp.leave(leaving, cx));
    }

    fn retire(&mut self, key: Key, now: Now) {
        self.udp.turn_away(key);
        self.udp.drain(key, now, &mut self.worker, &self.counters);
        if let Some(socket) = self.udp.socket(key) {
            self.poll.remove(socket);
        }
        self.udp.retire(key);
    }

    fn stop(&mut self, now: Now) {
        for key in self.udp.gone(|_| None) {
            self.retire(key, now);
        }
        self.split(now, |tcp, _, cx| tcp.stop(cx));
        self.quic(now, QuicServer::stop);
    }

    /// Whether everything is answered after a stop, or the time for it is over.
    fn is_done(&mut self, now: Now) -> bool {
        let Some(at) = self.stop_at else { return false };
        let nobody_waits = self.udp.is_empty() && self.tcp.is_empty() && self.quic.is_empty();
        if !nobody_waits && now.mono_ns < at {
            return false;
        }
        // Clients of other workers may wait for what this one asks: they go on by themselves.
        self.worker.abandon_all(now);
        self.act(now);
        self.tcp.close_all();
        self.quic(now, QuicServer::close_all);
        self.split(now, |_, asker, cx| asker.close_all(cx));
        true
    }
}
