//! The protocol between two sides, and every way in which one of them can end.

use super::channel::{Channel, accept};
use super::limits::{ACCEPT_PAUSE, CANDIDATES_MAX, GREETING_LEN_MAX, ROUND, UNHEARD_MAX};
use super::listener::{Listener, greeting};
use super::message::Message;
use super::secret::{Claim, Nonce, Secret, nonce};
use super::*;
use nodens_core::{ListenerKind, Transport};
use nodens_net::{HandedConnection, ListenerAddress};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc::Sender};
use std::thread::JoinHandle;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// What all names of tests are in, and a name of its own for each.
struct Place {
    _files: tempfile::TempDir,
    folder: Folder,
}

const NAME: &str = "test/name";

impl Place {
    fn new() -> Self {
        let files = tempfile::tempdir().unwrap();
        let folder = Folder::open(&files.path().join("shared"), true).unwrap();
        Self { _files: files, folder }
    }

    fn offer(&self) -> Offer {
        Offer::new(Some(Name::take(&self.folder, NAME).unwrap())).unwrap()
    }

    fn connect(&self) -> Channel {
        let address = self.folder.address(NAME).unwrap();
        Channel::connect(&address, PATIENCE).unwrap().unwrap()
    }

    fn try_claim(&self) -> Result<Claimed, Error> {
        Takeover::claim(&self.folder, NAME, "test")
    }

