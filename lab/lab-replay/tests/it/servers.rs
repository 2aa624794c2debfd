//! A server that says whom it saw, over UDP and TCP.

use crate::recording::response;
use nodens_wire::framing::{framed, read_message};
use nodens_wire::{Message, Rcode};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};

/// Answers with 10.0.0.1, "two" with a second address in front of it, "lost" not at all, and ends the
/// connection on which "end" is asked.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<SocketAddr>>>,
    streams: Arc<Mutex<Vec<Vec<String>>>>,
}

fn first_label(message: &[u8]) -> String {
    let name = Message::parse(message).unwrap().questions[0].qname.to_string();
    name.split('.').next().unwrap().to_lowercase()
}

fn answer(asked: &[u8]) -> Option<Vec<u8>> {
    let one = [10, 0, 0, 1];
    match &*first_label(asked) {
        "lost" | "end" => None,
        "two" => Some(response(asked, Rcode::NOERROR, &[[10, 0, 0, 2], one])),
        _ => Some(response(asked, Rcode::NOERROR, &[one])),
    }
}

impl Server {
    /// Both sockets on one port; the threads live as long as the test does.
    pub(crate) fn start() -> Self {
        let (udp, tcp) = (0..50)
            .find_map(|_| {
                let udp = UdpSocket::bind("0.0.0.0:0").unwrap();
                let tcp =
                    TcpListener::bind(("127.0.0.1", udp.local_addr().unwrap().port())).ok()?;
                Some((udp, tcp))
            })
            .unwrap();
        let address = tcp.local_addr().unwrap();
        let (seen, streams) =
            (Arc::<Mutex<Vec<SocketAddr>>>::default(), Arc::<Mutex<Vec<_>>>::default());
        let all = seen.clone();
        std::thread::spawn(move || {
            let mut room = [0; 4_096];
            while let Ok((len, from)) = udp.recv_from(&mut room) {
                let mut all = all.lock().unwrap();
                if !all.contains(&from) {
                    all.push(from);
                }
                if let Some(answer) = answer(&room[..len]) {
                    udp.send_to(&answer, from).unwrap();
                }
            }
        });
        let all = streams.clone();
        std::thread::spawn(move || {
            for stream in tcp.incoming() {
                let (stream, all) = (stream.unwrap(), all.clone());
                let at = {
                    let mut all = all.lock().unwrap();
                    all.push(Vec::new());
                    all.len() - 1
                };
                std::thread::spawn(move || serve(stream, &all, at));
            }
        });
        Self { address, seen, streams }
    }

    /// Clients over UDP.
    pub(crate) fn clients(&self) -> Vec<SocketAddr> {
        self.seen.lock().unwrap().clone()
    }

    /// What was asked on each connection, by the first labels.
    pub(crate) fn streams(&self) -> Vec<Vec<String>> {
        self.streams.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, all: &Mutex<Vec<Vec<String>>>, at: usize) {
    while let Ok(asked) = read_message(&mut stream) {
        let label = first_label(&asked);
        all.lock().unwrap()[at].push(label.clone());
        match answer(&asked) {
            Some(answer) => stream.write_all(&framed(&answer)).unwrap(),
            None if label == "end" => return,
            None => {}
        }
    }
}
