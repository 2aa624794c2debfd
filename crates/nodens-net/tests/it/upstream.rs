//! An upstream that follows a script: for each question, what to send and when.

use super::client::{PATIENCE, framed};
use nodens_wire::{Builder, Flags, Message, Section, Type, header};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the upstream does with a question.
pub(crate) enum Act {
    /// Sends this, which may be anything.
    Send(Vec<u8>),
    /// Waits; what follows happens in the background.
    Wait(Duration),
    /// The same, until this is set.
    WaitFor(Gate),
    /// Closes the connection with a reset.
    Reset,
}

/// Something to wait for.
pub(crate) type Gate = Arc<AtomicBool>;

/// One for who opens it, and one for who waits.
pub(crate) fn gate() -> (Gate, Gate) {
    let gate = Gate::default();
    (gate.clone(), gate)
}

/// A question as the upstream sees it.
pub(crate) struct Asked {
    pub(crate) wire: Vec<u8>,
    pub(crate) message: Message,
    pub(crate) from: SocketAddr,
    /// Counts the questions of all transports, from 0.
    pub(crate) number: usize,
}

impl Asked {
    /// An answer with one A record, 192.0.2.1.
    pub(crate) fn answer(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let question = &self.message.questions[0];
        let flags = Flags(0x8180);
        let mut builder = Builder::new(&mut out, self.message.id, flags);
        builder.question(question.qname.view(), question.qtype, question.qclass);
        if question.qtype == Type::A {
            let fields = (Type::A, question.qclass, 60);
            builder
                .record(Section::Answer, question.qname.view(), fields, &[192, 0, 2, 1])
                .unwrap();
        }
        out
    }

    /// The same with TXT records up to `len` octets.
    pub(crate) fn long_answer(&self, len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let question = &self.message.questions[0];
        let mut builder = Builder::new(&mut out, self.message.id, Flags(0x8180));
        builder.question(question.qname.view(), question.qtype, question.qclass);
        let mut left = len - 12 - question.qname.as_wire().len() - 4;
        // Owner as a pointer, type, class, TTL, length: 12 octets in front of each text.
        while left >= 14 {
            let text = (left - 13).min(255);
            let rdata = [&[text as u8][..], &vec![b'x'; text]].concat();
            let fields = (Type::TXT, question.qclass, 60);
            builder.record(Section::Answer, question.qname.view(), fields, &rdata).unwrap();
            left -= text + 13;
        }
        out
    }

    pub(crate) fn name(&self) -> String {
        self.message.questions[0].qname.to_string()
    }
}

type Script = Arc<dyn Fn(&Asked) -> Vec<Act> + Send + Sync>;

/// The upstream; it ends when it is dropped.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    count: Arc<AtomicUsize>,
    /// The names of these questions.
    names: Arc<Mutex<HashSet<String>>>,
    pub(crate) connections: Arc<AtomicUsize>,
    /// Source addresses and IDs of the questions over UDP.
    pub(crate) seen: Arc<Mutex<Vec<(SocketAddr, u16)>>>,
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Upstream {
    pub(crate) fn start(script: impl Fn(&Asked) -> Vec<Act> + Send + Sync + 'static) -> Self {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
                break (udp, tcp);
            }
        };
        let address = udp.local_addr().unwrap();
        udp.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        tcp.set_nonblocking(true).unwrap();
        let mut this = Self {
            address,
            count: Arc::default(),
            names: Arc::default(),
            connections: Arc::default(),
            seen: Arc::default(),
            ended: Arc::default(),
            threads: Vec::new(),
        };
        let names = this.names.clone();
        let script: Script = Arc::new(move |asked: &Asked| {
            names.lock().unwrap().insert(asked.name());
            script(asked)
        });
        let state = (this.count.clone(), this.ended.clone(), script);
        let (seen, connections) = (this.seen.clone(), this.connections.clone());
        let of_udp = state.clone();
        this.threads.push(std::thread::spawn(move || serve_udp(udp, &of_udp, &seen)));
        this.threads.push(std::thread::spawn(move || serve_tcp(&tcp, &state, &connections)));
        this
    }

    /// One that answers at once.
    pub(crate) fn prompt() -> Self {
        Self::start(|asked| vec![Act::Send(asked.answer())])
    }

    /// Questions so far. A busy machine makes servers ask again.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Whether this name was asked for.
    pub(crate) fn knows_of(&self, name: &str) -> bool {
        self.names.lock().unwrap().contains(name)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let failed = thread.join().is_err();
            assert!(!failed || std::thread::panicking(), "the upstream's script failed");
        }
    }
}

