//! A server without sockets, for tests, fuzzing and instruction counts: a Corefile in, questions
//! in presentation format, answers out, upstreams as closures, time under control.

pub mod cluster;

use crate::cluster::{Link, Scope};
use crate::config::{BuildOptions, Config, Task, build};
use crate::job::{Client, Transport};
use crate::log::{Record, Sink};
use crate::shared::Shared;
use crate::time::Now;
use crate::upstream::{Ask, Fault};
use crate::worker::{Action, Ticket, Verdict, Worker};
use nodens_corefile::{Error, SystemSources, parse};
use nodens_wire::edns::OPT_LEN;
use nodens_wire::{Builder, Class, Flags, Message, Name, Type};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// What an upstream does with a question.
#[derive(Debug)]
pub enum Reaction {
    /// Answers with this message; its ID is set to the question's.
    Reply(Vec<u8>),
    /// The attempt fails.
    Fail(Fault),
    /// Nothing, ever.
    Silence,
    /// This, but later.
    After(Duration, Box<Reaction>),
}

/// An upstream: sees whom and what is asked.
pub type Upstream = Box<dyn FnMut(&Ask, &Message) -> Reaction>;

/// One worker with a clock that stands still unless it is moved.
pub struct Bench {
    /// The worker.
    pub worker: Worker,
    /// What a process would share between workers.
    pub shared: Arc<Shared>,
    /// The time the next call gets.
    pub now: Now,
    /// Who asks next.
    pub client: Client,
    /// Log records so far.
    pub log: Receiver<Record>,
    /// How many questions reached an upstream.
    pub asked: usize,
    /// The repeated work of the configuration that it started with; nobody does it by itself.
    pub tasks: Vec<Task>,
    upstream: Upstream,
    late: Vec<Late>,
}

/// What an upstream will do.
#[derive(Debug)]
struct Late {
    at_ns: u64,
    ask: Ask,
    id: u16,
    reaction: Reaction,
}

impl std::fmt::Debug for Bench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bench({} asked)", self.asked)
    }
}

impl Bench {
    /// A server for `corefile`.
    ///
    /// # Panics
    /// If the Corefile is not accepted.
    pub fn new(corefile: &str) -> Self {
        match Self::try_new(corefile) {
            Ok(bench) => bench,
            Err(error) => panic!("{error}"),
        }
    }

    /// A server for `corefile`, or why not.
    pub fn try_new(corefile: &str) -> Result<Self, Error> {
        Self::with_options(corefile, &BuildOptions::default())
    }

    /// A server for `corefile` with what is not in it, or why not.
    pub fn with_options(corefile: &str, options: &BuildOptions) -> Result<Self, Error> {
        let (sender, log) = std::sync::mpsc::sync_channel(1024);
        let shared = Arc::new(Shared::new(1, Sink::new(sender)));
        let mut config = Self::compile(&shared, corefile, options)?;
        let tasks = std::mem::take(&mut config.services.tasks);
        config.services.show(&shared.registry);
        let config = Arc::new(config);
        let worker = Worker::new(0, shared.clone(), config, 42);
        let now = Now { mono_ns: 1_000_000_000_000, unix_s: 1_700_000_000 };
        let client = Client {
            peer: SocketAddr::from(([192, 0, 2, 53], 40_000)),
            local: SocketAddr::from(([192, 0, 2, 1], 53)),
            transport: Transport::Udp,
            listener: 0,
            connection: 0,
            stream: 0,
            old_tls: false,
        };
        let upstream: Upstream = Box::new(|_, _| Reaction::Silence);
        Ok(Self { worker, shared, now, client, log, asked: 0, tasks, upstream, late: Vec::new() })
    }

    fn compile(
        shared: &Arc<Shared>,
        corefile: &str,
        options: &BuildOptions,
    ) -> Result<Config, Error> {
        let tree = parse("Corefile", corefile, &SystemSources)?;
        build(&tree, options, shared)
    }

    /// Replaces the configuration, as a reload does.
    pub fn reload(&mut self, corefile: &str) -> Result<(), Error> {
        self.reload_with(corefile, &BuildOptions::default())
    }