    /// Takes over, or waits until it can.
    fn claim(&self) -> Takeover {
        loop {
            match self.try_claim() {
                Ok(Claimed::Successor(successor)) => return *successor,
                // It may hand over to another one in this moment.
                Ok(Claimed::Busy) | Err(Error::Gone) => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// A connection that has shown that it knows the secret, and has been given everything.
    fn prepared(&self) -> Channel {
        let channel = self.connect();
        hello(&channel, &self.folder.secret);
        loop {
            match channel.receive().unwrap().0 {
                Message::Warm => return channel,
                // As in `claim`.
                Message::Busy(_) => return self.prepared(),
                _ => {}
            }
        }
    }

    /// The connection of a successor that has said that it stays, and sees to nothing itself.
    fn stayed(&self) -> Channel {
        let channel = self.prepared();
        channel.send(&Message::Commit(Vec::new()), &[]).unwrap();
        assert!(matches!(channel.receive().unwrap().0, Message::Paused(_)));
        channel.send(&Message::Stay, &[]).unwrap();
        channel
    }
}

/// Holds two listeners, a file and a few answers; writes down what it is told.
struct Owner {
    listeners: Vec<(ListenerAddress, UdpSocket, TcpListener)>,
    clients: Vec<TcpStream>,
    network: std::fs::File,
    called_off: Arc<AtomicBool>,
    answers: Vec<Vec<u8>>,
    told: Vec<String>,
    grace: Duration,
    hurried: Arc<AtomicBool>,
    retired: Arc<AtomicBool>,
    /// What a part of the server that hangs keeps, if any does.
    stuck: Option<Vec<Sender<HandedConnection>>>,
}

impl Owner {
    fn new() -> Self {
        let listener = |_| loop {
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = tcp.local_addr().unwrap();
            // What is free for one of them need not be for the other.
            if let Ok(udp) = UdpSocket::bind(address) {
                break (ListenerAddress { kind: ListenerKind::Dns, address }, udp, tcp);
            }
        };
        Self {
            listeners: [0, 1].map(listener).into(),
            clients: Vec::new(),
            network: std::fs::File::open("/dev/null").unwrap(),
            called_off: Arc::default(),
            answers: (0..5000).map(|n| vec![n as u8; n % 300]).collect(),
            told: Vec::new(),
            grace: Duration::ZERO,
            hurried: Arc::default(),
            retired: Arc::default(),
            stuck: None,
        }
    }

    fn addresses(&self) -> Vec<ListenerAddress> {
        self.listeners.iter().map(|(address, ..)| *address).collect()
    }
}

impl Holder for Owner {
    fn state(&mut self) -> Result<HandoverState, String> {
        self.told.push("state".to_owned());
        // More sockets than fit into one message.
        let sockets = |udp: &UdpSocket, tcp: &TcpListener| {
            let udp = |_| (Transport::Udp, udp.try_clone().unwrap().into());
            let tcp = |_| (Transport::Tcp, tcp.try_clone().unwrap().into());
            (0..150).map(udp).chain((0..150).map(tcp)).collect()
        };
        let listeners = self.listeners.iter().map(|(address, udp, tcp)| InheritedListener {
            address: address.address,
            kind: ListenerKind::Dns,
            sockets: sockets(udp, tcp),
        });
        Ok(HandoverState { listeners: listeners.collect(), ..HandoverState::default() })
    }

    fn answers(&mut self, visit: &mut dyn FnMut(&[u8]) -> bool) {
        _ = self.answers.iter().all(|answer| visit(answer));
    }

    fn called_off(&self) -> Arc<AtomicBool> {
        self.called_off.clone()
    }

    fn pause(&mut self) -> Result<Named, String> {
        self.told.push("pause".to_owned());
        Ok(vec![("network".to_owned(), self.network.try_clone().unwrap().into())])
    }

    fn retire(&mut self) -> Duration {
        self.told.push("retire".to_owned());
        self.retired.store(true, Ordering::Relaxed);
        self.grace
    }

    fn is_hurried(&self) -> bool {
        self.hurried.load(Ordering::Relaxed)
    }

    fn resume(&mut self, why: &Error) {
        self.told.push(format!("resume: {why}"));
    }

    fn refused(&mut self, why: &Error) {
        self.told.push(format!("refused: {why}"));
    }

    fn leave(&mut self, kept: Vec<ListenerAddress>, successor: Sender<HandedConnection>) {
        self.told.push(format!("leave {}", kept.len()));
        let listener = self.listeners[0].0;
        for stream in self.clients.drain(..) {
            let (stream, input) = (stream.into(), vec![0, 12, 7]);
            successor.send(HandedConnection { stream, listener, input, asked: 3 }).unwrap();
        }
        self.stuck.iter_mut().for_each(|stuck| stuck.push(successor.clone()));
    }

    fn has_left(&mut self) -> bool {
        self.stuck.is_some()
    }
}

/// Serves in the background; gives the owner back with what it was told, and the offer.
fn serve(mut offer: Offer, mut owner: Owner) -> JoinHandle<(Owner, Offer)> {
    std::thread::spawn(move || {
        assert_eq!(offer.serve(&mut owner, "test").unwrap(), Successor::Other);
        (owner, offer)
    })
}

fn told(served: JoinHandle<(Owner, Offer)>) -> Vec<String> {
    served.join().unwrap().0.told
}

fn challenge(channel: &Channel) -> Nonce {
    match channel.receive().unwrap().0 {
        Message::Challenge { version: VERSION, nonce } => nonce,
        other => panic!("{other:?}"),
    }
}

fn hello(channel: &Channel, secret: &Secret) {
    let nonces = [challenge(channel), nonce().unwrap()];
    let proof = secret.prove(Claim::Successor, &nonces);
    channel.send(&Message::Hello(greeting(""), nonces[1], proof), &[]).unwrap();
}

/// Takes queries, and gives what passes with that.
fn take_over(successor: Takeover, kept: &[ListenerAddress]) -> (Trial, Named) {
    let trial = successor.commit(kept).unwrap();
    let named = trial.paused(PATIENCE).unwrap().expect("a pause");
    (trial, named)
}

fn is_gone(channel: &Channel) {
    loop {
        match channel.receive() {
            Ok((Message::Refused(_), _)) => {}
            Err(Error::Gone) => return,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn everything_passes_to_the_successor() {
    let place = Place::new();
    let mut owner = Owner::new();
    let addresses = owner.addresses();
    let mut clients = Vec::new();
    for _ in 0..300 {
        clients.push(TcpStream::connect(addresses[0].address).unwrap());
        owner.clients.push(owner.listeners[0].2.accept().unwrap().0);
    }
    let known = owner.answers.clone();
    let owner = serve(place.offer(), owner);
    let mut successor = place.claim();
    assert_eq!(successor.predecessor(), (std::process::id(), "test"));
    let there = successor.state.listeners.iter().map(|listener| listener.address);
    assert!(there.eq(addresses.iter().map(|listener| listener.address)));
    for listener in &successor.state.listeners {
        let (address, [udp, tcp]) =
            (&listener.address, [Transport::Udp, Transport::Tcp].map(|own| listener.of(own)));
        assert_eq!((listener.kind, listener.sockets.len()), (ListenerKind::Dns, 300));
        for (udp, tcp) in udp.zip(tcp) {
            let udp = UdpSocket::from(udp.try_clone().unwrap());
            let tcp = TcpListener::from(tcp.try_clone().unwrap());
            assert_eq!(udp.local_addr().unwrap(), *address);
            assert_eq!(tcp.local_addr().unwrap(), *address);
        }
    }
    assert!(successor.state.others.is_empty(), "the network is the predecessor's still");
    let mut answers = Vec::new();
    successor.answers(|answer| answers.push(answer.to_vec())).unwrap();
    assert_eq!(answers, known);
    let mut adopted = Vec::new();
    let (trial, named) = take_over(successor, &addresses);
    assert_eq!(named.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["network"]);
    trial.stay(|connection| adopted.push(connection)).unwrap();
    assert_eq!(told(owner), ["state", "pause", "retire", "leave 2"]);
    assert_eq!(adopted.len(), clients.len());
    for (connection, client) in adopted.into_iter().zip(&mut clients) {
        let facts = (connection.listener, connection.asked, &connection.input[..]);
        assert_eq!(facts, (addresses[0], 3, &[0, 12, 7][..]));
        TcpStream::from(connection.stream).write_all(b"!").unwrap();
        client.read_exact(&mut [0]).unwrap();
    }
}

#[test]
fn a_part_of_the_predecessor_that_hangs_does_not_keep_the_rest_from_leaving() {
    let place = Place::new();
    let mut owner = Owner { stuck: Some(Vec::new()), ..Owner::new() };
    let address = owner.listeners[0].0;
    let _clients = [(); 3].map(|()| TcpStream::connect(address.address).unwrap());
    let accepted = (0..3).map(|_| owner.listeners[0].2.accept().unwrap().0);
    owner.clients.extend(accepted.collect::<Vec<_>>());
    let owner = serve(place.offer(), owner);
    let mut successor = place.claim();
    successor.answers(|_| {}).unwrap();
    let mut adopted = 0;
    take_over(successor, &[address]).0.stay(|_| adopted += 1).unwrap();
    assert_eq!(adopted, 3, "what could be passed on has been");
    assert_eq!(told(owner), ["state", "pause", "retire", "leave 1"]);
}

#[test]
fn the_last_word_to_a_predecessor_that_is_stopped_has_room_behind_the_others() {
    let (theirs, end) = Channel::pair().unwrap();
    let trial = Trial { channel: Channel::of(end) };
    // Far more rounds than words.
    let silence = ROUND * (2 * UNHEARD_MAX);
    assert!(matches!(trial.receive(drop, silence), Err(Error::Slow)));
    let end_notice = trial.end_notice().unwrap();
    end_notice.send();
    drop((trial, end_notice));
    let words: Vec<_> =
        std::iter::from_fn(|| theirs.receive().ok()).map(|(word, _)| word).collect();
    let (first, last) = (words.first().unwrap(), words.last().unwrap());
    assert_eq!((first, last), (&Message::Stay, &Message::Ending));
    assert_eq!(words.len(), 2 + UNHEARD_MAX as usize, "{words:?}");
}

#[test]
fn a_successor_that_gets_ready_sees_at_once_that_the_predecessor_is_gone_and_how() {
    let place = Place::new();
    let owner = Owner::new();
    let called_off = owner.called_off.clone();
    let owner = serve(place.offer(), owner);
    let successor = place.claim();
    // The answers of its cache wait, which is no end.
    assert!(!successor.is_closed());
    called_off.store(true, Ordering::Relaxed);
    let until = std::time::Instant::now() + PATIENCE;
    while !successor.is_closed() {
        assert!(std::time::Instant::now() < until, "never");
        std::thread::sleep(Duration::from_millis(1));
    }
    let why =
        "refused by the running process: the running process applies a changed configuration first";
    assert_eq!(successor.last_word().to_string(), why);
    called_off.store(false, Ordering::Relaxed);
    let mut successor = place.claim();
    successor.answers(|_| {}).unwrap();
    take_over(successor, &[]).0.stay(drop).unwrap();
    told(owner);
    // One that dies says nothing.
    let (theirs, end) = Channel::pair().unwrap();
    let channel = Channel::of(end);
    assert!(!channel.is_closed());
    theirs.send(&Message::Answers(Vec::new()), &[]).unwrap();
    drop(theirs);
    let (predecessor, state) = (greeting(""), HandoverState::default());
    let successor = Takeover { channel, predecessor, state };
    assert!(successor.is_closed() && matches!(successor.last_word(), Error::Gone));
}

#[test]
fn a_predecessor_that_resumes_is_heard_however_long_its_successor_took_to_get_ready() {
    let (theirs, end) = Channel::pair().unwrap();
    let (predecessor, state) = (greeting(""), HandoverState::default());
    let successor = Takeover { channel: Channel::of(end), predecessor, state };
    successor.channel.set_deadline(Some(Duration::ZERO));
    theirs.send(&Message::Answers(Vec::new()), &[]).unwrap();
    theirs.send(&Message::Refused("too late".to_owned()), &[]).unwrap();
    drop(theirs);
    assert!(matches!(successor.last_word(), Error::Refused(why) if why == "too late"));
}

#[test]
fn a_listener_that_cannot_accept_is_not_asked_again_at_once() {
    let files = tempfile::tempdir().unwrap();
    let folder = Folder::open(&files.path().join("shared"), true).unwrap();
    // A socket at which nobody listens refuses each time, as one of a process without descriptors does.
    let (not_listening, _other) = Channel::pair().unwrap();
    let mut listener = Listener::new(not_listening.into(), folder.secret.clone());
    let mut refused = Vec::new();
    for rounds in 1..=2 {
        let begun = std::time::Instant::now();
        let peer = listener.look(&mut |error| refused.push(error.to_string()));
        assert!(peer.unwrap().is_none(), "no process is admitted, and the listener stays");
        assert!(begun.elapsed() >= ACCEPT_PAUSE);
        assert_eq!(refused.len(), rounds, "said once each time: {refused:?}");
    }
}

#[test]
fn a_successor_that_ends_at_any_step_leaves_the_predecessor_as_it_was() {
    let place = Place::new();
    let owner = serve(place.offer(), Owner::new());
    let channel = place.connect();
    challenge(&channel);
    hello_and_leave(&place);
    drop(place.claim());
    let mut successor = place.claim();
    successor.answers(|_| {}).unwrap();
    drop(successor);
    let mut successor = place.claim();
    successor.answers(|_| {}).unwrap();
    drop(take_over(successor, &[]));
    drop(channel);
    // Whoever comes next takes over.
    let mut successor = place.claim();
    successor.answers(|_| {}).unwrap();
    take_over(successor, &[]).0.stay(drop).unwrap();
    let told = told(owner);
    let told: Vec<_> = told.iter().filter(|told| !told.starts_with("refused: ")).collect();
    let gone = "resume: the other process is gone";
    let expected = [
        "state", gone, "state", gone, "state", gone, // with the descriptors; with the answers
        "state", "pause", gone, // after the commit
        "state", "pause", "retire", "leave 0",
    ];
    assert_eq!(told, expected);
}

fn hello_and_leave(place: &Place) {
    let channel = place.connect();
    hello(&channel, &place.folder.secret);
    channel.receive().unwrap();
}

#[test]
fn a_process_that_does_not_know_the_secret_is_given_nothing_and_keeps_nobody_waiting() {
    let place = Place::new();
    let owner = serve(place.offer(), Owner::new());
    // Many that say nothing, and stay.
    let idle: Vec<_> = (0..3 * CANDIDATES_MAX).map(|_| place.connect()).collect();
    let file = std::fs::File::open("/dev/null").unwrap();
    for garbage in [&b"?"[..], b"H", b"", &[b'A'; GREETING_LEN_MAX + 1]] {
        let channel = place.connect();
        challenge(&channel);
        channel.send_octets(garbage, &[std::os::fd::AsFd::as_fd(&file)]).unwrap();
        is_gone(&channel);
    }
    // Another secret; what was said to somebody else; and the other side's part.
    let channel = place.connect();
    hello(&channel, &Secret::INHERITED);
    is_gone(&channel);
    for claim in [Claim::Successor, Claim::Predecessor, Claim::Busy] {
        let channel = place.connect();
        let theirs = challenge(&channel);
        let nonces = [if claim == Claim::Successor { Nonce::default() } else { theirs }, [7; 32]];
        let proof = place.folder.secret.prove(claim, &nonces);
        channel.send(&Message::Hello(greeting(""), nonces[1], proof), &[]).unwrap();
        is_gone(&channel);
    }
    let mut successor = place.claim();
    successor.answers(|_| {}).unwrap();
    take_over(successor, &[]).0.stay(drop).unwrap();
    let told = told(owner);
    let (refused, others): (Vec<_>, Vec<_>) =
        told.iter().partition(|told| told.starts_with("refused: "));
    assert_eq!(others, ["state", "pause", "retire", "leave 0"]);
    let secret = "refused: the other process does not know the secret of the hand-over's folder";
    assert_eq!(refused.iter().filter(|told| **told == secret).count(), 4);
    drop(idle);
}

#[test]
fn a_predecessor_that_does_not_know_the_secret_is_told_nothing() {
    let place = Place::new();
    let listener = Name::take(&place.folder, NAME).unwrap().listen().unwrap();
    let server = std::thread::spawn(move || {
        for reply in [true, false] {
            while !super::channel::accept(&listener).is_ok_and(|c| {
                c.is_some_and(|channel| {
                    let nonce = [1; 32];
                    channel.send(&Message::Challenge { version: VERSION, nonce }, &[]).unwrap();
                    channel.receive().unwrap();
                    let (greeting, proof) = (greeting(""), [2; 32]);
                    let message = if reply {
                        Message::Welcome(greeting, proof)
                    } else {
                        Message::Busy(proof)
                    };
                    channel.send(&message, &[]).unwrap();
                    true
                })
            }) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        // The third is not even asked who it is.
        listener
    });
    for _ in 0..2 {
        assert!(matches!(place.try_claim(), Err(Error::Secret)));
    }
    let _listener = server.join().unwrap();
    let begun = std::time::Instant::now();
    assert!(matches!(place.try_claim(), Err(Error::Slow)));
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

#[test]
fn a_successor_that_is_stopped_at_any_step_is_not_waited_for() {
    let place = Place::new();
    let owner = Owner { grace: 1000 * PATIENCE, ..Owner::new() };
    let called_off = owner.called_off.clone();
    let owner = serve(place.offer(), owner);
    // While it gets ready, others are told to wait, and a reload does not.
    let stopped = place.prepared();
    assert!(matches!(place.try_claim().unwrap(), Claimed::Busy));
    called_off.store(true, Ordering::Relaxed);
    let why = match stopped.receive().unwrap().0 {
        Message::Refused(why) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why, "the running process applies a changed configuration first");
    called_off.store(false, Ordering::Relaxed);
    // Between the commit and its first query.
    let mut successor = place.claim();
    successor.answers(|_| {}).unwrap();
    let (trial, _) = take_over(successor, &[]);
    std::thread::sleep(Duration::from_secs(2));
    assert!(matches!(trial.stay(drop), Err(Error::Refused(_))), "it must not stay after that");
    // After it.
    let channel = place.stayed();
    while !matches!(channel.receive().unwrap().0, Message::Refused(_)) {}
    let mut successor = place.claim();
    successor.answers(|_| {}).unwrap();
    let (trial, _) = take_over(successor, &[]);
    let end_notice = trial.end_notice().unwrap();
    let stays = std::thread::spawn(move || trial.stay(drop));
    // One that lives is waited for.
    std::thread::sleep(Duration::from_secs(2));
    end_notice.send();
    stays.join().unwrap().unwrap();
    let slow = "resume: the other process does not answer";
    let expected = [
        "state",
        "resume: the running process applies a changed configuration first",
        "state",
        "pause",
        slow,
        "state",
        "pause",
        "retire",
        slow,
        "state",
        "pause",
        "retire",
        "leave 0",
    ];
    assert_eq!(told(owner), expected);
}

#[test]
fn a_predecessor_that_is_stopped_does_not_hold_its_successor() {
    let place = Place::new();
    let (theirs, end) = Channel::pair().unwrap();
    let successor = std::thread::spawn(move || match Takeover::from_parent(end, "test").unwrap() {
        Claimed::Successor(successor) => successor,
        other => panic!("{other:?}"),
    });
    let nonces = [[1; 32], [0; 32]];
    let version = VERSION;
    theirs.send(&Message::Challenge { version, nonce: nonces[0] }, &[]).unwrap();
    let Message::Hello(_, nonce, _) = theirs.receive().unwrap().0 else { panic!("no greeting") };
    let proof = Secret::INHERITED.prove(Claim::Predecessor, &[nonces[0], nonce]);
    theirs.send(&Message::Welcome(greeting(""), proof), &[]).unwrap();
    theirs.send(&Message::Whole(Vec::new()), &[]).unwrap();
    let successor = *successor.join().unwrap();
    assert!(!successor.is_over());
    let trial = successor.commit(&[]).unwrap();
    assert!(trial.paused(Duration::from_millis(50)).unwrap().is_none());
    // It is late, and has its say all the same.
    theirs.send(&Message::Paused(Vec::new()), &[]).unwrap();
    assert!(trial.paused(PATIENCE).unwrap().is_some());
    theirs.send(&Message::Refused("late".to_owned()), &[]).unwrap();
    assert!(matches!(trial.stay(drop), Err(Error::Refused(why)) if why == "late"));
    drop(place);
}

#[test]
fn a_successor_that_ends_without_a_word_while_the_predecessor_stands_by_is_stood_in_for() {
    let place = Place::new();
    let owner = serve(place.offer(), Owner { grace: 10 * PATIENCE, ..Owner::new() });
    drop(place.stayed());
    // The same end twice: a connection closes with the last of them.
    let channel = place.stayed();
    let other = channel.try_clone().unwrap();
    drop(channel);
    drop(other);
    // One that has given notice of its end is not.
    let channel = place.stayed();
    channel.send(&Message::Ending, &[]).unwrap();
    while channel.receive().unwrap().0 != Message::Left {}
    let gone = "resume: the other process is gone";
    let expected = ["state", "pause", "retire", gone];
    let expected = [&expected[..], &expected, &["state", "pause", "retire", "leave 0"]].concat();
    assert_eq!(told(owner), expected);
}

#[test]
fn nothing_but_the_end_of_a_successor_that_stays_wakes_the_predecessor() {
    type Say = fn(&Channel);
    let nonsense: Say = |channel| channel.send_octets(b"?", &[]).unwrap();
    let again: Say = |channel| channel.send(&Message::Stay, &[]).unwrap();
    let end_notice: Say = |channel| channel.send(&Message::Ending, &[]).unwrap();
    for say in [nonsense, again, end_notice] {
        let place = Place::new();
        let owner = serve(place.offer(), Owner { grace: 10 * PATIENCE, ..Owner::new() });
        let channel = place.stayed();
        say(&channel);
        drop(channel);
        assert_eq!(told(owner), ["state", "pause", "retire", "leave 0"]);
    }
}

fn until_set(flag: &AtomicBool) {
    let until = std::time::Instant::now() + 3 * PATIENCE;
    while !flag.load(Ordering::Relaxed) {
        assert!(std::time::Instant::now() < until, "never happened");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_predecessor_in_a_hurry_does_not_stand_by() {
    let place = Place::new();
    let owner = Owner { grace: 1000 * PATIENCE, ..Owner::new() };
    let (hurried, retired) = (owner.hurried.clone(), owner.retired.clone());
    let owner = serve(place.offer(), owner);
    let mut successor = place.claim();
    successor.answers(|_| {}).unwrap();
    let trial = take_over(successor, &[]).0;
    let stay = std::thread::spawn(move || trial.stay(drop));
    until_set(&retired);
    hurried.store(true, Ordering::Relaxed);
    stay.join().unwrap().unwrap();
    assert_eq!(told(owner), ["state", "pause", "retire", "leave 0"]);
}

#[test]
fn two_successors_at_once_come_one_after_the_other() {
    let place = Arc::new(Place::new());
    let first = serve(place.offer(), Owner::new());
    let successors: Vec<_> = (0..4)
        .map(|_| {
            let place = place.clone();
            std::thread::spawn(move || {
                let mut successor = place.claim();
                successor.answers(|_| {}).unwrap();
                take_over(successor, &[]).0.stay(drop).unwrap();
            })
        })
        .collect();
    // The name passes on as its descriptors do.
    let mut server = first;
    let mut all = Vec::new();
    for _ in 0..4 {
        let (owner, offer) = server.join().unwrap();
        all.extend(owner.told);
        let descriptors = offer.descriptors().unwrap().unwrap();
        drop(offer);
        assert!(Name::take(&place.folder, NAME).is_err(), "the name is taken throughout");
        let offer = Offer::inherited(place.folder.clone(), NAME, descriptors).unwrap();
        server = serve(BusyResponder::of(offer).unwrap().finish().unwrap(), Owner::new());
    }
    successors.into_iter().for_each(|successor| successor.join().unwrap());
    assert_eq!(all.iter().filter(|told| *told == "leave 0").count(), 4);
    drop(place.claim());
    let mut successor = place.claim();
    successor.answers(|_| {}).unwrap();
    take_over(successor, &[]).0.stay(drop).unwrap();
    let told = told(server);
    assert_eq!(told.iter().filter(|told| told.starts_with("resume")).count(), 1);
}

#[test]
fn a_child_takes_over_without_a_name() {
    let mut offer = Offer::new(None).unwrap();
    let parent = offer.parent();
    let served = std::thread::spawn(move || {
        let mut owner = Owner::new();
        (offer.serve(&mut owner, "test").unwrap(), owner.told)
    });
    // One that ends before it says anything, and one that says nothing.
    let (ours, theirs) = parent.connection().unwrap();
    parent.expect(1, ours);
    drop(theirs);
    let (ours, silent) = parent.connection().unwrap();
    parent.expect(2, ours);
    let (ours, theirs) = parent.connection().unwrap();
    let successor = std::thread::spawn(move || {
        let Claimed::Successor(mut successor) = Takeover::from_parent(theirs, "test").unwrap()
        else {
            panic!("no hand-over")
        };
        successor.answers(|_| {}).unwrap();
        take_over(*successor, &[]).0.stay(drop).unwrap();
    });
    parent.expect(3, ours);
    successor.join().unwrap();
    let (successor, told) = served.join().unwrap();
    assert_eq!(successor, Successor::Child(3));
    let expected = [
        "refused: the other process is gone",
        "refused: the other process does not answer",
        "state",
        "pause",
        "retire",
        "leave 0",
    ];
    assert_eq!(told, expected);
    drop(silent);
}

#[test]
fn a_predecessor_that_cannot_or_will_not_is_understood() {
    let place = Place::new();
    assert!(matches!(place.try_claim(), Ok(Claimed::Nobody)));
    let name = Name::take(&place.folder, NAME).unwrap();
    // A name that is taken is nobody's offer yet.
    assert!(matches!(place.try_claim(), Ok(Claimed::Nobody)));
    let error = Name::take(&place.folder, NAME).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    let listener = name.listen().unwrap();
    let messages = [
        Message::Challenge { version: 99, nonce: [0; 32] }.encode(),
        Message::Refused("no".to_owned()).encode(),
        Message::Left.encode(),
        vec![b'W'; GREETING_LEN_MAX + 9],
        Vec::new(),
    ];
    let server = std::thread::spawn(move || {
        for octets in messages {
            let channel = loop {
                match accept(&listener).unwrap() {
                    Some(channel) => break channel,
                    None => std::thread::sleep(Duration::from_millis(1)),
                }
            };
            channel.send_octets(&octets, &[]).unwrap();
        }
    });
    let errors: Vec<_> = (0..5).map(|_| place.try_claim().unwrap_err().to_string()).collect();
    server.join().unwrap();
    let expected = [
        format!("the other process speaks version 99 of the hand-over, and this one {VERSION}"),
        "refused by the running process: no".to_owned(),
        "unexpected in the hand-over: no greeting".to_owned(),
        "unexpected in the hand-over: a greeting that is too long".to_owned(),
        "the other process is gone".to_owned(),
    ];
    assert_eq!(errors, expected);
    // What a dead process leaves behind is nobody.
    assert!(matches!(place.try_claim(), Ok(Claimed::Nobody)));
}

#[test]
fn the_last_word_of_a_process_that_left_ours_unread_is_heard() {
    let (a, b) = Channel::pair().unwrap();
    let b = Channel::of(b);
    b.send_at_once(&Message::Alive);
    a.send(&Message::Refused("no".to_owned()), &[]).unwrap();
    drop(a);
    assert!(matches!(b.receive(), Ok((Message::Refused(_), _))));
    assert!(matches!(b.receive(), Err(Error::Gone)));
}

#[test]
fn descriptors_that_were_not_announced_are_refused() {
    let (a, b) = Channel::pair().unwrap();
    let b = Channel::of(b);
    let file = std::fs::File::open("/dev/null").unwrap();
    a.send(&Message::Whole(Vec::new()), &[std::os::fd::AsFd::as_fd(&file); 3]).unwrap();
    assert_eq!(b.receive().unwrap().1.len(), 3);
    drop(a);
    assert!(matches!(b.receive(), Err(Error::Gone)));
}
