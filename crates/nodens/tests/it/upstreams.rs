//! Upstreams with every fault, over real sockets.

use crate::fixture::{framed, read_message};
use nodens_wire::{Class, Flags, Message, Record, Type};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What an upstream does with a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Answers after this long.
    Answers(Duration),
    /// Answers after 1.5 s if the name starts with `slow`, else after 500 ms.
    Uneven,
    /// Accepts connections and datagrams, and never answers.
    Frozen,
    /// Answers, but first sends replies with another ID and another query.
    Babbles,
    /// Closes every connection at the first query.
    Resets,
    /// Answers with as much as a message can hold.
    Fills,
    /// The same, after this long.
    FillsLate(Duration),
    /// Answers over UDP with TC, over TCP in full.
    Truncates,
}

/// A running upstream on loopback.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Upstream {
    pub(crate) fn start(habit: Habit) -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        loop {
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = tcp.local_addr().unwrap();
            let Ok(udp) = UdpSocket::bind(address) else { continue };
            let (count, udp_count) = (asked.clone(), asked.clone());
            std::thread::spawn(move || serve_udp(&udp, habit, &udp_count));
            std::thread::spawn(move || {
                for stream in tcp.incoming().map_while(Result::ok) {
                    let count = count.clone();
                    std::thread::spawn(move || _ = serve_tcp(stream, habit, &count));
                }
            });
            return Self { address, asked };
        }
    }

    /// How many queries arrived.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

/// An address where nothing listens, as long as this process lives: nobody else gets the port.
pub(crate) fn closed() -> SocketAddr {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    std::mem::forget(socket);
    address
}

fn serve_udp(socket: &UdpSocket, habit: Habit, asked: &AtomicUsize) {
    let mut buffer = [0; 65_535];
    while let Ok((len, from)) = socket.recv_from(&mut buffer) {
        asked.fetch_add(1, Ordering::Relaxed);
        let Ok(question) = Message::parse(&buffer[..len]) else { continue };
        let replies = replies(habit, &question, true);
        let socket = socket.try_clone().unwrap();
        let send = move || {
            for reply in replies {
                _ = socket.send_to(&reply, from);
            }
        };
        after(delay(habit, &question), send);
    }
}

fn serve_tcp(mut stream: TcpStream, habit: Habit, asked: &AtomicUsize) -> std::io::Result<()> {
    loop {
        let request = read_message(&mut stream)?;
        asked.fetch_add(1, Ordering::Relaxed);
        let Ok(question) = Message::parse(&request) else { continue };
        if habit == Habit::Resets {
            return Ok(());
        }
        let replies = replies(habit, &question, false);
        let mut stream = stream.try_clone()?;
        after(delay(habit, &question), move || {
            for reply in replies {
                _ = stream.write_all(&framed(&reply));
            }
        });
    }
}

fn delay(habit: Habit, question: &Message) -> Duration {
    let slow = question.questions[0].qname.to_string().starts_with("slow");
    match habit {
        Habit::Answers(delay) | Habit::FillsLate(delay) => delay,
        Habit::Uneven => Duration::from_millis(if slow { 1_500 } else { 500 }),
        _ => Duration::ZERO,
    }
}

fn after(delay: Duration, send: impl FnOnce() + Send + 'static) {
    if delay.is_zero() {
        return send();
    }
    std::thread::spawn(move || {
        std::thread::sleep(delay);
        send();
    });
}

/// What is sent back, in order.
fn replies(habit: Habit, question: &Message, udp: bool) -> Vec<Vec<u8>> {
    let answer = answer(question);
    match habit {
        Habit::Frozen | Habit::Resets => Vec::new(),
        Habit::Answers(_) | Habit::Uneven => vec![bytes(&answer)],
        Habit::Babbles => {
            let mut other_id = answer.clone();
            other_id.id ^= 0x5555;
            let mut other_question = answer.clone();
            other_question.questions[0].qname = "other.example".parse().unwrap();
            vec![vec![0; 5], bytes(&other_id), bytes(&other_question), bytes(&answer)]
        }
        Habit::Fills | Habit::FillsLate(_) if udp => vec![truncated(&answer)],
        Habit::Fills | Habit::FillsLate(_) => {
            let mut full = answer.clone();
            // 16 octets each, the owner compressed.
            full.answer = vec![answer.answer[0].clone(); 4080];
            vec![bytes(&full)]
        }
        Habit::Truncates if udp => vec![truncated(&answer)],
        Habit::Truncates => vec![bytes(&answer)],
    }
}

fn truncated(answer: &Message) -> Vec<u8> {
    let mut cut = answer.clone();
    cut.answer.clear();
    cut.flags = cut.flags.with(Flags::TC, true);
    bytes(&cut)
}

fn answer(question: &Message) -> Message {
    let mut answer = question.clone();
    answer.flags = question.flags.reply().with(Flags::RA, true);
    answer.additional.clear();
    let owner = question.questions[0].qname.clone();
    let (rtype, class, ttl) = (Type::A, Class::IN, 60);
    answer.answer.push(Record { owner, rtype, class, ttl, rdata: vec![192, 0, 2, 1] });
    answer
}

fn bytes(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    message.write(&mut out).unwrap();
    out
}