    /// As [`Bench::reload`], with what is not in the Corefile.
    pub fn reload_with(&mut self, corefile: &str, options: &BuildOptions) -> Result<(), Error> {
        let mut config = Self::compile(&self.shared, corefile, options)?;
        self.tasks = std::mem::take(&mut config.services.tasks);
        config.services.show(&self.shared.registry);
        self.worker.set_config(Arc::new(config));
        Ok(())
    }

    /// Publishes a cluster to every `kubernetes`, and as much of it as they want to others that
    /// watch one; see [`cluster`] for what it is made of.
    pub fn publish(&mut self, objects: &str, serial: u64) {
        let snapshot = cluster::cluster(objects, serial);
        for service in &self.worker.config().services.clusters {
            if service.feed.source().scope == Scope::Names {
                service.feed.publish(cluster::names(&service.feed.load(), objects, serial));
            } else {
                service.feed.publish(snapshot.clone());
            }
            service.feed.set_synced();
            service.feed.set_link(Link::Connected);
        }
    }

    /// Sets what upstreams do.
    pub fn upstream(&mut self, react: impl FnMut(&Ask, &Message) -> Reaction + 'static) {
        self.upstream = Box::new(react);
    }

    /// Moves the clock; timers fire and upstreams react at their time.
    pub fn pass(&mut self, time: Duration) -> Vec<(Client, Vec<u8>)> {
        let end_ns = self.now.mono_ns + time.as_nanos() as u64;
        let mut sent = self.act();
        while let Some(at_ns) = self.next_event().filter(|at_ns| *at_ns <= end_ns) {
            self.step(at_ns);
            sent.append(&mut self.act());
        }
        self.move_to(end_ns);
        sent
    }

    /// When a timer fires or an upstream reacts next.
    fn next_event(&self) -> Option<u64> {
        let late = self.late.iter().map(|late| late.at_ns).min();
        let at_ns = self.worker.next_deadline().into_iter().chain(late).min()?;
        Some(at_ns.max(self.now.mono_ns))
    }

    fn move_to(&mut self, at_ns: u64) {
        self.now.mono_ns = at_ns;
        self.now.unix_s = 1_700_000_000 + (at_ns - 1_000_000_000_000) / 1_000_000_000;
    }

    fn step(&mut self, at_ns: u64) {
        self.move_to(at_ns);
        let due = |late: &Late| late.at_ns <= at_ns;
        while let Some(index) = self.late.iter().position(due) {
            let Late { ask, id, reaction, .. } = self.late.remove(index);
            self.do_now(&ask, id, reaction);
        }
        self.worker.tick(self.now);
    }

    /// Asks as [`Bench::ask`] does and moves the clock until there is an answer, at most by
    /// `limit`; gives the answer and how long it took.
    ///
    /// # Panics
    /// If the answer is no message.
    pub fn ask_for(&mut self, question: &str, limit: Duration) -> Option<(Message, Duration)> {
        let start_ns = self.now.mono_ns;
        let end_ns = start_ns + limit.as_nanos() as u64;
        let mut answer = self.ask_bytes(&request(question));
        while answer.is_none() {
            let at_ns = self.next_event().filter(|at_ns| *at_ns <= end_ns)?;
            self.step(at_ns);
            answer = self.act().into_iter().next().map(|(_, wire)| wire);
        }
        let answer = Message::parse(&answer?).unwrap_or_else(|error| panic!("{question}: {error}"));
        Some((answer, Duration::from_nanos(self.now.mono_ns - start_ns)))
    }

    /// Asks `NAME TYPE [CLASS] [+do] [+cd] [+ad] [+norec] [+edns]` and gives the answer.
    ///
    /// # Panics
    /// If there is no answer, or none that is a message.
    pub fn ask(&mut self, question: &str) -> Message {
        let bytes = self.ask_bytes(&request(question));
        let bytes = bytes.unwrap_or_else(|| panic!("no answer to {question}"));
        Message::parse(&bytes).unwrap_or_else(|error| panic!("answer to {question}: {error}"))
    }