type State = (Arc<AtomicUsize>, Arc<AtomicBool>, Script);

fn is_question(message: &Message) -> bool {
    // Health checks ask for the root.
    message.questions.first().is_some_and(|question| !question.qname.view().is_root())
}

fn react(wire: &[u8], from: SocketAddr, (count, _, script): &State) -> Option<Vec<Act>> {
    let message = Message::parse(wire).expect("a question is a message");
    if !is_question(&message) {
        return None;
    }
    let number = count.fetch_add(1, Ordering::SeqCst);
    Some(script(&Asked { wire: wire.to_vec(), message, from, number }))
}

fn serve_udp(socket: UdpSocket, state: &State, seen: &Mutex<Vec<(SocketAddr, u16)>>) {
    let socket = Arc::new(socket);
    let mut buffer = [0; 65_535];
    while !state.1.load(Ordering::SeqCst) {
        let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
        let Some(acts) = react(&buffer[..len], from, state) else { continue };
        seen.lock().unwrap().push((from, u16::from_be_bytes([buffer[0], buffer[1]])));
        let socket = socket.clone();
        perform(acts, move |wire| _ = socket.send_to(wire, from), || {});
    }
}

fn serve_tcp(listener: &TcpListener, state: &State, connections: &Arc<AtomicUsize>) {
    let mut threads = Vec::new();
    while !state.1.load(Ordering::SeqCst) {
        let Ok((stream, from)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        connections.fetch_add(1, Ordering::SeqCst);
        let state = state.clone();
        threads.push(std::thread::spawn(move || serve_stream(&stream, from, &state)));
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

fn serve_stream(stream: &TcpStream, from: SocketAddr, state: &State) {
    stream.set_nonblocking(false).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let writer = Arc::new(Mutex::new(stream.try_clone().unwrap()));
    let mut input = Vec::new();
    let mut buffer = [0; 65_535];
    while !state.1.load(Ordering::SeqCst) {
        match (&mut &*stream).read(&mut buffer) {
            Ok(0) => return,
            Ok(len) => input.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => return,
        }
        while input.len() >= 2 {
            let end = 2 + usize::from(u16::from_be_bytes([input[0], input[1]]));
            if input.len() < end {
                break;
            }
            let acts = react(&input[2..end], from, state).unwrap_or_default();
            input.drain(..end);
            let (writer, other) = (writer.clone(), stream.try_clone().unwrap());
            let send = move |wire: &[u8]| _ = writer.lock().unwrap().write_all(&framed(wire));
            perform(acts, send, move || {
                let socket = socket2::SockRef::from(&other);
                socket.set_linger(Some(Duration::ZERO)).unwrap();
                _ = other.shutdown(std::net::Shutdown::Both);
            });
        }
    }
}

/// Acts at once as far as there is nothing to wait for.
fn perform(
    acts: Vec<Act>,
    send: impl Fn(&[u8]) + Send + 'static,
    reset: impl Fn() + Send + 'static,
) {
    let mut acts = acts.into_iter();
    for act in acts.by_ref() {
        match act {
            Act::Send(wire) => send(&wire),
            Act::Reset => reset(),
            Act::Wait(time) => {
                std::thread::spawn(move || {
                    std::thread::sleep(time);
                    perform(acts.collect(), send, reset);
                });
                return;
            }
            Act::WaitFor(gate) => {
                std::thread::spawn(move || {
                    let start = Instant::now();
                    while !gate.load(Ordering::SeqCst) && start.elapsed() < PATIENCE {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    perform(acts.collect(), send, reset);
                });
                return;
            }
        }
    }
}

/// The same message with another ID.
pub(crate) fn with_id(mut wire: Vec<u8>, id: u16) -> Vec<u8> {
    header::set_id(&mut wire, id);
    wire
}
