//! The protocol between two sides, and every way in which one of them can end.

use super::channel::{Channel, bind, listen};
use super::message::{Greeting, MESSAGE_LEN_MAX, Message};
use super::*;
use nodens_core::handlers::cache::Store;
use nodens_net::HandedConnection;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

fn name() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("test/{}/{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Holds two listeners, a file and a few answers; writes down what it is told.
struct Owner {
    listeners: Vec<(SocketAddr, UdpSocket, TcpListener)>,
    clients: Vec<TcpStream>,
    offer: OwnedFd,
    answers: Vec<Vec<u8>>,
    told: Vec<String>,
    grace: Duration,
    hurried: Arc<AtomicBool>,
    retired: Arc<AtomicBool>,
}

impl Owner {
    fn new(offer: &Offer) -> Self {
        let listener = |_| loop {
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = tcp.local_addr().unwrap();
            // What is free for one of them need not be for the other.
            if let Ok(udp) = UdpSocket::bind(address) {
                break (address, udp, tcp);
            }
        };
        Self {
            listeners: [0, 1].map(listener).into(),
            clients: Vec::new(),
            offer: offer.descriptor().unwrap(),
            answers: (0..5000).map(|n| vec![n as u8; n % 300]).collect(),
            told: Vec::new(),
            grace: Duration::ZERO,
            hurried: Arc::default(),
            retired: Arc::default(),
        }
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().map(|(address, ..)| *address).collect()
    }
}

impl Holder for Owner {
    fn estate(&mut self) -> Result<Estate, String> {
        self.told.push("estate".to_owned());
        // More sockets than fit into one message.
        let pairs = |udp: &UdpSocket, tcp: &TcpListener| {
            let pair = |_| (udp.try_clone().unwrap().into(), tcp.try_clone().unwrap().into());
            (0..150).map(pair).collect()
        };
        let listeners = self.listeners.iter().map(|(address, udp, tcp)| InheritedListener {
            address: *address,
            pairs: pairs(udp, tcp),
        });
        let offer = self.offer.try_clone().unwrap();
        Ok(Estate { listeners: listeners.collect(), others: vec![("offer".to_owned(), offer)] })
    }

    fn answers(&mut self, visit: &mut dyn FnMut(&[u8]) -> bool) {
        _ = self.answers.iter().all(|answer| visit(answer));
    }

    fn pause(&mut self) -> Result<(), String> {
        self.told.push("pause".to_owned());
        Ok(())
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

    fn leave(&mut self, kept: Vec<SocketAddr>, heir: Sender<HandedConnection>) {
        self.told.push(format!("leave {}", kept.len()));
        let listener = self.listeners[0].0;
        for stream in self.clients.drain(..) {
            let (stream, input) = (stream.into(), vec![0, 12, 7]);
            heir.send(HandedConnection { stream, listener, input, asked: 3 }).unwrap();
        }
    }
}

/// Serves in the background; gives the owner back with what it was told.
fn serve(offer: Offer, mut owner: Owner) -> JoinHandle<Owner> {
    std::thread::spawn(move || {
        let pid = offer.serve(&mut owner, "test").unwrap();
        assert_eq!(pid, std::process::id());
        owner
    })
}

fn hello(channel: &Channel, version: u16) {
    let (answers, program) = (Store::FORMAT, String::new());
    let greeting = Greeting { version, answers, pid: 1, program };
    channel.send(&Message::Hello(greeting), &[]).unwrap();
}

/// The connection of a successor that has said that it stays, and sees to nothing itself.
fn stayed(name: &str) -> Channel {
    let channel = Channel::connect(name).unwrap().unwrap();
    hello(&channel, VERSION);
    while channel.receive().unwrap().0 != Message::Warm {}
    channel.send(&Message::Commit(Vec::new()), &[]).unwrap();
    assert_eq!(channel.receive().unwrap().0, Message::Paused);
    channel.send(&Message::Stay, &[]).unwrap();
    channel
}

fn claim(name: &str) -> Inheritance {
    Inheritance::claim(name, "test", PATIENCE).unwrap().unwrap()
}

#[test]
fn everything_passes_to_the_successor() {
    let name = name();
    let offer = Offer::bind(&name).unwrap();
    let mut owner = Owner::new(&offer);
    let addresses = owner.addresses();
    let mut clients = Vec::new();
    for _ in 0..300 {
        clients.push(TcpStream::connect(addresses[0]).unwrap());
        owner.clients.push(owner.listeners[0].2.accept().unwrap().0);
    }
    let known = owner.answers.clone();
    let owner = serve(offer, owner);
    let mut heir = claim(&name);
    assert_eq!(heir.predecessor(), (std::process::id(), "test"));
    let told: Vec<_> = heir.estate.listeners.iter().map(|listener| listener.address).collect();
    assert_eq!(told, addresses);
    for InheritedListener { address, pairs } in &heir.estate.listeners {
        assert_eq!(pairs.len(), 150);
        for (udp, tcp) in pairs {
            let udp = UdpSocket::from(udp.try_clone().unwrap());
            let tcp = TcpListener::from(tcp.try_clone().unwrap());
            assert_eq!(
                (udp.local_addr().unwrap(), tcp.local_addr().unwrap()),
                (*address, *address)
            );
        }
    }
    assert_eq!(heir.estate.others[0].0, "offer");
    let mut answers = Vec::new();
    heir.answers(|answer| answers.push(answer.to_vec())).unwrap();
    assert_eq!(answers, known);
    let mut adopted = Vec::new();
    heir.commit(&addresses).unwrap().stay(|connection| adopted.push(connection)).unwrap();
    assert_eq!(owner.join().unwrap().told, ["estate", "pause", "retire", "leave 2"]);
    assert_eq!(adopted.len(), clients.len());
    for (connection, client) in adopted.into_iter().zip(&mut clients) {
        let facts = (connection.listener, connection.asked, &connection.input[..]);
        assert_eq!(facts, (addresses[0], 3, &[0, 12, 7][..]));
        TcpStream::from(connection.stream).write_all(b"!").unwrap();
        client.read_exact(&mut [0]).unwrap();
    }
}

#[test]
fn a_successor_that_ends_at_any_step_leaves_the_predecessor_as_it_was() {
    let name = name();
    let offer = Offer::bind(&name).unwrap();
    let owner = Owner::new(&offer);
    let owner = serve(offer, owner);
    drop(Channel::connect(&name).unwrap().unwrap());
    for garbage in [&b"?"[..], b"H", b"", &[b'A'; MESSAGE_LEN_MAX + 1]] {
        let channel = Channel::connect(&name).unwrap().unwrap();
        channel.send_octets(garbage, &[]).unwrap();
    }
    let channel = Channel::connect(&name).unwrap().unwrap();
    hello(&channel, VERSION);
    channel.receive().unwrap();
    drop(channel);
    let channel = Channel::connect(&name).unwrap().unwrap();
    hello(&channel, VERSION + 1);
    assert!(matches!(channel.receive(), Ok((Message::Welcome(_), _))));
    assert!(matches!(channel.receive(), Err(Error::Gone)));
    drop(claim(&name));
    let mut heir = claim(&name);
    heir.answers(|_| {}).unwrap();
    drop(heir);
    let mut heir = claim(&name);
    heir.answers(|_| {}).unwrap();
    drop(heir.commit(&[]).unwrap());
    // Whoever comes next takes over.
    let mut heir = claim(&name);
    heir.answers(|_| {}).unwrap();
    heir.commit(&[]).unwrap().stay(drop).unwrap();
    let told = owner.join().unwrap().told;
    let gone = "resume: the other process is gone";
    let senseless = "resume: unexpected in the hand-over: a message that makes no sense";
    let version = format!(
        "resume: the other process speaks version {} of the hand-over, and this one {VERSION}",
        VERSION + 1
    );
    let cut = "resume: unexpected in the hand-over: a message that was cut short";
    let expected = [
        gone, senseless, senseless, gone, cut, // before any greeting
        "estate", gone, &version, // after it
        "estate", gone, "estate", gone, // with the descriptors; with the answers
        "estate", "pause", gone, // after the commit
        "estate", "pause", "retire", "leave 0",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_successor_that_ends_without_a_word_while_the_predecessor_stands_by_is_stood_in_for() {
    let name = name();
    let offer = Offer::bind(&name).unwrap();
    let mut owner = Owner::new(&offer);
    owner.grace = 10 * PATIENCE;
    let owner = serve(offer, owner);
    drop(stayed(&name));
    // The same end twice: a connection closes with the last of them.
    let channel = stayed(&name);
    let other = channel.try_clone().unwrap();
    drop(channel);
    drop(other);
    // One that has said goodbye is not.
    let channel = stayed(&name);
    channel.send(&Message::Farewell, &[]).unwrap();
    assert_eq!(channel.receive().unwrap().0, Message::Bye);
    let gone = "resume: the other process is gone";
    let expected = ["estate", "pause", "retire", gone];
    let expected = [&expected[..], &expected, &["estate", "pause", "retire", "leave 0"]].concat();
    assert_eq!(owner.join().unwrap().told, expected);
}

#[test]
fn nothing_but_the_end_of_a_successor_that_stays_wakes_the_predecessor() {
    type Say = fn(&Channel);
    let nonsense: Say = |channel| channel.send_octets(b"?", &[]).unwrap();
    let again: Say = |channel| channel.send(&Message::Stay, &[]).unwrap();
    let goodbye: Say = |channel| channel.send(&Message::Farewell, &[]).unwrap();
    for say in [nonsense, again, goodbye] {
        let name = name();
        let offer = Offer::bind(&name).unwrap();
        let owner = Owner { grace: 10 * PATIENCE, ..Owner::new(&offer) };
        let owner = serve(offer, owner);
        let channel = stayed(&name);
        say(&channel);
        drop(channel);
        assert_eq!(owner.join().unwrap().told, ["estate", "pause", "retire", "leave 0"]);
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
    let name = name();
    let offer = Offer::bind(&name).unwrap();
    let owner = Owner { grace: 1000 * PATIENCE, ..Owner::new(&offer) };
    let (hurried, retired) = (owner.hurried.clone(), owner.retired.clone());
    let owner = serve(offer, owner);
    let mut heir = claim(&name);
    heir.answers(|_| {}).unwrap();
    let trial = heir.commit(&[]).unwrap();
    let stay = std::thread::spawn(move || trial.stay(drop));
    until_set(&retired);
    hurried.store(true, Ordering::Relaxed);
    stay.join().unwrap().unwrap();
    assert_eq!(owner.join().unwrap().told, ["estate", "pause", "retire", "leave 0"]);
}

#[test]
fn a_successor_that_says_goodbye_ends_on_purpose() {
    let name = name();
    let offer = Offer::bind(&name).unwrap();
    let owner = Owner { grace: 1000 * PATIENCE, ..Owner::new(&offer) };
    let retired = owner.retired.clone();
    let owner = serve(offer, owner);
    let mut heir = claim(&name);
    heir.answers(|_| {}).unwrap();
    let trial = heir.commit(&[]).unwrap();
    let goodbye = trial.goodbye().unwrap();
    let stay = std::thread::spawn(move || trial.stay(drop));
    until_set(&retired);
    goodbye.say();
    stay.join().unwrap().unwrap();
    assert_eq!(owner.join().unwrap().told, ["estate", "pause", "retire", "leave 0"]);
}

#[test]
fn two_successors_at_once_come_one_after_the_other() {
    let name = name();
    let offer = Offer::bind(&name).unwrap();
    let owner = Owner::new(&offer);
    let first = serve(offer, owner);
    let heirs: Vec<_> = (0..4)
        .map(|_| {
            let name = name.clone();
            std::thread::spawn(move || {
                let mut heir = claim(&name);
                heir.answers(|_| {}).unwrap();
                let (_, offer) = heir.estate.others.pop().unwrap();
                heir.commit(&[]).unwrap().stay(drop).unwrap();
                let offer = Offer::inherited(offer);
                let owner = Owner::new(&offer);
                // The last of them waits for one that never comes.
                serve(offer, owner)
            })
        })
        .collect();
    assert_eq!(first.join().unwrap().told, ["estate", "pause", "retire", "leave 0"]);
    let servers: Vec<_> = heirs.into_iter().map(|heir| heir.join().unwrap()).collect();
    drop(claim(&name));
    let mut heir = claim(&name);
    heir.answers(|_| {}).unwrap();
    heir.commit(&[]).unwrap().stay(drop).unwrap();
    let told: Vec<_> = servers.into_iter().flat_map(|server| server.join().unwrap().told).collect();
    assert_eq!(told.iter().filter(|told| *told == "leave 0").count(), 4);
    assert_eq!(told.iter().filter(|told| told.starts_with("resume")).count(), 1);
}

#[test]
fn a_predecessor_that_cannot_or_will_not_is_understood() {
    let name = name();
    assert!(Inheritance::claim(&name, "test", PATIENCE).unwrap().is_none());
    let listener = bind(&name).unwrap();
    // A name that is taken is nobody's offer yet.
    assert!(Inheritance::claim(&name, "test", PATIENCE).unwrap().is_none());
    assert_eq!(Offer::bind(&name).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    listen(&listener).unwrap();
    let greeting = Greeting { version: 99, answers: 1, pid: 1, program: String::new() };
    let messages = [
        Message::Welcome(greeting).encode(),
        Message::Refused("no".to_owned()).encode(),
        Message::Bye.encode(),
        vec![b'W'; MESSAGE_LEN_MAX + 9],
        Vec::new(),
    ];
    let server = std::thread::spawn(move || {
        for octets in messages {
            let channel = super::channel::accept(&listener).unwrap();
            channel.receive().unwrap();
            channel.send_octets(&octets, &[]).unwrap();
        }
    });
    let errors: Vec<_> = (0..5)
        .map(|_| Inheritance::claim(&name, "test", PATIENCE).unwrap_err().to_string())
        .collect();
    server.join().unwrap();
    let expected = [
        "the other process speaks version 99 of the hand-over, and this one 1",
        "refused by the running process: no",
        "unexpected in the hand-over: no greeting",
        "unexpected in the hand-over: a message that was cut short",
        "the other process is gone",
    ];
    assert_eq!(errors, expected);
}

#[test]
fn descriptors_that_were_not_announced_are_refused() {
    let (a, b) = Channel::pair();
    let file = std::fs::File::open("/dev/null").unwrap();
    let fds = [std::os::fd::AsFd::as_fd(&file); 3];
    a.send(&Message::Whole, &fds).unwrap();
    assert_eq!(b.receive().unwrap().1.len(), 3);
    drop(a);
    assert!(matches!(b.receive(), Err(Error::Gone)));
}