    /// Asks with a request of your own; waits for an upstream but moves no clock.
    pub fn ask_bytes(&mut self, request: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let verdict = self.worker.receive(self.now, self.client, request, &mut out);
        let sent = self.act();
        match verdict {
            Verdict::Answered | Verdict::Streaming => Some(out),
            Verdict::Silent => None,
            Verdict::Pending => sent.into_iter().next().map(|(_, wire)| wire),
        }
    }

    /// Does what the worker wants until it wants nothing; gives what it sent to clients.
    pub fn act(&mut self) -> Vec<(Client, Vec<u8>)> {
        let mut sent = Vec::new();
        loop {
            let mut actions = Vec::new();
            self.worker.take_actions(&mut actions);
            self.worker.go_on(self.now);
            if actions.is_empty() {
                self.worker.sent(self.now.mono_ns);
                return sent;
            }
            for action in actions {
                match action {
                    Action::Ask(ask) => self.react(ask),
                    Action::Send { client, wire } => sent.push((client, wire)),
                    Action::Wake(_) => self.worker.collect_mail(self.now),
                    Action::Forget { ticket, attempt } => self.forget(ticket, attempt),
                    Action::GiveUp { ticket, attempt } => {
                        self.forget(ticket, attempt);
                        let fault = Fault::Timeout(
                            "read udp 192.0.2.1:40000->192.0.2.9:53: i/o timeout".to_owned(),
                        );
                        self.worker.failed(self.now, ticket, attempt, &fault);
                    }
                    Action::Stream { client, wire, .. } => sent.push((client, wire)),
                    Action::Silence(_) => {}
                }
            }
        }
    }

    fn react(&mut self, ask: Ask) {
        let Some(message) = self.worker.ask_message(ask.ticket).cloned() else { return };
        self.asked += 1;
        let question = Message::parse(&message).expect("questions to upstreams are messages");
        let reaction = (self.upstream)(&ask, &question);
        self.do_now(&ask, question.id, reaction);
    }

    fn do_now(&mut self, ask: &Ask, id: u16, reaction: Reaction) {
        match reaction {
            Reaction::Reply(mut reply) => {
                nodens_wire::header::set_id(&mut reply, id);
                self.worker.reply(self.now, ask.ticket, ask.attempt, &reply);
            }
            Reaction::Fail(fault) => {
                self.worker.failed(self.now, ask.ticket, ask.attempt, &fault);
            }
            Reaction::Silence => {}
            Reaction::After(time, reaction) => {
                let at_ns = self.now.plus(time);
                let Ask { ticket, attempt, carrier, elsewhere, .. } = *ask;
                let upstream = ask.upstream.clone();
                let ask = Ask { ticket, attempt, upstream, carrier, elsewhere };
                self.late.push(Late { at_ns, ask, id, reaction: *reaction });
            }
        }
    }

    fn forget(&mut self, ticket: Ticket, attempt: u32) {
        self.late.retain(|late| (late.ask.ticket, late.ask.attempt) != (ticket, attempt));
    }
}

/// A request from text, see [`Bench::ask`].
///
/// # Panics
/// If the text is not a question.
pub fn request(text: &str) -> Vec<u8> {
    let mut words = text.split_whitespace();
    let qname: Name = words.next().and_then(|name| name.parse().ok()).expect("a name");
    let qtype: Type = words.next().and_then(|qtype| qtype.parse().ok()).expect("a type");
    let (mut qclass, mut flags, mut edns) = (Class::IN, Flags(Flags::RD), None);
    for word in words {
        match word {
            "+do" => edns = Some(nodens_wire::edns::DO),
            "+edns" => edns = edns.or(Some(0)),
            "+cd" => flags = flags.with(Flags::CD, true),
            "+ad" => flags = flags.with(Flags::AD, true),
            "+norec" => flags = flags.with(Flags::RD, false),
            class => qclass = class.parse().expect("a class or +flag"),
        }
    }
    let mut out = Vec::with_capacity(64 + OPT_LEN);
    Builder::new(&mut out, 4711, flags).question(qname.view(), qtype, qclass);
    if let Some(flags) = edns {
        let edns = nodens_wire::shape::ResponseEdns { udp_size: 1232, flags, options: &[] };
        nodens_wire::shape::shape(&mut out, nodens_wire::Rcode::NOERROR, Some(edns), 512)
            .expect("a question fits");
    }
    out
}
